// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between plain and nontemporal stores, see copy_method.h.
//
// The sender times its own half only.  Nontemporal stores must halve that: they make the receiver's half slower, which the
// sender does not see, and a common cache is left for less only by mistake.
#include "net/shm/copy_method.h"

#include "base/clock.h"
#include "net/copy.h"

enum { FIRST_TRIAL = 2, INTERVAL_MIN = 16, INTERVAL_MAX = 4096, SMOOTH = 4, COST_MAX = 1 << 28 };

void whi_copy_method_init(whi_copy_method *method, uint32_t gain) {
    *method = (whi_copy_method){.gain = gain, .left = FIRST_TRIAL, .interval = INTERVAL_MIN};
}

bool whi_copy_method_choose(whi_copy_method *method) {
    return --method->left == 0 ? !method->nontemporal : method->nontemporal;
}

// smooth takes a new figure in; one that a lost time slice has spoilt does not count for much.
static uint32_t smooth(uint32_t old, uint64_t cost) {
    uint64_t most = old ? (uint64_t)old * SMOOTH : COST_MAX;
    if (cost > most)
        cost = most;
    return old ? (uint32_t)((old * (SMOOTH - 1ull) + cost) / SMOOTH) + 1 : (uint32_t)cost + 1;
}

void whi_copy_method_note(whi_copy_method *method, bool nontemporal, uint64_t cycles, size_t size) {
    uint64_t cost = cycles * 1024 / size;
    uint32_t *known = &method->cost[nontemporal];
    if (method->left) {
        *known = smooth(*known, cost);
        // What has become slow calls for a trial at once.
        if (method->settled && *known / method->gain > method->settled)
            method->left = 1;
        return;
    }
    // The last trial was long ago: what is cheaper now is believed.
    *known = cost < *known ? (uint32_t)cost + 1 : smooth(*known, cost);
    bool better = method->cost[0] > (uint64_t)method->gain * method->cost[1];
    if (better != method->nontemporal)
        method->interval = INTERVAL_MIN;
    else if (method->interval < INTERVAL_MAX)
        method->interval *= 2;
    method->nontemporal = better;
    method->settled = method->cost[better];
    method->left = method->interval;
}

uint64_t whi_copy_method_copy(whi_copy_method *method, void *to, const whi_span *src, size_t size) {
    if (src->ptr && size < WHI_COPY_METHOD_MIN) {
        whi_copy(to, src->ptr, size);
        return 0;
    }
    // What is moved stores as it does.
    bool nontemporal = src->ptr && whi_copy_method_choose(method);
    uint64_t start = whi_clock_cycles();
    if (!src->ptr)
        src->move(src->ctx, src->base, to, size);
    else if (nontemporal)
        whi_copy_nontemporal(to, src->ptr, size);
    else
        whi_copy(to, src->ptr, size);
    uint64_t cycles = whi_clock_cycles() - start;
    if (src->ptr)
        whi_copy_method_note(method, nontemporal, cycles, size);
    return nontemporal ? cycles * WHI_COPY_WEIGHT : cycles;
}
