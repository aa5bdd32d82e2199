// SPDX-License-Identifier: BSD-3-Clause
//
// Heat in a rod, cut into pieces with a channel between neighbours: wherry run -n 4 ./heat2
#include "heat.h"

enum { LEFT, RIGHT, SIDES };

typedef struct piece {
    wh_channel *channels[SIDES];  // NULL at the ends of the rod
    double now[CELLS + 2], next[CELLS + 2];
} piece;

static void construct(wh_chare *self, const wh_call *call);

#define PIECE_ENTRIES(ENTRY) ENTRY(piece, run, WH_ENTRY_THREADED)
WH_CLASS(piece, PIECE_ENTRIES, .state = sizeof(piece), .construct = construct);

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    piece *p = self->state;
    fill(p->now + 1, self->proxy.index[0] * CELLS, CELLS);
    for (int side = 0; side < SIDES; side++) {
        int32_t neighbour = self->proxy.index[0] + (side == LEFT ? -1 : 1);
        if (neighbour >= 0 && neighbour < PIECES)
            must("channel", wh_channel_open(self, wh_proxy_at(self->proxy, 1, &neighbour), NULL,
                                            &p->channels[side]));
    }
}

// transfer starts a receive or a send of one cell.  It may be done at once (WH_OK), or later (WH_PENDING).
static void transfer(wh_channel *channel, bool send, double *cell, wh_wait *wait) {
    wh_op_opts opts = {.size = sizeof(opts), .done = wh_wait_done, .arg = wait};
    *wait = (wh_wait){0};
    wh_status st = send ? wh_channel_send(channel, cell, sizeof(*cell), &opts, NULL)
                        : wh_channel_recv(channel, cell, sizeof(*cell), &opts, NULL);
    wait->done = st != WH_PENDING;
    must("transfer", st == WH_PENDING ? WH_OK : st);
}

static void exchange(wh_chare *self) {
    piece *p = self->state;
    wh_wait waits[2 * SIDES];
    for (int side = 0; side < SIDES; side++) {
        if (!p->channels[side])
            continue;
        transfer(p->channels[side], false, &p->now[side == LEFT ? 0 : CELLS + 1], &waits[2 * side]);
        transfer(p->channels[side], true, &p->now[side == LEFT ? 1 : CELLS], &waits[2 * side + 1]);
    }
    for (int i = 0; i < 2 * SIDES; i++) {
        if (!p->channels[i / 2])
            continue;
        must("wait", wh_pe_wait(self->pe, &waits[i]));
        must("exchange", waits[i].result.status);
    }
}

static void piece_run(wh_chare *self, const wh_call *call) {
    (void)call;
    piece *p = self->state;
    for (int step = 1; step <= STEPS; step++) {
        exchange(self);  // other pieces of this PE run meanwhile
        double hottest = advance(p->now, p->next, CELLS);
        memcpy(p->now + 1, p->next + 1, CELLS * sizeof(double));
        if (step % EVERY == 0)
            tell_hottest(self, hottest, step);
    }
    tell_cells(self, p->now + 1);
}

static void start(wh_pe *pe, void *arg) {  // on each PE
    (void)arg;
    wh_proxy rod;
    must("class", wh_class_register(pe, &piece_class));
    must("hottest", wh_function_register(pe, "hottest", on_hottest, NULL));
    must("end", wh_function_register(pe, "end", on_end, NULL));
    if (wh_pe_number(pe) != 0)
        return;
    must("array",
         wh_array_create(pe, "piece", WH_ARRAY_OPTS(.dims = 1, .shape = {PIECES}), NULL, 0, &rod));
    must("run", wh_chare_send(pe, rod, piece_run_entry, NULL, 0, NULL));
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
