// SPDX-License-Identifier: BSD-3-Clause
//
// What an agent has to start: the ranks first .. first + count - 1 of a job.
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include "cli/run/buffer.h"

#include <stdbool.h>

enum { RUN_RANKS_MAX = 65536 };

typedef enum run_bind { RUN_BIND_AUTO, RUN_BIND_CORE, RUN_BIND_NUMA, RUN_BIND_NONE } run_bind;
#define RUN_BIND_WORDS "auto|core|numa|none"  // in the enumerators' order

typedef struct run_job {
    int size, first, count;
    run_bind bind;
    const char *folder;  // to start in
    char **env;          // NAME=VALUE, and a NULL
    char **argv;         // and a NULL
    char **words;        // of a job that was read: all of them, of which env and argv are parts
} run_job;

// job_write appends the texts of a job.
void job_write(buffer *to, const run_job *job);

// job_read makes a job of foreign bytes, which have to stay; false: they are none.
bool job_read(uint8_t *bytes, size_t size, run_job *job);
void job_free(run_job *job);

#endif
