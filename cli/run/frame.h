// SPDX-License-Identifier: BSD-3-Clause
//
// What the launcher and its agents say to each other: frames {type, rank, length, bytes}.
//
// The head is 12 bytes: 'w', 'r', the type, 0, and rank and length of 32 bits each, little end first.  Whoever reads
// checks: the other end may be a shell that prints something of its own.
#ifndef CLI_RUN_FRAME_H
#define CLI_RUN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/run/buffer.h"

// Up: from an agent to the launcher; down: to an agent.
typedef enum frame_type {
    FRAME_HELLO,    // up, first: FRAME_GREETING and the agent's version of this protocol
    FRAME_JOB,      // down, once: what to start (job.h)
    FRAME_STARTED,  // up: a process and its id
    FRAME_REFUSED,  // up: a process that could not be started, and the error's number
    FRAME_PMI,      // up: a line of a process; down: the answer, of no byte where PMI-1 has none
    FRAME_IN,       // down: standard input of a process; no byte: its end
    FRAME_OUT,      // up: standard output; no byte: its end
    FRAME_ERR,      // up: standard error; no byte: its end
    FRAME_CREDIT,   // both ways: so many bytes of OUT, ERR and TRACE, or of IN, have been passed on
    FRAME_SIGNAL,   // down: a signal for all processes
    FRAME_END,      // down: SIGTERM for all processes, and SIGKILL after so many milliseconds
    FRAME_EXITED,   // up: a process has ended, with the status that wait() gives
    FRAME_STOPPED,  // up: a process was stopped by a signal
    FRAME_GONE,     // up, last: no process is left
    FRAME_TRACE,    // up: lines of a timeline; no byte: their end
    FRAME_TYPES,
} frame_type;

#define FRAME_GREETING "wherry run 1"

enum {
    FRAME_HEAD_SIZE = 12,
    FRAME_DATA_MAX = 64 << 10,  // bytes of a process's input or output
    FRAME_LINE_MAX = 4096,      // bytes of a line of PMI-1: a value of 1,024 and a name, and room
    FRAME_JOB_MAX = 8 << 20,    // arguments and environment; a kernel takes 6 MiB of them
    FRAME_WINDOW = 256 << 10,   // bytes of data that the sender may have on the way
};

typedef struct frame {
    frame_type type;
    uint32_t rank;
    uint32_t size;
    const uint8_t *bytes;
} frame;

// frame_read reads the frame that `bytes` begin with: its whole size, 0 when more bytes are needed, -1 when it is none.
int frame_read(const uint8_t *bytes, size_t size, frame *read);

// frame_write appends one.
void frame_write(buffer *to, frame_type type, uint32_t rank, const void *bytes, size_t size);

// A frame of one number.
void frame_write_number(buffer *to, frame_type type, uint32_t rank, uint32_t number);
uint32_t frame_number(const frame *read);

#endif
