// SPDX-License-Identifier: BSD-3-Clause
//
// The program's sends and receives: blocking, nonblocking, persistent.
#include "mpi/base/raise.h"
#include "mpi/bodies.h"
#include "mpi/p2p/buffer.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

// ---- Blocking.

int mpi_send(const void *buf, MPI_Count count, whm_type *type, int dest, int tag, whm_comm *comm) {
    return whm_send_wait(comm, WHM_POINT, buf, count, type, dest, tag, WHM_STANDARD);
}

int mpi_ssend(const void *buf, MPI_Count count, whm_type *type, int dest, int tag, whm_comm *comm) {
    return whm_send_wait(comm, WHM_POINT, buf, count, type, dest, tag, WHM_SYNC);
}

int mpi_rsend(const void *buf, MPI_Count count, whm_type *type, int dest, int tag, whm_comm *comm) {
    return whm_send_wait(comm, WHM_POINT, buf, count, type, dest, tag, WHM_READY);
}

int mpi_bsend(const void *buf, MPI_Count count, whm_type *type, int dest, int tag, whm_comm *comm) {
    return whm_buffer_send(comm, buf, count, type, dest, tag);
}

int mpi_recv(void *buf, MPI_Count count, whm_type *type, int source, int tag, whm_comm *comm,
             MPI_Status *status) {
    return whm_recv_wait(comm, WHM_POINT, buf, count, type, source, tag, status);
}

int mpi_sendrecv(const void *sbuf, MPI_Count scount, whm_type *stype, int dest, int stag,
                 void *rbuf, MPI_Count rcount, whm_type *rtype, int source, int rtag,
                 whm_comm *comm, MPI_Status *status) {
    return whm_sendrecv_wait(comm, WHM_POINT, sbuf, scount, stype, dest, stag, rbuf, rcount, rtype,
                             source, rtag, status);
}

// copy_of makes a copy of what is to be sent, for calls whose buffer receives at the same time.
static int copy_of(const void *buf, MPI_Count count, whm_type *type, void **copy) {
    *copy = whm_space_new(count, type);
    if (!*copy)
        return whm_no_memory();
    int rc = whm_copy(*copy, count, type, buf, count, type);
    if (rc != MPI_SUCCESS)
        whm_space_free(*copy, type);
    return rc;
}

int mpi_sendrecv_replace(void *buf, MPI_Count count, whm_type *type, int dest, int stag, int source,
                         int rtag, whm_comm *comm, MPI_Status *status) {
    void *copy;
    int rc = copy_of(buf, count, type, &copy);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = whm_sendrecv_wait(comm, WHM_POINT, copy, count, type, dest, stag, buf, count, type, source,
                           rtag, status);
    whm_space_free(copy, type);
    return rc;
}

// ---- Nonblocking and persistent: a request with its transfer.

typedef enum point_kind { SEND, SYNC, READY, BUFFERED, RECEIVE } point_kind;

typedef struct point {
    whm_request r;
    whm_transfer t;  // its buffer, type (held), peer and tag are set with the request
    point_kind what;
} point;

static void on_done(whm_transfer *t) {
    point *p = (point *)((char *)t - offsetof(point, t));
    MPI_Status *status = &p->r.status;
    if (p->what == RECEIVE)
        whm_transfer_status(t, status);
    else
        whm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, t->cancelled);
    status->MPI_ERROR = t->error;
    whm_request_done(&p->r);
}

static int start(whm_request *request) {
    static const whm_mode modes[] = {[SEND] = WHM_STANDARD, [SYNC] = WHM_SYNC, [READY] = WHM_READY};
    point *p = (point *)request;
    whm_transfer *t = &p->t;
    int rc;
    if (p->what == RECEIVE)
        rc = whm_recv(t, request->comm, WHM_POINT, t->buf, t->count, t->type, t->peer, t->wanted);
    else if (p->what == BUFFERED)
        rc = whm_buffer_send(request->comm, t->buf, t->count, t->type, t->peer, t->wanted);
    else
        rc = whm_send(t, request->comm, WHM_POINT, t->buf, t->count, t->type, t->peer, t->wanted,
                      modes[p->what]);
    if (rc == MPI_SUCCESS && p->what == BUFFERED)
        p->t.complete = true;
    if (rc == MPI_SUCCESS && p->t.complete)
        on_done(&p->t);
    return rc;
}

static int cancel(whm_request *request) {
    whm_transfer_cancel(&((point *)request)->t);
    return MPI_SUCCESS;
}

static void end(whm_request *request) {
    whm_type_release(((point *)request)->t.type);
}

static int fail(const whm_request *request) {
    return whm_transfer_fail(&((const point *)request)->t);
}

static bool print(const whm_request *request, FILE *file) {
    return whm_print_send(&((const point *)request)->t, WHM_POINT, file);
}

static const whm_request_ops send_ops = {
    .text = "send", .start = start, .cancel = cancel, .end = end, .fail = fail, .print = print};
static const whm_request_ops recv_ops = {
    .text = "receive", .start = start, .cancel = cancel, .end = end, .fail = fail};

static point *point_new(point_kind what, const void *buf, MPI_Count count, whm_type *type, int peer,
                        int tag, whm_comm *comm, bool persistent) {
    point *p = (point *)whm_request_new(what == RECEIVE ? &recv_ops : &send_ops, sizeof(*p), comm,
                                        persistent);
    if (!p)
        return NULL;
    whm_transfer_own(&p->t, on_done, true);
    p->t.buf = (void *)(uintptr_t)buf;
    p->t.count = count;
    p->t.type = whm_retain(type);
    p->t.peer = peer;
    p->t.wanted = tag;
    p->what = what;
    return p;
}

static int begin(point_kind what, const void *buf, MPI_Count count, whm_type *type, int peer,
                 int tag, whm_comm *comm, whm_request **request) {
    if ((what == SEND || what == READY) && (*request = whm_request_sent()) &&
        whm_send_now(comm, WHM_POINT, buf, count, type, peer, tag))
        return MPI_SUCCESS;
    point *p = point_new(what, buf, count, type, peer, tag, comm, false);
    if (!p)
        return whm_no_memory();
    int rc = start(&p->r);
    whm_request *sent = rc == MPI_SUCCESS && p->r.complete && what != RECEIVE &&
                                p->r.status.MPI_ERROR == MPI_SUCCESS
                            ? whm_request_sent()
                            : NULL;
    *request = sent ? sent : &p->r;
    if (sent || rc != MPI_SUCCESS)
        whm_request_drop(&p->r);
    return rc;
}

static int prepare(point_kind what, const void *buf, MPI_Count count, whm_type *type, int peer,
                   int tag, whm_comm *comm, whm_request **request) {
    point *p = point_new(what, buf, count, type, peer, tag, comm, true);
    if (!p)
        return whm_no_memory();
    *request = &p->r;
    return MPI_SUCCESS;
}

#define FRONTS(X)                                                                                  \
    X(isend, isend, begin, SEND)                                                                   \
    X(issend, issend, begin, SYNC)                                                                 \
    X(irsend, irsend, begin, READY)                                                                \
    X(ibsend, ibsend, begin, BUFFERED)                                                             \
    X(send_init, send, prepare, SEND)                                                              \
    X(ssend_init, ssend, prepare, SYNC)                                                            \
    X(rsend_init, rsend, prepare, READY)                                                           \
    X(bsend_init, bsend, prepare, BUFFERED)
#define FRONT(name, text, how, what)                                                               \
    int mpi_##name(const void *buf, MPI_Count count, whm_type *type, int dest, int tag,            \
                   whm_comm *comm, whm_request **request) {                                        \
        return how(what, buf, count, type, dest, tag, comm, request);                              \
    }
FRONTS(FRONT)

int mpi_irecv(void *buf, MPI_Count count, whm_type *type, int source, int tag, whm_comm *comm,
              whm_request **request) {
    return begin(RECEIVE, buf, count, type, source, tag, comm, request);
}

int mpi_recv_init(void *buf, MPI_Count count, whm_type *type, int source, int tag, whm_comm *comm,
                  whm_request **request) {
    return prepare(RECEIVE, buf, count, type, source, tag, comm, request);
}

static int start_again(whm_request *request) {
    if (!request->persistent)
        return whm_fail(MPI_ERR_REQUEST, "only a persistent request can be started");
    if (request->active)
        return whm_fail(MPI_ERR_REQUEST,
                        "this persistent %s is under way: wait for it before it is started again",
                        request->ops->text);
    request->active = true;
    request->complete = false;
    request->status.MPI_ERROR = MPI_SUCCESS;
    int rc = request->ops->start(request);
    if (rc != MPI_SUCCESS)
        request->active = false;
    return rc;
}

int mpi_start(MPI_Request *handle) {
    whm_request *request = whm_request_of(*handle);
    if (!request)
        return whm_fail(MPI_ERR_REQUEST, "there is no such request to be started");
    int rc = start_again(request);
    return rc == MPI_SUCCESS ? rc : whm_blame(request->comm, rc);
}

int mpi_startall(int count, MPI_Request *handles) {
    int rc = MPI_SUCCESS;
    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        rc = mpi_start(&handles[i]);
    return rc;
}
