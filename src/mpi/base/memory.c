// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/base/heap.h"

void *whm_malloc_for(const whm_rank *rank, size_t size) {
    return rank->heap ? whm_heap_alloc(rank->heap, size, 0, false) : malloc(size);
}

void *whm_malloc(size_t size) {
    return whm_malloc_for(whm_self, size);
}

void *whm_calloc(size_t count, size_t size) {
    if (!whm_self->heap)
        return calloc(count, size);
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes)
               ? NULL
               : whm_heap_alloc(whm_self->heap, bytes, 0, true);
}

void *whm_realloc(void *block, size_t size) {
    if (!whm_self->heap)
        return realloc(block, size);
    return block ? whm_heap_resize(block, size) : whm_malloc(size);
}

char *whm_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = whm_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}
