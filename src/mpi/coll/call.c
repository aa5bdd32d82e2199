// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/call.h"
#include "mpi/base/process.h"
#include "mpi/coll/blocking.h"
#include "mpi/coll/choose.h"
#include "mpi/comm/compare.h"

// A collective does not begin where a rank is gone: the others may know of it already, and not come.
static int check(const whm_coll *coll) {
    int error = whm_coll_check(coll);
    if (error == MPI_SUCCESS && __builtin_expect(whm_process_here.losses > 0, 0) &&
        whm_comm_bereft(coll->comm))
        error = whm_comm_give_up(coll->comm);
    return error;
}

int whm_coll_run(const whm_coll *coll) {
    int error = check(coll);
    if (error == MPI_SUCCESS && whm_compare_is_due(coll->comm))
        error = whm_coll_compare(coll);
    if (error != MPI_SUCCESS)
        return error;
    return whm_coll_carry_out(coll);
}

typedef struct coll_request {
    whm_request request;
    whm_schedule schedule;
    whm_comparison *compared;  // it begins when that has ended; NULL: calls are not compared
} coll_request;

static void finished(whm_schedule *s) {
    whm_request *request = (void *)((char *)s - offsetof(coll_request, schedule));
    whm_request_end(request, s->error);
}

static int start(whm_request *request) {
    whm_schedule_start(&((coll_request *)request)->schedule);
    return MPI_SUCCESS;
}

static int fail(const whm_request *request) {
    const coll_request *r = (const coll_request *)request;
    int error = r->compared ? whm_compare_fail(r->compared) : MPI_SUCCESS;
    return error != MPI_SUCCESS ? error : whm_schedule_fail(&r->schedule);
}

static void end(whm_request *request) {
    coll_request *r = (coll_request *)request;
    whm_schedule_fini(&r->schedule);
    whm_compare_free(r->compared);
}

static bool print(const whm_request *request, FILE *file) {
    fprintf(file, "    a collective, %s, on %s\n", request->ops->text,
            whm_comm_title(request->comm));
    return true;
}

#define OPS(kind, name)                                                                            \
    [kind] = {.text = name, .start = start, .end = end, .fail = fail, .print = print}
static const whm_request_ops ops[WHM_COLL_KINDS] = {
    OPS(WHM_BARRIER, "barrier"),
    OPS(WHM_BCAST, "bcast"),
    OPS(WHM_GATHER, "gather"),
    OPS(WHM_GATHERV, "gatherv"),
    OPS(WHM_SCATTER, "scatter"),
    OPS(WHM_SCATTERV, "scatterv"),
    OPS(WHM_ALLGATHER, "allgather"),
    OPS(WHM_ALLGATHERV, "allgatherv"),
    OPS(WHM_ALLTOALL, "alltoall"),
    OPS(WHM_ALLTOALLV, "alltoallv"),
    OPS(WHM_ALLTOALLW, "alltoallw"),
    OPS(WHM_REDUCE, "reduce"),
    OPS(WHM_ALLREDUCE, "allreduce"),
    OPS(WHM_REDUCE_SCATTER_BLOCK, "reduce_scatter_block"),
    OPS(WHM_REDUCE_SCATTER, "reduce_scatter"),
    OPS(WHM_SCAN, "scan"),
    OPS(WHM_EXSCAN, "exscan"),
    OPS(WHM_NEIGHBOR_ALLGATHER, "neighbor_allgather"),
    OPS(WHM_NEIGHBOR_ALLGATHERV, "neighbor_allgatherv"),
    OPS(WHM_NEIGHBOR_ALLTOALL, "neighbor_alltoall"),
    OPS(WHM_NEIGHBOR_ALLTOALLV, "neighbor_alltoallv"),
    OPS(WHM_NEIGHBOR_ALLTOALLW, "neighbor_alltoallw"),
};

// Ranks may start persistent collectives in different orders, so the order in which these were made decides their tags.  The messages of two starts
// do not meet: they come in the order in which they are sent.
static int make(const whm_coll *coll, bool persistent, coll_request **out) {
    int error = check(coll);
    if (error == MPI_SUCCESS && persistent && whm_compare_is_due(coll->comm))
        error = whm_coll_compare(coll);
    if (error != MPI_SUCCESS)
        return error;
    coll_request *r = (void *)whm_request_new(&ops[coll->kind], sizeof(*r), coll->comm, persistent);
    if (!r)
        return whm_no_memory();
    whm_schedule_init(&r->schedule, coll->comm, coll->op);
    r->schedule.done = finished;
    whm_schedule_tag(&r->schedule);
    error = whm_coll_build(&r->schedule, coll, true);
    if (error != MPI_SUCCESS)
        whm_request_drop(&r->request);
    else
        *out = r;
    return error;
}

static void on_compared(void *arg) {
    coll_request *r = arg;
    int error = whm_compare_error(r->compared);
    if (error == MPI_SUCCESS)
        whm_schedule_start(&r->schedule);
    else
        whm_request_end(&r->request, error);
}

// The call returns, as a rank may come to it only when others are behind it.
static int begin_compared(coll_request *r, const whm_coll *coll) {
    r->compared = whm_coll_compare_new(coll);
    if (r->compared)
        whm_compare_start(r->compared, on_compared, r);
    else
        whm_request_drop(&r->request);
    return r->compared ? MPI_SUCCESS : whm_no_memory();
}

int whm_coll_begin(const whm_coll *coll, whm_request **request) {
    coll_request *r = NULL;
    int error = make(coll, false, &r);
    if (error == MPI_SUCCESS && whm_compare_is_due(coll->comm))
        error = begin_compared(r, coll);
    else if (error == MPI_SUCCESS)
        whm_schedule_start(&r->schedule);
    if (error == MPI_SUCCESS)
        *request = &r->request;
    return error;
}

int whm_coll_prepare(const whm_coll *coll, whm_request **request) {
    coll_request *r = NULL;
    int error = make(coll, true, &r);
    if (error == MPI_SUCCESS)
        *request = &r->request;
    return error;
}
