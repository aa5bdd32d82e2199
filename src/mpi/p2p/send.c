// SPDX-License-Identifier: BSD-3-Clause
//
// Sends.
//
// A message is an active message whose header is the envelope.  Small ones are taken by the lane in the call, or copied; of a large
// one the receiver takes the bytes out of the sender's buffer when it has matched, which the engine does.  A rank of the same process is handed
// the bytes directly.
#include <stdlib.h>
#include <string.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"

// Bytes of a standard send that are copied rather than waited for.  Above it a copy costs as much as waiting for the receiver, or more.
enum { COPIED_MAX = 8 << 10 };
// Bytes of a type with gaps that are packed here: to tell the engine of the type takes longer.
enum { PACKED_MAX = 4 << 10 };
// Of all that was copied so and is still under way, or has come to one rank of this process.  Beyond, sends wait for their receivers.
static const size_t copied_limit = (size_t)64 << 20;
// With what the engine keeps for each of those under way, about, so that empty ones are bounded, too.
enum { KEPT_FOR_ONE = 512 };
static size_t copied;

// ---- Synchronous sends, which wait for an answer.

static void whm_sync_drop(whm_transfer *t) {
    whm_match *match = t->rank->match;
    if (t->prev)
        t->prev->next = t->next;
    else
        match->sync = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->state &= (uint8_t) ~(WHM_WAITS_MATCH | WHM_UNANSWERED);
}

bool whm_sync_answered(int world, uint32_t id) {
    const whm_rank *rank = whm_rank_at(world);
    whm_transfer *t = rank && rank->match ? rank->match->sync : NULL;
    while (t && t->id != id)
        t = t->next;
    if (!t)
        return false;
    whm_sync_drop(t);
    if (!(t->state & WHM_WAITS_BUFFER))
        whm_finish(t, MPI_SUCCESS);
    return true;
}

wh_status whm_on_matched(wh_am *am, void *arg) {
    (void)arg;
    uint32_t words[2];
    if (am->header_size != sizeof(words))
        return whm_refuse(am, "its head is none of this release");
    memcpy(words, am->header, sizeof(words));
    if (!whm_sync_answered((int)words[0], words[1]))
        return whm_refuse(am, "it answers a synchronous send that is not under way");
    return WH_OK;
}

void whm_sync_lost(whm_match *match) {
    for (whm_transfer *t = match->sync, *next; t; t = next) {
        next = t->next;
        if (t->state & WHM_WAITS_BUFFER ||
            !whm_is_gone(whm_group_world(whm_comm_peers(t->comm), t->peer)))
            continue;
        whm_sync_drop(t);
        whm_finish(t, MPI_ERR_PROC_ABORTED);
        next = match->sync;  // what has ended may have begun others
    }
}

// ---- To another process.

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_transfer *t = arg;
    int error = whm_class_of(result->status);
    whm_lent_back(t);
    if (error != MPI_SUCCESS && t->state & WHM_WAITS_MATCH)
        whm_sync_drop(t);
    if (t->state & WHM_WAITS_MATCH)
        return;
    whm_finish(t, error);
}

static void on_copied(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    copied -= (uintptr_t)arg;
}

// send_copied sends bytes of plain memory that are the program's again when it returns.
static wh_status send_copied(wh_endpoint *ep, const whm_envelope *env, const void *buf,
                             size_t size) {
    uintptr_t cost = size + KEPT_FOR_ONE;
    wh_op_opts opts = {.size = sizeof(opts), .done = on_copied, .arg = (void *)cost};
    whm_process_here.started++;
    wh_status st = wh_am_send_copy(ep, WHM_AM_MESSAGE, env, sizeof(*env), buf, size, &opts, NULL);
    if (st == WH_PENDING)
        copied += cost;
    return st;
}

bool whm_sends_copies(void) {
    return copied > 0;
}

static whm_envelope envelope_of(const whm_comm *comm, whm_space space, int dest, int tag) {
    return (whm_envelope){.context = whm_context_of(comm, space),
                          .source = comm->rank,
                          .tag = tag,
                          .dest = whm_group_world(whm_comm_peers(comm), dest),
                          .origin = (uint32_t)whm_self->world};
}

bool whm_send_now(const whm_comm *comm, whm_space space, const void *buf, MPI_Count count,
                  const whm_type *type, int dest, int tag) {
    MPI_Count size = type->size * count;
    char packed[PACKED_MAX];
    if (size > (type->dense ? COPIED_MAX : PACKED_MAX) || copied > copied_limit ||
        dest == MPI_PROC_NULL || !whm_plain(buf))
        return false;
    whm_envelope env = envelope_of(comm, space, dest, tag);
    // Without a connection it is not done when it is copied: the program may not come back into the library before it has to leave.
    wh_endpoint *ep = whm_rank_at(env.dest) ? NULL : whm_connected(env.dest);
    if (!ep)
        return false;
    if (!type->dense && size > 0) {
        size_t moved;
        if (!buf ||
            wh_pack(buf, count, type->layout, 0, packed, (size_t)size, WH_PACK_CACHED, &moved))
            return false;
        buf = packed;
    }
    wh_status st = send_copied(ep, &env, buf, (size_t)size);
    return st == WH_OK || st == WH_PENDING;
}

void whm_await_answer(whm_transfer *t, whm_envelope *env) {
    whm_match *match = t->rank->match;
    if (!++match->sync_id)
        ++match->sync_id;
    env->id = t->id = match->sync_id;
    t->state |= WHM_WAITS_MATCH | WHM_UNANSWERED;
    t->prev = NULL;
    t->next = match->sync;
    if (t->next)
        t->next->prev = t;
    match->sync = t;
}

static int send_far(whm_transfer *t, whm_envelope *env, whm_mode mode) {
    wh_endpoint *ep;
    const whm_type *type = t->type;
    int rc = whm_endpoint(env->dest, &ep);
    if (rc != MPI_SUCCESS)
        return rc;
    if (mode == WHM_SYNC)
        whm_await_answer(t, env);
    wh_op_opts opts = {.size = sizeof(opts), .flags = WH_OP_UNTYPED, .done = on_sent, .arg = t};
    size_t count = whm_for_engine(type, t->count, &opts.type);
    whm_process_here.started++;
    wh_status st = wh_am_send(ep, WHM_AM_MESSAGE, env, sizeof(*env), t->buf, count, &opts, NULL);
    if (st == WH_PENDING)
        whm_lend(t);
    else if (st != WH_OK && mode == WHM_SYNC)
        whm_sync_drop(t);
    if (st != WH_OK && st != WH_PENDING)
        return whm_fail_status(st, "a message cannot be sent");
    if (t->state & (WHM_WAITS_BUFFER | WHM_WAITS_MATCH))
        whm_hold(t);
    else
        t->complete = true;
    return MPI_SUCCESS;
}

// ---- To a rank of this process.

static bool pack(const whm_transfer *t, const whm_rank *rank, whm_arrival *arrival) {
    size_t bytes = (size_t)arrival->bytes;
    if (bytes && !(arrival->packed = whm_malloc_for(rank, bytes)))
        return false;
    if (bytes && whm_pack(t->buf, t->count, t->type, 0, arrival->packed, bytes, 0) == WH_OK)
        return true;
    free(arrival->packed);
    arrival->packed = NULL;
    return !bytes;
}

// copy_packed keeps a small message's bytes, so that its sender need not wait.  false: it waits, as there is no memory, or the receiver has much that
// it does not take.
static bool copy_packed(const whm_transfer *t, const whm_rank *rank, whm_arrival *arrival) {
    whm_match *match = rank->match;
    if (match->copied > copied_limit || !pack(t, rank, arrival))
        return false;
    arrival->room = (size_t)arrival->bytes + sizeof(*arrival);
    match->copied += arrival->room;
    return true;
}

static int send_near(whm_transfer *t, whm_rank *rank, const whm_envelope *env, whm_mode mode) {
    whm_transfer *recv = whm_match_posted(rank->match, env);
    if (recv) {
        t->complete = true;  // before its receiver goes on
        whm_matched(recv, env);
        whm_finish(recv, whm_copy_near(recv, t));
        return MPI_SUCCESS;
    }
    if (__builtin_expect(whm_is_given_up(rank, env->context), 0))
        return whm_gone_rank(t->peer);
    uint64_t bytes = (uint64_t)t->type->size * (uint64_t)t->count;
    whm_arrival *arrival = whm_match_keep(rank->match, env, bytes);
    if (!arrival)
        return whm_no_memory();
    if (mode != WHM_SYNC && bytes <= COPIED_MAX && copy_packed(t, rank, arrival)) {
        t->complete = true;
    } else {
        arrival->from = t;
        t->state |= WHM_WAITS_MATCH | (mode == WHM_SYNC ? WHM_IS_SYNC : 0);
        whm_hold(t);
    }
    whm_wake(rank);
    return MPI_SUCCESS;
}

int whm_send_later(whm_transfer *t, whm_comm *comm, whm_space space, const void *buf,
                   MPI_Count count, whm_type *type, int dest, int tag, whm_mode mode) {
    whm_transfer_begin(t, comm, (void *)(uintptr_t)buf, count, type, WHM_IS_SEND);
    t->peer = dest;
    t->wanted = tag;
    if (dest == MPI_PROC_NULL) {
        whm_to_nobody(t);
        return MPI_SUCCESS;
    }
    whm_envelope env = envelope_of(comm, space, dest, tag);
    whm_rank *near = whm_rank_at(env.dest);
    return near ? send_near(t, near, &env, mode) : send_far(t, &env, mode);
}

int whm_send(whm_transfer *t, whm_comm *comm, whm_space space, const void *buf, MPI_Count count,
             whm_type *type, int dest, int tag, whm_mode mode) {
    if (mode == WHM_SYNC || !whm_send_now(comm, space, buf, count, type, dest, tag))
        return whm_send_later(t, comm, space, buf, count, type, dest, tag, mode);
    whm_transfer_begin(t, comm, (void *)(uintptr_t)buf, count, type, WHM_IS_SEND);
    t->peer = dest;
    t->wanted = tag;
    t->complete = true;
    return MPI_SUCCESS;
}
