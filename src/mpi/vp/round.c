// SPDX-License-Identifier: BSD-3-Clause
//
// Rounds: all ranks of the job are parked, and some change their process.
//
// No rank runs meanwhile.  What is under way is brought to an end first: messages that have come lie in their ranks' memory then, and nothing is between
// processes, so none can be lost or overtaken, whoever moves.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wherry/coll.h>

#include "mpi/base/lock.h"
#include "mpi/base/wait.h"
#include "mpi/mpix/wherry_mpix.h"
#include "mpi/p2p/p2p.h"
#include "mpi/vp/movable.h"
#include "mpi/vp/plan.h"

// sum adds a number of each process up.
static int64_t sum(int64_t mine) {
    return whm_processes_agree(mine, WH_REDUCE_SUM);
}

static void step(void) {
    if (!wh_pe_step(whm_process_here.pe))
        whm_process_abort(1);
}

// ---- Coming to rest.

// come_to_rest returns when nothing of MPI is between processes, and nothing here uses memory of ranks.  What completes may begin something, as
// collectives under way do: it is over when nobody has begun anything since the last time.
static void come_to_rest(void) {
    whm_process *p = &whm_process_here;
    int64_t before;
    do {
        before = (int64_t)p->started;
        if (whm_process_flush() != MPI_SUCCESS)
            whm_refuse_run("%s", whm_self->sentence);
        (void)sum(0);  // all have flushed: what was sent has come
        for (int i = 0; i < p->ranks; i++)
            if (p->rank[i])
                whm_store_all(p->rank[i]);
        while (p->under_way || p->early)
            step();
    } while (sum((int64_t)p->started - before));
}

// ---- Who goes where.

static bool in_place(const whm_mover *who, const void *at) {
    return (uintptr_t)at - (uintptr_t)who->place < whm_movable_here.layout.size;
}

// handles tells whether signals come to functions of this rank, or to a stack of its own.
static bool handles(const whm_mover *who) {
    struct sigaction is;
    stack_t stack;
    for (int i = 1; i < NSIG; i++) {
        void *at;
        if (sigaction(i, NULL, &is))
            continue;
        memcpy(&at, &is.sa_handler, sizeof(at));
        if (in_place(who, at))
            return true;
    }
    return sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE) &&
           in_place(who, stack.ss_sp);
}

// has_threads tells whether the program has threads here.  One that has been joined may be there for a moment yet.
static bool has_threads(void) {
    const struct timespec moment = {.tv_nsec = 200000};
    for (int i = 0; i < 20; i++) {
        if (whm_threads() <= whm_movable_here.threads)
            return false;
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

// refusal says why a rank cannot move; NULL: it can.
static const char *refusal(const whm_mover *who, bool threads) {
    const whm_rank *rank = &who->rank;
    const char *kept = whm_movable_here.joint->keeps(rank->heap);
    return rank->objects[WHM_WIN]    ? "it has windows"
           : rank->objects[WHM_FILE] ? "it has files of MPI open"
           : kept                    ? kept
           : handles(who)            ? "it handles signals"
           : threads                 ? "its process has threads of the program's"
                                     : NULL;
}

typedef struct asked {  // of a rank, as all processes know it; numbers that a double has exactly
    double load, wish, process, movable;
} asked;

// exchange returns what each rank asks for.  Each process fills in its ranks, and the sums are what all have filled in.
static asked *exchange(void) {
    enum { WORDS = sizeof(asked) / sizeof(double) };
    int ranks = whm_process_here.ranks;
    bool threads = has_threads();
    asked *mine = whm_for_ranks(sizeof(asked)), *all = whm_for_ranks(sizeof(asked));
    for (int i = 0; i < ranks; i++) {
        const whm_mover *who = whm_movable_here.here[i];
        if (who && !who->ended)
            mine[i] = (asked){whm_load(who), who->wish, who->process, !refusal(who, threads)};
    }
    whm_need(wh_coll_allreduce_wait(whm_movable_here.team, mine, all, (size_t)ranks * WORDS,
                                    wh_type_basic(WH_TYPE_DOUBLE),
                                    WH_REDUCTION(.op = WH_REDUCE_SUM), -1),
             "the processes cannot tell each other of their ranks");
    free(mine);
    return all;
}

// all_wish says whether all ranks of the job wish the same.
static bool all_wish(const asked *all, whm_wish wish) {
    int n = 0;
    while (n < whm_process_here.ranks && all[n].wish == wish)
        n++;
    return n == whm_process_here.ranks;
}

// plan has ranks balanced that want to be.
static void plan(const asked *all, int *home) {
    const whm_process *p = &whm_process_here;
    double *load = whm_for_ranks(sizeof(*load));
    unsigned char *movable = whm_for_ranks(1);
    for (int i = 0; i < p->ranks; i++) {
        load[i] = all[i].load;
        movable[i] = all[i].movable && all[i].wish == WHM_WISH_BALANCE;
    }
    whm_plan(p->ranks, p->processes, load, movable, home);
    free(load);
    free(movable);
}

// decide fills in where each rank is after the round; the same in all processes.
static void decide(const asked *all, int *home) {
    const whm_process *p = &whm_process_here;
    bool balances = false;
    for (int i = 0; i < p->ranks; i++) {
        bool goes = all[i].wish == WHM_WISH_GO && all[i].movable;
        home[i] = goes ? (int)all[i].process : p->home[i];
        balances = balances || all[i].wish == WHM_WISH_BALANCE;
    }
    if (balances)
        plan(all, home);
}

// ---- Going there.

static wh_endpoint *way_to(int process) {
    wh_endpoint *ep;
    whm_need(wh_pe_endpoint(whm_process_here.pe, process, &ep), "there is no way to a process");
    return ep;
}

// Ranks go one after the other, in the same order everywhere, so that at each time somebody receives what somebody sends.
static int go(const int *home) {
    whm_process *p = &whm_process_here;
    int self = wh_rt_rank(p->rt), moved = 0;
    for (int i = 0; i < p->ranks; i++) {
        if (home[i] == p->home[i])
            continue;
        moved++;
        if (p->home[i] == self)
            whm_ship(i, way_to(home[i]));
        else if (home[i] == self)
            whm_unship(i);
        p->home[i] = home[i];
    }
    return moved;
}

// is_here says whether a rank is in this process and has not ended.
static bool is_here(int world) {
    const whm_mover *who = whm_movable_here.here[world];
    return who && !who->ended;
}

// save has the job written where its ranks want it, which is the same place.
static bool save(void) {
    const whm_mover *some = NULL;
    for (int i = 0; i < whm_process_here.ranks && !some; i++)
        if (is_here(i))
            some = whm_movable_here.here[i];
    // A process without ranks takes part all the same.
    return whm_save(some ? some->folder : "");
}

static void end_round(int moved, bool saved) {
    whm_movable *m = &whm_movable_here;
    m->asking = 0;
    whm_process_here.runs_since_ns = 0;
    for (int i = 0; i < whm_process_here.ranks; i++) {
        whm_mover *who = m->here[i];
        if (!who || who->ended)
            continue;
        if (who->wish == WHM_WISH_BALANCE) {
            who->rank.computed_ns = 0;
            who->load_said = false;
            who->process = moved;
        }
        who->error = (who->wish == WHM_WISH_GO && who->process != whm_process_here.home[i]) ||
                     (who->wish == WHM_WISH_SAVE && !saved);
        if (who->seat)
            wh_pe_resume(whm_process_here.pe, &who->seat->wait);
        else
            whm_seat_take(who);
    }
}

bool whm_round(void) {
    int64_t alive = sum(whm_movable_here.alive);
    if (!alive)
        return false;
    whm_self = whm_movable_here.nobody;
    fflush(stdout);
    come_to_rest();
    // All of the job, or it is none.
    asked *all = exchange();
    bool saved = all_wish(all, WHM_WISH_SAVE) && save();
    int *home = whm_for_ranks(sizeof(*home));
    decide(all, home);
    int moved = go(home);
    free(all);
    free(home);
    (void)sum(0);  // a message for a rank that has moved finds it
    end_round(moved, saved);
    return true;
}

// ---- What ranks ask for.

static whm_mover *asks(const char *call, whm_wish wish, int process) {
    whm_mover *me = (whm_mover *)whm_self;
    me->wish = wish;
    me->process = process;
    me->error = 0;
    me->rank.call = call;  // for whm_dump
    me->rank.waits_since_ms = 0;
    whm_wait_note();
    whm_park(me);
    me->rank.call = NULL;
    me->rank.waits_since_ms = 0;
    return me;
}

static int answer(const char *call, int code) {
    if (code != MPI_SUCCESS)
        fprintf(stderr, "MPI rank %d: %s: %s\n", whm_self->world, call, whm_self->sentence);
    return code;
}

static int migrate(int process) {
    whm_enter();
    int here = whm_process_here.home[whm_self->world], code = MPI_SUCCESS;
    if (process < MPIX_STAY || process >= whm_process_here.processes)
        code = whm_fail(MPI_ERR_ARG, "there is no process %d: this job has %d", process,
                        whm_process_here.processes);
    bool goes = code == MPI_SUCCESS && process != MPIX_STAY && process != here;
    const whm_mover *me =
        asks("MPIX_Migrate", goes ? WHM_WISH_GO : WHM_WISH_STAY, goes ? process : here);
    if (me->error)
        code = whm_fail(MPI_ERR_OTHER, "this rank stays in process %d, as %s", here,
                        refusal(me, has_threads()));
    code = answer("MPIX_Migrate", code);
    whm_leave();
    return code;
}

static int balance(int *moved) {
    whm_enter();
    const whm_mover *me = asks("MPIX_Balance", WHM_WISH_BALANCE, 0);
    if (moved)
        *moved = me->process;
    whm_leave();
    return MPI_SUCCESS;
}

static int checkpoint(const char *folder, int *restarted) {
    whm_mover *me = (whm_mover *)whm_self;
    int code = MPI_SUCCESS;
    whm_enter();
    bool fits = folder && *folder && strlen(folder) < sizeof(me->folder);
    const char *why = refusal(me, has_threads());
    snprintf(me->folder, sizeof(me->folder), "%s", fits ? folder : "");
    asks("MPIX_Checkpoint", fits && !why ? WHM_WISH_SAVE : WHM_WISH_STAY, 0);
    if (!fits)
        code = whm_fail(MPI_ERR_ARG, "the folder's name is empty or too long");
    else if (why)
        code = whm_fail(MPI_ERR_OTHER, "this rank cannot be saved, as %s", why);
    else if (me->error)
        code = whm_fail(
            MPI_ERR_IO,
            "the job is not saved: a file of it could not be written (its process has said why), or "
            "another rank could not be saved");
    if (restarted)
        *restarted = me->restarted;
    me->restarted = false;
    code = answer("MPIX_Checkpoint", code);
    whm_leave();
    return code;
}

static int process_of(int *process, int *processes) {
    if (process)
        *process = wh_rt_rank(whm_process_here.rt);
    if (processes)
        *processes = whm_process_here.processes;
    return MPI_SUCCESS;
}

static int get_load(double *load) {
    whm_run_ends(whm_self);
    *load = whm_load((whm_mover *)whm_self);
    return MPI_SUCCESS;
}

static int set_load(double load) {
    whm_mover *me = (whm_mover *)whm_self;
    if (!(load >= 0))
        return MPI_ERR_ARG;
    me->load = load;
    me->load_said = true;
    return MPI_SUCCESS;
}

void whm_calls_fill(whm_joint_t *joint, bool moves) {
    joint->process = process_of;
    if (!moves)
        return;
    joint->migrate = migrate;
    joint->balance = balance;
    joint->checkpoint = checkpoint;
    joint->get_load = get_load;
    joint->set_load = set_load;
}
