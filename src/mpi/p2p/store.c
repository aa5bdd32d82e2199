// SPDX-License-Identifier: BSD-3-Clause
//
// Messages that a rank takes along when it moves: what has come and nobody has received yet.
#include <stdio.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"

// Nobody else has the message: without memory for it, or its sender, the job cannot go on.
__attribute__((noreturn)) static void give_up(const whm_rank *rank, const char *why) {
    fprintf(stderr, "MPI rank %d: a message cannot be taken along when the rank moves: %s\n",
            rank->world, why);
    whm_job_abort(1);
}

static void on_stored(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_arrival *arrival = arg;
    whm_process_here.under_way--;
    arrival->am = NULL;
    whm_rank *rank = whm_rank_at(arrival->env.dest);
    if (result->status != WH_OK)
        give_up(rank, wh_status_text(result->status));
    if (arrival->taker)
        whm_take_stored(arrival);
    whm_wake(rank);
}

static void store_am(const whm_rank *rank, whm_arrival *arrival) {
    wh_am *am = arrival->am;
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_stored,
                       .arg = arrival,
                       .result = &result};
    if (am->data || !arrival->bytes) {
        if (arrival->bytes)
            memcpy(arrival->packed, am->data, am->size);
        arrival->am = NULL;
        wh_am_drop(am);
        return;
    }
    wh_status st = wh_am_recv(am, arrival->packed, arrival->bytes, &opts, NULL);
    if (st == WH_PENDING) {
        whm_process_here.under_way++;
        whm_process_here.started++;
        return;
    }
    if (st != WH_OK)
        give_up(rank, wh_status_text(st));
    arrival->am = NULL;
}

// A sender of this process is done, unless it waits for the receive: then it is told as one elsewhere is.
static void store_near(const whm_rank *rank, whm_arrival *arrival) {
    whm_transfer *from = arrival->from;
    if (arrival->bytes && whm_pack(from->buf, from->count, from->type, 0, arrival->packed,
                                   (size_t)arrival->bytes, 0) != WH_OK)
        give_up(rank, wh_type_error());
    arrival->from = NULL;
    from->state &= (uint8_t)~WHM_WAITS_MATCH;
    if (from->state & WHM_IS_SYNC)
        whm_await_answer(from, &arrival->env);
    else
        whm_finish(from, MPI_SUCCESS);
}

void whm_store(whm_rank *rank, whm_arrival *arrival) {
    if ((!arrival->am && !arrival->from) || arrival->packed)  // it is there, or on its way
        return;
    if (arrival->bytes && !(arrival->packed = whm_malloc_for(rank, (size_t)arrival->bytes)))
        give_up(rank, "there is no memory for it");
    if (arrival->am)
        store_am(rank, arrival);
    else
        store_near(rank, arrival);
}

void whm_store_all(whm_rank *rank) {
    for (whm_arrival *a = rank->match ? rank->match->all.first : NULL, *next; a; a = next) {
        next = a->all_next;
        whm_store(rank, a);
    }
}
