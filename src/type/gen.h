// SPDX-License-Identifier: BSD-3-Clause
//
// Random types for tests: small ones of every shape, all that is legal and unusual.
#ifndef WHI_TYPE_GEN_H
#define WHI_TYPE_GEN_H

#include <wherry/type.h>

#include "base/rng.h"

typedef struct whi_gen {
    whi_rng rng;
    int64_t max_size;  // packed bytes of a type, at most
    int64_t max_span;  // bytes between true bounds, at most
} whi_gen;

// whi_gen_type makes a type of at most `depth` levels above the predefined ones.  The caller owns it.
wh_type *whi_gen_type(whi_gen *gen, int depth);

#endif
