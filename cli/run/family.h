// SPDX-License-Identifier: BSD-3-Clause
//
// The processes that this one has started, and theirs: a subreaper inherits those whose parents have ended.
#ifndef CLI_RUN_FAMILY_H
#define CLI_RUN_FAMILY_H

#include <stdbool.h>
#include <sys/types.h>

// Children that this process had before it began: a shell may exec a command after it has started others.
typedef struct family {
    pid_t *strangers;
    int count;
} family;

void family_open(family *self);  // and from now on orphans come to this process
void family_close(family *self);

// family_signal sends a signal to the children, and to the process groups that they lead.
void family_signal(const family *self, int number);

// family_reap takes the status of a child that has ended or was stopped: its id, or 0.  family_is_empty says whether none is
// left.
pid_t family_reap(int *status);
bool family_is_empty(const family *self);

#endif
