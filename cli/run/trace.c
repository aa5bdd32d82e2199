// SPDX-License-Identifier: BSD-3-Clause
//
// See trace.h.  A line ends with a comma, so that lines of several processes make an array in any order; the last elements, which
// name the processes, are the launcher's own.  What is no line of an event, or the rest of one whose process was killed, is dropped.
#include "cli/run/trace.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 };

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

static void put_line(trace *self, const char *line, size_t size) {
    if (size > 3 && line[0] == '{' && memcmp(line + size - 3, "},\n", 3) == 0)
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
    *self = (trace){0};
    return good;
}
