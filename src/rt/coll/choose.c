// SPDX-License-Identifier: BSD-3-Clause
#include "rt/coll/choose.h"

// Sizes beyond this are all alike, and sums of products stay within 64 bits.
#define HUGE_SIZE ((uint64_t)1 << 36)

static uint64_t clip(uint64_t size) {
    return size < HUGE_SIZE ? size : HUGE_SIZE;
}

static uint64_t root_of(uint64_t x) {
    uint64_t low = 0, high = (uint64_t)1 << 32;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (middle * middle <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t message(const wh_team *team) {
    return team->message_bytes;
}

whi_coll_segments whi_coll_cut(const wh_team *team, uint64_t size, uint64_t levels,
                               unsigned sends) {
    // (levels + n) rounds of sends * (m + size / n): least for n = root of levels * size / m.
    uint64_t m = message(team), n = root_of(levels * clip(size) / m);
    uint64_t least = size / WHI_COLL_SEGMENT_MAX;
    if (n < least)
        n = least;
    whi_coll_segments cut = {.size = size, .count = 1};
    if (n > 1) {
        cut.size = (size + n - 1) / n;
        cut.count = (uint32_t)((size + cut.size - 1) / cut.size);
    }
    cut.cost = (levels + cut.count) * sends * (m + clip(cut.size));
    return cut;
}

whi_coll_tree_shape whi_coll_tree_choice(const wh_team *team, uint64_t size,
                                         whi_coll_segments *segments) {
    uint64_t levels = whi_coll_tree_levels(team->count),
             whole = levels * (message(team) + clip(size));
    *segments = whi_coll_cut(team, size, levels, 2);
    if (segments->cost < whole)
        return WHI_COLL_TREE_BINARY;
    *segments = (whi_coll_segments){.size = size, .count = 1, .cost = whole};
    return WHI_COLL_TREE_BINOMIAL;
}

bool whi_coll_halve_allreduce(const wh_team *team, uint64_t size) {
    uint64_t levels = whi_coll_tree_levels(team->count), m = message(team);
    return 2 * (levels * m + clip(size)) < levels * (m + clip(size));
}

bool whi_coll_chain_scan(const wh_team *team, uint64_t size, whi_coll_segments *segments) {
    *segments = whi_coll_cut(team, size, team->count, 1);
    return segments->cost < whi_coll_tree_levels(team->count) * (message(team) + clip(size));
}

bool whi_coll_tree_gather(const wh_team *team, uint64_t size) {
    // A node in the middle of the tree keeps the blocks of half of the team.
    return clip(size) * team->count <= 2 * message(team);
}

bool whi_coll_bruck_allgather(const wh_team *team, uint64_t size) {
    uint64_t all = clip(size) * team->count, m = message(team);
    return whi_coll_tree_levels(team->count) * m + 2 * all < team->count * m + all;
}

bool whi_coll_bruck_alltoall(const wh_team *team, uint64_t size) {
    // Each block is sent in half of the rounds, and copied before and after.
    uint64_t levels = whi_coll_tree_levels(team->count), all = clip(size) * team->count,
             m = message(team);
    return levels * (m + all) < team->count * (m + clip(size));
}
