// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions of a vector by halves, in the order of ranks (Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005).
//
// Folding makes the number of ranks a power of two: of the first pairs of ranks the even one gives its operand to the odd one and steps aside.
// What remains is counted by places.  In the round of bit b each place combines with place ^ b one half of what both are responsible for.  Partners
// at distance 1 come first, so that each partial result is that of a run of ranks.
#ifndef WHM_COLL_HALVING_H
#define WHM_COLL_HALVING_H

#include "mpi/coll/coll.h"

typedef struct whm_fold {
    int places;  // 2^k
    int pairs;
    int place;  // of this rank; -1: it has stepped aside
} whm_fold;

whm_fold whm_fold_of(const whm_schedule *schedule);
int whm_fold_rank(const whm_fold *fold, int place);
int whm_fold_place(const whm_fold *fold, int rank);  // -1: it has stepped aside

// An accumulator: `have` holds it, `room` is as large.  A combination with a higher operand exchanges the two.
typedef struct whm_pair {
    void *have, *room;
    MPI_Count count;
    whm_type *type;
} whm_pair;

// whm_pair_begin copies the operand into one of the two buffers, chosen so that after a combination with each place at the distances 1, 2, 4 ... the
// accumulator lies in `result`.
whm_pair whm_pair_begin(whm_schedule *schedule, const whm_fold *fold, const void *operand,
                        void *result, void *other, MPI_Count count, whm_type *type);

// whm_pair_combine combines `count` elements from `begin` on with what has come into the room, from a place that is lower or higher.
void whm_pair_combine(whm_schedule *schedule, whm_pair *pair, MPI_Count begin, MPI_Count count,
                      bool lower);

// whm_fold_in and whm_fold_out are the part of those who step aside, and their partners': operands in, results out.
void whm_fold_in(whm_schedule *schedule, const whm_fold *fold, const whm_pair *pair);
void whm_fold_out(whm_schedule *schedule, const whm_fold *fold, void *buf, MPI_Count count,
                  whm_type *type);

// What a place is responsible for before each round, and at the end.
typedef struct whm_halves {
    int rounds;
    MPI_Count begin[32], count[32];
} whm_halves;

void whm_halving_steps(whm_schedule *schedule, const whm_fold *fold, whm_pair *pair,
                       whm_halves *halves);

#endif
