// SPDX-License-Identifier: BSD-3-Clause
//
// The shm lane: host memory between two processes of one host.
//
// Each direction is a ring of one producer and one consumer in a memfd that the producer made and
// sealed against resizing, and, once bulk is to be moved, memory for large chunks in a second memfd
// (bulk.h).  The lane needs a socket beside it for three things, reached through `wire`: its bell, passing
// descriptors, and the notice of death (which is the owner's business).
#ifndef WHI_NET_SHM_H
#define WHI_NET_SHM_H

#include <sys/types.h>

#include "base/list.h"
#include "net/lane.h"

// How a lane reaches its peer beside the rings.  bell wakes the peer; WH_OK may be said of one that
// is lost only when the peer has unread bytes anyway (WH_EAGAIN: not now).  send_fd passes a
// descriptor, in order (WH_EAGAIN: not now).  take_fd returns the next descriptor that the peer has
// passed, which the lane then owns, or a negative wh_status: WH_EAGAIN when none has come.
typedef struct whi_shm_wire {
    wh_status (*bell)(void *arg);
    wh_status (*send_fd)(void *arg, int fd);
    int (*take_fd)(void *arg);
} whi_shm_wire;

// The bulk memory that the lanes of one worker may take for what they send.  Owned by the worker,
// shared by its lanes; when it is used up, the lane that has been idle longest gives its own back.
typedef struct whi_shm_budget {
    size_t limit;
    size_t used;
    whi_list lanes;  // lanes that hold bulk memory, least recently used first
} whi_shm_budget;
void whi_shm_budget_init(whi_shm_budget *budget, size_t limit);

typedef struct whi_shm_opts {
    size_t ring_size;    // bytes of the first ring; a power of two
    size_t ring_max;     // bytes of the one that replaces it when full; 0 or <= ring_size: never
    size_t eager_limit;  // payload bytes of a record; from 1 to ring_size / 4
    size_t chunk_max;    // the largest chunk; 0: derived from the caches of this machine
    unsigned chunks;     // bulk memory per direction, in chunks of chunk_max; 0: none
    bool takes_long;     // both sides take long records
    bool asymmetric;     // both processes have whi_shm_barrier(): producers need no fence
    int fetch;           // whi_fetch_mode: reading payloads out of the peer's memory, if both do
    pid_t peer;          // whose memory that is, as the kernel says; 0: not known
    whi_shm_budget *budget;
    const whi_shm_wire *wire;
    void *wire_arg;
} whi_shm_opts;

// whi_shm_available tells whether this process can make a ring of so many bytes; `why` gets a sentence when it cannot.
bool whi_shm_available(size_t ring, const char **why);

// whi_shm_barrier_init registers this process for the barrier that lets producers do without a
// fence, once, and returns whether it is to be had (membarrier, Linux 4.16).  whi_shm_barrier
// issues it.
bool whi_shm_barrier_init(void);
void whi_shm_barrier(void);

// whi_shm_create makes the lane and its sending ring.  `*ring_fd` is the ring's memfd, which the
// caller passes to the peer and closes.  Sending works at once; receiving after whi_shm_attach.
wh_status whi_shm_create(const whi_shm_opts *opts, const whi_lane_up *up, void *link,
                         whi_lane **lane, int *ring_fd);

// whi_shm_attach maps the peer's sending ring.  It takes `fd` in any case.  WH_EPROTOCOL: not a
// sealed ring.
wh_status whi_shm_attach(whi_lane *lane, int fd);

#endif
