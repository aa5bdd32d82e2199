// SPDX-License-Identifier: BSD-3-Clause
//
// Allgather, with blocks of one size or of any sizes: all ranks know them all.
#include "mpi/coll/coll.h"

static void own_block(whm_schedule *s, const whm_coll *coll) {
    if (!whm_in_place(&coll->send))
        whm_copy_block(s, &coll->recv, s->rank, &coll->send, 0);
}

// Out of the program's buffer, where nobody has just written.
static void send_own(whm_schedule *s, const whm_coll *coll, int to) {
    if (whm_in_place(&coll->send))
        whm_send_block(s, &coll->recv, s->rank, to);
    else
        whm_send_block(s, &coll->send, 0, to);
}

void whm_ring_steps(whm_schedule *s, const whm_blocks *blocks, int shift) {
    int to = (s->rank + 1) % s->size, from = (s->rank - 1 + s->size) % s->size;
    int out = (s->rank - shift + 2 * s->size) % s->size;
    for (int round = 0; round < s->size - 1; round++) {
        int in = (out - 1 + s->size) % s->size;
        whm_recv_block(s, blocks, in, from);
        whm_send_block(s, blocks, out, to);
        whm_step_wait(s);
        out = in;
    }
}

// Each block goes once over each link of the ring.
void whm_allgather_ring(whm_schedule *s, const whm_coll *coll) {
    own_block(s, coll);
    whm_ring_steps(s, &coll->recv, 0);
}

// Each rank sends its block to all others, and waits once.
void whm_allgather_flat(whm_schedule *s, const whm_coll *coll) {
    for (int i = 1; i < s->size; i++) {
        int from = (s->rank - i + s->size) % s->size;
        whm_recv_block(s, &coll->recv, from, from);
    }
    for (int i = 1; i < s->size; i++)
        send_own(s, coll, (s->rank + i) % s->size);
    own_block(s, coll);
}

// Recursive doubling, for 2^k ranks and blocks that lie one behind the other: the blocks of 2^i ranks are exchanged with those of the next 2^i.
void whm_allgather_doubling(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *all = &coll->recv;
    int first = s->rank ^ 1;
    if (first < s->size) {
        whm_recv_block(s, all, first, first);
        send_own(s, coll, first);
    }
    own_block(s, coll);
    whm_step_wait(s);
    for (int bit = 2; bit < s->size; bit *= 2) {
        int partner = s->rank ^ bit, mine = s->rank & -bit, theirs = partner & -bit;
        whm_step_recv(s, whm_block_at(all, theirs), all->count * bit, all->type, partner);
        whm_step_send(s, whm_block_at(all, mine), all->count * bit, all->type, partner);
        whm_step_wait(s);
    }
}

// Bruck et al. 1997: each rank collects the blocks behind its own, doubling their number each round; log2 rounds for any number of ranks, at the
// price of a copy.
void whm_allgather_bruck(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *all = &coll->recv;
    MPI_Count total = 0, have = whm_block_bytes(all, s->rank);
    for (int i = 0; i < s->size; i++)
        total += whm_block_bytes(all, i);
    char *bytes = whm_schedule_bytes(s, total);
    if (!bytes)
        return;
    whm_type *byte = whm_type_of(MPI_BYTE);
    const whm_blocks *own = whm_in_place(&coll->send) ? all : &coll->send;
    int mine = own == all ? s->rank : 0;
    whm_step_copy(s, bytes, have, byte, whm_block_at(own, mine), whm_block_count(own, mine),
                  whm_block_type(own, mine));
    for (int n = 1; n < s->size; n *= 2) {
        int more = n < s->size - n ? n : s->size - n;
        MPI_Count out = 0, in = 0;
        for (int i = 0; i < more; i++) {
            out += whm_block_bytes(all, (s->rank + i) % s->size);
            in += whm_block_bytes(all, (s->rank + n + i) % s->size);
        }
        whm_recv_bytes(s, bytes + have, in, (s->rank + n) % s->size);
        whm_send_bytes(s, bytes, out, (s->rank - n + s->size) % s->size);
        whm_step_wait(s);
        have += in;
    }
    for (int i = 0; i < s->size; i++) {
        int from = (s->rank + i) % s->size;
        MPI_Count size = whm_block_bytes(all, from);
        if (own != all || i > 0)
            whm_step_copy(s, whm_block_at(all, from), whm_block_count(all, from), all->type, bytes,
                          size, byte);
        bytes += size;
    }
}
