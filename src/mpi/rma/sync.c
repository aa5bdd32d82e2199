// SPDX-License-Identifier: BSD-3-Clause
//
// Epochs: fences, start and post, locks, flushes.
//
// A flush asks the target whether it has carried out all that was sent to it.  All ways to end an epoch flush first, so that what
// follows, a barrier or a message, finds the accesses done.
#include <stdatomic.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/compare.h"
#include "mpi/rma/access.h"

// ---- Flushes.

void whm_flush_local(const whm_peer *peer) {
    while (peer->pending)
        whm_block();
}

// Takes the error that an access had without anybody to tell.
static int take_error(const whm_win *win, whm_peer *peer) {
    int error = peer->error;
    peer->error = MPI_SUCCESS;
    return whm_access_fail((int)(peer - win->peer), error, peer->trouble);
}

static int confirm(whm_win *win, whm_peer *peer, whm_access_kind kind) {
    whm_flush_local(peer);
    // What mapped memory was given by plain stores comes before all that others hear of it.
    atomic_thread_fence(memory_order_seq_cst);
    int rc = MPI_SUCCESS;
    if (kind != WHM_FLUSH || peer->sent != peer->confirmed) {
        whm_access head = {.kind = (uint8_t)kind,
                           .exclusive = peer->lock == MPI_LOCK_EXCLUSIVE,
                           .seen = peer->sent};
        uint64_t sent = peer->sent;
        rc = whm_ask(win, peer, &head);
        peer->confirmed = sent;
    }
    int error = take_error(win, peer);
    return error ? error : rc;
}

int whm_flush(whm_win *win, whm_peer *peer) {
    return confirm(win, peer, WHM_FLUSH);
}

// The error is the last one, of which the sentence is that is kept.
static int flush_all(whm_win *win) {
    int error = MPI_SUCCESS;
    for (int i = 0; i < win->comm->size; i++) {
        int rc = whm_flush(win, &win->peer[i]);
        error = rc ? rc : error;
    }
    return error;
}

// ---- Fences.

// All ranks of the window give up where one is gone, as those that are left may have heard from different ones.
static int bereft(const whm_win *win) {
    for (int i = 0; whm_process_here.losses && i < win->comm->size; i++)
        if (whm_is_gone(win->peer[i].world))
            return whm_gone_rank(i);
    return MPI_SUCCESS;
}

int whm_win_barrier(whm_win *win) {
    int n = win->comm->size, me = win->comm->rank, rc = bereft(win);
    uint64_t mine = ++win->barriers;
    // After round k each rank has heard, through others, of the 2^(k+1) - 1 ranks before it.
    for (unsigned round = 0, far = 1; far < (unsigned)n && rc == MPI_SUCCESS; round++, far *= 2) {
        whm_access head = {.kind = WHM_BARRIER, .id = round};
        rc = whm_tell(win, &win->peer[(me + (int)far) % n], &head);
        while (rc == MPI_SUCCESS && win->arrived[round] < mine) {
            whm_block();
            rc = bereft(win);
        }
    }
    whm_settle_notes();
    return rc;
}

static int refuse(const char *why) {
    return whm_fail(MPI_ERR_RMA_SYNC, "%s", why);
}

static bool is_passive(const whm_win *win) {
    return win->locks || win->all_locked;
}

int mpi_win_fence(int assertion, whm_win *win) {
    int rc = whm_compare_apart(win->comm, win->joint);
    if (rc != MPI_SUCCESS)
        return rc;
    if (is_passive(win) || win->group_started || win->group_posted)
        return refuse("an epoch of another kind has not been ended");
    int error = flush_all(win);
    rc = whm_win_barrier(win);
    atomic_thread_fence(memory_order_seq_cst);
    win->fenced = !(assertion & MPI_MODE_NOSUCCEED);
    return rc ? rc : error;
}

// ---- Start and complete, post and wait.

// The members of a group, as peers of the window; *n is how many.
static int mark(whm_win *win, const whm_group *group, bool started) {
    for (int i = 0; i < group->size; i++) {
        int world = whm_group_world(group, i), rank = 0;
        while (rank < win->comm->size && win->peer[rank].world != world)
            rank++;
        if (rank == win->comm->size)
            return whm_fail(MPI_ERR_GROUP, "rank %d of the group is not in the window's", i);
        if (started)
            win->peer[rank].started = true;
        else
            win->peer[rank].exposed = true;
    }
    return MPI_SUCCESS;
}

static void unmark(whm_win *win, bool started) {
    for (int i = 0; i < win->comm->size; i++)
        if (started)
            win->peer[i].started = false;
        else
            win->peer[i].exposed = false;
}

int mpi_win_start(whm_group *group, int assertion, whm_win *win) {
    (void)assertion;
    if (win->group_started || is_passive(win))
        return refuse("there is an access epoch already");
    int rc = mark(win, group, true);
    for (int i = 0; i < win->comm->size && rc == MPI_SUCCESS; i++) {
        whm_peer *peer = &win->peer[i];
        while (peer->started && !peer->posted && !whm_is_gone(peer->world))
            whm_block();
        if (peer->started && !peer->posted)
            rc = whm_gone_rank(i);
        else
            peer->posted -= peer->started;
    }
    if (rc == MPI_SUCCESS)
        win->group_started = 1;
    else
        unmark(win, true);
    return rc;
}

int mpi_win_complete(whm_win *win) {
    if (!win->group_started)
        return refuse("there is no epoch of MPI_Win_start");
    int error = MPI_SUCCESS;
    for (int i = 0; i < win->comm->size; i++) {
        whm_peer *peer = &win->peer[i];
        if (!peer->started)
            continue;
        int rc = whm_flush(win, peer);
        error = rc ? rc : error;
        whm_access head = {.kind = WHM_COMPLETE};
        rc = whm_tell(win, peer, &head);
        error = rc ? rc : error;
    }
    whm_settle_notes();
    unmark(win, true);
    win->group_started = 0;
    return error;
}

int mpi_win_post(whm_group *group, int assertion, whm_win *win) {
    (void)assertion;
    if (win->group_posted)
        return refuse("there is an exposure epoch already");
    int rc = mark(win, group, false);
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < win->comm->size && rc == MPI_SUCCESS; i++) {
        whm_access head = {.kind = WHM_POST};
        if (win->peer[i].exposed)
            rc = whm_tell(win, &win->peer[i], &head);
    }
    if (rc == MPI_SUCCESS)
        win->group_posted = 1;
    else
        unmark(win, false);
    return rc;
}

static bool all_completed(const whm_win *win) {
    for (int i = 0; i < win->comm->size; i++)
        if (win->peer[i].exposed && !win->peer[i].completed && !whm_is_gone(win->peer[i].world))
            return false;
    return true;
}

// end_exposure also ends that to ranks which have gone without MPI_Win_complete.
static int end_exposure(whm_win *win) {
    int rc = MPI_SUCCESS;
    for (int i = 0; i < win->comm->size; i++) {
        whm_peer *peer = &win->peer[i];
        if (peer->exposed && !peer->completed)
            rc = whm_gone_rank(i);
        else
            peer->completed -= peer->exposed;
    }
    unmark(win, false);
    win->group_posted = 0;
    atomic_thread_fence(memory_order_seq_cst);
    return rc;
}

int mpi_win_wait(whm_win *win) {
    if (!win->group_posted)
        return refuse("there is no epoch of MPI_Win_post");
    while (!all_completed(win))
        whm_block();
    whm_settle_notes();
    return end_exposure(win);
}

int mpi_win_test(whm_win *win, int *flag) {
    if (!win->group_posted)
        return refuse("there is no epoch of MPI_Win_post");
    if (!all_completed(win))
        whm_progress();
    *flag = all_completed(win);
    return *flag ? end_exposure(win) : MPI_SUCCESS;
}

// ---- Locks.

static int lock(whm_win *win, whm_peer *peer, int type, int assertion) {
    peer->unasked = assertion & MPI_MODE_NOCHECK;
    peer->lock = type;
    if (peer->unasked)
        return MPI_SUCCESS;
    whm_access head = {.kind = WHM_LOCK, .exclusive = type == MPI_LOCK_EXCLUSIVE};
    int rc = whm_ask(win, peer, &head);
    if (rc != MPI_SUCCESS)
        peer->lock = 0;
    atomic_thread_fence(memory_order_seq_cst);
    return rc;
}

static int unlock(whm_win *win, whm_peer *peer) {
    int rc = confirm(win, peer, peer->unasked ? WHM_FLUSH : WHM_UNLOCK);
    peer->lock = 0;
    return rc;
}

int mpi_win_lock(int type, int rank, int assertion, whm_win *win) {
    whm_peer *peer = NULL;
    if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
        return whm_fail(MPI_ERR_LOCKTYPE,
                        "lock_type is %d, it must be MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE", type);
    int rc = whm_win_peer(win, rank, &peer);
    if (rc != MPI_SUCCESS || !peer)
        return rc;
    if (peer->lock || win->all_locked || win->group_started)
        return refuse("there is an access epoch to that rank already");
    rc = lock(win, peer, type, assertion);
    win->locks += rc == MPI_SUCCESS;
    return rc;
}

int mpi_win_unlock(int rank, whm_win *win) {
    whm_peer *peer = NULL;
    int rc = whm_win_peer(win, rank, &peer);
    if (rc != MPI_SUCCESS || !peer)
        return rc;
    if (!peer->lock || win->all_locked)
        return refuse("the rank is not locked by MPI_Win_lock");
    win->locks--;
    return unlock(win, peer);
}

int mpi_win_lock_all(int assertion, whm_win *win) {
    if (is_passive(win) || win->group_started)
        return refuse("there is an access epoch already");
    int rc = MPI_SUCCESS;
    for (int i = 0; i < win->comm->size && rc == MPI_SUCCESS; i++)
        rc = lock(win, &win->peer[i], MPI_LOCK_SHARED, assertion);
    win->all_locked = rc == MPI_SUCCESS;
    return rc;
}

int mpi_win_unlock_all(whm_win *win) {
    if (!win->all_locked)
        return refuse("there is no epoch of MPI_Win_lock_all");
    int error = MPI_SUCCESS;
    win->all_locked = false;
    for (int i = 0; i < win->comm->size; i++) {
        int rc = unlock(win, &win->peer[i]);
        error = rc ? rc : error;
    }
    return error;
}

static int one_locked(whm_win *win, int rank, whm_peer **peer) {
    int rc = whm_win_peer(win, rank, peer);
    if (rc == MPI_SUCCESS && *peer && !(*peer)->lock)
        rc = refuse("the rank is not locked");
    return rc;
}

int mpi_win_flush(int rank, whm_win *win) {
    whm_peer *peer = NULL;
    int rc = one_locked(win, rank, &peer);
    return rc != MPI_SUCCESS || !peer ? rc : whm_flush(win, peer);
}

int mpi_win_flush_all(whm_win *win) {
    return is_passive(win) ? flush_all(win) : refuse("no rank is locked");
}

int mpi_win_flush_local(int rank, whm_win *win) {
    whm_peer *peer = NULL;
    int rc = one_locked(win, rank, &peer);
    if (rc == MPI_SUCCESS && peer)
        whm_flush_local(peer);
    return rc;
}

int mpi_win_flush_local_all(whm_win *win) {
    if (!is_passive(win))
        return refuse("no rank is locked");
    for (int i = 0; i < win->comm->size; i++)
        whm_flush_local(&win->peer[i]);
    return MPI_SUCCESS;
}

int mpi_win_sync(whm_win *win) {
    (void)win;
    atomic_thread_fence(memory_order_seq_cst);
    // Programs call it in loops that wait for what another rank writes.
    whm_progress();
    return MPI_SUCCESS;
}
