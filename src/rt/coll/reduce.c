// SPDX-License-Identifier: BSD-3-Clause
//
// Reduction up a tree, whose ranges lie in the order of ranks, and so do the operands: children below, the node, children
// above.
//
// Small data goes whole up a binomial tree: a node takes its children one by one, the nearest first, which have the smallest
// ranges.  Large data goes in segments up a binary one: a node receives a segment from both children while it sends what it
// has made of the segment before.
#include "rt/coll/call.h"
#include "rt/coll/choose.h"

typedef struct reduce {
    whi_coll_tree tree;
    whi_coll_segments cut;
    uint32_t k;
    const char *made[2];  // segments k and k - 1 of the result, by parity
    // Of the binomial tree: what is combined and what comes, and the next children on either side.
    char *sum, *in;
    unsigned below, above;
    bool from_below;
} reduce;

// ---- Whole.

// next_child chooses the child with the smaller range, of the next ones on either side.
static const whi_coll_tree_child *next_child(whi_coll_op *op) {
    reduce *s = op->state;
    const whi_coll_tree_child *below = s->below > 0 ? &s->tree.children[s->below - 1] : NULL;
    const whi_coll_tree_child *above =
        s->above < s->tree.count ? &s->tree.children[s->above] : NULL;
    s->from_below = below && (!above || below->end - below->first < above->end - above->first);
    if (s->from_below)
        s->below--;
    else
        s->above++;
    return s->from_below ? below : above;
}

static void add(whi_coll_op *op) {
    reduce *s = op->state;
    uint64_t size = op->args.from.size;
    if (!s->from_below) {
        whi_coll_combine(op, s->in, s->sum, size, 0);
        return;
    }
    whi_coll_combine(op, s->sum, s->in, size, 0);
    char *sum = s->in;
    s->in = s->sum;
    s->sum = sum;
}

static bool whole_step(whi_coll_op *op) {
    reduce *s = op->state;
    uint64_t size = op->args.from.size;
    WHI_COLL_BEGIN(op)
    whi_coll_pack(op, &op->args.from, 0, 1, 0, s->sum, size);
    s->above = s->below = s->tree.below;
    while (s->below > 0 || s->above < s->tree.count) {
        whi_coll_recv(op, next_child(op)->rank, s->in, size, NULL);
        WHI_COLL_WAIT(op);
        add(op);
    }
    if (op->args.root == op->team->rank) {
        whi_coll_unpack(op, s->sum, size, &op->args.to, 0, 1, 0);
    } else {
        whi_coll_send(op, s->tree.parent, s->sum, size, NULL);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

// ---- In segments.

// place returns where segment k of a child comes to, or of the own data, whose number is that of the children.
static char *place(const whi_coll_op *op, unsigned child, uint32_t k) {
    const reduce *s = op->state;
    return op->temp + (child * 2 + (k & 1)) * whi_coll_segment_room(&s->cut);
}

// own returns segment k of the own data; to be written to if `copied`.
static char *own(whi_coll_op *op, uint32_t k, bool copied) {
    const reduce *s = op->state;
    if (op->args.from.dense && !copied)
        return op->args.from.buf + whi_coll_segment_begin(&op->args.from, &s->cut, k);
    char *to = place(op, s->tree.count, k);
    whi_coll_pack(op, &op->args.from, 0, 1, whi_coll_segment_begin(&op->args.from, &s->cut, k), to,
                  whi_coll_segment_size(&op->args.from, &s->cut, k));
    return to;
}

static const char *combine(whi_coll_op *op, uint32_t k) {
    const reduce *s = op->state;
    const whi_coll_tree *tree = &s->tree;
    uint64_t at = whi_coll_segment_begin(&op->args.from, &s->cut, k),
             size = whi_coll_segment_size(&op->args.from, &s->cut, k);
    char *mine = own(op, k, !tree->below && tree->count), *sum = mine;
    if (tree->below) {
        sum = place(op, 0, k);
        for (unsigned i = 1; i < tree->below; i++)
            whi_coll_combine(op, place(op, i, k), sum, size, at);
        whi_coll_combine(op, mine, sum, size, at);
    }
    for (unsigned i = tree->below; i < tree->count; i++)
        whi_coll_combine(op, place(op, i, k), sum, size, at);
    return sum;
}

static bool segments_step(whi_coll_op *op) {
    reduce *s = op->state;
    bool root = op->args.root == op->team->rank;
    WHI_COLL_BEGIN(op)
    for (s->k = 0; s->k <= s->cut.count; s->k++) {
        for (unsigned i = 0; s->k < s->cut.count && i < s->tree.count; i++)
            whi_coll_recv(op, s->tree.children[i].rank, place(op, i, s->k),
                          whi_coll_segment_size(&op->args.from, &s->cut, s->k), NULL);
        if (s->k > 0 && !root)
            whi_coll_send(op, s->tree.parent, s->made[(s->k - 1) & 1],
                          whi_coll_segment_size(&op->args.from, &s->cut, s->k - 1), NULL);
        WHI_COLL_WAIT(op);
        if (s->k == s->cut.count)
            break;
        s->made[s->k & 1] = combine(op, s->k);
        if (root)
            whi_coll_unpack(op, s->made[s->k & 1],
                            whi_coll_segment_size(&op->args.from, &s->cut, s->k), &op->args.to, 0,
                            1, whi_coll_segment_begin(&op->args.from, &s->cut, s->k));
    }
    WHI_COLL_END;
}

static const whi_coll_kind whole_kind = {.name = "reduce", .step = whole_step};
static const whi_coll_kind segments_kind = {.name = "reduce", .step = segments_step};

wh_status wh_coll_reduce(wh_team *team, const void *from, void *to, int64_t count,
                         const wh_type *type, const wh_reduction *how, uint32_t root,
                         const wh_op_opts *opts, wh_request **req) {
    static const char name[] = "wh_coll_reduce";
    if (!team)
        return WH_EINVAL;
    whi_coll_args args;
    wh_status st = whi_coll_check_root(team, root, name);
    if (st == WH_OK)
        st = whi_coll_take_reduction(&(whi_coll_side){from, count, type, 1},
                                     &(whi_coll_side){to, count, type, root == team->rank}, how,
                                     name, &args);
    if (st != WH_OK)
        return st;
    args.root = root;
    whi_coll_segments cut;
    whi_coll_tree_shape shape = whi_coll_tree_choice(team, args.from.size, &cut);
    bool whole = shape == WHI_COLL_TREE_BINOMIAL;
    whi_coll_tree tree;
    whi_coll_tree_make(shape, team->rank, team->count, root, &tree);
    uint64_t room = whi_coll_segment_room(&cut), temp = (whole ? 2 : (tree.count + 1) * 2) * room;
    whi_coll_op *op = whi_coll_op_new(team, whole ? &whole_kind : &segments_kind, &args,
                                      tree.count + 1, sizeof(reduce), temp);
    if (!op)
        return WH_ENOMEM;
    *(reduce *)op->state =
        (reduce){.tree = tree, .cut = cut, .sum = op->temp, .in = op->temp + room};
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_coll_reduce_wait(wh_team *team, const void *from, void *to, int64_t count,
                              const wh_type *type, const wh_reduction *how, uint32_t root,
                              int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms,
                           wh_coll_reduce(team, from, to, count, type, how, root, NULL, &waited));
}
