// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between plain and nontemporal stores, see way.h.
//
// The sender times its own half only.  Nontemporal stores must halve that: they make the receiver's half slower, which the
// sender does not see, and in all that was measured a common cache is left for less only by mistake.
#include "net/shm/way.h"

#include "base/clock.h"
#include "net/copy.h"

enum {
    GAIN = 2,
    FIRST_TRIAL = 2,
    INTERVAL_MIN = 16,
    INTERVAL_MAX = 4096,
    SMOOTH = 4,
    COST_MAX = 1 << 28
};

void whi_way_init(whi_way *way) {
    *way = (whi_way){.left = FIRST_TRIAL, .interval = INTERVAL_MIN};
}

bool whi_way_choose(whi_way *way) {
    return --way->left == 0 ? !way->nontemporal : way->nontemporal;
}

// smooth takes a new figure in; one that a lost time slice has spoilt does not count for much.
static uint32_t smooth(uint32_t old, uint64_t cost) {
    uint64_t most = old ? (uint64_t)old * SMOOTH : COST_MAX;
    if (cost > most)
        cost = most;
    return old ? (uint32_t)((old * (SMOOTH - 1ull) + cost) / SMOOTH) + 1 : (uint32_t)cost + 1;
}

void whi_way_note(whi_way *way, bool nontemporal, uint64_t cycles, size_t size) {
    uint64_t cost = cycles * 1024 / size;
    uint32_t *known = &way->cost[nontemporal];
    if (way->left) {
        *known = smooth(*known, cost);
        // What has become slow calls for a trial at once.
        if (way->settled && *known / GAIN > way->settled)
            way->left = 1;
        return;
    }
    // The last trial was long ago: what is cheaper now is believed.
    *known = cost < *known ? (uint32_t)cost + 1 : smooth(*known, cost);
    bool better = way->cost[0] > (uint64_t)GAIN * way->cost[1];
    if (better != way->nontemporal)
        way->interval = INTERVAL_MIN;
    else if (way->interval < INTERVAL_MAX)
        way->interval *= 2;
    way->nontemporal = better;
    way->settled = way->cost[better];
    way->left = way->interval;
}

void whi_way_copy(whi_way *way, void *to, const whi_span *src, size_t size) {
    if (!src->ptr) {
        src->move(src->ctx, src->base, to, size);
    } else if (size < WHI_WAY_MIN) {
        whi_copy(to, src->ptr, size);
    } else {
        bool nontemporal = whi_way_choose(way);
        uint64_t start = whi_clock_cycles();
        if (nontemporal)
            whi_copy_nontemporal(to, src->ptr, size);
        else
            whi_copy(to, src->ptr, size);
        whi_way_note(way, nontemporal, whi_clock_cycles() - start, size);
    }
}
