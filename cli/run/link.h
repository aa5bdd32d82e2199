// SPDX-License-Identifier: BSD-3-Clause
//
// A connection between the launcher and an agent, which never blocks.
#ifndef CLI_RUN_LINK_H
#define CLI_RUN_LINK_H

#include <poll.h>

#include "cli/run/frame.h"

typedef struct run_link {
    int in, out;  // may be the same
    buffer received, unsent;
} run_link;

run_link link_open(int in, int out);

// link_fill reads what has come, link_flush writes what goes; false: the other end has gone.
bool link_fill(run_link *self);
bool link_flush(run_link *self);

// link_next takes a frame out of what was received: 1, 0 for none yet, -1 for what is none.  Its bytes stay until the next
// link_fill.
int link_next(run_link *self, frame *next);

#endif
