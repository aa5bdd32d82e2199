// SPDX-License-Identifier: BSD-3-Clause
//
// A set of descriptors that a forked child can close, whatever thread has forked.
//
// One thread changes the set; a child that another thread forks meanwhile finds it whole, which it
// would not find the tables and lists of the objects that the descriptors belong to.  A descriptor
// must leave the set before it is closed: its number may be another file's soon after.
#ifndef WHI_BASE_FDSET_H
#define WHI_BASE_FDSET_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    WHI_FDSET_WORDS = 64,  // of a block, which has a bit for each of 4096 descriptors
    WHI_FDSET_BLOCKS =
        1 << 20 >> 12,  // 2^20 descriptors; Linux allows a process no more unless told
};

typedef struct whi_fdset_block {
    _Atomic uint64_t words[WHI_FDSET_WORDS];
} whi_fdset_block;

typedef struct whi_fdset {  // zeroed: empty
    _Atomic(whi_fdset_block *) blocks[WHI_FDSET_BLOCKS];
} whi_fdset;

// whi_fdset_add takes a descriptor in.  Without memory for it, or with too high a number, it is not in the set, and a
// child keeps it until its next exec.
void whi_fdset_add(whi_fdset *set, int fd);

// whi_fdset_remove takes it out, if it is in.
void whi_fdset_remove(whi_fdset *set, int fd);

// whi_fdset_close closes all of them, in a forked child: no lock, no heap.
void whi_fdset_close(whi_fdset *set);

// whi_fdset_fini frees the set.
void whi_fdset_fini(whi_fdset *set);

#endif
