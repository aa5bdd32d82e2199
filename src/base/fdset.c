// SPDX-License-Identifier: BSD-3-Clause
//
// A bit per descriptor, see fdset.h.  Blocks are made once and stay, so that each change is one word's.
#include "base/fdset.h"

#include <stddef.h>
#include <unistd.h>

#include "base/alloc.h"

enum { WORD_BITS = 64, BLOCK_BITS = WHI_FDSET_WORDS * WORD_BITS };

static uint64_t bit_of(int fd) {
    return UINT64_C(1) << (fd % WORD_BITS);
}

// word_of returns the word that a descriptor's bit is in, or NULL when it has none.
static _Atomic uint64_t *word_of(whi_fdset *set, int fd) {
    if (fd < 0 || fd >= WHI_FDSET_BLOCKS * BLOCK_BITS)
        return NULL;
    whi_fdset_block *block = atomic_load(&set->blocks[fd / BLOCK_BITS]);
    return block ? &block->words[fd % BLOCK_BITS / WORD_BITS] : NULL;
}

void whi_fdset_add(whi_fdset *set, int fd) {
    if (fd < 0 || fd >= WHI_FDSET_BLOCKS * BLOCK_BITS)
        return;
    if (!atomic_load(&set->blocks[fd / BLOCK_BITS]))
        atomic_store(&set->blocks[fd / BLOCK_BITS], whi_calloc(1, sizeof(whi_fdset_block)));
    _Atomic uint64_t *word = word_of(set, fd);
    if (word)
        atomic_fetch_or(word, bit_of(fd));
}

void whi_fdset_remove(whi_fdset *set, int fd) {
    _Atomic uint64_t *word = word_of(set, fd);
    if (word)
        atomic_fetch_and(word, ~bit_of(fd));
}

void whi_fdset_close(whi_fdset *set) {
    for (int b = 0; b < WHI_FDSET_BLOCKS; b++) {
        whi_fdset_block *block = atomic_load(&set->blocks[b]);
        for (int w = 0; block && w < WHI_FDSET_WORDS; w++)
            for (uint64_t left = atomic_exchange(&block->words[w], 0); left; left &= left - 1)
                close(b * BLOCK_BITS + w * WORD_BITS + __builtin_ctzll(left));
    }
}

void whi_fdset_fini(whi_fdset *set) {
    for (int b = 0; b < WHI_FDSET_BLOCKS; b++)
        whi_free(atomic_exchange(&set->blocks[b], NULL));
}
