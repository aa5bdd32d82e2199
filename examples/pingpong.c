// SPDX-License-Identifier: BSD-3-Clause
//
// How long half a round trip between two chares takes, by its size, by calls and by a channel; start it with
// `wherry run -n 2 pingpong`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>

enum { ROUNDS = 1000, WARM_UP = 100, LARGEST = 1 << 20 };
static const size_t sizes[] = {8, 1024, 65536, LARGEST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

typedef struct player {
    wh_pe *pe;
    wh_proxy peer;
    wh_channel *channel;
    char *out, *in;
    int round, size;  // by calls: where the first player is
    bool counting;
    struct timespec begun;
} player;

#define PLAYER_ENTRIES(ENTRY)                                                                      \
    ENTRY(player, calls, 0)                                                                        \
    ENTRY(player, ball, 0)                                                                         \
    ENTRY(player, channel, WH_ENTRY_THREADED)

static void player_end(wh_chare *self) {
    player *p = self->state;
    free(p->out);
    free(p->in);
}

WH_CLASS(player, PLAYER_ENTRIES, .state = sizeof(player), .destruct = player_end);

static void must(wh_pe *pe, wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "pingpong: %s: %s\n", what, wh_status_text(status));
    wh_pe_exit(pe, 1);
}

static void begin_clock(player *p) {
    clock_gettime(CLOCK_MONOTONIC, &p->begun);
}

static void print_time(const player *p, const char *by, size_t size) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double us = (double)(now.tv_sec - p->begun.tv_sec) * 1e6 +
                (double)(now.tv_nsec - p->begun.tv_nsec) * 1e-3;
    printf("%-8s %8zu bytes: %10.2f us\n", by, size, us / (2 * ROUNDS));
    fflush(stdout);
}

static bool first(const wh_chare *self) {
    return self->proxy.index[0] == 0;
}

static void prepare(wh_chare *self) {
    player *p = self->state;
    p->pe = self->pe;
    p->peer = wh_proxy_at(self->proxy, 1, &(int32_t){1 - self->proxy.index[0]});
    p->out = calloc(1, LARGEST);
    p->in = calloc(1, LARGEST);
    must(self->pe, p->out && p->in ? WH_OK : WH_ENOMEM, "buffers");
}

// ---- By calls: each is the answer to the one before.

static void serve(wh_chare *self) {
    player *p = self->state;
    must(self->pe,
         wh_chare_send(self->pe, p->peer, player_ball_entry, p->out, sizes[p->size], NULL),
         "a call");
}

// player_calls is called for both, and the first one begins.
static void player_calls(wh_chare *self, const wh_call *msg) {
    (void)msg;
    prepare(self);
    if (first(self))
        serve(self);
}

static void begin_channel(wh_chare *self) {
    wh_proxy both = wh_proxy_at(self->proxy, 0, NULL);
    must(self->pe, wh_chare_send(self->pe, both, player_channel_entry, NULL, 0, NULL), "a call");
}

static void player_ball(wh_chare *self, const wh_call *msg) {
    player *p = self->state;
    if (!first(self)) {
        wh_status st =
            wh_chare_send(self->pe, p->peer, player_ball_entry, msg->args, msg->size, NULL);
        must(self->pe, st, "a call");
        return;
    }
    p->round++;
    if (p->round == WARM_UP)
        begin_clock(p);
    if (p->round == WARM_UP + ROUNDS) {
        print_time(p, "call", sizes[p->size]);
        p->round = 0;
        p->size++;
    }
    if (p->size < SIZES)
        serve(self);
    else
        begin_channel(self);
}

// ---- By a channel, in a thread of each player.

static void move_ball(player *p, bool out, size_t size) {
    wh_wait wait = {0};
    const wh_op_opts *opts = WH_OP_OPTS(.done = wh_wait_done, .arg = &wait);
    wh_status st = out ? wh_channel_send(p->channel, p->out, size, opts, NULL)
                       : wh_channel_recv(p->channel, p->in, size, opts, NULL);
    if (st == WH_PENDING) {
        must(p->pe, wh_pe_wait(p->pe, &wait), "waiting");
        st = wait.result.status;
    }
    must(p->pe, st, out ? "sending" : "receiving");
}

static void player_channel(wh_chare *self, const wh_call *msg) {
    player *p = self->state;
    bool begins = first(self);
    (void)msg;
    must(self->pe, wh_channel_open(self, p->peer, NULL, &p->channel), "the channel");
    for (int i = 0; i < SIZES; i++) {
        for (int round = 0; round < WARM_UP + ROUNDS; round++) {
            if (round == WARM_UP)
                begin_clock(p);
            move_ball(p, begins, sizes[i]);
            move_ball(p, !begins, sizes[i]);
        }
        if (begins)
            print_time(p, "channel", sizes[i]);
    }
    if (begins)
        wh_pe_exit(self->pe, 0);
}

// ---- The program.

static int ends_of_job(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)dims;
    (void)shape;
    (void)arg;
    return index[0] == 0 ? 0 : pes - 1;
}

static void start(wh_pe *pe, void *arg) {
    wh_proxy players;
    (void)arg;
    must(pe, wh_class_register(pe, &player_class), "the class");
    must(pe, wh_map_register(pe, "ends", ends_of_job, NULL), "the map");
    if (wh_pe_number(pe) != 0)
        return;
    must(pe,
         wh_array_create(pe, "player", WH_ARRAY_OPTS(.dims = 1, .shape = {2}, .map = "ends"), NULL,
                         0, &players),
         "the players");
    must(pe, wh_chare_send(pe, players, player_calls_entry, NULL, 0, NULL), "a call");
}

int main(void) {
    wh_rt *rt;
    int status = 1;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
