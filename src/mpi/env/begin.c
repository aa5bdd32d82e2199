// SPDX-License-Identifier: BSD-3-Clause
//
// The order in which the parts begin is that of their floors: each may use those before it.  They end the other way round.
#include "mpi/env/begin.h"

#include <stdio.h>

#include "mpi/base/process.h"
#include "mpi/comm/comm.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/make.h"
#include "mpi/env/attr.h"
#include "mpi/env/dump.h"
#include "mpi/env/errhandler.h"
#include "mpi/env/errors.h"
#include "mpi/env/info.h"
#include "mpi/p2p/p2p.h"
#include "mpi/type/op.h"

// Error handlers and infos are there before MPI_Init, so the first rank has them from the start of the program on.
void whm_rank_early(whm_rank *rank) {
    whm_errhandlers_begin(rank);
    whm_infos_begin(rank);
}

__attribute__((constructor)) static void before_init(void) {
    whm_rank_early(whm_self);
}

int whm_job_begin(int level) {
    if (whm_self->phase == WHM_FINALIZED)
        return whm_fail(MPI_ERR_OTHER, "this process has left its job and cannot come back");
    if (whm_self->holds++) {
        if (level > whm_process_here.level && !whm_process_here.virtual)
            whm_process_level(level);
        return MPI_SUCCESS;
    }
    whm_compare_read_setting();
    int rc = whm_process_begin(level);
    if (rc == MPI_SUCCESS)
        rc = whm_types_begin(whm_self);
    if (rc == MPI_SUCCESS)
        rc = whm_ops_begin(whm_self);
    if (rc == MPI_SUCCESS)
        rc = whm_comms_begin(whm_self);
    if (rc == MPI_SUCCESS && !whm_self->match)
        rc = whm_match_begin(whm_self);
    if (rc == MPI_SUCCESS)
        rc = whm_p2p_begin();
    if (rc == MPI_SUCCESS) {
        whm_dump_begin();
        whm_self->phase = WHM_RUNNING;
    } else {
        whm_self->holds--;
    }
    return rc;
}

// leave leaves the job with the only rank of this process; of several none does, as messages of others come in.
static int leave(void) {
    // What was sent must be with the others before this process is gone.  One that is gone already has taken it.
    (void)whm_process_flush();
    int rc = whm_process_end();
    if (rc == MPI_SUCCESS)
        whm_match_end(whm_self);
    return rc;
}

// What a rank says that has come to its end: a message of a collective is something else, nearly always.
static const unsigned char end_word = 0xE7;

static int await_end_of(whm_comm *comm, int rank, int tag) {
    unsigned char word = 0;  // stays so when an empty message comes
    int rc = whm_recv_wait(comm, WHM_COLL, &word, 1, whm_type_of(MPI_BYTE), rank, tag,
                           MPI_STATUS_IGNORE);
    if (rc == MPI_ERR_NOT_SAME || (rc == MPI_SUCCESS && word != end_word))
        return whm_fail(
            MPI_ERR_OTHER,
            "rank %d is in a collective on MPI_COMM_WORLD that this rank has not called" WHM_CHECK_HINT,
            rank);
    return rc;
}

// come_together: rank 0 returns when all ranks of MPI_COMM_WORLD have come so far, and need nothing more from anybody; another one when it
// has told its parent in the tree that it has, with all below it.  A barrier would not do: rank 0, which ends the job, may be through it
// before others are.
static int come_together(void) {
    whm_comm *comm = whm_self->comm_world;
    int tag = whm_comm_tag(comm), rc = MPI_SUCCESS;
    for (int far = 1; rc == MPI_SUCCESS && far < comm->size; far *= 2) {
        if (comm->rank & far)
            return whm_send_wait(comm, WHM_COLL, &end_word, 1, whm_type_of(MPI_BYTE),
                                 comm->rank - far, tag, WHM_STANDARD);
        if (comm->rank + far < comm->size)
            rc = await_end_of(comm, comm->rank + far, tag);
    }
    return rc;
}

int whm_job_end(void) {
    if (--whm_self->holds)
        return MPI_SUCCESS;
    const whm_process *p = &whm_process_here;
    if (p->bereft && !p->stays)
        return whm_fail(MPI_ERR_PROC_ABORTED, "not all of the job's processes can be reached");
    int rc = whm_process_flush();
    if (rc == MPI_SUCCESS) {
        if (whm_comm_ops.leave)
            whm_comm_ops.leave(whm_self->comm_world);
        rc = come_together();
    }
    if (rc == MPI_ERR_PROC_ABORTED && p->stays)
        rc = MPI_SUCCESS;  // those that are left do not wait for each other
    if (rc == MPI_SUCCESS && !p->virtual)
        rc = leave();
    if (rc != MPI_SUCCESS)
        return rc;
    whm_comms_end(whm_self);
    whm_ops_end(whm_self);
    whm_types_end(whm_self);
    whm_keys_end(whm_self);
    whm_errors_end(whm_self);
    whm_self->phase = WHM_FINALIZED;
    return MPI_SUCCESS;
}

// ---- What is left.  Of collectives there may be something of others, who are further in the end.

static size_t posted(const whm_match *match) {
    size_t n = 0;
    for (int i = 0; i <= WHM_BUCKETS; i++) {
        const whm_queue *queue = i < WHM_BUCKETS ? &match->posted[i] : &match->wild;
        for (const whm_transfer *t = queue->first; t; t = t->next)
            n += whm_space_of(t->context) != WHM_COLL;
    }
    return n;
}

// unreceived counts the program's messages; *first is the oldest.
static size_t unreceived(const whm_match *match, const whm_arrival **first) {
    size_t n = 0;
    for (const whm_arrival *a = match->all.last; a; a = a->all_prev) {
        if (whm_space_of(a->env.context) == WHM_COLL)
            continue;
        *first = a;
        n++;
    }
    return n;
}

void whm_tell_leaks(const whm_rank *rank) {
    const whm_arrival *first = NULL;
    size_t receives = posted(rank->match), messages = unreceived(rank->match, &first);
    if (receives)
        fprintf(stderr, "MPI rank %d: MPI_Finalize: %zu receive%s no message has matched\n",
                rank->world, receives, receives == 1 ? " was posted that" : "s were posted that");
    if (messages)
        fprintf(stderr,
                "MPI rank %d: MPI_Finalize: %zu message%s never received; the first has tag %d, "
                "%llu bytes, from rank %d of its communicator\n",
                rank->world, messages, messages == 1 ? " was" : "s were", first->env.tag,
                (unsigned long long)first->bytes, first->env.source);
    if (rank->requests > 0)
        fprintf(stderr,
                "MPI rank %d: MPI_Finalize: %d request%s never completed by a wait, a test or "
                "MPI_Request_free\n",
                rank->world, rank->requests, rank->requests == 1 ? " was" : "s were");
}
