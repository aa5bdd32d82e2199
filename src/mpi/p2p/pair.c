// SPDX-License-Identifier: BSD-3-Clause
//
// A send and a receive in one request: MPI_Isendrecv and MPI_Isendrecv_replace.
#include "mpi/bodies.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

typedef struct pair {
    whm_request r;
    whm_transfer send, recv;
    int left;                 // transfers under way, and the call that starts them
    whm_type *stype, *rtype;  // held
    void *copy;               // of what is sent
} pair;

static void leave(pair *p) {
    if (--p->left)
        return;
    whm_transfer_status(&p->recv, &p->r.status);
    p->r.status.MPI_ERROR = p->recv.error != MPI_SUCCESS ? p->recv.error : p->send.error;
    whm_request_done(&p->r);
}

static void on_sent(whm_transfer *t) {
    leave((pair *)((char *)t - offsetof(pair, send)));
}

static void on_received(whm_transfer *t) {
    leave((pair *)((char *)t - offsetof(pair, recv)));
}

static void end(whm_request *request) {
    pair *p = (pair *)request;
    if (p->copy)
        whm_space_free(p->copy, p->stype);
    whm_type_release(p->stype);
    whm_type_release(p->rtype);
}

static int fail(const whm_request *request) {
    const pair *p = (const pair *)request;
    return whm_transfer_fail(p->recv.error != MPI_SUCCESS ? &p->recv : &p->send);
}

static bool print(const whm_request *request, FILE *file) {
    const pair *p = (const pair *)request;
    return !p->send.complete && whm_print_send(&p->send, WHM_POINT, file);
}

static const whm_request_ops pair_ops = {
    .text = "send and receive", .end = end, .fail = fail, .print = print};

int mpi_isendrecv(const void *sbuf, MPI_Count scount, whm_type *stype, int dest, int stag,
                  void *rbuf, MPI_Count rcount, whm_type *rtype, int source, int rtag,
                  whm_comm *comm, whm_request **request) {
    pair *p = (pair *)whm_request_new(&pair_ops, sizeof(*p), comm, false);
    if (!p)
        return whm_no_memory();
    p->stype = whm_retain(stype);
    p->rtype = whm_retain(rtype);
    whm_transfer_own(&p->send, on_sent, true);
    whm_transfer_own(&p->recv, on_received, true);
    p->left = 3;
    int rc = whm_recv(&p->recv, comm, WHM_POINT, rbuf, rcount, rtype, source, rtag);
    if (rc != MPI_SUCCESS) {
        whm_request_drop(&p->r);
        return rc;
    }
    if (p->recv.complete)
        p->left--;
    rc = whm_send(&p->send, comm, WHM_POINT, sbuf, scount, stype, dest, stag, WHM_STANDARD);
    if (rc !=
        MPI_SUCCESS) {  // the receive stays posted: the request says what has failed when it ends
        p->send.error = rc;
        p->send.complete = true;
        whm_transfer_cancel(&p->recv);
    }
    if (p->send.complete)
        p->left--;
    leave(p);
    *request = &p->r;
    return MPI_SUCCESS;
}

int mpi_isendrecv_replace(void *buf, MPI_Count count, whm_type *type, int dest, int stag,
                          int source, int rtag, whm_comm *comm, whm_request **request) {
    void *copy = whm_space_new(count, type);
    if (!copy)
        return whm_no_memory();
    int rc = whm_copy(copy, count, type, buf, count, type);
    if (rc == MPI_SUCCESS)
        rc = mpi_isendrecv(copy, count, type, dest, stag, buf, count, type, source, rtag, comm,
                           request);
    if (rc != MPI_SUCCESS) {
        whm_space_free(copy, type);
        return rc;
    }
    pair *p = (pair *)*request;
    p->copy = copy;
    return MPI_SUCCESS;
}
