// SPDX-License-Identifier: BSD-3-Clause
//
// Worker: one progress domain.  Everything that a worker does, it does inside its progress.
//
// A worker is owned by one thread: the one that created it, until another adopts it, or its own
// progress thread when it was asked for.  Only the owner progresses it, and callbacks run there.  Any
// other thread may start operations: they are handed over through a bounded queue (config
// `submit_max`); a full queue answers WH_EAGAIN and nothing has happened.
//
// A call that says "owner only" answers WH_ETHREAD to any other thread, unless the worker has a progress
// thread: that one rests for the moment, and the call is made.
//
// A child of fork() may not use its parent's workers: each call there returns WH_EFORKED, and
// destroying one does nothing.
#ifndef WHERRY_WORKER_H
#define WHERRY_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <wherry/context.h>
#include <wherry/request.h>
#include <wherry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_worker wh_worker;

// How a worker waits.  ADAPTIVE spins for a while that pays, then sleeps; SPIN never sleeps; WAIT sleeps
// at once.
typedef enum wh_progress_mode {
    WH_PROGRESS_DEFAULT = 0,  // what the configuration says: `progress`
    WH_PROGRESS_WAIT,
    WH_PROGRESS_SPIN,
    WH_PROGRESS_ADAPTIVE,
} wh_progress_mode;

// Called in progress with a new endpoint that a peer has opened.  The callee owns `ep` and ends it with
// wh_endpoint_close.
typedef void (*wh_accept_fn)(wh_endpoint *ep, void *arg);

// The most that either side of an endpoint may give as connect data.
#define WH_CONNECT_DATA_MAX 1024

// Called in progress before an endpoint that a peer opens is accepted, and before the accept
// callback.
//
// It may ask who is there (wh_endpoint_peer_info, wh_endpoint_peer_data) and keep a pointer with
// `ep` (wh_endpoint_set_data).  `data` has room for WH_CONNECT_DATA_MAX bytes, of which the first
// *size are the connect data of the options; what it leaves there is what the peer reads.  An error
// refuses the endpoint: the peer's connect ends with it, and `ep` is gone after the call.  `arg` is
// the accept callback's.
typedef wh_status (*wh_answer_fn)(wh_endpoint *ep, void *data, size_t *size, void *arg);

typedef struct wh_worker_opts {  // zero in any field means its default
    size_t size;                 // of the caller's struct, so that it can grow
    wh_progress_mode mode;
    bool progress_thread;     // the worker owns a thread that progresses it
    wh_accept_fn accept;      // endpoints that peers open through this worker's address blob;
    void *accept_arg;         // default: they are refused
    const void *accept_data;  // connect data for them, at most WH_CONNECT_DATA_MAX bytes; copied
    size_t accept_data_size;
    wh_answer_fn answer;  // asked before each of them is accepted
} wh_worker_opts;
#ifndef __cplusplus
#define WH_WORKER_OPTS(...) (&(wh_worker_opts){.size = sizeof(wh_worker_opts), __VA_ARGS__})
#endif

// wh_worker_create makes a worker of `ctx` that the calling thread owns.  The worker holds the context.
WH_API WH_CHECK wh_status wh_worker_create(wh_context *ctx, const wh_worker_opts *opts,
                                           wh_worker **worker);

// wh_worker_context returns the worker's context, borrowed.  Any thread.
WH_API wh_context *wh_worker_context(const wh_worker *worker);

// wh_worker_adopt makes the calling thread the owner.  The former owner must not be inside a call.  A
// worker with a progress thread cannot be adopted: WH_EINVAL.
WH_API WH_CHECK wh_status wh_worker_adopt(wh_worker *worker);

// wh_worker_progress moves all that can move without waiting and returns how many events it handled; 0
// when there was nothing to do or when the caller is not the owner.  Owner only.
WH_API unsigned wh_worker_progress(wh_worker *worker);

// wh_worker_wait progresses until at least one event was handled, sleeping as the mode says.  Returns
// WH_OK, or WH_ETIMEDOUT after `timeout_ms` (negative: no limit; 0: do not sleep).  Owner only.
WH_API WH_CHECK wh_status wh_worker_wait(wh_worker *worker, int timeout_ms);

// wh_worker_fd returns a descriptor for foreign event loops (epoll, libuv, asyncio): call wh_worker_arm,
// and when that says WH_OK wait until the descriptor is readable, then call wh_worker_progress.
// The worker owns the descriptor.
WH_API int wh_worker_fd(const wh_worker *worker);

// wh_worker_arm prepares to sleep on wh_worker_fd.  WH_OK: sleep.  WH_EBUSY: progress first, then ask again.
// Owner only.
WH_API WH_CHECK wh_status wh_worker_arm(wh_worker *worker);

// wh_worker_wake ends a wh_worker_wait of the owner, or makes the next one return.  Any thread, and
// signal handlers.
WH_API void wh_worker_wake(wh_worker *worker);

// wh_worker_call runs `fn(arg)` once in the owner's progress.  Any thread.  WH_EAGAIN: the queue is full.
WH_API WH_CHECK wh_status wh_worker_call(wh_worker *worker, void (*fn)(void *arg), void *arg);

// wh_worker_address writes the worker's address, a blob of at most WH_ADDRESS_MAX bytes that any other
// worker can connect to with wh_endpoint_connect_blob, and its size.  The first call opens the worker's
// sockets (config `interface` restricts where they listen).
#define WH_ADDRESS_MAX 1024
WH_API WH_CHECK wh_status wh_worker_address(wh_worker *worker, void *blob, size_t *size);

// wh_worker_uuid copies the 16 bytes that name the worker.
WH_API void wh_worker_uuid(const wh_worker *worker, uint8_t uuid[16]);

// Asked, in progress, for the memory of frame `index` of an arriving object, whose tag, endpoint, header, frames
// and receive wherry/object.h tells.  Return WH_OK with *ptr set, WH_PENDING to answer later with
// wh_object_accept, or an error, which rejects the object.
typedef wh_status (*wh_alloc_fn)(wh_object *object, size_t index, void **ptr, void *arg);
typedef void (*wh_free_fn)(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg);

// Who gives the memory for frames of objects received blind.  A frame smaller than `threshold` is not asked
// for: it is treated as if there were no allocator, which costs nothing.  Without `alloc`, none is.
struct wh_allocator {
    size_t size;  // of the caller's struct, so that it can grow
    wh_alloc_fn alloc;
    wh_free_fn free_fn;  // not without `alloc`; called by whoever frees the object
    void *arg;           // of both
    size_t threshold;    // bytes
};
#ifndef __cplusplus
#define WH_ALLOCATOR(...) (&(wh_allocator){.size = sizeof(wh_allocator), __VA_ARGS__})
#endif

// wh_worker_set_allocator sets who allocates frames of memory kind `kind`; NULL: nobody is asked.  An
// endpoint (wh_endpoint_set_allocator) and a receive (wh_op_opts) may have allocators of their own, which come
// first.  Where nobody is asked, small frames lie in the object and others come from wh_mem_alloc_kind.
// The struct is copied.  Owner only.
WH_API WH_CHECK wh_status wh_worker_set_allocator(wh_worker *worker, wh_mem_kind kind,
                                                  const wh_allocator *allocator);

// wh_worker_flush_stream completes when all that was submitted to a stream of a device so far has run; it fails with the
// error of that work.  `stream` is what the kind calls so (a CUstream; NULL is the default stream of the thread's context).
// No thread and no stream waits: the worker looks from time to time.  WH_ENOTSUP: the kind does not exist here.  Any thread.
WH_API WH_CHECK wh_status wh_worker_flush_stream(wh_worker *worker, wh_mem_kind kind, void *stream,
                                                 const wh_op_opts *opts, wh_request **req);

// What a worker or an endpoint has done so far.
typedef struct wh_counters {
    size_t size;  // of the caller's struct, set by the caller: no more than that is written
    uint64_t sent_messages, sent_bytes, received_messages, received_bytes;
    uint64_t eager, rendezvous;           // sent, by how
    uint64_t no_credit;                   // small sends that had to be announced
    uint64_t unexpected;                  // messages that came before their receive
    uint64_t cancelled, failed;           // operations
    uint64_t doorbells, wakeups, sleeps;  // worker only
    uint64_t links, endpoints, pending;   // now, not in total
    uint64_t packed, unpacked;  // buffers that were no single run of host memory, by direction
    uint64_t device_sent, device_received;  // parts that one copy from device to device moved
    uint64_t bulk_lane;  // of those sent by rendezvous: whose payload went by the bulk lane
} wh_counters;

// wh_worker_counters copies the worker's counters; set counters->size first.  Owner only.
WH_API WH_CHECK wh_status wh_worker_counters(const wh_worker *worker, wh_counters *counters);

// wh_worker_dump prints links, lanes, credits and pending operations.  Owner only.
WH_API void wh_worker_dump(const wh_worker *worker, FILE *file);

// wh_worker_destroy closes what is still open (listeners at once, endpoints without waiting) and
// completes what is pending with WH_ECLOSED.  Handles of its endpoints and requests stay valid until
// their own end is called.  Owner only, or any thread when the worker has a progress thread; never
// from a callback.
WH_API void wh_worker_destroy(wh_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
