// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access, the side that asks, see rma.h.
//
// Arguments are checked here against the key, so that a mistake is told at once; the owner checks again,
// because it does not trust us.  An access that needs an answer counts as an announcement, whose bound keeps the
// owner's memory bounded.  An access goes directly, or through UCX, when the memory is there for it and nothing of the
// endpoint waits behind a fence; but not while records from before a fence may still be on their way, which it would
// overtake.
#include "rma/rma.h"

#include <string.h>

#include "mem/mem.h"
#include "message/behind.h"
#include "message/plain.h"
#include "message/recv.h"
#include "message/send.h"
#include "rma/native.h"

// ---- Direct access ----

static bool is_direct(const wh_rkey *rkey) {
    const wh_endpoint *ep = rkey->ep;
    return rkey->base && ep->state == WHI_EP_OPEN &&
           whi_memory_at(ep)->served >= whi_memory_at(ep)->fenced;
}

// is_native says whether UCX does the access: as a direct one, save that both ends must be host memory.
static bool is_native(const wh_request *req) {
    const wh_rkey *rkey = whi_access_of(req)->rkey;
    bool put = req->ops == &whi_put_ops;
    return rkey->native && (put || req->ops == &whi_get_ops) &&
           whi_native_allows(rkey->native, put ? WH_MR_WRITE : WH_MR_READ) && req->buf.direct &&
           rkey->ep->state == WHI_EP_OPEN &&
           whi_memory_at(rkey->ep)->served >= whi_memory_at(rkey->ep)->fenced;
}

static bool is_live(const wh_rkey *rkey) {
    return atomic_load_explicit(&rkey->shared->live, memory_order_acquire) == 1;
}

static wh_status copy_direct(void *there, const whi_buffer *here, bool put) {
    if (here->direct) {
        if (here->size)
            whi_copy(put ? there : here->ptr, put ? here->ptr : there, here->size);
        return WH_OK;
    }
    return put ? whi_buffer_read(here, 0, there, here->size)
               : whi_buffer_write(here, 0, there, here->size);
}

static wh_status run_direct(const wh_request *req) {
    const wh_rkey *rkey = whi_access_of(req)->rkey;
    unsigned char *there = rkey->base + whi_access_of(req)->remote;
    if (!is_live(rkey))
        return WH_EKEY;
    if (req->ops != &whi_atomic_ops)
        return copy_direct(there, &req->buf, req->ops == &whi_put_ops);
    uint64_t old = whi_mr_atomic(there, (wh_atomic_op)whi_access_of(req)->op, req->buf.size,
                                 whi_access_of(req)->operand, whi_access_of(req)->compare);
    whi_rma_store_old(req->buf.ptr, req->buf.size, old);
    return WH_OK;
}

// ---- Records ----

// send_record puts a record on the lane in its endpoint's order.
static wh_status send_record(wh_request *req, uint8_t cls, uint8_t flags, uint16_t aux,
                             const void *payload, size_t size) {
    wh_endpoint *ep = req->ep;
    whi_hdr hdr = {.size = (uint32_t)size,
                   .cls = cls,
                   .flags = flags,
                   .aux = aux,
                   .ep = ep->number,
                   .seq = ep->tx_seq,
                   .tag = whi_access_of(req)->rkey->key.id,
                   .arg = whi_access_of(req)->remote};
    wh_status st = ep->lane->ops->send(ep->lane, &hdr, payload);
    if (st == WH_OK) {
        ep->tx_seq++;
        whi_memory_at(ep)->accesses++;
    } else if (st != WH_EAGAIN) {
        whi_link_doom(ep->link, st);
    }
    return st;
}

// started counts an access that an answer ends.
static void started(wh_request *req) {
    wh_endpoint *ep = req->ep;
    ep->announced++;
    whi_memory_at(ep)->active++;
    req->tag = whi_memory_at(ep)->accesses;
    req->stage = WHI_STAGE_MOVING;
}

static wh_status start_small_put(wh_request *req) {
    const void *payload = req->buf.ptr;
    if (!req->buf.direct) {
        payload = whi_messages_of(req->worker)->scratch;
        wh_status st =
            whi_buffer_read(&req->buf, 0, whi_messages_of(req->worker)->scratch, req->buf.size);
        if (st != WH_OK)
            return st;
    }
    return send_record(req, WHI_CLASS_PUT, 0, 0, payload, req->buf.size);
}

static wh_status start_large_put(wh_request *req) {
    wh_endpoint *ep = req->ep;
    wh_status st = whi_send_name(req);
    if (st != WH_OK)
        return st;
    whi_access access = {.id = req->send_id, .value = req->buf.size};
    st = send_record(req, WHI_CLASS_PUT, WHI_FLAG_ANNOUNCED, 0, &access, sizeof(access));
    if (st != WH_OK)
        return st;
    req->serial = ep->bulk_serial++;
    started(req);
    req->stage = WHI_STAGE_ANNOUNCED;
    return WH_PENDING;
}

static wh_status start_get(wh_request *req) {
    whi_link *link = req->ep->link;
    wh_status st =
        req->grant_id ? WH_OK : whi_idmap_put(&whi_messages_on(link)->grants, req, &req->grant_id);
    if (st != WH_OK)
        return st;
    whi_access access = {.id = req->grant_id, .value = req->buf.size};
    req->accept = req->length = req->buf.size;
    st = send_record(req, WHI_CLASS_GET, 0, 0, &access, sizeof(access));
    if (st != WH_OK)
        return st;
    started(req);
    return WH_PENDING;
}

static wh_status start_atomic(wh_request *req) {
    bool fetches = req->buf.ptr != NULL;
    wh_status st = fetches ? whi_send_name(req) : WH_OK;
    if (st != WH_OK)
        return st;
    whi_access access = {.id = req->send_id,
                         .value = whi_access_of(req)->operand,
                         .compare = whi_access_of(req)->compare};
    uint16_t aux = (uint16_t)(whi_access_of(req)->op | req->buf.size << 8);
    st = send_record(req, WHI_CLASS_ATOMIC, 0, aux, &access, sizeof(access));
    if (st != WH_OK || !fetches)
        return st;
    started(req);
    return WH_PENDING;
}

static wh_status start_fence(wh_request *req) {
    wh_endpoint *ep = req->ep;
    whi_ep_memory *at = whi_memory_at(ep);
    if (at->active || !whi_native_settled(ep, at->native))
        return WH_ELIMIT;
    // What was done directly is visible before what a lane carries: publishing a record is a release.
    at->fenced = at->accesses;
    // What is reached directly is ordered by the processor, if it is told to.
    atomic_thread_fence(memory_order_seq_cst);
    return WH_OK;
}

static wh_status post_fence(wh_request *req) {
    wh_status st = whi_send_post(req);
    if (st == WH_PENDING) {  // in the queue: it has no other way to wait
        whi_access_of(req)->counted = true;
        whi_memory_at(req->ep)->fences++;
    }
    return st;
}

static void fence_completed(wh_request *req, whi_req_stage stage) {
    (void)stage;
    whi_memory_at(req->ep)->fences -= whi_access_of(req)->counted;
}

// stream_came tries an access again that has waited for a stream of the caller's at the head of its queue, so that what was
// asked for behind it stays behind it.
static void stream_came(wh_request *req) {
    whi_ep_mark(req->ep);
}

static wh_status start_access(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (!req->buf.size)
        return WH_OK;  // nothing to move, and no record says so
    wh_status ready = whi_behind_state(req);
    if (ready == WH_PENDING)
        whi_behind_await(req, stream_came);
    if (ready != WH_OK)
        return ready == WH_PENDING ? WH_ELIMIT : ready;
    wh_rkey *rkey = whi_access_of(req)->rkey;
    if (is_direct(rkey))
        return run_direct(req);
    if (is_native(req))
        return whi_native_start(req, rkey->native);
    whi_rkey_ask(rkey);
    if (req->ops == &whi_put_ops && req->buf.size <= ep->link->eager_max)
        return start_small_put(req);
    if (ep->announced >= ep->announce_limit)
        return WH_ELIMIT;
    if (req->ops == &whi_put_ops)
        return start_large_put(req);
    return req->ops == &whi_get_ops ? start_get(req) : start_atomic(req);
}

static void fini(wh_request *req) {
    if (whi_access_of(req)->rkey)
        whi_rkey_release(whi_access_of(req)->rkey);
}

static void adopt(wh_request *req) {
    whi_rkey_take_over(whi_access_of(req)->rkey);
}

static void refused(wh_request *req) {
    if (whi_access_of(req)->rkey)
        atomic_fetch_sub(&whi_access_of(req)->rkey->submitted, 1);
    whi_access_of(req)->rkey = NULL;
}

static wh_status put_granted(const wh_request *req, const whi_hdr *hdr) {
    return hdr->arg == req->buf.size && hdr->aux == WHI_PART_DATA ? WH_OK : WH_EPROTOCOL;
}

// put_moved: a put ends with the peer's answer, but for one that was withdrawn meanwhile.
static void put_moved(wh_request *req) {
    if (req->why)
        (void)whi_rma_withdraw_moving(req, req->why);
}

#define ACCESS_OPS                                                                                 \
    .post = whi_send_post, .start = start_access, .withdraw = whi_send_withdraw,                   \
    .withdraw_moving = whi_rma_withdraw_moving, .completed = whi_rma_completed, .fini = fini,      \
    .adopt = adopt, .refused = refused, .match = WHI_MATCH_NONE, .holds_close = true

const whi_req_ops whi_put_ops = {ACCESS_OPS, .text = "put", .granted = put_granted,
                                 .moved = put_moved};
const whi_req_ops whi_get_ops = {ACCESS_OPS, .text = "get", .sink = whi_recv_sink,
                                 .landed = whi_recv_landed, .names_grant = true};
const whi_req_ops whi_atomic_ops = {ACCESS_OPS, .text = "atomic"};
const whi_req_ops whi_fence_ops = {.text = "fence",
                                   .post = post_fence,
                                   .start = start_fence,
                                   .withdraw = whi_send_withdraw,
                                   .completed = fence_completed,
                                   .match = WHI_MATCH_NONE,
                                   .holds_close = true};

// ---- The public calls ----

static wh_status check(const wh_rkey *rkey, unsigned access, uint64_t offset, uint64_t size) {
    if ((rkey->key.access & access) != access)
        return WH_EPERM;
    return offset > rkey->key.size || size > rkey->key.size - offset ? WH_EBOUNDS : WH_OK;
}

// may_go_now says whether an access need not be a request: the owner asks, the memory is mapped, and no fence waits.
static bool may_go_now(const wh_rkey *rkey, const wh_op_opts *opts) {
    return whi_worker_is_owner(rkey->ep->worker) && is_direct(rkey) &&
           !whi_memory_at(rkey->ep)->fences && whi_ep_usable(rkey->ep) == WH_OK &&
           whi_plain_memory(opts);
}

// hold_rkey gives a request its key; the owner counts that of a foreign one when it takes the request over.
static void hold_rkey(wh_request *req, wh_rkey *rkey, uint64_t offset) {
    whi_access_of(req)->remote = offset;
    whi_access_of(req)->rkey = rkey;
    if (req->foreign)
        atomic_fetch_add(&rkey->submitted, 1);
    else
        rkey->refs++;
}

static wh_status move(wh_rkey *rkey, const whi_req_ops *ops, uint64_t offset, void *buf,
                      size_t size, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!rkey || whi_req_no_buffer(buf, size, opts) || (opts && opts->flags))
        return WH_EINVAL;
    bool put = ops == &whi_put_ops;
    unsigned access = put ? WH_MR_WRITE : WH_MR_READ;
    if (may_go_now(rkey, opts)) {
        wh_status st = check(rkey, access, offset, size);
        if (st != WH_OK)
            return st;
        if (!is_live(rkey))
            return WH_EKEY;
        if (size) {  // else there need be no buffer
            void *there = rkey->base + offset;
            whi_copy(put ? there : buf, put ? buf : there, size);
        }
        return whi_req_done_now(size, 0, opts, out);
    }
    wh_request *req = whi_req_new(rkey->ep->worker, rkey->ep, ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    wh_status st = whi_req_buffer(&req->buf, buf, size, opts);
    if (st == WH_OK)
        st = check(rkey, access, offset, req->buf.size);
    if (st == WH_OK)
        st = whi_behind_order(req, opts);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    req->result = (wh_result){.size = req->buf.size};
    hold_rkey(req, rkey, offset);
    return whi_req_start(req, opts, out);
}

wh_status wh_put(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                 const wh_op_opts *opts, wh_request **req) {
    return move(rkey, &whi_put_ops, offset, (void *)(uintptr_t)buf, size, opts, req);
}

wh_status wh_get(wh_rkey *rkey, uint64_t offset, void *buf, size_t size, const wh_op_opts *opts,
                 wh_request **req) {
    return move(rkey, &whi_get_ops, offset, buf, size, opts, req);
}

static wh_status check_atomic(const wh_rkey *rkey, uint64_t offset, wh_atomic_op op, size_t size) {
    if ((size != 4 && size != 8) || (unsigned)op > WH_ATOMIC_CSWAP)
        return WH_EINVAL;
    wh_status st = check(rkey, WH_MR_ATOMIC, offset, size);
    if (st != WH_OK)
        return st;
    if ((rkey->key.align + offset) & (size - 1))
        return WH_EINVAL;
    return rkey->key.kind == WH_MEM_HOST ? WH_OK : WH_ENOTSUP;
}

wh_status wh_atomic(wh_rkey *rkey, uint64_t offset, wh_atomic_op op, size_t size, uint64_t operand,
                    uint64_t compare, void *old, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!rkey || (opts && opts->flags))
        return WH_EINVAL;
    wh_status st = check_atomic(rkey, offset, op, size);
    if (st != WH_OK)
        return st;
    if (may_go_now(rkey, opts)) {
        if (!is_live(rkey))
            return WH_EKEY;
        whi_rma_store_old(old, size,
                          whi_mr_atomic(rkey->base + offset, op, size, operand, compare));
        return whi_req_done_now(size, 0, opts, out);
    }
    wh_request *req = whi_req_new(rkey->ep->worker, rkey->ep, &whi_atomic_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->buf = whi_buffer_host(old, size);
    req->result = (wh_result){.size = size};
    whi_access_of(req)->op = (uint16_t)op;
    whi_access_of(req)->operand = operand;
    whi_access_of(req)->compare = compare;
    hold_rkey(req, rkey, offset);
    return whi_req_start(req, opts, out);
}

wh_status wh_endpoint_fence(wh_endpoint *ep) {
    wh_request *req = ep ? whi_req_new(ep->worker, ep, &whi_fence_ops, NULL, false) : NULL;
    if (!req)
        return ep ? WH_ENOMEM : WH_EINVAL;
    wh_status st = whi_req_start(req, NULL, NULL);
    return st == WH_PENDING ? WH_OK : st;
}

// finish_wait waits for what a call has started.
static wh_status finish_wait(wh_status st, wh_request *req, int timeout_ms) {
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, NULL) : st;
}

wh_status wh_put_wait(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                      int timeout_ms) {
    wh_request *req = NULL;
    wh_status st = rkey ? whi_req_may_wait(rkey->ep->worker) : WH_EINVAL;
    if (st == WH_OK)
        st = wh_put(rkey, offset, buf, size, NULL, &req);
    return finish_wait(st, req, timeout_ms);
}

wh_status wh_get_wait(wh_rkey *rkey, uint64_t offset, void *buf, size_t size, int timeout_ms) {
    wh_request *req = NULL;
    wh_status st = rkey ? whi_req_may_wait(rkey->ep->worker) : WH_EINVAL;
    if (st == WH_OK)
        st = wh_get(rkey, offset, buf, size, NULL, &req);
    return finish_wait(st, req, timeout_ms);
}

wh_status wh_atomic_wait(wh_rkey *rkey, uint64_t offset, wh_atomic_op op, size_t size,
                         uint64_t operand, uint64_t compare, void *old, int timeout_ms) {
    wh_request *req = NULL;
    wh_status st = rkey ? whi_req_may_wait(rkey->ep->worker) : WH_EINVAL;
    if (st == WH_OK)
        st = wh_atomic(rkey, offset, op, size, operand, compare, old, NULL, &req);
    return finish_wait(st, req, timeout_ms);
}
