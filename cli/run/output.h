// SPDX-License-Identifier: BSD-3-Clause
//
// What the processes of a job print, put together: whole lines of each, to the launcher's own output or to files.
#ifndef CLI_RUN_OUTPUT_H
#define CLI_RUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/run/buffer.h"

enum { OUTPUT_OUT, OUTPUT_ERR, OUTPUT_STREAMS };

// A place to write to, by order of what comes, as fast as it takes it.
typedef struct output_sink {
    int fd;
    int error;  // what is written is dropped from then on
    buffer waiting;
} output_sink;

typedef struct output {
    int ranks;
    bool prefix, whole_lines;
    output_sink sinks[OUTPUT_STREAMS];
    buffer (*lines)[OUTPUT_STREAMS];  // of each rank: a line whose end has not come
    int (*files)[OUTPUT_STREAMS];     // of each rank, or NULL
    int file_error;
    void (*heard)(void *arg, int rank, const char *line, size_t size);
    void *heard_arg;
} output;

// output_open prepares for so many processes; `files` is the beginning of the files' names, or NULL.  False, with errno:
// a file cannot be made, or memory is out.
bool output_open(output *self, int ranks, bool prefix, const char *files);
void output_close(output *self);

// output_add takes what a process has printed; no bytes: its stream has ended.
void output_add(output *self, int rank, int stream, const void *bytes, size_t size);

// output_listen has all lines that processes print on standard error shown to `heard`, too, until it is called with NULL.
void output_listen(output *self, void (*heard)(void *, int, const char *, size_t), void *arg);

// output_finish ends all lines.
void output_finish(output *self);

// output_say prints a line of the launcher's, "wherry run: ...", after what is waiting for standard error.
__attribute__((format(printf, 2, 3))) void output_say(output *self, const char *format, ...);

// How many bytes wait to be written; what to wait for, two of them; and to be called when one of those is ready.
size_t output_waiting(const output *self);
void output_poll(const output *self, struct pollfd polls[OUTPUT_STREAMS]);
void output_flush(output *self, const struct pollfd polls[OUTPUT_STREAMS]);

#endif
