// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/agree.h"

#include <stddef.h>

#include "mpi/base/process.h"

void whm_agree_all(whm_agreement *agree, whm_comm *comm) {
    agree->comm = comm->remote ? comm->local : comm;
    agree->members = NULL;
    agree->size = comm->size;
    agree->me = comm->rank;
    agree->tag = whm_comm_tag(agree->comm);
    agree->two = comm->remote != NULL;
    agree->leader = 0;
    agree->bridge = comm;
    agree->peer = 0;
    agree->bridge_tag = agree->two ? whm_comm_tag(comm) : 0;
}

static void advance(whm_agreement *agree);

static void note(whm_agreement *agree, const whm_transfer *transfer) {
    bool odd = transfer == &agree->recv &&
               (transfer->error == MPI_ERR_TRUNCATE || transfer->bytes != sizeof(agree->heard));
    if (transfer->error != MPI_SUCCESS)
        agree->error = transfer->error;
    else if (odd)
        agree->error = MPI_ERR_TRUNCATE;
    if (odd && (transfer->error == MPI_SUCCESS || transfer->error == MPI_ERR_TRUNCATE)) {
        agree->odd = transfer->source;
        agree->odd_bytes = transfer->bytes;
    }
}

static void one_done(whm_agreement *agree, const whm_transfer *transfer) {
    note(agree, transfer);
    if (--agree->waits > 0)
        return;
    advance(agree);
}

static void on_sent(whm_transfer *transfer) {
    one_done((whm_agreement *)((char *)transfer - offsetof(whm_agreement, send)), transfer);
}

static void on_received(whm_transfer *transfer) {
    one_done((whm_agreement *)((char *)transfer - offsetof(whm_agreement, recv)), transfer);
}

// exchange starts to send what is known to `to` and to hear `from`; true: that is done already.
static bool exchange(whm_agreement *agree, whm_comm *comm, int to, int from, int tag) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    agree->send = (whm_transfer){.done = on_sent};
    agree->recv = (whm_transfer){.done = on_received};
    int rc =
        whm_recv(&agree->recv, comm, WHM_COLL, agree->heard, sizeof(agree->heard), byte, from, tag);
    if (rc != MPI_SUCCESS) {
        agree->error = rc;
        return true;
    }
    agree->waits = !agree->recv.complete;
    rc = whm_send(&agree->send, comm, WHM_COLL, agree->value, sizeof(agree->value), byte, to, tag,
                  WHM_STANDARD);
    if (rc != MPI_SUCCESS) {
        agree->error = rc;
        if (agree->waits)
            whm_transfer_cancel(&agree->recv);  // its end goes on with the error
        return agree->waits == 0;
    }
    agree->waits += !agree->send.complete;
    if (agree->waits)
        return false;
    note(agree, &agree->send);
    note(agree, &agree->recv);
    return true;
}

static int member(const whm_agreement *agree, int i) {
    i = (i % agree->size + agree->size) % agree->size;
    return agree->members ? agree->members[i] : i;
}

// round starts the next exchange, if there is one left, and says by *more whether; true: that is done already.
static bool next_round(whm_agreement *agree, bool *more) {
    *more = true;
    if (agree->pass != 1 && agree->far < agree->size) {
        int far = agree->far;
        agree->far *= 2;
        return exchange(agree, agree->comm, member(agree, agree->me + far),
                        member(agree, agree->me - far), agree->tag);
    }
    agree->far = 1;
    agree->pass++;
    if (!agree->two || agree->pass > 2) {
        *more = false;
        return true;
    }
    if (agree->pass == 1 && agree->me == agree->leader)
        return exchange(agree, agree->bridge, agree->peer, agree->peer, agree->bridge_tag);
    return true;
}

static void advance(whm_agreement *agree) {
    bool more = true;
    for (;;) {
        for (int i = 0; i < WHM_AGREED; i++)
            agree->value[i] = agree->heard[i] > agree->value[i] ? agree->heard[i] : agree->value[i];
        if (agree->error != MPI_SUCCESS)
            break;
        bool done = next_round(agree, &more);
        if (!more)
            break;
        if (!done)
            return;
    }
    agree->complete = true;
    if (agree->done)
        agree->done(agree);
    else
        whm_wake(whm_self);
}

void whm_agree(whm_agreement *agree) {
    for (int i = 0; i < WHM_AGREED; i++)
        agree->heard[i] = agree->value[i];
    agree->pass = 0;
    agree->far = 1;
    agree->waits = 0;
    agree->error = MPI_SUCCESS;
    agree->odd = -1;
    agree->complete = false;
    advance(agree);
}

int whm_agree_wait(whm_agreement *agree) {
    agree->done = NULL;
    whm_agree(agree);
    whm_block_until(&agree->complete);
    return agree->error;
}

int whm_agree_fail(const whm_agreement *agree, const char *otherwise) {
    if (agree->error == MPI_SUCCESS)
        return MPI_SUCCESS;
    return agree->odd >= 0 ? whm_other_call(agree->odd, agree->odd_bytes, sizeof(agree->heard))
                           : whm_fail(agree->error, "%s", otherwise);
}
