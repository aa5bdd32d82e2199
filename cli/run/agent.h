// SPDX-License-Identifier: BSD-3-Clause
//
// The agent of `wherry run` on a host: it starts the processes there and carries what they say.
#ifndef CLI_RUN_AGENT_H
#define CLI_RUN_AGENT_H

#include <stdbool.h>

// agent_files returns how many descriptors an agent of `count` processes needs.
int agent_files(int count, bool trace);

// agent_run serves a launcher over standard input and output until no process is left; an exit code.
int agent_run(void);

#endif
