// SPDX-License-Identifier: BSD-3-Clause
//
// With leaders a collective is some on their communicators, one after the other.  One that fails does not stop the next, for which others wait; only where
// a process was lost nobody waits any more.
#include "mpi/coll/blocking.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/coll/choose.h"
#include "mpi/coll/compose.h"
#include "mpi/coll/leaders.h"
#include "mpi/coll/shared.h"

enum { FIRST = 0 };  // the leader, among the ranks of its group

typedef struct phases {
    const whm_leaders *leaders;
    const whm_coll *coll;
    int group, place;  // of this rank
    bool alone;        // in its group
    bool leads;
    int error;  // the first
} phases;

static void note(phases *p, int error) {
    if (p->error == MPI_SUCCESS)
        p->error = error;
}

// run carries out a part of it, unless a process was lost.
static void run(phases *p, const whm_coll *part) {
    if (p->error != MPI_ERR_PROC_ABORTED)
        note(p, whm_coll_carry_out(part));
}

static void run_across(phases *p, const whm_coll *part) {
    if (p->leads)
        run(p, part);
}

static void bcast_inside(phases *p, const whm_blocks *data, int root) {
    if (!p->alone)
        run(p, &(whm_coll){
                   .kind = WHM_BCAST, .comm = p->leaders->inside, .root = root, .recv = *data});
}

static void barrier(phases *p) {
    whm_coll part = {.kind = WHM_BARRIER, .comm = p->leaders->inside};
    if (!p->alone)
        run(p, &part);
    part.comm = p->leaders->across;
    run_across(p, &part);
    char go = 0;
    bcast_inside(p, &(whm_blocks){.buf = &go, .count = 1, .type = whm_type_of(MPI_BYTE)}, FIRST);
}

// The root's group has the data first, so that its leader can go on with them.
static void bcast(phases *p) {
    const whm_blocks *data = &p->coll->recv;
    int root = p->coll->root, from = p->leaders->group[root];
    if (p->group == from)
        bcast_inside(p, data, p->leaders->place[root]);
    run_across(
        p, &(whm_coll){.kind = WHM_BCAST, .comm = p->leaders->across, .root = from, .recv = *data});
    if (p->group != from)
        bcast_inside(p, data, FIRST);
}

// reduce_inside leaves at the leader, in `result`, what its group has come to.
static void reduce_inside(phases *p, void *result) {
    const whm_coll *coll = p->coll;
    whm_coll part = *coll;
    part.kind = WHM_REDUCE;
    part.comm = p->leaders->inside;
    part.root = FIRST;
    part.recv.buf = p->leads ? result : NULL;
    if (!p->leads || result != coll->recv.buf)
        part.send.buf = (void *)(uintptr_t)whm_operand(coll);
    run(p, &part);
}

// reduce_across has the result at the root's leader, in `result`.
static void reduce_across(phases *p, int to, void *result) {
    whm_coll part = *p->coll;
    part.comm = p->leaders->across;
    part.root = to;
    part.recv.buf = result;
    if (!p->alone)
        part.send.buf = p->group == to ? MPI_IN_PLACE : result;
    run_across(p, &part);
}

// hand_over brings the result from the leader to the root.
static void hand_over(phases *p, const void *result) {
    const whm_coll *coll = p->coll;
    const whm_blocks *data = &coll->recv;
    whm_comm *inside = p->leaders->inside;
    int root = p->leaders->place[coll->root], tag = whm_comm_tag(inside);
    if (p->error == MPI_ERR_PROC_ABORTED)
        return;
    if (p->leads)
        note(p, whm_send_wait(inside, WHM_COLL, result, data->count, data->type, root, tag,
                              WHM_STANDARD));
    if (p->place == root)
        note(p, whm_recv_wait(inside, WHM_COLL, data->buf, data->count, data->type, FIRST, tag,
                              MPI_STATUS_IGNORE));
}

static void reduce(phases *p) {
    const whm_coll *coll = p->coll;
    int root = coll->root, to = p->leaders->group[root];
    void *room = NULL, *result = coll->recv.buf;
    if (p->leads && !p->alone && coll->comm->rank != root) {
        room = result = whm_space_new(coll->recv.count, coll->recv.type);
        if (!room)
            whm_process_no_memory();
    }
    if (!p->alone)
        reduce_inside(p, result);
    reduce_across(p, to, result);
    if (p->group == to && p->leaders->place[root] != FIRST)
        hand_over(p, result);
    if (room)
        whm_space_free(room, coll->recv.type);
}

static void allreduce(phases *p) {
    whm_coll part = *p->coll;
    part.comm = p->leaders->across;
    if (!p->alone) {
        reduce_inside(p, part.recv.buf);
        part.send.buf = MPI_IN_PLACE;
    }
    run_across(p, &part);
    bcast_inside(p, &p->coll->recv, FIRST);
}

// gather_inside has what a group has at its leader.  Where groups are runs of ranks, it is one piece of the buffer.
static void gather_inside(phases *p) {
    const whm_coll *coll = p->coll;
    const whm_blocks *all = &coll->recv;
    whm_coll part = {.kind = WHM_GATHER,
                     .comm = p->leaders->inside,
                     .root = FIRST,
                     .send = coll->send,
                     .recv = *all};
    part.recv.buf = whm_block_at(all, p->leaders->first[p->group]);
    if (!p->leads && whm_in_place(&coll->send)) {
        part.send = *all;
        part.send.buf = whm_block_at(all, coll->comm->rank);
    }
    run(p, &part);
}

static void allgather_across(phases *p) {
    const whm_leaders *l = p->leaders;
    const whm_blocks *all = &p->coll->recv;
    MPI_Count *counts = whm_malloc((size_t)l->groups * sizeof(*counts));
    MPI_Aint *displs = whm_malloc((size_t)l->groups * sizeof(*displs));
    if (!counts || !displs)
        whm_process_no_memory();
    for (int i = 0; i < l->groups; i++) {
        counts[i] = l->size[i] * all->count;
        displs[i] = l->first[i] * all->count;
    }
    whm_coll part = {.kind = WHM_ALLGATHERV, .comm = l->across, .send = p->coll->send};
    part.recv = (whm_blocks){all->buf, .counts = counts, .displs = displs, .type = all->type};
    if (!p->alone)
        part.send.buf = MPI_IN_PLACE;
    run(p, &part);
    free(counts);
    free(displs);
}

static void allgather(phases *p) {
    whm_blocks all = p->coll->recv;
    if (!p->alone)
        gather_inside(p);
    if (p->leads)
        allgather_across(p);
    all.count *= p->coll->comm->size;
    bcast_inside(p, &all, FIRST);
}

// swap has each rank tell those of its place in other groups what its own group has for them: from `out`, by group and place, to the program's buffer.
static int swap(const phases *p, const char *out, MPI_Count block) {
    const whm_coll *coll = p->coll;
    const whm_leaders *l = p->leaders;
    const whm_blocks *to = &coll->recv;
    int each = l->size[0];
    whm_schedule s;
    whm_schedule_init(&s, coll->comm, NULL);
    whm_schedule_tag(&s);
    for (int i = 1; i < l->groups; i++) {
        int from = (p->group + l->groups - i) % l->groups, next = (p->group + i) % l->groups;
        whm_step_recv(&s, whm_block_at(to, l->first[from]), each * to->count, to->type,
                      l->first[from] + p->place);
        whm_send_bytes(&s, out + next * each * block, each * block, l->first[next] + p->place);
    }
    whm_step_copy(&s, whm_block_at(to, l->first[p->group]), each * to->count, to->type,
                  out + p->group * each * block, each * block, whm_type_of(MPI_BYTE));
    int error = whm_schedule_close(&s, false);
    if (error == MPI_SUCCESS)
        error = whm_schedule_run(&s);
    whm_schedule_fini(&s);
    return error;
}

// Each rank hears from those of its group what they have for the ranks of its place in all groups, so that a message goes from it to each of those.
static void alltoall(phases *p) {
    const whm_coll *coll = p->coll;
    const whm_leaders *l = p->leaders;
    const whm_blocks *from = whm_in_place(&coll->send) ? &coll->recv : &coll->send;
    int groups = l->groups, each = l->size[0];
    MPI_Count block = whm_block_bytes(&coll->recv, 0), all = coll->comm->size * block;
    whm_type *byte = whm_type_of(MPI_BYTE);
    char *out = whm_malloc(2 * (size_t)all), *in = out + all;
    if (!out)
        whm_process_no_memory();
    for (int i = 0; i < coll->comm->size; i++)
        note(p, whm_copy(out + (l->place[i] * groups + l->group[i]) * block, block, byte,
                         whm_block_at(from, i), from->count, from->type));
    run(p, &(whm_coll){.kind = WHM_ALLTOALL,
                       .comm = l->inside,
                       .send = {.buf = out, .count = groups * block, .type = byte},
                       .recv = {.buf = in, .count = groups * block, .type = byte}});
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < each; i++)
            memcpy(out + (g * each + i) * block, in + (i * groups + g) * block, (size_t)block);
    if (p->error != MPI_ERR_PROC_ABORTED)
        note(p, swap(p, out, block));
    free(out);
}

typedef struct by_leaders {
    void (*carry_out)(phases *p);
    bool in_order;   // only where groups are runs of ranks
    bool even;       // only where they have the same size
    MPI_Count most;  // bytes, as whm_coll_bytes counts
} by_leaders;

static const by_leaders ways[WHM_COLL_KINDS] = {
    [WHM_BARRIER] = {barrier, false, false, PTRDIFF_MAX},
    [WHM_BCAST] = {bcast, false, false, PTRDIFF_MAX},
    [WHM_REDUCE] = {reduce, false, false, PTRDIFF_MAX},
    [WHM_ALLREDUCE] = {allreduce, false, false, PTRDIFF_MAX},
    // Beyond, all that is copied on the way costs more than it saves.
    [WHM_ALLTOALL] = {alltoall, true, true, 8 << 10},
    [WHM_ALLGATHER] = {allgather, true, false, 2 << 20},
};

// run_by_leaders returns false if it is none for leaders.
static bool run_by_leaders(const whm_coll *coll, int *error) {
    const by_leaders *way = &ways[coll->kind];
    whm_comm *comm = coll->comm;
    const whm_leaders *l = way->carry_out ? whm_leaders_of(comm) : NULL;
    if (!l || whm_coll_bytes(coll) > way->most || (way->even && !l->even) ||
        (!l->in_order && (way->in_order || (coll->op && !coll->op->commutes))))
        return false;
    int group = l->group[comm->rank], place = l->place[comm->rank];
    phases p = {.leaders = l,
                .coll = coll,
                .group = group,
                .place = place,
                .alone = l->size[group] == 1,
                .leads = place == FIRST};
    way->carry_out(&p);
    *error = p.error == MPI_ERR_PROC_ABORTED ? whm_leaders_give_up(comm) : p.error;
    return true;
}

int whm_coll_carry_out(const whm_coll *coll) {
    int error;
    if (whm_shared_run(coll, &error) ||
        (!whm_coll_no_data(coll) &&
         (whm_coll_compose(coll, whm_coll_carry_out, &error) || run_by_leaders(coll, &error))))
        return error;
    whm_schedule s;
    whm_schedule_init(&s, coll->comm, coll->op);
    whm_schedule_tag(&s);
    error = whm_coll_build(&s, coll, false);
    if (error == MPI_SUCCESS)
        error = whm_schedule_run(&s);
    whm_schedule_fini(&s);
    return error;
}
