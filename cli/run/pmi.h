// SPDX-License-Identifier: BSD-3-Clause
//
// The server of PMI-1, by which the processes of a job learn of each other: a store of texts, and a barrier.
//
// It takes lines of processes, which are foreign, and says answers; it knows nothing of where either goes.  Each line has
// one answer, sooner or later, so that a process never has two on the way; an empty one where PMI-1 has none.
#ifndef CLI_RUN_PMI_H
#define CLI_RUN_PMI_H

#include <stdbool.h>
#include <stddef.h>

#define PMI_PROGRAM "wherry_program"

enum {
    PMI_NAME_MAX = 64,          // with the end, as the protocol counts
    PMI_VALUE_MAX = 1024,       // likewise
    PMI_STORE_SHARE = 1 << 20,  // bytes that the store may have for each process of the job
    PMI_COMPLAINT_MAX = 256,
};

typedef enum pmi_verdict {
    PMI_FINE,
    PMI_ABORT,    // a process asks that the job ends with pmi.exit_code
    PMI_STRANGE,  // what a process says is no PMI-1: pmi.complaint
} pmi_verdict;

// pmi_say_fn gets an answer for a process, with its newline.
typedef void (*pmi_say_fn)(int rank, const char *text, size_t size, void *arg);

typedef struct pmi_process {
    bool begun;     // it has said init
    bool ended;     // and finalize
    bool waiting;   // in the barrier
    bool left;      // it will not come to a barrier any more
    bool spawning;  // in a request of several lines
    int program;    // which of `mpiexec A : B` it is, as run-part has said before it became that
} pmi_process;

struct pmi_entry;

typedef struct pmi {
    int size;
    int waiting;  // processes in the barrier
    bool
        ours;  // a process has put a value in the way of this library: it is no program of another MPI
    pmi_process *processes;
    struct pmi_entry **table;
    size_t table_size, stored;
    char kvs[64];
    pmi_say_fn say;
    void *arg;
    int exit_code;
    char complaint[PMI_COMPLAINT_MAX];
} pmi;

// pmi_open makes the store of a job of `size`.  `mapping` tells processes which of them share a host: a list of
// "(first host,hosts,processes per host)" with commas between.  False: no memory.
bool pmi_open(pmi *self, int size, const char *name, const char *mapping, pmi_say_fn say,
              void *arg);
void pmi_close(pmi *self);

// pmi_line does what a process asks for.  `line` ends in a zero, without a newline, and is changed.
pmi_verdict pmi_line(pmi *self, int rank, char *line);

// pmi_left says that a process has ended; PMI_STRANGE when others wait for it in vain.
pmi_verdict pmi_left(pmi *self, int rank);

// Whether a process has begun and not said that it is done; whether it has said so.
bool pmi_is_in(const pmi *self, int rank);
bool pmi_is_done(const pmi *self, int rank);

// Whether it waits in the barrier.
bool pmi_is_waiting(const pmi *self, int rank);

#endif
