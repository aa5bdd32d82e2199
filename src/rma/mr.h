// SPDX-License-Identifier: BSD-3-Clause
//
// Registered memory: what peers may reach, found by the id in their key.
//
// An id is 64 random bits: knowing it is the right to use it.  A registration belongs to its context, so
// that all workers of it serve it; the table has a lock of its own.  It lives until its user has
// destroyed it and the last access under way has ended; revoked, it is found by nobody.  A forked child has
// none of its parent's.
#ifndef WHI_RMA_MR_H
#define WHI_RMA_MR_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/rma.h>

#include "base/fork.h"
#include "base/hash.h"
#include "message/request.h"
#include "net/shm/region.h"
#include "worker/context.h"

// What the first page of shared memory holds; the memory begins behind it.
typedef struct whi_mr_shared {
    _Atomic uint32_t live;  // 1 until the owner revokes it
    char reserved[4092];
} whi_mr_shared;
static_assert(sizeof(whi_mr_shared) == 4096, "docs/wire.md");

struct wh_mr {
    wh_context *ctx;             // held
    struct whi_mr_table *table;  // of the context
    whi_buffer buf;
    uint64_t id;
    unsigned access;
    uint32_t fork_generation;
    uint32_t accesses;  // under way; guarded by the table's lock, like the next
    bool revoked;
    bool recalled;       // nobody is to begin anything; also guarded by the lock, like the next
    whi_list transfers;  // by chunks, under way; also guarded
    whi_list shares;     // with which workers' UCX it is registered (share.c)
    whi_region *region;  // of memory that we have allocated; NULL otherwise
    int fd;              // its descriptor, or -1
};

// A key, as it travels (docs/wire.md).
typedef struct whi_key {
    char magic[4];  // WHK1
    uint8_t access;
    uint8_t kind;   // wh_mem_kind
    uint8_t flags;  // WHI_KEY_*
    uint8_t align;  // the lowest three bits of the address
    uint64_t id;
    uint64_t size;
} whi_key;
static_assert(sizeof(whi_key) == 24, "wire layout");
enum { WHI_KEY_SHARED = 1 << 0 };  // a peer on this host may map it

// The registrations of a context.
typedef struct whi_mr_table {
    whi_context_part part;
    pthread_mutex_t lock;
    whi_hash mrs;
    whi_fork_node fork_node;
} whi_mr_table;

// whi_mr_begin finds the registration of an id for an access of `size` bytes at `offset`: it stays until
// whi_mr_end.  WH_EKEY, WH_EPERM, WH_EBOUNDS.
WH_CHECK wh_status whi_mr_begin(wh_context *ctx, uint64_t id, unsigned access, uint64_t offset,
                                uint64_t size, wh_mr **mr);
void whi_mr_end(wh_mr *mr);

// whi_mr_join makes a request hold the access that was begun, as a transfer that wh_mr_destroy asks to end.  Its worker's owner.
// whi_mr_leave ends that, if it holds one.
void whi_mr_join(wh_mr *mr, wh_request *req);
void whi_mr_leave(wh_request *req);

// whi_mr_unlock_or_free frees a registration whose user has released it and that nothing uses.  The caller holds the
// table's lock, which is released.
void whi_mr_unlock_or_free(wh_mr *mr);

// whi_mr_atomic changes a word of host memory, aligned to its size, and returns what it was.
uint64_t whi_mr_atomic(void *word, wh_atomic_op op, size_t size, uint64_t operand,
                       uint64_t compare);

#endif
