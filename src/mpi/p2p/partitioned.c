// SPDX-License-Identifier: BSD-3-Clause
//
// Partitioned messages: sends whose parts become ready one by one.
//
// The message leaves when its last part is ready, and all parts of a receive arrive with it: parts are counted, not sent.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/base/raise.h"
#include "mpi/bodies.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

typedef struct parts {
    whm_request r;
    whm_transfer t;
    bool sends;
    int partitions, left;  // of a send: that are not ready
    bool *ready;
    void *buf;
    MPI_Count count;  // of the whole
    whm_type *type;   // held
    int peer, tag;
} parts;

static void on_done(whm_transfer *t) {
    parts *p = (parts *)((char *)t - offsetof(parts, t));
    whm_transfer_status(t, &p->r.status);
    p->r.status.MPI_ERROR = t->error;
    whm_request_done(&p->r);
}

static int send_all(parts *p) {
    int rc = whm_send(&p->t, p->r.comm, WHM_PARTITIONED, p->buf, p->count, p->type, p->peer, p->tag,
                      WHM_STANDARD);
    if (rc == MPI_SUCCESS && p->t.complete)
        on_done(&p->t);
    return rc;
}

static int start(whm_request *request) {
    parts *p = (parts *)request;
    p->left = p->partitions;
    for (int i = 0; p->sends && i < p->partitions; i++)
        p->ready[i] = false;
    if (p->sends)
        return p->partitions ? MPI_SUCCESS : send_all(p);
    int rc =
        whm_recv(&p->t, request->comm, WHM_PARTITIONED, p->buf, p->count, p->type, p->peer, p->tag);
    if (rc == MPI_SUCCESS && p->t.complete)
        on_done(&p->t);
    return rc;
}

static void end(whm_request *request) {
    parts *p = (parts *)request;
    whm_type_release(p->type);
    free(p->ready);
}

static int fail(const whm_request *request) {
    return whm_transfer_fail(&((const parts *)request)->t);
}

static bool print(const whm_request *request, FILE *file) {
    const parts *p = (const parts *)request;
    if (!p->left)
        return whm_print_send(&p->t, WHM_PARTITIONED, file);
    if (p->peer == MPI_PROC_NULL)
        fputs("    a partitioned send to MPI_PROC_NULL", file);
    else
        fprintf(file, "    a partitioned send to rank %d",
                whm_comm_known_rank(request->comm, p->peer));
    fprintf(file, ", tag %d, on %s: %d of %d partitions are not ready\n", p->tag,
            whm_comm_title(request->comm), p->left, p->partitions);
    return true;
}

static const whm_request_ops send_ops = {
    .text = "partitioned send", .start = start, .end = end, .fail = fail, .print = print};
static const whm_request_ops recv_ops = {
    .text = "partitioned receive", .start = start, .end = end, .fail = fail};

static int prepare(bool sends, const void *buf, int partitions, MPI_Count count, whm_type *type,
                   int peer, int tag, whm_comm *comm, whm_request **request) {
    if (partitions < 0)
        return whm_fail(MPI_ERR_ARG, "there cannot be %d partitions", partitions);
    parts *p = (parts *)whm_request_new(sends ? &send_ops : &recv_ops, sizeof(*p), comm, true);
    if (!p)
        return whm_no_memory();
    p->type = whm_retain(type);
    p->ready = whm_calloc((size_t)partitions + 1, sizeof(*p->ready));
    if (!p->ready) {
        whm_request_drop(&p->r);
        return whm_no_memory();
    }
    whm_transfer_own(&p->t, on_done, true);
    p->sends = sends;
    p->partitions = partitions;
    p->buf = (void *)(uintptr_t)buf;
    p->count = count * partitions;
    p->peer = peer;
    p->tag = tag;
    *request = &p->r;
    return MPI_SUCCESS;
}

int mpi_psend_init(const void *buf, int partitions, MPI_Count count, whm_type *type, int dest,
                   int tag, whm_comm *comm, whm_info *info, whm_request **request) {
    (void)info;
    return prepare(true, buf, partitions, count, type, dest, tag, comm, request);
}

int mpi_precv_init(void *buf, int partitions, MPI_Count count, whm_type *type, int source, int tag,
                   whm_comm *comm, whm_info *info, whm_request **request) {
    (void)info;
    return prepare(false, buf, partitions, count, type, source, tag, comm, request);
}

// find resolves the request of a send that is under way, or of any receive.
static int find(MPI_Request handle, bool sends, int partition, parts **out) {
    whm_request *request = whm_request_of(handle);
    if (!request || request->ops != (sends ? &send_ops : &recv_ops))
        return whm_fail(MPI_ERR_REQUEST, "this is no request of MPI_P%s_init",
                        sends ? "send" : "recv");
    *out = (parts *)request;
    if (partition < 0 || partition >= (*out)->partitions)
        return whm_blame(request->comm, whm_fail(MPI_ERR_ARG, "there is no partition %d among %d",
                                                 partition, (*out)->partitions));
    return MPI_SUCCESS;
}

int mpi_pready(int partition, MPI_Request handle) {
    parts *p = NULL;
    int rc = find(handle, true, partition, &p);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!p->r.active)
        rc = whm_fail(MPI_ERR_REQUEST,
                      "this partitioned send has not been started: MPI_Start comes first");
    else if (p->ready[partition])
        rc = whm_fail(MPI_ERR_ARG, "partition %d is ready already", partition);
    if (rc == MPI_SUCCESS) {
        p->ready[partition] = true;
        rc = --p->left ? MPI_SUCCESS : send_all(p);
    }
    return rc == MPI_SUCCESS ? rc : whm_blame(p->r.comm, rc);
}

int mpi_pready_range(int first, int last, MPI_Request handle) {
    int rc = MPI_SUCCESS;
    for (int i = first; i <= last && rc == MPI_SUCCESS; i++)
        rc = mpi_pready(i, handle);
    return rc;
}

int mpi_pready_list(int length, const int *list, MPI_Request handle) {
    int rc = MPI_SUCCESS;
    for (int i = 0; i < length && rc == MPI_SUCCESS; i++)
        rc = mpi_pready(list[i], handle);
    return rc;
}

int mpi_parrived(MPI_Request handle, int partition, int *flag) {
    parts *p = NULL;
    int rc = find(handle, false, partition, &p);
    if (rc != MPI_SUCCESS)
        return rc;
    if (p->r.active && !p->r.complete)
        whm_progress();
    *flag = !p->r.active || p->r.complete;
    return MPI_SUCCESS;
}
