// SPDX-License-Identifier: BSD-3-Clause
//
// Standard streams of virtual ranks.  The C library has one stdin, stdout and stderr for the process, to which C++'s streams lead, too.  While a rank
// runs, these three variables are what it has made of them, and a line that it has begun is put aside while others run.
#ifndef WHM_BASE_STREAMS_H
#define WHM_BASE_STREAMS_H

#include "mpi/base/rank.h"

// When a rank lets others run, no more than this is left in the buffer of stdout, which has twice as much room: a line that begins then fits.
enum { WHM_STREAMS_KEPT = 32 << 10 };

extern whm_streams whm_streams_here;  // the process's

// whm_streams_begin notes them, before there are ranks.
void whm_streams_begin(void);

void whm_streams_put_aside(whm_rank *rank);
void whm_streams_put_back(whm_rank *rank);

// These look into the C library's struct: there is a function for the number of bytes, and none for the last one.
static inline size_t whm_streams_kept(void) {
    const FILE *out = whm_streams_here.out;
    return (size_t)(out->_IO_write_ptr - out->_IO_write_base);
}
static inline bool whm_streams_in_line(void) {
    return whm_streams_kept() && whm_streams_here.out->_IO_write_ptr[-1] != '\n';
}

static inline bool whm_streams_changed(void) {
    const whm_streams *p = &whm_streams_here;
    return stdout != p->out || stderr != p->err || stdin != p->in;
}

// whm_streams_leave is for a rank that lets others run, whm_streams_return for when it goes on, in the same process or in another one.  errno stays.
static inline void whm_streams_leave(whm_rank *rank) {
    bool prints = whm_streams_in_line() || whm_streams_kept() > WHM_STREAMS_KEPT;
    if (__builtin_expect(prints || whm_streams_changed(), 0))
        whm_streams_put_aside(rank);
}
static inline void whm_streams_return(whm_rank *rank) {
    if (__builtin_expect(rank->aside, 0))
        whm_streams_put_back(rank);
}

// whm_streams_end is for a rank that has ended: its files are written, and a line without an end is kept for whm_streams_flush.
void whm_streams_end(whm_rank *rank);

// whm_streams_flush writes what the program has printed, before the process ends; the lines that ranks have begun come last.  Also where there is one
// rank.
void whm_streams_flush(void);

// What a rank's program calls instead of the C library's functions.  Of the process's streams, fclose closes none, and freopen makes the rank one of its
// own.
int whm_streams_fclose(FILE *file);
FILE *whm_streams_freopen(const char *path, const char *mode, FILE *file);

#endif
