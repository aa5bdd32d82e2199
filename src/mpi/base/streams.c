// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"

whm_streams whm_streams_here;

// The three variables of the C library, and what they are for the process.
static const struct {
    FILE **name, **shared;
} streams[] = {
    {&stdin, &whm_streams_here.in},
    {&stdout, &whm_streams_here.out},
    {&stderr, &whm_streams_here.err},
};
enum { STREAMS = sizeof(streams) / sizeof(streams[0]) };

void whm_streams_begin(void) {
    static char room[2 * WHM_STREAMS_KEPT];
    whm_streams_here = (whm_streams){stdin, stdout, stderr};
    (void)setvbuf(stdout, room, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(room));
}

static void use(const whm_streams *s) {
    stdin = s->in;
    stdout = s->out;
    stderr = s->err;
}

// take_line has the process's stream forget the line that has begun, and the rank keep it.
static void take_line(whm_rank *rank) {
    FILE *out = whm_streams_here.out;
    flockfile(out);
    const char *begin = out->_IO_write_base, *end = out->_IO_write_ptr;
    const char *newline = memrchr(begin, '\n', (size_t)(end - begin));
    size_t size = newline ? (size_t)(end - newline) - 1 : (size_t)(end - begin);
    // A wide stream has them elsewhere.  Without memory others print within the line.
    rank->line = out->_mode > 0 ? NULL : whm_malloc_for(rank, size);
    if (rank->line) {
        rank->line_size = size;
        out->_IO_write_ptr -= size;
        memcpy(rank->line, out->_IO_write_ptr, size);
    }
    funlockfile(out);
}

static void print_line(whm_rank *rank) {
    if (rank->line)
        (void)fwrite(rank->line, 1, rank->line_size, whm_streams_here.out);
    free(rank->line);
    rank->line = NULL;
}

void whm_streams_put_aside(whm_rank *rank) {
    int error = errno;
    if (whm_streams_in_line())
        take_line(rank);
    if (whm_streams_kept() > WHM_STREAMS_KEPT)
        (void)fflush(whm_streams_here.out);
    rank->streams = (whm_streams){stdin, stdout, stderr};
    use(&whm_streams_here);
    rank->aside = true;
    errno = error;
}

void whm_streams_put_back(whm_rank *rank) {
    int error = errno;
    rank->aside = false;
    use(&rank->streams);
    print_line(rank);
    errno = error;
}

void whm_streams_end(whm_rank *rank) {
    for (int i = 0; i < STREAMS; i++)
        if (*streams[i].name != *streams[i].shared)
            (void)fflush(*streams[i].name);
    use(&whm_streams_here);
    if (whm_streams_in_line())
        take_line(rank);
}

void whm_streams_flush(void) {
    const whm_process *p = &whm_process_here;
    if (!p->virtual) {
        (void)fflush(stdout);
        return;
    }
    bool begun = whm_streams_in_line();
    for (int i = 0; p->rank && i < p->local; i++) {
        whm_rank *rank = p->rank[i];
        if (!rank || !rank->line)
            continue;
        if (begun)
            (void)putc('\n', whm_streams_here.out);
        print_line(rank);
        begun = true;
    }
    (void)fflush(NULL);
}

// ---- What a rank's program calls.

static bool is_shared(const FILE *file) {
    const whm_streams *p = &whm_streams_here;
    return file == p->in || file == p->out || file == p->err;
}

// find returns which of the rank's streams a file is; STREAMS: none.
static int find(const FILE *file) {
    int i = 0;
    while (i < STREAMS && *streams[i].name != file)
        i++;
    return i;
}

int whm_streams_fclose(FILE *file) {
    if (is_shared(file))
        return fflush(file);
    int which = find(file);
    if (which < STREAMS)
        *streams[which].name = *streams[which].shared;
    return fclose(file);
}

// for_rank returns an open file in the place of one of the rank's streams.
static FILE *for_rank(const char *path, const char *mode, FILE *file, int which) {
    if (is_shared(file)) {
        FILE *made = fopen(path, mode);
        if (made)
            (void)fflush(file);  // what is there stays in front of what others print
        return made;
    }
    *streams[which].name = *streams[which].shared;
    return freopen(path, mode, file);
}

FILE *whm_streams_freopen(const char *path, const char *mode, FILE *file) {
    const whm_process *p = &whm_process_here;
    int which = find(file);
    bool alone = p->local == 1 && !p->home;
    if (!path || which == STREAMS || (alone && is_shared(file)))
        return freopen(path, mode, file);
    FILE *made = for_rank(path, mode, file, which);
    if (!made)
        return NULL;
    if (streams[which].name == &stderr)
        (void)setvbuf(made, NULL, _IONBF, 0);
    return *streams[which].name = made;
}
