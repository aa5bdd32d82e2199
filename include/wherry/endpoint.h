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

#include <stdbool.h>
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
    // Connect data: at most WH_CONNECT_DATA_MAX bytes that the peer reads before it accepts;
    // copied.  A peer whose library is too old for it is not connected to: WH_ENOTSUP.
    const void *data;
    size_t data_size;
} wh_endpoint_opts;
#ifndef __cplusplus
#define WH_ENDPOINT_OPTS(...) (&(wh_endpoint_opts){.size = sizeof(wh_endpoint_opts), __VA_ARGS__})
#endif

// One end of a connection.
typedef struct wh_address {
    uint16_t family;    // AF_INET, AF_INET6, AF_UNIX; 0: there is none
    uint16_t port;      // 0 for AF_UNIX
    uint32_t scope_id;  // of an IPv6 address that is only good on one interface: that interface
    // The address as numbers, with "%interface" where it has a scope; of AF_UNIX the abstract name
    // without its leading zero byte, empty for an end without a name.  Ends in NUL.
    char host[64];
} wh_address;

// Who is at the other end.
typedef struct wh_peer_info {
    size_t size;       // of the caller's struct, set by the caller
    uint8_t uuid[16];  // of the peer's worker
    // Of the connection that the link began with.  All endpoints between two workers share a link,
    // so an endpoint that was connected later, or to another listener, has the same.  A connect by
    // address blob on one host needs no TCP: then they are AF_UNIX.
    wh_address local, remote;
    bool same_host;  // the peer runs on this host
    bool vouched;    // uid and pid are what the kernel says; else what the peer says of itself
    uint32_t uid;    // means something only on the same host
    uint32_t pid;    // if not vouched: as the peer's own pid namespace counts
    char host[64];   // host name of the peer, as it says; ends in NUL
} wh_peer_info;

// wh_endpoint_connect starts connecting to a listener at `address` ("host:port", "[v6]:port") and returns
// at once.
//
// On WH_OK the caller owns *ep and ends it with wh_endpoint_close.  Operations may be started at once;
// they wait for the connection and fail with its error when it fails.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_connect(wh_worker *worker, const char *address,
                                              const wh_endpoint_opts *opts, wh_endpoint **ep);

// wh_endpoint_connect_blob connects to a worker by its address blob (wh_worker_address), and to no other one that has its
// port by now.  Owner only.
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

// wh_endpoint_lanes writes the lane that messages are sent by and what it says of itself, such as
// "shm (shm ring 32 KiB)" or "stream (tcp 10.0.0.1:4711)", and the bulk lane if it is open, as one
// string that ends in NUL.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_lanes(const wh_endpoint *ep, char *text, size_t size);

// wh_endpoint_peer writes a name of the peer, such as "4711@node7 (10.0.0.7:40112)".  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_peer(const wh_endpoint *ep, char *text, size_t size);

// wh_endpoint_peer_info tells who the peer is: from the accept callback on, or from the connect on,
// to the end of the endpoint's life, also when the peer has gone.  It writes info->size bytes.
// WH_PENDING: not connected yet; WH_ECLOSED: it never was.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_peer_info(const wh_endpoint *ep, wh_peer_info *info);

// wh_endpoint_peer_data returns the connect data of the peer and its size; NULL and 0 if it gave
// none, or as long as the endpoint is not connected.  It lives as long as the endpoint.  Any
// thread.
WH_API const void *wh_endpoint_peer_data(const wh_endpoint *ep, size_t *size);

// wh_endpoint_lost says whether the endpoint has ended but for our own closing: the peer has closed
// it or was lost, or the connect failed.  It is true before any callback tells so.  Any thread.
WH_API bool wh_endpoint_lost(const wh_endpoint *ep);

// wh_endpoint_counters copies the endpoint's counters; set counters->size first.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_counters(const wh_endpoint *ep, wh_counters *counters);

// wh_endpoint_flush completes when the peer's library holds all earlier small messages, the
// payloads of all large ones that a receive has matched have moved, and the effects of all earlier
// accesses (rma.h) are visible to their owner.
WH_API WH_CHECK wh_status wh_endpoint_flush(wh_endpoint *ep, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_endpoint_flush_wait(wh_endpoint *ep, int timeout_ms);

// wh_endpoint_close ends the conversation in order: what was sent before is delivered, then the peer
// reads end-of-stream.  Receives posted on the endpoint end with WH_ECLOSED at once.  With sends that wait
// for the connection it waits as well, and fails with the connection's error.  The completion
// comes when the peer has acknowledged, or after opts->timeout_ms (default: config `close_timeout`) with
// WH_ETIMEDOUT.  The handle is given up with the call; whatever it returns, do not use `ep` again.
// wh_endpoint_close_wait: negative for no limit, 0 gives the peer a millisecond.
// wh_endpoint_close_wait, called from a callback, returns WH_EBUSY: nothing happened, the handle is still yours.
WH_API WH_CHECK wh_status wh_endpoint_close(wh_endpoint *ep, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_endpoint_close_wait(wh_endpoint *ep, int timeout_ms);

// wh_endpoint_abort drops the conversation: pending operations end with WH_ECANCELLED, the peer reads
// WH_EPEER.  Other endpoints to the same peer are not harmed, unless it does not return a buffer that it is moving to or
// from within config `grace`: then the link fails.  The handle is given up.
WH_API void wh_endpoint_abort(wh_endpoint *ep);

#ifdef __cplusplus
}
#endif
#endif
