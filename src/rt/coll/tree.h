// SPDX-License-Identifier: BSD-3-Clause
//
// Trees over the ranks 0 .. n-1, with any root, in which each node stands for a range of ranks that it is in.
//
// The children's ranges and the node itself lie one behind the other, so that what comes from a tree can be combined, or laid
// side by side, in the order of ranks.
#ifndef WHI_RT_COLL_TREE_H
#define WHI_RT_COLL_TREE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum whi_coll_tree_shape {
    WHI_COLL_TREE_BINOMIAL,  // a node halves its range again and again and gives the other half away
    WHI_COLL_TREE_BINARY,    // two children: what is below the node, and what is above
} whi_coll_tree_shape;

enum { WHI_COLL_TREE_CHILDREN = 32 };

typedef struct whi_coll_tree_child {
    uint32_t rank;
    uint32_t first, end;  // its range
} whi_coll_tree_child;

typedef struct whi_coll_tree {
    uint32_t parent;      // the node itself: it is the root
    uint32_t first, end;  // the range of the node
    unsigned count;
    unsigned below;                                        // children below the node
    whi_coll_tree_child children[WHI_COLL_TREE_CHILDREN];  // by rank
} whi_coll_tree;

// whi_coll_tree_make finds where `rank` is in the tree of `count` ranks, in O(log count).
void whi_coll_tree_make(whi_coll_tree_shape shape, uint32_t rank, uint32_t count, uint32_t root,
                        whi_coll_tree *tree);

// whi_coll_tree_levels returns how many halvings there are: the depth of the trees, and the rounds of most algorithms.
static inline unsigned whi_coll_tree_levels(uint32_t count) {
    unsigned levels = 0;
    while (((uint64_t)1 << levels) < count)
        levels++;
    return levels;
}

#endif
