// SPDX-License-Identifier: BSD-3-Clause
//
// Requests from several clients, each answered as it comes.
//
//   request_server CLIENTS [HOST:PORT]      ends when so many clients have come and gone
//
// A request is a list of numbers, the answer is their sum.  Each client has a receive of its own: a
// client that stops in the middle of a request holds nobody up but itself.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

enum { REQUEST = 1, REPLY = 2, NUMBERS_MAX = 1000 };

static int gone;  // clients that have closed, or died

static void must(wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

typedef struct client {
    wh_endpoint *ep;
    int holds;  // by its conversation, and by the operation that is under way
    int64_t numbers[NUMBERS_MAX];
    int64_t sum;
} client;

static void expect(client *c);

static void let_go(client *c) {
    if (--c->holds == 0)
        free(c);
}

static void on_answered(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    if (result->status == WH_OK)
        expect(arg);
    else
        let_go(arg);
}

// Runs inside progress with each request.
static void on_request(wh_request *req, const wh_result *result, void *arg) {
    client *c = arg;
    (void)req;
    if (result->status == WH_ETRUNCATED) {
        fprintf(stderr, "a request of %llu bytes is too long\n", (unsigned long long)result->size);
        expect(c);
        return;
    }
    if (result->status != WH_OK) {  // the client has gone
        let_go(c);
        return;
    }
    c->sum = 0;
    for (size_t i = 0; i < result->size / sizeof(c->numbers[0]); i++)
        c->sum += c->numbers[i];
    wh_status status = wh_tag_send(c->ep, &c->sum, sizeof(c->sum), REPLY,
                                   WH_OP_OPTS(.done = on_answered, .arg = c), NULL);
    if (status == WH_OK)  // done at once: there is no callback
        expect(c);
    else if (status != WH_PENDING)
        let_go(c);
}

// expect posts the client's next receive.  A request that is here already is answered in the call.
static void expect(client *c) {
    wh_result result;
    wh_status status =
        wh_tag_recv(c->ep, c->numbers, sizeof(c->numbers), REQUEST, WH_TAG_MASK_ALL,
                    WH_OP_OPTS(.done = on_request, .arg = c, .result = &result), NULL);
    if (status == WH_OK)
        on_request(NULL, &result, c);
    else if (status != WH_PENDING)
        let_go(c);
}

// Runs inside progress, once per client, whether it closes or is killed.
static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    if (why != WH_ECLOSED)
        fprintf(stderr, "a client was lost: %s\n", wh_endpoint_error(ep));
    wh_endpoint_abort(ep);  // the handle is ours to give back; there is nobody to wait for
    let_go(arg);
    gone++;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    client *c = calloc(1, sizeof(*c));
    if (!c) {
        wh_endpoint_abort(ep);
        return;
    }
    *c = (client){.ep = ep, .holds = 2};
    must(wh_endpoint_on_lost(ep, on_lost, c), "on_lost");
    expect(c);
}

int main(int argc, char **argv) {
    int clients = argc > 1 ? atoi(argv[1]) : 1;
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, argc > 2 ? argv[2] : "127.0.0.1:0", NULL, on_accept, NULL,
                          &listener),
         "listen");
    printf("listening on port %u\n", wh_listener_port(listener));
    fflush(stdout);

    while (gone < clients)
        must(wh_worker_wait(worker, -1), "wait");

    printf("%d clients served\n", gone);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
