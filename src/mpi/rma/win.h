// SPDX-License-Identifier: BSD-3-Clause
//
// Windows: memory of the ranks of a communicator that they access from afar.
//
// The owner of memory carries accesses out, in its progress, so that accumulates are atomic; put and get go straight to
// memory that is mapped here.
#ifndef WHM_RMA_WIN_H
#define WHM_RMA_WIN_H

#include <wherry/am.h>

#include "mpi/comm/comm.h"
#include "mpi/env/errhandler.h"
#include "mpi/type/op.h"

enum { WHM_WIN_ROUNDS = 32 };  // of a barrier: twice as many ranks are in each

// What a rank of a window and this one have to do with each other.
typedef struct whm_peer {
    int world;     // its number in MPI_COMM_WORLD
    uint32_t win;  // the number of its window
    MPI_Aint size, unit;
    char *direct;  // its memory, as it is mapped here; NULL: it is not
    // This rank as origin.
    uint64_t sent;       // accesses that have no answer of their own
    uint64_t confirmed;  // of these, known to have taken effect
    int pending;         // operations whose buffers are in use
    int lock;            // 0, MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE
    bool unasked;        // the lock is by MPI_MODE_NOCHECK
    bool started;        // MPI_Win_start
    int error;           // the first of an access without a request, until it is told,
    wh_status trouble;   // and what the engine has answered here; WH_OK: the error is the target's
    // This rank as target.
    uint64_t done;                // accesses of these that have taken effect
    int failure;                  // the first that did not, until it was told
    struct whm_wait_for *wanted;  // who waits for `done`
    struct whm_served
        *served;  // accumulates in the order of their arrival, the first of them under way
    unsigned posted, completed;  // MPI_Win_post, MPI_Win_complete that have come from it
    bool exposed;                // MPI_Win_post: it has access
    int holds;                   // the lock of this rank's part: 0, MPI_LOCK_SHARED or _EXCLUSIVE
} whm_peer;

typedef struct whm_region {
    char *base;
    MPI_Aint size;
} whm_region;

typedef struct whm_win {
    whm_object o;
    struct whm_errhandler *errhandler;  // as in whm_guarded
    whm_rank *rank;
    whm_comm *comm;
    uint32_t number;  // among the windows of its rank
    uint32_t joint;   // among those of its communicator, for comparisons
    int flavor, model;
    void *base;
    MPI_Aint size;
    int unit;
    whm_peer *peer;                   // by rank
    whm_region *region;               // of a dynamic window: what is attached
    int regions;                      //
    bool fenced;                      // a fence has begun an epoch
    bool all_locked;                  // MPI_Win_lock_all
    int locks;                        // MPI_Win_lock
    int group_started, group_posted;  // epochs of MPI_Win_start, MPI_Win_post: 1 while there is one
    // The lock of this rank's part.
    bool held_exclusive;
    int held_shared;
    struct whm_lock_wait *first_wait, *last_wait;
    // Barriers.
    uint64_t barriers;
    uint64_t arrived[WHM_WIN_ROUNDS];
    void *owned;  // memory of MPI_Win_allocate
    void *map;    // of all ranks on this host
    size_t map_size;
    struct whm_attr *attrs;
    struct whm_info *info;
    char name[MPI_MAX_OBJECT_NAME];
} whm_win;
_Static_assert(offsetof(whm_win, errhandler) == offsetof(whm_guarded, errhandler),
               "a window begins as all that have error handlers");

typedef struct whm_wins {  // of a rank
    whm_win **at;          // by number; NULL: free
    uint32_t count;
} whm_wins;

// whm_win_peer checks a rank that accesses name: MPI_PROC_NULL gives NULL.
int whm_win_peer(const whm_win *win, int rank, whm_peer **peer);

// whm_win_barrier waits until all ranks of the window have called it.
int whm_win_barrier(whm_win *win);

// whm_flush waits until all accesses to a rank have taken effect there; it returns the first error of any of them.
// whm_flush_local waits until their buffers are free.
int whm_flush(whm_win *win, whm_peer *peer);
void whm_flush_local(const whm_peer *peer);

#endif
