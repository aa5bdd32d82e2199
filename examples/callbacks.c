// SPDX-License-Identifier: BSD-3-Clause
//
// Callbacks: a ball goes to and fro, and no line of this program waits for a particular operation.
//
// Each completion starts the next operation.  For brevity one worker plays with itself; with two
// processes the player's code would be the same.
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

enum { BALL = 7, ROUNDS = 1000 };

typedef struct player {
    const char *name;
    wh_endpoint *ep;
    int ball;  // borrowed by a receive or a send while one is under way
    int hits;
} player;

static player here = {.name = "here"}, there = {.name = "there"};

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)  // done, or accepted
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void hit(player *p);

static void on_ball(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    if (result->status == WH_ECLOSED)
        return;  // the end: every accepted operation completes, this one so
    must(result->status, "receive");
    hit(arg);
}

static void wait_for_ball(player *p) {
    // WH_OK means that the ball was there already: then the callback does not run.
    wh_status status = wh_tag_recv(p->ep, &p->ball, sizeof(p->ball), BALL, WH_TAG_MASK_ALL,
                                   WH_OP_OPTS(.done = on_ball, .arg = p), NULL);
    must(status, "receive");
    if (status == WH_OK)
        hit(p);
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    must(result->status, "send");
    wait_for_ball(arg);
}

static void hit(player *p) {
    p->hits++;
    if (++p->ball == 2 * ROUNDS)
        return;  // the game is over
    wh_status status = wh_tag_send(p->ep, &p->ball, sizeof(p->ball), BALL,
                                   WH_OP_OPTS(.done = on_sent, .arg = p), NULL);
    must(status, "send");
    if (status == WH_OK)
        wait_for_ball(p);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    player *p = arg;
    p->ep = ep;
    wait_for_ball(p);
}

int main(void) {
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    char address[64];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, &there, &listener), "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");
    must(wh_endpoint_connect(worker, address, NULL, &here.ep), "connect");

    hit(&here);  // before the connection stands: the send waits for it
    while (here.hits + there.hits < 2 * ROUNDS)
        must(wh_worker_wait(worker, 5000), "wait");
    printf("%d hits here, %d hits there\n", here.hits, there.hits);

    wh_worker_destroy(worker);  // closes what is open; the handles stay ours
    must(wh_endpoint_close(here.ep, NULL, NULL), "close");
    must(wh_endpoint_close(there.ep, NULL, NULL), "close");
    wh_listener_close(listener);
    wh_context_destroy(ctx);
    return 0;
}
