// SPDX-License-Identifier: BSD-3-Clause
//
// The lane: what the link asks of anything that moves bytes between two workers.
//
// A lane carries records in order: a 32-byte header and a payload that is small (at most
// ops->eager_limit).  Bulk goes as chunks: records whose payload may be large, taken from the sender's
// memory and put where the receiver's owner says.  One lane belongs to one link of one worker and is
// called from that worker's thread only.  Nothing in a lane blocks.  Everything that a lane reads from
// shared memory or from a socket is copied, then checked, then used: a hostile peer can make a lane
// fail, nothing more.
//
// Upcalls happen inside `poll` only, save `unsent`.  An upcall may call `send` and `push` of the same lane; it never
// calls `poll` or `close`: the owner closes a lane outside of polling.
#ifndef WHI_NET_LANE_H
#define WHI_NET_LANE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is written as the memory of a little-endian machine"
#endif

// A record's header, in memory as on the wire (docs/wire.md): little-endian, no padding.
typedef struct whi_hdr {
    uint32_t size;  // bytes of payload behind it
    uint8_t
        cls;  // message class: those of wire.h below WHI_CLASS_LANE, the lane's own from there on
    uint8_t flags;
    uint16_t aux;
    uint32_t ep;   // endpoint number; of a chunk: the grant
    uint32_t seq;  // sequence number; of a chunk: the segment
    uint64_t tag;
    uint64_t arg;  // of a chunk: the offset in its segment
} whi_hdr;
static_assert(sizeof(whi_hdr) == 32, "wire layout");

enum {
    WHI_CLASS_CHUNK = 0x01,  // the only class that `push` sends; it arrives through up->sink
    WHI_CLASS_LONG = 0x02,   // a record that may be longer than others; it arrives so too
    WHI_CLASS_LANE = 0xe0,   // classes from here on never leave the lane
};

// The lanes as bits of a handshake and as aux of a SWITCH.
enum {
    WHI_LANE_SHM = 1 << 0,
    WHI_LANE_STREAM = 1 << 1,
    WHI_LANE_UCX = 1 << 2,
    WHI_LANE_LOOP = 1 << 3,
};

// The bytes of a payload: memory at `ptr`, or, when `ptr` is NULL, a function that moves any part of
// it to (source) or from (sink) host memory.  `move` is called with any split, in any order, each byte once.
typedef struct whi_span {
    void *ptr;
    void (*move)(void *ctx, uint64_t offset, void *host, size_t size);
    void *ctx;
    uint64_t base;  // added to the offset of each `move`
    // What `ptr` points to: 0 or WH_MEM_HOST, host memory; else device memory, for a lane that takes it.
    uint8_t kind;
} whi_span;

// An offer to the peer to take a payload out of this side's memory by itself.  It travels in the
// announcement, beside the addresses of the payload's pieces.
typedef struct whi_offer {
    uint64_t ticket;  // 0: there is none; never used twice on a lane
    uint32_t slot;
} whi_offer;

// One piece of what is fetched: an address of the peer's, a place here.
typedef struct whi_piece {
    uint64_t from;
    void *to;
    uint64_t size;
} whi_piece;

// The next bytes of a payload that is fetched: all of it, or a part.
typedef struct whi_part {
    const whi_piece *pieces;
    unsigned count;
    uint64_t at, size, whole;  // bytes of the payload: before them, of them, and in all
} whi_part;
enum { WHI_PART_PIECES = 256 };  // at most: as many as a turn has in layouts of blocks of 4 KiB

// What a lane is to read: a part of an offered payload, or all of it; and what came of it.
typedef struct whi_fetch {
    const whi_offer *offer;
    whi_part part;
    uint64_t *since;
    wh_status status;
} whi_fetch;

// Bytes of payload after which others have their turn: long enough that a pass costs nothing beside them, and over in a
// fraction of a millisecond where the memory is warm.
enum { WHI_LANE_TURN = 1 << 20 };

// What the owner of a lane (the link) offers to it.
typedef struct whi_lane_up {
    // A record has come.  `payload` holds hdr->size bytes and is valid until the return; hdr is the lane's own
    // copy.  An error says that the peer broke the protocol: poll stops and returns it.
    wh_status (*deliver)(void *link, const whi_hdr *hdr, const void *payload);
    // Where the hdr->size bytes of this chunk go; the span begins at the chunk's first byte.  An error
    // fails the lane.  A long record comes the same way, in its turn among the records.
    // The span stays valid until `landed`, which follows when all bytes are there, or until
    // the lane is closed.  At most one chunk per lane is between the two, unless the lane lends.
    wh_status (*sink)(void *link, const whi_hdr *hdr, whi_span *span);
    wh_status (*landed)(void *link, const whi_hdr *hdr);
    // A record that was taken has not left as a whole, or the bell for it could not be rung: the owner polls the lane,
    // or arms it with `want_space`, until that is done.  Called inside `send` and `arm` too.  Optional.
    void (*unsent)(void *link);

    // Only lanes that lend call the next two, also after they were closed: each chunk that is out then comes back by one of
    // them, and until it has, `link` must be there and the chunk's memory be left alone.
    //
    // The lane no longer reads the memory of this outgoing chunk, whatever became of it.
    void (*sent)(void *link, const whi_hdr *hdr);
    // It no longer writes the memory that `sink` gave for this chunk, which will not land.
    void (*lost)(void *link, const whi_hdr *hdr);
} whi_lane_up;

typedef struct whi_lane whi_lane;

// Memory that a lane has registered for the peer, and memory of the peer's as a lane reaches it.
typedef struct whi_lane_memory whi_lane_memory;
typedef struct whi_lane_key whi_lane_key;

// Tells of the end of what was WH_PENDING, once: in a poll of the lane, or, when it was closed meanwhile, until its end.
// `good`: it has been done.  If not, the lane fails.
typedef void (*whi_lane_done_fn)(void *arg, bool good);

// What a lane provides that reaches the peer's memory without the help of the peer's library.
typedef struct whi_lane_access {
    // guards says whether the network checks what the peer does with our memory, and lets it do nothing more once this lane
    // has closed.
    bool (*guards)(const whi_lane *lane);

    // map registers host memory, which must stay until unmap; that may be called after the lane's end.  key returns what the
    // peer needs in order to reach it, valid as long as the memory is registered.
    wh_status (*map)(whi_lane *lane, void *ptr, size_t size, whi_lane_memory **memory);
    void (*unmap)(whi_lane_memory *memory);
    const void *(*key)(const whi_lane_memory *memory, size_t *size);

    // open makes a key of the peer's usable.  It believes each byte of it: the peer is trusted.  close may be called when no
    // access with it is out, and after the lane's end.
    wh_status (*open)(whi_lane *lane, const void *bytes, size_t size, whi_lane_key **key);
    void (*close)(whi_lane_key *key);

    // write and read move `size` > 0 bytes between host memory and `address` in the peer's.  WH_OK: the buffer is free again,
    // or filled.  WH_PENDING: `done` will say so, and the lane has the buffer until then.  WH_EAGAIN: no space now.  Else the
    // lane has failed.
    wh_status (*write)(whi_lane *lane, const whi_lane_key *key, uint64_t address, const void *buf,
                       size_t size, whi_lane_done_fn done, void *arg);
    wh_status (*read)(whi_lane *lane, const whi_lane_key *key, uint64_t address, void *buf,
                      size_t size, whi_lane_done_fn done, void *arg);

    // settled asks whether all that was written over the lane before is in the peer's memory: WH_OK, it is; WH_PENDING: `done`
    // will tell.
    wh_status (*settled)(whi_lane *lane, whi_lane_done_fn done, void *arg);
} whi_lane_access;

// What each lane provides.
typedef struct whi_lane_ops {
    const char *name;  // "shm", "stream", "ucx", "loop", "self"

    // reorders: records may arrive in another order than they were sent; the owner puts them right.
    bool reorders;

    // lends: the lane may go on reading the memory of a chunk that `push` took as (ptr) until it says `sent`, and several
    // chunks may be between `sink` and `landed`; records may be delivered meanwhile.  What a `move` produced is copied.
    bool lends;

    // shared: a payload that is delivered lies where the peer can still change it.
    bool shared;

    // eager_limit returns the largest payload of `send`, fixed for the life of the lane.
    size_t (*eager_limit)(const whi_lane *lane);

    // long_limit returns how large the payload of a record of class WHI_CLASS_LONG had better be now.  `send_long` takes one that
    // was within it, however it has changed since.
    // 0: the lane has none in either direction, or the peer does not take them.  Optional: none.
    size_t (*long_limit)(const whi_lane *lane);

    // long_better says whether a payload of `size` bytes costs less as a long record than offered, as far as is known.  Optional: it
    // always does.
    bool (*long_better)(whi_lane *lane, size_t size);

    // send takes one record whole, header and hdr->size bytes of payload, both copied before it returns.
    // WH_OK: it will arrive.  WH_EAGAIN: no space now, nothing happened.  Else the lane has failed.
    wh_status (*send)(whi_lane *lane, const whi_hdr *hdr, const void *payload);

    // send_joined does so with a payload in two pieces, both small: what is put together first is read before it has left the
    // store buffer.  Optional.
    wh_status (*send_joined)(whi_lane *lane, const whi_hdr *hdr, const void *first,
                             size_t first_size, const void *rest);

    // send_long takes a long record, whose payload comes from host memory or is moved; with `front`, that record and its
    // payload before it, and neither goes without the other.  Not optional for a lane that has long records.
    wh_status (*send_long)(whi_lane *lane, const whi_hdr *front, const void *front_payload,
                           const whi_hdr *hdr, const whi_span *src);

    // push moves the next part of a payload as a chunk: hdr names grant, segment and offset (arg); `src` holds
    // the bytes from hdr->arg on, `size` of them remain (> 0).  WH_OK: *moved > 0 of them have been taken and the
    // chunk is whole.  WH_PENDING: *moved of them (perhaps 0) have been taken, but the lane has announced
    // more: until the rest of this chunk was pushed with the same grant and segment and the following offset it
    // answers WH_EAGAIN to everything else.  WH_EAGAIN: no space now, nothing happened.
    wh_status (*push)(whi_lane *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                      size_t *moved);

    // poll delivers up to `budget` records and moves what it can, but ends when it has moved WHI_LANE_TURN bytes of
    // payloads; it returns how many events that were (space that came back for a waiting sender counts), or a negative
    // wh_status when the lane has failed.
    int (*poll)(whi_lane *lane, int budget);

    // next copies the header of the next record, which a poll with a budget of 1 would deliver; false: there is none yet.  The
    // peer may still change it.  Optional: nobody can look ahead.
    bool (*next)(whi_lane *lane, whi_hdr *hdr);

    // arm asks the peer to ring when it sends a record and, with `want_space`, when it makes space; the owner then issues
    // one whi_shm_barrier() for all lanes, asks `ready`, and may sleep when that says false.  True: the peer was asked just
    // now and may have missed it all the same (docs/design/barrier.md), so that the owner asks `ready` once more after a while.
    // ready returns true when poll, or a send that was refused, would now get further.
    bool (*arm)(whi_lane *lane, bool want_space);
    bool (*ready)(whi_lane *lane, bool want_space);

    // The next four are optional, all or none: a lane that can take a payload out of the peer's memory.
    //
    // offer makes an offer, good until it was revoked; false: none now.  The payload is what its sender says it is, and
    // must not change, until the offer was revoked.  `size`: of one that could be a long record instead; 0: it could not.
    bool (*offer)(whi_lane *lane, whi_offer *offer, uint64_t size);
    // revoke ends an offer of this side.  True: the peer has not taken it and never will, whatever it reads from now on.
    // False: it has taken it, the payload is with the peer.
    bool (*revoke)(whi_lane *lane, const whi_offer *offer);
    // read reads what the peer offers: the next part of a payload, or several payloads as a whole, which is faster than one by
    // one; of all together at most WHI_PART_PIECES.  `status` becomes WH_OK: it is here.  WH_EAGAIN: let the peer send chunks of
    // all of that payload, because that is faster, or all that can be done; the places hold anything.  *since is set by the first
    // part, for `came`.
    // take takes an offer of which all has been read.  False: it was revoked meanwhile, and what was read is none of it.
    void (*read)(whi_lane *lane, whi_fetch *list, unsigned count);
    bool (*take)(whi_lane *lane, const whi_offer *offer);
    // came says that a chunk of `size` bytes is here, of a payload for which read said WH_EAGAIN, and with it `moved` of
    // its `whole` bytes.
    void (*came)(whi_lane *lane, uint64_t size, uint64_t moved, uint64_t whole, uint64_t since);

    // pass sends a record without payload and a descriptor of memory, which stays the caller's; the receiver takes it off the
    // control channel when the record is delivered.  WH_EAGAIN: not now.  Optional: both ends can map memory.
    wh_status (*pass)(whi_lane *lane, const whi_hdr *hdr, int fd);

    // takes says whether the lane moves the chunks of device memory of this wh_mem_kind by itself: spans may then point to it.
    // Optional: none.
    bool (*takes)(const whi_lane *lane, int kind);

    // access is what reaches the peer's memory over the network; NULL: nothing does.
    const whi_lane_access *access;

    // describe writes what the lane runs over, such as "tcp 10.0.0.1:4711", as a NUL-terminated string.
    void (*describe)(const whi_lane *lane, char *text, size_t size);

    // close frees the lane at once.  What was taken by send or push and not yet moved is lost.  A lane that lends goes when
    // all its chunks have come back, which is for its maker to drive.
    void (*close)(whi_lane *lane);
} whi_lane_ops;

struct whi_lane {  // embedded as the first member of each lane's own struct
    const whi_lane_ops *ops;
    const whi_lane_up *up;
    void *link;
};

// whi_lane_long_limit returns the largest payload of a long record; 0: there are none.
static inline size_t whi_lane_long_limit(const whi_lane *lane) {
    return lane->ops->long_limit ? lane->ops->long_limit(lane) : 0;
}

// whi_lane_long_better says whether a payload that could be offered costs less as a long record.
static inline bool whi_lane_long_better(whi_lane *lane, size_t size) {
    return !lane->ops->long_better || lane->ops->long_better(lane, size);
}

// whi_lane_takes says whether spans of such memory may be given to a lane.
static inline bool whi_lane_takes(const whi_lane *lane, int kind) {
    return lane->ops->takes && lane->ops->takes(lane, kind);
}

// whi_lane_init sets the base up and asserts that `ops` is complete.
static inline void whi_lane_init(whi_lane *lane, const whi_lane_ops *ops, const whi_lane_up *up,
                                 void *link) {
    assert(ops->name && ops->eager_limit && ops->send && ops->push && ops->poll && ops->arm &&
           ops->ready && ops->describe && ops->close);
    assert(!ops->long_limit || ops->send_long);
    assert(up->deliver && up->sink && up->landed && (!ops->lends || (up->sent && up->lost)));
    lane->ops = ops;
    lane->up = up;
    lane->link = link;
}

#endif
