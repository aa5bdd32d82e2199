// SPDX-License-Identifier: BSD-3-Clause
//
// Staging: device memory on its way from or to a lane, in chunks of pinned host memory that the device copies by itself.
//
// A send has several chunks filled ahead, on a stream of ours, and gives the lane each one whose copy has passed.  A receive has
// the lane fill a chunk, and the copy into the device's memory follows; to the receive the payload has landed when that has
// passed.  A request is held (request.h) by each copy of it that is under way, as it is by a lane that lends: it completes when
// none is.  Docs: docs/design/staging.md.  Owner's thread.
#ifndef WHI_MESSAGE_STAGE_H
#define WHI_MESSAGE_STAGE_H

#include "message/request.h"

enum {
    WHI_STAGE_CHUNKS_MAX = 64
};  // of a worker; a request counts those that hold it in eight bits

// Where a chunk is.
typedef enum whi_stage_place {
    WHI_STAGE_FREE,
    WHI_STAGE_READING,  // of a send: the device copies into it
    WHI_STAGE_READY,    // of a send: for the lane, or with a lane that lends
    WHI_STAGE_FILLING,  // of a receive: with the lane
    WHI_STAGE_WRITING,  // of a receive: the device copies out of it
    WHI_STAGE_TAKING,   // of a receive, without host memory: the device copies from the sender's
    WHI_STAGE_PACKING,  // of a send, into device memory: a kernel packs a layout (device_offer.h)
} whi_stage_place;

typedef struct whi_stage_chunk {
    whi_list link;     // among the free ones, those under way, or those that a lane fills
    whi_list of_send;  // among those of a send, in the order of the payload
    char *memory;
    const whi_mem_ops *ops;
    int pinned_by;  // the device
    whi_stage_place place;
    whi_mem_event passed;
    void *stream;
    wh_request *req;
    whi_link *net;
    whi_buffer *buf;
    whi_hdr hdr;            // of a receive
    bool given_back;        // of a receive: its lane says so when it will not fill it
    uint64_t offset, size;  // in the buffer
    uint32_t segment;       // of a send
    unsigned lent;          // how many times a lane has it
    wh_status failed;       // of a copy for a send
    // Of what is taken: where it is, whose mapping that is in, or NULL, and what the sender calls it.
    const void *from;
    struct whi_import *import;
    uint32_t offer_id;
} whi_stage_chunk;

// What a send has of staging.
typedef struct whi_staged {
    whi_list chunks;  // in the order of the payload
    unsigned ahead;   // chunks that the lane has not got whole
    bool waits;       // for its first chunk; it is in no list of the link's
    // Up to where chunks are filled: so far in a part of the payload that ends there.
    whi_buffer *buf;
    uint32_t segment;
    uint64_t submitted, end;
} whi_staged;

// whi_stage_source makes the source of a send's next bytes, of which `left` remain in the part of the payload that is `buf`.
// WH_OK: `src` and `left` are set, or untouched when this is not to be staged.  WH_PENDING: not yet; the send is out of the
// link's list until then.  Else the memory cannot be read, and nothing of ours reads it any more.
WH_CHECK wh_status whi_stage_source(whi_link *link, wh_request *req, whi_buffer *buf, whi_span *src,
                                    uint64_t *left);

// whi_stage_pushed notes that the lane has taken `moved` bytes of such a source, up to where the request is now; `lends`: it
// says later when it has read them, which whi_stage_sent is told.
void whi_stage_pushed(wh_request *req, uint64_t moved, bool lends);
void whi_stage_sent(wh_request *req, const whi_hdr *hdr);

// whi_stage_end gives the chunks of a send back that has completed, and which nobody uses any more.
void whi_stage_drop(wh_request *req);
static inline void whi_stage_end(wh_request *req) {
    if (__builtin_expect(req->staged != NULL, 0))
        whi_stage_drop(req);
}

// whi_stage_sink makes the sink of a receive's chunk that goes to `offset` of `buf`, and says whether it could.  The chunk
// holds the request until it was stored (`stored` below).  `lends`: its lane gives each one back, filled or not.
bool whi_stage_sink(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t offset,
                    const whi_hdr *hdr, bool lends, whi_span *span);

// whi_stage_filled has the chunk stored that a lane has filled; whi_stage_unfilled frees one that a lane will not fill.  False:
// it is not a staged one.  whi_stage_out says whether one of this name is with a lane.
bool whi_stage_filled(whi_link *link, const whi_hdr *hdr);
bool whi_stage_unfilled(whi_link *link, const whi_hdr *hdr);
bool whi_stage_out(const whi_link *link, const whi_hdr *hdr);

// whi_stage_begin begins what a device does by itself: TAKING copies what a receive takes from its sender's device memory,
// PACKING packs what a send offers.  `like` says from where to where, and of what.  It holds the request until that has passed
// (`taken` and `packed` below).
WH_CHECK wh_status whi_stage_begin(wh_worker *worker, const whi_stage_chunk *like,
                                   whi_stage_place place);

// whi_stage_settle waits for all copies under way of a request, an endpoint or a link, and does what follows; NULL: any.
void whi_stage_settle(wh_worker *worker, const wh_request *req, const wh_endpoint *ep,
                      const whi_link *link);

// whi_stage_first_out returns the name of a chunk that a lane of a link is to fill and does not give back, or NULL.
const whi_hdr *whi_stage_first_out(const whi_link *link);

// What follows copies: the last that held a send has passed; a send that waited has bytes for its lane; a receive's chunk is in
// its memory; what was taken or packed has passed, with what status.
typedef struct whi_stage_up {
    void (*unheld)(whi_link *link, wh_request *req);
    void (*ready)(whi_link *link, wh_request *req);
    void (*stored)(whi_link *link, wh_request *req, const whi_hdr *hdr);
    void (*taken)(const whi_stage_chunk *chunk, wh_status st);
    void (*packed)(const whi_stage_chunk *chunk, wh_status st);
} whi_stage_up;

// What the room asks.
void whi_stage_init(wh_worker *worker, const whi_stage_up *up);
void whi_stage_fini(wh_worker *worker);
unsigned whi_stage_look(wh_worker *worker);

#endif
