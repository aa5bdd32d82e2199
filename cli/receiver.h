// SPDX-License-Identifier: BSD-3-Clause
//
// The receiving side of transfers: any number of senders at once, each a session of its own.
//
// A session keeps a window of object receives posted and handles what arrives in the order of the
// sends.  It is one receive wide, and costs a few KiB, until a first good object has come; who says
// nothing is dropped after a while.  Memory for frames is given out when the head of an object says
// that it needs some, and only as much as a part of a file needs.  Sessions, their windows and the
// lines that they cause are bounded, per peer and in total.
//
// Hashing is done by threads of its own (hasher.h); a part keeps its place in the window until it is
// hashed, so that what waits for it is bounded too.
//
// Whatever a sender does or fails to do ends at most its own session: what it had begun is
// removed and reported.  The thread that owns the worker uses a receiver.
#ifndef CLI_RECEIVER_H
#define CLI_RECEIVER_H

#include "cli/bar.h"
#include "cli/fold.h"
#include "cli/store.h"

#include <wherry/wherry.h>

typedef struct session session;

typedef struct receiver {
    store store;
    bar bar;
    struct hasher *hasher;
    session *sessions;    // a list of those that live, the newest first
    struct spare *spare;  // buffers of TRANSFER_PART bytes that nobody uses
    unsigned spares;
    unsigned windows;     // receives of all sessions
    uint32_t timeout_ms;  // of a sender that says nothing; 0: none
    fold_rate lines;      // that strangers may cause
    uint64_t bytes;       // received by all
    unsigned accepted;    // sessions, so far
    unsigned open;        // sessions that live
    unsigned ended;       // sessions that have ended, well or not
    unsigned failed;      // of them: those that were lost, or had an entry refused
} receiver;

// receiver_begin prepares the worker that the receiver will use.  receiver_stop ends the hashing, when all
// sessions are over and before the worker is destroyed; receiver_end frees what is left, after that.
wh_status receiver_begin(receiver *self, wh_worker *worker);
void receiver_stop(receiver *self);
void receiver_end(receiver *self);

// receiver_accept is the listener's callback; `arg` is the receiver.
void receiver_accept(wh_endpoint *ep, void *arg);

// receiver_reap goes on with sessions whose parts have been hashed, ends those that are silent and frees
// those that have ended.  Not from a callback; whenever the worker was woken.
void receiver_reap(receiver *self);

// receiver_abort ends all sessions; progress the worker and reap until self->open is 0.
void receiver_abort(receiver *self);

#endif
