// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting: listeners, address blobs, both sides at once, refusals, accept callbacks that act at once.
#include <sys/socket.h>
#include <unistd.h>

#include "kit.h"

// own_worker makes one more worker for a case; options may be NULL.
static wh_worker *own_worker(kit_side *me, const char *option, wh_accept_fn accept, void *arg,
                             wh_context **ctx) {
    const char *options[] = {kit_lane_options[me->config->lane], option, NULL};
    wh_worker *worker = NULL;
    REQUIRE_STATUS(wh_context_create(options, ctx), WH_OK);
    REQUIRE_STATUS(wh_worker_create(*ctx,
                                    WH_WORKER_OPTS(.mode = WH_PROGRESS_WAIT, .accept = accept,
                                                   .accept_arg = arg),
                                    &worker),
                   WH_OK);
    return worker;
}

// PROGRESS_BOTH progresses a worker of the case beside the configuration's own until `cond` holds.
#define PROGRESS_BOTH(worker, cond)                                                                \
    do {                                                                                           \
        uint64_t kit_start = kit_now_ms();                                                         \
        while (!(cond)) {                                                                          \
            (void)!wh_worker_wait(worker, 1);                                                      \
            kit_poll(me, kit_start, __FILE__, __LINE__, #cond);                                    \
        }                                                                                          \
    } while (0)

// keep_accepted lists what comes at the role that a case keeps for it.
static void keep_accepted(wh_endpoint *ep, void *arg) {
    kit_side *side = arg;
    side->accepted[side->accepted_count++] = ep;
}

static void connected(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    wh_status *status = arg;
    *status = result->status;
}

CASE(connect_by_blob, KIT_LISTENS) {
    // Either role may connect, over the link that exists and without a listener.
    for (int who = 0; who < 2; who++) {
        SYNC();
        if (me->config->place == KIT_ONE && who == 1)
            continue;  // role 1's worker hands accepted endpoints to role 1
        wh_endpoint *ep = NULL;
        if (me->role == who) {
            wh_status done = WH_PENDING;
            REQUIRE_STATUS(wh_endpoint_connect_blob(
                               me->worker, me->shared->blob[!who], me->shared->blob_size[!who],
                               WH_ENDPOINT_OPTS(.done = connected, .arg = &done), &ep),
                           WH_OK);
            kit_send(me, ep, "queued before it is open", 24, 1);
            UNTIL(wh_endpoint_status(ep) != WH_PENDING);
            REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
            UNTIL(done != WH_PENDING);
            REQUIRE_STATUS(done, WH_OK);
        } else {
            char text[24];
            ep = kit_accept(me);
            kit_recv(me, ep, text, 24, 1);
            REQUIRE(memcmp(text, "queued before it is open", 24) == 0);
        }
        SYNC();
        kit_close(me, ep);
    }
}

CASE(connect_after_the_link_has_closed, KIT_LISTENS) {
    kit_close(me, me->ep);
    me->ep = NULL;
    for (int i = 0; i < 40; i++) {
        wh_endpoint *ep = kit_pair(me);
        char x = 'x';
        if (i % 4 < 2 && me->role == (i & 1))
            kit_send(me, ep, &x, 1, 1);
        else if (i % 4 < 2)
            kit_recv(me, ep, &x, 1, 1);
        if (i % 8 < 4)
            SYNC();
        kit_close(me, ep);
    }
}

// Both sides connect to each other at the same moment: two endpoints, one link.
CASE(connect_from_both_sides_at_once, KIT_LISTENS | KIT_TWO | KIT_SYNCED) {
    for (int round = 0; round < 12; round++) {
        wh_context *ctx = NULL;
        static kit_side acceptor[2];
        kit_side *other = &acceptor[me->role];
        other->accepted_count = 0;
        wh_worker *worker = own_worker(me, NULL, keep_accepted, other, &ctx);
        size_t size;
        REQUIRE_STATUS(wh_worker_address(worker, me->shared->blob[me->role], &size), WH_OK);
        char *blob = me->shared->blob[!me->role];
        me->shared->blob_size[me->role] = size;
        SYNC();
        wh_endpoint *ep = NULL;
        REQUIRE_STATUS(wh_endpoint_connect_blob(worker, blob, me->shared->blob_size[!me->role],
                                                WH_ENDPOINT_OPTS(.timeout_ms = 15000), &ep),
                       WH_OK);
        PROGRESS_BOTH(worker, wh_endpoint_status(ep) != WH_PENDING && other->accepted_count == 1);
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
        wh_counters counters = {.size = sizeof(counters)};
        REQUIRE_STATUS(wh_worker_counters(worker, &counters), WH_OK);
        REQUIRE_INT(counters.links, 1);
        uint64_t out = (uint64_t)me->role + 10, in = 0;
        kit_op send, recv;
        const wh_op_opts *opts = kit_opts(&send);
        BEGIN(&send, wh_tag_send(ep, &out, 8, 1, opts, NULL));
        opts = kit_opts(&recv);
        BEGIN(&recv, wh_tag_recv(other->accepted[0], &in, 8, 1, WH_TAG_MASK_ALL, opts, NULL));
        PROGRESS_BOTH(worker, atomic_load(&send.ended) && atomic_load(&recv.ended));
        REQUIRE_INT(in, (uint64_t)!me->role + 10);
        atomic_store(&me->shared->values[me->role], (uint64_t)round + 1);
        PROGRESS_BOTH(worker, atomic_load(&me->shared->values[!me->role]) == (uint64_t)round + 1);
        wh_endpoint_abort(ep);
        wh_endpoint_abort(other->accepted[0]);
        wh_worker_destroy(worker);
        wh_context_destroy(ctx);
        SYNC();
    }
    REQUIRE_STATUS(
        wh_worker_address(me->worker, me->shared->blob[me->role], &me->shared->blob_size[me->role]),
        WH_OK);
    SYNC();
}

CASE(connect_to_nobody, KIT_SYNCED) {
    wh_endpoint *ep = NULL;
    REQUIRE_STATUS(wh_endpoint_connect(me->worker, "no port", NULL, &ep), WH_EADDRESS);
    REQUIRE_STATUS(wh_endpoint_connect(me->worker, "127.0.0.1:0", NULL, &ep), WH_EADDRESS);
    REQUIRE_STATUS(wh_endpoint_connect_blob(me->worker, "rubbish", 7, NULL, &ep), WH_EADDRESS);
    REQUIRE(!ep);
    // A port that was just given back.
    wh_listener *listener = NULL;
    char address[64];
    REQUIRE_STATUS(
        wh_listener_open(me->worker, "127.0.0.1:0", NULL, keep_accepted, NULL, &listener), WH_OK);
    REQUIRE_STATUS(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    wh_listener_close(listener);
    REQUIRE_STATUS(wh_endpoint_connect(me->worker, address, NULL, &ep), WH_OK);
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op,
          wh_tag_send(ep, "x", 1, 1, opts, &op.req));  // waits for the connection, fails with it
    END(&op, WH_EREFUSED);
    REQUIRE_STATUS(wh_endpoint_status(ep), WH_EREFUSED);
    REQUIRE(strlen(wh_endpoint_error(ep)) > 10);
    REQUIRE_STATUS(wh_endpoint_close(ep, NULL, NULL), WH_OK);
    if (kit_may_block(me))
        REQUIRE_STATUS(wh_endpoint_connect_wait(me->worker, address, NULL, &ep), WH_EREFUSED);
}

CASE(connect_timeout, KIT_SYNCED) {
    // Nobody answers there: the address is for documentation, or not routed at all.
    wh_endpoint *ep = NULL;
    uint64_t start = kit_now_ms();
    REQUIRE_STATUS(
        wh_endpoint_connect(me->worker, "192.0.2.1:9", WH_ENDPOINT_OPTS(.timeout_ms = 300), &ep),
        WH_OK);
    UNTIL(wh_endpoint_status(ep) != WH_PENDING);
    wh_status st = wh_endpoint_status(ep);
    // What lies between may also say so at once, or even connect and say nothing.
    REQUIRE(st == WH_ETIMEDOUT || st == WH_EUNREACHABLE || st == WH_EREFUSED || st == WH_EPEER ||
            st == WH_ESYSTEM || st == WH_EPERM);
    REQUIRE(kit_now_ms() - start < 10000);
    wh_endpoint_abort(ep);
}

CASE(connect_secrets, KIT_LISTENS | KIT_TWO | KIT_SYNCED) {
    static wh_listener *secure;
    static kit_side acceptor;
    if (me->role == 1) {
        acceptor.accepted_count = 0;
        REQUIRE_STATUS(wh_listener_open(me->worker, "127.0.0.1:0",
                                        WH_LISTENER_OPTS(.secret = "open sesame"), keep_accepted,
                                        &acceptor, &secure),
                       WH_OK);
        atomic_store(&me->shared->values[0], wh_listener_port(secure));
    }
    SYNC();
    if (me->role == 0) {
        char address[32];
        snprintf(address, sizeof(address), "127.0.0.1:%d",
                 (int)atomic_load(&me->shared->values[0]));
        static const char *const secrets[] = {NULL, "open sesamf", "", "open sesame"};
        static const wh_status expected[] = {WH_EAUTH, WH_EAUTH, WH_EAUTH, WH_OK};
        for (int i = 0; i < 4; i++) {
            wh_context *ctx = NULL;
            wh_worker *worker = own_worker(me, NULL, NULL, NULL, &ctx);
            wh_endpoint *ep = NULL;
            REQUIRE_STATUS(
                wh_endpoint_connect(worker, address, WH_ENDPOINT_OPTS(.secret = secrets[i]), &ep),
                WH_OK);
            PROGRESS_BOTH(worker, wh_endpoint_status(ep) != WH_PENDING);
            REQUIRE_STATUS(wh_endpoint_status(ep), expected[i]);
            wh_endpoint_abort(ep);
            wh_worker_destroy(worker);
            wh_context_destroy(ctx);
        }
        // The link that exists was made without a secret: it does not let anybody in here either.
        wh_endpoint *ep = NULL;
        REQUIRE_STATUS(wh_endpoint_connect(me->worker, address, NULL, &ep), WH_OK);
        UNTIL(wh_endpoint_status(ep) != WH_PENDING);
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_EAUTH);
        wh_endpoint_abort(ep);
        REQUIRE_STATUS(wh_endpoint_connect(me->worker, address,
                                           WH_ENDPOINT_OPTS(.secret = "open sesame"), &ep),
                       WH_OK);
        UNTIL(wh_endpoint_status(ep) != WH_PENDING);
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
        wh_endpoint_abort(ep);
        SYNC();
    } else {
        SYNC();
        UNTIL(acceptor.accepted_count == 2);
        for (unsigned i = 0; i < acceptor.accepted_count; i++)
            wh_endpoint_abort(acceptor.accepted[i]);
        wh_listener_close(secure);
    }
}

CASE(connect_listener_closed_meanwhile, KIT_LISTENS | KIT_SYNCED) {
    static wh_listener *listener;
    static kit_side acceptor;
    if (me->role == 1) {
        acceptor.accepted_count = 0;
        REQUIRE_STATUS(
            wh_listener_open(me->worker, "127.0.0.1:0", NULL, keep_accepted, &acceptor, &listener),
            WH_OK);
        atomic_store(&me->shared->values[0], wh_listener_port(listener));
    }
    SYNC();
    wh_endpoint *ep = NULL, *late = NULL;
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", (int)atomic_load(&me->shared->values[0]));
    if (me->role == 0) {
        REQUIRE_STATUS(wh_endpoint_connect(me->worker, address, NULL, &ep), WH_OK);
        UNTIL(wh_endpoint_status(ep) != WH_PENDING);
        REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
        SYNC();
        SYNC();
        REQUIRE_STATUS(wh_endpoint_connect(me->worker, address, NULL, &late), WH_OK);
        UNTIL(wh_endpoint_status(late) != WH_PENDING);
        REQUIRE_STATUS(wh_endpoint_status(late), WH_EREFUSED);
        wh_endpoint_abort(late);
        kit_send(me, ep, "lives on", 8, 1);
        SYNC();
        kit_close(me, ep);
    } else {
        UNTIL(acceptor.accepted_count == 1);
        SYNC();
        wh_listener_close(listener);
        SYNC();
        char text[8];
        kit_recv(me, acceptor.accepted[0], text, 8, 1);
        SYNC();
        kit_close(me, acceptor.accepted[0]);
    }
}

// ---- accept callbacks that act at once

typedef struct acting {
    kit_side *me;
    int way;
    _Atomic unsigned count;
    wh_endpoint *ep;
    char buf[64];
    kit_op recv, send;
} acting;

static void accept_and_act(wh_endpoint *ep, void *arg) {
    acting *a = arg;
    kit_side *me = a->me;
    a->ep = ep;
    if (a->way == 0) {
        const wh_op_opts *opts = kit_opts(&a->recv);
        BEGIN(&a->recv, wh_tag_recv(ep, a->buf, 64, 1, WH_TAG_MASK_ALL, opts, &a->recv.req));
        opts = kit_opts(&a->send);
        BEGIN(&a->send, wh_tag_send(ep, "welcome", 7, 1, opts, NULL));
    } else if (a->way == 1) {
        wh_endpoint_abort(ep);
    } else {
        wh_status st = wh_endpoint_close(ep, NULL, NULL);
        REQUIRE(st == WH_OK || st == WH_PENDING);
    }
    atomic_fetch_add(&a->count, 1);
}

CASE(connect_accept_callback_acts_at_once, KIT_LISTENS | KIT_SYNCED) {
    static acting a;
    for (int way = 0; way < 3; way++) {
        wh_listener *listener = NULL;
        if (me->role == 1) {
            a = (acting){.me = me, .way = way};
            REQUIRE_STATUS(
                wh_listener_open(me->worker, "127.0.0.1:0", NULL, accept_and_act, &a, &listener),
                WH_OK);
            atomic_store(&me->shared->values[0], wh_listener_port(listener));
        }
        SYNC();
        if (me->role == 0) {
            char address[32], text[7];
            snprintf(address, sizeof(address), "127.0.0.1:%d",
                     (int)atomic_load(&me->shared->values[0]));
            wh_endpoint *ep = NULL;
            wh_status done = WH_PENDING;
            REQUIRE_STATUS(wh_endpoint_connect(me->worker, address,
                                               WH_ENDPOINT_OPTS(.done = connected, .arg = &done),
                                               &ep),
                           WH_OK);
            UNTIL(done != WH_PENDING);
            REQUIRE_STATUS(done, WH_OK);  // it was accepted, whatever came then
            if (way == 0) {
                kit_send(me, ep, "hello", 5, 1);
                kit_recv(me, ep, text, 7, 1);
                REQUIRE(memcmp(text, "welcome", 7) == 0);
            } else {
                UNTIL(wh_endpoint_status(ep) == (way == 1 ? WH_EPEER : WH_ECLOSED));
            }
            SYNC();
            if (way == 0)
                kit_close(me, ep);
            else
                wh_endpoint_abort(ep);
        } else {
            UNTIL(atomic_load(&a.count) == 1);
            if (way == 0) {
                END(&a.recv, WH_OK);
                END(&a.send, WH_OK);
                REQUIRE_INT(a.recv.result.size, 5);
            }
            SYNC();
            if (way == 0)
                kit_close(me, a.ep);
            wh_listener_close(listener);
        }
        SYNC();
    }
}

CASE(connect_given_up_at_once, KIT_LISTENS | KIT_SYNCED) {
    // The other role's worker sees none, some or all of each connection.
    if (me->role == 0) {
        char address[32];
        snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&me->shared->port));
        for (int i = 0; i < 30; i++) {
            wh_endpoint *ep = NULL;
            kit_op op;
            REQUIRE_STATUS(wh_endpoint_connect(me->worker, address, NULL, &ep), WH_OK);
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_tag_send(ep, "x", 1, 1, opts, NULL));
            for (int n = 0; n < i % 10; n++)
                kit_idle(me, n % 2);
            if (i % 2)
                wh_endpoint_abort(ep);
            else
                kit_close(me, ep);
            UNTIL(atomic_load(&op.ended));
            REQUIRE_INT(atomic_load(&op.ended), 1);
        }
        SYNC();
    } else {
        SYNC();
        kit_idle(me, 50);
        for (unsigned i = me->taken; i < atomic_load(&me->accepted_count); i++)
            wh_endpoint_abort(me->accepted[i]);
    }
}

CASE(connect_names_and_lanes, 0) {
    char text[128] = "";
    REQUIRE_STATUS(wh_endpoint_lanes(me->ep, text, sizeof(text)), WH_OK);
    const char *name = me->config->place == KIT_ONE ? "loop" : kit_lane_names[me->config->lane];
    REQUIRE(strncmp(text, name, strlen(name)) == 0);
    REQUIRE_STATUS(wh_endpoint_peer(me->ep, text, sizeof(text)), WH_OK);
    REQUIRE(text[0]);
    REQUIRE(wh_endpoint_worker(me->ep) == me->worker);
    wh_endpoint_set_data(me->ep, text);
    REQUIRE(wh_endpoint_data(me->ep) == text);
    REQUIRE(wh_endpoint_error(me->ep)[0] == '\0');
}

// Each side has what the other gave, and knows who that is.
CASE(connect_who_and_data, 0) {
    size_t size, expected_size;
    const void *expected = kit_data(!me->role, &expected_size);
    const void *data = wh_endpoint_peer_data(me->ep, &size);
    REQUIRE_INT(size, expected_size);
    REQUIRE(memcmp(data, expected, size) == 0);
    REQUIRE(!wh_endpoint_lost(me->ep));
    wh_peer_info info = {.size = sizeof(info)};
    REQUIRE_STATUS(wh_endpoint_peer_info(me->ep, &info), WH_OK);
    if (me->config->lane == KIT_LOOP)
        return;  // its links are made without a connection
    REQUIRE(info.same_host && info.uid == geteuid() && info.pid > 0 && info.host[0]);
    REQUIRE(info.local.family == AF_INET && info.remote.family == AF_INET);
    REQUIRE(strcmp(info.local.host, "127.0.0.1") == 0);
    REQUIRE(strcmp(info.remote.host, "127.0.0.1") == 0);
    REQUIRE_INT(info.vouched, me->config->lane == KIT_SHM || me->config->lane == KIT_SELF);
    // The two ends of one connection.
    atomic_store(&me->shared->values[2 * me->role], info.local.port);
    atomic_store(&me->shared->values[2 * me->role + 1], info.remote.port);
    SYNC();
    REQUIRE_INT(atomic_load(&me->shared->values[2 * !me->role + 1]), info.local.port);
    REQUIRE_INT(atomic_load(&me->shared->values[2 * !me->role]), info.remote.port);
    if (me->config->place == KIT_PROCESSES)
        REQUIRE(info.pid != (uint32_t)getpid());
    else
        REQUIRE_INT(info.pid, getpid());
}

// Data of every size arrives, that of a link that exists and of a blob too.
CASE(connect_data_sizes, KIT_LISTENS | KIT_SYNCED) {
    static const size_t sizes[] = {0, 1, 128, 129, WH_CONNECT_DATA_MAX};
    size_t size, full;
    const uint8_t *mine = kit_data(0, &full);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        wh_endpoint *ep = NULL;
        if (me->role == 0) {
            REQUIRE_STATUS(wh_endpoint_connect_blob(
                               me->worker, me->shared->blob[1], me->shared->blob_size[1],
                               WH_ENDPOINT_OPTS(.data = mine, .data_size = sizes[i]), &ep),
                           WH_OK);
            UNTIL(wh_endpoint_status(ep) != WH_PENDING);
            REQUIRE_STATUS(wh_endpoint_status(ep), WH_OK);
            REQUIRE(wh_endpoint_peer_data(ep, &size) && size == 300);
        } else {
            ep = kit_accept(me);
            const void *data = wh_endpoint_peer_data(ep, &size);
            REQUIRE_INT(size, sizes[i]);
            REQUIRE(size ? memcmp(data, mine, size) == 0 : !data);
        }
        SYNC();
        kit_close(me, ep);
    }
}

// The peer's close is seen without a callback, and by any thread.
CASE(connect_lost_is_told, 0) {
    if (me->role == 0) {
        kit_close(me, me->ep);
        me->ep = NULL;
    } else {
        UNTIL(wh_endpoint_lost(me->ep));
        wh_peer_info info = {.size = sizeof(info)};
        REQUIRE_STATUS(wh_endpoint_peer_info(me->ep, &info), WH_OK);
    }
}
