// SPDX-License-Identifier: BSD-3-Clause
//
// The message classes that the engine puts into record headers, and what their fields mean.
//
// docs/wire.md is the specification.  Classes below WHI_CLASS_UNORDERED, but for chunks, carry the next sequence number of their
// endpoint and direction and are handled in that order; the others are control, and are handled
// when they come.  A message is announced instead of carried when WHI_FLAG_ANNOUNCED is set: its payload then
// begins with a whi_announce.
#ifndef WHI_LINK_WIRE_H
#define WHI_LINK_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "net/lane.h"

#define WHI_STATUS_LAST WH_ETYPE  // the lowest number that a peer may name

#define WHI_PROTOCOL_VERSION 1u      // what this library speaks
#define WHI_PROTOCOL_VERSION_MIN 1u  // the oldest that it still understands

enum {
    // A tagged message that is larger than other records may be: WHI_CLASS_LONG with ep, seq and tag; or, with
    // WHI_FLAG_FOLLOWED, the payload of the active message in the record before it.
    // Messages: ep, seq, tag; arg = the length when announced, else the send id when synchronous.
    WHI_CLASS_TAG = 0x10,
    WHI_CLASS_OBJECT = 0x11,
    WHI_CLASS_AM = 0x12,        // aux = handler id, tag: whi_am_tag; its header begins the payload
    WHI_CLASS_WITHDRAW = 0x13,  // tag = send id: forget this announcement; aux = 1: it was granted
    WHI_CLASS_FLUSH = 0x14,     // tag = flush id
    WHI_CLASS_CLOSE = 0x15,     // end of stream
    // Remote access: tag = key id, arg = offset; the payload is the bytes of a small put, else a whi_access.
    WHI_CLASS_PUT = 0x16,
    WHI_CLASS_GET = 0x17,     // the bytes come as chunks of the grant that it names
    WHI_CLASS_ATOMIC = 0x18,  // aux = operation | bytes of the word << 8
    WHI_CLASS_UNORDERED = 0x20,
    WHI_CLASS_GRANT = 0x20,      // tag = send id | grant id << 32, arg = bytes accepted, aux = part
    WHI_CLASS_ACK = 0x21,        // tag = send id, arg = status: matched, or not wanted
    WHI_CLASS_CREDIT = 0x22,     // ep, arg = bytes
    WHI_CLASS_FLUSH_ACK = 0x23,  // tag = flush id
    WHI_CLASS_CLOSE_ACK = 0x24,  // ep
    WHI_CLASS_ABORT = 0x25,      // ep
    WHI_CLASS_OPEN =
        0x26,  // ep = the new number, tag = listener, arg = credit, seq = announcements,
               // payload = connect data
    WHI_CLASS_ACCEPT = 0x27,      // ep, arg = credit, seq = announcements, payload = connect data
    WHI_CLASS_REFUSE = 0x28,      // ep, arg = status, payload = text
    WHI_CLASS_BYE = 0x29,         // the link ends in order
    WHI_CLASS_SWITCH = 0x2a,      // aux = lane; the last record of this direction on this lane
    WHI_CLASS_MAP = 0x2b,         // ep, tag = key id: pass the memory's descriptor
    WHI_CLASS_MAPPED = 0x2c,      // ep, tag = key id: here it is (rma.h); or aux = 1, arg = status
    WHI_CLASS_RMA_ANSWER = 0x2d,  // ep, aux = WHI_ANSWER_*, tag = id, arg = value or status
    WHI_CLASS_LANE_ADDRESS =
        0x2e,  // aux = lane; a piece of what the peer must know to open it: tag = size of
               // the whole, arg = offset; or WHI_FLAG_NO_LANE, payload = text
    WHI_CLASS_RECALL = 0x2f,    // tag = key id: use what MAPPED told over ucx no more
    WHI_CLASS_RECALLED = 0x30,  // tag = key id: and that is done
    WHI_CLASS_OFFER = 0x31,     // ep, seq = segment, tag = grant id | offer id << 32, arg = offset,
                                // payload = whi_device_offer: take this instead of chunks
    WHI_CLASS_TAKEN = 0x32,     // ep, tag = offer id; arg = 0: it was; 1: send it by chunks
};

enum {
    WHI_FLAG_ANNOUNCED = 1 << 0,
    WHI_FLAG_SYNC = 1 << 1,
    WHI_FLAG_OFFERED = 1 << 2,  // of an announcement: its receiver may fetch the payload (offer.h)
    // Of a LANE_ADDRESS: it is about the bulk lane.  Of an announcement: its sender would have the payload go by that; of a
    // GRANT: it is to, and the receiver sends ACK when all of it is there.
    WHI_FLAG_BULK_LANE = 1 << 3,
    // Of an AM: its payload, arg bytes, follows in the next record, a LONG with this flag.
    WHI_FLAG_FOLLOWED = 1 << 4,
    WHI_FLAG_NO_LANE = 1 << 0,       // of LANE_ADDRESS: this side does without
    WHI_FLAG_LANE_LOST = 1 << 1,     // with that, of the bulk lane: this side has had it
    WHI_FLAG_TAKES_DEVICE = 1 << 0,  // of GRANT: device memory may be offered instead of sent
};

enum { WHI_PART_DATA = 0, WHI_PART_ENVELOPE = 1 };  // aux of a grant

// aux of an RMA_ANSWER.
enum {
    WHI_ANSWER_VALUE = 0,       // of an atomic
    WHI_ANSWER_DONE = 1,        // a large put is there
    WHI_ANSWER_FAILED = 2,      // a large put or an atomic
    WHI_ANSWER_GET_FAILED = 3,  // the id is the grant's
};

// What a remote access says of itself when its payload is not its bytes.
typedef struct whi_access {
    uint32_t id;  // large put: send id; get: grant id; atomic: send id, 0 when nothing is fetched
    uint32_t reserved;
    uint64_t value;  // bytes to move; atomic: the operand
    uint64_t compare;
} whi_access;
static_assert(sizeof(whi_access) == 24, "wire layout");

typedef struct whi_announce {
    uint32_t send_id;
    // When offered: behind this stand the offer's ticket and so many addresses, 8 bytes each.
    uint16_t slot;
    uint16_t count;
} whi_announce;
static_assert(sizeof(whi_announce) == 8, "wire layout");

// The tag of an active message: bytes of its header, and the memory that its payload was sent from, kind 0 being the
// host's.  Kind and device go only to those with WHI_FEATURE_AM_MEMORY, the signature to those with WHI_FEATURE_TYPES.
typedef struct whi_am_tag {
    uint16_t header_size;
    uint8_t kind;
    uint8_t reserved;
    uint16_t device;
    uint16_t signature;
} whi_am_tag;
static_assert(sizeof(whi_am_tag) == 8, "wire layout");

// What OFFER says: where so many bytes of what was granted are, in device memory of the sender's.
enum { WHI_OFFER_ADDRESS = 1, WHI_OFFER_HANDLE = 2, WHI_OFFER_DESCRIPTOR = 3 };
typedef struct whi_device_offer {
    uint64_t size;
    uint64_t
        at;  // ADDRESS: where they are, in the process that both sides are in; HANDLE: in the allocation
    uint8_t kind;  // wh_mem_kind
    uint8_t how;   // WHI_OFFER_*
    uint8_t reserved[6];
    // HANDLE: what names the allocation to other processes of the host.
    uint64_t id, base, length;
    uint8_t device[16];
    uint8_t handle[64];
} whi_device_offer;
static_assert(sizeof(whi_device_offer) == 128, "wire layout");

// What is offered at a time, at most.
#define WHI_DEVICE_OFFER_MAX ((uint64_t)1 << 30)

// A message costs this much credit beyond its payload, so that a flood of empty ones is bounded too.
#define WHI_MESSAGE_COST 64

// The largest payload of a control record but for connect data: REFUSE's text, and MAPPED over ucx.
#define WHI_CONTROL_MAX 128

// The largest payload of a LANE_ADDRESS, and of all its pieces.
enum { WHI_LANE_PIECE = 1024, WHI_LANE_ADDRESS_MAX = 1 << 16 };

// The least limits that a side may have: an announcement with the largest header of an active message must fit into a
// record, and a chunk must be worth its header.
enum { WHI_EAGER_MIN = 2048, WHI_CHUNK_MIN = 4096 };

// What an object's payload begins with: the envelope, then one whi_wire_frame per frame, the user's header,
// and the packed small frames.
#define WHI_OBJECT_VERSION 1
typedef struct whi_envelope {
    uint32_t count_version;  // frames << 8 | WHI_OBJECT_VERSION
    uint32_t header_size;
} whi_envelope;
static_assert(sizeof(whi_envelope) == 8, "an object of one small frame is one cache line");

static inline whi_envelope whi_envelope_of(size_t frames, size_t header_size) {
    return (whi_envelope){(uint32_t)frames << 8 | WHI_OBJECT_VERSION, (uint32_t)header_size};
}

enum { WHI_FRAME_FOLLOWS = 1 << 0 };  // the frame is a segment of its own, not packed

typedef struct whi_wire_frame {
    uint64_t size;
    uint8_t kind;  // wh_mem_kind at the sender
    uint8_t flags;
    uint16_t reserved;
    uint32_t signature;  // of its elements; 0: they are bytes
} whi_wire_frame;
static_assert(sizeof(whi_wire_frame) == 16, "wire layout");

#endif
