// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages: the sender names a handler, and the receiver runs it.
//
// Three handlers: one adds up small payloads where they lie, one keeps a payload of any size by
// receiving it, one answers.  For brevity the worker sends to itself.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry.h>

enum { ADD = 1, STORE = 2, ASK = 3, TOTAL = 4 };  // ids: both sides agree on them
enum { BLOB_SIZE = 1 << 20 };

typedef struct counter {
    int64_t total;
    char *blob;
    size_t blob_size;
} counter;

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static wh_status on_add(wh_am *am, void *arg) {
    counter *c = arg;
    int64_t number;
    if (am->header_size != sizeof(number))
        return WH_OK;  // not what we agreed on: dropped
    memcpy(&number, am->header, sizeof(number));
    c->total += number;
    return WH_OK;
}

static void on_stored(wh_request *req, const wh_result *result, void *arg) {
    counter *c = arg;
    (void)req;
    if (result->status == WH_OK)
        c->blob_size = result->size;
}

static wh_status on_store(wh_am *am, void *arg) {
    counter *c = arg;
    free(c->blob);
    c->blob_size = 0;
    c->blob = malloc(am->size);
    if (!c->blob)
        return WH_OK;  // no memory: dropped
    // Large payloads have only been announced: am->data is NULL, and this fetches them.
    must(wh_am_recv(am, c->blob, am->size, WH_OP_OPTS(.done = on_stored, .arg = c), NULL),
         "receive");
    return WH_PENDING;
}

static wh_status on_ask(wh_am *am, void *arg) {
    counter *c = arg;
    must(wh_am_send(am->ep, TOTAL, &c->total, sizeof(c->total), NULL, 0, NULL, NULL), "answer");
    return WH_OK;
}

static wh_status on_total(wh_am *am, void *arg) {
    if (am->header_size == sizeof(int64_t))
        memcpy(arg, am->header, sizeof(int64_t));
    return WH_OK;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

int main(void) {
    counter count = {.total = 0};
    int64_t total = -1;
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *accepted = NULL, *ep;
    unsigned char address[WH_ADDRESS_MAX];
    size_t size;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, WH_WORKER_OPTS(.accept = on_accept, .accept_arg = &accepted),
                          &worker),
         "worker");
    must(wh_worker_set_am(worker, ADD, on_add, &count), "set");
    must(wh_worker_set_am(worker, STORE, on_store, &count), "set");
    must(wh_worker_set_am(worker, ASK, on_ask, &count), "set");
    must(wh_worker_set_am(worker, TOTAL, on_total, &total), "set");
    must(wh_worker_address(worker, address, &size), "address");
    must(wh_endpoint_connect_blob(worker, address, size, NULL, &ep), "connect");

    char *blob = calloc(1, BLOB_SIZE);
    if (!blob)
        return 1;
    for (int64_t i = 1; i <= 100; i++)
        must(wh_am_send_wait(ep, ADD, &i, sizeof(i), NULL, 0, 5000), "add");
    must(wh_am_send_wait(ep, STORE, NULL, 0, blob, BLOB_SIZE, 5000), "store");
    must(wh_am_send_wait(ep, ASK, NULL, 0, NULL, 0, 5000), "ask");
    while (total < 0)
        must(wh_worker_wait(worker, 5000), "wait");
    printf("total %lld, blob of %zu bytes\n", (long long)total, count.blob_size);

    bool right = total == 5050 && count.blob_size == BLOB_SIZE;
    free(blob);
    free(count.blob);
    must(wh_endpoint_close(ep, NULL, NULL), "close");
    wh_endpoint_abort(accepted);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return right ? 0 : 1;
}
