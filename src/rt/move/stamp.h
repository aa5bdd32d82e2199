// SPDX-License-Identifier: BSD-3-Clause
//
// What a message to an element carries so that it arrives in order, what PEs tell each other about places, and both as
// bytes.
//
// A *place* is an element's stay on a PE.  Places of an element are numbered without a gap.  One that the element has
// left passes on all that arrives to the next one: places form a *path*.  The place where a message enters the path is its *entry*; entry 0 is the element's home.
// The messages of one PE with one entry are a *stream*, which ends with a *marker* that names the entry of the next stream.
// docs/design/moving.md says why this is enough.
#ifndef WHI_RT_MOVE_STAMP_H
#define WHI_RT_MOVE_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/queue.h"

#include <wherry/status.h>

enum {
    WHI_PLACE_DIMS_MAX = 6,
    WHI_PLACE_ENCODED_MAX = 96,  // bytes of a message's key and stamp, or of a control
};

// The name of an element: which collection, and where in it.  Compared and hashed as bytes: what is unused is 0.
typedef struct whi_place_key {
    uint32_t collection;
    int32_t index[WHI_PLACE_DIMS_MAX];
    uint8_t dims;
    uint8_t zero[3];
} whi_place_key;

enum {
    WHI_STAMP_SETTLED = 1,  // its place in the element's order is decided
};

typedef struct whi_place_stamp {
    uint64_t entry;   // where it entered the path; 0: its home let it in
    uint64_t via;     // the place to which its home sent it; 0: not home, or that no longer matters
    uint64_t at;      // the place that it is on its way to; 0: its home
    uint32_t source;  // PE of its sender
    uint8_t flags;
} whi_place_stamp;

// What PEs tell each other.  Those of the first group keep their order with the messages between two PEs, those of the
// second with each other.
typedef enum whi_place_kind {
    WHI_PLACE_MESSAGE,      // no control at all
    WHI_PLACE_MARKER,       // the last of a PE's stream: the next one enters at `number`
    WHI_PLACE_HOME_MARKER,  // the last that home lets in at stamp.via: from now on at `number`
    WHI_PLACE_END,          // the place before passes nothing on any more
    WHI_PLACE_IN_ORDER = WHI_PLACE_END,

    WHI_PLACE_NEW,      // the element is with me, at place `number`
    WHI_PLACE_LEAVE,    // let no more in at `number`
    WHI_PLACE_RELEASE,  // I never let anything in at `number`, of which you told me
    WHI_PLACE_KINDS
} whi_place_kind;

// A message as its place sees it: the member of a larger struct of the floor above, who sets key and incomplete.
typedef struct whi_place_message {
    whi_queue_node node;
    whi_place_key key;
    whi_place_stamp stamp;
    uint8_t kind;     // WHI_PLACE_MESSAGE
    bool incomplete;  // its data is still arriving: never when it is sent
} whi_place_message;

typedef struct whi_place_control {
    uint8_t kind;
    whi_place_key key;
    whi_place_stamp stamp;  // MARKER, HOME_MARKER, END
    uint64_t number;        // a place
} whi_place_control;

// whi_place_key_make makes a key.  WH_EINVAL: there are not 1 to 6 dimensions.
WH_CHECK wh_status whi_place_key_make(uint32_t collection, const int32_t *index, int dims,
                                      whi_place_key *key);

// whi_place_key_set fills in a key of 1 to 6 dimensions, half by half: who copies or hashes it right behind that reads what one store has
// written, and need not wait until several have left for the cache.
static inline void whi_place_key_set(whi_place_key *key, uint32_t collection, const int32_t *index,
                                     int dims) {
    typedef uint32_t half __attribute__((vector_size(16)));
    half low = {collection, (uint32_t)index[0], 0, 0}, high = {0, 0, 0, 0};
    if (dims > 1)
        low[2] = (uint32_t)index[1];
    if (dims > 2)
        low[3] = (uint32_t)index[2];
    if (dims > 3)
        high[0] = (uint32_t)index[3];
    if (dims > 4)
        high[1] = (uint32_t)index[4];
    if (dims > 5)
        high[2] = (uint32_t)index[5];
    high[3] = htole32((uint32_t)dims);  // a byte, and three that are 0
    memcpy(key, &low, sizeof(low));
    memcpy((char *)key + sizeof(low), &high, sizeof(high));
}

void whi_place_key_write(whi_writer *to, const whi_place_key *key);
void whi_place_key_read(whi_reader *from, whi_place_key *key);

// whi_place_message_write writes key and stamp; whi_place_message_read reads what PE `sender` of `pes` has written: the rest of the
// message is zero, and means nothing when the reader has failed.
void whi_place_message_write(whi_writer *to, const whi_place_message *message);
void whi_place_message_read(whi_reader *from, uint32_t sender, uint32_t pes,
                            whi_place_message *message);

// whi_place_message_encode does so into memory, at most WHI_PLACE_ENCODED_MAX bytes, and returns how many.
size_t whi_place_message_encode(const whi_place_message *message, void *bytes);

// whi_place_message_decode reads what PE `from` of `pes` has encoded, and how long it is; the rest of the message is zero.
// WH_EPROTOCOL: it is none, and *message means nothing.
WH_CHECK wh_status whi_place_message_decode(const void *bytes, size_t size, uint32_t from,
                                            uint32_t pes, whi_place_message *message, size_t *used);

// The same for a control, which has nothing behind it.
size_t whi_place_control_encode(const whi_place_control *control, void *bytes);
WH_CHECK wh_status whi_place_control_decode(const void *bytes, size_t size, uint32_t from,
                                            uint32_t pes, whi_place_control *control);

// whi_place_in_order says whether a control keeps its order with messages.
static inline bool whi_place_in_order(const whi_place_control *control) {
    return control->kind <= WHI_PLACE_IN_ORDER;
}

#endif
