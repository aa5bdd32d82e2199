// SPDX-License-Identifier: BSD-3-Clause
//
// heat1.c with work that differs from piece to piece, balanced, and with checkpoints:
//     wherry run -n 4 ./heat3 FOLDER [STOP]     goes on from FOLDER if there is a checkpoint; ends after step STOP
#include "heat.h"

enum { LEFT, RIGHT };

typedef struct edge {
    int side;
    double value;
} edge;

typedef struct piece {
    int step, missing;
    double longest;
    double now[CELLS + 2], next[CELLS + 2];
} piece;

static const char *folder;
static int stop;
static wh_proxy rod;  // all pieces; PE 0 uses it

static void construct(wh_chare *self, const wh_call *call);
static size_t pack(wh_chare *self, void *to);
static wh_status unpack(wh_chare *self, const void *data, size_t size);

#define PIECE_ENTRIES(ENTRY)                                                                       \
    ENTRY(piece, begin, 0) ENTRY(piece, take_edge, WH_ENTRY_WHEN) ENTRY(piece, rest, 0)
WH_CLASS(piece, PIECE_ENTRIES, .state = sizeof(piece), .construct = construct, .pack = pack,
         .unpack = unpack);

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    piece *p = self->state;
    fill(p->now + 1, self->proxy.index[0] * CELLS, CELLS);
}

static size_t pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, sizeof(piece));
    return sizeof(piece);
}

static wh_status unpack(wh_chare *self, const void *data, size_t size) {
    if (size != sizeof(piece))
        return WH_EPROTOCOL;
    memcpy(self->state, data, size);
    if (wh_pe_number(self->pe) == 0)
        rod = wh_proxy_at(self->proxy, 0, NULL);  // how PE 0 has it again after a restart
    return WH_OK;
}

// cooling estimates how many steps the hottest cell of a piece stays above 10 degrees: long work where it is hot.
static double cooling(const double *cells) {
    double longest = 0;
    for (int i = 0; i < CELLS; i++) {
        double steps = 0;
        for (double t = cells[i]; t > 10; t *= 0.999)
            steps++;
        longest = fmax(longest, steps);
    }
    return longest;
}

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
    advance(p->now, p->next, CELLS);
    memcpy(p->now + 1, p->next + 1, CELLS * sizeof(double));
    p->longest = cooling(p->now + 1);
    p->step++;
    if (p->step == STEPS)
        tell_cells(self, p->now + 1);
    else if (p->step % EVERY == 0)
        must("sync", wh_chare_sync(self));  // goes on in piece_rest
    else
        piece_begin(self, NULL);
}

static void piece_take_edge(wh_chare *self, const wh_call *call) {
    piece *p = self->state;
    const edge *theirs = call->args;
    p->now[theirs->side == LEFT ? 0 : CELLS + 1] = theirs->value;
    if (--p->missing == 0)
        end_step(self);
}

// piece_rest is called at each piece when all of them are where they shall be.
static void piece_rest(wh_chare *self, const wh_call *call) {
    (void)call;
    const piece *p = self->state;
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_MAX,
                            .type = WH_TYPE_DOUBLE,
                            .data = &p->longest,
                            .count = 1};
    contribute(self, part, "rested", p->step);
}

// ---- What PE 0 does between two runs of 10 steps.

static wh_callback to(const char *function, int64_t ref) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id(function), .pe = 0, .ref = ref};
}

static wh_status status_of(const wh_call *call) {
    int32_t status;
    memcpy(&status, call->args, sizeof(status));
    return (wh_status)status;
}

static void on_rested(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    double longest;
    wh_balance_step last = {.size = sizeof(last)};
    memcpy(&longest, call->args, sizeof(longest));
    must("balance", wh_balance_last(pe, rod, &last));
    printf("step %d: hot for %.0f steps; most loaded PE %.1f times the mean, now %.1f; %d moved\n",
           (int)call->ref, longest, last.max_before / last.mean_before,
           last.max_after / last.mean_after, (int)last.moved);
    wh_callback written = to("written", call->ref);
    must("checkpoint", wh_checkpoint_write(pe, folder, &written));
}

static void on_written(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    must("checkpoint", status_of(call));
    if (call->ref == stop)
        wh_pe_exit(pe, 0);
    else
        must("begin", wh_chare_send(pe, rod, piece_begin_entry, NULL, 0, NULL));
}

static void on_read(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    must("restart", status_of(call));
    printf("going on from %s on %d PEs\n", folder, wh_rt_pes(wh_pe_rt(pe)));
    must("begin", wh_chare_send(pe, rod, piece_begin_entry, NULL, 0, NULL));
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    must("class", wh_class_register(pe, &piece_class));
    must("rested", wh_function_register(pe, "rested", on_rested, NULL));
    must("written", wh_function_register(pe, "written", on_written, NULL));
    must("read", wh_function_register(pe, "read", on_read, NULL));
    must("end", wh_function_register(pe, "end", on_end, NULL));
    if (wh_pe_number(pe) != 0)
        return;
    wh_callback read = to("read", 0);
    wh_status st = wh_checkpoint_read(pe, folder, &read);
    if (st != WH_ENOTFOUND) {
        must("restart", st);
        return;  // goes on in on_read
    }
    must("array", wh_array_create(pe, "piece",
                                  WH_ARRAY_OPTS(.dims = 1, .shape = {PIECES}, .balance = "greedy",
                                                .resume = piece_rest_entry),
                                  NULL, 0, &rod));
    must("begin", wh_chare_send(pe, rod, piece_begin_entry, NULL, 0, NULL));
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    if (argc < 2) {
        fprintf(stderr, "heat3 FOLDER [STOP]\n");
        return 2;
    }
    folder = argv[1];
    stop = argc > 2 ? atoi(argv[2]) : 0;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
