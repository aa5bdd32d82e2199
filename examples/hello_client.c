// SPDX-License-Identifier: BSD-3-Clause
//
// Hello, the client: connects, says hello, prints the answer and over which lane it came.
//
//   hello_client HOST:PORT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry.h>

enum { QUESTION = 1, ANSWER = 2 };

static void must(wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: hello_client HOST:PORT\n");
        return 2;
    }
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *ep;
    wh_result result;
    char text[256], lane[128];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_endpoint_connect_wait(worker, argv[1], NULL, &ep), argv[1]);
    must(wh_tag_send_wait(ep, "Hello, server!", 14, QUESTION, -1), "send");
    must(wh_tag_recv_wait(ep, text, sizeof(text), ANSWER, WH_TAG_MASK_ALL, -1, &result), "receive");
    printf("server says: %.*s\n", (int)result.size, text);
    must(wh_endpoint_lanes(ep, lane, sizeof(lane)), "lanes");
    printf("by way of: %s\n", lane);
    must(wh_endpoint_close_wait(ep, 5000), "close");
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
