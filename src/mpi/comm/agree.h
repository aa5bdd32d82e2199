// SPDX-License-Identifier: BSD-3-Clause
//
// Agreement: all who take part learn the maximum of what each says, without blocking.
//
// It needs no collective of src/mpi/coll, and works where those do not: among some members of a communicator, and among two groups that have
// no intercommunicator yet.  Round k passes on, to the member 2^k further, all that was heard before, so that after log2 rounds everybody
// has heard everybody.  Two groups do so within each, then the leaders exchange, then again.
#ifndef WHM_COMM_AGREE_H
#define WHM_COMM_AGREE_H

#include "mpi/p2p/transfer.h"

enum { WHM_AGREED = 8 };

typedef struct whm_agreement whm_agreement;
struct whm_agreement {
    // Who takes part, and by which messages, of the space WHM_COLL.
    whm_comm *comm;  // an intracommunicator
    const int
        *members;  // ranks of it, the same list everywhere; NULL: all.  The caller's until the end
    int size, me;  // of the members, and which of them this is
    int tag;
    bool two;          // there is another group; for it speaks,
    int leader;        // of this one, this member, to whom the rest is known:
    whm_comm *bridge;  // where it meets the other leader,
    int peer;          // who is this rank there
    int bridge_tag;

    int64_t value[WHM_AGREED];           // what this one says; at the end the maxima
    void (*done)(whm_agreement *agree);  // at the end, in progress or in whm_agree itself
    bool complete;
    int error;  // of the messages: an MPI error class
    int odd;    // whose message was of another call; -1: all were of this one
    MPI_Count odd_bytes;

    // The rest is the affair of agree.c.
    int64_t heard[WHM_AGREED];
    whm_transfer send, recv;
    int pass, far, waits;
};

// whm_agree_all fills in who takes part: all members of a communicator, of both groups if it is an intercommunicator.  It counts as a
// collective on it: all members call it in the same order.
void whm_agree_all(whm_agreement *agree, whm_comm *comm);

// whm_agree starts; the struct stays in place until `done`, which may be NULL.  whm_agree_wait starts and waits.
void whm_agree(whm_agreement *agree);
int whm_agree_wait(whm_agreement *agree);

// whm_agree_fail is whm_fail for its error, which `otherwise` says where it has no reason of its own.
int whm_agree_fail(const whm_agreement *agree, const char *otherwise);

#endif
