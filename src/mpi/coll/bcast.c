// SPDX-License-Identifier: BSD-3-Clause
//
// Broadcast, and the places of its tree.
#include "mpi/coll/coll.h"

int whm_place_of(const whm_schedule *s, int root) {
    return (s->rank - root + s->size) % s->size;
}

int whm_rank_at_place(const whm_schedule *s, int root, int place) {
    return (place + root) % s->size;
}

int whm_tree_bit(const whm_schedule *s, int place) {
    if (place > 0)
        return place & -place;
    int bit = 1;
    while (bit < s->size)
        bit *= 2;
    return bit;
}

void whm_bcast_steps(whm_schedule *s, void *buf, MPI_Count count, whm_type *type, int root) {
    int place = whm_place_of(s, root), bit = whm_tree_bit(s, place);
    if (place > 0) {
        whm_step_recv(s, buf, count, type, whm_rank_at_place(s, root, place - bit));
        whm_step_wait(s);
    }
    for (bit /= 2; bit > 0; bit /= 2)
        if (place + bit < s->size)
            whm_step_send(s, buf, count, type, whm_rank_at_place(s, root, place + bit));
    whm_step_wait(s);
}

void whm_bcast_binomial(whm_schedule *s, const whm_coll *coll) {
    whm_bcast_steps(s, coll->recv.buf, coll->recv.count, coll->recv.type, coll->root);
}

static MPI_Count parts_size(const whm_blocks *parts, int first, int end) {
    MPI_Count size = 0;
    for (int i = first; i < end; i++)
        size += parts->counts[i];
    return size;
}

// Each place receives the parts of its subtree and passes on those of its children's.
static void scatter_parts(whm_schedule *s, const whm_blocks *parts, int root) {
    int place = whm_place_of(s, root), bit = whm_tree_bit(s, place);
    int end = place + bit < s->size ? place + bit : s->size;
    if (place > 0) {
        whm_recv_bytes(s, whm_block_at(parts, place), parts_size(parts, place, end),
                       whm_rank_at_place(s, root, place - bit));
        whm_step_wait(s);
    }
    for (bit /= 2; bit > 0; bit /= 2) {
        int child = place + bit;
        if (child >= end)
            continue;
        whm_send_bytes(s, whm_block_at(parts, child), parts_size(parts, child, end),
                       whm_rank_at_place(s, root, child));
        end = child;
    }
    whm_step_wait(s);
}

static char *broadcast_bytes(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    return s->rank == coll->root ? whm_bytes_in(s, data->buf, data->count, data->type)
                                 : whm_bytes_out(s, data->buf, data->count, data->type);
}

static void broadcast_back(whm_schedule *s, const whm_coll *coll, const char *bytes) {
    if (s->rank != coll->root)
        whm_bytes_back(s, coll->recv.buf, coll->recv.count, coll->recv.type, bytes);
}

// Scatter, then allgather around the ring (van de Geijn; Chan et al. 2007): nobody sends more than twice the data.
void whm_bcast_scatter(whm_schedule *s, const whm_coll *coll) {
    MPI_Count size = whm_block_bytes(&coll->recv, 0);
    char *bytes = broadcast_bytes(s, coll);
    whm_blocks parts;
    if (s->error || !whm_even_blocks(s, bytes, size, whm_type_of(MPI_BYTE), &parts))
        return;
    scatter_parts(s, &parts, coll->root);
    whm_ring_steps(s, &parts, coll->root);
    broadcast_back(s, coll, bytes);
}

// A chain of ranks: while a place receives a segment it passes on the one before.  Everybody sends the data once.
void whm_bcast_chain(whm_schedule *s, const whm_coll *coll) {
    enum { SEGMENT = 128 << 10 };  // long enough that the start of a message does not count
    char *bytes = broadcast_bytes(s, coll);
    if (s->error)
        return;
    MPI_Count size = whm_block_bytes(&coll->recv, 0);
    int place = whm_place_of(s, coll->root);
    for (MPI_Count in = 0, out = 0; out < size;) {
        MPI_Count here = place == 0 ? size : in;
        if (place > 0 && in < size) {
            MPI_Count n = size - in < SEGMENT ? size - in : SEGMENT;
            whm_recv_bytes(s, bytes + in, n, whm_rank_at_place(s, coll->root, place - 1));
            in += n;
        }
        MPI_Count n = here - out < SEGMENT ? here - out : SEGMENT;
        if (n > 0 && place + 1 < s->size)
            whm_send_bytes(s, bytes + out, n, whm_rank_at_place(s, coll->root, place + 1));
        out += n;
        whm_step_wait(s);
    }
    broadcast_back(s, coll, bytes);
}
