// SPDX-License-Identifier: BSD-3-Clause
//
// Requests: what an operation returns while it is under way, and how it ends.
//
// Every operation takes `opts` (NULL for the defaults) and `req` (NULL: no handle), and returns
//
//   WH_OK       done already: the callback does not run, *req is NULL, opts->result is filled;
//   WH_PENDING  accepted: it completes exactly once, done, failed or cancelled;
//   an error    nothing happened.
//
// It completes inside progress, and its callback runs there, or in the worker's destroy.  What ends
// by a cancel, a close or an abort of the owner's may have its final status when that call returns.
// The buffer is borrowed from the call until the completion.
//
// With opts->type a buffer of an operation is a layout (type.h): its pointer is the origin, and its
// size counts elements of the type, not bytes.  What travels are the packed bytes, as wh_pack would
// make them, but nobody has to make them first: the library produces and consumes them as they move.
// The two sides may have different layouts.  Sizes of results are bytes.  The type is retained.
// Where both have given one, and their elements are not the same (wh_type_signature), the receive
// fails with WH_ETYPE and the send, if it has not completed, with WH_EREJECTED.  Bytes, and what has no
// type, go with everything.
//
// Pass `req` to get a handle that you
// free with wh_request_free; pass NULL and the library frees it.  A handle may be asked, waited
// for, cancelled and freed from any thread.
#ifndef WHERRY_REQUEST_H
#define WHERRY_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/mem.h>
#include <wherry/status.h>
#include <wherry/type.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_request wh_request;
typedef struct wh_endpoint wh_endpoint;
typedef struct wh_object wh_object;
typedef struct wh_allocator wh_allocator;

// How an operation ended.  Which fields mean something depends on the operation.  It is 64 bytes
// for good: what is reserved is written as zero.
typedef struct wh_result {
    wh_status status;
    uint64_t size;        // bytes of the message, also when it was truncated
    uint64_t tag;         // of the received message
    wh_endpoint *source;  // where it came from; borrowed, NULL when it is no longer open
    wh_object *object;    // of an object receive: yours, end it with wh_object_free
    uint64_t reserved[3];
} wh_result;

// Called once, inside progress or in the worker's destroy, from the thread of that.  It may start
// operations, close endpoints and free `req`; it may not destroy the worker.  `req` is NULL when no
// handle was asked for.
typedef void (*wh_done_fn)(wh_request *req, const wh_result *result, void *arg);

enum {
    WH_OP_SYNC = 1 << 0,  // a send completes only when a receive has matched it
    // The elements of a layout are bytes to this side: not compared with what the peer says of its own.
    WH_OP_UNTYPED = 1 << 1,
};

typedef struct wh_op_opts {  // zero in any field means its default
    size_t size;             // of the caller's struct, so that it can grow
    int32_t timeout_ms;      // then it fails with WH_ETIMEDOUT; negative: no limit, the default
    uint32_t flags;          // WH_OP_*; one that is unknown is WH_ENOTSUP
    wh_mem_kind mem;         // of the buffer; default: detected
    int device;              // of the buffer, for device memory
    wh_done_fn done;         // default: none
    void *arg;               // of done
    wh_result *result;       // filled when the call returns WH_OK
    const wh_allocator *allocator;  // of an object receive: who allocates its frames, of any kind
    const wh_type *type;            // of the buffer; default: bytes
    void *stream;  // of the buffer's device: behind what is in it now; default: behind nothing
} wh_op_opts;
#ifndef __cplusplus
#define WH_OP_OPTS(...) (&(wh_op_opts){.size = sizeof(wh_op_opts), __VA_ARGS__})
#endif

// wh_request_status returns WH_PENDING while the operation is under way, then how it ended.
WH_API wh_status wh_request_status(const wh_request *req);

// wh_request_result writes the whole result once the operation has ended.  Returns WH_OK when it
// was written (the operation's own status is result->status) and WH_PENDING before that.
WH_API WH_CHECK wh_status wh_request_result(const wh_request *req, wh_result *result);

// wh_request_error returns one sentence on why the operation failed: what, which peer, which lane,
// and what to try; the empty string when it did not, or has not ended.  The operation's callback may ask, too.  It lives as long
// as the request.
WH_API const char *wh_request_error(const wh_request *req);

// wh_request_wait waits until the operation has ended and returns how, or WH_ETIMEDOUT after
// `timeout_ms` (negative: no limit; 0: at once; the operation itself goes on).  The thread that
// owns the worker progresses it meanwhile; any other thread sleeps and needs the owner to
// progress.  Not to be called from a callback, which gets WH_EBUSY.  The calls whose names end in
// _wait, when their time is over, cancel their operation and return once it has ended, which a peer
// that holds the buffer can delay by config `grace`.
WH_API WH_CHECK wh_status wh_request_wait(wh_request *req, int timeout_ms);

// wh_request_cancel asks the operation to end.  It is a request, not a promise: a receive that has
// not matched and a send that has not been granted end with WH_ECANCELLED; anything later
// completes, and so does a send whose payload the peer has read already, with WH_OK.  The
// completion always comes, exactly once.  WH_ECANCELLED gives the buffer back.  A
// synchronous send, or an object that has no large frames, may have been received all the same: its
// bytes were with the peer before.
WH_API void wh_request_cancel(wh_request *req);

// wh_request_free gives the handle back.  An operation under way goes on without it.  NULL is
// allowed.
WH_API void wh_request_free(wh_request *req);

#ifdef __cplusplus
}
#endif
#endif
