// SPDX-License-Identifier: BSD-3-Clause
//
// Heat in a rod, cut into pieces that call each other: wherry run -n 4 ./heat1
#include "heat.h"

enum { LEFT, RIGHT };

typedef struct edge {  // the argument of a call: the neighbour's outermost cell
    int side;          // on which it lies, as seen by who gets it
    double value;
} edge;

typedef struct piece {
    int step, missing;  // edges that have not come yet
    double now[CELLS + 2], next[CELLS + 2];
} piece;

static void construct(wh_chare *self, const wh_call *call);

#define PIECE_ENTRIES(ENTRY) ENTRY(piece, begin, 0) ENTRY(piece, take_edge, WH_ENTRY_WHEN)
WH_CLASS(piece, PIECE_ENTRIES, .state = sizeof(piece), .construct = construct);

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    piece *p = self->state;  // all zero at first
    fill(p->now + 1, self->proxy.index[0] * CELLS, CELLS);
}

// exchange sends a neighbour our edge of this step, and asks for its own.
static void exchange(wh_chare *self, int32_t neighbour, edge ours) {
    piece *p = self->state;
    if (neighbour < 0 || neighbour >= PIECES)
        return;
    p->missing++;
    must("send",
         wh_chare_send(self->pe, wh_proxy_at(self->proxy, 1, &neighbour), piece_take_edge_entry,
                       &ours, sizeof(ours), WH_SEND_OPTS(.ref = p->step)));
    must("when", wh_chare_when(self, piece_take_edge_entry, p->step));
}

static void piece_begin(wh_chare *self, const wh_call *call) {
    (void)call;
    const piece *p = self->state;
    int32_t i = self->proxy.index[0];
    exchange(self, i - 1, (edge){.side = RIGHT, .value = p->now[1]});
    exchange(self, i + 1, (edge){.side = LEFT, .value = p->now[CELLS]});
}

static void end_step(wh_chare *self) {
    piece *p = self->state;
    double hottest = advance(p->now, p->next, CELLS);
    memcpy(p->now + 1, p->next + 1, CELLS * sizeof(double));
    p->step++;
    if (p->step % EVERY == 0)
        tell_hottest(self, hottest, p->step);
    if (p->step < STEPS)
        piece_begin(self, NULL);
    else
        tell_cells(self, p->now + 1);
}

static void piece_take_edge(wh_chare *self, const wh_call *call) {
    piece *p = self->state;
    const edge *theirs = call->args;
    p->now[theirs->side == LEFT ? 0 : CELLS + 1] = theirs->value;
    if (--p->missing == 0)
        end_step(self);
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
    must("begin", wh_chare_send(pe, rod, piece_begin_entry, NULL, 0, NULL));
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
