// SPDX-License-Identifier: BSD-3-Clause
//
// Accesses to windows, in all flavors that need no shared memory and under all ways to synchronize.
//
// A window has words that all add to, and for each rank a region where it alone puts and gets, with a part for each access of an epoch.  So
// no result depends on the order of ranks.
#include "random.h"

enum { WORDS = 256, PART = 512, PARTS = 4, REGION = PART * PARTS, EPOCHS = 3, WORD = 8, FEW = 20 };
enum { ALLOCATED, CREATED, DYNAMIC, FLAVORS };
enum { FENCE, POSTED, LOCKED_ALL, LOCKED, SYNCS };
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, COMPARE, KINDS };

typedef struct window {
    MPI_Comm comm;
    MPI_Win win;
    char *base;
    size_t bytes;
    MPI_Aint *start;  // of each rank's memory, as a displacement in bytes
    MPI_Group group;
    unsigned flavor, sync;
    int size, rank, unit;
} window;

static void begin_window(window *w) {
    MPI_Aint mine = 0;
    w->size = size_of(w->comm);
    w->rank = rank_in(w->comm);
    w->bytes = (size_t)WORDS * WORD + (size_t)REGION * (size_t)w->size;
    w->unit = w->flavor == DYNAMIC || draw(2) ? 1 : WORD;
    if (w->flavor == ALLOCATED) {
        OK(MPI_Win_allocate((MPI_Aint)w->bytes, w->unit, MPI_INFO_NULL, w->comm, &w->base,
                            &w->win));
    } else {
        w->base = malloc(w->bytes);
        CHECK(w->base);
    }
    if (w->flavor == CREATED)
        OK(MPI_Win_create(w->base, (MPI_Aint)w->bytes, w->unit, MPI_INFO_NULL, w->comm, &w->win));
    if (w->flavor == DYNAMIC) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, w->comm, &w->win));
        OK(MPI_Win_attach(w->win, w->base, (MPI_Aint)w->bytes));
        OK(MPI_Get_address(w->base, &mine));
    }
    for (size_t i = 0; i < w->bytes; i++)
        w->base[i] = i < WORDS * WORD ? 0 : (char)hashed(256, (unsigned)me, i, 10);
    w->start = malloc((size_t)w->size * sizeof(mine));
    CHECK(w->start);
    OK(MPI_Allgather(&mine, 1, MPI_AINT, w->start, 1, MPI_AINT, w->comm));
    OK(MPI_Comm_group(w->comm, &w->group));
}

static void end_window(window *w) {
    OK(MPI_Group_free(&w->group));
    if (w->flavor == DYNAMIC)
        OK(MPI_Win_detach(w->win, w->base));
    OK(MPI_Win_free(&w->win));
    if (w->flavor != ALLOCATED)
        free(w->base);
    free(w->start);
}

static void open_epoch(window *w) {
    switch (w->sync) {
    case FENCE: OK(MPI_Win_fence(0, w->win)); break;
    case POSTED:
        OK(MPI_Win_post(w->group, 0, w->win));
        OK(MPI_Win_start(w->group, 0, w->win));
        break;
    case LOCKED_ALL: OK(MPI_Win_lock_all(0, w->win)); break;
    default: break;
    }
}

static void close_epoch(window *w) {
    switch (w->sync) {
    case FENCE: OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win)); return;
    case POSTED:
        OK(MPI_Win_complete(w->win));
        OK(MPI_Win_wait(w->win));
        return;
    case LOCKED_ALL: OK(MPI_Win_unlock_all(w->win)); break;
    default: break;
    }
    OK(MPI_Barrier(w->comm));
}

// An access: to which rank, from which blocks, with a request or without.
typedef struct access {
    layout l, there;
    int count, there_count, target;
    MPI_Aint displ;
    block from, result;
    MPI_Request request;
} access;

static MPI_Aint displ_of(const window *w, int target, MPI_Aint at) {
    return (w->start[target] + at) / w->unit;
}

// The part of this rank's region, where elements of the target's layout begin.
static MPI_Aint part_of(const window *w, int target, int part, const layout *l) {
    MPI_Aint at = WORDS * WORD + REGION * w->rank + PART * part - l->true_lb;
    return displ_of(w, target, at);
}

static void fit(access *a, int each) {
    MPI_Count most = a->there.extent > a->l.extent ? a->there.extent : a->l.extent;
    if (a->there.true_lb > WORDS * WORD || a->there.true_lb % WORD || most > PART)
        a->count = 0;
    while (a->count * each * a->there.extent > PART)
        a->count /= 2;
    a->there_count = a->count * each;
}

static void put_or_get(window *w, access *a, unsigned kind, bool request, bool large) {
#define WHAT                                                                                       \
    a->from.at, a->count, a->l.type, a->target, a->displ, a->there_count, a->there.type, w->win
    if (kind == PUT && request)
        EITHER(large, Rput, WHAT, &a->request);
    else if (kind == PUT)
        EITHER(large, Put, WHAT);
    else if (request)
        EITHER(large, Rget, WHAT, &a->request);
    else
        EITHER(large, Get, WHAT);
#undef WHAT
}

static void replace(window *w, access *a, bool keep, bool request, bool large) {
#define WHAT                                                                                       \
    a->from.at, keep ? 0 : a->count, a->l.type, a->result.at, a->count, a->l.type, a->target,      \
        a->displ, a->there_count, a->there.type, keep ? MPI_NO_OP : MPI_REPLACE, w->win
    if (request)
        EITHER(large, Rget_accumulate, WHAT, &a->request);
    else
        EITHER(large, Get_accumulate, WHAT);
#undef WHAT
}

// Adding to words of all; else to words of this rank's own, of which the order of its accesses decides.
static void on_words(window *w, access *a, unsigned kind, int part, bool request) {
    int64_t *from = (void *)a->from.at;
    MPI_Aint own = displ_of(w, a->target, WORDS * WORD + REGION * w->rank + PART * part);
    MPI_Aint all = displ_of(w, a->target, (MPI_Aint)WORD * draw(WORDS - FEW));
    if (kind == FETCH) {
        OK(MPI_Fetch_and_op(from, (void *)a->result.at, MPI_INT64_T, a->target, own, MPI_SUM,
                            w->win));
        OK(MPI_Fetch_and_op(from, (void *)(a->result.at + WORD), MPI_INT64_T, a->target, own,
                            MPI_BXOR, w->win));
    } else if (kind == COMPARE) {
        OK(MPI_Compare_and_swap(from, from + 1, (void *)a->result.at, MPI_INT64_T, a->target, own,
                                w->win));
    } else if (request) {
        OK(MPI_Raccumulate(from, a->count, MPI_INT64_T, a->target, all, a->count, MPI_INT64_T,
                           MPI_SUM, w->win, &a->request));
    } else {
        OK(MPI_Accumulate(from, a->count, MPI_INT64_T, a->target, all, a->count, MPI_INT64_T,
                          MPI_SUM, w->win));
    }
}

static access make_access(const window *w, unsigned kind, int part) {
    access a = {.request = MPI_REQUEST_NULL};
    int each = 1;
    if (kind == PUT || kind == GET || kind == GET_ACCUMULATE) {
        a.l = layout_draw();
        a.there = layout_peer(&a.l, &each);
        a.count = count_draw();
        fit(&a, each);
        if (kind == GET_ACCUMULATE && a.l.mixed)  // of one predefined type only
            a.count = a.there_count = 0;
    } else {
        a.l = layout_of(MPI_INT64_T);
        a.there = layout_of(MPI_INT64_T);
        a.count = 2 + (int)draw(FEW - 2);
    }
    a.target = (int)draw(1000);
    a.target = (a.target + w->rank) % w->size;
    a.displ = part_of(w, a.target, part, &a.there);
    a.from = block_make(&a.l, a.count, 2 * (unsigned)part);
    a.result = block_make(&a.l, a.count, 2 * (unsigned)part + 1);
    return a;
}

static access begin_access(window *w, int part) {
    unsigned kind = draw(KINDS);
    access a = make_access(w, kind, part);
    bool request = draw(2) && w->sync >= LOCKED_ALL, large = draw(3) == 0, exclusive = draw(2),
         keep = draw(2);
    if (w->sync == LOCKED)
        OK(MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, a.target, 0, w->win));
    if (kind == PUT || kind == GET)
        put_or_get(w, &a, kind, request, large);
    else if (kind == GET_ACCUMULATE)
        replace(w, &a, keep, request, large);
    else
        on_words(w, &a, kind, part, request);
    if (w->sync == LOCKED) {
        OK(MPI_Wait(&a.request, MPI_STATUS_IGNORE));
        OK(MPI_Win_unlock(a.target, w->win));
    } else if (w->sync == LOCKED_ALL && draw(3) == 0) {
        OK(MPI_Win_flush(a.target, w->win));
    }
    return a;
}

static void run_epoch(window *w) {
    access all[PARTS];
    int count = 1 + (int)draw(PARTS);
    open_epoch(w);
    for (int i = 0; i < count; i++)
        all[i] = begin_access(w, i);
    for (int i = 0; i < count; i++)
        OK(MPI_Wait(&all[i].request, MPI_STATUS_IGNORE));
    close_epoch(w);
    for (int i = 0; i < count; i++) {
        block_end(&all[i].from, "origin");
        block_end(&all[i].result, "result");
        layout_free(&all[i].l);
        layout_free(&all[i].there);
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    note_bytes("window", w->base, w->bytes);
    OK(MPI_Win_unlock(w->rank, w->win));
    OK(MPI_Barrier(w->comm));
}

void window_step(void) {
    window w = {.comm = comm_draw(), .flavor = draw(FLAVORS), .sync = draw(SYNCS)};
    begin_window(&w);
    for (int i = 0; i < EPOCHS; i++)
        run_epoch(&w);
    end_window(&w);
}
