// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/p2p/buffer.h"

#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/session.h"
#include "mpi/p2p/request.h"

typedef struct whm_buffered {
    whm_transfer t;
    whm_buffer *buffer;
    MPI_Count size;
    void *copy;
    whm_type *type;
} whm_buffered;

static void end(whm_buffered *b) {
    b->buffer->used -= b->size;
    whm_space_free(b->copy, b->type);
    whm_type_release(b->type);
    free(b);
}

static void on_done(whm_transfer *t) {
    end((whm_buffered *)t);
}

static int check_space(const whm_buffer *buffer, MPI_Count size) {
    if (!buffer)
        return whm_fail(MPI_ERR_BUFFER,
                        "a buffered send needs space: attach some with MPI_Buffer_attach");
    if (buffer->address == MPI_BUFFER_AUTOMATIC || buffer->used + size <= buffer->size)
        return MPI_SUCCESS;
    return whm_fail(MPI_ERR_BUFFER,
                    "a buffered send of %lld bytes, overhead included, does not fit: %lld of %lld "
                    "attached bytes are in use",
                    (long long)size, (long long)buffer->used, (long long)buffer->size);
}

int whm_buffer_send(whm_comm *comm, const void *buf, MPI_Count count, whm_type *type, int dest,
                    int tag) {
    whm_buffer *buffer = comm->buffer    ? comm->buffer
                         : comm->session ? comm->session->buffer
                                         : whm_self->buffer;
    MPI_Count size = count * type->size + MPI_BSEND_OVERHEAD;
    if (dest == MPI_PROC_NULL)
        return MPI_SUCCESS;
    int rc = check_space(buffer, size);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_buffered *b = whm_calloc(1, sizeof(*b));
    if (!b || !(b->copy = whm_space_new(count, type))) {
        free(b);
        return whm_no_memory();
    }
    b->buffer = buffer;
    b->size = size;
    b->type = whm_retain(type);
    whm_transfer_own(&b->t, on_done, false);
    buffer->used += size;
    rc = whm_copy(b->copy, count, type, buf, count, type);
    if (rc == MPI_SUCCESS)
        rc = whm_send(&b->t, comm, WHM_POINT, b->copy, count, type, dest, tag, WHM_STANDARD);
    if (rc != MPI_SUCCESS || b->t.complete)
        end(b);
    return rc;
}

void whm_buffer_flush(const whm_buffer *buffer) {
    while (buffer && ((volatile const whm_buffer *)buffer)->used)
        whm_block();
}

// ---- Attaching.

static int attach(whm_buffer **slot, void *address, MPI_Count size) {
    if (*slot)
        return whm_fail(MPI_ERR_BUFFER,
                        "a buffer is attached already: detach it before another is attached");
    whm_buffer *buffer = whm_calloc(1, sizeof(*buffer));
    if (!buffer)
        return whm_no_memory();
    *buffer = (whm_buffer){.address = address, .size = size};
    *slot = buffer;
    return MPI_SUCCESS;
}

static int detach(whm_buffer **slot, void *address, MPI_Count *size) {
    whm_buffer *buffer = *slot;
    whm_buffer_flush(buffer);
    *(void **)address = buffer ? buffer->address : NULL;
    *size = buffer ? buffer->size : 0;
    *slot = NULL;
    free(buffer);
    return MPI_SUCCESS;
}

int mpi_buffer_attach(void *address, MPI_Count size) {
    return attach(&whm_self->buffer, address, size);
}

int mpi_buffer_detach(void *address, MPI_Count *size) {
    return detach(&whm_self->buffer, address, size);
}

int mpi_buffer_flush(void) {
    whm_buffer_flush(whm_self->buffer);
    return MPI_SUCCESS;
}

int mpi_comm_attach_buffer(whm_comm *comm, void *address, MPI_Count size) {
    return attach(&comm->buffer, address, size);
}

int mpi_comm_detach_buffer(whm_comm *comm, void *address, MPI_Count *size) {
    return detach(&comm->buffer, address, size);
}

int mpi_comm_flush_buffer(whm_comm *comm) {
    whm_buffer_flush(comm->buffer);
    return MPI_SUCCESS;
}

int mpi_session_attach_buffer(whm_session *session, void *address, MPI_Count size) {
    return attach(&session->buffer, address, size);
}

int mpi_session_detach_buffer(whm_session *session, void *address, MPI_Count *size) {
    return detach(&session->buffer, address, size);
}

int mpi_session_flush_buffer(whm_session *session) {
    whm_buffer_flush(session->buffer);
    return MPI_SUCCESS;
}

// ---- Flushing as a request, which has ended when the call returns.

static const whm_request_ops flush_ops = {.text = "flush of buffered sends"};

static int flush_begin(whm_comm *comm, const whm_buffer *buffer, whm_request **request) {
    whm_request *made = whm_request_new(&flush_ops, sizeof(*made), comm, false);
    if (!made)
        return whm_no_memory();
    // Messages of buffered sends leave without help of this rank but for progress, which a wait for them is as good as.
    whm_buffer_flush(buffer);
    whm_request_end(made, MPI_SUCCESS);
    *request = made;
    return MPI_SUCCESS;
}

int mpi_buffer_iflush(whm_request **request) {
    return flush_begin(NULL, whm_self->buffer, request);
}

int mpi_comm_iflush_buffer(whm_comm *comm, whm_request **request) {
    return flush_begin(comm, comm->buffer, request);
}

int mpi_session_iflush_buffer(whm_session *session, whm_request **request) {
    return flush_begin(NULL, session->buffer, request);
}
