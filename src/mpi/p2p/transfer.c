// SPDX-License-Identifier: BSD-3-Clause
//
// Sends and receives.
//
// A message is an active message whose header is the envelope.  Small ones are taken by the lane in the call, or copied; of a large
// one the receiver takes the bytes out of the sender's buffer when it has matched, which the engine does.  A rank of the same process is handed
// the bytes directly.
#include "mpi/p2p/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <wherry/log.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/p2p/match.h"
#include "mpi/p2p/p2p.h"

// Bytes of a standard send that are copied rather than waited for.  Above it a copy costs about as much as waiting for the receiver.
enum { COPIED_MAX = 64 << 10 };
// Of all that was copied so and is still under way.  Beyond, sends wait for their receivers.
static const size_t copied_limit = (size_t)64 << 20;
static size_t copied;

// What a transfer waits for.
enum {
    WAITS_BUFFER = 1 << 0,  // the engine still uses the buffer
    WAITS_MATCH = 1 << 1,   // it is posted, or, of a synchronous send, not answered
    HOLDS = 1 << 2,         // communicator and type
    IS_SEND = 1 << 3,
    TOO_SHORT = 1 << 4,  // the receive's buffer, for a message of `bytes`
};

// ---- The end of a transfer.

static void settle(whm_transfer *t, int error) {
    if (t->error == MPI_SUCCESS)
        t->error = error;
    t->complete = true;
    if (!(t->state & HOLDS))
        return;
    t->state &= (uint8_t)~HOLDS;
    if (t->type)
        whm_type_release(t->type);
    whm_comm_release(t->comm);
}

static void finish(whm_transfer *t, int error) {
    whm_rank *rank = t->rank, *runs = whm_self;
    settle(t, error);
    if (t->done) {
        whm_self = rank;
        t->done(t);
        whm_self = runs;
    }
    whm_wake(rank);
}

static void hold(whm_transfer *t) {
    t->state |= HOLDS;
    whm_retain(t->comm);
    if (t->type)
        whm_retain(t->type);
}

int whm_transfer_fail(const whm_transfer *t) {
    if (t->error == MPI_ERR_TRUNCATE && t->type)
        return whm_fail(MPI_ERR_TRUNCATE,
                        "a message of %lld bytes from rank %d, tag %d, does not fit into a receive "
                        "of %lld elements of %lld bytes: give it a larger buffer",
                        (long long)t->bytes, t->source, t->tag, (long long)t->count,
                        (long long)t->type->size);
    return t->error;
}

static int class_of(wh_status status) {
    return status == WH_OK           ? MPI_SUCCESS
           : status == WH_ETRUNCATED ? MPI_ERR_TRUNCATE
           : status == WH_ENOMEM     ? MPI_ERR_NO_MEM
           : status == WH_ETYPE      ? MPI_ERR_TYPE
                                     : MPI_ERR_OTHER;
}

// ---- Sending.

static void drop_sync(whm_transfer *t) {
    whm_match *match = t->rank->match;
    if (t->prev)
        t->prev->next = t->next;
    else
        match->sync = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->state &= (uint8_t)~WAITS_MATCH;
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_transfer *t = arg;
    int error = class_of(result->status);
    t->state &= (uint8_t)~WAITS_BUFFER;
    if (error != MPI_SUCCESS && t->state & WAITS_MATCH)
        drop_sync(t);
    if (t->state & WAITS_MATCH)
        return;
    finish(t, error);
}

static void on_copied(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    copied -= (uintptr_t)arg;
}

// send_copied sends bytes that are the program's again when it returns.  WH_ENOTSUP: they are not in plain memory.
static wh_status send_copied(wh_endpoint *ep, const whm_envelope *env, const void *buf,
                             size_t size) {
    wh_op_opts opts = {.size = sizeof(opts), .done = on_copied, .arg = (void *)(uintptr_t)size};
    wh_status st = wh_am_send_copy(ep, WHM_AM_MESSAGE, env, sizeof(*env), buf, size, &opts, NULL);
    if (st == WH_PENDING)
        copied += size;
    return st;
}

static bool may_copy(const whm_type *type, MPI_Count count, whm_mode mode) {
    return mode != WHM_SYNC && type->dense && type->size * count <= COPIED_MAX &&
           copied <= copied_limit;
}

static void wait_answer(whm_transfer *t, whm_envelope *env) {
    whm_match *match = t->rank->match;
    if (!++match->sync_id)
        ++match->sync_id;
    env->id = t->id = match->sync_id;
    t->state |= WAITS_MATCH;
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
    wh_status st = WH_ENOTSUP;
    if (may_copy(type, t->count, mode))
        st = send_copied(ep, env, t->buf, (size_t)(type->size * t->count));
    if (st == WH_OK || st == WH_PENDING) {
        t->complete = true;
        return MPI_SUCCESS;
    }
    if (mode == WHM_SYNC)
        wait_answer(t, env);
    wh_op_opts opts = {.size = sizeof(opts), .flags = WH_OP_UNTYPED, .done = on_sent, .arg = t};
    if (!type->dense)
        opts.type = type->layout;
    st = wh_am_send(ep, WHM_AM_MESSAGE, env, sizeof(*env), t->buf,
                    (size_t)(type->dense ? type->size * t->count : t->count), &opts, NULL);
    if (st == WH_PENDING)
        t->state |= WAITS_BUFFER;
    else if (st != WH_OK && mode == WHM_SYNC)
        drop_sync(t);
    if (st != WH_OK && st != WH_PENDING)
        return whm_fail_status(st, "a message cannot be sent");
    if (t->state & (WAITS_BUFFER | WAITS_MATCH))
        hold(t);
    else
        t->complete = true;
    return MPI_SUCCESS;
}

// ---- Receiving.

// take_bytes puts a message that is at hand where it belongs.
static int take_bytes(whm_transfer *t, const void *data, uint64_t bytes) {
    const whm_type *type = t->type;
    uint64_t room = (uint64_t)type->size * (uint64_t)t->count;
    size_t some = (size_t)(bytes < room ? bytes : room), actual;
    t->bytes = (MPI_Count)bytes;
    if (type->dense && whm_plain(t->buf))
        memcpy(t->buf, data, some);
    else if (some && wh_unpack(data, some, t->buf, t->count, type->layout, 0, 0, &actual) != WH_OK)
        return whm_fail(MPI_ERR_TYPE, "a message cannot be put into its buffer: %s",
                        wh_type_error());
    return bytes <= room ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_transfer *t = arg;
    t->bytes = (MPI_Count)result->size;
    finish(t, class_of(result->status));
}

// take_am begins to receive a payload that is still at its sender; the message is given up unless it says an error.
static wh_status take_am(whm_transfer *t, wh_am *am, wh_result *result) {
    const whm_type *type = t->type;
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_received,
                       .arg = t,
                       .result = result};
    if (!type->dense)
        opts.type = type->layout;
    return wh_am_recv(am, t->buf, (size_t)(type->dense ? type->size * t->count : t->count), &opts,
                      NULL);
}

static void answer(const whm_envelope *env) {
    wh_endpoint *ep;
    uint32_t words[2] = {env->origin, env->id};
    if (whm_endpoint((int)env->origin, &ep) != MPI_SUCCESS)
        return;
    wh_status st = wh_am_send_copy(ep, WHM_AM_MATCHED, words, sizeof(words), NULL, 0, NULL, NULL);
    if (st != WH_OK &&
        st != WH_PENDING)  // the sender is gone, and with it who waits for the answer
        wh_log_write("debug", "D-MPI-01", "rank %u cannot be told that its send has matched: %s",
                     env->origin, wh_status_text(st));
}

static void match(whm_transfer *t, const whm_envelope *env) {
    t->state &= (uint8_t)~WAITS_MATCH;
    t->source = env->source;
    t->tag = env->tag;
    if (env->id)
        answer(env);
}

// from_near takes a message of a rank of this process, which waits with its buffer.
static int from_near(whm_transfer *t, whm_transfer *from) {
    int rc = whm_copy(t->buf, t->count, t->type, from->buf, from->count, from->type);
    t->bytes = from->type->size * from->count;
    if (rc == MPI_SUCCESS && t->bytes > t->type->size * t->count)
        rc = MPI_ERR_TRUNCATE;
    from->state &= (uint8_t)~WAITS_MATCH;
    finish(from, MPI_SUCCESS);
    return rc;
}

void whm_take(whm_transfer *t, whm_arrival *arrival) {
    whm_match *queues = t->rank->match;
    wh_am *am = arrival->am;
    int rc = MPI_SUCCESS;
    match(t, &arrival->env);
    if (arrival->from) {
        rc = from_near(t, arrival->from);
    } else if (!am) {
        rc = take_bytes(t, arrival->packed, arrival->bytes);
        free(arrival->packed);
    } else if (am->data || !arrival->bytes) {
        rc = take_bytes(t, am->data, am->size);
        wh_am_drop(am);
    } else {
        wh_result result = {.status = WH_OK};
        wh_status st = take_am(t, am, &result);
        if (st == WH_PENDING) {
            t->state |= WAITS_BUFFER;
            hold(t);
            whm_match_forget(queues, arrival);
            return;
        }
        t->bytes = (MPI_Count)(st == WH_OK ? result.size : arrival->bytes);
        rc = class_of(st);
        if (st != WH_OK && st != WH_ETRUNCATED)
            wh_am_drop(am);
    }
    whm_match_forget(queues, arrival);
    settle(t, rc);
}

// ---- What comes.

static wh_status refuse(const wh_am *am, const char *why) {
    wh_log_write("error", "E-MPI-01", "a message of %zu bytes is dropped: %s", am->size, why);
    return WH_OK;
}

static wh_status keep(whm_rank *rank, wh_am *am, const whm_envelope *env) {
    whm_arrival *arrival = whm_match_keep(rank->match, env, am->size);
    if (!arrival)
        return refuse(am, "there is no memory to keep it until its receive");
    arrival->am = am;
    whm_wake(rank);
    return WH_PENDING;
}

static wh_status on_message(wh_am *am, void *arg) {
    (void)arg;
    whm_envelope env;
    if (am->header_size != sizeof(env))
        return refuse(am, "its head is none of this release");
    memcpy(&env, am->header, sizeof(env));
    whm_rank *rank = whm_rank_at(env.dest);
    if (!rank || !rank->match || env.origin >= (uint32_t)whm_process_here.ranks || env.source < 0)
        return refuse(am, "it is for or from a rank that does not exist here");
    whm_transfer *t = whm_match_posted(rank->match, &env);
    if (!t)
        return keep(rank, am, &env);
    match(t, &env);
    if (am->data || !am->size) {
        finish(t, take_bytes(t, am->data, am->size));
        return WH_OK;
    }
    wh_result result = {.status = WH_OK};
    wh_status st = take_am(t, am, &result);
    if (st == WH_PENDING) {
        t->state |= WAITS_BUFFER;
        return st;
    }
    t->bytes = (MPI_Count)(st == WH_OK ? result.size : am->size);
    finish(t, class_of(st));
    return st == WH_OK ? WH_PENDING : WH_OK;  // given up, or to be dropped
}

static wh_status on_matched(wh_am *am, void *arg) {
    (void)arg;
    uint32_t words[2];
    if (am->header_size != sizeof(words))
        return refuse(am, "its head is none of this release");
    memcpy(words, am->header, sizeof(words));
    whm_rank *rank = whm_rank_at((int)words[0]);
    whm_transfer *t = rank && rank->match ? rank->match->sync : NULL;
    while (t && t->id != words[1])
        t = t->next;
    if (!t)
        return refuse(am, "it answers a synchronous send that is not under way");
    drop_sync(t);
    if (!(t->state & WAITS_BUFFER))
        finish(t, MPI_SUCCESS);
    return WH_OK;
}

int whm_p2p_begin(void) {
    wh_worker *worker = whm_process_here.worker;
    wh_status st = wh_worker_set_am(worker, WHM_AM_MESSAGE, on_message, NULL);
    if (st == WH_OK)
        st = wh_worker_set_am(worker, WHM_AM_MATCHED, on_matched, NULL);
    return st == WH_OK ? MPI_SUCCESS : whm_fail_status(st, "messages cannot be taken in");
}

// ---- To a rank of this process.

// copy_packed keeps a small message's bytes, so that its sender need not wait.  false: no memory; it waits then.
static bool copy_packed(const whm_transfer *t, whm_arrival *arrival) {
    size_t bytes = (size_t)arrival->bytes, actual = 0;
    if (bytes && !(arrival->packed = malloc(bytes)))
        return false;
    if (bytes &&
        wh_pack(t->buf, t->count, t->type->layout, 0, arrival->packed, bytes, 0, &actual) == WH_OK)
        return true;
    free(arrival->packed);
    arrival->packed = NULL;
    return !bytes;
}

static int send_near(whm_transfer *t, whm_rank *rank, const whm_envelope *env, whm_mode mode) {
    whm_transfer *recv = whm_match_posted(rank->match, env);
    if (recv) {
        t->complete = true;  // before its receiver goes on
        match(recv, env);
        int rc = whm_copy(recv->buf, recv->count, recv->type, t->buf, t->count, t->type);
        recv->bytes = t->type->size * t->count;
        if (rc == MPI_SUCCESS && recv->bytes > recv->type->size * recv->count)
            rc = MPI_ERR_TRUNCATE;
        finish(recv, rc);
        return MPI_SUCCESS;
    }
    uint64_t bytes = (uint64_t)t->type->size * (uint64_t)t->count;
    whm_arrival *arrival = whm_match_keep(rank->match, env, bytes);
    if (!arrival)
        return whm_no_memory();
    if (mode != WHM_SYNC && bytes <= COPIED_MAX && copy_packed(t, arrival)) {
        t->complete = true;
    } else {
        arrival->from = t;
        t->state |= WAITS_MATCH;
        hold(t);
    }
    whm_wake(rank);
    return MPI_SUCCESS;
}

// ---- Starting.

static void to_nobody(whm_transfer *t) {
    t->complete = true;
    t->source = MPI_PROC_NULL;
    t->tag = MPI_ANY_TAG;
}

int whm_send(whm_transfer *t, whm_comm *comm, whm_space space, const void *buf, MPI_Count count,
             whm_type *type, int dest, int tag, whm_mode mode) {
    t->error = MPI_SUCCESS;
    t->complete = t->cancelled = false;
    t->bytes = 0;
    t->state = IS_SEND;
    t->rank = whm_self;
    t->comm = comm;
    t->type = type;
    t->buf = (void *)(uintptr_t)buf;
    t->count = count;
    if (dest == MPI_PROC_NULL) {
        to_nobody(t);
        return MPI_SUCCESS;
    }
    whm_envelope env = {.context = whm_context_of(comm, space),
                        .source = comm->rank,
                        .tag = tag,
                        .dest = whm_group_world(whm_comm_peers(comm), dest),
                        .origin = (uint32_t)whm_self->world};
    whm_rank *near = whm_rank_at(env.dest);
    return near ? send_near(t, near, &env, mode) : send_far(t, &env, mode);
}

int whm_recv(whm_transfer *t, whm_comm *comm, whm_space space, void *buf, MPI_Count count,
             whm_type *type, int source, int tag) {
    t->error = MPI_SUCCESS;
    t->complete = t->cancelled = false;
    t->bytes = 0;
    t->state = 0;
    t->rank = whm_self;
    t->comm = comm;
    t->type = type;
    t->buf = buf;
    t->count = count;
    t->context = whm_context_of(comm, space);
    t->peer = source;
    t->wanted = tag;
    if (source == MPI_PROC_NULL) {
        to_nobody(t);
        return MPI_SUCCESS;
    }
    whm_match *queues = whm_self->match;
    whm_arrival *arrival = whm_match_find(queues, t->context, source, tag);
    if (arrival) {
        whm_match_remove(queues, arrival);
        whm_take(t, arrival);
        return MPI_SUCCESS;
    }
    t->state = WAITS_MATCH;
    hold(t);
    whm_match_post(queues, t);
    return MPI_SUCCESS;
}

void whm_transfer_cancel(whm_transfer *t) {
    if (t->complete || (t->state & (IS_SEND | WAITS_MATCH)) != WAITS_MATCH)
        return;
    whm_match_unpost(t->rank->match, t);
    t->state &= (uint8_t)~WAITS_MATCH;
    t->cancelled = true;
    t->source = MPI_ANY_SOURCE;
    t->tag = MPI_ANY_TAG;
    finish(t, MPI_SUCCESS);
}
