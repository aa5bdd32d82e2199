// SPDX-License-Identifier: BSD-3-Clause
//
// All-to-all.  Small blocks by Bruck's algorithm: a block for the rank that is j further goes there by the bits of j, in log n
// rounds.  Others straight to their places, with a few partners at a time; in place, in rounds of pairs, with a copy of the block that goes.
#include "rt/coll/call.h"
#include "rt/coll/choose.h"

enum { WINDOW = 8 };  // partners at a time

typedef struct alltoall {
    uint32_t base;
    uint64_t distance;
    char *blocks;    // of Bruck's: for the rank j further, by j
    char *out, *in;  // those that go in a round, and come
} alltoall;

// ---- Straight.

static bool direct_step(whi_coll_op *op) {
    alltoall *s = op->state;
    const whi_coll_data *from = &op->args.from, *to = &op->args.to;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    whi_coll_copy(op, from, rank, to, rank);
    for (s->base = 1; s->base < n; s->base += WINDOW) {
        for (uint32_t j = s->base; j < n && j < s->base + WINDOW; j++) {
            uint32_t next = (uint32_t)(((uint64_t)rank + j) % n), before = (rank + n - j) % n;
            whi_coll_recv(op, before, whi_coll_data_block(to, before), (uint64_t)to->count,
                          to->type);
            whi_coll_send(op, next, whi_coll_data_block(from, next), (uint64_t)from->count,
                          from->type);
        }
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

// In round k members whose ranks add up to k, modulo their number, exchange their blocks.
static uint32_t partner(const whi_coll_op *op) {
    const alltoall *s = op->state;
    uint32_t n = op->team->count;
    return (uint32_t)(((uint64_t)s->base + n - op->team->rank) % n);
}

static bool in_place_step(whi_coll_op *op) {
    alltoall *s = op->state;
    const whi_coll_data *to = &op->args.to;
    WHI_COLL_BEGIN(op)
    for (s->base = 0; s->base < op->team->count; s->base++) {
        if (partner(op) == op->team->rank)
            continue;
        whi_coll_pack(op, to, partner(op), 1, 0, op->temp, to->size);
        whi_coll_send(op, partner(op), op->temp, to->size, NULL);
        whi_coll_recv(op, partner(op), whi_coll_data_block(to, partner(op)), (uint64_t)to->count,
                      to->type);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

// ---- Bruck's.

// gather_up puts the blocks of a round side by side; spread brings those that have come to their places.  Both return their bytes.
static uint64_t gather_up(whi_coll_op *op) {
    const alltoall *s = op->state;
    uint64_t size = op->args.from.size, used = 0;
    for (uint64_t j = s->distance; j < op->team->count; j++)
        if (j & s->distance) {
            whi_coll_move(op, s->out + used, s->blocks + j * size, size);
            used += size;
        }
    return used;
}

static void spread(whi_coll_op *op) {
    const alltoall *s = op->state;
    uint64_t size = op->args.from.size, used = 0;
    for (uint64_t j = s->distance; j < op->team->count; j++)
        if (j & s->distance) {
            whi_coll_move(op, s->blocks + j * size, s->in + used, size);
            used += size;
        }
}

static bool bruck_step(whi_coll_op *op) {
    alltoall *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    for (uint32_t j = 0; j < n; j++)
        whi_coll_pack(op, &op->args.from, (uint32_t)(((uint64_t)rank + j) % n), 1, 0,
                      s->blocks + j * size, size);
    for (s->distance = 1; s->distance < n; s->distance *= 2) {
        uint64_t bytes = gather_up(op);
        whi_coll_send(op, (uint32_t)((rank + s->distance) % n), s->out, bytes, NULL);
        whi_coll_recv(op, (uint32_t)((rank + n - s->distance) % n), s->in, bytes, NULL);
        WHI_COLL_WAIT(op);
        spread(op);
    }
    // What is here now for "j further" came from the rank j before.
    for (uint32_t j = 0; j < n; j++)
        whi_coll_unpack(op, s->blocks + j * size, size, &op->args.to, (rank + n - j) % n, 1, 0);
    WHI_COLL_END;
}

static const whi_coll_kind direct_kind = {.name = "all-to-all", .step = direct_step};
static const whi_coll_kind in_place_kind = {.name = "all-to-all", .step = in_place_step};
static const whi_coll_kind bruck_kind = {.name = "all-to-all", .step = bruck_step};

static wh_status start(wh_team *team, const whi_coll_args *args, const wh_op_opts *opts,
                       wh_request **req) {
    uint64_t size = args->from.size, half = (team->count + 1) / 2 * size;
    bool bruck = whi_coll_bruck_alltoall(team, size);
    const whi_coll_kind *kind = bruck            ? &bruck_kind
                                : args->in_place ? &in_place_kind
                                                 : &direct_kind;
    uint64_t temp = bruck ? team->count * size + 2 * half : args->in_place ? size : 0;
    whi_coll_op *op = whi_coll_op_new(team, kind, args, 2 * WINDOW, sizeof(alltoall), temp);
    if (!op)
        return WH_ENOMEM;
    alltoall *s = op->state;
    s->blocks = op->temp;
    s->out = s->blocks + team->count * size;
    s->in = s->out + half;
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_alltoall(wh_team *team, const void *from, int64_t from_count,
                           const wh_type *from_type, void *to, int64_t to_count,
                           const wh_type *to_type, const wh_op_opts *opts, wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_take(&(whi_coll_side){from, from_count, from_type, team->count},
                                 &(whi_coll_side){to, to_count, to_type, team->count},
                                 "wh_coll_alltoall", &args);
    return st == WH_OK ? start(team, &args, opts, req) : st;
}

wh_status wh_coll_alltoall_wait(wh_team *team, const void *from, int64_t from_count,
                                const wh_type *from_type, void *to, int64_t to_count,
                                const wh_type *to_type, int timeout_ms) {
    return WHI_COLL_WAITED(
        team, timeout_ms,
        wh_coll_alltoall(team, from, from_count, from_type, to, to_count, to_type, NULL, &waited));
}
