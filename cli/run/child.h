// SPDX-License-Identifier: BSD-3-Clause
//
// A process of the job, as its agent sees it: its id, its end, and the pipes to it.
#ifndef CLI_RUN_CHILD_H
#define CLI_RUN_CHILD_H

#include <sys/resource.h>
#include <sys/types.h>

#include "cli/run/buffer.h"
#include "cli/run/job.h"

enum { CHILD_OUT, CHILD_ERR, CHILD_TRACE, CHILD_STREAMS };

enum {
    CHILD_FOLDER = 1 << 16,  // in an error's number: of the folder, not of the program
    CHILD_FILES =
        1 << 30,  // it is no error's number but the limit of open files, which is too small
};

typedef struct child {
    int rank;
    pid_t pid;    // 0: not started, or ended
    int pmi, in;  // -1: closed
    int streams[CHILD_STREAMS];
    bool asked;    // an answer of PMI-1 is due
    bool in_over;  // the input ends after what is unsent
    buffer asking, answers, input;
} child;

// child_start starts the program of a job; 0, or the error's number, after which there is nothing to close.
int child_start(child *self, const run_job *job, int rank, const struct rlimit *files);

// child_wants_trace: `wherry run --trace` says so by a variable for the job.
bool child_wants_trace(char *const *env);

// child_files returns how many descriptors an agent needs that starts `count` processes, if it has begun with the standard ones.
int child_files(int count, bool trace);

// child_close closes what is still open.
void child_close(child *self);
void child_close_fd(int *fd);

#endif
