// SPDX-License-Identifier: BSD-3-Clause
//
// The layouts to measure as types of Wherry's.
#ifndef BENCH_LAYOUT_TYPE_H
#define BENCH_LAYOUT_TYPE_H

#include <wherry/wherry.h>

#include "bench/layout.h"

// bench_layout_type makes the committed type of a layout that is not dense, of which `*count` elements
// have `size` packed bytes.  The caller releases it.
wh_status bench_layout_type(const bench_layout *layout, uint64_t size, wh_type **type,
                            uint64_t *count);

#endif
