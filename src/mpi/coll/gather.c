// SPDX-License-Identifier: BSD-3-Clause
//
// Gather and scatter.  In the binomial tree blocks travel as bytes, since only the root knows the type that it receives or sends; places are
// counted from the root on, as in bcast.c, and a node's subtree is the places from its own on.
#include "mpi/coll/coll.h"

void whm_gather_linear(whm_schedule *s, const whm_coll *coll) {
    if (s->rank != coll->root) {
        whm_send_block(s, &coll->send, 0, coll->root);
        return;
    }
    for (int i = 0; i < s->size; i++)
        if (i != coll->root)
            whm_recv_block(s, &coll->recv, i, i);
    if (!whm_in_place(&coll->send))
        whm_copy_block(s, &coll->recv, coll->root, &coll->send, 0);
}

void whm_scatter_linear(whm_schedule *s, const whm_coll *coll) {
    if (s->rank != coll->root) {
        whm_recv_block(s, &coll->recv, 0, coll->root);
        return;
    }
    for (int i = 0; i < s->size; i++)
        if (i != coll->root)
            whm_send_block(s, &coll->send, i, i);
    if (!whm_in_place(&coll->recv))
        whm_copy_block(s, &coll->recv, 0, &coll->send, coll->root);
}

// This rank's place in the tree.
typedef struct node {
    int place, parent, bit;  // bit: the subtree's greatest size
    int subtree;
    MPI_Count block;  // bytes
} node;

static node node_of(const whm_schedule *s, int root, MPI_Count block) {
    node n = {.place = whm_place_of(s, root), .block = block};
    n.bit = whm_tree_bit(s, n.place);
    n.parent = whm_rank_at_place(s, root, n.place - n.bit);
    n.subtree = n.place + n.bit < s->size ? n.bit : s->size - n.place;
    return n;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

// Copies between the bytes of the places from `place` on and blocks of the root's buffer: up to the last rank, then from rank 0 on.
static void root_bytes(whm_schedule *s, const whm_coll *coll, char *bytes, bool gathered) {
    const whm_blocks *all = gathered ? &coll->recv : &coll->send;
    MPI_Count block = whm_block_bytes(all, 0), count = all->count;
    int first = coll->root + 1, behind = s->size - first;
    whm_type *byte = whm_type_of(MPI_BYTE);
    for (int part = 0; part < 2; part++) {
        int rank = part == 0 ? first : 0, n = part == 0 ? behind : coll->root;
        char *at = bytes + block * (part == 0 ? 1 : 1 + behind);
        if (gathered)
            whm_step_copy(s, whm_block_at(all, rank), count * n, all->type, at, block * n, byte);
        else
            whm_step_copy(s, at, block * n, byte, whm_block_at(all, rank), count * n, all->type);
    }
}

void whm_gather_binomial(whm_schedule *s, const whm_coll *coll) {
    bool is_root = s->rank == coll->root;
    node n = node_of(s, coll->root, whm_block_bytes(is_root ? &coll->recv : &coll->send, 0));
    char *bytes = whm_schedule_bytes(s, n.block * n.subtree);
    if (!bytes)
        return;
    for (int bit = 1; bit < n.bit && n.place + bit < s->size; bit *= 2)
        whm_recv_bytes(s, bytes + n.block * bit, n.block * least(bit, s->size - n.place - bit),
                       whm_rank_at_place(s, coll->root, n.place + bit));
    if (!is_root)
        whm_step_copy(s, bytes, n.block, whm_type_of(MPI_BYTE), coll->send.buf, coll->send.count,
                      coll->send.type);
    else if (!whm_in_place(&coll->send))
        whm_copy_block(s, &coll->recv, coll->root, &coll->send, 0);
    whm_step_wait(s);
    if (is_root)
        root_bytes(s, coll, bytes, true);
    else
        whm_send_bytes(s, bytes, n.block * n.subtree, n.parent);
}

void whm_scatter_binomial(whm_schedule *s, const whm_coll *coll) {
    bool is_root = s->rank == coll->root;
    node n = node_of(s, coll->root, whm_block_bytes(is_root ? &coll->send : &coll->recv, 0));
    char *bytes = whm_schedule_bytes(s, n.block * n.subtree);
    if (!bytes)
        return;
    if (is_root) {
        root_bytes(s, coll, bytes, false);
    } else {
        whm_recv_bytes(s, bytes, n.block * n.subtree, n.parent);
        whm_step_wait(s);
    }
    for (int bit = n.bit / 2; bit > 0; bit /= 2)
        if (n.place + bit < s->size)
            whm_send_bytes(s, bytes + n.block * bit, n.block * least(bit, s->size - n.place - bit),
                           whm_rank_at_place(s, coll->root, n.place + bit));
    if (!is_root)
        whm_step_copy(s, coll->recv.buf, coll->recv.count, coll->recv.type, bytes, n.block,
                      whm_type_of(MPI_BYTE));
    else if (!whm_in_place(&coll->recv))
        whm_copy_block(s, &coll->recv, 0, &coll->send, coll->root);
}
