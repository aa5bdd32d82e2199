// SPDX-License-Identifier: BSD-3-Clause
//
// Callbacks that do the worst that they may: end the endpoint, the request or the link that is being worked on.
//
// Handlers and allocators run in the middle of a record, so what they end must stay in memory until the engine above them
// has returned it.  These tests mean most under the address sanitizer.
#include <sys/socket.h>

#include "engine/test_kit.h"

static duo d;

static void begin(void) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
}

static void pump_ms(unsigned ms) {
    duo_for(&d, ms);
}

// ---- handlers of active messages

static enum { END_ABORT, END_CLOSE, END_OTHER, END_RECV_AFTER, END_KEEP } how;
static unsigned handled;
static wh_endpoint **other_end;  // what the handler aborts beside its own endpoint

static wh_status ending_handler(wh_am *am, void *arg) {
    static char into[100];
    (void)arg;
    handled++;
    switch (how) {
    case END_ABORT: wh_endpoint_abort(am->ep); return WH_OK;
    case END_CLOSE: return wh_endpoint_close(am->ep, NULL, NULL) < 0 ? WH_EINVAL : WH_OK;
    case END_OTHER: wh_endpoint_abort(*other_end); return WH_OK;
    case END_RECV_AFTER:
        wh_endpoint_abort(am->ep);
        CHECK_EQ_INT(wh_am_recv(am, into, sizeof(into), NULL, NULL), WH_ECANCELLED);
        return WH_OK;
    case END_KEEP: wh_endpoint_abort(am->ep); return WH_PENDING;
    }
    return WH_OK;
}

static void send_am(wh_endpoint *ep, size_t size) {
    static char payload[1 << 20];
    wh_status st = wh_am_send(ep, 7, "head", 4, payload, size, NULL, NULL);
    CHECK(st == WH_OK || st == WH_PENDING);
}

static void handler_ends(int what, size_t size) {
    begin();
    how = what;
    handled = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.server, 7, ending_handler, NULL), WH_OK);
    send_am(d.to, size);
    send_am(d.to, size);  // finds nobody
    UNTIL(&d, handled);
    UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
    CHECK_EQ_INT(handled, 1);
    d.from = NULL;
    duo_end(&d);
}

TEST(handler_aborts_its_endpoint) {
    handler_ends(END_ABORT, 10);
    handler_ends(END_ABORT, 1 << 20);
}

TEST(handler_closes_its_endpoint) {
    handler_ends(END_CLOSE, 10);
}

TEST(handler_receives_after_the_end) {
    handler_ends(END_RECV_AFTER, 1 << 20);
}

// What a handler keeps is the user's until it is dropped, also when the endpoint is gone.
static wh_am *kept;
static wh_status keeping_handler(wh_am *am, void *arg) {
    (void)arg;
    kept = am;
    wh_endpoint_abort(am->ep);
    return WH_PENDING;
}

TEST(handler_keeps_a_message_of_an_aborted_endpoint) {
    for (int large = 0; large < 2; large++) {
        begin();
        CHECK_EQ_INT(wh_worker_set_am(d.server, 7, keeping_handler, NULL), WH_OK);
        kept = NULL;
        send_am(d.to, large ? 1 << 20 : 10);
        UNTIL(&d, kept);
        CHECK(memcmp(kept->header, "head", 4) == 0);
        wh_am_drop(kept);
        UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
        d.from = NULL;
        duo_end(&d);
    }
}

// A handler ends an endpoint that was the last of another link, whichever of the two links is polled first.
TEST(handler_ends_another_link) {
    enum { LINKS = 6 };
    for (int from = 0; from < LINKS; from++) {
        duo_begin(&d, NULL, NULL);
        wh_worker *workers[LINKS];
        wh_endpoint *eps[LINKS];
        for (int i = 0; i < LINKS; i++) {
            workers[i] = kit_worker(d.ctx[1]);
            CHECK_EQ_INT(wh_endpoint_connect(workers[i], d.address, NULL, &eps[i]), WH_OK);
            UNTIL(&d, (wh_worker_progress(workers[i]), d.accepted_count) == (unsigned)i + 1);
        }
        how = END_OTHER;
        CHECK_EQ_INT(wh_worker_set_am(d.server, 7, ending_handler, NULL), WH_OK);
        for (int victim = 0; victim < LINKS; victim++) {
            if (victim == from)
                continue;
            handled = 0;
            other_end = &d.accepted[victim];
            UNTIL(&d, (wh_worker_progress(workers[from]), wh_endpoint_status(eps[from])) == WH_OK);
            send_am(eps[from], 10);
            UNTIL(&d, (wh_worker_progress(workers[from]), handled));
        }
        CHECK_EQ_INT(whi_hash_count(&whi_links_of(d.server)->links), 1);
        wh_endpoint_abort(d.accepted[from]);
        for (int i = 0; i < LINKS; i++) {
            wh_endpoint_abort(eps[i]);
            wh_worker_destroy(workers[i]);
        }
        duo_end(&d);
    }
}

// ---- allocators

static wh_request *cancelled;
static wh_endpoint *aborted;
static wh_status answer;
static unsigned asked;

static wh_status ending_allocator(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    asked++;
    if (cancelled)
        wh_request_cancel(cancelled);
    if (aborted)
        wh_endpoint_abort(aborted);
    aborted = NULL;
    if (answer == WH_OK)
        *ptr = malloc(wh_object_frame(object, index)->size + 1);
    return answer;
}

static unsigned freed;
static void free_frame(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    freed++;
    free(ptr);
}

static void send_object(size_t frame_size) {
    static char frame[1 << 20];
    wh_frame frames[2] = {{.data = frame, .size = frame_size}, {.data = frame, .size = 10}};
    wh_status st = wh_object_send(d.to, "h", 1, frames, 2, sizeof(wh_frame), 3, NULL, NULL);
    CHECK(st == WH_OK || st == WH_PENDING);
}

// allocator_ends receives an object whose allocator cancels or aborts, on an endpoint or from any source.
static void allocator_ends(bool cancel, bool abort_it, bool any, size_t size, wh_status says) {
    begin();
    CHECK_EQ_INT(
        wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = ending_allocator, .free_fn = free_frame)),
        WH_OK);
    wh_request *recv = NULL;
    wh_status st =
        any ? wh_worker_object_recv(d.server, NULL, 0, 0, 3, WH_TAG_MASK_ALL, NULL, &recv)
            : wh_object_recv(d.from, NULL, 0, 0, 3, WH_TAG_MASK_ALL, NULL, &recv);
    CHECK_EQ_INT(st, WH_PENDING);
    asked = 0;
    answer = says;
    cancelled = cancel ? recv : NULL;
    aborted = abort_it ? d.from : NULL;
    send_object(size);
    UNTIL(&d, asked);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(recv), WH_ECANCELLED);
    wh_request_free(recv);
    if (abort_it)
        d.from = NULL;
    // The counts of the match table are right: the next object is received.
    cancelled = NULL;
    answer = WH_OK;
    if (!abort_it) {
        CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 3, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        send_object(size);
        wh_result result;
        UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
        CHECK_EQ_INT(result.status, WH_OK);
        wh_object_free(result.object);
        wh_request_free(recv);
    }
    duo_end(&d);
}

TEST(allocator_ends_what_it_is_asked_for) {
    static const wh_status answers[] = {WH_OK, WH_PENDING, WH_ENOMEM};
    for (int i = 0; i < 24; i++) {
        bool abort_it = i & 1, any = i & 2;
        size_t size = i & 4 ? 1 << 20 : 20;
        allocator_ends(!abort_it, abort_it, any, size, answers[i / 8]);
    }
}

// An allocator that has answered "later" is told no more than the end of the receive.
TEST(parked_objects_end_with_their_peer) {
    for (int any = 0; any < 2; any++) {
        begin();
        CHECK_EQ_INT(
            wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                    WH_ALLOCATOR(.alloc = ending_allocator, .free_fn = free_frame)),
            WH_OK);
        answer = WH_PENDING;
        cancelled = NULL;
        aborted = NULL;
        asked = 0;
        wh_request *recv = NULL;
        wh_status st =
            any ? wh_worker_object_recv(d.server, NULL, 0, 0, 3, WH_TAG_MASK_ALL, NULL, &recv)
                : wh_object_recv(d.from, NULL, 0, 0, 3, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st, WH_PENDING);
        send_object(1 << 20);
        UNTIL(&d, asked == 2);
        wh_endpoint_abort(d.to);
        d.to = NULL;
        UNTIL(&d, wh_request_status(recv) != WH_PENDING);
        CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
        duo_end(&d);
    }
}

// ---- the peer goes

// Sends after the connection has gone, of every kind and before anybody has noticed, end with one error each.
TEST(sends_into_a_dead_connection) {
    static const char *const stream[] = {"lanes=stream", NULL};
    for (int kind = 0; kind < 6; kind++) {
        duo_begin(&d, stream, stream);
        duo_connect(&d);
        shutdown(d.to->link->control.watch.fd, SHUT_RDWR);
        static char payload[1 << 20];
        wh_frame frame = {.data = payload, .size = sizeof(payload)};
        wh_request *reqs[3] = {NULL};
        wh_status st = WH_PENDING;
        for (int i = 0; i < 3; i++) {
            switch (kind) {
            case 0: st = wh_tag_send(d.to, payload, 8, 1, NULL, &reqs[i]); break;
            case 1: st = wh_tag_send(d.to, payload, sizeof(payload), 1, NULL, &reqs[i]); break;
            case 2:
                st = wh_tag_send(d.to, payload, 8, 1, WH_OP_OPTS(.flags = WH_OP_SYNC), &reqs[i]);
                break;
            case 3:
                st = wh_object_send(d.to, "h", 1, &frame, 1, sizeof(wh_frame), 1, NULL, &reqs[i]);
                break;
            case 4:
                st = wh_am_send(d.to, 1, "h", 1, payload, sizeof(payload), NULL, &reqs[i]);
                break;
            default: st = wh_endpoint_flush(d.to, NULL, &reqs[i]); break;
            }
            CHECK(st == WH_OK || st == WH_PENDING || st == WH_EPEER);
        }
        UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
        CHECK_EQ_INT(wh_endpoint_status(d.to), WH_EPEER);
        for (int i = 0; i < 3; i++)
            if (reqs[i])
                CHECK_EQ_INT(done_as(&d, reqs[i]), WH_EPEER);
        CHECK_EQ_INT(d.client->counters.pending, 0);
        duo_end(&d);
    }
}

// A peer closes and is gone before its close can be acknowledged; nobody holds the endpoint any more.
TEST(close_meets_a_dead_connection) {
    static const char *const stream[] = {"lanes=stream", NULL};
    duo_begin(&d, stream, stream);
    duo_connect(&d);
    CHECK_EQ_INT(wh_endpoint_close(d.from, NULL, NULL), WH_PENDING);
    d.from = NULL;
    wh_status st = wh_endpoint_close(d.to, NULL, NULL);
    CHECK_EQ_INT(st, WH_PENDING);
    shutdown(d.to->link->control.watch.fd, SHUT_RD);
    int fd = d.to->link->control.watch.fd;
    d.to = NULL;
    shutdown(fd, SHUT_RDWR);
    UNTIL(&d, whi_hash_count(&whi_links_of(d.server)->links) +
                      whi_hash_count(&whi_links_of(d.client)->links) ==
                  0);
    duo_end(&d);
}

// Both sides close, with and without somebody to hear of it, in either order and at once.
TEST(both_sides_close) {
    for (int order = 0; order < 8; order++) {
        begin();
        wh_request *reqs[2] = {NULL};
        wh_endpoint *eps[2] = {d.to, d.from};
        bool wanted = order & 1, gap = order & 2;
        int first = order >> 2;
        for (int i = 0; i < 2; i++) {
            int who = i ^ first;
            CHECK(wh_endpoint_close(eps[who], NULL, wanted ? &reqs[who] : NULL) >= 0);
            if (gap)
                pump_ms(2);
        }
        d.to = d.from = NULL;
        UNTIL(&d, whi_hash_count(&whi_links_of(d.server)->links) +
                          whi_hash_count(&whi_links_of(d.client)->links) ==
                      0);
        for (int i = 0; i < 2; i++)
            if (reqs[i])
                CHECK_EQ_INT(done_as(&d, reqs[i]), WH_OK);
        CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
        CHECK_EQ_INT(d.server->counters.endpoints + d.client->counters.endpoints, 0);
        duo_end(&d);
    }
}

// ---- callbacks of requests

static unsigned told;
static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)arg;
    told++;
    if (result->object)
        wh_object_free(result->object);
    if (req)
        wh_request_free(req);
    if (d.from)
        wh_endpoint_abort(d.from);
    d.from = NULL;
}

TEST(callbacks_that_free_and_abort) {
    begin();
    told = 0;
    static char into[3][100];
    for (int i = 0; i < 3; i++) {
        wh_request *req = NULL;
        CHECK_EQ_INT(wh_tag_recv(d.from, into[i], 100, 5, WH_TAG_MASK_ALL,
                                 WH_OP_OPTS(.done = on_done), i == 1 ? &req : NULL),
                     WH_PENDING);
    }
    CHECK_EQ_INT(wh_tag_send(d.to, "x", 1, 5, NULL, NULL), WH_OK);
    UNTIL(&d, told == 3);
    pump_ms(5);
    CHECK_EQ_INT(told, 3);
    duo_end(&d);
}

static void abort_at_once(wh_endpoint *ep, void *arg) {
    ++*(unsigned *)arg;
    wh_endpoint_abort(ep);
}

TEST(accept_callback_that_aborts) {
    begin();
    unsigned accepted = 0;
    wh_listener *rude = NULL;
    CHECK_EQ_INT(wh_listener_open(d.server, "127.0.0.1:0", NULL, abort_at_once, &accepted, &rude),
                 WH_OK);
    char address[64];
    CHECK_EQ_INT(wh_listener_address(rude, address, sizeof(address)), WH_OK);
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, address, NULL, &ep), WH_OK);
    UNTIL(&d, accepted == 1 && wh_endpoint_status(ep) == WH_EPEER);
    wh_endpoint_abort(ep);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    wh_listener_close(rude);
    duo_end(&d);
}

TEST_MAIN()
