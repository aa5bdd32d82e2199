// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives of intercommunicators.  Each group works among itself as an ordinary communicator does, and rank 0 of each speaks with the other
// group; where each rank has something to say to each of the others, it says it itself.
#include "mpi/coll/coll.h"

static bool leads(const whm_schedule *s) {
    return s->rank == 0;
}

static int remote_size(const whm_schedule *s) {
    return s->comm->remote->size;
}

void whm_inter_barrier(whm_schedule *s, const whm_coll *coll) {
    (void)coll;
    whm_schedule_within(s, true);
    whm_barrier_steps(s);
    if (leads(s)) {
        whm_schedule_within(s, false);
        whm_recv_bytes(s, NULL, 0, 0);
        whm_send_bytes(s, NULL, 0, 0);
        whm_step_wait(s);
        whm_schedule_within(s, true);
    }
    whm_bcast_steps(s, NULL, 0, whm_type_of(MPI_BYTE), 0);
}

void whm_inter_bcast(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    if (coll->root == MPI_PROC_NULL)
        return;
    if (coll->root == MPI_ROOT) {
        whm_step_send(s, data->buf, data->count, data->type, 0);
        return;
    }
    if (leads(s))
        whm_step_recv(s, data->buf, data->count, data->type, coll->root);
    whm_step_wait(s);
    whm_schedule_within(s, true);
    whm_bcast_steps(s, data->buf, data->count, data->type, 0);
}

void whm_inter_gather(whm_schedule *s, const whm_coll *coll) {
    if (coll->root >= 0)
        whm_send_block(s, &coll->send, 0, coll->root);
    for (int i = 0; coll->root == MPI_ROOT && i < remote_size(s); i++)
        whm_recv_block(s, &coll->recv, i, i);
}

void whm_inter_scatter(whm_schedule *s, const whm_coll *coll) {
    if (coll->root >= 0)
        whm_recv_block(s, &coll->recv, 0, coll->root);
    for (int i = 0; coll->root == MPI_ROOT && i < remote_size(s); i++)
        whm_send_block(s, &coll->send, i, i);
}

// Allgather and all to all: as if the smaller group had as many ranks as the larger one, in round i each sends to the rank i places on and hears
// from the one i places back, so that both sides of a message meet in one round.
void whm_inter_exchange(whm_schedule *s, const whm_coll *coll) {
    enum { WINDOW = 32 };  // rounds under way at once
    bool gather = coll->kind == WHM_ALLGATHER || coll->kind == WHM_ALLGATHERV;
    int remote = remote_size(s), rounds = s->size > remote ? s->size : remote;
    for (int i = 0; i < rounds; i++) {
        int to = (s->rank + i) % rounds, from = (s->rank - i + rounds) % rounds;
        if (from < remote)
            whm_recv_block(s, &coll->recv, from, from);
        if (to < remote)
            whm_send_block(s, &coll->send, gather ? 0 : to, to);
        if (i % WINDOW == WINDOW - 1)
            whm_step_wait(s);
    }
}

// What the own group's operands come to, at its rank 0.
static const void *group_result(whm_schedule *s, const void *buf, MPI_Count count, whm_type *type) {
    whm_schedule_within(s, true);
    const void *result = whm_reduce_steps(s, buf, count, type, 0, NULL);
    whm_schedule_within(s, false);
    return result;
}

void whm_inter_reduce(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    if (coll->root == MPI_PROC_NULL)
        return;
    if (coll->root == MPI_ROOT) {
        whm_step_recv(s, data->buf, data->count, data->type, 0);
        return;
    }
    const void *result = group_result(s, coll->send.buf, data->count, data->type);
    if (result && leads(s))
        whm_step_send(s, result, data->count, data->type, coll->root);
}

static void swap_results(whm_schedule *s, const void *ours, void *theirs, MPI_Count count,
                         whm_type *type) {
    if (!leads(s))
        return;
    whm_step_recv(s, theirs, count, type, 0);
    whm_step_send(s, ours, count, type, 0);
    whm_step_wait(s);
}

void whm_inter_allreduce(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    const void *ours = group_result(s, coll->send.buf, data->count, data->type);
    if (s->error)
        return;
    swap_results(s, ours, data->buf, data->count, data->type);
    whm_schedule_within(s, true);
    whm_bcast_steps(s, data->buf, data->count, data->type, 0);
}

void whm_inter_reduce_scatter(whm_schedule *s, const whm_coll *coll) {
    whm_type *type = coll->recv.type;
    MPI_Count count = 0;
    for (int i = 0; i < s->size; i++)
        count += whm_block_count(&coll->recv, i);
    const void *ours = group_result(s, coll->send.buf, count, type);
    whm_blocks theirs = coll->recv;
    theirs.buf = leads(s) ? whm_schedule_space(s, count, type) : NULL;
    if (s->error || !whm_stack_blocks(s, &theirs))
        return;
    swap_results(s, ours, theirs.buf, count, type);
    whm_schedule_within(s, true);
    MPI_Count mine = whm_block_count(&theirs, s->rank);
    if (!leads(s)) {
        if (mine * type->size > 0)
            whm_step_recv(s, coll->recv.buf, mine, type, 0);
        return;
    }
    for (int i = 1; i < s->size; i++)
        whm_send_block(s, &theirs, i, i);
    whm_step_copy(s, coll->recv.buf, mine, type, theirs.buf, mine, type);
}
