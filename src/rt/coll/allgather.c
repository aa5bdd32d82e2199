// SPDX-License-Identifier: BSD-3-Clause
//
// Allgather: small blocks by Bruck's algorithm, where what a member has doubles in each round; others around a ring, straight to
// their places.
#include "rt/coll/allgather.h"

#include "rt/coll/call.h"
#include "rt/coll/choose.h"

bool whi_coll_bruck_step(whi_coll_op *op) {
    whi_coll_bruck *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    for (s->distance = 1; s->distance < n; s->distance *= 2) {
        uint64_t blocks = n - s->distance < s->distance ? n - s->distance : s->distance;
        whi_coll_send(op, (uint32_t)((rank + n - s->distance) % n), s->blocks, blocks * s->size,
                      NULL);
        whi_coll_recv(op, (uint32_t)((rank + s->distance) % n), s->blocks + s->distance * s->size,
                      blocks * s->size, NULL);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

// bruck_done brings the blocks to their places; in place, ours is there.
static wh_status bruck_done(whi_coll_op *op) {
    const whi_coll_bruck *s = op->state;
    const whi_coll_data *to = &op->args.to;
    uint32_t rank = op->team->rank, n = op->team->count, skip = op->args.in_place;
    whi_coll_unpack(op, s->blocks + skip * s->size, (n - rank - skip) * s->size, to, rank + skip,
                    n - rank - skip, 0);
    whi_coll_unpack(op, s->blocks + (n - rank) * s->size, rank * s->size, to, 0, rank, 0);
    return WH_OK;
}

typedef struct ring {
    uint32_t k;
} ring;

static bool ring_step(whi_coll_op *op) {
    ring *s = op->state;
    const whi_coll_data *to = &op->args.to;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    if (!op->args.in_place)
        whi_coll_copy(op, &op->args.from, 0, to, rank);
    for (s->k = 0; s->k + 1 < n; s->k++) {
        whi_coll_send(op, (rank + 1) % n, whi_coll_data_block(to, (rank + n - s->k) % n),
                      (uint64_t)to->count, to->type);
        whi_coll_recv(op, (rank + n - 1) % n, whi_coll_data_block(to, (rank + n - s->k - 1) % n),
                      (uint64_t)to->count, to->type);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

static const whi_coll_kind bruck_kind = {
    .name = "allgather", .step = whi_coll_bruck_step, .done = bruck_done};
static const whi_coll_kind ring_kind = {.name = "allgather", .step = ring_step};

static wh_status start_bruck(wh_team *team, const whi_coll_args *args, const wh_op_opts *opts,
                             wh_request **req) {
    uint64_t size = args->from.size;
    whi_coll_op *op =
        whi_coll_op_new(team, &bruck_kind, args, 2, sizeof(whi_coll_bruck), team->count * size);
    if (!op)
        return WH_ENOMEM;
    *(whi_coll_bruck *)op->state = (whi_coll_bruck){.size = size, .blocks = op->temp};
    whi_coll_pack(op, &op->args.from, op->args.in_place ? team->rank : 0, 1, 0, op->temp, size);
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_allgather(wh_team *team, const void *from, int64_t from_count,
                            const wh_type *from_type, void *to, int64_t to_count,
                            const wh_type *to_type, const wh_op_opts *opts, wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_take(&(whi_coll_side){from, from_count, from_type, 1},
                                 &(whi_coll_side){to, to_count, to_type, team->count},
                                 "wh_coll_allgather", &args);
    if (st != WH_OK)
        return st;
    if (whi_coll_bruck_allgather(team, args.from.size))
        return start_bruck(team, &args, opts, req);
    whi_coll_op *op = whi_coll_op_new(team, &ring_kind, &args, 2, sizeof(ring), 0);
    return op ? whi_coll_op_start(op, opts, req) : WH_ENOMEM;
}

wh_status wh_coll_allgather_wait(wh_team *team, const void *from, int64_t from_count,
                                 const wh_type *from_type, void *to, int64_t to_count,
                                 const wh_type *to_type, int timeout_ms) {
    return WHI_COLL_WAITED(
        team, timeout_ms,
        wh_coll_allgather(team, from, from_count, from_type, to, to_count, to_type, NULL, &waited));
}
