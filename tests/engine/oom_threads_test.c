// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking calls and calls from other threads with the n-th allocation failing: see oom_test.c for the rest.
//
// Both workers have a progress thread, and this thread owns neither.  Which allocation is the n-th depends on the threads,
// so a run is not repeatable; what must hold is the same whichever fails: each call returns, and an accepted
// operation ends once.
#include "base/alloc.h"
#include "engine/test_kit.h"

enum { LARGE = 200000, WAIT_MS = 100, RUNS_MAX = 2000 };

static wh_context *ctx;
static wh_worker *server, *client;
static _Atomic unsigned accepted_count;
static wh_endpoint *accepted[KIT_ACCEPTED_MAX];
static _Atomic unsigned started, ended;
static uint8_t source[LARGE], into[LARGE];

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    unsigned n = atomic_load(&accepted_count);
    accepted[n] = ep;
    atomic_store(&accepted_count, n + 1);
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    if (result->object)
        wh_object_free(result->object);
    atomic_fetch_add(&ended, 1);
}

static void note(wh_status st) {
    CHECK(st == WH_OK || st == WH_PENDING || st < 0);
    if (st == WH_PENDING)
        atomic_fetch_add(&started, 1);
}

// checked accepts any outcome of a blocking call except one that took for ever.
static bool checked(wh_status st) {
    CHECK(st <= 0);
    return st == WH_OK;
}

static void set_flag(void *arg) {
    atomic_store((_Atomic int *)arg, 1);
}

#define TELL WH_OP_OPTS(.done = on_done, .timeout_ms = WAIT_MS)

static void exchange(wh_endpoint *to, wh_endpoint *from) {
    static _Atomic int called;
    wh_object *object = NULL;
    (void)checked(wh_tag_send_wait(to, source, 100, 1, WAIT_MS));
    (void)checked(wh_tag_recv_wait(from, into, LARGE, 1, WH_TAG_MASK_ALL, WAIT_MS, NULL));
    // Ends that belong together on one thread: the first half is started, the second waited for.
    note(wh_tag_send(to, source, LARGE, 2, TELL, NULL));
    (void)checked(wh_worker_tag_recv_wait(server, into, LARGE, 2, WH_TAG_MASK_ALL, WAIT_MS, NULL));
    note(wh_object_send(to, source, 20, &(wh_frame){.data = source, .size = LARGE}, 1,
                        sizeof(wh_frame), 3, TELL, NULL));
    if (checked(wh_object_recv_wait(from, 3, WH_TAG_MASK_ALL, WAIT_MS, &object)))
        wh_object_free(object);
    note(wh_object_recv(from, NULL, 0, 0, 4, WH_TAG_MASK_ALL, TELL, NULL));
    (void)checked(wh_object_send_wait(to, source, 20, NULL, 0, 0, 4, WAIT_MS));
    (void)checked(wh_am_send_wait(to, 1, "h", 1, source, 10, WAIT_MS));
    (void)checked(wh_endpoint_flush_wait(to, WAIT_MS));
    (void)checked(wh_worker_call(server, set_flag, &called));
    wh_request *req = NULL;
    note(wh_tag_recv(from, into, 10, 5, WH_TAG_MASK_ALL, WH_OP_OPTS(.done = on_done), &req));
    if (req) {
        wh_request_cancel(req);
        (void)checked(wh_request_wait(req, WAIT_MS));
        wh_request_free(req);
    }
}

// drop_line is the sink of the log: the kit's own is for one thread.
static void drop_line(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

static bool run(uint64_t n) {
    wh_listener *listener = NULL;
    wh_endpoint *to = NULL;
    char address[64];
    const wh_worker_opts *opts = WH_WORKER_OPTS(.progress_thread = true);
    atomic_store(&accepted_count, 0);
    atomic_store(&started, 0);
    atomic_store(&ended, 0);
    CHECK_EQ_INT(wh_worker_create(ctx, opts, &server), WH_OK);
    CHECK_EQ_INT(wh_worker_create(ctx, opts, &client), WH_OK);
    CHECK_EQ_INT(wh_listener_open(server, "127.0.0.1:0", NULL, on_accept, NULL, &listener), WH_OK);
    CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    whi_alloc_fail_at(n);
    if (checked(
            wh_endpoint_connect_wait(client, address, WH_ENDPOINT_OPTS(.timeout_ms = 300), &to))) {
        uint64_t end_ns = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
        while (!atomic_load(&accepted_count) && wh_endpoint_status(to) == WH_OK &&
               whi_clock_ns() < end_ns)
            usleep(100);
        if (atomic_load(&accepted_count))
            exchange(to, accepted[atomic_load(&accepted_count) - 1]);
        (void)checked(wh_endpoint_close_wait(to, WAIT_MS));
    }
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    wh_listener_close(listener);
    wh_worker_destroy(client);
    wh_worker_destroy(server);
    CHECK_EQ_INT(atomic_load(&ended), atomic_load(&started));
    for (unsigned i = 0; i < atomic_load(&accepted_count); i++)
        wh_endpoint_abort(accepted[i]);
    return reached;
}

TEST(other_threads_and_blocking_calls) {
    static const char *const options[] = {"grace=300ms", NULL};
    wh_log_set_sink(drop_line, NULL);
    ctx = kit_context(options);
    uint64_t n = 1;
    while (run(n))
        CHECK(++n < RUNS_MAX);
    CHECK(n > 10);
    printf("        %llu runs\n", (unsigned long long)n);
    wh_context_destroy(ctx);
    wh_log_set_sink(NULL, NULL);
}

TEST_MAIN()
