// SPDX-License-Identifier: BSD-3-Clause
//
// Regions: memory in a memfd that two processes share and that nobody can resize.
//
// A descriptor from a peer is mapped only when it is sealed: a file that could shrink would turn
// any later access into SIGBUS.  Within one process a memfd is mapped once, however many ends it
// has here; so two workers of one process share addresses, and tools that watch memory see what
// they do to each other.  Forked children do not inherit the mappings.  Any thread may call all
// functions.
#ifndef WHI_NET_SHM_REGION_H
#define WHI_NET_SHM_REGION_H

#include <stddef.h>
#include <sys/types.h>

#include <wherry/status.h>

#include "base/list.h"

typedef struct whi_region {
    void *base;
    size_t size;
    // Private: who it is, how many hold it, and its place among the regions of the process.
    dev_t dev;
    ino_t ino;
    unsigned refs;
    whi_list link;
} whi_region;

// whi_region_create makes zeroed memory, sealed, and maps it.  The caller owns the region and
// closes *fd, which is there to be passed on; the memory lives without it.  `name` is what /proc
// shows.
WH_CHECK wh_status whi_region_create(const char *name, size_t size, whi_region **region, int *fd);

// whi_region_attach maps a descriptor from elsewhere, which stays the caller's.  WH_EPROTOCOL: it
// is not a memfd sealed against resizing, or its size is not in [min, max].
WH_CHECK wh_status whi_region_attach(int fd, size_t min, size_t max, whi_region **region);

// whi_region_release gives a region back; its last holder in this process unmaps it.  NULL is
// allowed.
void whi_region_release(whi_region *region);

#endif
