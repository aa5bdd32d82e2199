// SPDX-License-Identifier: BSD-3-Clause
//
// One sender as the receiver sees it: what it is sending now, and how it ended.
//
// receiver.c moves the messages; session.c knows what they mean.
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/digest.h"
#include "cli/fold.h"
#include "cli/hasher.h"
#include "cli/receiver.h"
#include "cli/transfer.h"

typedef struct session_slot {
    struct session *session;
    bool posted;  // its receive is under way
    bool full;    // it holds an object that has not been handled yet
    bool hashed;  // by `job`, which needs the object's frame until it is done
    hasher_job job;
    wh_result result;
} session_slot;

struct session {
    receiver *receiver;
    session *next;
    wh_endpoint *ep;  // NULL when it has been closed
    unsigned number;  // of those that the receiver has accepted
    digest *digest;
    session_slot slots[TRANSFER_WINDOW];  // a ring: receives complete in any order
    unsigned window;                      // slots in use: 1 until a good object has come
    unsigned head;                        // the slot whose object comes next
    unsigned kept;                        // slots before it whose objects are still being hashed
    unsigned answers;                     // under way
    size_t answer_bytes;                  // in them
    bool began;                           // an object has come
    bool complete;                        // END has come
    bool over;                            // nothing more is handled
    bool ending;    // the file is whole, but for the hashing of its last parts
    bool unhashed;  // libcrypto could not hash a part of it
    store_place place;
    store_file file;
    transfer_entry now;  // the file that is being received, or the entry just handled
    uint64_t have;       // bytes of it
    uint64_t files, bytes, refused;
    uint64_t stored;  // bytes of files that are complete
    uint64_t start_ns, heard_ns;
    fold refusals;
    char blocked[TRANSFER_NAME_MAX + 1];  // a directory that was refused: what is in it goes unsaid
    char peer[96];
};

// session_handle handles the object of a slot.  NULL, or why the sender cannot be trusted any
// further.  It may leave the slot with a job that is not done; and the session `ending`, for
// session_finish_file to be called when all jobs are.
const char *session_handle(session *self, session_slot *slot);
void session_finish_file(session *self);

// session_end reports how it went and removes a file that is not complete; `why` is NULL when the
// sender has closed in order.  Who came, sent nothing and left was no sender, and does not count
// as one: `wherry doctor` looks in like that, and so do strangers.
void session_end(session *self, const char *why);

// session_answer sends one line to the sender; in say.c.  False when the sender takes none.
bool session_answer(session *self, const char *text);

// What a session says to the user is bounded over all sessions; in say.c.
__attribute__((format(printf, 2, 3))) void receiver_complain(receiver *self, const char *format,
                                                             ...);

#endif
