// SPDX-License-Identifier: BSD-3-Clause
//
// A board in shared memory: clients write lines on it, and the server does nothing for that.
//
//   board_server CLIENTS [HOST:PORT]      ends when so many clients have come and gone
//
// Each client gets the key of the memory.  On this host it then reaches the memory directly; from
// another one the server's progress serves it.  The program is the same.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

#include "board.h"

static char key[WH_MR_KEY_MAX];
static size_t key_size;
static int gone;  // clients that have closed, or died

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)why, (void)arg;
    wh_endpoint_abort(ep);
    gone++;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    must(wh_endpoint_on_lost(ep, on_lost, NULL), "on_lost");
    must(wh_tag_send(ep, key, key_size, KEY, NULL, NULL), "send the key");
}

int main(int argc, char **argv) {
    int clients = argc > 1 ? atoi(argv[1]) : 1;
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    wh_mr *memory;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_mr_alloc(ctx, sizeof(board), WH_MR_ALL, &memory), "memory");
    must(wh_mr_key(memory, key, &key_size), "key");
    must(wh_listener_open(worker, argc > 2 ? argv[2] : "127.0.0.1:0", NULL, on_accept, NULL,
                          &listener),
         "listen");
    printf("listening on port %u\n", wh_listener_port(listener));
    fflush(stdout);

    while (gone < clients)
        must(wh_worker_wait(worker, -1), "wait");

    board *b = wh_mr_address(memory);
    uint64_t finished = 0;
    for (uint64_t i = 0; i < b->lines && i < BOARD_LINES; i++) {
        if (b->line[i].finished) {
            printf("%.*s\n", BOARD_WIDTH, b->line[i].text);
            finished++;
        }
    }
    printf("%llu of %llu lines are finished\n", (unsigned long long)finished,
           (unsigned long long)b->lines);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    int status = finished == b->lines ? 0 : 1;
    must(wh_mr_destroy(memory), "free the memory");
    wh_context_destroy(ctx);
    return status;
}
