// SPDX-License-Identifier: BSD-3-Clause
//
// Generalized requests: operations of the program's own.
#include "mpi/base/lock.h"
#include "mpi/bodies.h"
#include "mpi/p2p/request.h"

typedef struct generalized {
    whm_request r;
    MPI_Grequest_query_function *query_fn;
    MPI_Grequest_free_function *free_fn;
    MPI_Grequest_cancel_function *cancel_fn;
    void *state;
} generalized;

static int query(whm_request *request, MPI_Status *status) {
    const generalized *g = (const generalized *)request;
    whm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    whm_go_out();
    int rc = g->query_fn ? g->query_fn(g->state, status) : MPI_SUCCESS;
    whm_come_back();
    return rc;
}

static int cancel(whm_request *request) {
    const generalized *g = (const generalized *)request;
    whm_go_out();
    int rc = g->cancel_fn ? g->cancel_fn(g->state, request->complete) : MPI_SUCCESS;
    whm_come_back();
    return rc;
}

static int release(whm_request *request) {
    generalized *g = (generalized *)request;
    MPI_Grequest_free_function *free_fn = g->free_fn;
    g->free_fn = NULL;
    whm_go_out();
    int rc = free_fn ? free_fn(g->state) : MPI_SUCCESS;
    whm_come_back();
    return rc;
}

// One that the program has freed before it was complete: nobody hears of an error.
static void end(whm_request *request) {
    (void)release(request);
}

static const whm_request_ops ops = {.text = "generalized request",
                                    .cancel = cancel,
                                    .end = end,
                                    .query = query,
                                    .release = release};

int mpi_grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                       MPI_Grequest_cancel_function *cancel_fn, void *state,
                       whm_request **request) {
    generalized *g = (generalized *)whm_request_new(&ops, sizeof(*g), NULL, false);
    if (!g)
        return whm_no_memory();
    g->query_fn = query_fn;
    g->free_fn = free_fn;
    g->cancel_fn = cancel_fn;
    g->state = state;
    *request = &g->r;
    return MPI_SUCCESS;
}

int mpi_grequest_complete(MPI_Request handle) {
    whm_request *request = whm_request_of(handle);
    if (!request || request->ops != &ops || request->complete)
        return whm_fail(MPI_ERR_REQUEST,
                        "this is no request of MPI_Grequest_start that is still under way");
    whm_request_done(request);
    return MPI_SUCCESS;
}
