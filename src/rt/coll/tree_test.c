// SPDX-License-Identifier: BSD-3-Clause
//
// Trees: of any number of ranks and any root, the ranges lie side by side, each rank has one parent, and none is deep.
#include "rt/coll/tree.h"

#include "base/test.h"

static void check_tree(whi_coll_tree_shape shape, uint32_t count, uint32_t root) {
    unsigned levels = whi_coll_tree_levels(count), parents[64] = {0};
    for (uint32_t rank = 0; rank < count; rank++) {
        whi_coll_tree tree, child;
        whi_coll_tree_make(shape, rank, count, root, &tree);
        CHECK(tree.first <= rank && rank < tree.end);
        CHECK((tree.parent == rank) == (rank == root));
        uint32_t at = tree.first;
        for (unsigned i = 0; i <= tree.count; i++) {
            if (i == tree.below)
                CHECK_EQ_INT(at++, rank);
            if (i == tree.count)
                break;
            const whi_coll_tree_child *c = &tree.children[i];
            CHECK_EQ_INT(c->first, at);
            whi_coll_tree_make(shape, c->rank, count, root, &child);
            CHECK(child.parent == rank && child.first == c->first && child.end == c->end);
            parents[c->rank]++;
            at = c->end;
        }
        CHECK_EQ_INT(at, tree.end);
        CHECK(shape == WHI_COLL_TREE_BINOMIAL || tree.count <= 2);
        uint32_t up = rank;
        unsigned depth = 0;
        for (; up != root; depth++) {
            whi_coll_tree_make(shape, up, count, root, &tree);
            up = tree.parent;
        }
        CHECK(depth <= levels);
    }
    for (uint32_t rank = 0; rank < count; rank++)
        CHECK_EQ_INT(parents[rank], rank != root);
}

TEST(trees) {
    for (uint32_t count = 1; count <= 40; count++)
        for (uint32_t root = 0; root < count; root++) {
            check_tree(WHI_COLL_TREE_BINOMIAL, count, root);
            check_tree(WHI_COLL_TREE_BINARY, count, root);
        }
}

TEST_MAIN()
