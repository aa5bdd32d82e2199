// SPDX-License-Identifier: BSD-3-Clause
//
// Child processes of a benchmark: started on a core, read with a time limit, always ended.
//
// A child dies with its parent, so that an interrupted benchmark leaves nothing behind; one that has
// children of its own gets a group, which ends as a whole.  One thread uses a child; who starts it ends
// it with bench_child_end.
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct bench_child {
    pid_t pid;   // 0: none
    int out;     // what it writes to standard output
    int in;      // what it reads from standard input; -1: ours
    bool group;  // it leads a process group
} bench_child;

typedef struct bench_spawn {
    const char *const *argv;   // NULL-terminated; argv[0] is a path or is searched in PATH
    const char *const *extra;  // "NAME=value" added to the environment, NULL-terminated, or NULL
    int core;                  // to run on; -1: anywhere
    bool quiet;                // its standard error goes nowhere
    bool input;                // it gets a standard input for bench_child_write
    bool group;                // it and what it starts are a process group, which ends with it
} bench_spawn;

// bench_child_start starts a process.  False when that failed; a program that does not exist shows
// later, as exit status 127.
bool bench_child_start(bench_child *child, const bench_spawn *spawn);

// bench_child_runs says whether the process has not ended yet.
bool bench_child_runs(const bench_child *child);

// bench_child_write writes to its standard input; false when it does not read any more.
bool bench_child_write(bench_child *child, const char *text, size_t size);

// bench_child_line reads one line without its line end; false at the end or when time is up.
bool bench_child_line(bench_child *child, char *text, size_t size, int timeout_ms);

// bench_child_output reads all that is still to come, and returns whether the end came in time; what
// does not fit is dropped.
bool bench_child_output(bench_child *child, char *text, size_t size, int timeout_ms);

// bench_child_end waits for the end, kills the process when `timeout_ms` is over, kills what is left of
// its group, and returns its exit status, or -1 when it died of a signal.  A child that was never
// started is 0.
int bench_child_end(bench_child *child, int timeout_ms);

// bench_child_kill_groups kills all groups.  For a handler of the signal that ends this process: a
// terminal's does not reach them.
void bench_child_kill_groups(void);

#endif
