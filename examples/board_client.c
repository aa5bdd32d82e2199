// SPDX-License-Identifier: BSD-3-Clause
//
// The client of board_server: writes a few lines into the server's memory.
//
//   board_client HOST:PORT
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include "board.h"

enum { LINES = 5 };

static void must(wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void write_line(wh_endpoint *ep, wh_rkey *memory, const char *text) {
    // A line of our own: nobody else gets the same number.
    uint64_t line;
    must(wh_atomic_wait(memory, offsetof(struct board, lines), WH_ATOMIC_ADD, 8, 1, 0, &line, 5000),
         "take a line");
    if (line >= BOARD_LINES) {
        fprintf(stderr, "the board is full\n");
        exit(1);
    }
    uint64_t at = offsetof(struct board, line) + line * sizeof(((struct board *)0)->line[0]);
    const uint64_t yes = 1;
    must(wh_put_wait(memory, at + sizeof(yes), text, strlen(text), 5000), "write");
    must(wh_endpoint_fence(ep), "fence");  // whoever sees the mark sees the text
    must(wh_put_wait(memory, at, &yes, sizeof(yes), 5000), "finish");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: board_client HOST:PORT\n");
        return 2;
    }
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *ep;
    wh_rkey *memory;
    wh_result result;
    char key[WH_MR_KEY_MAX];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_endpoint_connect_wait(worker, argv[1], NULL, &ep), "connect");
    must(wh_tag_recv_wait(ep, key, sizeof(key), KEY, WH_TAG_MASK_ALL, 5000, &result), "key");
    must(wh_rkey_open(ep, key, result.size, &memory), "open the key");

    for (int i = 0; i < LINES; i++) {
        char text[BOARD_WIDTH];
        snprintf(text, sizeof(text), "process %d writes line %d", (int)getpid(), i + 1);
        write_line(ep, memory, text);
    }
    must(wh_endpoint_flush_wait(ep, 5000), "flush");  // all of it is visible to the server
    printf("%d lines written%s\n", LINES, wh_rkey_direct(memory) ? ", directly" : "");

    wh_rkey_close(memory);
    must(wh_endpoint_close_wait(ep, 5000), "close");
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
