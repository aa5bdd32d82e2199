// SPDX-License-Identifier: BSD-3-Clause
//
// The sending side of a transfer: entries become objects, a few of them under way at a time.
//
// File data is read into the sender's own buffers and not mapped: a file that shrinks while it is
// read is then a short read and not a SIGBUS, and what was read is hashed while it is still in the
// cache.  The thread that owns the worker uses a sender.
#ifndef CLI_SENDER_H
#define CLI_SENDER_H

#include "cli/bar.h"
#include "cli/digest.h"
#include "cli/fold.h"
#include "cli/transfer.h"
#include "cli/walk.h"

#include <wherry/wherry.h>

typedef struct sender_slot {
    struct sender *sender;
    char *data;  // part_size bytes
    char header[TRANSFER_HEADER_MAX];
    bool busy;  // the object is under way
} sender_slot;

typedef struct sender {
    wh_worker *worker;  // borrowed
    wh_endpoint *ep;    // borrowed
    digest *digest;
    bar bar;
    uint64_t files, bytes;                // sent
    uint64_t passed;                      // bytes that were not sent because their file was refused
    uint64_t problems;                    // entries that could not be read, or were refused
    uint64_t refused;                     // of them: by the receiver
    uint64_t stored_files, stored_bytes;  // as the receiver says, when done
    wh_status lost;                       // WH_OK, or why the receiver is gone
    char cut[256];                        // what the receiver has said before it cut us off
    uint32_t timeout_ms;                  // of a receiver that takes nothing; 0: none
    uint64_t waits_ns;                    // since when nothing has moved
    fold told;                            // refusals
    char refusal[TRANSFER_ANSWER_MAX];    // the name in the last one
    size_t refusal_size;                  // bytes of it; 0: there was none
    size_t part_size;                     // bytes of data in one object
    transfer_entry part;                  // of the file that is being sent
    const char *now;  // the file that is being sent; NULL: none, or the rest is not wanted
    bool answering;   // the receive of an answer is under way
    bool done;        // the receiver has everything
    char answer[TRANSFER_ANSWER_MAX + 1];
    wh_result result;  // of an answer that was there already
    sender_slot slots[TRANSFER_WINDOW];
} sender;

// sender_init makes a sender on a connected endpoint; sender_fini frees its buffers, when the
// endpoint has been closed or aborted and progressed once.
bool sender_init(sender *self, wh_endpoint *ep, uint64_t total, uint32_t timeout_ms);
void sender_fini(sender *self);

// sender_entry sends one entry; a file with all its data, read from where it is.  False when the
// transfer cannot go on: the receiver is gone, or the user has interrupted.
bool sender_entry(sender *self, const transfer_entry *entry, const walk_at *at);

// sender_end says that this was all, and waits until the receiver has confirmed it.
bool sender_end(sender *self);

#endif
