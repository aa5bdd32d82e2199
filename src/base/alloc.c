// SPDX-License-Identifier: BSD-3-Clause
//
// Allocation with failures on demand.
//
// The idea: one word, whi_alloc_armed, is zero in real life, so that the inline functions of
// alloc.h need to look at nothing else.  While it is not, every allocation takes a number from one
// counter, and the one whose number equals the word fails.  Numbers are unique, so exactly one
// fails.
#include "base/alloc.h"

#include <errno.h>

_Atomic uint64_t whi_alloc_armed;
static _Atomic uint64_t tried;

void whi_alloc_fail_at(uint64_t n) {
    if (n)
        atomic_store(&tried, 0);
    atomic_store(&whi_alloc_armed, n);
}

uint64_t whi_alloc_count(void) {
    return atomic_load(&tried);
}

bool whi_alloc_fails(void) {
    if (atomic_fetch_add(&tried, 1) + 1 != atomic_load(&whi_alloc_armed))
        return false;
    errno = ENOMEM;
    return true;
}

void *whi_aligned_alloc(size_t align, size_t size) {
    // posix_memalign wants a multiple of a pointer's size; a smaller alignment is met by a larger.
    if (align < sizeof(void *))
        align = sizeof(void *);
    void *ptr;
    if (whi_alloc_denied() || posix_memalign(&ptr, align, size))
        return NULL;
    return ptr;
}

void *whi_memdup(const void *data, size_t size) {
    void *copy = whi_malloc(size);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

char *whi_strdup(const char *text) {
    return whi_memdup(text, strlen(text) + 1);
}
