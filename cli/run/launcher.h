// SPDX-License-Identifier: BSD-3-Clause
//
// The launcher of `wherry run`: agents on the hosts, the exchange of the processes, their output, and the end of all.
#ifndef CLI_RUN_LAUNCHER_H
#define CLI_RUN_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/run/job.h"

typedef struct run_options {
    int size;                  // processes
    const char *const *hosts;  // names
    int per_host;              // processes on each, the last may have fewer
    char *const *rsh;          // words, up to a NULL; NULL: ssh
    run_bind bind;
    char **env;          // NAME=VALUE, up to a NULL
    const char *output;  // the beginning of files' names, or NULL
    const char *trace;   // the file of the timeline, or NULL
    bool prefix;
    bool no_cleanup;     // when a process fails the others go on
    bool dump;           // the processes print what they wait for when they get SIGUSR1
    int64_t timeout_ms;  // 0: none
    int64_t kill_after_ms;
    char **argv;
} run_options;

// launcher_run runs a job to its end; an exit code.
int launcher_run(const run_options *options);

#endif
