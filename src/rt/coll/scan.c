// SPDX-License-Identifier: BSD-3-Clause
//
// Scans, inclusive and exclusive, with operands in the order of ranks.
//
// Small data by doubling: after round i a member has combined its own with the 2^i - 1 ranks below it.  Large data along a chain, in
// segments: a member receives a segment while it passes on the one before.
#include "rt/coll/call.h"
#include "rt/coll/choose.h"

typedef struct scan {
    bool exclusive;
    whi_coll_segments cut;  // of the chain
    uint64_t distance;
    uint32_t k;
    bool any;  // `below` has something
    char *sum, *in, *below,
        *spare;  // of the doubling: down to some rank, what comes, the same without our own
} scan;

static void swap(char **a, char **b) {
    char *c = *a;
    *a = *b;
    *b = c;
}

// ---- Doubling.

// take_in combines what has come from the ranks below those that we have.
static void take_in(whi_coll_op *op) {
    scan *s = op->state;
    uint64_t size = op->args.from.size;
    if (s->exclusive) {
        whi_coll_move(op, s->spare, s->in, size);
        if (s->any)
            whi_coll_combine(op, s->below, s->spare, size, 0);
        swap(&s->below, &s->spare);
        s->any = true;
    }
    whi_coll_combine(op, s->sum, s->in, size, 0);
    swap(&s->sum, &s->in);
}

static bool double_step(whi_coll_op *op) {
    scan *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    whi_coll_pack(op, &op->args.from, 0, 1, 0, s->sum, size);
    for (s->distance = 1; s->distance < n; s->distance *= 2) {
        if (rank + s->distance < n)
            whi_coll_send(op, (uint32_t)(rank + s->distance), s->sum, size, NULL);
        if (rank >= s->distance)
            whi_coll_recv(op, (uint32_t)(rank - s->distance), s->in, size, NULL);
        WHI_COLL_WAIT(op);
        if (rank >= s->distance)
            take_in(op);
    }
    if (!s->exclusive)
        whi_coll_unpack(op, s->sum, size, &op->args.to, 0, 1, 0);
    else if (rank > 0)
        whi_coll_unpack(op, s->below, size, &op->args.to, 0, 1, 0);
    WHI_COLL_END;
}

// ---- The chain.

// place returns where segment k of the sum is, of two parities; 2: the own data.
static char *place(const whi_coll_op *op, unsigned index) {
    const scan *s = op->state;
    return op->temp + index * whi_coll_segment_room(&s->cut);
}

static void add_own(whi_coll_op *op, uint32_t k) {
    const scan *s = op->state;
    uint64_t at = whi_coll_segment_begin(&op->args.from, &s->cut, k),
             size = whi_coll_segment_size(&op->args.from, &s->cut, k);
    char *sum = place(op, k & 1), *own = place(op, 2);
    bool first = op->team->rank == 0;
    whi_coll_pack(op, &op->args.from, 0, 1, at, first ? sum : own, size);
    if (s->exclusive && !first)
        whi_coll_unpack(op, sum, size, &op->args.to, 0, 1, at);
    if (!first)
        whi_coll_combine(op, own, sum, size, at);
    if (!s->exclusive)
        whi_coll_unpack(op, sum, size, &op->args.to, 0, 1, at);
}

static bool chain_step(whi_coll_op *op) {
    scan *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    for (s->k = 0; s->k <= s->cut.count; s->k++) {
        if (s->k < s->cut.count && rank > 0)
            whi_coll_recv(op, rank - 1, place(op, s->k & 1),
                          whi_coll_segment_size(&op->args.from, &s->cut, s->k), NULL);
        if (s->k > 0 && rank + 1 < n)
            whi_coll_send(op, rank + 1, place(op, (s->k - 1) & 1),
                          whi_coll_segment_size(&op->args.from, &s->cut, s->k - 1), NULL);
        WHI_COLL_WAIT(op);
        if (s->k < s->cut.count)
            add_own(op, s->k);
    }
    WHI_COLL_END;
}

static const whi_coll_kind double_kind = {.name = "scan", .step = double_step};
static const whi_coll_kind chain_kind = {.name = "scan", .step = chain_step};

static wh_status start(wh_team *team, const whi_coll_args *args, bool exclusive,
                       const wh_op_opts *opts, wh_request **req) {
    whi_coll_segments cut;
    uint64_t size = args->from.size;
    bool chain = whi_coll_chain_scan(team, size, &cut);
    uint64_t temp = chain ? 3 * whi_coll_segment_room(&cut) : (exclusive ? 4 : 2) * size;
    whi_coll_op *op =
        whi_coll_op_new(team, chain ? &chain_kind : &double_kind, args, 2, sizeof(scan), temp);
    if (!op)
        return WH_ENOMEM;
    scan *s = op->state;
    s->exclusive = exclusive;
    s->cut = cut;
    s->sum = op->temp;
    s->in = op->temp + size;
    s->below = exclusive ? op->temp + 2 * size : NULL;
    s->spare = exclusive ? op->temp + 3 * size : NULL;
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_scan(wh_team *team, const void *from, void *to, int64_t count,
                       const wh_type *type, const wh_reduction *how, const wh_op_opts *opts,
                       wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st =
        whi_coll_take_reduction(&(whi_coll_side){from, count, type, 1},
                                &(whi_coll_side){to, count, type, 1}, how, "wh_coll_scan", &args);
    return st == WH_OK ? start(team, &args, false, opts, req) : st;
}

wh_status wh_coll_exscan(wh_team *team, const void *from, void *to, int64_t count,
                         const wh_type *type, const wh_reduction *how, const wh_op_opts *opts,
                         wh_request **req) {
    if (!team)
        return WH_EINVAL;
    // The first member gets nothing; in place its data is in `to` all the same.
    bool to_used = team->rank > 0 || from == WH_IN_PLACE;
    whi_coll_args args;
    wh_status st = whi_coll_take_reduction(&(whi_coll_side){from, count, type, 1},
                                           &(whi_coll_side){to, count, type, to_used}, how,
                                           "wh_coll_exscan", &args);
    return st == WH_OK ? start(team, &args, true, opts, req) : st;
}

wh_status wh_coll_scan_wait(wh_team *team, const void *from, void *to, int64_t count,
                            const wh_type *type, const wh_reduction *how, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_scan(team, from, to, count, type, how, NULL, &waited));
}

wh_status wh_coll_exscan_wait(wh_team *team, const void *from, void *to, int64_t count,
                              const wh_type *type, const wh_reduction *how, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_exscan(team, from, to, count, type, how, NULL, &waited));
}
