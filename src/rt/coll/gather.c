// SPDX-License-Identifier: BSD-3-Clause
//
// Gather: small blocks up a binomial tree, whose nodes put those of their range side by side; others straight to the root, which
// asks for a few at a time.
#include "rt/coll/call.h"
#include "rt/coll/choose.h"

enum { WINDOW = 16 };

typedef struct gather {
    whi_coll_tree tree;
    uint32_t next;
} gather;

// put_all moves the blocks of all ranks, packed one behind the other, to the user.
static void put_all(whi_coll_op *op) {
    const whi_coll_data *to = &op->args.to;
    uint32_t n = op->team->count, after = op->team->rank + 1;
    uint64_t size = op->args.from.size;
    if (!op->args.in_place) {
        whi_coll_unpack(op, op->temp, n * size, to, 0, n, 0);
        return;
    }
    whi_coll_unpack(op, op->temp, (after - 1) * size, to, 0, after - 1, 0);
    whi_coll_unpack(op, op->temp + after * size, (n - after) * size, to, after, n - after, 0);
}

static bool tree_step(whi_coll_op *op) {
    gather *s = op->state;
    const whi_coll_tree *tree = &s->tree;
    uint32_t rank = op->team->rank;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    if (!op->args.in_place)
        whi_coll_pack(op, &op->args.from, 0, 1, 0, op->temp + (rank - tree->first) * size, size);
    for (unsigned i = 0; i < tree->count; i++) {
        const whi_coll_tree_child *child = &tree->children[i];
        whi_coll_recv(op, child->rank, op->temp + (child->first - tree->first) * size,
                      (child->end - child->first) * size, NULL);
    }
    WHI_COLL_WAIT(op);
    if (rank == op->args.root) {
        put_all(op);
    } else {
        whi_coll_send(op, tree->parent, op->temp, (tree->end - tree->first) * size, NULL);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

static bool direct_step(whi_coll_op *op) {
    gather *s = op->state;
    const whi_coll_data *from = &op->args.from, *to = &op->args.to;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    if (rank != op->args.root) {
        whi_coll_send(op, op->args.root, from->buf, (uint64_t)from->count, from->type);
        WHI_COLL_WAIT(op);
        return false;
    }
    if (!op->args.in_place)
        whi_coll_copy(op, from, 0, to, rank);
    for (s->next = 0; s->next < n; s->next += WINDOW) {
        for (uint32_t i = s->next; i < n && i < s->next + WINDOW; i++)
            if (i != rank)
                whi_coll_recv(op, i, whi_coll_data_block(to, i), (uint64_t)to->count, to->type);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

static const whi_coll_kind tree_kind = {.name = "gather", .step = tree_step};
static const whi_coll_kind direct_kind = {.name = "gather", .step = direct_step};

wh_status wh_coll_gather(wh_team *team, const void *from, int64_t from_count,
                         const wh_type *from_type, void *to, int64_t to_count,
                         const wh_type *to_type, uint32_t root, const wh_op_opts *opts,
                         wh_request **req) {
    static const char name[] = "wh_coll_gather";
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_check_root(team, root, name);
    uint32_t blocks = root == team->rank ? team->count : 0;
    if (st == WH_OK)
        st = whi_coll_take(&(whi_coll_side){from, from_count, from_type, 1},
                           &(whi_coll_side){to, to_count, to_type, blocks}, name, &args);
    if (st != WH_OK)
        return st;
    args.root = root;
    whi_coll_tree tree = {.count = 0};
    bool by_tree = whi_coll_tree_gather(team, args.from.size);
    if (by_tree)
        whi_coll_tree_make(WHI_COLL_TREE_BINOMIAL, team->rank, team->count, root, &tree);
    uint64_t temp = by_tree ? (tree.end - tree.first) * args.from.size : 0;
    unsigned parts = by_tree ? tree.count + 1 : WINDOW;
    whi_coll_op *op = whi_coll_op_new(team, by_tree ? &tree_kind : &direct_kind, &args, parts,
                                      sizeof(gather), temp);
    if (!op)
        return WH_ENOMEM;
    ((gather *)op->state)->tree = tree;
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_gather_wait(wh_team *team, const void *from, int64_t from_count,
                              const wh_type *from_type, void *to, int64_t to_count,
                              const wh_type *to_type, uint32_t root, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_gather(team, from, from_count, from_type, to, to_count, to_type,
                                          root, NULL, &waited));
}
