// SPDX-License-Identifier: BSD-3-Clause
//
// Transfers: one message from a rank to a rank, sent or received.
//
// A transfer lies in its owner's memory (a request, a step of a collective, the stack of a blocking call) and completes once, in progress,
// unless the call that starts it says that it is done already.  Ranks are those of the communicator; for an intercommunicator, of its
// remote group.
#ifndef WHM_P2P_TRANSFER_H
#define WHM_P2P_TRANSFER_H

#include "mpi/comm/comm.h"
#include "mpi/type/type.h"

// Messages of the program, those that collectives send on the same communicator, and partitioned ones are apart: they never match each
// other.
typedef enum whm_space { WHM_POINT, WHM_COLL, WHM_PARTITIONED } whm_space;
static inline uint32_t whm_context_of(const whm_comm *comm, whm_space space) {
    return comm->context << 2 | (uint32_t)space;
}

static inline whm_space whm_space_of(uint32_t context) {
    return (whm_space)(context & 3);
}

typedef enum whm_mode { WHM_STANDARD, WHM_SYNC, WHM_READY } whm_mode;

typedef struct whm_transfer whm_transfer;
struct whm_transfer {
    // Set by the owner before the start (whm_transfer_own).
    void (*done)(whm_transfer *transfer);
    bool owner_holds;
    // How it ended, from then on.
    int error;        // an MPI error class
    int source, tag;  // of the message received
    bool cancelled;
    bool complete;
    MPI_Count bytes;  // received
    // The rest is the affair of src/mpi/p2p.  What the start is given stays as it is until the end.
    whm_rank *rank;
    whm_comm *comm;
    whm_type *type;
    void *buf;
    MPI_Count count;
    struct whm_transfer *next, *prev;  // where it waits
    uint64_t age;
    uint32_t context;
    int peer;     // whom it is to, or from; MPI_ANY_SOURCE
    int wanted;   // tag; MPI_ANY_TAG
    uint32_t id;  // of a synchronous send: what its answer names
    uint8_t state;
    bool plain;  // the CPU may touch `buf`
};

// whm_transfer_own sets what its owner does for one that has not started.  `done` is called once, when it has completed, unless the start said
// that it has; it may start transfers and free this one.  NULL: nothing.  `owner_holds`: communicator and type, until then; otherwise the
// transfer does.
static inline void whm_transfer_own(whm_transfer *transfer, void (*done)(whm_transfer *transfer),
                                    bool owner_holds) {
    transfer->done = done;
    transfer->owner_holds = owner_holds;
}

// whm_send starts a send, whm_recv posts a receive.  MPI_SUCCESS: look at transfer->complete, true: done, and `done` will not be called.
// An error: nothing has begun.  MPI_PROC_NULL completes at once.  The communicator and the type are held until it completes, if
// the owner does not.
int whm_send(whm_transfer *transfer, whm_comm *comm, whm_space space, const void *buf,
             MPI_Count count, whm_type *type, int dest, int tag, whm_mode mode);
int whm_recv(whm_transfer *transfer, whm_comm *comm, whm_space space, void *buf, MPI_Count count,
             whm_type *type, int source, int tag);

// whm_transfer_cancel ends a receive that nothing has matched, and a send of which nobody has heard: it completes with `cancelled`, within the
// call or later; another one completes as it would have.
void whm_transfer_cancel(whm_transfer *transfer);

// whm_comm_bereft says whether a rank of the communicator is gone, of a job that goes on.  whm_comm_give_up has this rank wait for no collective on
// it any more, and is whm_fail for that.
bool whm_comm_bereft(const whm_comm *comm);
int whm_comm_give_up(const whm_comm *comm);

// whm_other_call is whm_fail for a message of a collective that is not of the call that this rank is in.
static inline int whm_other_call(int rank, MPI_Count bytes, MPI_Count expected) {
    return whm_fail(MPI_ERR_NOT_SAME,
                    "rank %d has sent %lld bytes where this rank expects %lld: it is in another "
                    "collective call" WHM_CHECK_HINT,
                    rank, (long long)bytes, (long long)expected);
}

// The same, waiting: what blocking calls do.  A status may be MPI_STATUS_IGNORE.
int whm_send_wait(whm_comm *comm, whm_space space, const void *buf, MPI_Count count, whm_type *type,
                  int dest, int tag, whm_mode mode);
int whm_recv_wait(whm_comm *comm, whm_space space, void *buf, MPI_Count count, whm_type *type,
                  int source, int tag, MPI_Status *status);
int whm_sendrecv_wait(whm_comm *comm, whm_space space, const void *sbuf, MPI_Count scount,
                      whm_type *stype, int dest, int stag, void *rbuf, MPI_Count rcount,
                      whm_type *rtype, int source, int rtag, MPI_Status *status);

#endif
