// SPDX-License-Identifier: BSD-3-Clause
//
// The file of `wherry run --trace`: the lines of all processes, as one array of JSON that chrome://tracing and Perfetto read.
//
// The two ends of an arrow are lines of two processes.  They are written when both are there, so that no arrow has one end: that of
// a message which nobody has handled when the job ends, or whose sender was killed, is left out.
#ifndef CLI_RUN_TRACE_H
#define CLI_RUN_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/run/buffer.h"

typedef struct trace {
    FILE *file;  // NULL: there is none
    int ranks;
    buffer *lines;  // by rank: one whose end has not come
    void *ends;     // of arrows whose other end has not come: a tree of tsearch
} trace;

// trace_open makes the file; NULL: there is to be none.  False: it cannot be made, errno says why.
bool trace_open(trace *self, int ranks, const char *path);

// trace_add takes what a process has said; whole lines of it are written.
void trace_add(trace *self, int rank, const void *bytes, size_t size);

// trace_close ends the array and the file.  False: not all could be written.
bool trace_close(trace *self);

#endif
