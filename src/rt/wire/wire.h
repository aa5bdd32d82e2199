// SPDX-License-Identifier: BSD-3-Clause
//
// A PE's way to all others: messages, control, buffers.
//
// Per PE that it sends to it opens two endpoints, one for control, which must not wait behind data, and one for data.  What comes
// back comes over endpoints that the other has opened.  PEs of one process hand messages over by pointer.  A wire belongs to
// its worker's thread.
#ifndef WHI_RT_WIRE_WIRE_H
#define WHI_RT_WIRE_WIRE_H

#include <wherry/endpoint.h>
#include <wherry/tag.h>

#include "rt/wire/dump.h"
#include "rt/wire/envelope.h"
#include "rt/wire/msg.h"

// How a PE is reached.
typedef struct whi_contact {
    uint8_t ticket[WHI_TICKET_SIZE];  // of its job
    uint8_t blob[WH_ADDRESS_MAX];
    size_t blob_size;
} whi_contact;

// What a wire tells its owner, in the worker's progress, and of what goes to the PE itself in the send.
typedef struct whi_wire_up {
    // message: the owner has it from now on, and frees it.  With `arriving` set its data comes later; its head is there.
    // It may look at the head of another one by whi_msg_head only.
    void (*message)(void *owner, whi_msg *msg);
    // arrived: the data of such a one is there, or will never be: `status` is an error, and the owner frees it all the same.
    void (*arrived)(void *owner, whi_msg *msg, wh_status status);
    void (*control)(void *owner, int source, const void *data, size_t size);
    // lost: a PE that this one has had to do with is gone; once for each.
    void (*lost)(void *owner, int pe, wh_status why, const char *sentence);
    // contact finds out how a PE is reached; asked once for each.
    wh_status (*contact)(void *owner, int pe, whi_contact *contact);
} whi_wire_up;

typedef struct whi_wire_opts {
    wh_context *ctx;
    int pe, pes;
    const uint8_t *ticket;  // of the job, WHI_TICKET_SIZE bytes
    size_t inbox_max;       // bytes of large messages that are taken in and not freed yet
    const whi_wire_up *up;
    void *owner;
} whi_wire_opts;

WH_CHECK wh_status whi_wire_create(const whi_wire_opts *opts, whi_wire **wire);

wh_worker *whi_wire_worker(const whi_wire *wire);

// whi_wire_join says which PEs are in this process: `wires` of `count` from PE `first` on; kept, not copied.
void whi_wire_join(whi_wire *wire, whi_wire *const *wires, int first, int count);

// whi_wire_local returns how many PEs each process has.
int whi_wire_local(const whi_wire *wire);

// whi_wire_send gives `msg` up, whatever it returns.
WH_CHECK wh_status whi_wire_send(whi_wire *wire, int dest, whi_msg *msg);

enum { WHI_CONTROL_MAX = WH_AM_HEADER_MAX };
WH_CHECK wh_status whi_wire_control(whi_wire *wire, int dest, const void *data, size_t size);

// whi_wire_endpoint returns the endpoint to a PE, opened when it is the first time.
WH_CHECK wh_status whi_wire_endpoint(whi_wire *wire, int dest, whi_lane_use use, wh_endpoint **ep);

// whi_wire_recv receives what `source` sends with `tag` over its data endpoint, as wh_tag_recv does; when it has not connected
// yet, as soon as it has.
WH_CHECK wh_status whi_wire_recv(whi_wire *wire, int source, void *buf, size_t size, uint64_t tag,
                                 const wh_op_opts *opts, wh_request **req);

// whi_wire_take takes such a message that has come and is unmatched, as wh_tag_take does.
WH_CHECK wh_status whi_wire_take(whi_wire *wire, int source, uint64_t tag, wh_result *result,
                                 wh_message **msg);

// whi_msg_head returns the head of a message that was given to `message` and is not open, inside and after that.
const void *whi_msg_head(const whi_msg *msg);

// whi_wire_reject ends all with a PE that does not keep to the protocol: it is lost, and `sentence` says why.
void whi_wire_reject(whi_wire *wire, int pe, const char *sentence);

// whi_wire_dump prints what is known of other PEs, a line each.
void whi_wire_dump(const whi_wire *wire, whi_dump *to);

// whi_wire_close drops what is under way as data, and closes the endpoints for control in order; when whi_wire_closed, or the time has passed, whi_wire_destroy can be called.
void whi_wire_close(whi_wire *wire, int timeout_ms);
bool whi_wire_closed(const whi_wire *wire);

// whi_wire_end ends all that is under way; messages of the wire can still be freed.  whi_wire_destroy does so first.
void whi_wire_end(whi_wire *wire);
void whi_wire_destroy(whi_wire *wire);

#endif
