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

// An arrived active message, valid inside the handler, or until wh_am_recv or wh_am_drop when the
// handler has returned WH_PENDING.  The library makes it; it may grow at its end.
typedef struct wh_am {
    wh_endpoint *ep;  // where it came from; borrowed
    uint16_t id;
    const void *header;  // valid inside the handler only
    size_t header_size;
    const void *data;  // the payload, valid inside the handler only; NULL when it must be received
    size_t size;       // bytes of the payload
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
WH_API WH_CHECK wh_status wh_am_send_wait(wh_endpoint *ep, uint16_t id, const void *header,
                                          size_t header_size, const void *buf, size_t size,
                                          int timeout_ms);

// wh_am_recv receives the payload into `buf` (shorter buffers end with WH_ETRUNCATED).  Gives `am` up.
// Owner only, inside or after the handler.
WH_API WH_CHECK wh_status wh_am_recv(wh_am *am, void *buf, size_t size, const wh_op_opts *opts,
                                     wh_request **req);

// wh_am_drop throws a kept message away.  Owner only.
WH_API void wh_am_drop(wh_am *am);

#ifdef __cplusplus
}
#endif
#endif
