// SPDX-License-Identifier: BSD-3-Clause
//
// Broadcast down a tree: small data whole, down a binomial one; large data in segments down a binary one, where a node receives
// a segment while it sends the one before.
#include <string.h>

#include "rt/coll/call.h"
#include "rt/coll/choose.h"

typedef struct broadcast {
    whi_coll_tree tree;
    whi_coll_segments cut;
    uint32_t k;
} broadcast;

static uint64_t size_of(const whi_coll_op *op, uint32_t k) {
    const broadcast *s = op->state;
    uint64_t from = k * s->cut.size, left = op->args.from.size - from;
    return left < s->cut.size ? left : s->cut.size;
}

// place returns where segment k is: in the user's memory, or packed beside it.
static char *place(whi_coll_op *op, uint32_t k) {
    const broadcast *s = op->state;
    return op->args.from.dense ? op->args.from.buf + k * s->cut.size
                               : op->temp + (k & 1) * s->cut.size;
}

static bool step(whi_coll_op *op) {
    broadcast *s = op->state;
    bool root = op->args.root == op->team->rank;
    WHI_COLL_BEGIN(op)
    for (s->k = 0; s->k <= s->cut.count; s->k++) {
        if (s->k < s->cut.count && !root)
            whi_coll_recv(op, s->tree.parent, place(op, s->k), size_of(op, s->k), NULL);
        if (s->k < s->cut.count && root && !op->args.from.dense)
            whi_coll_pack(op, &op->args.from, 0, 1, s->k * s->cut.size, place(op, s->k),
                          size_of(op, s->k));
        // The largest part of the tree has the longest way to go.
        for (unsigned i = s->tree.count; s->k > 0 && i-- > 0;)
            whi_coll_send(op, s->tree.children[i].rank, place(op, s->k - 1), size_of(op, s->k - 1),
                          NULL);
        WHI_COLL_WAIT(op);
        if (s->k < s->cut.count && !root && !op->args.from.dense)
            whi_coll_unpack(op, place(op, s->k), size_of(op, s->k), &op->args.from, 0, 1,
                            s->k * s->cut.size);
    }
    WHI_COLL_END;
}

static const whi_coll_kind kind = {.name = "broadcast", .step = step};

wh_status wh_coll_broadcast(wh_team *team, void *buf, int64_t count, const wh_type *type,
                            uint32_t root, const wh_op_opts *opts, wh_request **req) {
    static const char name[] = "wh_coll_broadcast";
    if (!team)
        return WH_EINVAL;
    whi_coll_args args = {.root = root};
    wh_status st = whi_coll_check_root(team, root, name);
    if (st == WH_OK)
        st = whi_coll_data_init(&args.from, buf, count, type, 1, name, "buf");
    if (st != WH_OK)
        return st;
    whi_coll_segments cut;
    whi_coll_tree_shape shape = whi_coll_tree_choice(team, args.from.size, &cut);
    uint64_t temp = args.from.dense ? 0 : (cut.count > 1 ? 2 : 1) * cut.size;
    whi_coll_tree tree;
    whi_coll_tree_make(shape, team->rank, team->count, root, &tree);
    whi_coll_op *op = whi_coll_op_new(team, &kind, &args, tree.count + 1, sizeof(broadcast), temp);
    if (!op)
        return WH_ENOMEM;
    *(broadcast *)op->state = (broadcast){.tree = tree, .cut = cut};
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_broadcast_wait(wh_team *team, void *buf, int64_t count, const wh_type *type,
                                 uint32_t root, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_broadcast(team, buf, count, type, root, NULL, &waited));
}
