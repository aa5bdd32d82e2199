// SPDX-License-Identifier: BSD-3-Clause
//
// Windows as objects: made by all ranks of a communicator together, asked, freed.
#include "mpi/rma/win.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/base/ids.h"
#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/map.h"
#include "mpi/comm/share.h"
#include "mpi/env/attr.h"
#include "mpi/env/info.h"
#include "mpi/env/kinds.h"
#include "mpi/rma/access.h"

static const char *const hints[] = {
    "no_locks",  "accumulate_ordering", "accumulate_ops",         "mpi_accumulate_granularity",
    "same_size", "same_disp_unit",      "alloc_shared_noncontig", NULL};

// ---- Making.

// The number under which others know the window is its place in the rank's list.
static int enlist(whm_win *win) {
    whm_rank *rank = win->rank;
    if (!rank->wins && !(rank->wins = whm_calloc(1, sizeof(*rank->wins))))
        return whm_no_memory();
    whm_wins *all = rank->wins;
    uint32_t i = 0;
    while (i < all->count && all->at[i])
        i++;
    if (i == all->count) {
        whm_win **more = whm_realloc(all->at, (all->count + 8) * sizeof(whm_win *));
        if (!more)
            return whm_no_memory();
        memset(more + all->count, 0, 8 * sizeof(whm_win *));
        all->at = more;
        all->count += 8;
    }
    all->at[i] = win;
    win->number = i;
    static whm_mourner mourner = {.fn = whm_wins_lost};
    whm_on_loss(&mourner);
    wh_worker *worker = whm_process_here.worker;
    wh_status status = wh_worker_set_am(worker, WHM_AM_ACCESS, whm_on_access, NULL);
    if (status == WH_OK)
        status = wh_worker_set_am(worker, WHM_AM_RESULT, whm_on_answer, NULL);
    return status == WH_OK ? MPI_SUCCESS : whm_fail_status(status, "windows cannot be served");
}

static void end(whm_win *win) {
    if (win->rank->wins && win->rank->wins->count > win->number &&
        win->rank->wins->at[win->number] == win)
        win->rank->wins->at[win->number] = NULL;
    whm_map_end(win->map, win->map_size);
    free(win->owned);
    free(win->region);
    free(win->peer);
    if (win->info)
        whm_info_release(win->info);
    whm_errhandler_release(win->errhandler);
    whm_comm_release(win->comm);
    whm_object_free(win, sizeof(*win));
}

static whm_win *new (whm_comm *comm, int flavor, MPI_Aint size, MPI_Aint unit) {
    whm_win *win = whm_object_new(WHM_WIN, sizeof(*win));
    if (!win)
        return NULL;
    win->errhandler = whm_errhandler_of(MPI_ERRORS_ARE_FATAL);
    win->rank = whm_self;
    win->comm = whm_retain(comm);
    win->number = UINT32_MAX;
    win->flavor = flavor;
    win->model = MPI_WIN_UNIFIED;
    win->size = size;
    win->unit = (int)unit;
    win->peer = whm_calloc((size_t)comm->size, sizeof(*win->peer));
    if (!win->peer) {
        end(win);
        return NULL;
    }
    // Another rank may know the window, and lock it, before this one knows the others' parts.
    for (int i = 0; i < comm->size; i++)
        win->peer[i].world = whm_group_world(comm->group, i);
    return win;
}

// What each rank tells the others of its part.
typedef struct part {
    int64_t size, unit;
    uint32_t number;
    int error;
} part;

static int agree(whm_win *win, int error) {
    whm_comm *comm = win->comm;
    part mine = {win->size, win->unit, win->number, error}, *all;
    all = whm_malloc((size_t)comm->size * sizeof(*all));
    if (!all)
        whm_process_no_memory();
    int rc = whm_share(comm, &mine, sizeof(mine), all);
    for (int i = 0; i < comm->size && rc == MPI_SUCCESS; i++) {
        whm_peer *peer = &win->peer[i];
        peer->win = all[i].number;
        peer->size = all[i].size;
        peer->unit = all[i].unit;
        if (all[i].error != MPI_SUCCESS && error == MPI_SUCCESS)
            rc = whm_fail(all[i].error, "rank %d could not make its part of the window", i);
    }
    free(all);
    return error != MPI_SUCCESS ? error : rc;
}

static int check(const whm_comm *comm, MPI_Aint unit) {
    if (comm->remote)
        return whm_fail(MPI_ERR_COMM, "a window needs an intracommunicator");
    if (unit > INT_MAX)
        return whm_fail(MPI_ERR_ARG, "disp_unit is %lld, at most %d are possible", (long long)unit,
                        INT_MAX);
    return MPI_SUCCESS;
}

// The end of all that make one: it is known to its rank, and then to the others.
static int finish(whm_win *win, const whm_info *info, whm_win **made) {
    int rc = enlist(win);
    win->joint = win->comm->collectives;
    if (rc == MPI_SUCCESS)
        rc = whm_info_hints(&win->info, info, hints);
    rc = agree(win, rc);
    if (rc == MPI_SUCCESS)
        *made = win;
    else
        end(win);
    return rc;
}

int mpi_win_create(void *base, MPI_Aint size, MPI_Aint unit, whm_info *info, whm_comm *comm,
                   whm_win **made) {
    int rc = check(comm, unit);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!base && size)
        return whm_fail(MPI_ERR_BASE, "base is NULL, and size %lld", (long long)size);
    whm_win *win = new (comm, MPI_WIN_FLAVOR_CREATE, size, unit);
    if (!win)
        whm_process_no_memory();
    win->base = base;
    return finish(win, info, made);
}

int mpi_win_create_dynamic(whm_info *info, whm_comm *comm, whm_win **made) {
    int rc = check(comm, 1);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_win *win = new (comm, MPI_WIN_FLAVOR_DYNAMIC, 0, 1);
    if (!win)
        whm_process_no_memory();
    return finish(win, info, made);
}

// Makes memory that all map, and notes where each rank's begins.
static int map(whm_win *win, bool spread, size_t **offsets) {
    int n = win->comm->size;
    *offsets = whm_malloc((size_t)n * sizeof(**offsets));
    if (!*offsets)
        whm_process_no_memory();
    int rc = whm_map_begin(win->comm, win->size, spread, &win->map, &win->map_size, *offsets);
    if (rc != MPI_SUCCESS)
        win->map = NULL;
    for (int i = 0; i < n && win->map; i++)
        win->peer[i].direct = (char *)win->map + (*offsets)[i];
    return rc;
}

static int map_or_own(whm_win *win, bool shared, const whm_info *info) {
    const char *apart = whm_info_value(info, "alloc_shared_noncontig");
    size_t *offsets = NULL;
    int rc = map(win, !shared || (apart && strcmp(apart, "true") == 0), &offsets);
    free(offsets);
    if (rc == MPI_SUCCESS) {
        win->base = win->peer[win->comm->rank].direct;
        return rc;
    }
    if (shared || (rc != MPI_ERR_RMA_SHARED && rc != MPI_ERR_NO_MEM))
        return rc;
    // Ranks of several hosts, or a small /dev/shm: memory of the process's own.
    size_t page = 4096, size = ((size_t)win->size + page) / page * page;
    win->base = win->owned = aligned_alloc(page, size);
    if (win->owned)
        memset(win->owned, 0, size);
    return MPI_SUCCESS;
}

static int allocate(MPI_Aint size, MPI_Aint unit, whm_info *info, whm_comm *comm, void *baseptr,
                    bool shared, whm_win **made) {
    int rc = check(comm, unit);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_win *win = new (comm, shared ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_ALLOCATE, size, unit);
    if (!win)
        whm_process_no_memory();
    rc = map_or_own(win, shared, info);
    if (rc != MPI_SUCCESS) {  // on all ranks
        end(win);
        return rc;
    }
    void *base = win->base;
    rc = finish(win, info, made);
    if (rc == MPI_SUCCESS)
        *(void **)baseptr = base;
    return rc;
}

int mpi_win_allocate(MPI_Aint size, MPI_Aint unit, whm_info *info, whm_comm *comm, void *baseptr,
                     whm_win **made) {
    return allocate(size, unit, info, comm, baseptr, false, made);
}

int mpi_win_allocate_shared(MPI_Aint size, MPI_Aint unit, whm_info *info, whm_comm *comm,
                            void *baseptr, whm_win **made) {
    return allocate(size, unit, info, comm, baseptr, true, made);
}

// ---- Memory of dynamic windows.

int mpi_win_attach(whm_win *win, void *base, MPI_Aint size) {
    if (win->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return whm_fail(MPI_ERR_RMA_FLAVOR, "memory is attached to dynamic windows only");
    if (!base && size)
        return whm_fail(MPI_ERR_RMA_ATTACH, "base is NULL");
    for (int i = 0; i < win->regions; i++) {
        const whm_region *r = &win->region[i];
        if ((char *)base < r->base + r->size && r->base < (char *)base + size)
            return whm_fail(MPI_ERR_RMA_ATTACH, "it overlaps with memory that is attached already");
    }
    whm_region *more = whm_realloc(win->region, (size_t)(win->regions + 1) * sizeof(*more));
    if (!more)
        return whm_no_memory();
    win->region = more;
    more[win->regions++] = (whm_region){base, size};
    return MPI_SUCCESS;
}

int mpi_win_detach(whm_win *win, const void *base) {
    for (int i = 0; i < win->regions; i++)
        if (win->region[i].base == base) {
            win->region[i] = win->region[--win->regions];
            return MPI_SUCCESS;
        }
    return whm_fail(MPI_ERR_RMA_ATTACH, "no memory that begins at %p is attached", base);
}

// ---- What windows tell.

int whm_win_peer(const whm_win *win, int rank, whm_peer **peer) {
    if (rank != MPI_PROC_NULL && (unsigned)rank >= (unsigned)win->comm->size)
        return whm_fail(MPI_ERR_RANK, "the rank is %d, and the window has ranks 0 to %d", rank,
                        win->comm->size - 1);
    *peer = rank == MPI_PROC_NULL ? NULL : &win->peer[rank];
    return MPI_SUCCESS;
}

int mpi_win_shared_query(whm_win *win, int rank, MPI_Aint *size, MPI_Aint *unit, void *baseptr) {
    whm_peer *peer = NULL;
    int rc = whm_win_peer(win, rank, &peer);
    if (rc != MPI_SUCCESS)
        return rc;
    if (win->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return whm_fail(MPI_ERR_RMA_FLAVOR, "a dynamic window has no memory of its own");
    // MPI_PROC_NULL: the first rank that has any.
    assert(win->peer);  // but a dynamic one each has them
    for (int i = 0; !peer && i < win->comm->size; i++)
        if (win->peer[i].size)
            peer = &win->peer[i];
    bool mapped = peer && peer->direct;
    *size = mapped ? peer->size : 0;
    *unit = peer ? peer->unit : 0;
    *(void **)baseptr = mapped ? peer->direct : NULL;
    return MPI_SUCCESS;
}

int mpi_win_get_group(whm_win *win, whm_group **group) {
    *group = whm_retain(win->comm->group);
    return MPI_SUCCESS;
}

int mpi_win_set_name(whm_win *win, const char *name) {
    size_t n = strnlen(name, sizeof(win->name) - 1);
    memcpy(win->name, name, n);
    win->name[n] = 0;
    return MPI_SUCCESS;
}

int mpi_win_get_name(whm_win *win, char *name, int *length) {
    strcpy(name, win ? win->name : "MPI_WIN_NULL");
    *length = (int)strlen(name);
    return MPI_SUCCESS;
}

int mpi_win_set_info(whm_win *win, whm_info *info) {
    return whm_info_hints(&win->info, info, hints);
}

int mpi_win_get_info(whm_win *win, whm_info **info) {
    return whm_hints_used(win->info, info);
}

static whm_holder holder(whm_win *win) {
    return (whm_holder){&win->attrs, win->o.handle, WHM_WIN};
}

int mpi_win_get_attr(whm_win *win, int key, void *value, int *flag) {
    void *predefined = key == MPI_WIN_BASE            ? win->base
                       : key == MPI_WIN_SIZE          ? (void *)&win->size
                       : key == MPI_WIN_DISP_UNIT     ? &win->unit
                       : key == MPI_WIN_CREATE_FLAVOR ? &win->flavor
                                                      : &win->model;
    if (key < MPI_WIN_BASE || key > MPI_WIN_MODEL)
        return whm_attr_get(holder(win), key, value, flag);
    *(void **)value = predefined;
    *flag = 1;
    return MPI_SUCCESS;
}

int mpi_win_set_attr(whm_win *win, int key, void *value) {
    return whm_attr_set(holder(win), key, value);
}

int mpi_win_delete_attr(whm_win *win, int key) {
    return whm_attr_delete(holder(win), key);
}

int mpi_win_free(whm_win *win) {
    int rc = whm_compare_apart(win->comm, win->joint);
    if (rc != MPI_SUCCESS)
        return rc;
    if (win->locks || win->all_locked || win->group_started || win->group_posted)
        return whm_fail(MPI_ERR_RMA_SYNC, "an epoch of the window has not been ended");
    // Accesses outside of any epoch may have failed; the window goes in any case.
    for (int i = 0; i < win->comm->size; i++)
        (void)whm_flush(win, &win->peer[i]);
    rc = whm_win_barrier(win);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = whm_attrs_delete(holder(win));
    if (rc != MPI_SUCCESS)
        return rc;
    end(win);
    return MPI_SUCCESS;
}
