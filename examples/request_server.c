// SPDX-License-Identifier: BSD-3-Clause
//
// Requests from several clients, answered one after the other with blocking calls.
//
//   request_server CLIENTS [HOST:PORT]      ends when so many clients have come and gone
//
// A request is a list of numbers, the answer is their sum.  The receive takes from any client; its
// result says from which.
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

// Runs inside progress, once per client, whether it closes or is killed.
static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)arg;
    if (why != WH_ECLOSED)
        fprintf(stderr, "a client was lost: %s\n", wh_endpoint_error(ep));
    wh_endpoint_abort(ep);  // the handle is ours to give back; there is nobody to wait for
    gone++;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    must(wh_endpoint_on_lost(ep, on_lost, NULL), "on_lost");
}

static void answer(wh_endpoint *client, const int64_t *numbers, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += numbers[i];
    wh_status status = wh_tag_send_wait(client, &sum, sizeof(sum), REPLY, 1000);
    if (status != WH_OK)  // that client's misfortune: the others go on
        fprintf(stderr, "no answer to a client: %s\n", wh_status_text(status));
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

    while (gone < clients) {
        int64_t numbers[NUMBERS_MAX];
        wh_result result;
        wh_status status = wh_worker_tag_recv_wait(worker, numbers, sizeof(numbers), REQUEST,
                                                   WH_TAG_MASK_ALL, 100, &result);
        if (status == WH_ETIMEDOUT)
            continue;  // nobody asked: see whether there is still somebody
        if (status == WH_ETRUNCATED)
            fprintf(stderr, "a request of %llu bytes is too long\n",
                    (unsigned long long)result.size);
        else
            must(status, "receive");
        if (status == WH_OK && result.source)
            answer(result.source, numbers, result.size / sizeof(numbers[0]));
    }

    printf("%d clients served\n", gone);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
