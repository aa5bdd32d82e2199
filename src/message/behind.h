// SPDX-License-Identifier: BSD-3-Clause
//
// Behind: operations on device memory that begin behind what was submitted to a stream of the caller's.
//
// The call records an event on that stream.  Until the event has passed, the operation reads and writes nothing of its buffer:
// a send is announced instead of going at once, a receive does not ask for its payload, and what comes unasked is kept.  No
// stream waits and no thread does, so that a stream which is late holds up nobody else.
//
// A whi_behind is made by the thread that makes the request; from then on it belongs to that, and to its owner thread.
#ifndef WHI_MESSAGE_BEHIND_H
#define WHI_MESSAGE_BEHIND_H

#include "message/request.h"

typedef struct whi_behind {
    whi_mem_event after;
    wh_request *req;
    whi_list link;                // among those that the worker looks at (room.h)
    void (*go)(wh_request *req);  // what follows then
    void *kept;                   // a payload that has come before
    uint64_t kept_size;
} whi_behind;

// whi_behind_asked says whether options ask for that of this buffer.
static inline bool whi_behind_asked(const whi_buffer *buf, const wh_op_opts *opts) {
    return __builtin_expect(opts && opts->stream, 0) && buf->kind != WH_MEM_HOST && buf->size;
}

// whi_behind_begin orders a request behind a stream of memory of this kind; whi_behind_order one whose buffer is known, if its
// options ask for that.
WH_CHECK wh_status whi_behind_begin(wh_request *req, wh_mem_kind kind, void *stream);
WH_CHECK static inline wh_status whi_behind_order(wh_request *req, const wh_op_opts *opts) {
    return opts && whi_behind_asked(&req->buf, opts)
               ? whi_behind_begin(req, (wh_mem_kind)req->buf.kind, opts->stream)
               : WH_OK;
}

// whi_behind_end frees what a request has of it.
void whi_behind_drop(wh_request *req);
static inline void whi_behind_end(wh_request *req) {
    if (__builtin_expect(req->behind != NULL, 0))
        whi_behind_drop(req);
}

// whi_behind_state returns WH_OK when the buffer may be touched, WH_PENDING when not yet, or the error of the work before.
wh_status whi_behind_ask(wh_request *req);
static inline wh_status whi_behind_state(wh_request *req) {
    return __builtin_expect(req->behind != NULL, 0) ? whi_behind_ask(req) : WH_OK;
}

// whi_behind_await has `go` called in progress once that is no longer WH_PENDING; whi_behind_rest takes it back, with what was kept.
// whi_behind_awaited says whether it is to be called.
void whi_behind_await(wh_request *req, void (*go)(wh_request *req));
void whi_behind_rest(wh_request *req);
static inline bool whi_behind_awaited(const wh_request *req) {
    return __builtin_expect(req->behind != NULL, 0) && whi_list_linked(&req->behind->link);
}

// whi_behind_keep makes the memory in which a payload of `size` bytes waits; NULL: there is none.
void *whi_behind_keep(wh_request *req, uint64_t size);

// whi_behind_kept says whether a receive has its payload, and waits for the stream only.
static inline bool whi_behind_kept(const wh_request *req) {
    return __builtin_expect(req->behind != NULL, 0) && req->behind->kept;
}

// whi_behind_wake has the room look in each pass from now on, after an event was added or has passed: of these, and of the
// copies of staging.
void whi_behind_wake(wh_worker *worker);

// What the room asks: see whi_room.  Busy: an event of these or of staging has yet to pass.
void whi_behind_init(wh_worker *worker);
unsigned whi_behind_look(wh_worker *worker);
bool whi_behind_busy(const wh_worker *worker);
wh_status whi_behind_arm(wh_worker *worker);
uint64_t whi_behind_next_look(const wh_worker *worker);

#endif
