// SPDX-License-Identifier: BSD-3-Clause
//
// Hello, the server: takes one client, reads its message, answers, and ends.
//
//   hello_server [HOST:PORT]        default 127.0.0.1:0, which takes a free port
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry.h>

enum { QUESTION = 1, ANSWER = 2 };  // tags: the two programs agree on them

static void must(wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

// Runs inside progress when a client has connected.  From now on the endpoint is ours.
static void on_accept(wh_endpoint *ep, void *arg) {
    wh_endpoint **client = arg;
    if (*client)
        wh_endpoint_abort(ep);  // this server takes one
    else
        *client = ep;
}

int main(int argc, char **argv) {
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:0";
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *client = NULL;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, address, NULL, on_accept, &client, &listener), address);
    printf("listening on port %u\n", wh_listener_port(listener));
    fflush(stdout);

    while (!client)
        must(wh_worker_wait(worker, -1), "wait");  // nothing happens outside of progress

    char text[256];
    wh_result result;
    must(wh_tag_recv_wait(client, text, sizeof(text), QUESTION, WH_TAG_MASK_ALL, -1, &result),
         "receive");
    printf("client says: %.*s\n", (int)result.size, text);

    const char *reply = "Hello, client!";
    must(wh_tag_send_wait(client, reply, strlen(reply), ANSWER, -1), "send");

    must(wh_endpoint_close_wait(client, 5000), "close");  // all has arrived
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
