// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that are lost, of a job that goes on: what waits for a message of theirs ends with an error.
//
// A collective ends at all ranks when one of its communicator's is gone.  Those that are left learn of it at different times, and each of them
// gives the communicator's collectives up then, for good: it waits for nobody there any more, and drops what others send it.
#include <stdlib.h>

#include "mpi/base/process.h"
#include "mpi/comm/context.h"
#include "mpi/p2p/p2p.h"

bool whm_comm_bereft(const whm_comm *comm) {
    if (__builtin_expect(!whm_process_here.losses, 1))
        return false;
    while (comm->over)
        comm = comm->over;
    const whm_group *groups[2] = {comm->group, comm->remote};
    for (int g = 0; g < 2 && groups[g]; g++)
        for (int i = 0; i < groups[g]->size; i++)
            if (whm_is_gone(whm_group_world(groups[g], i)))
                return true;
    return false;
}

// ---- Giving up collectives.

static void drop(whm_match *match, whm_arrival *a) {
    whm_transfer *from = a->from;
    whm_match_remove(match, a);
    if (a->am)
        wh_am_drop(a->am);
    free(a->packed);
    whm_match_forget(match, a);
    if (!from)
        return;
    from->state &= (uint8_t)~WHM_WAITS_MATCH;
    whm_finish(from, MPI_ERR_PROC_ABORTED);
}

static whm_arrival *find_of(const whm_match *match, uint32_t context) {
    whm_arrival *a = match->all.first;
    while (a && a->env.context != context)
        a = a->all_next;
    return a;
}

int whm_comm_give_up(const whm_comm *comm) {
    whm_match *match = comm->owner->match;
    whm_arrival *a;
    whm_context_end(comm->owner, comm->context);
    while ((a = find_of(match, whm_context_of(comm, WHM_COLL))))
        drop(match, a);
    return whm_fail(MPI_ERR_PROC_ABORTED,
                    "a process of the communicator has ended before its time");
}

bool whm_is_given_up(const whm_rank *rank, uint32_t context) {
    return whm_process_here.losses && whm_space_of(context) == WHM_COLL &&
           whm_context_ended(rank, context >> 2);
}

// ---- Receives and sends.

int whm_may_still_come(whm_comm *comm, bool collective, int source) {
    unsigned losses = whm_process_here.losses;
    if (__builtin_expect(!losses, 1))
        return MPI_SUCCESS;
    if (collective)
        return whm_comm_bereft(comm) ? whm_comm_give_up(comm) : MPI_SUCCESS;
    if (source >= 0)
        return whm_is_gone(whm_group_world(whm_comm_peers(comm), source)) ? whm_gone_rank(source)
                                                                          : MPI_SUCCESS;
    if (comm->losses_told == losses || !whm_comm_bereft(comm))
        return MPI_SUCCESS;
    comm->losses_told = losses;
    return whm_fail(MPI_ERR_PROC_ABORTED,
                    "a process of the communicator has ended before its time");
}

static bool is_hopeless(const whm_transfer *t) {
    if (t->peer == MPI_ANY_SOURCE || whm_space_of(t->context) == WHM_COLL)
        return whm_comm_bereft(t->comm);
    return whm_is_gone(whm_group_world(whm_comm_peers(t->comm), t->peer));
}

static whm_transfer *find_hopeless(const whm_match *match) {
    for (int i = 0; i <= WHM_BUCKETS; i++)
        for (whm_transfer *t = i < WHM_BUCKETS ? match->posted[i].first : match->wild.first; t;
             t = t->next)
            if (is_hopeless(t))
                return t;
    return NULL;
}

static void end(whm_match *match, whm_transfer *t) {
    whm_match_unpost(match, t);
    t->state &= (uint8_t)~WHM_WAITS_MATCH;
    if (t->peer == MPI_ANY_SOURCE)
        t->comm->losses_told = whm_process_here.losses;
    if (whm_space_of(t->context) == WHM_COLL)
        (void)whm_comm_give_up(t->comm);
    whm_finish(t, MPI_ERR_PROC_ABORTED);
}

// What ends here may begin something new, so each search begins anew.
void whm_p2p_lost(void) {
    const whm_process *p = &whm_process_here;
    for (int i = 0; i < p->local; i++) {
        whm_match *match = p->rank[i] ? p->rank[i]->match : NULL;
        whm_transfer *t;
        while (match && (t = find_hopeless(match)))
            end(match, t);
        if (match)
            whm_sync_lost(match);
    }
}
