// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/context.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"

struct whm_contexts {
    uint64_t *taken;  // a bit for each
    uint64_t *ended;  // likewise: no collectives on it any more
    uint32_t words;   // allocated; those beyond are free
    uint32_t first;   // no word before it has a free bit
};

enum { BITS = 64, WORDS_MAX = WHM_CONTEXTS_MAX / BITS };

static bool grow(struct whm_contexts *c, uint32_t words) {
    uint64_t **all[] = {&c->taken, &c->ended};
    for (int i = 0; i < 2; i++) {
        uint64_t *more = whm_realloc(*all[i], words * sizeof(*more));
        if (!more)
            return false;
        memset(more + c->words, 0, (words - c->words) * sizeof(*more));
        *all[i] = more;
    }
    c->words = words;
    return true;
}

static uint64_t bit_of(uint32_t context) {
    return (uint64_t)1 << context % BITS;
}

int whm_contexts_begin(whm_rank *rank) {
    rank->contexts = whm_calloc(1, sizeof(*rank->contexts));
    if (!rank->contexts || !grow(rank->contexts, 4))
        return whm_no_memory();
    return MPI_SUCCESS;
}

void whm_contexts_end(whm_rank *rank) {
    if (rank->contexts)
        free(rank->contexts->taken), free(rank->contexts->ended);
    free(rank->contexts);
    rank->contexts = NULL;
}

uint32_t whm_context_take(uint32_t from) {
    struct whm_contexts *c = whm_self->contexts;
    uint32_t word = from / BITS > c->first ? from / BITS : c->first;
    for (; word < WORDS_MAX; word++) {
        if (word >= c->words && !grow(c, word * 2 < WORDS_MAX ? word * 2 : WORDS_MAX))
            return WHM_CONTEXTS_MAX;
        uint64_t below = word == from / BITS ? ((uint64_t)1 << from % BITS) - 1 : 0;
        uint64_t open = ~(c->taken[word] | below);
        if (open) {
            uint32_t bit = (uint32_t)__builtin_ctzll(open);
            c->taken[word] |= (uint64_t)1 << bit;
            return word * BITS + bit;
        }
        if (word == c->first && !below)
            c->first++;
    }
    return WHM_CONTEXTS_MAX;
}

bool whm_context_claim(uint32_t context) {
    uint32_t got = whm_context_take(context);
    if (got == context)
        return true;
    if (got < WHM_CONTEXTS_MAX)
        whm_context_free(whm_self, got);
    return false;
}

void whm_context_free(whm_rank *rank, uint32_t context) {
    struct whm_contexts *c = rank->contexts;
    c->taken[context / BITS] &= ~bit_of(context);
    c->ended[context / BITS] &= ~bit_of(context);
    if (context / BITS < c->first)
        c->first = context / BITS;
}

void whm_context_end(whm_rank *rank, uint32_t context) {
    struct whm_contexts *c = rank->contexts;
    if (context / BITS < c->words)
        c->ended[context / BITS] |= bit_of(context);
}

bool whm_context_ended(const whm_rank *rank, uint32_t context) {
    const struct whm_contexts *c = rank->contexts;
    return c && context / BITS < c->words && c->ended[context / BITS] & bit_of(context);
}
