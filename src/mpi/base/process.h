// SPDX-License-Identifier: BSD-3-Clause
//
// This process of the job, and how its ranks wait.
//
// The runtime (wherry/rt.h) starts the processes and connects them; MPI uses one PE of each, on the thread that has called MPI_Init, and
// sends active messages of its own over the PE's endpoints.
#ifndef WHM_BASE_PROCESS_H
#define WHM_BASE_PROCESS_H

#include "mpi/base/rank.h"

// What messages to another process go by.
typedef struct whm_way {
    wh_endpoint *ep;  // NULL: nothing was sent to it
    bool connected;   // it has answered: messages go without this process coming back for them
} whm_way;

typedef struct whm_process {
    int level;     // MPI_THREAD_*
    bool guarded;  // calls begin and end with more than their names (base/lock.h)
    wh_rt *rt;
    wh_pe *pe;
    wh_worker *worker;
    bool virtual;  // ranks are user-level threads (src/mpi/vp); else there is one, the thread that has called MPI_Init
    int processes;
    int ranks;         // of the job
    int first, local;  // ranks of this process: their numbers begin here, and how many
    whm_rank **rank;   // these
    int *
        home;  // of ranks that move: the process of each; NULL: they stay where they were dealt out to
    // Of ranks that move: when the one that runs began, of CLOCK_MONOTONIC; 0: the next to run will look.
    int64_t runs_since_ns;
    // From now on the program's malloc takes from this heap, NULL: from the process's.
    void (*use_heap)(struct whm_heap *heap);
    uint64_t started;  // messages and answers so far,
    int under_way;     // and those of them that use memory of ranks,
    uint64_t moving;   // so many bytes of it
    unsigned events;   // whm_wake so far
    bool bereft;       // another process was lost
    bool stays;        // and then this one goes on (WHERRYRUN_NO_CLEANUP)
    bool *gone;        // by process: it was lost; of a job that goes on, else NULL
    unsigned losses;   // of these
    // Of virtual ranks: the exceptions that the C++ runtime counts as handled by their thread, a pointer and a number; NULL: there is no C++ here.
    void **handled;
    struct whm_way *to;  // by process
    int early;           // whm_notify so far to processes that this one is not connected to yet
} whm_process;
extern whm_process whm_process_here;

// whm_process_begin joins the job with one rank, whm_self, in each process; an MPI error code.  Nothing happens when it has joined already.
int whm_process_begin(int level);

// whm_process_level sets the thread level.
void whm_process_level(int level);

// whm_process_join does so for `ranks` ranks of the job, dealt out in blocks: those of this process are made by the caller.  0: one for each
// process.
int whm_process_join(int ranks);

// whm_process_spread has ranks move from now on: `home` says where each is, and whm_process_here.rank has a place for each of the job.  Both belong to the
// process.
void whm_process_spread(int *home, whm_rank **rank);

// whm_process_stack returns how many bytes the stack of a virtual rank is to have.
size_t whm_process_stack(void);

// whm_process_flush waits until what this process has sent has been taken in by those that it went to.
int whm_process_flush(void);

// whm_process_end leaves the job.  All ranks of all processes have nothing more to say.
int whm_process_end(void);

// whm_tells_of_loss says whether the engine has answered so because a process is gone: all of a job are there from the beginning.
static inline bool whm_tells_of_loss(wh_status status) {
    return status == WH_EPEER || status == WH_EREFUSED || status == WH_EUNREACHABLE ||
           status == WH_ECLOSED;
}

// whm_process_lost is called with what the engine has answered: whether it tells that another process was lost.
static inline void whm_process_lost(wh_status status) {
    whm_process_here.bereft = whm_process_here.bereft || whm_tells_of_loss(status);
}

// whm_fail_status is whm_fail for what the engine answered, which may be that another process was lost; `what` is what was tried.
int whm_say_status(wh_status status, const char *what);
static inline int whm_fail_status(wh_status status, const char *what) {
    int code = whm_say_status(status, what);
    return code != MPI_SUCCESS ? code : MPI_ERR_OTHER;
}

// whm_hint_of returns what to add to a status's text: what it is most often, or nothing.
const char *whm_hint_of(wh_status status);

// Where the job goes on without processes that were lost, each folder ends what waits for them in a function that it gives to
// whm_on_loss, once; it is called for each loss, and all ranks look again then.
typedef struct whm_mourner whm_mourner;
struct whm_mourner {
    void (*fn)(void);
    whm_mourner *next;
};
void whm_on_loss(whm_mourner *mourner);

// whm_is_gone says whether the process of a rank was lost, of a job that goes on.
bool whm_is_gone(int world);

// whm_gone_rank is whm_fail for what cannot be done, or does not end, because the process of that rank is gone.
int whm_gone_rank(int rank);

// whm_process_give_way waits half a second where another process was lost: the launcher, which knows which one and why, says so and ends
// this one meanwhile.  Else the job would have the status of who noticed, and not of who failed.
void whm_process_give_way(void);

// whm_process_abort ends this process, and by that the job: the launcher ends the others, and exits with this status (1 for 0).
_Noreturn void whm_process_abort(int status);

// whm_process_no_memory ends it, too, where memory cannot be had in the middle of a collective call: the others would wait for this rank for
// ever, and hear of the loss instead.
_Noreturn void whm_process_no_memory(void);

// whm_job_abort ends the job, also where it would go on without this process.
_Noreturn void whm_job_abort(int status);

// whm_rank_at returns the rank of that number if it is in this process, or NULL.
static inline whm_rank *whm_rank_at(int world) {
    unsigned i = (unsigned)(world - whm_process_here.first);
    return i < (unsigned)whm_process_here.local ? whm_process_here.rank[i] : NULL;
}

// whm_endpoint writes the endpoint to the process of a rank that is not here.  It is opened at first use and lives as long as the process.
int whm_endpoint(int world, wh_endpoint **ep);

// whm_connected returns the endpoint if whm_endpoint has found it connected, or NULL.
wh_endpoint *whm_connected(int world);

// whm_notify sends a small message that nothing here waits for.
//
// Who leaves the library may not come back for long, and then a message that waits for its connection would wait as long: a call that may
// block ends with whm_settle_notes.
wh_status whm_notify(wh_endpoint *ep, uint16_t id, const void *head, size_t size);

// whm_block waits until something has happened that may be what this rank waits for: call it in a loop, while (!x->done) whm_block();
//
// Messages arrive in it, so all that handlers and completions change may be another after it.  A rank that waits for something that
// no message brings is woken by whm_wake.
void whm_block(void);

// whm_block_until does so until *done: of several threads, this one sleeps meanwhile, whatever else happens.
void whm_block_until(const bool *done);

// whm_settle_notes waits until connections are there to all that whm_notify was for.
static inline void whm_settle_notes(void) {
    while (__builtin_expect(whm_process_here.early > 0, 0))
        whm_block();
}

// whm_look does what is worth doing before whm_block where something is awaited that no message brings: others may run meanwhile, and if
// ready(arg) becomes true it says so.
bool whm_look(bool (*ready)(const void *arg), const void *arg);

// whm_progress takes in what has come, without waiting, and lets other ranks of the process run: what the MPI_Test functions do.
void whm_progress(void);

// whm_run_ends and whm_run_begins stand around what a virtual rank does not run in.  Where one rank goes on when another waits, the clock is read once.
void whm_run_ends(whm_rank *rank);
void whm_run_begins(void);

// What the C++ runtime keeps for a thread, and a virtual rank has of its own: the exceptions that are being handled.
typedef struct whm_handled {
    void *caught;
    uintptr_t uncaught;
} whm_handled;
whm_handled whm_handled_get(void);
void whm_handled_set(whm_handled to);

// whm_wake ends the whm_block of a rank, if it is in one.  Who changes what a rank may wait for calls it: threads, too, look again then.
static inline void whm_wake(whm_rank *rank) {
    whm_process_here.events++;
    if (rank->blocked)
        wh_pe_resume(whm_process_here.pe, &rank->wait);
}

#endif
