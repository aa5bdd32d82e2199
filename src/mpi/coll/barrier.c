// SPDX-License-Identifier: BSD-3-Clause
//
// Dissemination (Hensgen, Finkel, Manber 1988): in round k each rank hears of the 2^k ranks before it; log2 rounds for any number of ranks.
#include "mpi/coll/coll.h"

void whm_barrier_steps(whm_schedule *s) {
    for (int distance = 1; distance < s->size; distance *= 2) {
        whm_recv_bytes(s, NULL, 0, (s->rank - distance + s->size) % s->size);
        whm_send_bytes(s, NULL, 0, (s->rank + distance) % s->size);
        whm_step_wait(s);
    }
}

void whm_barrier_dissemination(whm_schedule *s, const whm_coll *coll) {
    (void)coll;
    whm_barrier_steps(s);
}

// Rank 0 hears of all by a tree, and tells them: twice as many rounds with fewer messages.
void whm_barrier_tree(whm_schedule *s, const whm_coll *coll) {
    (void)coll;
    int up = whm_tree_bit(s, s->rank);
    for (int bit = 1; bit < up && s->rank + bit < s->size; bit *= 2)
        whm_recv_bytes(s, NULL, 0, s->rank + bit);
    whm_step_wait(s);
    if (s->rank > 0)
        whm_send_bytes(s, NULL, 0, s->rank - up);
    whm_bcast_steps(s, NULL, 0, whm_type_of(MPI_BYTE), 0);
}

// Each rank tells all others, and waits once, which counts where ranks share processors.
void whm_barrier_flat(whm_schedule *s, const whm_coll *coll) {
    (void)coll;
    for (int i = 1; i < s->size; i++)
        whm_recv_bytes(s, NULL, 0, (s->rank - i + s->size) % s->size);
    for (int i = 1; i < s->size; i++)
        whm_send_bytes(s, NULL, 0, (s->rank + i) % s->size);
}
