// SPDX-License-Identifier: BSD-3-Clause
//
// Reduce-scatter: each rank gets one block of the result.  Blocks have one size or any; all ranks know them all.
#include "mpi/coll/coll.h"

// The operand as blocks of the ranks, one behind the other.
static bool operand_blocks(whm_schedule *s, const whm_coll *coll, whm_blocks *operand) {
    *operand = coll->recv;
    operand->buf = (void *)(uintptr_t)whm_operand(coll);
    return whm_stack_blocks(s, operand);
}

static MPI_Count whole_count(const whm_schedule *s, const whm_blocks *blocks) {
    MPI_Count count = 0;
    for (int i = 0; i < s->size; i++)
        count += whm_block_count(blocks, i);
    return count;
}

// All of it everywhere; then each takes its block.
void whm_reduce_scatter_doubling(whm_schedule *s, const whm_coll *coll) {
    whm_blocks all;
    whm_type *type = coll->recv.type;
    MPI_Count count = whole_count(s, &coll->recv);
    void *space = whm_schedule_space(s, count, type);
    if (!space || !operand_blocks(s, coll, &all))
        return;
    whm_step_copy(s, space, count, type, all.buf, count, type);
    whm_allreduce_steps(s, space, count, type);
    all.buf = space;
    MPI_Count mine = whm_block_count(&all, s->rank);
    whm_step_copy(s, coll->recv.buf, mine, type, whm_block_at(&all, s->rank), mine, type);
}

// Recursive halving, for 2^k ranks and operations that commute: the far half of the ranks first.
void whm_reduce_scatter_halving(whm_schedule *s, const whm_coll *coll) {
    whm_blocks have, room;
    whm_type *type = coll->recv.type;
    MPI_Count count = whole_count(s, &coll->recv);
    if (!operand_blocks(s, coll, &have))
        return;
    room = have;
    const void *operand = have.buf;
    have.buf = whm_schedule_space(s, count, type);
    room.buf = whm_schedule_space(s, count, type);
    if (!have.buf || !room.buf)
        return;
    whm_step_copy(s, have.buf, count, type, operand, count, type);
    for (int bit = s->size / 2; bit > 0; bit /= 2) {
        int partner = s->rank ^ bit, keep = s->rank & -bit, give = partner & -bit;
        MPI_Count mine = 0, theirs = 0;
        for (int i = 0; i < bit; i++) {
            mine += whm_block_count(&have, keep + i);
            theirs += whm_block_count(&have, give + i);
        }
        whm_step_recv(s, whm_block_at(&room, keep), mine, type, partner);
        whm_step_send(s, whm_block_at(&have, give), theirs, type, partner);
        whm_step_wait(s);
        whm_step_reduce(s, whm_block_at(&room, keep), whm_block_at(&have, keep), mine, type);
    }
    MPI_Count mine = whm_block_count(&have, s->rank);
    whm_step_copy(s, coll->recv.buf, mine, type, whm_block_at(&have, s->rank), mine, type);
}

// Each rank hears of its block from each other one.  All operands are kept until the last has come if their order counts.
void whm_reduce_scatter_pairwise(whm_schedule *s, const whm_coll *coll) {
    whm_blocks operand;
    whm_type *type = coll->recv.type;
    MPI_Count mine = whm_block_count(&coll->recv, s->rank);
    bool commutes = s->op->commutes;
    void *space = whm_schedule_space(s, mine * (commutes ? 2 : s->size), type);
    if (!space || !operand_blocks(s, coll, &operand))
        return;
    void *own = whm_elements(space, commutes ? mine : s->rank * mine, type);
    whm_step_copy(s, own, mine, type, whm_block_at(&operand, s->rank), mine, type);
    for (int i = 1; i < s->size; i++) {
        int to = (s->rank + i) % s->size, from = (s->rank - i + s->size) % s->size;
        void *room = commutes ? space : whm_elements(space, from * mine, type);
        if (mine * type->size > 0)
            whm_step_recv(s, room, mine, type, from);
        whm_send_block(s, &operand, to, to);
        whm_step_wait(s);
        if (commutes)
            whm_step_reduce(s, room, own, mine, type);
    }
    void *result = commutes ? own : whm_combine_steps(s, space, mine, type);
    whm_step_copy(s, coll->recv.buf, mine, type, result, mine, type);
}
