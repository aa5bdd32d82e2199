// SPDX-License-Identifier: BSD-3-Clause
//
// The hosts of a job, and an agent on each.
#ifndef CLI_RUN_HOSTS_H
#define CLI_RUN_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/run/link.h"

typedef struct run_host {
    const char *name;
    int first, count;  // of its ranks
    pid_t pid;         // of the agent, or of what has started it elsewhere
    run_link link;
    bool greeted;   // the agent has said who it is
    bool gone;      // nothing of the job is left there, as far as can be known
    uint32_t owed;  // bytes that the agent has not been told of
} run_host;

// hosts_start starts an agent: a child of this process, or through `rsh`, words up to a NULL, on another host.  False, with
// errno.
bool hosts_start(run_host *self, char *const *rsh);

// hosts_end_text says why an agent has gone, as far as the end of the process that stood for it tells.
void hosts_end_text(const run_host *self, char *text, size_t size);

// hosts_is_here says whether a name is this host's.
bool hosts_is_here(const char *name);

// hosts_mapping writes which ranks share a host, as PMI_process_mapping has it.
void hosts_mapping(int ranks, int per_host, char *text, size_t size);

#endif
