// SPDX-License-Identifier: BSD-3-Clause
//
// What the launcher knows of a job, and what surrounds its loop: the beginning, standard input, and the last of its children.
#ifndef CLI_RUN_LAUNCHER_STATE_H
#define CLI_RUN_LAUNCHER_STATE_H

#include <poll.h>
#include <sys/types.h>

#include "cli/run/family.h"
#include "cli/run/hosts.h"
#include "cli/run/launcher.h"
#include "cli/run/output.h"
#include "cli/run/pmi.h"
#include "cli/run/trace.h"
#include "cli/run/waits.h"

typedef struct run_rank {
    int pid;
    bool ended;
} run_rank;

typedef struct launcher {
    const run_options *options;
    char *folder;  // that it was called in
    char kvs[32];
    run_host *hosts;
    int host_count, hosts_left;
    run_rank *ranks;
    pmi pmi;
    output output;
    trace trace;
    family family;
    int signals;
    bool input_over;
    uint32_t input_on_the_way;
    wait_list waits;  // what ranks say in a dump, until told_at
    bool decided;
    int code;
    int interrupts;    // requests to end
    int64_t asked_at;  // the last one
    bool hurry;        // output that nobody reads is not waited for
    int64_t timeout_at, told_at, dumped_at, greeting_at, end_at, give_up_at, hurry_at;  // 0: never
    struct pollfd *polls;
} launcher;

// launcher_open prepares all but the exchange; false after a complaint.
bool launcher_open(launcher *self, const run_options *options);
void launcher_close(launcher *self);

run_host *launcher_host(const launcher *self, int rank);

// launcher_virtual is how many ranks `mpiexec -vp` has asked for; 0: ranks are processes.
int launcher_virtual(const launcher *self);

// launcher_process is the process that a rank begins in.
int launcher_process(const launcher *self, int rank);

// launcher_name says which process it is, and which ranks of MPI it has where those are virtual.
typedef struct launcher_words {
    char text[160];
} launcher_words;
launcher_words launcher_name(const launcher *self, int rank);

// Standard input goes to rank 0, as fast as that takes it.
bool launcher_wants_input(const launcher *self);
void launcher_read_input(launcher *self);

// launcher_end_family kills what an agent has left to this process when it was lost.
void launcher_end_family(launcher *self);

#endif
