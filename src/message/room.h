// SPDX-License-Identifier: BSD-3-Clause
//
// The message room: endpoints on links, and the messages that meet receives there.
//
// Tagged messages, objects and active messages; their requests, their matching, their credit, and
// the end of an endpoint.  Above links; remote memory access is above this room, and is known to it
// through the table whi_message_up (endpoint.h) and the operations of its requests only.
#ifndef WHI_MESSAGE_ROOM_H
#define WHI_MESSAGE_ROOM_H

#include <wherry/am.h>
#include <wherry/object.h>

#include "base/blocks.h"
#include "base/idmap.h"
#include "link/link.h"
#include "mem/device_pool.h"
#include "mem/host_pool.h"
#include "message/match.h"

enum { WHI_MATCH_TAG, WHI_MATCH_OBJECT, WHI_MATCH_COUNT };
enum { WHI_MESSAGE_POOLS = 4, WHI_MEM_KINDS = 4 };

typedef struct whi_am_handler {
    wh_am_fn fn;
    void *arg;
} whi_am_handler;

typedef struct whi_allocator {
    wh_alloc_fn alloc;
    wh_free_fn free_fn;
    void *arg;
    size_t threshold;  // smaller frames are not asked for
    bool set;          // else the next level's counts; without `alloc`, nobody is asked
} whi_allocator;

// The operations that wait for streams of their callers' (behind.h).
typedef struct whi_behind_room {
    whi_list awaited;
    uint64_t since_ns;  // when the last one went on or was added
} whi_behind_room;

// The chunks of pinned memory (stage.h).
typedef struct whi_stage_room {
    const struct whi_stage_up *up;
    whi_list free;
    whi_list under_way;  // the copies, in the order of their submission
    uint64_t chunk_size;
    unsigned count, limit;
    bool settles;      // whi_stage_settle waits: something ends
    uint64_t without;  // chunks of payloads that went without staging
} whi_stage_room;

// Device memory that goes by offers (device_offer.h), and memory in which layouts are packed for it.
typedef struct whi_device_room {
    const struct whi_device_up *up;
    whi_device_pool packed;
    whi_list waiting;    // sends, for memory that others have
    bool look;           // at those, soon
    whi_timer patience;  // of those of which the link has no memory
    uint64_t patience_ns;
    bool came_back;  // some memory, since the timer was set
    bool stalls;     // none did, for so long
} whi_device_room;

// What handles the records of a class (deliver.h).
typedef wh_status (*whi_ordered_fn)(wh_endpoint *ep, const whi_hdr *hdr, const void *payload);
typedef wh_status (*whi_control_fn)(whi_link *link, const whi_hdr *hdr, const void *payload);
typedef struct whi_control_handler {
    whi_control_fn fn;
    size_t payload_max;
} whi_control_handler;
enum { WHI_ORDERED_CLASSES = 16, WHI_CONTROL_CLASSES = 32 };

// What the room keeps with a worker.
typedef struct whi_message_room {
    whi_link_room links;
    const struct whi_message_up *up;  // set by the room above
    size_t ep_size;  // of a whole endpoint, to the highest room's part; set by that
    whi_ordered_fn ordered[WHI_ORDERED_CLASSES];       // by class less WHI_CLASS_TAG; NULL: unknown
    whi_control_handler control[WHI_CONTROL_CLASSES];  // by class less WHI_CLASS_UNORDERED
    uint8_t *scratch;  // eager_max bytes and WHI_LONG_MAX, to put a payload together in
    uint8_t *arrived;  // eager_max bytes, for a private copy of a payload that has arrived
    whi_match match[WHI_MATCH_COUNT];
    whi_list endpoints;  // all of them
    // Operations of no endpoint: receives that have not matched, or are in need of memory only, and requests of layers.
    whi_list any_source;
    whi_pool requests;
    whi_pool messages[WHI_MESSAGE_POOLS];
    uint64_t credit_more;     // of all endpoints, beyond the setting
    whi_blocks copies;        // of payloads that were the caller's (copied.h)
    whi_hash am_handlers;     // by id
    whi_am_handler *am_last;  // the one asked for last; NULL: none
    uint16_t am_last_id;
    whi_allocator allocators[WHI_MEM_KINDS];
    whi_host_watcher frames_watcher;  // over kept memory of frames (frames.c)
    whi_timer frames_timer;
    bool frames_used;  // since its last look

    whi_list fetches;  // receives whose payloads are being fetched (offer.h), the next one first
    whi_behind_room behind;
    whi_stage_room stage;
    whi_device_room device;

    void (*prefetch)(wh_endpoint *ep);  // what credit that is owed to the peer may be used for

    // The handler of objects (object_handler.c).
    wh_object_fn object_fn;  // NULL: none
    void *object_arg;
    whi_deferred object_call;  // looks at all endpoints
    bool object_queued;        // that is to come
    bool object_starved;       // memory was wanting for a receive
    whi_list detached;         // objects that allocators have put off and that will not come
    bool object_end;           // no handler any more: the worker ends
    // Asked by others: take_object makes the receive of an object that has just arrived and that nobody else wants, or returns
    // NULL if there is no handler, or the object has to wait and is to be kept; drop_objects frees what waits for the handler
    // at an endpoint whose handle its user has released; first_lost_object returns the `arrival` of the first receive for the
    // handler that the end of its endpoint fails, UINT64_MAX if there is none.
    wh_request *(*take_object)(wh_endpoint *ep);
    void (*drop_objects)(wh_endpoint *ep);
    uint64_t (*first_lost_object)(const wh_endpoint *ep);

    // Other threads.  What is atomic shares no word with what is not (request.h says why).
    _Alignas(8) _Atomic uint32_t waiters;  // threads that sleep on some request
    _Atomic uint32_t foreign_freed;
    // The next three are guarded by the worker's foreign_lock.
    whi_pool foreign;         // requests made by other threads
    whi_list foreign_free;    // requests of the owner's pool that others have released
    whi_list foreign_aborts;  // endpoints that other threads have aborted
} whi_message_room;

static inline whi_message_room *whi_messages_of(const wh_worker *worker) {
    return (whi_message_room *)(uintptr_t)worker;
}

// How imports of one kind of handles have gone.
typedef struct whi_imports {
    bool done;   // one could be opened
    bool never;  // none could, so that none is asked for any more
} whi_imports;

// The payload of an active message that the next record brings (long.h).
typedef struct whi_follows {
    uint32_t ep, size;  // of which endpoint, so many bytes; 0: none does
    uint32_t grant;     // names the receive that gets it; 0: nobody
} whi_follows;

// What the room keeps with a link.
typedef struct whi_link_messages {
    whi_link link;
    wh_endpoint *last_ep;  // of the last message
    whi_list dirty_eps;    // endpoints with something to send
    whi_list bulks;        // granted sends, one chunk each in turn
    whi_list beside;       // those that go by the bulk lane
    whi_idmap sends;       // requests that the peer may name
    whi_idmap grants;
    whi_idmap loans;      // sends of which a lane that lends has chunks
    whi_hash announced;   // messages of the peer that nobody has asked for, by send id
    wh_request *mid;      // the send whose chunk the lane has announced and not got whole
    wh_request *landing;  // the receive that a chunk is being put into (not of a lane that lends)
    whi_follows follows;
    unsigned held;  // chunks that a lane that lends has in its hands, both ways; copies of staging
    whi_list filling;  // chunks of staging that a lane fills
    whi_list imports;  // mappings of the peer's device memory (import.h), the last used first
    unsigned import_count;
    whi_imports by_handle[2];  // of the driver's handles, and of descriptors
    bool descriptors_never;    // the peer takes none of ours
    bool packs_never;          // memory for packed layouts cannot be offered
    unsigned packed;           // sends that have some
    whi_hash eps;              // by number
    whi_list ep_list;
    uint32_t next_number;
    uint32_t peer_number;  // the highest number that the peer has opened
    // How often a send has waited for the peer in vain since one did not, and how many do not wait yet (copied.h).
    uint8_t copy_misses, copy_skips;
} whi_link_messages;

static inline whi_link_messages *whi_messages_on(const whi_link *link) {
    return (whi_link_messages *)(uintptr_t)link;
}

extern const whi_room whi_message_room_table;

#endif
