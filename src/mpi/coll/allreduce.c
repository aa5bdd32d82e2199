// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduce.  All ranks get the same bits: either both partners combine the same two operands in the same order, or one rank computes each part.
#include "mpi/coll/coll.h"
#include "mpi/coll/halving.h"

// Each rank tells all others, and combines all operands by itself: a rank waits once, which counts where ranks share processors.
void whm_allreduce_flat(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    MPI_Count count = data->count;
    whm_type *type = data->type;
    void *all = whm_schedule_space(s, count * s->size, type);
    if (!all)
        return;
    void *mine = whm_elements(all, s->rank * count, type);
    whm_step_copy(s, mine, count, type, whm_operand(coll), count, type);
    for (int i = 1; i < s->size; i++) {
        int from = (s->rank - i + s->size) % s->size;
        whm_step_recv(s, whm_elements(all, from * count, type), count, type, from);
    }
    for (int i = 1; i < s->size; i++)
        whm_step_send(s, mine, count, type, (s->rank + i) % s->size);
    whm_step_wait(s);
    void *result = whm_combine_steps(s, all, count, type);
    whm_step_copy(s, data->buf, count, type, result, count, type);
}

// The whole vector is exchanged with the partner at distance 1, 2, 4 ...
static void double_steps(whm_schedule *s, const void *operand, void *result, MPI_Count count,
                         whm_type *type) {
    void *other = whm_schedule_space(s, count, type);
    if (!other)
        return;
    whm_fold fold = whm_fold_of(s);
    whm_pair pair = whm_pair_begin(s, &fold, operand, result, other, count, type);
    whm_fold_in(s, &fold, &pair);
    for (int bit = 1; fold.place >= 0 && bit < fold.places; bit *= 2) {
        int place = fold.place ^ bit, partner = whm_fold_rank(&fold, place);
        whm_step_recv(s, pair.room, count, type, partner);
        whm_step_send(s, pair.have, count, type, partner);
        whm_step_wait(s);
        whm_pair_combine(s, &pair, 0, count, place < fold.place);
    }
    whm_fold_out(s, &fold, result, count, type);
}

void whm_allreduce_steps(whm_schedule *s, void *buf, MPI_Count count, whm_type *type) {
    double_steps(s, buf, buf, count, type);
}

void whm_allreduce_doubling(whm_schedule *s, const whm_coll *coll) {
    double_steps(s, whm_operand(coll), coll->recv.buf, coll->recv.count, coll->recv.type);
}

// A reduction to rank 0, which tells the result: two messages of each rank in all, where doubling has two of each in a round.
void whm_allreduce_tree(whm_schedule *s, const whm_coll *coll) {
    whm_coll up = *coll;
    up.root = 0;
    whm_reduce_binomial(s, &up);
    whm_bcast_steps(s, coll->recv.buf, coll->recv.count, coll->recv.type, 0);
}

// Partners of the last round first: each gives what it has of what both were responsible for.
static void spread_halves(whm_schedule *s, const whm_fold *fold, const whm_pair *pair,
                          const whm_halves *halves) {
    for (int i = halves->rounds - 1; i >= 0; i--) {
        int partner = whm_fold_rank(fold, fold->place ^ (1 << i));
        MPI_Count begin = halves->begin[i + 1], count = halves->count[i + 1];
        MPI_Count other = begin > halves->begin[i] ? halves->begin[i] : begin + count;
        whm_step_recv(s, whm_elements(pair->have, other, pair->type), halves->count[i] - count,
                      pair->type, partner);
        whm_step_send(s, whm_elements(pair->have, begin, pair->type), count, pair->type, partner);
        whm_step_wait(s);
    }
}

// Rabenseifner's: halving, then the parts go back the same way.
void whm_allreduce_halving(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    void *other = whm_schedule_space(s, data->count, data->type);
    if (!other)
        return;
    whm_fold fold = whm_fold_of(s);
    whm_pair pair =
        whm_pair_begin(s, &fold, whm_operand(coll), data->buf, other, data->count, data->type);
    whm_fold_in(s, &fold, &pair);
    if (fold.place >= 0) {
        whm_halves halves;
        whm_halving_steps(s, &fold, &pair, &halves);
        spread_halves(s, &fold, &pair, &halves);
    }
    whm_fold_out(s, &fold, data->buf, data->count, data->type);
}

// Each part goes round the ring and takes up the operands on its way, so the operation must commute; then the results go round.
void whm_allreduce_ring(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    whm_blocks parts;
    if (!whm_even_blocks(s, data->buf, data->count, data->type, &parts))
        return;
    void *room = whm_schedule_space(s, whm_block_count(&parts, 0), data->type);
    if (!room)
        return;
    if (!whm_in_place(&coll->send))
        whm_step_copy(s, data->buf, data->count, data->type, coll->send.buf, data->count,
                      data->type);
    int to = (s->rank + 1) % s->size, from = (s->rank - 1 + s->size) % s->size, out = s->rank;
    for (int round = 0; round < s->size - 1; round++) {
        int in = (out - 1 + s->size) % s->size;
        if (whm_block_bytes(&parts, in) > 0)
            whm_step_recv(s, room, whm_block_count(&parts, in), data->type, from);
        whm_send_block(s, &parts, out, to);
        whm_step_wait(s);
        whm_step_reduce(s, room, whm_block_at(&parts, in), whm_block_count(&parts, in), data->type);
        out = in;
    }
    whm_ring_steps(s, &parts, -1);
}
