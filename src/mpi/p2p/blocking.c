// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking sends and receives: transfers on the stack of who waits.
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

static void wait_for(const whm_transfer *t) {
    whm_block_until(&t->complete);
    whm_settle_notes();
}

// A send that its receiver has not taken, for a dump.
typedef struct awaited {
    whm_awaited o;
    const whm_transfer *send;
    whm_space space;
} awaited;

static bool print_awaited(const whm_awaited *o, FILE *file) {
    const awaited *a = (const awaited *)o;
    return whm_print_send(a->send, a->space, file);
}

static void wait_for_receiver(const whm_transfer *t, whm_space space) {
    awaited a = {{.print = print_awaited}, t, space};
    whm_awaits(&a.o);
    wait_for(t);
    whm_awaits_no_more(&a.o);
}

// A rank that only sends looks now and then at what has come, as that its receiver is gone, and lets the others of its process run, of which that
// may be one; and in each call while copies of what it has sent wait to be asked for.
static void look_around(void) {
    enum { SENDS = 256 };
    static unsigned sends;
    whm_settle_notes();
    if (++sends % SENDS == 0 || whm_sends_copies())
        whm_progress();
}

void whm_transfer_status(const whm_transfer *t, MPI_Status *status) {
    MPI_Count room = t->type->size * t->count;
    if (status != MPI_STATUS_IGNORE)
        whm_status_set(status, t->source, t->tag, t->bytes < room ? t->bytes : room, t->cancelled);
}

// What a blocking call uses is held until it returns: another thread may free it meanwhile.
static void hold(whm_comm *comm, whm_type *type) {
    whm_retain(comm);
    whm_retain(type);
}

static void release(whm_comm *comm, whm_type *type) {
    whm_type_release(type);
    whm_comm_release(comm);
}

static int result_of(const whm_transfer *t) {
    return t->error == MPI_SUCCESS ? t->error : whm_transfer_fail(t);
}

int whm_send_wait(whm_comm *comm, whm_space space, const void *buf, MPI_Count count, whm_type *type,
                  int dest, int tag, whm_mode mode) {
    whm_transfer t;
    whm_transfer_own(&t, NULL, true);
    if (mode != WHM_SYNC && whm_send_now(comm, space, buf, count, type, dest, tag)) {
        look_around();
        return MPI_SUCCESS;
    }
    hold(comm, type);
    int rc = whm_send_later(&t, comm, space, buf, count, type, dest, tag, mode);
    if (rc == MPI_SUCCESS) {
        if (t.complete)
            look_around();
        else
            wait_for_receiver(&t, space);
        rc = result_of(&t);
    }
    release(comm, type);
    return rc;
}

int whm_recv_wait(whm_comm *comm, whm_space space, void *buf, MPI_Count count, whm_type *type,
                  int source, int tag, MPI_Status *status) {
    whm_transfer t;
    whm_transfer_own(&t, NULL, true);
    hold(comm, type);
    int rc = whm_recv(&t, comm, space, buf, count, type, source, tag);
    if (rc == MPI_SUCCESS) {
        wait_for(&t);
        whm_transfer_status(&t, status);
        rc = result_of(&t);
    }
    release(comm, type);
    return rc;
}

static int send_and_receive(whm_transfer *send, whm_transfer *recv, whm_comm *comm, whm_space space,
                            const void *sbuf, MPI_Count scount, whm_type *stype, int dest, int stag,
                            void *rbuf, MPI_Count rcount, whm_type *rtype, int source, int rtag,
                            MPI_Status *status) {
    int rc = whm_recv(recv, comm, space, rbuf, rcount, rtype, source, rtag);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = whm_send(send, comm, space, sbuf, scount, stype, dest, stag, WHM_STANDARD);
    if (rc != MPI_SUCCESS) {
        whm_transfer_cancel(recv);
        wait_for(recv);
        return rc;
    }
    if (!send->complete)
        wait_for_receiver(send, space);
    wait_for(recv);
    whm_transfer_status(recv, status);
    return result_of(recv->error != MPI_SUCCESS ? recv : send);
}

int whm_sendrecv_wait(whm_comm *comm, whm_space space, const void *sbuf, MPI_Count scount,
                      whm_type *stype, int dest, int stag, void *rbuf, MPI_Count rcount,
                      whm_type *rtype, int source, int rtag, MPI_Status *status) {
    whm_transfer send, recv;
    whm_transfer_own(&send, NULL, true);
    whm_transfer_own(&recv, NULL, true);
    hold(comm, stype);
    hold(comm, rtype);
    int rc = send_and_receive(&send, &recv, comm, space, sbuf, scount, stype, dest, stag, rbuf,
                              rcount, rtype, source, rtag, status);
    release(comm, rtype);
    release(comm, stype);
    return rc;
}
