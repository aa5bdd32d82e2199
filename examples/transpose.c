// SPDX-License-Identifier: BSD-3-Clause
//
// A matrix is sent by its columns and received by its rows: it arrives transposed, and nobody has
// packed it.
//
// For brevity one worker sends to itself; with two processes the calls would be the same.
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

enum { N = 200, MATRIX = 4 };

static wh_endpoint *accepted;
static double from[N][N], to[N][N];

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)  // done, or accepted
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    accepted = ep;
}

static void send_columns(wh_endpoint *ep, wh_request **req) {
    wh_type *column, *next;
    must(wh_type_create_vector(N, 1, N, wh_type_basic(WH_TYPE_DOUBLE), &column), "column");
    // The next column begins a word after this one, not behind it.
    must(wh_type_create_resized(column, 0, sizeof(double), &next), "next");
    must(wh_tag_send(ep, from, N, MATRIX, WH_OP_OPTS(.type = next), req), "send");
    wh_type_release(column);
    wh_type_release(next);  // the operation holds it
}

int main(void) {
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *ep;
    wh_request *received, *sent;
    char address[64];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener), "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");
    must(wh_endpoint_connect_wait(worker, address, NULL, &ep), "connect");
    for (int i = 0; i < N * N; i++)
        from[i / N][i % N] = i;

    must(wh_worker_tag_recv(worker, to, sizeof(to), MATRIX, WH_TAG_MASK_ALL, NULL, &received),
         "receive");
    send_columns(ep, &sent);
    must(wh_request_wait(received, 5000), "receive");
    must(sent ? wh_request_wait(sent, 5000) : WH_OK, "send");
    printf("from[3][150] is %.0f, to[150][3] is %.0f\n", from[3][150], to[150][3]);

    wh_request_free(received);
    wh_request_free(sent);
    must(wh_endpoint_close_wait(ep, 5000), "close");
    if (accepted)
        wh_endpoint_abort(accepted);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return from[3][150] == to[150][3] ? 0 : 1;
}
