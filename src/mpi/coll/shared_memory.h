// SPDX-License-Identifier: BSD-3-Clause
//
// What lies in the memory that ranks share for collectives, and what each keeps of it (shared.h says how it is used).
#ifndef WHM_COLL_SHARED_MEMORY_H
#define WHM_COLL_SHARED_MEMORY_H

#include <stdatomic.h>

#include "mpi/coll/peer.h"
#include "mpi/coll/shared.h"

enum {
    WHM_SHARED_LARGE = 2,  // slots of a rank, as are the next; powers of two
    WHM_SHARED_HEADS = 32,
    WHM_CACHE_LINE = 64,
};
_Static_assert((WHM_SHARED_LARGE & (WHM_SHARED_LARGE - 1)) == 0 &&
                   (WHM_SHARED_HEADS & (WHM_SHARED_HEADS - 1)) == 0,
               "no division in a call");

// What a rank publishes in a round begins with this.  Those of all ranks for a round lie side by side.
typedef struct whm_shared_heading {
    _Alignas(WHM_CACHE_LINE) whm_shared_call call;
    char data[WHM_SHARED_LINE];
} whm_shared_heading;
_Static_assert(sizeof(whm_shared_heading) == WHM_CACHE_LINE, "who looks for it takes one line");

typedef struct whm_shared_progress {
    _Alignas(WHM_CACHE_LINE) _Atomic uint64_t in;  // published up to here
    _Atomic uint64_t out;      // and what others have published is read up to here
    _Atomic uint64_t broken;   // a rank is gone, and this one has ended a call by that
    _Atomic uint32_t reaches;  // ranks that this one is connected to
} whm_shared_progress;

// How others read this rank's memory, and whether it can read that of all others.
typedef struct whm_shared_reader {
    _Alignas(WHM_CACHE_LINE) _Atomic uint64_t said;  // 1: `self` is there, 2: `can`, too
    whm_peer self;
    bool can;
} whm_shared_reader;

// The slots of one size, `count` for each rank.
typedef struct whm_shared_ring {
    char *slots;
    size_t size, count;
} whm_shared_ring;

struct whm_shared {
    void *map;  // NULL: it could not be had
    size_t map_size;
    int rank, ranks;
    bool crowded;
    int processors;    // for these ranks
    bool plain;        // buffers of this call
    bool wakes_later;  // has published something, and has not looked who waits for it
    const whm_group *group;
    whm_comm *comm;
    _Atomic uint32_t *waits_for;  // by rank: 1 + whom it waits for; 0: it does not sleep
    whm_shared_progress *progress;
    whm_shared_reader *readers;  // by rank
    whm_shared_heading *heads;
    whm_shared_ring large, brief, *ring;  // that of this call; NULL: its data lie in the heads
    // Stamps of what lies in the heads of this rank, and in its large slots: brief ones go with the heads.
    uint64_t published[WHM_SHARED_HEADS], large_published[WHM_SHARED_LARGE];
    uint64_t call, round;
    unsigned looks;
    uint64_t naps;
    bool offered;       // the launcher's memory: ranks need not be connected
    uint64_t all_read;  // what all others have read, as far as this rank has looked
    whm_shared_call mine;
    int error;     // of this call
    int stranger;  // who has called something else; -1: nobody
    // A rank is gone: this one publishes nothing more, as it cannot know what is still read.
    bool broken;
    char *nowhere;  // where it writes then
    char *scratch;
    enum { WHM_UNKNOWN, WHM_NO, WHM_YES } direct;
    whm_peer *peers;  // WHM_YES: by rank
    whm_shared_call theirs;
};

// whm_shared_is_offered says whether this is MPI_COMM_WORLD with memory of the launcher's, for which ranks need not speak to each other.
bool whm_shared_is_offered(const whm_comm *comm);

#endif
