// SPDX-License-Identifier: BSD-3-Clause
//
// Receives, and the messages that come for them.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/log.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"

// take_bytes puts a message that is at hand where it belongs.
static int take_bytes(whm_transfer *t, const void *data, uint64_t bytes) {
    const whm_type *type = t->type;
    uint64_t room = (uint64_t)type->size * (uint64_t)t->count;
    size_t some = (size_t)(bytes < room ? bytes : room);
    t->bytes = (MPI_Count)bytes;
    if (!some)  // there may be no buffer
        return bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    assert(data);
    if (type->dense && t->plain)
        memcpy(t->buf, data, some);
    else if (whm_unpack(data, some, t->buf, t->count, type, 0, 0) != WH_OK)
        return whm_fail(MPI_ERR_TYPE, "a message cannot be put into its buffer: %s",
                        wh_type_error());
    return bytes <= room ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_transfer *t = arg;
    whm_lent_back(t);
    t->bytes = (MPI_Count)result->size;
    whm_finish(t, whm_class_of(result->status));
}

// take_am begins to receive a payload that is still at its sender; the message is given up unless it says an error.
static wh_status take_am(whm_transfer *t, wh_am *am, wh_result *result) {
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_received,
                       .arg = t,
                       .result = result};
    size_t count = whm_for_engine(t->type, t->count, &opts.type);
    return wh_am_recv(am, t->buf, count, &opts, NULL);
}

static void answer(const whm_envelope *env) {
    wh_endpoint *ep;
    uint32_t words[2] = {env->origin, env->id};
    if (whm_rank_at((int)env->origin)) {  // it, or this rank, has moved meanwhile
        (void)whm_sync_answered((int)env->origin, env->id);
        return;
    }
    if (whm_endpoint((int)env->origin, &ep) != MPI_SUCCESS)
        return;
    wh_status st = whm_notify(ep, WHM_AM_MATCHED, words, sizeof(words));
    if (st != WH_OK &&
        st != WH_PENDING)  // the sender is gone, and with it who waits for the answer
        wh_log_write("debug", "D-MPI-01", "rank %u cannot be told that its send has matched: %s",
                     env->origin, wh_status_text(st));
}

void whm_matched(whm_transfer *t, const whm_envelope *env) {
    t->state &= (uint8_t)~WHM_WAITS_MATCH;
    t->source = env->source;
    t->tag = env->tag;
    if (env->id)
        answer(env);
}

int whm_copy_near(whm_transfer *recv, const whm_transfer *send) {
    int rc = whm_copy(recv->buf, recv->count, recv->type, send->buf, send->count, send->type);
    recv->bytes = send->type->size * send->count;
    return rc == MPI_SUCCESS && recv->bytes > recv->type->size * recv->count ? MPI_ERR_TRUNCATE
                                                                             : rc;
}

// from_near takes a message of a rank of this process, which waits with its buffer.
static int from_near(whm_transfer *t, whm_transfer *from) {
    int rc = whm_copy_near(t, from);
    from->state &= (uint8_t)~WHM_WAITS_MATCH;
    whm_finish(from, MPI_SUCCESS);
    return rc;
}

void whm_take(whm_transfer *t, whm_arrival *arrival) {
    whm_match *queues = t->rank->match;
    wh_am *am = arrival->am;
    int rc = MPI_SUCCESS;
    whm_matched(t, &arrival->env);
    if (am && arrival->packed) {
        arrival->taker = t;
        whm_hold(t);
        return;
    }
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
        // All have a header; without one the engine had no memory to keep it.
        wh_status st = am->header ? take_am(t, am, &result) : WH_ENOMEM;
        if (st == WH_PENDING) {
            whm_lend(t);
            whm_hold(t);
            whm_match_forget(queues, arrival);
            return;
        }
        t->bytes = (MPI_Count)(st == WH_OK ? result.size : arrival->bytes);
        rc = whm_class_of(st);
        if (st != WH_OK && st != WH_ETRUNCATED)
            wh_am_drop(am);
    }
    whm_match_forget(queues, arrival);
    whm_settle(t, rc);
}

void whm_take_stored(whm_arrival *arrival) {
    whm_transfer *t = arrival->taker;
    int rc = take_bytes(t, arrival->packed, arrival->bytes);
    free(arrival->packed);
    whm_match_forget(t->rank->match, arrival);
    whm_finish(t, rc);
}

// ---- What comes.

wh_status whm_refuse(const wh_am *am, const char *why) {
    wh_log_write("error", "E-MPI-01", "a message of %zu bytes is dropped: %s", am->size, why);
    return WH_OK;
}

static wh_status keep(whm_rank *rank, wh_am *am, const whm_envelope *env) {
    whm_arrival *arrival = whm_match_keep(rank->match, env, am->size);
    if (!arrival) {
        // Nobody else has it, and its receive would wait for ever.
        fprintf(stderr,
                "MPI rank %d: there is no memory to keep a message of %zu bytes from rank %d until "
                "its receive: the job ends\n",
                rank->world, am->size, env->source);
        whm_job_abort(1);
    }
    arrival->am = am;
    whm_wake(rank);
    return WH_PENDING;
}

wh_status whm_on_message(wh_am *am, void *arg) {
    (void)arg;
    whm_envelope env;
    if (am->header_size != sizeof(env))
        return whm_refuse(am, "its head is none of this release");
    memcpy(&env, am->header, sizeof(env));
    whm_rank *rank = whm_rank_at(env.dest);
    if (!rank || !rank->match || env.origin >= (uint32_t)whm_process_here.ranks || env.source < 0)
        return whm_refuse(am, "it is for or from a rank that does not exist here");
    whm_transfer *t = whm_match_posted(rank->match, &env);
    if (!t)
        return whm_is_given_up(rank, env.context) ? WH_OK : keep(rank, am, &env);
    whm_matched(t, &env);
    if (am->data || !am->size) {
        whm_finish(t, take_bytes(t, am->data, am->size));
        return WH_OK;
    }
    wh_result result = {.status = WH_OK};
    wh_status st = take_am(t, am, &result);
    if (st == WH_PENDING) {
        whm_lend(t);
        return st;
    }
    t->bytes = (MPI_Count)(st == WH_OK ? result.size : am->size);
    whm_finish(t, whm_class_of(st));
    return st == WH_OK ? WH_PENDING : WH_OK;  // given up, or to be dropped
}

int whm_recv(whm_transfer *t, whm_comm *comm, whm_space space, void *buf, MPI_Count count,
             whm_type *type, int source, int tag) {
    whm_transfer_begin(t, comm, buf, count, type, 0);
    t->context = whm_context_of(comm, space);
    t->peer = source;
    t->wanted = tag;
    if (source == MPI_PROC_NULL) {
        whm_to_nobody(t);
        return MPI_SUCCESS;
    }
    whm_match *queues = whm_self->match;
    whm_arrival *arrival = whm_match_find(queues, t->context, source, tag);
    if (arrival) {
        whm_match_remove(queues, arrival);
        whm_take(t, arrival);
        return MPI_SUCCESS;
    }
    if (__builtin_expect(whm_process_here.losses > 0, 0)) {
        int rc = whm_may_still_come(comm, space == WHM_COLL, source);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    t->state = WHM_WAITS_MATCH;
    whm_hold(t);
    whm_match_post(queues, t);
    return MPI_SUCCESS;
}
