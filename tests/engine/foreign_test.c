// SPDX-License-Identifier: BSD-3-Clause
//
// Operations of other threads whose endpoint, handle or worker has gone before its owner saw them; and what a progress thread
// lends.  What reads freed memory here is for the address sanitizer to see.
#include <pthread.h>
#include <stdlib.h>

#include "engine/test_kit.h"
#include "message/request.h"

static duo d;
static wh_request *req;

static void begin(void) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    req = NULL;
}

// elsewhere runs `fn` in another thread to its end.
static void elsewhere(void *(*fn)(void *arg)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, NULL) == 0);
    pthread_join(thread, NULL);
}

static void *send_one(void *arg) {
    CHECK_EQ_INT(wh_tag_send(d.to, "word", 4, 1, NULL, &req), WH_PENDING);
    return arg;
}

// The new endpoint may be given the memory of the one that has ended, were it freed already.
TEST(owner_aborts_before_a_submitted_send) {
    begin();
    elsewhere(send_one);
    wh_endpoint_abort(d.to);
    wh_endpoint *next = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &next), WH_OK);
    CHECK_EQ_INT(done_as(&d, req), WH_ECLOSED);
    UNTIL(&d, wh_endpoint_status(next) == WH_OK && d.accepted_count == 2);
    wh_endpoint_abort(d.accepted[1]);
    d.to = next;
    duo_end(&d);
}

static void *close_it(void *arg) {
    CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &req), WH_PENDING);
    return arg;
}

static void *cancel_and_free(void *arg) {
    wh_request_cancel(req);
    wh_request_free(req);
    return arg;
}

static void *free_it(void *arg) {
    wh_request_free(req);
    return arg;
}

// Cancelling the close, the last operation of its endpoint, ends the endpoint.
TEST(cancel_of_the_last_operation) {
    begin();
    elsewhere(close_it);
    (void)wh_worker_progress(d.client);
    elsewhere(cancel_and_free);
    whi_req_reap_foreign(d.client);  // the handle goes first, as a pass may have it
    (void)wh_worker_progress(d.client);
    d.to = NULL;
    duo_for(&d, 5);
    CHECK_EQ_INT(d.client->counters.pending, 0);
    duo_end(&d);
}

// ---- an object for a receive whose handle another thread has given up

enum { FRAME = 100000 };
static unsigned allocated, freed;

static wh_status allocate(wh_object *object, size_t index, void **data, void *arg) {
    (void)object, (void)index, (void)arg;
    *data = malloc(FRAME);
    allocated++;
    return WH_OK;
}

static void free_frame(void *data, size_t size, wh_mem_kind mem, int device, void *arg) {
    (void)size, (void)mem, (void)device, (void)arg;
    free(data);
    freed++;
}

static void *receive_object(void *arg) {
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, NULL, &req), WH_PENDING);
    return arg;
}

TEST(object_that_nobody_can_take) {
    static char frame[FRAME];
    begin();
    allocated = freed = 0;
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                         WH_ALLOCATOR(.alloc = allocate, .free_fn = free_frame)),
                 WH_OK);
    elsewhere(receive_object);
    duo_for(&d, 5);
    wh_request *sent = NULL;
    CHECK_EQ_INT(wh_object_send(d.to, "h", 1, &(wh_frame){.data = frame, .size = FRAME}, 1,
                                sizeof(wh_frame), 1, NULL, &sent),
                 WH_PENDING);
    // The server does not look at given-up handles before the object is there.
    UNTIL(&d, (d.server->countdown = 1000, allocated));
    elsewhere(free_it);
    for (int i = 0; i < 5000 && wh_request_status(sent) == WH_PENDING; i++) {
        d.server->countdown = 1000;
        duo_pass(&d);
    }
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    duo_for(&d, 5);
    CHECK(allocated == 1 && freed == 1);
    duo_end(&d);
}

// ---- active messages

static _Atomic(wh_am *) kept;

static wh_status keep(wh_am *am, void *arg) {
    (void)arg;
    atomic_store(&kept, am);
    return WH_PENDING;
}

static wh_endpoint *accepted;

static void accept_one(wh_endpoint *ep, void *arg) {
    (void)arg;
    accepted = ep;
}

// Its owner is the progress thread, which lends the worker to whoever calls.
TEST(kept_message_beside_a_progress_thread) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *client = kit_worker(ctx), *server = NULL;
    wh_listener *listener = NULL;
    wh_endpoint *ep = NULL;
    wh_request *recv = NULL;
    char address[64], in[4] = "";
    wh_worker_opts opts = {.size = sizeof(opts), .progress_thread = true};
    CHECK_EQ_INT(wh_worker_create(ctx, &opts, &server), WH_OK);
    CHECK_EQ_INT(wh_listener_open(server, "127.0.0.1:0", NULL, accept_one, NULL, &listener), WH_OK);
    CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    CHECK_EQ_INT(wh_worker_set_am(server, 3, keep, NULL), WH_OK);
    CHECK_EQ_INT(wh_endpoint_connect_wait(client, address, NULL, &ep), WH_OK);
    for (int dropped = 0; dropped < 2; dropped++) {
        atomic_store(&kept, NULL);
        CHECK_EQ_INT(wh_am_send_wait(ep, 3, "h", 1, "abc", 4, 10000), WH_OK);
        while (!atomic_load(&kept))
            (void)wh_worker_progress(client);
        if (dropped) {
            wh_am_drop(atomic_load(&kept));
            continue;
        }
        wh_status st = wh_am_recv(atomic_load(&kept), in, sizeof(in), NULL, &recv);
        CHECK(st == WH_OK || (st == WH_PENDING && wh_request_wait(recv, 10000) == WH_OK));
        CHECK_EQ_STR(in, "abc");
        wh_request_free(recv);
    }
    wh_endpoint_abort(ep);
    wh_endpoint_abort(accepted);
    wh_listener_close(listener);
    wh_worker_destroy(client);
    wh_worker_destroy(server);
    wh_context_destroy(ctx);
}

TEST(kept_message_outlives_its_worker) {
    begin();
    atomic_store(&kept, NULL);
    CHECK_EQ_INT(wh_worker_set_am(d.server, 3, keep, NULL), WH_OK);
    CHECK_EQ_INT(wh_am_send(d.to, 3, "h", 1, "abc", 3, NULL, NULL), WH_OK);
    UNTIL(&d, atomic_load(&kept));
    duo_end(&d);
    wh_am_drop(atomic_load(&kept));
}

TEST_MAIN()
