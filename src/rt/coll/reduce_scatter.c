// SPDX-License-Identifier: BSD-3-Clause
//
// Reduce-scatter: in round k members whose ranks add up to k, modulo their number, exchange the blocks that are the other's.
//
// The blocks for a member come in the order of ranks, save that they begin in the middle: at n - rank.  So there are two sums, of
// those ranks and of the ones below, which are combined at the end.
#include "rt/coll/call.h"

typedef struct reduce_scatter {
    uint32_t k;
    bool any;  // `sum` has something
    char *sum, *high, *in;
} reduce_scatter;

static uint32_t partner(const whi_coll_op *op) {
    const reduce_scatter *s = op->state;
    uint32_t n = op->team->count;
    return (s->k + n - op->team->rank) % n;
}

static void swap(char **a, char **b) {
    char *c = *a;
    *a = *b;
    *b = c;
}

static bool step(whi_coll_op *op) {
    reduce_scatter *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    for (s->k = 0; s->k < n; s->k++) {
        if (partner(op) != rank) {
            whi_coll_send(op, partner(op), whi_coll_data_block(&op->args.from, partner(op)),
                          (uint64_t)op->args.from.count, op->args.from.type);
            whi_coll_recv(op, partner(op), s->in, size, NULL);
            WHI_COLL_WAIT(op);
        } else {
            whi_coll_pack(op, &op->args.from, rank, 1, 0, s->in, size);
        }
        if (partner(op) == 0 && s->any) {
            swap(&s->sum, &s->high);
            s->any = false;
        }
        if (s->any)
            whi_coll_combine(op, s->in, s->sum, size, 0);
        else
            swap(&s->in, &s->sum);
        s->any = true;
    }
    if (rank > 0)
        whi_coll_combine(op, s->high, s->sum, size, 0);
    whi_coll_unpack(op, s->sum, size, &op->args.to, 0, 1, 0);
    WHI_COLL_END;
}

static const whi_coll_kind kind = {.name = "reduce-scatter", .step = step};

wh_status wh_coll_reduce_scatter(wh_team *team, const void *from, void *to, int64_t count,
                                 const wh_type *type, const wh_reduction *how,
                                 const wh_op_opts *opts, wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_take_reduction(&(whi_coll_side){from, count, type, team->count},
                                           &(whi_coll_side){to, count, type, 1}, how,
                                           "wh_coll_reduce_scatter", &args);
    if (st != WH_OK)
        return st;
    uint64_t size = args.from.size;
    whi_coll_op *op = whi_coll_op_new(team, &kind, &args, 2, sizeof(reduce_scatter), 3 * size);
    if (!op)
        return WH_ENOMEM;
    *(reduce_scatter *)op->state =
        (reduce_scatter){.sum = op->temp, .high = op->temp + size, .in = op->temp + 2 * size};
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_reduce_scatter_wait(wh_team *team, const void *from, void *to, int64_t count,
                                      const wh_type *type, const wh_reduction *how,
                                      int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_reduce_scatter(team, from, to, count, type, how, NULL, &waited));
}
