// SPDX-License-Identifier: BSD-3-Clause
//
// Requests of layers: a layer of one counter, whose operations end when the test says so, or when all of a number of receives
// have ended.
#include <pthread.h>

#include "base/alloc.h"
#include "engine/test_kit.h"

static duo d;

static struct {
    unsigned cancels, callbacks;
    wh_status why, told;
    wh_request *req;  // the layer's
    bool at_once;     // a cancel completes the request
} l;

static void finish(wh_status status, const char *sentence) {
    wh_request *req = l.req;
    l.req = NULL;
    CHECK_EQ_INT(
        wh_request_complete(req, &(wh_result){.status = status, .size = 7, .tag = 9}, sentence),
        WH_OK);
}

static void cancel(wh_request *req, wh_status why, void *state) {
    CHECK(state == &l && req == l.req);
    l.cancels++;
    l.why = why;
    if (l.at_once)
        finish(why, "asked to end");
}

static void told(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    CHECK(arg == &l);
    l.callbacks++;
    l.told = result->status;
}

#define OPS WH_LAYER_OPS(.text = "test of a layer", .cancel = cancel)
#define TELL WH_OP_OPTS(.done = told, .arg = &l)

static wh_request *create(const wh_op_opts *opts, bool wanted) {
    CHECK_EQ_INT(wh_request_create(d.client, OPS, &l, opts, wanted, &l.req), WH_OK);
    return l.req;
}

static void begin(void) {
    memset(&l, 0, sizeof(l));
    l.at_once = true;
    duo_begin(&d, NULL, NULL);
}

static void print_more(FILE *file, void *arg) {
    CHECK(arg == &l);
    fprintf(file, "what the layer knows\n");
}

TEST(a_layer_prints_behind_its_worker) {
    char text[4096] = "";
    begin();
    CHECK_EQ_INT(wh_worker_on_dump(d.client, print_more, &l), WH_OK);
    for (int i = 0; i < 2; i++) {
        FILE *file = fmemopen(text, sizeof(text), "w");
        wh_worker_dump(d.client, file);
        fclose(file);
        CHECK(strstr(text, "objects: "));
        CHECK_EQ_INT(strstr(text, "\nwhat the layer knows\n") != NULL, i == 0);
        CHECK_EQ_INT(wh_worker_on_dump(d.client, NULL, NULL), WH_OK);
    }
    CHECK_EQ_INT(wh_worker_on_dump(NULL, print_more, &l), WH_EINVAL);
    duo_end(&d);
}

static uint64_t pending(void) {
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_worker_counters(d.client, &counters), WH_OK);
    return counters.pending;
}

TEST(completes_once_and_tells) {
    begin();
    wh_request *req = create(TELL, true);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    CHECK_EQ_INT(pending(), 1);
    finish(WH_OK, NULL);
    CHECK_EQ_INT(pending(), 0);
    CHECK_EQ_INT(l.callbacks, 0);  // in progress, not in the layer's call
    UNTIL(&d, l.callbacks == 1);
    wh_result result;
    CHECK_EQ_INT(wh_request_result(req, &result), WH_OK);
    CHECK(result.status == WH_OK && result.size == 7 && result.tag == 9);
    CHECK_EQ_STR(wh_request_error(req), "");
    CHECK_EQ_INT(wh_request_complete(req, &result, NULL), WH_EINVAL);
    wh_request_cancel(req);
    CHECK_EQ_INT(l.cancels, 0);
    wh_request_free(req);
    duo_end(&d);
}

TEST(without_a_callback_it_has_ended_at_once) {
    begin();
    wh_request *req = create(NULL, true);
    finish(WH_ENOMEM, "no memory for the third part");
    CHECK_EQ_INT(wh_request_status(req), WH_ENOMEM);
    CHECK_EQ_STR(wh_request_error(req), "no memory for the third part");
    wh_request_free(req);
    (void)create(NULL, false);
    finish(WH_OK, NULL);  // and nobody has to free it
    duo_end(&d);
}

TEST(cancel_and_timeout_ask_the_layer) {
    begin();
    l.at_once = false;
    wh_request *req = create(TELL, true);
    wh_request_cancel(req);
    wh_request_cancel(req);
    CHECK_EQ_INT(l.cancels, 1);
    CHECK_EQ_INT(l.why, WH_ECANCELLED);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    duo_for(&d, 5);
    CHECK_EQ_INT(l.callbacks, 0);
    finish(WH_ECANCELLED, NULL);
    UNTIL(&d, wh_request_status(req) == WH_ECANCELLED);
    wh_request_free(req);

    l.at_once = true;
    req = create(WH_OP_OPTS(.timeout_ms = 20), true);
    UNTIL(&d, wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(req), WH_ETIMEDOUT);
    CHECK_EQ_INT(l.why, WH_ETIMEDOUT);
    wh_request_free(req);
    duo_end(&d);
}

TEST(wait_cancels_when_its_time_is_over) {
    begin();
    wh_result result;
    CHECK_EQ_INT(wh_request_may_wait(d.client), WH_OK);
    CHECK_EQ_INT(wh_request_finish(create(NULL, true), 10, &result), WH_ETIMEDOUT);
    CHECK_EQ_INT(result.status, WH_ETIMEDOUT);
    CHECK_EQ_INT(l.why, WH_ECANCELLED);
    wh_request *req = create(NULL, true);
    finish(WH_OK, NULL);
    CHECK_EQ_INT(wh_request_finish(req, -1, &result), WH_OK);
    CHECK_EQ_INT(result.size, 7);
    duo_end(&d);
}

static void in_progress(void *arg) {
    *(wh_status *)arg = wh_request_may_wait(d.client);
}

TEST(no_wait_inside_a_callback) {
    begin();
    wh_status st = WH_PENDING;
    CHECK_EQ_INT(wh_worker_call(d.client, in_progress, &st), WH_OK);
    UNTIL(&d, st != WH_PENDING);
    CHECK_EQ_INT(st, WH_EBUSY);
    duo_end(&d);
}

TEST(discarded_it_was_never_there) {
    begin();
    (void)create(WH_OP_OPTS(.done = told, .arg = &l, .timeout_ms = 5), true);
    wh_request_discard(l.req);
    CHECK_EQ_INT(pending(), 0);
    duo_for(&d, 10);
    CHECK(!l.callbacks && !l.cancels);
    duo_end(&d);
}

// destroy ends the client's worker with a request pending and returns how the user was told.
static wh_status destroy(bool at_once, bool cancelled) {
    begin();
    l.at_once = at_once;
    wh_request *req = create(TELL, true);
    if (cancelled)
        wh_request_cancel(req);
    wh_worker_destroy(d.client);
    d.client = kit_worker(d.ctx[1]);
    CHECK_EQ_INT(l.callbacks, 1);
    CHECK_EQ_INT(wh_request_status(req), l.told);
    wh_request_free(req);
    return l.told;
}

TEST(ends_with_its_worker) {
    CHECK_EQ_INT(destroy(true, false), WH_ECLOSED);
    CHECK_EQ_INT(l.cancels, 1);
    CHECK(!logged("E-REQ-03"));
    duo_end(&d);
    // The cancel that was asked for before never comes true: the layer is asked again.
    CHECK_EQ_INT(destroy(false, true), WH_ECLOSED);
    CHECK_EQ_INT(l.cancels, 2);
    CHECK_EQ_INT(l.why, WH_ECLOSED);
    CHECK(logged("E-REQ-03") && logged("test of a layer"));
    duo_end(&d);
}

// An operation of two receives: it ends with the second, also in the worker's destroy.
static unsigned parts;

static void part_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    if (--parts == 0)
        finish(result->status, "a part has failed");
}

TEST(ends_with_its_parts) {
    begin();
    l.at_once = false;
    duo_connect(&d);
    char into[2][8];
    wh_request *req = create(TELL, true);
    for (parts = 0; parts < 2; parts++)
        CHECK_EQ_INT(wh_tag_recv(d.to, into[parts], 8, parts, WH_TAG_MASK_ALL,
                                 WH_OP_OPTS(.done = part_done), NULL),
                     WH_PENDING);
    wh_endpoint_abort(d.to);
    d.to = NULL;
    wh_worker_destroy(d.client);
    d.client = kit_worker(d.ctx[1]);
    CHECK_EQ_INT(l.callbacks, 1);
    CHECK(!logged("E-REQ-03"));
    CHECK_EQ_INT(wh_request_status(req), WH_ECANCELLED);
    CHECK_EQ_STR(wh_request_error(req), "a part has failed");
    wh_request_free(req);
    duo_end(&d);
}

static void *cancel_from_here(void *arg) {
    wh_request_cancel(arg);
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_request_create(d.client, OPS, &l, NULL, true, &req), WH_ETHREAD);
    CHECK_EQ_INT(wh_request_complete(arg, &(wh_result){.status = WH_OK}, NULL), WH_ETHREAD);
    return NULL;
}

TEST(another_thread_may_cancel) {
    begin();
    wh_request *req = create(NULL, true);
    pthread_t thread;
    CHECK_EQ_INT(pthread_create(&thread, NULL, cancel_from_here, req), 0);
    UNTIL(&d, wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    CHECK_EQ_INT(wh_request_status(req), WH_ECANCELLED);
    wh_request_free(req);
    duo_end(&d);
}

TEST(bad_arguments) {
    begin();
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_request_create(d.client, WH_LAYER_OPS(.text = "x"), &l, NULL, true, &req),
                 WH_EINVAL);
    CHECK(logged("wh_layer_ops.cancel is NULL"));
    CHECK_EQ_INT(wh_request_create(d.client, WH_LAYER_OPS(.cancel = cancel), &l, NULL, true, &req),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_request_create(NULL, OPS, &l, NULL, true, &req), WH_EINVAL);
    CHECK(!req);
    (void)create(NULL, true);
    req = l.req;
    CHECK_EQ_INT(wh_request_complete(req, &(wh_result){.status = WH_PENDING}, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_request_complete(NULL, &(wh_result){.status = WH_OK}, NULL), WH_EINVAL);
    finish(WH_OK, NULL);
    wh_request_free(req);
    // What is no request of a layer is not completed by one.
    duo_connect(&d);
    char byte;
    CHECK_EQ_INT(wh_tag_recv(d.to, &byte, 1, 1, WH_TAG_MASK_ALL, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(wh_request_complete(req, &(wh_result){.status = WH_OK}, NULL), WH_EINVAL);
    wh_request_discard(req);
    CHECK(logged("E-REQ-02"));
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    wh_request_cancel(req);
    wh_request_free(req);
    duo_end(&d);
}

TEST(out_of_memory) {
    begin();
    whi_alloc_fail_at(1);
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_request_create(d.client, OPS, &l, NULL, true, &req), WH_ENOMEM);
    whi_alloc_fail_at(0);
    CHECK(!req);
    CHECK_EQ_INT(pending(), 0);
    duo_end(&d);
}

TEST_MAIN()
