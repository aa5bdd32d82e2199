// SPDX-License-Identifier: BSD-3-Clause
//
// See model_pair.h.  Each kind answers where a program would: in a handler, an entry, a completion.
#include "bench/model_pair.h"

#include "bench/clock.h"

#include <stddef.h>

enum { LEAD, FOLLOWER, NEIGHBOUR };  // the chares; two are with the lead

static bench_pair *here;  // a process has one PE

void bench_pair_failed(bench_pair *pair, wh_status status) {
    if (pair->failed == WH_OK)
        pair->failed = status;
    wh_pe_resume(pair->pe, &pair->wait);
}

static void check(bench_pair *pair, wh_status status) {
    if (status != WH_OK && status != WH_PENDING)
        bench_pair_failed(pair, status);
}

// came_back counts a message of the lead; false: it was the last.
static bool came_back(bench_pair *pair) {
    uint64_t now = bench_ticks();
    bench_hist_add(pair->hist, now - pair->before);
    pair->before = now;
    if (++pair->done < pair->count)
        return true;
    wh_pe_resume(pair->pe, &pair->wait);
    return false;
}

// ---- Messages.

static void send_message(bench_pair *pair) {
    check(pair, wh_pe_send(pair->pe, !wh_pe_number(pair->pe), BENCH_PAIR_PING, NULL, 0, pair->out,
                           pair->size, 0));
}

static void on_message(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    bench_pair *pair = arg;
    (void)pe;
    (void)msg;
    if (!pair->lead || came_back(pair))
        send_message(pair);
}

// ---- Entries.

#define BALL_ENTRIES(ENTRY)                                                                        \
    ENTRY(ball, open, 0) ENTRY(ball, bounce, 0) ENTRY(ball, hop, 0) ENTRY(ball, land, 0)

static void post_land(wh_chare *self, const wh_call *call, wh_frame *buffers);

BALL_ENTRIES(WH_CLASS_FUNCTION)
enum { BALL_ENTRIES(WH_CLASS_NUMBER) ball_entry_count };
static const wh_entry ball_entries[] = {
    {.name = "open", .fn = ball_open},
    {.name = "bounce", .fn = ball_bounce},
    {.name = "hop", .fn = ball_hop},
    {.name = "land", .fn = ball_land, .post = post_land},
};
static const wh_class ball_class = {.size = sizeof(wh_class),
                                    .name = "ball",
                                    .entries = ball_entries,
                                    .entry_count = ball_entry_count,
                                    .entry_size = sizeof(wh_entry)};

static void call_ball(bench_pair *pair, int32_t ball, unsigned entry) {
    check(pair, wh_chare_send(pair->pe, wh_proxy_at(pair->balls, 1, &ball), entry, pair->out,
                              pair->size, NULL));
}

static void start_bounce(bench_pair *pair) {
    call_ball(pair, FOLLOWER, ball_bounce_entry);
}

static void ball_bounce(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    if (!here->lead || came_back(here))
        call_ball(here, here->lead ? FOLLOWER : LEAD, ball_bounce_entry);
}

static void start_hop(bench_pair *pair) {
    call_ball(pair, NEIGHBOUR, ball_hop_entry);
}

static void ball_hop(wh_chare *self, const wh_call *call) {
    bool back = self->proxy.index[0] == LEAD;
    (void)call;
    if (!back || came_back(here))
        call_ball(here, back ? NEIGHBOUR : LEAD, ball_hop_entry);
}

static void throw_buffer(bench_pair *pair) {
    int32_t ball = pair->lead ? FOLLOWER : LEAD;
    wh_frame frame = {.data = pair->out, .size = pair->size, .mem = pair->mem};
    check(pair, wh_chare_send(
                    pair->pe, wh_proxy_at(pair->balls, 1, &ball), ball_land_entry, NULL, 0,
                    WH_SEND_OPTS(.buffers = &frame, .count = 1, .frame_size = sizeof(wh_frame))));
}

static void post_land(wh_chare *self, const wh_call *call, wh_frame *buffers) {
    (void)self;
    (void)call;
    buffers[0].data = here->in;
    buffers[0].mem = here->mem;
}

static void ball_land(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    if (!here->lead || came_back(here))
        throw_buffer(here);
}

// ---- Channels.

static void ball_open(wh_chare *self, const wh_call *call) {
    int32_t index = here->lead ? FOLLOWER : LEAD;
    (void)call;
    here->balls = self->proxy;
    wh_status st = wh_channel_open(self, wh_proxy_at(self->proxy, 1, &index), NULL, &here->channel);
    if (st == WH_OK)
        st = wh_pe_send(self->pe, 0, BENCH_PAIR_READY, NULL, 0, NULL, 0, 0);
    check(here, st);
}

static void on_channel_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    check(arg, result->status);
}

static void send_on_channel(bench_pair *pair) {
    check(pair, wh_channel_send(pair->channel, pair->out, pair->size,
                                &(wh_op_opts){.size = sizeof(wh_op_opts),
                                              .mem = pair->mem,
                                              .done = on_channel_sent,
                                              .arg = pair},
                                NULL));
}

// answer sends what follows on a message; false: no more is expected.
static bool answer(bench_pair *pair, wh_status status) {
    check(pair, status);
    bool more = pair->lead ? came_back(pair) : ++pair->done < pair->count;
    if (!pair->lead || more)
        send_on_channel(pair);
    return more && pair->failed == WH_OK;
}

static void receive_on_channel(bench_pair *pair);

static void on_channel_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    if (answer(arg, result->status))
        receive_on_channel(arg);
}

static void receive_on_channel(bench_pair *pair) {
    wh_status st;
    do {
        st = wh_channel_recv(pair->channel, pair->in, pair->size,
                             &(wh_op_opts){.size = sizeof(wh_op_opts),
                                           .mem = pair->mem,
                                           .done = on_channel_received,
                                           .arg = pair,
                                           .result = &pair->inline_result},
                             NULL);
    } while (st != WH_PENDING && answer(pair, st));
}

static void start_channel(bench_pair *pair) {
    send_on_channel(pair);
    receive_on_channel(pair);
}

// ---- All.

static const bench_pair_kind kinds[] = {
    {.name = "message", .yard = "am", .start = send_message},
    {.name = "entry", .yard = "am", .start = start_bounce},
    {.name = "entry", .lane = "self", .start = start_hop},
    {.name = "buffer", .yard = "am", .start = throw_buffer},
    {.name = "channel", .yard = "tag", .start = start_channel, .expect = receive_on_channel},
};

const bench_pair_kind *bench_pair_kinds(size_t *count) {
    *count = sizeof kinds / sizeof *kinds;
    return kinds;
}

wh_status bench_pair_init(bench_pair *pair) {
    here = pair;
    wh_status st = wh_pe_set_handler(pair->pe, BENCH_PAIR_PING, on_message, pair);
    return st == WH_OK ? wh_class_register(pair->pe, &ball_class) : st;
}

wh_status bench_pair_open(bench_pair *pair) {
    wh_status st = wh_array_create(pair->pe, "ball",
                                   WH_ARRAY_OPTS(.dims = 1, .shape = {3}, .map = "round-robin"),
                                   NULL, 0, &pair->balls);
    for (int32_t i = LEAD; i <= FOLLOWER && st == WH_OK; i++)
        st = wh_chare_send(pair->pe, wh_proxy_at(pair->balls, 1, &i), ball_open_entry, NULL, 0,
                           NULL);
    return st;
}
