// SPDX-License-Identifier: BSD-3-Clause
//
// Which kernels run here, and which of them serves a leaf.
#include "type/kernels/kernels.h"

#include <stdatomic.h>
#include <string.h>

enum {
    FIELDS_MAX = 16,  // a short list is moved field by field
};

static _Atomic(const whi_kernels *) chosen;

const whi_kernels *whi_kernels_here(void) {
    const whi_kernels *set = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!set) {
        const whi_kernels *sets[WHI_KERNEL_SETS];
        set = sets[whi_kernels_sets(sets) - 1];
        atomic_store_explicit(&chosen, set, memory_order_relaxed);
    }
    return set;
}

bool whi_kernels_use(const char *isa) {
    const whi_kernels *sets[WHI_KERNEL_SETS];
    int n = whi_kernels_sets(sets);
    for (int i = n - 1; i >= 0; i--)
        if (!isa || strcmp(sets[i]->isa, isa) == 0) {
            atomic_store_explicit(&chosen, sets[i], memory_order_relaxed);
            return true;
        }
    return false;
}

whi_size_class whi_size_class_of(int64_t len) {
    static const uint8_t small[65] = {
        [0 ... 1] = WHI_SIZE_1,
        [2] = WHI_SIZE_2,
        [3] = WHI_SIZE_3,
        [4] = WHI_SIZE_4,
        [5 ... 7] = WHI_SIZE_5to7,
        [8] = WHI_SIZE_8,
        [9 ... 15] = WHI_SIZE_9to15,
        [16] = WHI_SIZE_16,
        [17 ... 31] = WHI_SIZE_17to31,
        [32] = WHI_SIZE_32,
        [33 ... 63] = WHI_SIZE_33to63,
        [64] = WHI_SIZE_64,
    };
    return len <= 64 ? (whi_size_class)small[len] : WHI_SIZE_lines;
}

void whi_kernels_pick(whi_leaf *leaf) {
    const whi_kernels *set = whi_kernels_here();
    whi_size_class size = whi_size_class_of(leaf->len);
    for (int direction = WHI_PACK; direction <= WHI_UNPACK; direction++) {
        switch ((whi_leaf_kind)leaf->kind) {
        case WHI_RUN:
            leaf->move[direction] = set->rows[direction][size];
            leaf->cross[direction] = set->cross[direction][size];
            leaf->nontemporal[direction] =
                whi_nontemporal_rows((whi_direction)direction, leaf->len);
            leaf->cross_nontemporal = size == WHI_SIZE_8 ? set->cross_8_nontemporal : NULL;
            break;
        case WHI_BLOCKS: leaf->move[direction] = set->blocks[direction][size]; break;
        case WHI_LIST:
            leaf->move[direction] = !leaf->off32            ? set->list_wide[direction]
                                    : leaf->n <= FIELDS_MAX ? set->fields[direction]
                                                            : set->list[direction];
            break;
        case WHI_INDEX:
        case WHI_SEQ: break;
        }
    }
}
