// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of comm: two workers of one process and thread, what they log, and a way to wait that cannot hang.
//
// A `duo` is a server worker with a listener and a client worker.  The test progresses both by hand (duo_pass), so that
// a run is one thread and every step is the test's.  UNTIL repeats that until a condition holds and fails the test when it
// takes too long.  Log lines are kept instead of printed; `logged` looks for a word in them.
#ifndef WHI_COMM_TEST_KIT_H
#define WHI_COMM_TEST_KIT_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/test.h"
#include "link/link.h"
#include "message/endpoint.h"
#include "worker/worker.h"

enum { KIT_ACCEPTED_MAX = 128, KIT_LOG_SIZE = 64 << 10, KIT_PATIENCE_S = 20 };

typedef struct duo {
    wh_context *ctx[2];
    wh_worker *server, *client;
    wh_listener *listener;
    char address[64];
    wh_endpoint *accepted[KIT_ACCEPTED_MAX];  // by the server, in order
    unsigned accepted_count;
    wh_endpoint *to, *from;  // the client's endpoint and the server's end of it
} duo;

static struct {
    char text[KIT_LOG_SIZE];
    size_t used;
    unsigned lines;
} kit_log;

__attribute__((unused)) static void kit_log_line(const char *level, const char *id,
                                                 const char *text, void *arg) {
    (void)arg;
    if (getenv("KIT_VERBOSE"))
        fprintf(stderr, "%s %s %s\n", level, id, text);
    int n = snprintf(kit_log.text + kit_log.used, KIT_LOG_SIZE - kit_log.used, "%s %s %s\n", level,
                     id, text);
    if (n > 0 && (size_t)n < KIT_LOG_SIZE - kit_log.used)
        kit_log.used += (size_t)n;
    kit_log.lines++;
}

__attribute__((unused)) static void kit_log_begin(void) {
    whi_log_set_limited(false);
    kit_log.used = kit_log.lines = 0;
    kit_log.text[0] = '\0';
    wh_log_set_sink(kit_log_line, NULL);
}

__attribute__((unused)) static bool logged(const char *word) {
    return strstr(kit_log.text, word) != NULL;
}

__attribute__((unused)) static wh_context *kit_context(const char *const *options) {
    wh_context *ctx = NULL;
    CHECK_EQ_INT(wh_context_create(options, &ctx), WH_OK);
    return ctx;
}

__attribute__((unused)) static wh_worker *kit_worker(wh_context *ctx) {
    wh_worker *worker = NULL;
    CHECK_EQ_INT(wh_worker_create(ctx, NULL, &worker), WH_OK);
    return worker;
}

__attribute__((unused)) static void duo_accept(wh_endpoint *ep, void *arg) {
    duo *d = arg;
    CHECK(d->accepted_count < KIT_ACCEPTED_MAX);
    d->accepted[d->accepted_count++] = ep;
}

__attribute__((unused)) static void duo_listen(duo *d, const wh_listener_opts *opts) {
    CHECK_EQ_INT(wh_listener_open(d->server, "127.0.0.1:0", opts, duo_accept, d, &d->listener),
                 WH_OK);
    snprintf(d->address, sizeof(d->address), "127.0.0.1:%u", wh_listener_port(d->listener));
}

// duo_begin makes both workers; nothing is connected yet.
__attribute__((unused)) static void duo_begin(duo *d, const char *const *server_options,
                                              const char *const *client_options) {
    *d = (duo){.server = NULL};
    kit_log_begin();
    d->ctx[0] = kit_context(server_options);
    d->ctx[1] = kit_context(client_options);
    d->server = kit_worker(d->ctx[0]);
    d->client = kit_worker(d->ctx[1]);
    duo_listen(d, NULL);
}

__attribute__((unused)) static unsigned duo_pass(duo *d) {
    return wh_worker_progress(d->server) + wh_worker_progress(d->client);
}

// KIT_UNTIL lets things go on by `pass` until a condition holds; UNTIL by both workers.
#define KIT_UNTIL(pass, text, cond)                                                                \
    do {                                                                                           \
        uint64_t kit_end = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;                         \
        while (!(cond)) {                                                                          \
            pass;                                                                                  \
            if (whi_clock_ns() > kit_end)                                                          \
                whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "%s", text);                     \
        }                                                                                          \
    } while (0)
#define UNTIL(d, cond) KIT_UNTIL(duo_pass(d), "UNTIL(" #cond ")", cond)

// duo_for progresses both for some time, and often enough where other programs take most of that.
__attribute__((unused)) static void duo_for(duo *d, unsigned ms) {
    enum { PASSES = 200 };
    uint64_t end = whi_clock_ns() + ms * WHI_NS_PER_MS;
    for (int n = 0; n < PASSES || whi_clock_ns() < end; n++)
        duo_pass(d);
}

// duo_open connects one more endpoint; `other` gets the server's end.
__attribute__((unused)) static wh_endpoint *duo_open(duo *d, wh_endpoint **other) {
    wh_endpoint *ep = NULL;
    unsigned before = d->accepted_count;
    CHECK_EQ_INT(wh_endpoint_connect(d->client, d->address, NULL, &ep), WH_OK);
    UNTIL(d, wh_endpoint_status(ep) != WH_PENDING);
    if (wh_endpoint_status(ep) != WH_OK)
        fprintf(stderr, "%s\n", wh_endpoint_error(ep));
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    UNTIL(d, d->accepted_count > before);
    if (other)
        *other = d->accepted[before];
    return ep;
}

__attribute__((unused)) static void duo_connect(duo *d) {
    d->to = duo_open(d, &d->from);
}

// duo_end destroys all.  The handles that the test still has are given up by their own calls before.
__attribute__((unused)) static void duo_end(duo *d) {
    wh_listener_close(d->listener);
    if (d->to)
        wh_endpoint_abort(d->to);
    if (d->from)
        wh_endpoint_abort(d->from);
    wh_worker_destroy(d->client);
    wh_worker_destroy(d->server);
    wh_context_destroy(d->ctx[0]);
    wh_context_destroy(d->ctx[1]);
    *d = (duo){.server = NULL};  // so that what is left behind is seen as a leak
    wh_log_set_sink(NULL, NULL);
}

// done_as waits for a request, frees it and returns how it ended.
__attribute__((unused)) static wh_status done_as(duo *d, wh_request *req) {
    UNTIL(d, wh_request_status(req) != WH_PENDING);
    wh_status st = wh_request_status(req);
    wh_request_free(req);
    return st;
}

// still says whether a request that there may be is under way.
__attribute__((unused)) static bool still(const wh_request *req) {
    return req && wh_request_status(req) == WH_PENDING;
}

// object_done waits for the receive of an object, which must succeed, and frees both.
__attribute__((unused)) static void object_done(duo *d, wh_request *req) {
    wh_result result;
    UNTIL(d, !still(req));
    CHECK_EQ_INT(wh_request_result(req, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_object_free(result.object);
    wh_request_free(req);
}

// send_tagged and recv_tagged start a message over the duo's endpoint; NULL: it is done.
__attribute__((unused)) static wh_request *send_tagged(duo *d, const void *from, size_t size,
                                                       uint64_t tag, const wh_op_opts *opts) {
    wh_request *req = NULL;
    CHECK(wh_tag_send(d->to, from, size, tag, opts, &req) >= 0);
    return req;
}

__attribute__((unused)) static wh_request *recv_tagged(duo *d, void *into, size_t size,
                                                       uint64_t tag, const wh_op_opts *opts) {
    wh_request *req = NULL;
    CHECK(wh_tag_recv(d->from, into, size, tag, WH_TAG_MASK_ALL, opts, &req) >= 0);
    return req;
}

#endif
