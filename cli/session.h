// SPDX-License-Identifier: BSD-3-Clause
//
// One sender as the receiver sees it: what it is sending now, and how it ended.
//
// receiver.c moves the messages; session.c knows what they mean.
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/digest.h"
#include "cli/receiver.h"
#include "cli/transfer.h"

typedef struct session_slot {
    struct session *session;
    char *data;   // TRANSFER_PART bytes, where frames land
    bool posted;  // its receive is under way
    bool full;    // it holds an object that has not been handled yet
    wh_result result;
} session_slot;

struct session {
    receiver *receiver;
    session *next;
    wh_endpoint *ep;  // NULL when it has been closed
    digest *digest;
    session_slot slots[TRANSFER_WINDOW];  // a ring: receives complete in any order
    unsigned head;                        // the slot whose object comes next
    unsigned answers;                     // under way
    bool began;                           // an object has come
    bool complete;                        // END has come
    bool over;                            // nothing more is handled
    store_file file;
    transfer_entry now;  // the file that is being received, or the entry just handled
    uint64_t have;       // bytes of it
    uint64_t files, bytes, refused;
    uint64_t start_ns;
    char peer[96];
};

// session_handle handles one object.  NULL, or why the sender cannot be trusted any further.
const char *session_handle(session *self, const wh_object *object);

// session_end reports how it went and removes a file that is not complete; `why` is NULL when the
// sender has closed in order.  Who came, sent nothing and left in order was no sender: `wherry doctor`
// looks in like that.
void session_end(session *self, const char *why);

// session_answer sends one line to the sender; in receiver.c.  False when the sender takes none.
bool session_answer(session *self, const char *text);

#endif
