// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages: the receiver's handler runs when the message arrives, in the order of the sends.
//
// Threads: see worker.h; handlers run in the owner's progress.
#ifndef WHERRY_AM_H
#define WHERRY_AM_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WH_AM_HEADER_MAX 1024  // bytes of an active message's header
#define WH_AM_PAGE 4096

// An arrived active message, valid inside the handler, or until wh_am_recv or wh_am_drop when the
// handler has returned WH_PENDING.  The library makes it; it may grow at its end.
//
// Header and payload of a message that is kept so stay with the library: when the handler has
// returned, `header` and `data` point to memory of the library's own and stay as they are until
// wh_am_recv or wh_am_drop, so that nobody else has to copy them.  That holds whatever becomes of the
// peer, the endpoint and the worker, as long as the wh_am is held.  (Read the two anew: inside the
// handler they point elsewhere.)  When there was no memory to keep a message it is lost, which the log
// says: its `header` and `data` are NULL and its `header_size` 0, and wh_am_recv says WH_ECANCELLED.
typedef struct wh_am {
    wh_endpoint *ep;  // where it came from; borrowed
    uint16_t id;
    const void *header;
    size_t header_size;
    const void *data;  // the payload, in host memory; NULL when it must be received
    size_t size;       // bytes of the payload
    wh_mem_kind mem;   // of the memory that it was sent from; WH_MEM_HOST too when the sender's
    int device;        // library is too old to tell
    // Of a payload that must be received: its address at the sender modulo WH_AM_PAGE, 0 when that is not known.  One that is
    // read out of the sender's memory comes several times as fast to memory that lies alike in its pages.
    unsigned page_offset;
} wh_am;

// The handler of an id.  Returns WH_OK when it is done with the message (a payload not received is dropped), or
// WH_PENDING when it has called wh_am_recv or will do so later (any payload can be kept that way).
typedef wh_status (*wh_am_fn)(wh_am *am, void *arg);

// wh_worker_set_am sets the handler of `id`; NULL unsets it.  A message without a handler is dropped, with a
// warning in the log.  Owner only.
WH_API WH_CHECK wh_status wh_worker_set_am(wh_worker *worker, uint16_t id, wh_am_fn fn, void *arg);

// wh_am_send sends a header of at most WH_AM_HEADER_MAX bytes (copied) and a payload.
WH_API WH_CHECK wh_status wh_am_send(wh_endpoint *ep, uint16_t id, const void *header,
                                     size_t header_size, const void *buf, size_t size,
                                     const wh_op_opts *opts, wh_request **req);

// wh_am_send_copy is wh_am_send for bytes of host memory that are the caller's again when it returns, whatever it returns.
//
// What the lane does not take during the call is copied, into memory that the worker keeps for the next such message.  Where
// the peer is at hand, as one that spins over shared memory is, the call waits for it to ask and gives it the payload
// without a copy in between: a few microseconds and about as long as the transfer takes, and, after it has waited in vain, not
// at all for some messages.  No callback runs within it.  WH_ENOTSUP for layouts and other memory.  Owner only.
WH_API WH_CHECK wh_status wh_am_send_copy(wh_endpoint *ep, uint16_t id, const void *header,
                                          size_t header_size, const void *buf, size_t size,
                                          const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_am_send_wait(wh_endpoint *ep, uint16_t id, const void *header,
                                          size_t header_size, const void *buf, size_t size,
                                          int timeout_ms);

// wh_am_recv receives the payload into `buf` (shorter buffers end with WH_ETRUNCATED).  Gives `am` up, unless it returns an error.
// Owner only, inside or after the handler.
WH_API WH_CHECK wh_status wh_am_recv(wh_am *am, void *buf, size_t size, const wh_op_opts *opts,
                                     wh_request **req);

// wh_am_drop throws a kept message away.  Owner only.
WH_API void wh_am_drop(wh_am *am);

#ifdef __cplusplus
}
#endif
#endif
