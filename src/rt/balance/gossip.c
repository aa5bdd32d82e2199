// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has heard of others, and what it sends them.
//
// A PE above the mean takes its elements in random order and offers each one to a PE drawn with a probability that grows
// with what that PE lacks to the mean.  The element goes if the other one then still has less than this PE has now; else it
// stays.  Several PEs may choose the same one at a time; since each sends what it has too much, in proportion to what others
// lack, the sums come out even on average.
#include "rt/balance/gossip.h"

#include <string.h>

#include "base/alloc.h"

int whi_gossip_rounds(int pes) {
    int rounds = 1;
    while (1 << rounds < pes && rounds < 30)
        rounds++;
    return rounds;
}

wh_status whi_gossip_add(whi_gossip *g, const whi_gossip_entry *entry) {
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->known[middle].pe < entry->pe)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < g->count && g->known[low].pe == entry->pe)
        return WH_OK;
    if (g->count == g->space) {
        size_t space = g->space ? 2 * g->space : 16;
        whi_gossip_entry *known = whi_realloc(g->known, space * sizeof(*known));
        if (!known)
            return WH_ENOMEM;
        g->known = known;
        g->space = space;
    }
    memmove(&g->known[low + 1], &g->known[low], (g->count - low) * sizeof(*g->known));
    g->known[low] = *entry;
    g->count++;
    return WH_OK;
}

void whi_gossip_fini(whi_gossip *g) {
    whi_free(g->known);
    *g = (whi_gossip){.known = NULL};
}

static double lack(const whi_gossip_entry *entry, double mean) {
    return entry->load < mean ? mean - entry->load : 0;
}

// draw returns one of those that are known, in proportion to what they lack; NULL: none lacks anything.
static whi_gossip_entry *draw(whi_gossip *g, double mean, whi_rng *rng) {
    double all = 0;
    for (size_t i = 0; i < g->count; i++)
        all += lack(&g->known[i], mean);
    if (all <= 0)
        return NULL;
    double at = all * ((double)(whi_rng_u64(rng) >> 11) / 9007199254740992.0);
    whi_gossip_entry *last = NULL;
    for (size_t i = 0; i < g->count; i++) {
        double part = lack(&g->known[i], mean);
        if (part <= 0)
            continue;
        last = &g->known[i];
        if (at < part)
            return last;
        at -= part;
    }
    return last;
}

static void shuffle(size_t *order, size_t count, whi_rng *rng) {
    for (size_t i = 0; i < count; i++) {
        size_t j = (size_t)whi_rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

wh_status whi_gossip_transfer(whi_gossip *g, const wh_balance_element *elements, size_t count,
                              double mean, whi_rng *rng, int32_t *to, size_t *moved) {
    size_t *order = whi_calloc(count + 1, sizeof(*order));
    if (!order)
        return WH_ENOMEM;
    shuffle(order, count, rng);
    double own = 0;
    for (size_t i = 0; i < count; i++)
        own += elements[i].load;
    *moved = 0;
    for (size_t i = 0; i < count && own > mean * WHI_BALANCE_TOLERANCE; i++) {
        const wh_balance_element *e = &elements[order[i]];
        whi_gossip_entry *other = e->fixed || e->load <= 0 ? NULL : draw(g, mean, rng);
        if (!other || other->load + e->load >= own)
            continue;
        to[order[i]] = other->pe;
        other->load += e->load;
        own -= e->load;
        ++*moved;
    }
    whi_free(order);
    return WH_OK;
}
