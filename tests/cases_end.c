// SPDX-License-Identifier: BSD-3-Clause
//
// Ends: cancel, timeout, close, abort, a worker that goes with everything pending.
#include <unistd.h>

#include "kit.h"

CASE(end_cancel_a_receive_without_a_match, 0) {
    char buf[16];
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    if (me->role == 1) {
        for (int any = 0; any < 2; any++) {
            opts = kit_opts(&op);
            if (any)
                BEGIN(&op,
                      wh_worker_tag_recv(me->worker, buf, 16, 1, WH_TAG_MASK_ALL, opts, &op.req));
            else
                BEGIN(&op, wh_tag_recv(me->ep, buf, 16, 1, WH_TAG_MASK_ALL, opts, &op.req));
            wh_request_cancel(op.req);
            wh_request_cancel(op.req);
            END(&op, WH_ECANCELLED);
        }
        opts = kit_opts(&op);
        BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &op.req));
        wh_request_cancel(op.req);
        END(&op, WH_ECANCELLED);
    }
    SYNC();
    if (me->role == 0) {
        kit_send(me, me->ep, "to be kept", 10, 1);
    } else {
        kit_recv(me, me->ep, buf, 10, 1);  // the cancelled ones have not taken it
        REQUIRE(memcmp(buf, "to be kept", 10) == 0);
    }
}

// A cancel may come at any moment of a large transfer: it ends once, done or cancelled, and what comes behind is whole.
CASE(end_cancel_in_the_middle, 0) {
    enum { ROUNDS = 24 };
    const size_t size = 6000000;
    char *buf = kit_alloc(me, size), *next = kit_alloc(me, 30000);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool receiver_cancels = i % 2;
        unsigned delay = i / 2 % 6;
        kit_op op;
        if (me->role == 0)
            kit_fill(buf, size, i);
        SYNC();
        const wh_op_opts *opts = kit_opts(&op);
        if (me->role == 0)
            BEGIN(&op, wh_tag_send(me->ep, buf, size, i, opts, &op.req));
        else
            BEGIN(&op, wh_tag_recv(me->ep, buf, size, i, WH_TAG_MASK_ALL, opts, &op.req));
        bool mine = receiver_cancels == (me->role == 1);
        if (mine) {
            if (delay == 5)
                kit_idle(me, 1);
            for (unsigned n = 0; n < delay && !kit_threaded(me); n++)
                (void)wh_worker_progress(me->worker);
            wh_request_cancel(op.req);
        }
        if (receiver_cancels || mine) {
            // The receiver's cancel before the match leaves the message for the next receive.
            if (!mine)
                SYNC();
            UNTIL(atomic_load(&op.ended));
            wh_status st = op.result.status;
            if (mine && me->role == 1)
                atomic_store(&me->shared->values[2], st == WH_OK);
            if (mine)
                SYNC();
            REQUIRE(st == WH_OK || (mine && st == WH_ECANCELLED));
            if (st == WH_ECANCELLED && me->role == 1)
                kit_recv(me, me->ep, buf, size, i);
            if (me->role == 1)
                SAME(buf, size, i);
            if (mine && me->role == 0)
                atomic_store(&me->shared->values[3], st == WH_OK);
            wh_request_free(op.req);
            if (!receiver_cancels)
                SYNC();
        } else {
            // The sender cancels: the receive ends, or gets its place back and stays pending.
            SYNC();
            SYNC();
            if (atomic_load(&me->shared->values[3])) {
                END(&op, WH_OK);
                SAME(buf, size, i);
            } else {
                kit_idle(me, 2);
                REQUIRE_INT(atomic_load(&op.ended), 0);
                wh_request_cancel(op.req);
                END(&op, WH_ECANCELLED);
            }
        }
        SYNC();
        if (me->role == 0) {
            kit_fill(next, 30000, i + 50);
            kit_send(me, me->ep, next, 30000, 1000);
        } else {
            kit_recv(me, me->ep, next, 30000, 1000);
            SAME(next, 30000, i + 50);
        }
    }
    free(next);
    free(buf);
}

// A receive whose message is withdrawn keeps its place before one that was posted later.
CASE(end_withdrawn_message_gives_the_receive_its_place_back, 0) {
    const size_t size = 100000;
    char *buf = kit_alloc(me, size);
    if (me->role == 0) {
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        BEGIN(&op, wh_tag_send(me->ep, buf, size, 1, opts, &op.req));
        wh_request_cancel(op.req);  // before anything can have granted it
        UNTIL(atomic_load(&op.ended));
        atomic_store(&me->shared->values[0], op.result.status == WH_OK);
        wh_request_free(op.req);
        SYNC();
        kit_send(me, me->ep, "second", 6, 1);
    } else {
        char a[100000], b[6];
        kit_op first, second;
        const wh_op_opts *opts = kit_opts(&first);
        BEGIN(&first, wh_tag_recv(me->ep, a, size, 1, WH_TAG_MASK_ALL, opts, &first.req));
        opts = kit_opts(&second);
        BEGIN(&second, wh_tag_recv(me->ep, b, 6, 1, WH_TAG_MASK_ALL, opts, &second.req));
        SYNC();
        if (atomic_load(&me->shared->values[0])) {
            END(&first, WH_OK);
            END(&second, WH_OK);
            REQUIRE_INT(first.result.size, size);
        } else {
            END(&first, WH_OK);
            REQUIRE_INT(first.result.size, 6);
            REQUIRE(memcmp(a, "second", 6) == 0);
            wh_request_cancel(second.req);
            END(&second, WH_ECANCELLED);
        }
    }
    SYNC();
    free(buf);
}

CASE(end_timeouts, 0) {
    char *buf = kit_alloc(me, 100000);
    kit_op op;
    if (me->role == 0) {
        const wh_op_opts *opts = kit_opts_with(&op, 0, 30);
        BEGIN(&op, wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req));
        END(&op, WH_ETIMEDOUT);
        opts = kit_opts_with(&op, 0, 30);
        BEGIN(&op, wh_worker_tag_recv(me->worker, buf, 8, 1, WH_TAG_MASK_ALL, opts, NULL));
        END(&op, WH_ETIMEDOUT);
        opts = kit_opts_with(&op, 0, 30);
        BEGIN(&op, wh_tag_send(me->ep, buf, 100000, 1, opts, &op.req));
        END(&op, WH_ETIMEDOUT);
        opts = kit_opts_with(&op, WH_OP_SYNC, 30);
        BEGIN(&op, wh_tag_send(me->ep, buf, 8, 2, opts, &op.req));
        END(&op, WH_ETIMEDOUT);
        opts = kit_opts_with(&op, 0, 30);
        BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, 0, opts, &op.req));
        END(&op, WH_ETIMEDOUT);
        if (kit_may_block(me)) {
            REQUIRE_STATUS(wh_tag_recv_wait(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, 30, NULL),
                           WH_ETIMEDOUT);
            REQUIRE_STATUS(wh_tag_send_wait(me->ep, buf, 100000, 1, 30), WH_ETIMEDOUT);
            wh_request *req = NULL;
            REQUIRE_STATUS(wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, NULL, &req), WH_PENDING);
            REQUIRE_STATUS(wh_request_wait(req, 30), WH_ETIMEDOUT);
            REQUIRE_STATUS(wh_request_status(req), WH_PENDING);  // the operation itself goes on
            wh_request_cancel(req);
            REQUIRE_STATUS(wh_request_wait(req, kit_hang_ms), WH_ECANCELLED);
            wh_request_free(req);
        }
        SYNC();
        kit_send(me, me->ep, "still good", 10, 3);
    } else {
        SYNC();
        kit_recv(me, me->ep, buf, 10, 3);
        REQUIRE_STATUS(wh_tag_probe(me->ep, 1, WH_TAG_MASK_ALL, NULL), WH_ENOTFOUND);
        kit_recv(me, me->ep, buf, 8,
                 2);  // a synchronous send that gave up waiting has still been sent
    }
    free(buf);
}

CASE(end_close_delivers_what_was_sent_before, 0) {
    enum { N = 200 };
    const size_t large = 3000000;
    char *buf = kit_alloc(me, large);
    if (me->role == 0) {
        static kit_op ops[N];
        static uint64_t values[N];
        kit_op big, close;
        for (uint64_t i = 0; i < N; i++) {
            values[i] = i;
            const wh_op_opts *opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_tag_send(me->ep, &values[i], 8, 1, opts, NULL));
        }
        kit_fill(buf, large, 4);
        const wh_op_opts *opts = kit_opts(&big);
        BEGIN(&big, wh_tag_send(me->ep, buf, large, 2, opts, NULL));
        opts = kit_opts_with(&close, 0, (uint32_t)kit_hang_ms);
        BEGIN(&close, wh_endpoint_close(me->ep, opts, &close.req));
        me->ep = NULL;
        END(&close, WH_OK);
        END(&big, WH_OK);
        for (int i = 0; i < N; i++)
            END(&ops[i], WH_OK);
        SYNC();
    } else {
        kit_recv(me, me->ep, buf, large, 2);
        SAME(buf, large, 4);
        SYNC();
        UNTIL(wh_endpoint_status(me->ep) == WH_ECLOSED);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t value = 99;
            kit_recv(me, me->ep, &value, 8, 1);  // what came before can still be read
            REQUIRE_INT(value, i);
        }
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        wh_status st = wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req);
        if (kit_threaded(me)) {
            BEGIN(&op, st);
            END(&op, WH_ECLOSED);
            opts = kit_opts(&op);
            BEGIN(&op, wh_tag_send(me->ep, buf, 8, 1, opts, &op.req));
            END(&op, WH_ECLOSED);
        } else {
            REQUIRE_STATUS(st, WH_ECLOSED);  // end of stream
            REQUIRE_STATUS(wh_tag_send(me->ep, buf, 8, 1, NULL, NULL), WH_ECLOSED);
            REQUIRE_STATUS(wh_tag_send(me->ep, buf, 100000, 1, NULL, NULL), WH_ECLOSED);
            REQUIRE_STATUS(wh_object_send(me->ep, NULL, 0, NULL, 0, 0, 1, NULL, NULL), WH_ECLOSED);
            REQUIRE_STATUS(wh_am_send(me->ep, 1, NULL, 0, NULL, 0, NULL, NULL), WH_ECLOSED);
            REQUIRE_STATUS(wh_endpoint_flush(me->ep, NULL, NULL), WH_ECLOSED);
        }
        kit_close(me, me->ep);
        me->ep = NULL;
    }
    free(buf);
}

typedef struct lost {
    _Atomic unsigned count;
    wh_status why;
} lost;

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    lost *l = arg;
    (void)ep;
    l->why = why;
    atomic_fetch_add(&l->count, 1);
}

CASE(end_close_ends_the_peers_receives, 0) {
    kit_op recv, object, any, send;
    char a[8], c[8], *big = kit_alloc(me, 50000);
    static lost l;
    if (me->role == 0) {
        SYNC();
        kit_close(me, me->ep);
        me->ep = NULL;
        SYNC();
    } else {
        l = (lost){.why = WH_OK};
        REQUIRE_STATUS(wh_endpoint_on_lost(me->ep, on_lost, &l), WH_OK);
        const wh_op_opts *opts = kit_opts(&recv);
        BEGIN(&recv, wh_tag_recv(me->ep, a, 8, 1, WH_TAG_MASK_ALL, opts, &recv.req));
        opts = kit_opts(&object);
        BEGIN(&object, wh_object_recv(me->ep, NULL, 0, 0, 1, 0, opts, NULL));
        opts = kit_opts(&any);
        BEGIN(&any, wh_worker_tag_recv(me->worker, c, 8, 0x123, WH_TAG_MASK_ALL, opts, &any.req));
        opts = kit_opts(&send);
        BEGIN(&send, wh_tag_send(me->ep, big, 50000, 1, opts, NULL));
        SYNC();
        END(&recv, WH_ECLOSED);
        END(&object, WH_ECLOSED);
        UNTIL(atomic_load(
            &send.ended));  // refused by the close, or dropped by it: an end in any case
        UNTIL(atomic_load(&l.count) == 1);
        REQUIRE_STATUS(l.why, WH_ECLOSED);
        SYNC();
        kit_idle(me, 2);
        REQUIRE_INT(atomic_load(&any.ended), 0);  // any source is not this source
        wh_request_cancel(any.req);
        END(&any, WH_ECANCELLED);
        REQUIRE_INT(atomic_load(&l.count), 1);
    }
    free(big);
}

CASE(end_close_of_both_at_once, 0) {
    for (int i = 0; i < 30; i++) {
        wh_endpoint *ep = kit_pair(me);
        if (i % 2)
            kit_send(me, ep, "x", 1, 1);
        SYNC();
        kit_close(me, ep);
    }
}

CASE(end_close_gives_up_in_time, KIT_TWO | KIT_SYNCED) {
    enum { STOPPED, CLOSED };
    atomic_store(&me->shared->values[STOPPED], 0);
    atomic_store(&me->shared->values[CLOSED], 0);
    SYNC();
    if (me->role == 0) {
        UNTIL_POLLED(atomic_load(&me->shared->values[STOPPED]));
        kit_op op;
        const wh_op_opts *opts = kit_opts_with(&op, 0, 50);
        BEGIN(&op, wh_endpoint_close(me->ep, opts, &op.req));
        me->ep = NULL;
        END(&op, WH_ETIMEDOUT);
        atomic_store(&me->shared->values[CLOSED], 1);
    } else {
        atomic_store(&me->shared->values[STOPPED], 1);
        while (!atomic_load(&me->shared->values[CLOSED]))
            usleep(1000);  // makes no progress
        UNTIL(wh_endpoint_status(me->ep) != WH_OK);
    }
}

CASE(end_abort_leaves_siblings_unharmed, 0) {
    enum { N = 12 };
    const size_t size = 1500000;
    wh_endpoint *eps[N];
    static kit_op ops[2][N];
    static lost losses[N];
    char *bufs[N];
    for (int i = 0; i < N; i++) {
        eps[i] = kit_pair(me);
        bufs[i] = kit_alloc(me, size);
        if (me->role == 0)
            kit_fill(bufs[i], size, (uint64_t)i);
        if (me->role == 1) {
            losses[i] = (lost){.why = WH_OK};
            REQUIRE_STATUS(wh_endpoint_on_lost(eps[i], on_lost, &losses[i]), WH_OK);
        }
    }
    SYNC();
    for (int i = 0; i < N; i++) {
        kit_op *op = &ops[me->role][i];
        const wh_op_opts *opts = kit_opts(op);
        if (me->role == 0)
            BEGIN(op, wh_tag_send(eps[i], bufs[i], size, 1, opts, NULL));
        else
            BEGIN(op, wh_tag_recv(eps[i], bufs[i], size, 1, WH_TAG_MASK_ALL, opts, NULL));
    }
    SYNC();
    // Role 0 aborts each third in the middle, role 1 each fourth.
    for (int n = 0; n < 3 && !kit_threaded(me); n++)
        (void)wh_worker_progress(me->worker);
    for (int i = 0; i < N; i++)
        if (me->role == 0 ? i % 3 == 0 : i % 4 == 1)
            wh_endpoint_abort(eps[i]);
    for (int i = 0; i < N; i++) {
        kit_op *op = &ops[me->role][i];
        bool mine = me->role == 0 ? i % 3 == 0 : i % 4 == 1;
        bool theirs = me->role == 1 ? i % 3 == 0 : i % 4 == 1;
        UNTIL(atomic_load(&op->ended));
        wh_status st = op->result.status;
        REQUIRE_INT(atomic_load(&op->ended), 1);
        REQUIRE(st == WH_OK || (mine && st == WH_ECANCELLED) || (theirs && st == WH_EPEER));
        if (st == WH_OK && me->role == 1)
            SAME(bufs[i], size, (uint64_t)i);
        if (theirs && !mine) {
            UNTIL(wh_endpoint_status(eps[i]) == WH_EPEER);
            if (me->role == 1)
                UNTIL(atomic_load(&losses[i].count) == 1);
        }
    }
    SYNC();
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0 || i % 4 == 1) {
            bool mine = me->role == 0 ? i % 3 == 0 : i % 4 == 1;
            if (!mine)
                wh_endpoint_abort(eps[i]);
        } else {
            uint64_t value = 5;
            if (me->role == 0)
                kit_send(me, eps[i], &value, 8, 2);
            else
                kit_recv(me, eps[i], &value, 8, 2);
            kit_close(me, eps[i]);
        }
        free(bufs[i]);
    }
}

// ---- what callbacks may do

typedef struct chain {
    kit_side *me;
    wh_endpoint *ep;
    uint64_t value, got;
    _Atomic unsigned rounds, ended;
    unsigned last;
} chain;

static void chain_step(chain *c);

static void chain_done(wh_request *req, const wh_result *result, void *arg) {
    chain *c = arg;
    kit_side *me = c->me;
    REQUIRE_STATUS(result->status, WH_OK);
    wh_request_free(req);
    chain_step(c);
}

static void chain_step(chain *c) {
    kit_side *me = c->me;
    for (;;) {
        unsigned round = atomic_fetch_add(&c->rounds, 1);
        if (round == c->last) {
            atomic_store(&c->ended, 1);
            return;
        }
        bool sends = (round + (unsigned)me->role) % 2 == 0;
        wh_request *req = NULL;
        c->value = round;
        wh_result result;
        const wh_op_opts *opts = WH_OP_OPTS(.done = chain_done, .arg = c, .result = &result);
        wh_status st = sends ? wh_tag_send(c->ep, &c->value, 8, round, opts, &req)
                             : wh_tag_recv(c->ep, &c->got, 8, round, WH_TAG_MASK_ALL, opts, &req);
        if (st == WH_PENDING)
            return;
        REQUIRE_STATUS(st, WH_OK);
    }
}

static void chain_start(void *arg) {
    chain_step(arg);
}

CASE(end_callbacks_start_operations, 0) {
    static chain chains[2];
    chain *c = &chains[me->role];
    *c = (chain){.me = me, .ep = me->ep, .last = 2000};
    kit_owned(me, chain_start, c);
    UNTIL(atomic_load(&c->ended));
    REQUIRE_INT(c->got, 1999 - (me->role == 0 ? 0 : 1));
}

static void close_inside(wh_request *req, const wh_result *result, void *arg) {
    kit_side *me = arg;
    (void)result;
    REQUIRE_STATUS(wh_request_wait(req, 0), WH_EBUSY);
    REQUIRE_STATUS(wh_tag_send_wait(me->ep, "x", 1, 1, 0), WH_EBUSY);
    REQUIRE_STATUS(wh_worker_wait(me->worker, 0), WH_EBUSY);
    REQUIRE_INT(wh_worker_progress(me->worker), 0);
    wh_status st = wh_endpoint_close(me->ep, NULL, NULL);
    REQUIRE(st == WH_OK || st == WH_PENDING);
    atomic_store(&me->shared->values[me->role], 1);
}

CASE(end_callback_closes_the_endpoint, 0) {
    atomic_store(&me->shared->values[me->role], 0);
    SYNC();
    char buf[8];
    wh_request *req = NULL, *others[4];
    if (me->role == 1) {
        REQUIRE_STATUS(wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL,
                                   WH_OP_OPTS(.done = close_inside, .arg = me), &req),
                       WH_PENDING);
        for (int i = 0; i < 4; i++)
            REQUIRE_STATUS(wh_tag_recv(me->ep, buf, 8, 2, WH_TAG_MASK_ALL, NULL, &others[i]),
                           WH_PENDING);
        SYNC();
        UNTIL(atomic_load(&me->shared->values[1]));
        me->ep = NULL;
        UNTIL(wh_request_status(req) != WH_PENDING);
        wh_request_free(req);
        for (int i = 0; i < 4; i++) {
            UNTIL(wh_request_status(others[i]) != WH_PENDING);
            REQUIRE_STATUS(wh_request_status(others[i]), WH_ECLOSED);
            wh_request_free(others[i]);
        }
    } else {
        SYNC();
        kit_send(me, me->ep, buf, 8, 1);
        UNTIL(wh_endpoint_status(me->ep) == WH_ECLOSED);
    }
}

// ---- a worker that goes

CASE(end_worker_goes_with_everything_pending, KIT_TWO | KIT_LISTENS) {
    enum { N = 50 };
    static kit_op ops[2][N][5];
    static char bytes[200000];
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    wh_endpoint *ep = NULL, *theirs = NULL;
    if (me->role == 0) {
        REQUIRE_STATUS(
            wh_context_create((const char *[]){kit_lane_options[me->config->lane], NULL}, &ctx),
            WH_OK);
        REQUIRE_STATUS(
            wh_worker_create(ctx, WH_WORKER_OPTS(.progress_thread = kit_threaded(me)), &worker),
            WH_OK);
        REQUIRE_STATUS(wh_endpoint_connect_blob(worker, me->shared->blob[1],
                                                me->shared->blob_size[1], NULL, &ep),
                       WH_OK);
        for (int i = 0; i < 2000 && wh_endpoint_status(ep) == WH_PENDING; i++) {
            if (kit_threaded(me))
                kit_idle(me, 10);
            else
                (void)!wh_worker_wait(worker, 10);
        }
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
        SYNC();
        for (int i = 0; i < N; i++) {
            kit_op *op = ops[0][i];
            const wh_op_opts *opts = kit_opts(&op[0]);
            BEGIN(&op[0], wh_tag_send(ep, bytes, sizeof(bytes), 1, opts, &op[0].req));
            opts = kit_opts(&op[1]);
            BEGIN(&op[1], wh_tag_recv(ep, bytes, 8, 2, WH_TAG_MASK_ALL, opts, NULL));
            opts = kit_opts(&op[2]);
            BEGIN(&op[2],
                  wh_worker_tag_recv(worker, bytes, 8, 2, WH_TAG_MASK_ALL, opts, &op[2].req));
            opts = kit_opts(&op[3]);
            BEGIN(&op[3], wh_object_recv(ep, NULL, 0, 0, 2, 0, opts, NULL));
            opts = kit_opts_with(&op[4], WH_OP_SYNC, 60000);
            BEGIN(&op[4], wh_tag_send(ep, bytes, 8, 3, opts, NULL));
            if (i == N / 2 && !kit_threaded(me))
                while (wh_worker_progress(worker) > 0) {
                }
        }
        SYNC();
        wh_worker_destroy(worker);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < 5; j++) {
                kit_op *op = &ops[0][i][j];
                REQUIRE_INT(atomic_load(&op->ended), 1);
                REQUIRE(op->result.status == WH_ECLOSED || op->result.status == WH_OK);
                wh_request_free(op->req);  // handles outlive the worker
            }
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_ECLOSED);
        REQUIRE_STATUS(wh_tag_send(ep, bytes, 8, 1, NULL, NULL), WH_ECLOSED);
        REQUIRE_STATUS(wh_endpoint_close(ep, NULL, NULL), WH_OK);
        wh_context_destroy(ctx);
        SYNC();
    } else {
        SYNC();
        theirs = kit_accept(me);
        SYNC();
        SYNC();
        UNTIL(wh_endpoint_status(theirs) != WH_OK);
        wh_status why = wh_endpoint_status(theirs);
        REQUIRE(why == WH_EPEER || why == WH_ECLOSED);
        wh_endpoint_abort(theirs);
    }
}
