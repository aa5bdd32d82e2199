// SPDX-License-Identifier: BSD-3-Clause
//
// For the walks of chares: pipes, which talk over channels and move.
//
// The four are the corners of a square, and each has a channel to two others, which it finds by 1 and 2.  What one pushes is
// numbered, and pulled in order, whatever has moved meanwhile.
#ifndef WHI_RT_CHARE_WALK_PIPE_H
#define WHI_RT_CHARE_WALK_PIPE_H

#include "rt/chare/walk_section.h"

typedef struct pipe_end {
    wh_channel *to[2];
    int64_t pushed[2], pulled[2];
} pipe_end;

#define PIPE_ENTRIES(ENTRY) ENTRY(pipe, push, 0) ENTRY(pipe, pull, 0) ENTRY(pipe, go, 0)
static void pipe_construct(wh_chare *self, const wh_call *call);
static size_t pipe_pack(wh_chare *self, void *to);
static wh_status pipe_unpack(wh_chare *self, const void *data, size_t size);
WH_CLASS(pipe, PIPE_ENTRIES, .state = sizeof(pipe_end), .construct = pipe_construct,
         .pack = pipe_pack, .unpack = pipe_unpack);

static void pipe_construct(wh_chare *self, const wh_call *call) {
    pipe_end *p = self->state;
    (void)call;
    for (int i = 0; i < 2; i++) {
        int32_t peer = self->proxy.index[0] ^ (i + 1);
        CHECK_EQ_INT(wh_channel_open(self, wh_proxy_at(self->proxy, 1, &peer),
                                     WH_CHANNEL_OPTS(.window = (uint32_t)(peer ? 200 : 5),
                                                     .id = (uint32_t)i + 1),
                                     &p->to[i]),
                     WH_OK);
    }
}

static size_t pipe_pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, sizeof(pipe_end));
    return sizeof(pipe_end);
}

static wh_status pipe_unpack(wh_chare *self, const void *data, size_t size) {
    pipe_end *p = self->state;
    CHECK_EQ_INT(size, sizeof(*p));
    memcpy(p, data, size);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_channel_find(self, i + 1, &p->to[i]), WH_OK);
    walk.pipe_moves++;
    return WH_OK;
}

// A message: its number is at both ends of it.
typedef struct parcel {
    int64_t expected;
    size_t size;
    int64_t data[];
} parcel;

static parcel *new_parcel(int64_t number) {
    size_t words = number % 41 == 0 ? 40000 : number % 5 == 0 ? 300 : 1;
    parcel *p = malloc(sizeof(*p) + words * sizeof(int64_t));
    CHECK(p);
    p->expected = number;
    p->size = words * sizeof(int64_t);
    p->data[0] = p->data[words - 1] = number;
    return p;
}

static void on_pushed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    CHECK_EQ_INT(result->status, WH_OK);
    walk.pushed++;
    free(arg);
}

static void on_pulled(wh_request *req, const wh_result *result, void *arg) {
    const parcel *p = arg;
    (void)req;
    CHECK_EQ_INT(result->status, WH_OK);
    CHECK_EQ_INT(p->data[0], p->expected);
    CHECK_EQ_INT(p->data[p->size / sizeof(int64_t) - 1], p->expected);
    walk.pulled++;
    free(arg);
}

static void pipe_push(wh_chare *self, const wh_call *call) {
    pipe_end *end = self->state;
    parcel *p = new_parcel(++end->pushed[call->ref]);
    walk.begun[self->proxy.index[0] ^ (call->ref + 1)][call->ref]++;
    wh_result done = {.status = wh_channel_send(end->to[call->ref], p->data, p->size,
                                                WH_OP_OPTS(.done = on_pushed, .arg = p), NULL)};
    if (done.status != WH_PENDING)
        on_pushed(NULL, &done, p);
}

static void pipe_pull(wh_chare *self, const wh_call *call) {
    pipe_end *end = self->state;
    parcel *p = new_parcel(++end->pulled[call->ref]);
    p->data[0] = p->data[p->size / sizeof(int64_t) - 1] = 0;
    wh_result done = {.status = wh_channel_recv(end->to[call->ref], p->data, p->size,
                                                WH_OP_OPTS(.done = on_pulled, .arg = p), NULL)};
    if (done.status != WH_PENDING)
        on_pulled(NULL, &done, p);
}

// go moves it, unless something of its channels has not ended; and nothing is taken then.
static void pipe_go(wh_chare *self, const wh_call *call) {
    const pipe_end *end = self->state;
    (void)call;
    int to = any_pe();
    wh_status st = wh_chare_move(self, to);
    CHECK(st == WH_OK || st == WH_EBUSY);
    if (st == WH_OK && to != wh_pe_number(self->pe))
        CHECK_EQ_INT(wh_channel_send(end->to[0], NULL, 0, NULL, NULL), WH_EBUSY);
}

// ---- From outside.

static void tell_pipe(int32_t at, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(net_pe(any_pe()), wh_proxy_at(walk.pipe, 1, &at), entry, NULL, 0,
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static void pull(int at, int which) {
    walk.pulls[at][which]++;
    tell_pipe(at, pipe_pull_entry, which);
}

// Most messages are pulled when they have been pushed, so that few receives wait, with which an element does not move.
static void step_channel(void) {
    if (!walk.pipes)
        return;
    int at = (int)draw(PIPES), which = (int)draw(2), peer = at ^ (which + 1);
    bool begun = walk.begun[at][which] > walk.pulls[at][which] + walk.lag;
    if (chance(50)) {
        tell_pipe(at, pipe_go_entry, 0);
    } else if (chance(50)) {
        walk.piped++;
        walk.pushes[peer][which]++;
        tell_pipe(at, pipe_push_entry, which);
    } else if (begun || (chance(walk.ahead) && walk.pushes[at][which] > walk.pulls[at][which])) {
        pull(at, which);
    }
}

static void pull_all(void) {
    for (int at = 0; at < PIPES; at++)
        for (int which = 0; which < 2; which++)
            while (walk.pushes[at][which] > walk.pulls[at][which])
                pull(at, which);
}

#endif
