// SPDX-License-Identifier: BSD-3-Clause
//
// The inside of the ucx lane, for the files of this folder only.
//
// domain.c makes the UCP worker and hands each arriving active message to its lane; lane.c sends and puts
// records in order; bulk.c moves chunks; access.c reaches into memory; end.c closes; connect.c exchanges addresses and
// says what is used; transports.c says what could be.  Everything belongs to the thread that the domain belongs to.
#ifndef WHI_NET_UCX_UCX_LANE_H
#define WHI_NET_UCX_UCX_LANE_H

#include "base/hash.h"
#include "base/list.h"
#include "base/pool.h"
#include "mem/mem.h"
#include "net/ucx/load.h"
#include "net/ucx/ucx.h"

enum {
    WHI_UCX_AM = 0,         // the one active message id that is used
    WHI_UCX_SLOTS = 64,     // records of a lane that UCX has not taken yet
    WHI_UCX_CHUNKS = 16,    // chunks of a lane that are out, each way
    WHI_UCX_ACCESSES = 64,  // one-sided accesses of a lane that are out
    WHI_UCX_AHEAD = 65536,  // a record this far before its turn is not ours; what 16 bits tell
    WHI_UCX_CROWD =
        1
        << 20,  // bytes that a lane keeps and could handle, beyond which UCX is not asked for more
    WHI_UCX_KEPT_MAX =
        64 << 20,               // bytes that it keeps before their turn, which no honest peer needs
    WHI_UCX_KEPT_RECORDS = 16,  // so many of the largest records it keeps in any case
    WHI_UCX_CHUNK = 4 << 20,
    WHI_UCX_STAGING = 1 << 20,  // a chunk whose bytes have to be produced
};

// What each active message has besides its payload.  UCX keeps no order between its rails: `seq` does.
typedef struct whi_ucx_wire {
    whi_hdr hdr;
    uint64_t token;  // which lane of the receiver
    uint32_t seq;    // of the records and chunks of this lane and direction
    uint32_t unused;
} whi_ucx_wire;
static_assert(sizeof(whi_ucx_wire) == 48, "wire layout");
// What of it is sent as UCX's header: four bytes less and up to 48 bytes of payload still fit into one place of UCX's
// shared memory.
enum { WHI_UCX_WIRE = offsetof(whi_ucx_wire, seq) + sizeof(uint32_t) };
static_assert(WHI_UCX_WIRE == 44, "wire layout");

// The same for most small messages, whose other fields are zero: header and 8 bytes of payload then go in one cache line of
// UCX's shared memory.  `seq` has the low bits of what they continue.
typedef struct whi_ucx_brief {
    uint64_t token;
    uint16_t seq;
    uint8_t ep, cls;
    uint32_t ep_seq, tag;
} whi_ucx_brief;
enum { WHI_UCX_BRIEF = offsetof(whi_ucx_brief, tag) + sizeof(uint32_t) };
static_assert(WHI_UCX_BRIEF == 20, "wire layout");

// The fixed part of a lane's address; the worker address of UCX follows.
typedef struct whi_ucx_address_head {
    uint32_t format;  // WHI_UCX_FORMAT
    uint32_t ucx_version;
    uint64_t token;
    uint32_t eager_max, chunk_max;  // of what the side takes
    uint32_t address_size;
    uint32_t reserved;
} whi_ucx_address_head;
static_assert(sizeof(whi_ucx_address_head) == 32, "wire layout");
enum { WHI_UCX_FORMAT = 3 };

struct whi_ucx {
    ucp_context_h context;
    uint64_t memory_types;  // that UCX knows: 1 << UCS_MEMORY_TYPE_*
    int device;             // of CUDA memory that it was given last; -1: of none
    bool entered;           // that device is current
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_size;
    int fd;
    whi_hash lanes;               // by token, those that are not closed
    whi_list closing;             // those that are
    whi_list retired;             // those whose owner has all back, while UCX has not returned it
    whi_list memories, keys;      // those that UCX has; they go before it does
    whi_pool chunks;              // whi_ucx_chunk
    struct whi_ucx_lane *polled;  // the one whose upcalls may be made now
    int budget;                   // upcalls that it may still make
    int events;                   // of this poll
    unsigned strays;              // messages without a lane
    unsigned crowds;              // lanes that keep much which they could handle
};

// A record or the announcement of a chunk that could not be handled when it came.
typedef struct whi_ucx_kept {
    whi_list node;  // in the lane's list, ordered by seq
    whi_ucx_wire wire;
    void *announced;  // UCX's descriptor of a rendezvous; NULL: the payload is here
    unsigned char payload[];
} whi_ucx_kept;

// A record that UCX reads out of when it can.  Both parts go as one: a header of UCX's own would lie behind the payload, in
// a cache line that the receiver has to wait for before it can look at any other.
typedef struct whi_ucx_slot {
    struct whi_ucx_lane *lane;
    whi_ucx_wire wire;
    unsigned char payload[];
} whi_ucx_slot;

// Memory that UCX has for a while: a chunk that is out, or a one-sided access, which has `done`.
typedef struct whi_ucx_chunk {
    whi_list node;  // in the lane's list of those that are out, or of those that have ended
    struct whi_ucx_lane *lane;
    unsigned *count;  // of the lane, where it counts
    whi_ucx_wire wire;
    bool incoming;  // UCX writes the memory; else it reads it
    bool lent;      // outgoing, out of the owner's memory
    bool good;      // ended, and all bytes have moved
    void *staging;  // ours, when the owner gave no memory
    whi_span span;  // incoming: where the bytes go
    whi_lane_done_fn done;
    void *arg;
} whi_ucx_chunk;

typedef struct whi_ucx_lane {
    whi_lane lane;
    whi_ucx *ucx;
    ucp_ep_h ep;  // NULL until connected
    uint64_t token, peer_token;
    uint32_t tx_seq, rx_seq;
    size_t eager_limit, eager_max, chunk_limit, chunk_max;
    size_t short_max;     // larger payloads are not worth a try without a slot
    wh_status failing;    // the peer is lost: to be told when all that came has been read
    wh_status broken;     // told
    bool refused, space;  // a sender waits; it may go on
    unsigned slots, chunks_out, chunks_in, accesses, flushes;
    size_t kept_size;  // bytes of what is kept
    bool reads;        // it was polled for records
    bool crowd;        // counted in ucx->crowds
    whi_list kept;     // whi_ucx_kept
    whi_list out;      // whi_ucx_chunk that UCX has
    whi_list ended;    // whi_ucx_chunk that it has given back
    whi_pool slot_pool;
    const whi_ucx_owner *owner;  // NULL once retired
    bool same_host;
    char peer[64];
    // Closing (end.c).
    whi_list node;  // in ucx->closing
    bool closed, flushing, forced, disconnected, written_off;
    uint64_t deadline_ns;
} whi_ucx_lane;

static inline whi_ucx_lane *whi_ucx_lane_of(whi_lane *lane) {
    return (whi_ucx_lane *)lane;
}

// whi_ucx_wake has the lane polled.  whi_ucx_fail makes it fail for good and returns the status; whi_ucx_violated does
// that for a peer that sends what it must not.
static inline void whi_ucx_wake(whi_ucx_lane *lane) {
    if (!lane->closed && lane != lane->ucx->polled)
        lane->owner->wake(lane->lane.link);
}
wh_status whi_ucx_fail(whi_ucx_lane *lane, wh_status status);
wh_status whi_ucx_violated(whi_ucx_lane *lane, const char *what);

// whi_ucx_status translates a status of UCX.
wh_status whi_ucx_status(ucs_status_t status);

// whi_ucx_open_context makes a UCP context as the settings say, and tells the types of memory that it knows: a bit of
// ucs_memory_type_t each.
ucs_status_t whi_ucx_open_context(ucp_context_h *context, uint64_t *memory_types);

// whi_ucx_memory returns the type of the memory that a span points to; whi_ucx_memory_of that of a wh_mem_kind which UCX may
// know, UCS_MEMORY_TYPE_UNKNOWN of others.
ucs_memory_type_t whi_ucx_memory_of(int kind);
static inline ucs_memory_type_t whi_ucx_memory(const whi_span *span) {
    return span->ptr && span->kind > WH_MEM_HOST ? whi_ucx_memory_of(span->kind)
                                                 : UCS_MEMORY_TYPE_HOST;
}

// UCX relies on the CUDA context that is current, in its progress and in its arming, too.  So since it was given device memory,
// all calls that may touch that are between enter and leave; what belongs to others is called outside.  They do not nest.
// whi_ucx_enter_for is the enter of a call that gives memory to UCX.
static inline void whi_ucx_enter(whi_ucx *ucx) {
    if (__builtin_expect(ucx->device >= 0, 0))
        ucx->entered = whi_mem_cuda.foreign->enter(ucx->device) == WH_OK;
}
static inline void whi_ucx_leave(whi_ucx *ucx) {
    if (__builtin_expect(ucx->entered, 0))
        whi_mem_cuda.foreign->leave();
    ucx->entered = false;
}
void whi_ucx_enter_for(whi_ucx *ucx, const whi_span *span);

// whi_ucx_explain keeps a sentence for the calling thread and returns it.
const char *whi_ucx_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// whi_ucx_arrived takes an active message for a lane; UCS_INPROGRESS when `data` is kept (a rendezvous).
ucs_status_t whi_ucx_arrived(whi_ucx_lane *lane, const whi_ucx_wire *wire, void *data, size_t size,
                             bool announced);

// whi_ucx_space tells a sender that was refused that it may go on.
static inline void whi_ucx_space(whi_ucx_lane *lane) {
    if (!lane->refused)
        return;
    lane->refused = false;
    lane->space = true;
    whi_ucx_wake(lane);
}

// whi_ucx_refuse remembers one and returns WH_EAGAIN.
static inline wh_status whi_ucx_refuse(whi_ucx_lane *lane) {
    lane->refused = true;
    return WH_EAGAIN;
}

// whi_ucx_put sends header and payload out of a slot: WH_EAGAIN when none is free.
wh_status whi_ucx_put(whi_ucx_lane *lane, const whi_hdr *hdr, const whi_span *payload);

// whi_ucx_push is that member of the vtable.  whi_ucx_land begins to receive the announced chunk `kept`, which it frees.
// whi_ucx_settle tells of the chunks that have ended and returns how many those were.
wh_status whi_ucx_push(whi_lane *base, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                       size_t *moved);
wh_status whi_ucx_land(whi_ucx_lane *lane, whi_ucx_kept *kept);
int whi_ucx_settle(whi_ucx_lane *lane);

// whi_ucx_chunk_new takes one that counts among *count, whi_ucx_chunk_free gives it back.  whi_ucx_ended notes that UCX has
// returned it.
whi_ucx_chunk *whi_ucx_chunk_new(whi_ucx_lane *lane, bool incoming, unsigned *count);
void whi_ucx_chunk_free(whi_ucx_chunk *chunk);
void whi_ucx_ended(whi_ucx_chunk *chunk, ucs_status_t status);

// whi_ucx_release_all releases all that the domain has registered or opened, before UCX goes.
void whi_ucx_release_all(whi_ucx *ucx);

// whi_ucx_drop_kept frees what has come and was not read.
void whi_ucx_drop_kept(whi_ucx_lane *lane);

// whi_ucx_listen has UCX move what it can, unless a lane has to catch up first: it would take from the network what nobody
// handles, and the peer would never be held back.
static inline void whi_ucx_listen(whi_ucx *ucx) {
    if (ucx->crowds)
        return;
    whi_ucx_enter(ucx);
    (void)whi_ucp.ucp_worker_progress(ucx->worker);
    whi_ucx_leave(ucx);
}

// whi_ucx_close is that member.  whi_ucx_close_on takes a closing lane further; the lane may be gone after it.
void whi_ucx_close(whi_lane *base);
void whi_ucx_close_on(whi_ucx_lane *lane);
void whi_ucx_lane_end(whi_ucx_lane *lane);

void whi_ucx_describe(const whi_lane *base, char *text, size_t size);

// whi_ucx_over writes the transports of a lane, such as "rc_mlx5/mlx5_0:1, tcp/eth0"; all of them go into WHI_UCX_OVER_MAX.
// "": it has no connection, or UCX does not say.
enum {
    WHI_UCX_TRANSPORTS = 64,
    WHI_UCX_TRANSPORT = 64
};  // of a lane, and bytes of the name of one
enum { WHI_UCX_OVER_MAX = WHI_UCX_TRANSPORTS * (WHI_UCX_TRANSPORT + 2) };
void whi_ucx_over(const whi_ucx_lane *lane, char *text, size_t size);

// whi_ucx_all_reliable says whether these are reliable InfiniBand connections, every one.
bool whi_ucx_all_reliable(const char *over);

// One-sided access (access.c).
extern const whi_lane_access whi_ucx_access;

#endif
