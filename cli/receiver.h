// SPDX-License-Identifier: BSD-3-Clause
//
// The receiving side of transfers: any number of senders at once, each a session of its own.
//
// A session keeps a window of object receives posted and handles what arrives in the order of the
// sends.  Whatever a sender does or fails to do ends at most its own session: what it had begun is
// removed and reported.  The thread that owns the worker uses a receiver.
#ifndef CLI_RECEIVER_H
#define CLI_RECEIVER_H

#include "cli/bar.h"
#include "cli/store.h"

#include <wherry/wherry.h>

typedef struct session session;

typedef struct receiver {
    store store;
    bar bar;
    session *sessions;  // a list of those that live
    uint64_t bytes;     // received by all
    unsigned open;      // sessions that live
    unsigned ended;     // sessions that have ended, well or not
    unsigned failed;    // of them: those that were lost, or had an entry refused
} receiver;

// receiver_accept is the listener's callback; `arg` is the receiver.
void receiver_accept(wh_endpoint *ep, void *arg);

// receiver_reap frees sessions that have ended.  Not from a callback.
void receiver_reap(receiver *self);

// receiver_abort ends all sessions; progress the worker and reap until self->open is 0.
void receiver_abort(receiver *self);

#endif
