// SPDX-License-Identifier: BSD-3-Clause
//
// Host memory for received frames: large blocks are kept for reuse, so that their page faults are
// paid once.
//
// There is one pool in a process, since memory outlives the worker that it was allocated for.
// Blocks of WHI_HOST_KEPT bytes or more come in size classes, four to a doubling; from
// WHI_HOST_HUGE on they are mapped, aligned to it, and ask for huge pages.  A freed block is kept
// as long as somebody watches the pool: a watcher gives back, from time to time, what has not been
// used for a while, and says how much may be kept.  Where nobody watches, freeing gives back at
// once; blocks of 32 MiB or more, too, until one of their size class is missed.  Any thread may call all functions, a forked child too, where nobody watches at first.
#ifndef WHI_MEM_HOST_POOL_H
#define WHI_MEM_HOST_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum {
    WHI_HOST_ALIGN = 64,       // of every block: a cache line, and the widest vector
    WHI_HOST_KEPT = 64 << 10,  // smaller blocks are left to malloc, which keeps them itself
    WHI_HOST_HUGE = 2 << 20,   // a huge page
};

// whi_host_alloc returns `size` bytes of undefined content, or NULL when memory is out.
__attribute__((malloc, alloc_size(1), warn_unused_result)) void *whi_host_alloc(size_t size);

// whi_host_free gives a block back; NULL is allowed.  False: `ptr` is not the begin of a live
// block, as far as can be told, and nothing was done.
bool whi_host_free(void *ptr);

// Who sees to it that kept memory does not stay for ever.  Zeroed, it does not watch.
typedef struct whi_host_watcher {
    whi_list link;
    size_t max;
    bool watching;
} whi_host_watcher;

// whi_host_watch lets the pool keep `max` bytes; of several watchers the largest word counts.  The
// watcher must stay where it is until whi_host_unwatch, and trim the pool meanwhile.
void whi_host_watch(whi_host_watcher *watcher, size_t max);

// whi_host_unwatch ends that, and gives back what the others do not let the pool keep.
void whi_host_unwatch(whi_host_watcher *watcher);

// whi_host_trim gives back the blocks that were freed at or before `before_ns` (of whi_clock_ns)
// and returns the bytes that are still kept.
size_t whi_host_trim(uint64_t before_ns);

#endif
