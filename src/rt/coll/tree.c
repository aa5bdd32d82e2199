// SPDX-License-Identifier: BSD-3-Clause
#include "rt/coll/tree.h"

#include <assert.h>

// split lists the children of a node, the first ones far away.
static unsigned split(whi_coll_tree_shape shape, uint32_t node, uint32_t first, uint32_t end,
                      whi_coll_tree_child children[WHI_COLL_TREE_CHILDREN]) {
    unsigned count = 0;
    while (end - first > 1) {
        whi_coll_tree_child child;
        uint32_t middle = first + (end - first) / 2;
        if (shape == WHI_COLL_TREE_BINARY)
            middle = node > first ? node : node + 1;
        if (node < middle) {
            child = (whi_coll_tree_child){.first = middle, .end = end};
            end = middle;
        } else {
            child = (whi_coll_tree_child){.first = first, .end = middle};
            first = middle;
        }
        child.rank = shape == WHI_COLL_TREE_BINARY ? child.first + (child.end - child.first) / 2
                                                   : child.first;
        assert(count < WHI_COLL_TREE_CHILDREN);
        children[count++] = child;
    }
    return count;
}

// by_rank puts children in order: there are few.
static void by_rank(whi_coll_tree *tree, const whi_coll_tree_child *children, uint32_t node) {
    for (unsigned i = 0; i < tree->count; i++) {
        unsigned at = i;
        for (; at > 0 && tree->children[at - 1].rank > children[i].rank; at--)
            tree->children[at] = tree->children[at - 1];
        tree->children[at] = children[i];
        tree->below += children[i].rank < node;
    }
}

void whi_coll_tree_make(whi_coll_tree_shape shape, uint32_t rank, uint32_t count, uint32_t root,
                        whi_coll_tree *tree) {
    whi_coll_tree_child children[WHI_COLL_TREE_CHILDREN] = {{.rank = 0}};
    uint32_t node = root, parent = root, first = 0, end = count;
    for (;;) {
        unsigned n = split(shape, node, first, end, children), i = 0;
        if (node == rank) {
            *tree = (whi_coll_tree){.parent = parent, .first = first, .end = end, .count = n};
            by_rank(tree, children, node);
            return;
        }
        while (rank < children[i].first || rank >= children[i].end)
            i++;
        parent = node;
        node = children[i].rank;
        first = children[i].first;
        end = children[i].end;
    }
}
