// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/halving.h"

whm_fold whm_fold_of(const whm_schedule *s) {
    whm_fold fold = {.places = 1};
    while (2 * fold.places <= s->size)
        fold.places *= 2;
    fold.pairs = s->size - fold.places;
    fold.place = whm_fold_place(&fold, s->rank);
    return fold;
}

int whm_fold_rank(const whm_fold *fold, int place) {
    return place < fold->pairs ? 2 * place + 1 : place + fold->pairs;
}

int whm_fold_place(const whm_fold *fold, int rank) {
    if (rank >= 2 * fold->pairs)
        return rank - fold->pairs;
    return rank % 2 == 0 ? -1 : rank / 2;
}

whm_pair whm_pair_begin(whm_schedule *s, const whm_fold *fold, const void *operand, void *result,
                        void *other, MPI_Count count, whm_type *type) {
    // Each partner above, a bit of the place that is not set, exchanges the two buffers once.
    int above = fold->place < 0
                    ? 0
                    : __builtin_popcount(~(unsigned)fold->place & (unsigned)(fold->places - 1));
    whm_pair pair = {.have = result, .room = other, .count = count, .type = type};
    if (above % 2 != 0) {
        pair.have = other;
        pair.room = result;
    }
    if (pair.have != operand)
        whm_step_copy(s, pair.have, count, type, operand, count, type);
    return pair;
}

void whm_pair_combine(whm_schedule *s, whm_pair *pair, MPI_Count begin, MPI_Count count,
                      bool lower) {
    void *have = whm_elements(pair->have, begin, pair->type);
    void *room = whm_elements(pair->room, begin, pair->type);
    if (lower) {
        whm_step_reduce(s, room, have, count, pair->type);
        return;
    }
    whm_step_reduce(s, have, room, count, pair->type);
    void *was = pair->have;
    pair->have = pair->room;
    pair->room = was;
}

void whm_fold_in(whm_schedule *s, const whm_fold *fold, const whm_pair *pair) {
    if (s->rank >= 2 * fold->pairs)
        return;
    if (fold->place < 0) {
        whm_step_send(s, pair->have, pair->count, pair->type, s->rank + 1);
        whm_step_wait(s);
        return;
    }
    whm_step_recv(s, pair->room, pair->count, pair->type, s->rank - 1);
    whm_step_wait(s);
    whm_step_reduce(s, pair->room, pair->have, pair->count, pair->type);
}

void whm_fold_out(whm_schedule *s, const whm_fold *fold, void *buf, MPI_Count count,
                  whm_type *type) {
    if (s->rank >= 2 * fold->pairs)
        return;
    if (fold->place < 0)
        whm_step_recv(s, buf, count, type, s->rank + 1);
    else
        whm_step_send(s, buf, count, type, s->rank - 1);
    whm_step_wait(s);
}

void whm_halving_steps(whm_schedule *s, const whm_fold *fold, whm_pair *pair, whm_halves *halves) {
    MPI_Count begin = 0, count = pair->count;
    halves->rounds = 0;
    halves->begin[0] = begin;
    halves->count[0] = count;
    for (int bit = 1; bit < fold->places; bit *= 2) {
        bool upper = (fold->place & bit) != 0;
        int partner = whm_fold_rank(fold, fold->place ^ bit);
        MPI_Count low = count / 2, high = count - low, keep = upper ? high : low;
        MPI_Count keep_at = upper ? begin + low : begin, give_at = upper ? begin : begin + low;
        whm_step_recv(s, whm_elements(pair->room, keep_at, pair->type), keep, pair->type, partner);
        whm_step_send(s, whm_elements(pair->have, give_at, pair->type), count - keep, pair->type,
                      partner);
        whm_step_wait(s);
        whm_pair_combine(s, pair, keep_at, keep, upper);
        begin = keep_at;
        count = keep;
        halves->rounds++;
        halves->begin[halves->rounds] = begin;
        halves->count[halves->rounds] = count;
    }
}
