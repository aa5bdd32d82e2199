// SPDX-License-Identifier: BSD-3-Clause
//
// Requests of layers: operations that a library on top of Wherry makes, and completes.
//
// An operation of such a layer (a collective, a message of a channel) consists of several of the
// engine's, or of none.  Its user shall have one request for it, which is waited for, cancelled,
// timed and freed like any other.  The layer creates it when it accepts the operation, starts the
// parts, and completes it once when they have ended.
//
// A worker's thread owns all of this: owner only (worker.h).  Users need none of it.
#ifndef WHERRY_LAYER_H
#define WHERRY_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <wherry/request.h>
#include <wherry/status.h>
#include <wherry/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

// What the library asks of the layer.
typedef struct wh_layer_ops {
    size_t size;       // of the caller's struct, so that it can grow
    const char *text;  // for people: "allreduce"; lives as long as the request
    // Asked to end the operation early, with `why`: WH_ECANCELLED, WH_ETIMEDOUT, or WH_ECLOSED when the
    // worker ends; inside a cancel of the owner's, progress, or the worker's destroy.  The layer cancels the parts and completes
    // the request when they have ended, now or later, with whatever status is right then.  Asked once,
    // and once more when the worker ends after that.
    void (*cancel)(wh_request *req, wh_status why, void *state);
} wh_layer_ops;
#ifndef __cplusplus
#define WH_LAYER_OPS(...) (&(wh_layer_ops){.size = sizeof(wh_layer_ops), __VA_ARGS__})
#endif

// wh_request_create makes the request of an operation that is accepted: it is pending from here on, and
// its time runs.
//
// Of `opts`, which may be NULL, `done`, `arg` and `timeout_ms` are obeyed; the rest is the layer's affair.
// `wanted`: the user gets *req as a handle and frees it; else it goes with its completion.  In both
// cases the layer may use *req until it completes it, and no longer.  `ops` is copied.
// WH_EINVAL without `ops->cancel` or `ops->text`, WH_ENOMEM.  Owner only.
WH_API WH_CHECK wh_status wh_request_create(wh_worker *worker, const wh_layer_ops *ops, void *state,
                                            const wh_op_opts *opts, bool wanted, wh_request **req);

// wh_request_complete ends it, once: with `status`, `size` and `tag` of `result`, and for an error with
// `sentence`, which says what failed, where and what to do, or NULL.  The sentence is copied.
//
// A callback runs later in progress, or in the worker's destroy, as that of any operation.  What the
// layer has not completed when the callbacks of its parts have run in wh_worker_destroy, the library
// ends with WH_ECLOSED, and the layer must not touch it any more.  WH_EINVAL: it is no request of a
// layer, has completed, or `result` has no final status.  Owner only.
WH_API WH_CHECK wh_status wh_request_complete(wh_request *req, const wh_result *result,
                                              const char *sentence);

// wh_request_discard takes back a request that the user has not been told of, when the operation was
// done within the call, or could not be started: no callback runs.  Owner only.
WH_API void wh_request_discard(wh_request *req);

// wh_request_may_wait says whether the calling thread may wait for an operation of `worker` now: WH_OK,
// or WH_EBUSY inside a callback.  A call that ends in _wait asks before it starts anything.
WH_API WH_CHECK wh_status wh_request_may_wait(const wh_worker *worker);

// wh_request_finish does what a call that ends in _wait has to: waits, cancels the operation when
// `timeout_ms` is over (negative: no limit; 0: at once) and waits for its end, frees `req`, and returns how
// it ended, with WH_ETIMEDOUT instead of a cancel.  `result` may be NULL.  Any thread, not in a callback.
WH_API WH_CHECK wh_status wh_request_finish(wh_request *req, int timeout_ms, wh_result *result);

// wh_worker_on_dump has `fn` print what the layer knows, behind what wh_worker_dump prints of the worker, also when a signal
// asks for it (config `sigusr1_dump`).  `fn` changes nothing.  NULL: nobody prints more.  One for each worker.  Owner only.
typedef void (*wh_dump_fn)(FILE *file, void *arg);
WH_API WH_CHECK wh_status wh_worker_on_dump(wh_worker *worker, wh_dump_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
