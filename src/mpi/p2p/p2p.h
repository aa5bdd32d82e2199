// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of this folder share, and what the start of a process calls.
#ifndef WHM_P2P_P2P_H
#define WHM_P2P_P2P_H

#include "mpi/p2p/match.h"
#include "mpi/p2p/transfer.h"

// What a transfer waits for (its `state`), and what it is.
enum {
    WHM_WAITS_BUFFER = 1 << 0,  // the engine still uses the buffer
    WHM_WAITS_MATCH = 1 << 1,   // it is posted, or, of a synchronous send, not answered
    WHM_HOLDS = 1 << 2,         // communicator and type
    WHM_IS_SEND = 1 << 3,
    WHM_IS_SYNC = 1 << 4,     // to a rank of this process
    WHM_UNANSWERED = 1 << 5,  // of a synchronous send to another one: it is in whm_match.sync
};

// whm_transfer_begin sets every field but those of whm_transfer_own, the peer and the tag.
static inline void whm_transfer_begin(whm_transfer *t, whm_comm *comm, void *buf, MPI_Count count,
                                      whm_type *type, uint8_t state) {
    t->error = MPI_SUCCESS;
    t->complete = t->cancelled = false;
    t->bytes = 0;
    t->state = state;
    t->rank = whm_self;
    t->comm = comm;
    t->type = type;
    t->buf = buf;
    t->count = count;
    t->plain = whm_plain(buf);  // which notices a device's driver that has come
}

// whm_hold keeps what a transfer needs until its end; whm_settle is that end, within the call that starts it, whm_finish is it later.
static inline void whm_hold(whm_transfer *transfer) {
    if (transfer->owner_holds)
        return;
    transfer->state |= WHM_HOLDS;
    whm_retain(transfer->comm);
    whm_retain(transfer->type);
}
void whm_settle(whm_transfer *transfer, int error);
void whm_finish(whm_transfer *transfer, int error);

// whm_print_send prints a send that its receiver has not taken, in one line of a dump; false: it is printed with all synchronous ones that wait
// for an answer.
bool whm_print_send(const whm_transfer *transfer, whm_space space, FILE *file);

// whm_may_still_come says whether a message may still come: from a rank that is there, or, each time one of the communicator was lost, once not
// from any.  Of a collective all ranks have to be there.
int whm_may_still_come(whm_comm *comm, bool collective, int source);

// whm_is_given_up says whether a message of that context is of a collective that the rank does not wait for any more.
bool whm_is_given_up(const whm_rank *rank, uint32_t context);

// whm_p2p_lost is called when a process is gone, whm_sync_lost ends synchronous sends to ranks that are gone.
void whm_p2p_lost(void);
void whm_sync_lost(whm_match *match);

// whm_send_now sends what is done within the call: a small standard message to another process.  False: it did nothing.
bool whm_send_now(const whm_comm *comm, whm_space space, const void *buf, MPI_Count count,
                  const whm_type *type, int dest, int tag);

// whm_sends_copies says whether some of what sends have copied is still under way.
bool whm_sends_copies(void);

// whm_lend notes that the engine uses the transfer's buffer from now on, whm_lent_back that it does not any more.
void whm_lend(whm_transfer *transfer);
void whm_lent_back(whm_transfer *transfer);

// whm_await_answer has a synchronous send wait for the answer that the envelope asks for.
void whm_await_answer(whm_transfer *transfer, whm_envelope *env);

// whm_sync_answered ends the wait of a rank of this process; false: it has no such send under way.
bool whm_sync_answered(int world, uint32_t id);

// whm_store begins to put a message that has come, and is still with its sender or the engine, into memory of the rank; it is there when
// arrival->am and arrival->from are NULL.  whm_store_all does so for all that a rank has not received.
void whm_store(whm_rank *rank, whm_arrival *arrival);
void whm_store_all(whm_rank *rank);

// whm_send_later is whm_send for who has asked whm_send_now.
int whm_send_later(whm_transfer *transfer, whm_comm *comm, whm_space space, const void *buf,
                   MPI_Count count, whm_type *type, int dest, int tag, whm_mode mode);

// whm_take_stored gives what has just been stored to its taker.
void whm_take_stored(whm_arrival *arrival);

// whm_to_nobody ends one with MPI_PROC_NULL.
void whm_to_nobody(whm_transfer *transfer);

// whm_matched notes which message a receive has got, and tells a synchronous sender.
void whm_matched(whm_transfer *t, const whm_envelope *env);

// whm_copy_near gives a receive what a send of this process has: an error class of the receive.
int whm_copy_near(whm_transfer *recv, const whm_transfer *send);

int whm_class_of(wh_status status);

// The handlers of active messages; whm_refuse says why one is dropped.
wh_status whm_on_message(wh_am *am, void *arg);
wh_status whm_on_matched(wh_am *am, void *arg);
wh_status whm_refuse(const wh_am *am, const char *why);

// whm_p2p_begin takes messages in from now on; once for a process that has joined its job.
int whm_p2p_begin(void);

// whm_take gives a message that was taken out of the queues to a receive: complete when it returns, or later; `done` is not called within.
void whm_take(whm_transfer *transfer, whm_arrival *arrival);

// whm_transfer_fail returns the error that a transfer has ended with, and says why in whm_self's sentence.
int whm_transfer_fail(const whm_transfer *transfer);

// whm_transfer_status writes the status of a receive that has ended.
void whm_transfer_status(const whm_transfer *transfer, MPI_Status *status);

#endif
