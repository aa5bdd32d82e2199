// SPDX-License-Identifier: BSD-3-Clause
//
// This process of the job, and how its ranks wait.
//
// The runtime (wherry/rt.h) starts the processes and connects them; MPI uses one PE of each, on the thread that has called MPI_Init, and
// sends active messages of its own over the PE's endpoints.
#ifndef WHM_BASE_PROCESS_H
#define WHM_BASE_PROCESS_H

#include "mpi/base/rank.h"

typedef enum whm_phase { WHM_BEFORE, WHM_RUNNING, WHM_FINALIZED } whm_phase;

typedef struct whm_process {
    whm_phase phase;
    int level;  // MPI_THREAD_*
    wh_rt *rt;
    wh_pe *pe;
    wh_worker *worker;
    int ranks;              // of the job
    int first, local;       // ranks of this process: their numbers begin here, and how many
    whm_rank **rank;        // these
    wh_endpoint **sent_to;  // by rank, those that this process has sent to; NULL: none yet
} whm_process;
extern whm_process whm_process_here;

// whm_process_begin joins the job; an MPI error code.
int whm_process_begin(int level);

// whm_process_end leaves it when all ranks have come so far: `barrier` waits for that, after all that was sent has arrived.
int whm_process_end(int (*barrier)(void));

// whm_process_abort ends this process, and by that the job: the launcher ends the others, and exits with this status (1 for 0).
_Noreturn void whm_process_abort(int status);

// whm_rank_at returns the rank of that number if it is in this process, or NULL.
static inline whm_rank *whm_rank_at(int world) {
    unsigned i = (unsigned)(world - whm_process_here.first);
    return i < (unsigned)whm_process_here.local ? whm_process_here.rank[i] : NULL;
}

// whm_endpoint writes the endpoint to the process of a rank that is not here.  It is opened at first use and lives as long as the process.
int whm_endpoint(int world, wh_endpoint **ep);

// whm_block waits until something has happened that may be what this rank waits for: call it in a loop, while (!x->done) whm_block();
//
// Messages arrive in it, so all that handlers and completions change may be another after it.  A rank that waits for something that
// no message brings is woken by whm_wake.
void whm_block(void);

// whm_progress takes in what has come, without waiting: what the MPI_Test functions do.
void whm_progress(void);

// whm_wake ends the whm_block of a rank, if it is in one.
static inline void whm_wake(whm_rank *rank) {
    if (rank->blocked)
        wh_pe_resume(whm_process_here.pe, &rank->wait);
}

#endif
