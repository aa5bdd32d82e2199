// SPDX-License-Identifier: BSD-3-Clause
//
// The heap that the process has by brk, from which malloc takes small blocks.
//
// It is the host's for sure, also when the driver of a device has just come: nothing else is ever mapped into it.
#ifndef WHI_MEM_HEAP_H
#define WHI_MEM_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// As of the last look; until then, and where the kernel does not tell, it is empty.
extern _Atomic uintptr_t whi_heap_begin, whi_heap_end;

// whi_heap_look finds out where it is.  Any thread.
void whi_heap_look(void);

static inline bool whi_heap_has(const void *ptr) {
    uintptr_t at = (uintptr_t)ptr;
    return at >= atomic_load_explicit(&whi_heap_begin, memory_order_relaxed) &&
           at < atomic_load_explicit(&whi_heap_end, memory_order_relaxed);
}

#endif
