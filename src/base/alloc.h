// SPDX-License-Identifier: BSD-3-Clause
//
// Allocation: the only way from Wherry to the heap, so that tests can make any allocation fail.
//
// All functions may be called from any thread.  They return NULL when memory is out; whoever asked
// turns that into WH_ENOMEM.  Whatever came from here goes back through whi_free.  While no test
// has armed a failure, the price over plain malloc is one relaxed load and a predictable branch.
#ifndef WHI_BASE_ALLOC_H
#define WHI_BASE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// whi_alloc_fail_at makes the n-th allocation from now on, in any thread, fail once; 0 switches
// off.
//
// Allocations are counted, and the count restarts at zero, only while armed.  The loop of a test:
//     for (uint64_t n = 1;; n++) {
//         whi_alloc_fail_at(n);
//         wh_status status = the_call();
//         bool reached = whi_alloc_count() >= n;
//         whi_alloc_fail_at(0);
//         if (!reached) break;      // the_call needs fewer than n allocations and has succeeded
//         ... status must be WH_ENOMEM, or the_call must have done without ...
//     }
// With n = UINT64_MAX nothing ever fails, and whi_alloc_count tells that a call allocates nothing.
void whi_alloc_fail_at(uint64_t n);

// whi_alloc_count returns the allocations tried since whi_alloc_fail_at was armed.  It keeps its
// value after whi_alloc_fail_at(0).
uint64_t whi_alloc_count(void);

// Not for callers: the n that is armed, and the slow path that counts and decides.
extern _Atomic uint64_t whi_alloc_armed;
bool whi_alloc_fails(void);

static inline bool whi_alloc_denied(void) {
    return __builtin_expect(atomic_load_explicit(&whi_alloc_armed, memory_order_relaxed) != 0, 0) &&
           whi_alloc_fails();
}

// whi_malloc returns `size` bytes of undefined content.  Size 0 gives a pointer that may be freed.
__attribute__((malloc, alloc_size(1), warn_unused_result)) static inline void *
whi_malloc(size_t size) {
    return whi_alloc_denied() ? NULL : malloc(size);
}

// whi_calloc returns `count * size` zero bytes, or NULL when that product overflows.
__attribute__((malloc, alloc_size(1, 2), warn_unused_result)) static inline void *
whi_calloc(size_t count, size_t size) {
    size_t total;  // checked here because not every allocator answers an overflow with NULL
    if (__builtin_mul_overflow(count, size, &total) || whi_alloc_denied())
        return NULL;
    return calloc(count, size);
}

// whi_realloc resizes `ptr`, which may be NULL.  When it fails, `ptr` is still whole and still the
// caller's.
__attribute__((alloc_size(2), warn_unused_result)) static inline void *whi_realloc(void *ptr,
                                                                                   size_t size) {
    // A size of zero would free, and leave nothing to tell that from running out of memory.
    return whi_alloc_denied() ? NULL : realloc(ptr, size ? size : 1);
}

// whi_aligned_alloc returns memory aligned to `align`, a power of two of any size; any `size` goes.
__attribute__((malloc, alloc_size(2), warn_unused_result)) void *whi_aligned_alloc(size_t align,
                                                                                   size_t size);

// whi_memdup returns a copy of `size` bytes.
__attribute__((malloc, warn_unused_result)) void *whi_memdup(const void *data, size_t size);

// whi_strdup returns a copy of a string.
__attribute__((malloc, warn_unused_result)) char *whi_strdup(const char *text);

// whi_free gives back what any function above returned.  NULL is allowed.
static inline void whi_free(void *ptr) {
    free(ptr);
}

#endif
