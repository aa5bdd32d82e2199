// SPDX-License-Identifier: BSD-3-Clause
//
// Making the memory that ranks share for collectives.
#include "mpi/coll/shared_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "mpi/base/ids.h"
#include "mpi/base/offered.h"
#include "mpi/base/process.h"
#include "mpi/comm/context.h"
#include "mpi/comm/map.h"
#include "mpi/comm/share.h"
#include "mpi/p2p/p2p.h"

enum {
    ALL_LARGE = 2 << 20,  // bytes of all large slots; /dev/shm of a container often has 64 MiB
    LARGE_MOST = 128 << 10,
    // of a rank: its part, but for large slots, and by how much those may be rounded up
    OF_A_RANK = sizeof(uint32_t) + sizeof(whm_shared_progress) + sizeof(whm_shared_reader) +
                WHM_SHARED_HEADS * (sizeof(whm_shared_heading) + WHM_SHARED_BRIEF) +
                WHM_SHARED_LARGE * WHM_CACHE_LINE,
};
_Static_assert(ALL_LARGE + WHM_CACHE_LINE + OF_A_RANK * (int)WHM_SHARED_RANKS <= WHM_OFFERED_SIZE,
               "what the launcher has made is enough");

static size_t rounded(size_t size) {
    return (size + WHM_CACHE_LINE - 1) / WHM_CACHE_LINE * WHM_CACHE_LINE;
}

static size_t ring_size(const whm_shared *shared, const whm_shared_ring *r) {
    return (size_t)shared->ranks * r->count * r->size;
}

static size_t lay_out(whm_shared *shared) {
    char *at = shared->map;
    size_t waits = rounded((size_t)shared->ranks * sizeof(*shared->waits_for)),
           progresses = (size_t)shared->ranks * sizeof(whm_shared_progress),
           readers = (size_t)shared->ranks * sizeof(whm_shared_reader),
           heads = (size_t)shared->ranks * WHM_SHARED_HEADS * sizeof(whm_shared_heading);
    if (at) {
        shared->waits_for = (void *)at;
        shared->progress = (void *)(at + waits);
        shared->readers = (void *)(at + waits + progresses);
        shared->heads = (void *)(at + waits + progresses + readers);
        shared->brief.slots = at + waits + progresses + readers + heads;
        shared->large.slots = shared->brief.slots + ring_size(shared, &shared->brief);
    }
    return waits + progresses + readers + heads + ring_size(shared, &shared->brief) +
           ring_size(shared, &shared->large);
}

static wh_status on_news(wh_am *am, void *arg) {
    (void)arg;
    int32_t world;
    if (am->header_size != sizeof(world))
        return whm_refuse(am, "its head is none of this release");
    memcpy(&world, am->header, sizeof(world));
    whm_rank *rank = whm_rank_at(world);
    if (rank)
        whm_wake(rank);
    return WH_OK;
}

bool whm_shared_is_offered(const whm_comm *comm) {
    return comm->context == WHM_CONTEXT_WORLD &&
           whm_process_here.ranks == whm_process_here.processes && whm_offered();
}

// What rank 0 tells of its host.
typedef struct host {
    long processors;
    bool room;
} host;

// Half of what there can be of shared memory is left to others: windows, jobs beside this one.
static bool leaves_room(size_t size) {
    struct statvfs fs;
    return statvfs("/dev/shm", &fs) != 0 ||
           (uint64_t)fs.f_bavail * fs.f_frsize >= (uint64_t)fs.f_blocks * fs.f_frsize / 2 + size;
}

// The first rank's part is all of it, and the processors are those that it sees.
static bool make(whm_shared *shared, whm_comm *comm) {
    size_t large = (size_t)ALL_LARGE / (WHM_SHARED_LARGE * (size_t)shared->ranks);
    shared->large.size = rounded(large < LARGE_MOST ? large : LARGE_MOST);
    shared->large.count = WHM_SHARED_LARGE;
    shared->brief.size = WHM_SHARED_BRIEF;
    shared->brief.count = WHM_SHARED_HEADS;
    size_t offsets[WHM_SHARED_RANKS];
    host it = {.processors = sysconf(_SC_NPROCESSORS_ONLN)};
    bool is = whm_shared_is_offered(comm);
    if (!is && comm->rank == 0)
        it.room = leaves_room(lay_out(shared));
    int rc = is ? MPI_SUCCESS : whm_share_from(comm, 0, &it, sizeof(it));
    shared->crowded = it.processors < shared->ranks;
    shared->processors = shared->crowded ? (int)it.processors : shared->ranks;
    shared->offered = is;
    if (is)
        shared->map = whm_offered();
    else if (rc == MPI_SUCCESS && it.room)
        rc = whm_map_begin(comm, comm->rank == 0 ? (MPI_Aint)lay_out(shared) : 0, false,
                           &shared->map, &shared->map_size, offsets);
    if (rc != MPI_SUCCESS)
        shared->map = NULL;
    whm_self->sentence[0] = 0;
    return shared->map != NULL;
}

static void end(whm_comm *comm) {
    whm_shared *shared = comm->coll;
    if (!shared)
        return;
    if (!shared->offered)
        whm_map_end(shared->map, shared->map_size);
    free(shared->nowhere);
    free(shared->scratch);
    free(shared->peers);
    free(shared);
    comm->coll = NULL;
}

whm_shared *whm_shared_of(whm_comm *comm) {
    whm_shared *shared = comm->coll;
    if (shared)
        return shared->map ? shared : NULL;
    // Ranks that move leave the memory behind.
    if (whm_process_here.home || comm->remote || comm->size < 2 || comm->size > WHM_SHARED_RANKS ||
        (comm->collectives < WHM_CALLS_BEFORE && !whm_shared_is_offered(comm)))
        return NULL;
    shared = calloc(1, sizeof(*shared));
    if (!shared || wh_worker_set_am(whm_process_here.worker, WHM_AM_NEWS, on_news, NULL) != WH_OK)
        whm_process_no_memory();
    *shared =
        (whm_shared){.rank = comm->rank, .ranks = comm->size, .group = comm->group, .comm = comm};
    comm->coll = shared;
    if (!make(shared, comm))
        return NULL;
    (void)lay_out(shared);
    return shared;
}

__attribute__((constructor)) static void begin(void) {
    whm_comm_ops.end = end;
}
