// SPDX-License-Identifier: BSD-3-Clause
//
// All to all.
#include "mpi/coll/coll.h"

// In place each block is sent from a copy, since its place takes the one that comes.  The arrays belong to the schedule.
static bool copied_blocks(whm_schedule *s, const whm_blocks *from, whm_blocks *to) {
    int n = s->size;
    MPI_Count total = 0;
    for (int i = 0; i < n; i++)
        total += whm_block_bytes(from, i);
    MPI_Count *counts = (void *)whm_schedule_bytes(s, n * (MPI_Count)sizeof(*counts));
    MPI_Aint *displs = (void *)whm_schedule_bytes(s, n * (MPI_Count)sizeof(*displs));
    char *bytes = whm_schedule_bytes(s, total);
    if (!counts || !displs || !bytes)
        return false;
    MPI_Aint at = 0;
    whm_type *byte = whm_type_of(MPI_BYTE);
    for (int i = 0; i < n; i++) {
        displs[i] = at;
        counts[i] = whm_block_bytes(from, i);
        whm_step_copy(s, bytes + at, counts[i], byte, whm_block_at(from, i),
                      whm_block_count(from, i), whm_block_type(from, i));
        at += counts[i];
    }
    *to = (whm_blocks){.buf = bytes, .counts = counts, .displs = displs, .type = byte};
    return true;
}

// Each rank with each other one, with a wait behind every `window` partners, so that not all messages are under way at once.
static void exchange(whm_schedule *s, const whm_coll *coll, int window) {
    whm_blocks send = coll->send;
    if (whm_in_place(&send)) {
        if (!copied_blocks(s, &coll->recv, &send))
            return;
    } else {
        whm_copy_block(s, &coll->recv, s->rank, &send, s->rank);
    }
    for (int i = 1; i < s->size; i++) {
        int from = (s->rank - i + s->size) % s->size, to = (s->rank + i) % s->size;
        whm_recv_block(s, &coll->recv, from, from);
        whm_send_block(s, &send, to, to);
        if (i % window == 0)
            whm_step_wait(s);
    }
}

void whm_alltoall_scattered(whm_schedule *s, const whm_coll *coll) {
    exchange(s, coll, 32);
}

void whm_alltoall_pairwise(whm_schedule *s, const whm_coll *coll) {
    exchange(s, coll, 1);
}

// The blocks that travel in this round: those whose distance has the bit.  Copied between `bytes`, one for each distance, and `packed`.
static MPI_Count pack_bit(whm_schedule *s, char *bytes, char *packed, MPI_Count block, int bit,
                          bool in) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    MPI_Count at = 0;
    for (int first = bit; first < s->size; first += 2 * bit) {
        int n = first + bit <= s->size ? bit : s->size - first;  // distances first .. first + n - 1
        char *run = bytes + first * block;
        if (in)
            whm_step_copy(s, packed + at, n * block, byte, run, n * block, byte);
        else
            whm_step_copy(s, run, n * block, byte, packed + at, n * block, byte);
        at += n * block;
    }
    return at;
}

// Bruck et al. 1997: log2 rounds; in round i all blocks whose way is not yet gone by the distance 2^i are sent on together.  Blocks are first
// ordered by the distance they have to go, and at the end by where they came from.
void whm_alltoall_bruck(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *from = whm_in_place(&coll->send) ? &coll->recv : &coll->send;
    MPI_Count block = whm_block_bytes(&coll->recv, 0), half = block * ((s->size + 1) / 2 + 1);
    char *bytes = whm_schedule_bytes(s, block * s->size);
    char *out = whm_schedule_bytes(s, half), *in = whm_schedule_bytes(s, half);
    if (!bytes || !out || !in)
        return;
    whm_type *byte = whm_type_of(MPI_BYTE);
    for (int i = 0; i < s->size; i++) {
        int to = (s->rank + i) % s->size;
        whm_step_copy(s, bytes + i * block, block, byte, whm_block_at(from, to),
                      whm_block_count(from, to), from->type);
    }
    for (int bit = 1; bit < s->size; bit *= 2) {
        MPI_Count size = pack_bit(s, bytes, out, block, bit, true);
        whm_recv_bytes(s, in, size, (s->rank - bit + s->size) % s->size);
        whm_send_bytes(s, out, size, (s->rank + bit) % s->size);
        whm_step_wait(s);
        (void)pack_bit(s, bytes, in, block, bit, false);
    }
    for (int i = 0; i < s->size; i++) {
        int source = (s->rank - i + s->size) % s->size;
        whm_step_copy(s, whm_block_at(&coll->recv, source), coll->recv.count, coll->recv.type,
                      bytes + i * block, block, byte);
    }
}
