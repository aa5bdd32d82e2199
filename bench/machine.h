// SPDX-License-Identifier: BSD-3-Clause
//
// The machine that a figure was measured on: what it is, which cores to use, and who else was busy.
//
// Everything comes from /proc and /sys; what cannot be read stays empty.  Any thread may call these
// functions.
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct bench_machine {
    char cpu[128];
    char kernel[128];
    char host[128];
    char caches[128];  // "L1d 32K, L2 1M, L3 32M", of the first core
    int cores;         // that this process may use
    uint64_t memory;   // bytes
} bench_machine;

void bench_machine_read(bench_machine *machine);

// bench_read_line reads the first line of a file without its line end; false when there is none.
bool bench_read_line(const char *path, char *text, size_t size);

// bench_pick_cores picks two cores of the allowed set that are not hyperthreads of one another.
// With one core only, both are that one and the answer is false.
bool bench_pick_cores(int cores[2]);

// bench_may_use says whether this process may run on `core`; a negative one stands for any.
bool bench_may_use(int core);

// bench_pin keeps the calling thread on `core`; a negative one leaves it free.
bool bench_pin(int core);

// The processor time that the machine and we have used since some moment.
typedef struct bench_load {
    uint64_t at_ns;
    double busy, ours;  // seconds of one core
} bench_load;

// bench_load_read samples the load; `child` is a living child to be counted as ours, or 0.
void bench_load_read(bench_load *load, pid_t child);

// bench_load_others returns what others used between two samples, as a share of one core.
double bench_load_others(const bench_load *from, const bench_load *to);

#endif
