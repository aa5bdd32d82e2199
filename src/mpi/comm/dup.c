// SPDX-License-Identifier: BSD-3-Clause
//
// Duplicates: a communicator of the same groups, topology and attributes, whose messages are apart.
//
// All forms do the same: the copy is made, with its attributes; then the members agree on its context, which may go on behind the program's
// back.  An intercommunicator's `local` is duplicated with it, by a second claim.
#include <assert.h>
#include <stddef.h>

#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/hints.h"
#include "mpi/comm/topology.h"
#include "mpi/p2p/request.h"

// copy makes the duplicate, but for its context.
static int copy(whm_comm *comm, const whm_info *info, whm_comm **made) {
    whm_comm *dup =
        whm_comm_new(whm_retain(comm->group), comm->remote ? whm_retain(comm->remote) : NULL,
                     (uint32_t)WHM_CONTEXT_NONE, comm);
    if (!dup)
        return whm_no_memory();
    *made = dup;
    dup->topo = whm_topo_hold(comm->topo);
    if (comm->remote) {
        dup->local = whm_comm_new(whm_retain(comm->group), NULL, (uint32_t)WHM_CONTEXT_NONE, comm);
        if (!dup->local)
            return whm_no_memory();
    }
    int rc = whm_comm_hints(dup, info);
    return rc == MPI_SUCCESS ? whm_attrs_copy(whm_comm_holder(comm), &dup->attrs) : rc;
}

// drop ends a duplicate that was not to be.
static void drop(whm_comm *dup) {
    if (!dup)
        return;
    (void)whm_attrs_delete(whm_comm_holder(dup));
    whm_comm_release(dup);
}

static int duplicate(whm_comm *comm, const whm_info *info, whm_comm **newcomm) {
    whm_comm *dup = NULL;
    int failed = copy(comm, info, &dup);
    uint32_t context = (uint32_t)WHM_CONTEXT_NONE;
    int rc = whm_claim_all(comm, failed, &context);
    assert(dup || rc != MPI_SUCCESS);  // the claim fails with the copy
    if (rc == MPI_SUCCESS)
        dup->context = context;
    if (rc == MPI_SUCCESS && comm->remote) {
        rc = whm_claim_all(comm->local, MPI_SUCCESS, &dup->local->context);
    }
    if (rc == MPI_SUCCESS)
        *newcomm = dup;
    else
        drop(dup);
    return rc;
}

int mpi_comm_dup(whm_comm *comm, whm_comm **newcomm) {
    return duplicate(comm, comm->info, newcomm);
}

int mpi_comm_dup_with_info(whm_comm *comm, whm_info *info, whm_comm **newcomm) {
    return duplicate(comm, info, newcomm);
}

// ---- The same, nonblocking.

typedef struct idup {
    whm_request r;
    whm_claim claim;   // of its context
    whm_claim inside;  // of that of its `local`
    whm_comm *dup;     // the program's, but not to be used yet
    whm_comparison
        *compared;  // of the call, before it claims anything; NULL: calls are not compared
} idup;

static int idup_fail(const whm_request *request) {
    const idup *i = (const idup *)request;
    int rc = i->compared ? whm_compare_fail(i->compared) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = whm_claim_fail(&i->claim);
    return rc == MPI_SUCCESS && i->dup->local ? whm_claim_fail(&i->inside) : rc;
}

static void idup_end(whm_request *request) {
    whm_compare_free(((idup *)request)->compared);
}

static const whm_request_ops idup_ops = {.text = "idup", .fail = idup_fail, .end = idup_end};

static void on_inside(whm_claim *claim) {
    idup *i = (idup *)((char *)claim - offsetof(idup, inside));
    if (claim->error == MPI_SUCCESS)
        i->dup->local->context = claim->context;
    whm_request_end(&i->r, claim->error);
}

static void on_claimed(whm_claim *claim) {
    idup *i = (idup *)((char *)claim - offsetof(idup, claim));
    if (claim->error == MPI_SUCCESS)
        i->dup->context = claim->context;
    if (claim->error == MPI_SUCCESS && i->dup->local)
        whm_claim_start(&i->inside);
    else
        whm_request_end(&i->r, claim->error);
}

static void on_compared(void *arg) {
    idup *i = arg;
    int error = whm_compare_error(i->compared);
    if (error == MPI_SUCCESS)
        whm_claim_start(&i->claim);
    else
        whm_request_end(&i->r, error);
}

static int start(whm_comm *comm, const whm_info *info, whm_comm **newcomm, whm_request **request) {
    idup *i = (idup *)whm_request_new(&idup_ops, sizeof(*i), comm, false);
    if (!i)
        return whm_no_memory();
    // A copy that fails, as the program's functions of attributes may have it, fails the claim everywhere.
    i->claim.failed = copy(comm, info, &i->dup);
    bool due = whm_compare_is_due(comm);
    if (!i->dup || (due && !(i->compared = whm_compare_new(comm, NULL)))) {
        drop(i->dup);
        whm_request_drop(&i->r);
        return whm_no_memory();
    }
    *newcomm = i->dup;
    *request = &i->r;
    // The order of calls decides the tags, so both are taken now.
    whm_agree_all(&i->claim.agree, comm);
    if (comm->remote)
        whm_agree_all(&i->inside.agree, comm->local);
    i->claim.done = on_claimed;
    i->inside.done = on_inside;
    if (i->compared)
        whm_compare_start(i->compared, on_compared, i);
    else
        whm_claim_start(&i->claim);
    return MPI_SUCCESS;
}

int mpi_comm_idup(whm_comm *comm, whm_comm **newcomm, whm_request **request) {
    return start(comm, comm->info, newcomm, request);
}

int mpi_comm_idup_with_info(whm_comm *comm, whm_info *info, whm_comm **newcomm,
                            whm_request **request) {
    return start(comm, info, newcomm, request);
}
