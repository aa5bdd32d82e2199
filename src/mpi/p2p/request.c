// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/p2p/request.h"

#include <string.h>

#include "mpi/base/process.h"
#include "mpi/comm/comm.h"

whm_request *whm_request_new(const whm_request_ops *ops, size_t size, whm_comm *comm,
                             bool persistent) {
    whm_request *request = whm_object_new(WHM_REQUEST, size);
    if (!request)
        return NULL;
    request->ops = ops;
    request->size = size;
    request->rank = whm_self;
    whm_self->requests++;
    request->comm = comm ? whm_retain(comm) : NULL;
    request->persistent = persistent;
    request->active = !persistent;
    return request;
}

void whm_request_drop(whm_request *request) {
    whm_comm *comm = request->comm;
    request->rank->requests -= !request->freed;
    if (request->ops->end)
        request->ops->end(request);
    whm_object_free(request, request->size);
    if (comm)
        whm_comm_release(comm);
}

void whm_request_done(whm_request *request) {
    whm_rank *rank = request->rank;
    request->complete = true;
    if (request->freed)
        whm_request_drop(request);
    whm_wake(rank);
}

static void set_empty(whm_request *request, int error) {
    whm_status_set(&request->status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    request->status.MPI_ERROR = error;
}

void whm_request_end(whm_request *request, int error) {
    set_empty(request, error);
    whm_request_done(request);
}

static const whm_request_ops sent_ops = {.text = "send"};

whm_request *whm_request_sent(void) {
    whm_request *request = whm_self->sent;
    if (request)
        return request;
    request = whm_request_new(&sent_ops, sizeof(*request), NULL, false);
    if (!request)
        return NULL;
    request->complete = true;
    whm_self->requests--;  // it is not one of the program's
    set_empty(request, MPI_SUCCESS);
    return whm_self->sent = request;
}
