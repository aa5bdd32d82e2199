// SPDX-License-Identifier: BSD-3-Clause
//
// Which sections have been destroyed, of those that this PE has heard of.
//
// Makers number their sections from 1 on, and none twice.  So what a PE keeps is, for each maker, up to which number all are
// destroyed, and those beyond.  The maker knows the former, and says it with each destruction.
#ifndef WHI_RT_SECTION_DESTROYED_H
#define WHI_RT_SECTION_DESTROYED_H

#include <stdbool.h>

#include "base/hash.h"

typedef struct whi_destroyed {
    whi_hash ids;    // maker << 32 | number
    whi_hash below;  // by maker + 1: a uint64_t, all of whose numbers below it are destroyed
} whi_destroyed;

void whi_destroyed_init(whi_destroyed *d);
void whi_destroyed_fini(whi_destroyed *d);

// whi_destroyed_add notes a section, and that all of its maker's with numbers below `below` are destroyed, too.  Where there is no
// memory for that it is forgotten.
void whi_destroyed_add(whi_destroyed *d, uint64_t id, uint64_t below);

// whi_destroyed_below is for the maker: it returns the lowest number that has not been added.
uint64_t whi_destroyed_below(whi_destroyed *d, uint32_t maker);

bool whi_destroyed_has(const whi_destroyed *d, uint64_t id);

#endif
