// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoint: one ordered conversation with a peer.
//
// All endpoints between two workers share one link.  Messages of one endpoint are matched in the order in
// which they were sent, whatever their size and lane.  An endpoint holds its worker.  Threads: see
// worker.h; operations may be started from any thread, connecting and asking is for the owner, and only one
// thread may close it.
#ifndef WHERRY_ENDPOINT_H
#define WHERRY_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/request.h>
#include <wherry/status.h>
#include <wherry/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

// Called in progress, once, when the peer has closed the endpoint (WH_ECLOSED) or was lost (why).
typedef void (*wh_lost_fn)(wh_endpoint *ep, wh_status why, void *arg);

typedef struct wh_endpoint_opts {  // zero in any field means its default
    size_t size;                   // of the caller's struct, so that it can grow
    int32_t timeout_ms;  // of connecting; negative: no limit; default: config `connect_timeout`
    wh_done_fn done;     // runs when connected or failed
    void *arg;           // of done
    const char *secret;  // shared secret; default: config `secret`
} wh_endpoint_opts;
#ifndef __cplusplus
#define WH_ENDPOINT_OPTS(...) (&(wh_endpoint_opts){.size = sizeof(wh_endpoint_opts), __VA_ARGS__})
#endif

// wh_endpoint_connect starts connecting to a listener at `address` ("host:port", "[v6]:port") and returns
// at once.
//
// On WH_OK the caller owns *ep and ends it with wh_endpoint_close.  Operations may be started at once;
// they wait for the connection and fail with its error when it fails.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_connect(wh_worker *worker, const char *address,
                                              const wh_endpoint_opts *opts, wh_endpoint **ep);

// wh_endpoint_connect_blob connects to a worker by its address blob (wh_worker_address).  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_connect_blob(wh_worker *worker, const void *blob, size_t size,
                                                   const wh_endpoint_opts *opts, wh_endpoint **ep);

// wh_endpoint_connect_wait connects and waits: on WH_OK the endpoint is connected, on an error there is none.
WH_API WH_CHECK wh_status wh_endpoint_connect_wait(wh_worker *worker, const char *address,
                                                   const wh_endpoint_opts *opts, wh_endpoint **ep);

// wh_endpoint_status returns WH_OK when connected, WH_PENDING while connecting, else why it ended.  Owner
// only.
WH_API wh_status wh_endpoint_status(const wh_endpoint *ep);

// wh_endpoint_error returns one sentence on why the endpoint ended; the empty string while it has not.
// It lives as long as the endpoint.  Owner of the worker only.
WH_API const char *wh_endpoint_error(const wh_endpoint *ep);

// wh_endpoint_worker returns the endpoint's worker, borrowed.
WH_API wh_worker *wh_endpoint_worker(const wh_endpoint *ep);

// wh_endpoint_set_data keeps a pointer of the user's with the endpoint; wh_endpoint_data returns it.
WH_API void wh_endpoint_set_data(wh_endpoint *ep, void *data);
WH_API void *wh_endpoint_data(const wh_endpoint *ep);

// wh_endpoint_on_lost sets what to call when the peer goes.  Of an orderly close it is told after
// the handlers of all active messages that were sent before and the payloads that they have asked
// for.  Called at once, inside the next progress, if the peer has gone already.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_on_lost(wh_endpoint *ep, wh_lost_fn fn, void *arg);

// wh_endpoint_lanes writes the names of the lanes in use, such as "shm" or "stream (tcp 10.0.0.1:4711)",
// as one string that ends in NUL.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_lanes(const wh_endpoint *ep, char *text, size_t size);

// wh_endpoint_peer writes a name of the peer, such as "4711@node7 (10.0.0.7:40112)".  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_peer(const wh_endpoint *ep, char *text, size_t size);

// wh_endpoint_counters copies the endpoint's counters; set counters->size first.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_counters(const wh_endpoint *ep, wh_counters *counters);

// wh_endpoint_flush completes when the peer's library holds all earlier small messages, and the
// payloads of all large ones that a receive has matched have moved.
WH_API WH_CHECK wh_status wh_endpoint_flush(wh_endpoint *ep, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_endpoint_flush_wait(wh_endpoint *ep, int timeout_ms);

// wh_endpoint_close ends the conversation in order: what was sent before is delivered, then the peer
// reads end-of-stream.  Receives posted on the endpoint end with WH_ECLOSED at once.  The completion
// comes when the peer has acknowledged, or after opts->timeout_ms (default: config `close_timeout`) with
// WH_ETIMEDOUT.  The handle is given up with the call; whatever it returns, do not use `ep` again.
// wh_endpoint_close_wait: negative for no limit, 0 gives the peer a millisecond.
// wh_endpoint_close_wait, called from a callback, returns WH_EBUSY: nothing happened, the handle is still yours.
WH_API WH_CHECK wh_status wh_endpoint_close(wh_endpoint *ep, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_endpoint_close_wait(wh_endpoint *ep, int timeout_ms);

// wh_endpoint_abort drops the conversation: pending operations end with WH_ECANCELLED, the peer reads
// WH_EPEER.  Other endpoints to the same peer are not harmed, unless it does not let go of a buffer that it is moving to or
// from within config `grace`: then the link fails.  The handle is given up.
WH_API void wh_endpoint_abort(wh_endpoint *ep);

#ifdef __cplusplus
}
#endif
#endif
