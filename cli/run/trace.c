// SPDX-License-Identifier: BSD-3-Clause
//
// See trace.h.  A line ends with a comma, so that lines of several processes make an array in any order; the last elements, which
// name the processes, are the launcher's own.  What is no line of an event, or the rest of one whose process was killed, is dropped.
#include "cli/run/trace.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 };

// One end of an arrow.  Its id is in its line.
typedef struct arrow_end {
    bool start;
    size_t id_size, size;
    const char *id;
    char line[];
} arrow_end;

bool trace_open(trace *self, int ranks, const char *path) {
    *self = (trace){.ranks = ranks};
    if (!path)
        return true;
    self->lines = calloc((size_t)ranks, sizeof *self->lines);
    self->file = self->lines ? fopen(path, "we") : NULL;
    if (self->file)
        fputs("[\n", self->file);
    return self->file != NULL;
}

// ---- Arrows.

static int compare(const void *one, const void *other) {
    const arrow_end *a = one, *b = other;
    if (a->id_size != b->id_size)
        return a->id_size < b->id_size ? -1 : 1;
    return memcmp(a->id, b->id, a->id_size);
}

// arrow_end_of returns the end that a line is, as src/rt/trace/trace.c writes it; NULL: it is none, or memory is out.
static arrow_end *arrow_end_of(const char *line, size_t size) {
    static const char *const begins[] = {
        "{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"f\",\"bp\":\"e\",\"id\":\"",
        "{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"s\",\"id\":\""};
    for (int start = 0; start < 2; start++) {
        size_t before = strlen(begins[start]);
        if (size <= before || memcmp(line, begins[start], before) != 0)
            continue;
        const char *quote = memchr(line + before, '"', size - before);
        arrow_end *end = quote ? malloc(sizeof(*end) + size) : NULL;
        if (!end)
            return NULL;
        memcpy(end->line, line, size);
        end->start = start;
        end->size = size;
        end->id = end->line + before;
        end->id_size = (size_t)(quote - line) - before;
        return end;
    }
    return NULL;
}

// put_end writes an end with the other one, or keeps it until that comes.
static void put_end(trace *self, arrow_end *end) {
    arrow_end **at = tsearch(end, &self->ends, compare);
    if (!at || *at == end) {
        if (!at)
            free(end);  // without memory for it, the arrow is left out
        return;
    }
    arrow_end *other = *at;
    if (other->start != end->start) {
        fwrite(other->line, 1, other->size, self->file);
        fwrite(end->line, 1, end->size, self->file);
        tdelete(other, &self->ends, compare);
        free(other);
    }
    free(end);
}

static void free_ends(trace *self) {
    while (self->ends) {
        arrow_end *first = *(arrow_end **)self->ends;  // POSIX: a node begins with its element
        tdelete(first, &self->ends, compare);
        free(first);
    }
}

// ---- Lines.

static void put_line(trace *self, const char *line, size_t size) {
    if (size <= 3 || line[0] != '{' || memcmp(line + size - 3, "},\n", 3) != 0)
        return;
    arrow_end *end = arrow_end_of(line, size);
    if (end)
        put_end(self, end);
    else
        fwrite(line, 1, size, self->file);
}

void trace_add(trace *self, int rank, const void *bytes, size_t size) {
    if (!self->file)
        return;
    buffer *kept = &self->lines[rank];
    buffer_add(kept, bytes, size);
    const char *newline;
    while ((newline = memchr(buffer_bytes(kept), '\n', buffer_size(kept)))) {
        size_t line = (size_t)(newline - (const char *)buffer_bytes(kept)) + 1;
        put_line(self, (const char *)buffer_bytes(kept), line);
        buffer_drop(kept, line);
    }
    if (buffer_size(kept) > LINE_MAX_BYTES)
        buffer_drop(kept, buffer_size(kept));
}

bool trace_close(trace *self) {
    if (self->file)
        for (int i = 0; i < self->ranks; i++)
            fprintf(
                self->file,
                "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}%s\n",
                i, i, i + 1 < self->ranks ? "," : "\n]");
    bool good = !self->file || !ferror(self->file);
    if (self->file && fclose(self->file) != 0)
        good = false;
    for (int i = 0; self->lines && i < self->ranks; i++)
        buffer_free(&self->lines[i]);
    free(self->lines);
    free_ends(self);
    *self = (trace){0};
    return good;
}
