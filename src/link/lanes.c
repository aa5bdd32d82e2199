// SPDX-License-Identifier: BSD-3-Clause
//
// The registered lanes, see lanes.h.
#include "link/lanes.h"

// The first that a link wants is taken.
static const whi_lane_kind *const kinds[] = {&whi_ucx_kind, &whi_shm_kind};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const whi_lane_kind *whi_lane_kind_of(uint32_t bit) {
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->bit == bit)
            return kinds[i];
    return NULL;
}

const whi_lane_kind *whi_lane_kind_for(const whi_link *link) {
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->wanted(link))
            return kinds[i];
    return NULL;
}
