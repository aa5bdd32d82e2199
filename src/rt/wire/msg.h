// SPDX-License-Identifier: BSD-3-Clause
//
// A message between PEs, from the send until its handler has returned.
//
// Its bytes are its own, or those of an active message that the engine keeps, which holds the sender's credit.  It belongs to
// one wire at a time; pointers of it go from thread to thread, the messages that a wire keeps for reuse do not.
#ifndef WHI_RT_WIRE_MSG_H
#define WHI_RT_WIRE_MSG_H

#include <wherry/am.h>
#include <wherry/post.h>
#include <wherry/rt.h>

#include "base/queue.h"
#include "rt/wire/envelope.h"

typedef struct whi_wire whi_wire;

// What each message needs is in the first two cache lines; what few need, behind it, is set by who needs it.
typedef struct whi_msg {
    wh_pe_msg pub;        // first
    whi_queue_node link;  // of whoever has it
    void *above;          // what the floor that has it keeps for it
    whi_wire *wire;       // of the PE that has it
    wh_am *am;            // where head and data are, until it is dropped; NULL: they are its own
    void *heap;           // a block of its data, when that does not lie behind the head
    size_t charged;       // bytes of its wire's inbox
    wh_status failed;     // why its data did not come
    bool arriving;        // its data has yet to come
    bool gated;           // it is in the queue of a gate, or was
    bool control;
    bool lent;        // its data is the memory of the program that sends it, until the call returns
    bool large;       // of no common size: it is a block
    uint8_t floor;    // whose `above` is
    uint32_t number;  // of those from its source, where there is a timeline
    struct whi_peer *peer;  // to whom it is being sent
    wh_post post;           // to a PE of the same process
    whi_queue_node ask;     // of the wire, while its data waits for space
    uint64_t order;         // of the scheduler, as `child`
    struct whi_msg *child;
    _Alignas(16) unsigned char own[];
} whi_msg;

enum { WHI_MSG_ROOM = 320 };                        // of one that is reused
#define WHI_MSG_SIZE_MAX ((size_t)PTRDIFF_MAX / 2)  // more has no memory, and sums of it no size_t

static inline whi_msg *whi_msg_of(wh_pe_msg *pub) {
    return (whi_msg *)pub;
}

// whi_msg_new makes a message with space for a head and for data, both undefined.  NULL: memory is out.
whi_msg *whi_msg_new(whi_wire *wire, size_t head_size, size_t size);

// whi_msg_put_head says how long a head is that has been written where there is space for a longer one.  The data, which is still to be
// written, has its place right behind head and envelope, so that all of it goes out in one piece.
static inline void whi_msg_put_head(whi_msg *msg, size_t head_size) {
    msg->pub.head_size = head_size;
    msg->pub.data = msg->own + whi_envelope_space_of(head_size, msg->pub.priority);
}

// whi_msg_lend makes a message whose data stays in the program's memory: whoever keeps it beyond the call makes it
// its own (whi_msg_own).  For data of WHI_MSG_LENT_MIN bytes and more; less is copied in less time than this saves.
enum { WHI_MSG_LENT_MIN = 16 << 10 };
whi_msg *whi_msg_lend(whi_wire *wire, size_t head_size, const void *data, size_t size);

// whi_msg_open makes `pub` point at the head and data of a message whose handler is about to run.  False: the engine had no
// memory to keep it, and it is lost.
bool whi_msg_open(whi_msg *msg);

// whi_msg_own returns the message with its head and data in memory of its own, so that it can be kept for as long as one likes and
// holds nothing of its sender; `msg` is gone.  The head has space to grow to `head_room` bytes.  NULL: memory is out, and
// `msg` is as it was.
whi_msg *whi_msg_own(whi_msg *msg, size_t head_room);

// whi_wire_uncharge gives bytes of the inbox back.
void whi_wire_uncharge(whi_wire *wire, size_t size);

// whi_msg_uncharge gives a message's space in the inbox back: from now on it is the program's memory.
static inline void whi_msg_uncharge(whi_msg *msg) {
    size_t size = msg->charged;
    msg->charged = 0;
    if (size)
        whi_wire_uncharge(msg->wire, size);
}

void whi_msg_free(whi_msg *msg);

#endif
