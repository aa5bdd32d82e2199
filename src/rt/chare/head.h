// SPDX-License-Identifier: BSD-3-Clause
//
// What chares of different PEs say to each other, as bytes: the heads of their messages.
//
// A head is a kind, which is below 16, and its fields, little-endian.  The message's data are arguments, behind which the table of buffers lies.
// Calls, controls and states of places keep the order of each pair of PEs (WHI_PE_HEADS); all others are handled in the
// order of ordinary messages (WHI_PE_CHARES).
#ifndef WHI_RT_CHARE_HEAD_H
#define WHI_RT_CHARE_HEAD_H

#include <float.h>

#include <wherry/chare.h>

#include "rt/move/stamp.h"

// The first byte of a head is its kind, and above it what a call has that is not usual.
enum { WHI_HEAD_KIND_MASK = 0x0f };

typedef enum whi_head_kind {
    WHI_HEAD_CALL = 1,
    WHI_HEAD_CONTROL,
    WHI_HEAD_STATE,
    WHI_HEADS_IN_ORDER = WHI_HEAD_STATE,

    WHI_HEAD_CREATE,     // a collection
    WHI_HEAD_ELEMENT,    // a single chare, or an inserted element
    WHI_HEAD_BROADCAST,  // to all elements of a collection
    WHI_HEAD_FUTURE,
    WHI_HEAD_FUNCTION,
    WHI_HEAD_READONLY,
    WHI_HEAD_ARRIVED,  // of an element that has moved
    WHI_HEAD_REDUCE,
    WHI_HEAD_SECTION,
    WHI_HEAD_BALANCE,
    WHI_HEAD_CHECKPOINT,
} whi_head_kind;

typedef enum whi_collection_kind {
    WHI_SINGLES,
    WHI_GROUP,
    WHI_NODE_GROUP,
    WHI_ARRAY,
    WHI_COLLECTION_KINDS
} whi_collection_kind;

// A collection as its creator describes it.
typedef struct whi_collection_def {
    uint32_t id;
    uint8_t kind, dims;
    uint8_t flags;  // WH_ARRAY_*
    uint64_t cls, map;
    uint64_t balance;  // its strategy; 0: its elements are not balanced
    uint16_t resume;   // then, the entry
    int32_t shape[WH_CHARE_DIMS_MAX];
} whi_collection_def;

typedef enum whi_broadcast_what {
    WHI_BROADCAST_CALL,
    WHI_BROADCAST_DONE,     // elements are not inserted any more
    WHI_BROADCAST_DESTROY,  // the collection
    WHI_BROADCAST_WHATS
} whi_broadcast_what;

typedef enum whi_section_what {
    WHI_SECTION_MAKE,
    WHI_SECTION_CALL,
    WHI_SECTION_DESTROY,
    WHI_SECTION_GIVE,  // a member that is elsewhere contributes to reduction `ref`
    WHI_SECTION_WHATS
} whi_section_what;

typedef enum whi_reduce_what {
    WHI_REDUCE_PARTIAL,  // what `count` contributors have made, as data
    WHI_REDUCE_LEAVE,    // a member takes part no more from this number on
    WHI_REDUCE_JOINED,   // a PE has made `count` members, and will make no more
    WHI_REDUCE_WHATS
} whi_reduce_what;

// Steps of load balancing.  The root, which is that of reductions, asks all PEs down the tree, one thing at a time, and the answers
// are put together on their way up.
typedef enum whi_balance_what {
    WHI_BALANCE_START,     // root to itself: all elements have reached their sync point
    WHI_BALANCE_LOADS,     // how much is there to do?
    WHI_BALANCE_MOVES,     // these elements leave
    WHI_BALANCE_GOSSIP,    // tell some others of PEs below the mean
    WHI_BALANCE_TRANSFER,  // send away what is too much
    WHI_BALANCE_AFTER,     // how much is there to do now?
    WHI_BALANCE_RESUME,    // the step has ended
    WHI_BALANCE_ANSWER,    // up the tree
    WHI_BALANCE_ARRIVED,   // to the PE that an element has left
    WHI_BALANCE_KNOWN,     // PEs below the mean
    WHI_BALANCE_HEARD,     // its receipt
    WHI_BALANCE_WHATS
} whi_balance_what;

typedef enum whi_checkpoint_what {
    WHI_CHECKPOINT_ASK,    // PE 0 for one
    WHI_CHECKPOINT_WRITE,  // all to write what they have
    WHI_CHECKPOINT_WROTE,  // to PE 0
    WHI_CHECKPOINT_READ,   // all to read their share
    WHI_CHECKPOINT_ELEMENT,
    WHI_CHECKPOINT_FAILED,  // to the PE that has been asked to read one
    WHI_CHECKPOINT_DONE,    // to the PE that has asked for one: how it went
    WHI_CHECKPOINT_WHATS
} whi_checkpoint_what;

// In the place of a section: reductions that count the elements at their sync points.
#define WHI_SYNC_SECTION UINT64_MAX

enum {
    WHI_HEAD_MAX = 160,           // bytes of any head
    WHI_ENTRY_DESTROY = 0xFFFF,   // in place of an entry: the element ends
    WHI_ENTRY_NOTHING = 0xFFFE,   // a broadcast that is nothing to the element
    WHI_ENTRY_ABOVE = 0xFFFD,     // likewise: a message of the floor above
    WHI_ENTRY_FORGET = 0xFFFC,    // likewise: section `ref` is destroyed
    WHI_ENTRY_MAX = 0xFFFC,       // entries of a class
    WHI_CALL_BUFFERS_MAX = 4096,  // of a call
    WHI_WANT_SIZE = 16,
    WHI_SHARE_SIZE = 16,
};

// What a head says of a call, as members of a struct.
#define WHI_HEAD_CALL_MEMBERS                                                                      \
    whi_place_message place;                                                                       \
    int64_t ref;                                                                                   \
    uint64_t number; /* of a broadcast that follows its element, or is kept for it; 0: its turn */ \
    uint32_t from;   /* PE of the sender of that */                                                \
    uint16_t entry, buffers;                                                                       \
    bool wanted;  /* a when has asked for it */                                                    \
    bool follows; /* it was sent to all, and follows an element that has moved */

typedef struct whi_head_call {
    WHI_HEAD_CALL_MEMBERS
} whi_head_call;

typedef struct whi_head {
    uint8_t kind;
    union {
        whi_head_call call;
        whi_place_control control;
        whi_collection_def create;
        struct {
            whi_place_key key;
            uint64_t cls;  // of a single chare; 0: an inserted element
        } element;
        struct {
            uint32_t collection;
            uint64_t number;  // 0: the PE that numbers them is asked
            uint32_t source;  // PE of the sender
            uint8_t what;
            uint16_t entry;
            int64_t ref;
        } broadcast;
        struct {
            uint8_t what;
            uint32_t collection;
            uint64_t id;  // PE of the maker, and its number for it
            uint16_t entry;
            int64_t ref;
        } section;
        struct {
            uint8_t what;
            uint32_t collection;
            uint64_t section;  // 0: the whole collection
            uint64_t number;
            uint64_t count;
        } reduce;
        struct {
            uint64_t id;
            int64_t ref;
        } value;  // FUTURE, FUNCTION, READONLY
        struct {
            whi_place_key key;
            uint8_t vacant;  // 1: the element is destroyed, and its order goes home
            uint64_t cls;
            uint32_t order;   // bytes of the place's state, in front of the data
            uint32_t shares;  // behind it, in reductions of sections, WHI_SHARE_SIZE bytes each
            uint32_t wants;   // behind them, WHI_WANT_SIZE bytes each
            uint64_t above;   // bytes of the floor above, behind them
            uint64_t had,
                due;  // broadcasts: the last one that it has had, the last one that it is sure to get
            uint64_t departure;  // by which the PE that it has left knows it
            uint8_t reduces;     // 1: it takes part in reductions, and has contributed to so many
            uint64_t contributed;
            uint8_t synced;  // 1: it has what follows
            uint8_t waits;   // 1: at its sync point
            uint8_t sent;    // 1: it moves for balance
            uint64_t reached, spent;
            double told, load;
        } state;
        struct {
            uint32_t collection;
            uint64_t departure;
            uint64_t
                until;  // the element needs broadcasts up to this one from the PE that it has left
        } arrived;
        struct {
            uint8_t what;
            uint32_t collection;
            uint64_t step;
        } balance;
        struct {
            uint8_t what;
            uint32_t from;  // READ, ELEMENT: the PE that has been asked
            // WRITE: of the checkpoint; ELEMENT: packed bytes, in front of its key; ASK, DONE: what the PE that asks calls it
            uint64_t number;
        } checkpoint;
    };
} whi_head;

// whi_is_load says whether a number is a load: none is negative or not finite.
static inline bool whi_is_load(double load) {
    return load >= 0 && load <= DBL_MAX;
}

// whi_head_is_call says whether what is encoded so is a call, or nothing; whi_head_encode_call and whi_head_decode_call are
// whi_head_encode and whi_head_decode for a call, which is read into its place at once: for what is most of all.
static inline bool whi_head_is_call(const void *bytes, size_t size) {
    return size && (*(const uint8_t *)bytes & WHI_HEAD_KIND_MASK) == WHI_HEAD_CALL;
}
size_t whi_head_encode_call(const whi_head_call *call, void *bytes);
WH_CHECK wh_status whi_head_decode_call(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                                        whi_head_call *call);

// whi_head_encode writes a head, at most WHI_HEAD_MAX bytes, and returns how many.
size_t whi_head_encode(const whi_head *head, void *bytes);

// whi_head_decode reads what PE `from` of `pes` has encoded.  WH_EPROTOCOL: it is none, and *head means nothing.
WH_CHECK wh_status whi_head_decode(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                                   whi_head *head);

#endif
