// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access: put, get and atomics on memory that a peer has registered.
//
// The owner of memory registers it with a context and gives its key, a few bytes, by any way to
// those who may use it.  The other side opens the key over an endpoint to a worker of that context
// and names places in the memory by their offset from its start.  Nothing of this needs an
// operation of the owner's, but its workers must progress or wait: on lanes without such access of
// their own they serve it.
//
// One semantics on all lanes:
//   - A put, and an atomic that fetches nothing, is done when its buffer may be reused; a get and an
//     atomic that fetches, when the result is here.
//   - Operations take effect in no stated order, except that what was started before
//     wh_endpoint_fence takes effect before what is started after it on the same endpoint.
//   - wh_endpoint_flush is done when the effects of all that was started before are visible to the
//     owner, and messages have gone as far as endpoint.h says; it fails with the error of any access
//     that failed after it was done.
//   - Atomics are atomic among each other, and with the C11 atomics of the owner's process.
//     Anything else that touches the same bytes at the same time reads or leaves mixed bytes.
// A wrong offset is WH_EBOUNDS, an access that the key does not allow WH_EPERM, a key whose memory
// is no longer registered WH_EKEY: at the initiator, and the owner is not harmed.
#ifndef WHERRY_RMA_H
#define WHERRY_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/context.h>
#include <wherry/endpoint.h>
#include <wherry/mem.h>
#include <wherry/request.h>
#include <wherry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_mr wh_mr;      // registered memory of this process
typedef struct wh_rkey wh_rkey;  // a peer's registered memory, over one endpoint

// What those who have the key may do.
enum {
    WH_MR_READ = 1 << 0,    // get
    WH_MR_WRITE = 1 << 1,   // put
    WH_MR_ATOMIC = 1 << 2,  // atomics
    WH_MR_ALL = WH_MR_READ | WH_MR_WRITE | WH_MR_ATOMIC,
};

// wh_mr_register registers `size` > 0 bytes of the user's memory.  The memory must stay until
// wh_mr_destroy has returned WH_OK.  `kind` may be WH_MEM_AUTO; `access` is a set of WH_MR_*.  Any
// thread.
WH_API WH_CHECK wh_status wh_mr_register(wh_context *ctx, void *ptr, size_t size, wh_mem_kind kind,
                                         unsigned access, wh_mr **mr);

// wh_mr_alloc allocates zeroed host memory of `size` > 0 bytes, aligned to a page, and registers
// it.  Peers on this host reach it directly, at the speed of memory.  For that, they map the whole
// of it: somebody who has the key could, with another library, read and write it in spite of
// `access` (docs/security.md).  wh_mr_destroy frees it.  Any thread.
WH_API WH_CHECK wh_status wh_mr_alloc(wh_context *ctx, size_t size, unsigned access, wh_mr **mr);

// wh_mr_address and wh_mr_size return where the memory is and its bytes.
WH_API void *wh_mr_address(const wh_mr *mr);
WH_API size_t wh_mr_size(const wh_mr *mr);

// wh_mr_key writes the key, at most WH_MR_KEY_MAX bytes, and its size.  Any thread.
#define WH_MR_KEY_MAX 256
WH_API WH_CHECK wh_status wh_mr_key(const wh_mr *mr, void *key, size_t *size);

// wh_mr_destroy revokes the key.  WH_OK: no access begins from the return on, and the handle is
// given up, memory of wh_mr_alloc with it.  WH_EBUSY: a worker of the context is in the middle of
// an access that a peer began before, which is never answered for memory of wh_mr_alloc, and ends
// it in its next progress; or a peer that reaches the memory through UCX has yet to give it back.
// Progress the workers and call again.  WH_EFORKED: it is the memory of a forked child's parent.
// Any thread.
WH_API WH_CHECK wh_status wh_mr_destroy(wh_mr *mr);

// wh_rkey_open makes a key usable over `ep`, which must lead to a worker of the context that made
// the key.  The caller ends *rkey with wh_rkey_close; it holds the endpoint's memory, and
// operations through it fail once the endpoint has ended.  WH_EKEY: these bytes are no key.  Owner
// only.
WH_API WH_CHECK wh_status wh_rkey_open(wh_endpoint *ep, const void *key, size_t size,
                                       wh_rkey **rkey);

// wh_rkey_size returns the bytes of the memory.  wh_rkey_direct says whether it is reached
// directly, or through UCX, without the help of the owner's library, as of now: a peer's memory
// becomes so soon after the key was opened or, when others were asked for at that time, used.
// Owner only.
WH_API uint64_t wh_rkey_size(const wh_rkey *rkey);
WH_API bool wh_rkey_direct(const wh_rkey *rkey);

// wh_rkey_close gives the handle up.  Operations under way go on.  NULL is allowed.  Owner only:
// from another thread it does nothing, unless the worker has a progress thread or is destroyed.
WH_API void wh_rkey_close(wh_rkey *rkey);

// wh_put writes `size` bytes to `offset` in the peer's memory; wh_get reads them.  Requests, opts
// and buffers as in request.h; WH_OP_SYNC is WH_EINVAL.  Any thread, while the rkey is open.
WH_API WH_CHECK wh_status wh_put(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                                 const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_get(wh_rkey *rkey, uint64_t offset, void *buf, size_t size,
                                 const wh_op_opts *opts, wh_request **req);

// The same, waiting.  timeout_ms: negative for no limit, 0 for at once.
WH_API WH_CHECK wh_status wh_put_wait(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                                      int timeout_ms);
WH_API WH_CHECK wh_status wh_get_wait(wh_rkey *rkey, uint64_t offset, void *buf, size_t size,
                                      int timeout_ms);

// What an atomic does to the word there.  Numbers never change: they travel.
typedef enum wh_atomic_op {
    WH_ATOMIC_ADD = 0,
    WH_ATOMIC_AND = 1,
    WH_ATOMIC_OR = 2,
    WH_ATOMIC_XOR = 3,
    WH_ATOMIC_SWAP = 4,
    WH_ATOMIC_CSWAP = 5,  // `operand`, if the word is `compare`
} wh_atomic_op;

// wh_atomic changes the word of `size` bytes, 4 or 8, at `offset`, which must be aligned to its
// size in the owner's memory (WH_EINVAL), and host memory (WH_ENOTSUP).  `old`, if not NULL, is a
// word of that size in host memory that gets the value from before.  Words are in the machine's
// byte order.
WH_API WH_CHECK wh_status wh_atomic(wh_rkey *rkey, uint64_t offset, wh_atomic_op op, size_t size,
                                    uint64_t operand, uint64_t compare, void *old,
                                    const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_atomic_wait(wh_rkey *rkey, uint64_t offset, wh_atomic_op op,
                                         size_t size, uint64_t operand, uint64_t compare, void *old,
                                         int timeout_ms);

// wh_endpoint_fence makes all that is started on the endpoint after it, messages too, take effect
// at the peer after all remote accesses that were started before it, both by the calling thread.
// It does not wait.  Any thread.
WH_API WH_CHECK wh_status wh_endpoint_fence(wh_endpoint *ep);

#ifdef __cplusplus
}
#endif
#endif
