// SPDX-License-Identifier: BSD-3-Clause
//
// The client of request_server: asks for a few sums and checks them.
//
//   request_client HOST:PORT
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

enum { REQUEST = 1, REPLY = 2, ROUNDS = 100 };

static void must(wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: request_client HOST:PORT\n");
        return 2;
    }
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *server;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_endpoint_connect_wait(worker, argv[1], NULL, &server), argv[1]);

    for (int64_t round = 1; round <= ROUNDS; round++) {
        int64_t numbers[3] = {round, 2 * round, 3 * round}, sum;
        must(wh_tag_send_wait(server, numbers, sizeof(numbers), REQUEST, 5000), "ask");
        must(wh_tag_recv_wait(server, &sum, sizeof(sum), REPLY, WH_TAG_MASK_ALL, 5000, NULL),
             "answer");
        int64_t right = 6 * round;
        if (sum != right) {
            fprintf(stderr, "%lld instead of %lld\n", (long long)sum, (long long)right);
            return 1;
        }
    }
    printf("%d sums are right\n", ROUNDS);

    must(wh_endpoint_close_wait(server, 5000), "close");
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
