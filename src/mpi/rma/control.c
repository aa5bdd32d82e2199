// SPDX-License-Identifier: BSD-3-Clause
//
// Control messages at the rank whose memory it is: its lock, what origins wait for, what epochs are told.
#include <stdlib.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/rma/access.h"

void whm_answer_to(whm_win *win, int origin, uint64_t id, int error) {
    int world = win->peer[origin].world;
    whm_answer answer = {.origin = world, .error = error, .id = id};
    if (whm_rank_at(world)) {
        whm_answered(&answer, NULL, 0);
        return;
    }
    wh_endpoint *ep;
    if (whm_endpoint(world, &ep) != MPI_SUCCESS)
        return;
    // A rank that is gone does not wait for it.
    (void)!(whm_notify(ep, WHM_AM_RESULT, &answer, sizeof(answer)) == WH_OK);
}

// ---- The lock: shared holders or one exclusive one, in the order in which they asked.

typedef struct whm_lock_wait {
    int origin;
    bool exclusive;
    uint64_t id;
    struct whm_lock_wait *next;
} lock_wait;

static bool free_for(const whm_win *win, bool exclusive) {
    return !win->held_exclusive && !(exclusive && win->held_shared);
}

static void grant(whm_win *win, int origin, bool exclusive, uint64_t id) {
    if (exclusive)
        win->held_exclusive = true;
    else
        win->held_shared++;
    win->peer[origin].holds = exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
    whm_answer_to(win, origin, id, MPI_SUCCESS);
}

static void ask_lock(whm_win *win, int origin, bool exclusive, uint64_t id) {
    if (!win->first_wait && free_for(win, exclusive)) {
        grant(win, origin, exclusive, id);
        return;
    }
    lock_wait *wait = malloc(sizeof(*wait));
    if (!wait) {
        whm_answer_to(win, origin, id, MPI_ERR_NO_MEM);
        return;
    }
    *wait = (lock_wait){origin, exclusive, id, NULL};
    if (win->last_wait)
        win->last_wait->next = wait;
    else
        win->first_wait = wait;
    win->last_wait = wait;
}

static void grant_next(whm_win *win) {
    for (lock_wait *w; (w = win->first_wait) && free_for(win, w->exclusive); free(w)) {
        win->first_wait = w->next;
        if (!w->next)
            win->last_wait = NULL;
        grant(win, w->origin, w->exclusive, w->id);
    }
}

static void give_up_lock(whm_win *win, int origin) {
    int held = win->peer[origin].holds;
    win->peer[origin].holds = 0;
    if (held == MPI_LOCK_EXCLUSIVE)
        win->held_exclusive = false;
    else if (held == MPI_LOCK_SHARED)
        win->held_shared--;
    grant_next(win);
}

static void forget_waits_of(whm_win *win, int origin) {
    lock_wait **at = &win->first_wait;
    win->last_wait = NULL;
    while (*at) {
        lock_wait *wait = *at;
        if (wait->origin == origin) {
            *at = wait->next;
            free(wait);
        } else {
            win->last_wait = wait;
            at = &wait->next;
        }
    }
}

// lose_origins gives up the locks of ranks that are gone.
static void lose_origins(whm_win *win) {
    for (int i = 0; i < win->comm->size; i++)
        if (whm_is_gone(win->peer[i].world)) {
            forget_waits_of(win, i);
            give_up_lock(win, i);
        }
}

void whm_wins_lost(void) {
    const whm_process *p = &whm_process_here;
    whm_under_way_lost();
    for (int i = 0; i < p->local; i++) {
        const whm_wins *wins = p->rank[i] ? p->rank[i]->wins : NULL;
        for (uint32_t k = 0; wins && k < wins->count; k++)
            if (wins->at[k])
                lose_origins(wins->at[k]);
    }
}

// ---- Who waits for accesses to take effect.

typedef struct whm_wait_for {
    whm_access head;
    struct whm_wait_for *next;
} wait_for;

static void confirm(whm_win *win, const whm_access *head) {
    whm_peer *peer = &win->peer[head->origin];
    int error = peer->failure;
    peer->failure = MPI_SUCCESS;
    if (head->kind == WHM_UNLOCK)
        give_up_lock(win, head->origin);
    whm_answer_to(win, head->origin, head->id, error);
}

static void confirm_later(whm_win *win, const whm_access *head) {
    whm_peer *peer = &win->peer[head->origin];
    if (peer->done >= head->seen) {
        confirm(win, head);
        return;
    }
    wait_for *wait = malloc(sizeof(*wait));
    if (!wait) {
        whm_answer_to(win, head->origin, head->id, MPI_ERR_NO_MEM);
        return;
    }
    *wait = (wait_for){*head, peer->wanted};
    peer->wanted = wait;
}

void whm_took_effect(whm_win *win, int origin, int error) {
    whm_peer *peer = &win->peer[origin];
    peer->done++;
    if (error != MPI_SUCCESS && peer->failure == MPI_SUCCESS)
        peer->failure = error;
    for (wait_for **at = &peer->wanted; *at;) {
        wait_for *wait = *at;
        if (peer->done < wait->head.seen) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        confirm(win, &wait->head);
        free(wait);
    }
}

void whm_serve(whm_win *win, const whm_access *head) {
    whm_peer *peer = &win->peer[head->origin];
    switch (head->kind) {
    case WHM_FLUSH:
    case WHM_UNLOCK: confirm_later(win, head); break;
    case WHM_LOCK: ask_lock(win, head->origin, head->exclusive, head->id); break;
    case WHM_POST: peer->posted++; break;
    case WHM_COMPLETE: peer->completed++; break;
    default:
        if (head->id < WHM_WIN_ROUNDS)
            win->arrived[head->id]++;
        break;
    }
    whm_wake(win->rank);
}
