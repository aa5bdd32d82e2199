// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives against plain serial code, over a network of a seed's making.  SEEDS=n WHERRY_SEED=first: more of them.
#include "rt/coll/test_net.h"

#include "rt/coll/test_program.h"

TEST(right_results) {
    make_types();
    uint64_t first = first_seed();
    for (uint64_t s = first; s < first + seeds(1500); s++) {
        begin(s, 1 + (uint32_t)(s % 11), 1 + (unsigned)(s % OPS), 60);
        run_well();
    }
    free_types();
}

TEST_MAIN()
