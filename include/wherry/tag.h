// SPDX-License-Identifier: BSD-3-Clause
//
// Tagged messages: send and receive, matched by tag.
//
// A receive accepts a message when (message tag & mask) == (tag & mask).  Among the receives that
// accept a message, on its endpoint or on the worker, the one posted first gets it; messages of one
// endpoint match in the order of their sends.  A receive whose buffer is shorter than its message
// fails with WH_ETRUNCATED and result.size = the message's length; nothing is written past the
// buffer's end.  A message may have zero bytes.  Threads: see worker.h.
#ifndef WHERRY_TAG_H
#define WHERRY_TAG_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WH_TAG_MASK_ALL UINT64_MAX  // match the whole tag

// wh_tag_send sends `size` bytes.  Done when the buffer may be reused; with WH_OP_SYNC when
// matched.
WH_API WH_CHECK wh_status wh_tag_send(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                                      const wh_op_opts *opts, wh_request **req);

// wh_tag_recv receives the next message of this endpoint that it accepts.
WH_API WH_CHECK wh_status wh_tag_recv(wh_endpoint *ep, void *buf, size_t size, uint64_t tag,
                                      uint64_t mask, const wh_op_opts *opts, wh_request **req);

// wh_worker_tag_recv receives from any endpoint of the worker; result.source says from which.
WH_API WH_CHECK wh_status wh_worker_tag_recv(wh_worker *worker, void *buf, size_t size,
                                             uint64_t tag, uint64_t mask, const wh_op_opts *opts,
                                             wh_request **req);

// The same, waiting.  timeout_ms: negative for no limit, 0 for at once.  `result` may be NULL.
WH_API WH_CHECK wh_status wh_tag_send_wait(wh_endpoint *ep, const void *buf, size_t size,
                                           uint64_t tag, int timeout_ms);
WH_API WH_CHECK wh_status wh_tag_recv_wait(wh_endpoint *ep, void *buf, size_t size, uint64_t tag,
                                           uint64_t mask, int timeout_ms, wh_result *result);
WH_API WH_CHECK wh_status wh_worker_tag_recv_wait(wh_worker *worker, void *buf, size_t size,
                                                  uint64_t tag, uint64_t mask, int timeout_ms,
                                                  wh_result *result);

// wh_tag_probe describes the first message that has come, is unmatched, and that a receive would
// get: WH_OK with size, tag and source in `result`, or WH_ENOTFOUND.  It leaves the message where
// it is.  Owner only.
WH_API WH_CHECK wh_status wh_tag_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask,
                                       wh_result *result);
WH_API WH_CHECK wh_status wh_worker_tag_probe(wh_worker *worker, uint64_t tag, uint64_t mask,
                                              wh_result *result);

// A message that was taken from the queue and that only wh_message_recv can receive.
typedef struct wh_message wh_message;

// wh_tag_take takes such a message: WH_OK, or WH_ENOTFOUND.  The caller ends *msg with
// wh_message_recv or wh_message_drop.  Owner only.
WH_API WH_CHECK wh_status wh_tag_take(wh_endpoint *ep, uint64_t tag, uint64_t mask,
                                      wh_result *result, wh_message **msg);
WH_API WH_CHECK wh_status wh_worker_tag_take(wh_worker *worker, uint64_t tag, uint64_t mask,
                                             wh_result *result, wh_message **msg);

// wh_message_recv receives the taken message; like wh_tag_recv otherwise.  *msg is given up unless
// the call returns an error.  Owner only.
WH_API WH_CHECK wh_status wh_message_recv(wh_message *msg, void *buf, size_t size,
                                          const wh_op_opts *opts, wh_request **req);

// wh_message_drop drops the message; its sender sees a completed send.  Owner only.
WH_API void wh_message_drop(wh_message *msg);

#ifdef __cplusplus
}
#endif
#endif
