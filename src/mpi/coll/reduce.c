// SPDX-License-Identifier: BSD-3-Clause
//
// Reduce.  Operands are combined in the order of ranks throughout: what a rank holds is the result of a run of ranks, and is combined with that of
// the next run.  whm_reduce leaves the result where the higher operand was, so the accumulator changes its place.
#include "mpi/coll/coll.h"
#include "mpi/coll/halving.h"

// A commuting operation takes the root as the first rank; otherwise rank 0 gets the result, and sends it to the root.
static int first_rank(const whm_schedule *s, int root) {
    return s->op->commutes ? root : 0;
}

void *whm_reduce_steps(whm_schedule *s, const void *buf, MPI_Count count, whm_type *type, int root,
                       void *result) {
    int first = first_rank(s, root), place = (s->rank - first + s->size) % s->size;
    const void *have = buf;
    void *room = result, *other = NULL;  // for what comes: one buffer while `have` is the operand
    for (int bit = 1; bit < s->size; bit *= 2) {
        if (place & bit) {
            whm_step_send(s, have, count, type, (place - bit + first) % s->size);
            whm_step_wait(s);
            break;
        }
        if (place + bit >= s->size)
            continue;
        if (!room && !(room = whm_schedule_space(s, count, type)))
            return NULL;
        whm_step_recv(s, room, count, type, (place + bit + first) % s->size);
        whm_step_wait(s);
        whm_step_reduce(s, have, room, count, type);
        void *free_one = have == buf ? other : (void *)(uintptr_t)have;
        have = room;
        room = free_one;
    }
    if (first != root && place == 0 && s->rank != root)
        whm_step_send(s, have, count, type, root);
    if (s->rank != root)
        return NULL;
    if (first != root) {
        whm_step_recv(s, result, count, type, first);
        whm_step_wait(s);
        return result;
    }
    return (void *)(uintptr_t)have;
}

void *whm_combine_steps(whm_schedule *s, void *operands, MPI_Count count, whm_type *type) {
    for (int i = 1; i < s->size; i++)
        whm_step_reduce(s, whm_elements(operands, (i - 1) * count, type),
                        whm_elements(operands, i * count, type), count, type);
    return whm_elements(operands, (s->size - 1) * count, type);
}

// All send to the root: nobody waits more than once.
void whm_reduce_flat(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    MPI_Count count = data->count;
    whm_type *type = data->type;
    if (s->rank != coll->root) {
        whm_step_send(s, coll->send.buf, count, type, coll->root);
        return;
    }
    void *all = whm_schedule_space(s, count * s->size, type);
    if (!all)
        return;
    for (int i = 0; i < s->size; i++)
        if (i != s->rank)
            whm_step_recv(s, whm_elements(all, i * count, type), count, type, i);
    const void *operand = whm_operand(coll);
    whm_step_copy(s, whm_elements(all, s->rank * count, type), count, type, operand, count, type);
    whm_step_wait(s);
    void *result = whm_combine_steps(s, all, count, type);
    whm_step_copy(s, data->buf, count, type, result, count, type);
}

void whm_reduce_binomial(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    bool in_place = whm_in_place(&coll->send), is_root = s->rank == coll->root;
    const void *buf = whm_operand(coll);
    // In place the operand lies where the result goes, and nothing may come there before it is combined or sent.
    void *room = is_root && !in_place ? data->buf : NULL;
    if (is_root && in_place && !(room = whm_schedule_space(s, data->count, data->type)))
        return;
    void *result = whm_reduce_steps(s, buf, data->count, data->type, coll->root, room);
    if (result && result != data->buf)
        whm_step_copy(s, data->buf, data->count, data->type, result, data->count, data->type);
}

// The parts come together at the root's place: of two partners the one on the other side gives its part and is done.
static void collect_halves(whm_schedule *s, const whm_fold *fold, const whm_pair *pair,
                           const whm_halves *halves, int root_place) {
    for (int i = halves->rounds - 1; i >= 0; i--) {
        int bit = 1 << i, partner = whm_fold_rank(fold, fold->place ^ bit);
        MPI_Count begin = halves->begin[i + 1], count = halves->count[i + 1];
        if ((fold->place ^ root_place) & bit) {
            whm_step_send(s, whm_elements(pair->have, begin, pair->type), count, pair->type,
                          partner);
            whm_step_wait(s);
            return;
        }
        MPI_Count other = begin > halves->begin[i] ? halves->begin[i] : begin + count;
        whm_step_recv(s, whm_elements(pair->have, other, pair->type), halves->count[i] - count,
                      pair->type, partner);
        whm_step_wait(s);
    }
}

// Rabenseifner's: halving, then the parts are collected at the root.  If the root has stepped aside, its partner stands for it.
void whm_reduce_halving(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    bool is_root = s->rank == coll->root;
    void *result = is_root ? data->buf : whm_schedule_space(s, data->count, data->type);
    void *other = whm_schedule_space(s, data->count, data->type);
    if (!result || !other)
        return;
    whm_fold fold = whm_fold_of(s);
    const void *operand = whm_operand(coll);
    whm_pair pair = whm_pair_begin(s, &fold, operand, result, other, data->count, data->type);
    whm_fold_in(s, &fold, &pair);
    int root_place = whm_fold_place(&fold, coll->root), stand_in = coll->root;
    if (root_place < 0) {
        stand_in = coll->root + 1;
        root_place = whm_fold_place(&fold, stand_in);
    }
    if (fold.place >= 0) {
        whm_halves halves;
        whm_halving_steps(s, &fold, &pair, &halves);
        collect_halves(s, &fold, &pair, &halves, root_place);
    }
    if (stand_in != coll->root && (is_root || s->rank == stand_in))
        whm_fold_out(s, &fold, result, data->count, data->type);
}
