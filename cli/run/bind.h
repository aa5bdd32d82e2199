// SPDX-License-Identifier: BSD-3-Clause
//
// Which processors each process of a host may use: a share of the cores, or of the NUMA nodes, that are free to use.
#ifndef CLI_RUN_BIND_H
#define CLI_RUN_BIND_H

#include <sched.h>

#include "cli/run/job.h"

// bind_choose writes the processors of process `local` of `count` on this host; false: all, as they are.
bool bind_choose(run_bind how, int local, int count, cpu_set_t *processors);

// bind_share gives process `local` of `count` its part of `units`: [*first, *last), never empty.
void bind_share(int units, int local, int count, int *first, int *last);

// bind_read_list adds the processors of a list as the kernel writes it, such as "0-3,8"; false: it is none.
bool bind_read_list(const char *text, cpu_set_t *processors);

#endif
