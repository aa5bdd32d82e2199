// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduce among 2^k members, with operands in the order of ranks and the same bits for all.
//
// Small data by recursive doubling: in round i partners, whose ranks differ in bit i, exchange what each has of its 2^i ranks.
// Large data by halving: the same partners exchange halves of what they have, so that each ends with a part of the vector, and then the same
// backwards to collect the parts.  Of n members that are no 2^k the first ones join in pairs before: the even one gives its data to the
// odd one, and gets the result at the end.
#include "rt/coll/call.h"
#include "rt/coll/choose.h"

enum { LEVELS = 32 };

typedef struct allreduce {
    bool halves;
    char *sum, *in;      // packed
    uint32_t power;      // the largest 2^k
    uint32_t pairs;      // that join
    uint32_t place;      // among the 2^k
    uint32_t mask;       // of the bit in which the partner differs
    unsigned level;      // its number
    uint64_t from, end;  // the part of the vector that is ours
    struct {
        uint64_t from, end;
    } before[LEVELS];  // what was ours, by level
} allreduce;

static uint32_t partner(const whi_coll_op *op) {
    const allreduce *s = op->state;
    uint32_t place = s->place ^ s->mask;
    return place < s->pairs ? 2 * place + 1 : place + s->pairs;
}

static bool is_even_of_pair(const whi_coll_op *op) {
    const allreduce *s = op->state;
    return op->team->rank < 2 * s->pairs && op->team->rank % 2 == 0;
}

static bool is_odd_of_pair(const whi_coll_op *op) {
    const allreduce *s = op->state;
    return op->team->rank < 2 * s->pairs && op->team->rank % 2 == 1;
}

// combine adds what has come in of our part, from a rank below us or above.
static void combine(whi_coll_op *op, bool below) {
    allreduce *s = op->state;
    char *mine = s->sum + s->from;
    uint64_t size = s->end - s->from;
    if (!below) {
        whi_coll_combine(op, s->in, mine, size, s->from);
        return;
    }
    whi_coll_combine(op, mine, s->in, size, s->from);
    whi_coll_move(op, mine, s->in, size);
}

// halve keeps one half of our part, and exchanges the halves with the partner.
static void halve(whi_coll_op *op) {
    allreduce *s = op->state;
    bool upper = (s->place & s->mask) != 0;
    uint64_t from = s->from, end = s->end;
    uint64_t middle = whi_coll_data_border(&op->args.from, from + (end - from) / 2);
    if (middle < from)
        middle = from;
    s->before[s->level].from = from;
    s->before[s->level].end = end;
    s->from = upper ? middle : from;
    s->end = upper ? end : middle;
    uint64_t give = upper ? from : middle, give_end = upper ? middle : end;
    whi_coll_send(op, partner(op), s->sum + give, give_end - give, NULL);
    whi_coll_recv(op, partner(op), s->in, s->end - s->from, NULL);
}

// collect exchanges our part for the other half of what was ours before.
static void collect(whi_coll_op *op) {
    allreduce *s = op->state;
    bool upper = (s->place & s->mask) != 0;
    uint64_t from = upper ? s->before[s->level].from : s->end;
    uint64_t end = upper ? s->from : s->before[s->level].end;
    whi_coll_send(op, partner(op), s->sum + s->from, s->end - s->from, NULL);
    whi_coll_recv(op, partner(op), s->sum + from, end - from, NULL);
    s->from = s->before[s->level].from;
    s->end = s->before[s->level].end;
}

static bool step(whi_coll_op *op) {
    allreduce *s = op->state;
    uint32_t rank = op->team->rank;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    if (s->sum != op->args.from.buf)
        whi_coll_pack(op, &op->args.from, 0, 1, 0, s->sum, size);
    if (is_even_of_pair(op)) {
        whi_coll_send(op, rank + 1, s->sum, size, NULL);
        WHI_COLL_WAIT(op);
        whi_coll_recv(op, rank + 1, s->sum, size, NULL);
        WHI_COLL_WAIT(op);
    } else {
        if (is_odd_of_pair(op)) {
            whi_coll_recv(op, rank - 1, s->in, size, NULL);
            WHI_COLL_WAIT(op);
            combine(op, true);
        }
        for (s->mask = 1; s->mask < s->power; s->mask *= 2, s->level++) {
            if (s->halves) {
                halve(op);
            } else {
                whi_coll_send(op, partner(op), s->sum, size, NULL);
                whi_coll_recv(op, partner(op), s->in, size, NULL);
            }
            WHI_COLL_WAIT(op);
            combine(op, partner(op) < rank);
        }
        while (s->halves && s->level-- > 0) {
            s->mask /= 2;
            collect(op);
            WHI_COLL_WAIT(op);
        }
        if (is_odd_of_pair(op)) {
            whi_coll_send(op, rank - 1, s->sum, size, NULL);
            WHI_COLL_WAIT(op);
        }
    }
    if (s->sum != op->args.to.buf)
        whi_coll_unpack(op, s->sum, size, &op->args.to, 0, 1, 0);
    WHI_COLL_END;
}

static const whi_coll_kind kind = {.name = "allreduce", .step = step};

wh_status wh_coll_allreduce(wh_team *team, const void *from, void *to, int64_t count,
                            const wh_type *type, const wh_reduction *how, const wh_op_opts *opts,
                            wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_take_reduction(&(whi_coll_side){from, count, type, 1},
                                           &(whi_coll_side){to, count, type, 1}, how,
                                           "wh_coll_allreduce", &args);
    if (st != WH_OK)
        return st;
    uint64_t size = args.from.size;
    // Dense data is combined where the result is to be.
    uint64_t temp = args.to.dense ? size : 2 * size;
    whi_coll_op *op = whi_coll_op_new(team, &kind, &args, 2, sizeof(allreduce), temp);
    if (!op)
        return WH_ENOMEM;
    allreduce *s = op->state;
    s->halves = whi_coll_halve_allreduce(team, size);
    s->in = op->temp;
    s->sum = args.to.dense ? args.to.buf : op->temp + size;
    s->end = size;
    s->power = 1;
    while (s->power <= team->count / 2)
        s->power *= 2;
    s->pairs = team->count - s->power;
    s->place = team->rank < 2 * s->pairs ? team->rank / 2 : team->rank - s->pairs;
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_allreduce_wait(wh_team *team, const void *from, void *to, int64_t count,
                                 const wh_type *type, const wh_reduction *how, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_allreduce(team, from, to, count, type, how, NULL, &waited));
}
