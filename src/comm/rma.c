// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access, the side that asks, see rma.h.
//
// Arguments are checked here against the key, so that a mistake is told at once; the owner checks again,
// because it does not trust us.  An access that needs an answer counts as an announcement, whose bound keeps the
// owner's memory bounded.  An access goes directly, or through UCX, when the memory is there for it and nothing of the
// endpoint waits behind a fence; but not while records from before a fence may still be on their way, which it would
// overtake.
#include "comm/rma.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "comm/native.h"
#include "comm/plain.h"
#include "mem/mem.h"
#include "net/stream/stream.h"

// ---- Keys ----

// is_to_be_had says whether the memory can be reached without its owner's help over the lane that is used.
static bool is_to_be_had(const wh_rkey *rkey) {
    const whi_link *link = rkey->ep->link;
    if (link->shm && link->tx == link->shm)
        return rkey->key.flags & WHI_KEY_SHARED;
    return rkey->key.kind == WH_MEM_HOST && whi_native_may(link);
}

// ask_for_map asks the owner for its memory if it may be had and the link has not got it.  One at a time per link: over
// shared memory each passes a descriptor.
static void ask_for_map(wh_rkey *rkey) {
    wh_endpoint *ep = rkey->ep;
    whi_link *link = ep->link;
    if (rkey->map != WHI_MAP_UNASKED || ep->state != WHI_EP_OPEN || link->mapping)
        return;
    bool known = whi_hash_get(&link->natives, rkey->key.id) != NULL;
    if (known)
        rkey->native = whi_native_find(link, &rkey->key);
    if (known || !is_to_be_had(rkey)) {
        rkey->map = rkey->native ? WHI_MAP_DONE : WHI_MAP_NEVER;
        return;
    }
    rkey->map = WHI_MAP_ASKED;
    rkey->refs++;
    link->mapping = rkey;
    whi_hdr hdr = {.cls = WHI_CLASS_MAP, .ep = ep->number, .tag = rkey->key.id};
    whi_link_control(link, &hdr, NULL);
}

static wh_status read_key(const void *bytes, size_t size, whi_key *key) {
    if (size < sizeof(*key))
        return WH_EKEY;
    memcpy(key, bytes, sizeof(*key));
    bool ok = memcmp(key->magic, "WHK1", 4) == 0 && key->size && key->access &&
              !(key->access & ~WH_MR_ALL) && key->align < 8;
    if (key->flags &
        WHI_KEY_SHARED)  // which is ours, and so aligned: a word that is not could crash us
        ok = ok && !key->align && key->kind == WH_MEM_HOST;
    return ok ? WH_OK : WH_EKEY;
}

static wh_status rkey_open_owned(wh_endpoint *ep, const void *bytes, size_t size, wh_rkey **out) {
    whi_key key;
    wh_status st = read_key(bytes, size, &key);
    if (st == WH_OK)
        st = whi_ep_usable(ep);
    if (st != WH_OK)
        return st;
    wh_rkey *rkey = whi_calloc(1, sizeof(*rkey));
    if (!rkey)
        return WH_ENOMEM;
    rkey->ep = ep;
    rkey->key = key;
    rkey->refs = 1;
    whi_ep_retain(ep);
    ask_for_map(rkey);
    *out = rkey;
    return WH_OK;
}

wh_status wh_rkey_open(wh_endpoint *ep, const void *key, size_t size, wh_rkey **rkey) {
    if (!ep || !key || !rkey)
        return WH_EINVAL;
    return WHI_OWNED(ep->worker, rkey_open_owned(ep, key, size, rkey));
}

uint64_t wh_rkey_size(const wh_rkey *rkey) {
    return rkey ? rkey->key.size : 0;
}

int wh_rkey_direct(const wh_rkey *rkey) {
    return rkey && (rkey->base || (rkey->native && whi_native_allows(rkey->native, 0)));
}

void whi_rkey_release(wh_rkey *rkey) {
    if (--rkey->refs || atomic_load(&rkey->submitted))
        return;
    whi_region_release(rkey->region);
    if (rkey->native)
        whi_native_release(rkey->native);
    whi_ep_release(rkey->ep);
    whi_free(rkey);
}

void whi_rkey_take_over(wh_rkey *rkey) {
    rkey->refs++;
    atomic_fetch_sub(&rkey->submitted, 1);
}

static wh_status rkey_close_owned(wh_rkey *rkey) {
    whi_rkey_release(rkey);
    return WH_OK;
}

void wh_rkey_close(wh_rkey *rkey) {
    if (!rkey)
        return;
    wh_worker *worker = rkey->ep->worker;
    if (whi_worker_is_owner(worker) || !worker->destroyed) {
        (void)WHI_OWNED(worker, rkey_close_owned(rkey));
        return;
    }
    pthread_mutex_lock(&worker->foreign_lock);
    whi_rkey_release(rkey);
    whi_worker_unlock_or_free(worker);
}

// map_memory maps what the owner has passed.  It must hold what the key said; if not, the key may have been tampered with
// by whoever has brought it, so that this is no reason to leave the owner.
static wh_status map_memory(wh_rkey *rkey, int fd) {
    if (rkey->key.size > SIZE_MAX / 2)
        return WH_EKEY;
    size_t size = sizeof(whi_mr_shared) + rkey->key.size;
    wh_status st = whi_region_attach(fd, size, size, &rkey->region);
    if (st != WH_OK)
        return st;
    rkey->shared = rkey->region->base;
    rkey->base = (unsigned char *)(rkey->shared + 1);
    return WH_OK;
}

static wh_status take_fd(whi_link *link, wh_rkey *rkey) {
    int fd = whi_stream_take_fd(link->stream);
    if (fd < 0)
        return WH_EPROTOCOL;
    wh_status st = map_memory(rkey, fd);
    close(fd);
    return st == WH_EPROTOCOL ? WH_EKEY : st;
}

static wh_status take_native(whi_link *link, wh_rkey *rkey, const void *payload, size_t size) {
    wh_status st = whi_native_open(link, rkey->key.id, payload, size);
    if (st == WH_OK)
        rkey->native = whi_native_find(link, &rkey->key);
    return st == WH_OK && !rkey->native ? WH_EKEY : st;
}

wh_status whi_rma_mapped(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_rkey *rkey = link->mapping;  // whose endpoint may have ended, and know no link any more
    bool shm = link->rx == link->shm, ucx = link->rx == link->ucx;
    if (!rkey || hdr->tag != rkey->key.id || !(shm || ucx))
        return WH_EPROTOCOL;
    wh_status st = hdr->aux ? (wh_status)(int32_t)hdr->arg
                   : shm    ? take_fd(link, rkey)
                            : take_native(link, rkey, payload, hdr->size);
    if (st == WH_EPROTOCOL && !hdr->aux)
        return st;
    link->mapping = NULL;
    rkey->map = st == WH_OK ? WHI_MAP_DONE : st == WH_EAGAIN ? WHI_MAP_UNASKED : WHI_MAP_NEVER;
    if (st != WH_OK && st != WH_EAGAIN)
        whi_log(WHI_INFO, "I-RMA-01", "%s: its memory is not mapped, but served by it: %s",
                link->name, wh_status_text(st));
    whi_rkey_release(rkey);
    return WH_OK;
}

void whi_rma_link_ended(whi_link *link) {
    if (link->mapping)
        whi_rkey_release(link->mapping);
    link->mapping = NULL;
    whi_native_link_ended(link);
    whi_share_link_ended(link);
}

// ---- Direct access ----

static bool is_direct(const wh_rkey *rkey) {
    const wh_endpoint *ep = rkey->ep;
    return rkey->base && ep->state == WHI_EP_OPEN && ep->served >= ep->fenced;
}

// is_native says whether UCX does the access: as a direct one, save that both ends must be host memory.
static bool is_native(const wh_request *req) {
    const wh_rkey *rkey = req->rkey;
    bool put = req->kind == WHI_REQ_PUT;
    return rkey->native && (put || req->kind == WHI_REQ_GET) &&
           whi_native_allows(rkey->native, put ? WH_MR_WRITE : WH_MR_READ) &&
           req->buf.kind == WH_MEM_HOST && rkey->ep->state == WHI_EP_OPEN &&
           rkey->ep->served >= rkey->ep->fenced;
}

static bool is_live(const wh_rkey *rkey) {
    return atomic_load_explicit(&rkey->shared->live, memory_order_acquire) == 1;
}

static wh_status copy_direct(void *there, const whi_buffer *here, bool put) {
    if (here->kind == WH_MEM_HOST) {
        if (here->size)
            whi_copy(put ? there : here->ptr, put ? here->ptr : there, here->size);
        return WH_OK;
    }
    const whi_mem_ops *ops = whi_mem_ops_of(here->kind);
    return put ? whi_mem_copy(&whi_mem_host, there, ops, here->ptr, here->size)
               : whi_mem_copy(ops, here->ptr, &whi_mem_host, there, here->size);
}

static void store_old(void *old, size_t size, uint64_t value) {
    uint32_t half = (uint32_t)value;
    if (old)
        memcpy(old, size == sizeof(half) ? (void *)&half : (void *)&value, size);
}

static wh_status run_direct(const wh_request *req) {
    const wh_rkey *rkey = req->rkey;
    unsigned char *there = rkey->base + req->remote;
    if (!is_live(rkey))
        return WH_EKEY;
    if (req->kind != WHI_REQ_ATOMIC)
        return copy_direct(there, &req->buf, req->kind == WHI_REQ_PUT);
    uint64_t old =
        whi_mr_atomic(there, (wh_atomic_op)req->am_id, req->buf.size, req->operand, req->compare);
    store_old(req->buf.ptr, req->buf.size, old);
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
                   .tag = req->rkey->key.id,
                   .arg = req->remote};
    wh_status st = ep->lane->ops->send(ep->lane, &hdr, payload);
    if (st == WH_OK) {
        ep->tx_seq++;
        ep->accesses++;
    } else if (st != WH_EAGAIN) {
        whi_link_doom(ep->link, st);
    }
    return st;
}

// started counts an access that an answer ends.
static void started(wh_request *req) {
    wh_endpoint *ep = req->ep;
    ep->announced++;
    ep->rma_active++;
    req->tag = ep->accesses;
    req->stage = WHI_STAGE_MOVING;
}

static wh_status start_small_put(wh_request *req) {
    const void *payload = req->buf.ptr;
    if (req->buf.kind != WH_MEM_HOST) {
        payload = req->worker->scratch;
        wh_status st = whi_mem_copy(&whi_mem_host, req->worker->scratch,
                                    whi_mem_ops_of(req->buf.kind), req->buf.ptr, req->buf.size);
        if (st != WH_OK)
            return st;
    }
    return send_record(req, WHI_CLASS_PUT, 0, 0, payload, req->buf.size);
}

static wh_status start_large_put(wh_request *req) {
    wh_endpoint *ep = req->ep;
    wh_status st = req->send_id ? WH_OK : whi_idmap_put(&ep->link->sends, req, &req->send_id);
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
    wh_status st = req->grant_id ? WH_OK : whi_idmap_put(&link->grants, req, &req->grant_id);
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
    whi_link *link = req->ep->link;
    bool fetches = req->buf.ptr != NULL;
    wh_status st =
        !fetches || req->send_id ? WH_OK : whi_idmap_put(&link->sends, req, &req->send_id);
    if (st != WH_OK)
        return st;
    whi_access access = {.id = req->send_id, .value = req->operand, .compare = req->compare};
    uint16_t aux = (uint16_t)(req->am_id | req->buf.size << 8);
    st = send_record(req, WHI_CLASS_ATOMIC, 0, aux, &access, sizeof(access));
    if (st != WH_OK || !fetches)
        return st;
    started(req);
    return WH_PENDING;
}

static wh_status start_fence(wh_endpoint *ep) {
    if (ep->rma_active || !whi_native_settled(ep, ep->native))
        return WH_ELIMIT;
    // What was done directly is visible before what a lane carries: publishing a record is a release.
    ep->fenced = ep->accesses;
    // What is reached directly is ordered by the processor, if it is told to.
    atomic_thread_fence(memory_order_seq_cst);
    return WH_OK;
}

wh_status whi_rma_start(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (req->kind == WHI_REQ_FENCE)
        return start_fence(ep);
    if (!req->buf.size)
        return WH_OK;  // nothing to move, and no record says so
    if (is_direct(req->rkey))
        return run_direct(req);
    if (is_native(req))
        return whi_native_start(req, req->rkey->native);
    ask_for_map(req->rkey);
    bool small = req->kind == WHI_REQ_PUT && req->buf.size <= ep->link->eager_max;
    if (small)
        return start_small_put(req);
    if (ep->announced >= ep->announce_limit)
        return WH_ELIMIT;
    switch (req->kind) {
    case WHI_REQ_PUT: return start_large_put(req);
    case WHI_REQ_GET: return start_get(req);
    default: return start_atomic(req);
    }
}

void whi_rma_served(wh_endpoint *ep, uint64_t count) {
    if (count > ep->served)
        ep->served = count;
}

void whi_rma_ended(wh_request *req, whi_req_stage stage) {
    wh_endpoint *ep = req->ep;
    if (req->kind == WHI_REQ_FENCE) {
        ep->fences -= req->counted;
        return;
    }
    bool serves = req->kind == WHI_REQ_SERVE_PUT || req->kind == WHI_REQ_SERVE_GET;
    if (serves) {
        whi_serve_ended(req);
        return;
    }
    if (req->native || (stage != WHI_STAGE_ANNOUNCED && stage != WHI_STAGE_MOVING))
        return;
    // An endpoint that ends has set `announced` to zero.
    if (ep->state == WHI_EP_OPEN && stage == WHI_STAGE_MOVING)
        ep->announced--;
    ep->rma_active--;
    if (req->result.status == WH_OK)
        whi_rma_served(ep, req->tag);
    if (ep->state == WHI_EP_OPEN && !whi_list_empty(&ep->sendq))
        whi_ep_mark(ep);
}

// fail ends an access as the owner has answered.
static void fail(wh_request *req, wh_status status) {
    whi_req_fail(req, status, "%s of %llu bytes at offset %llu of the memory of %s: %s",
                 whi_req_text(req), (unsigned long long)req->buf.size,
                 (unsigned long long)req->remote, req->ep->link->name, wh_status_text(status));
}

// hand_over gives what the peer has yet to serve to a request without a user and a buffer, which is counted in its place: the
// peer counts it, too, and a fence waits for it.  False: there is no memory.
static bool hand_over(wh_request *req) {
    wh_endpoint *ep = req->ep;
    bool get = req->kind == WHI_REQ_GET;
    wh_request *heir = whi_req_new(req->worker, ep, (whi_req_kind)req->kind, NULL, false);
    if (!heir)
        return false;
    heir->disowned = 1;
    heir->rkey = req->rkey;
    heir->rkey->refs++;
    heir->buf = req->buf;
    heir->result = req->result;
    heir->remote = req->remote;
    heir->tag = req->tag;
    heir->length = req->length;
    heir->accept = req->accept;
    heir->moved = req->moved;
    heir->serial = req->serial;
    uint32_t *id = get ? &req->grant_id : &req->send_id;
    *(get ? &heir->grant_id : &heir->send_id) = *id;
    whi_idmap_replace(get ? &ep->link->grants : &ep->link->sends, *id, heir);
    *id = 0;
    whi_req_accept(heir, WHI_STAGE_MOVING);
    ep->announced++;
    ep->rma_active++;
    return true;
}

bool whi_rma_leave(wh_request *req, wh_status why) {
    const whi_link *link = req->ep->link;
    bool busy = req->held || link->landing == req || link->mid == req;
    if (!whi_req_accesses(req) || req->ep->state != WHI_EP_OPEN || busy)
        return false;
    if (req->kind == WHI_REQ_SERVE_PUT || req->kind == WHI_REQ_SERVE_GET) {
        whi_serve_leave(req);
        return true;
    }
    // The word of an atomic nobody touches but whoever handles its answer, which will find nothing.  A put must be gone.
    bool atomic = req->kind == WHI_REQ_ATOMIC, put = req->kind == WHI_REQ_PUT;
    if ((put && req->moved < req->accept) || (!atomic && !hand_over(req)))
        return false;
    fail(req, why);
    return true;
}

wh_status whi_rma_answered(whi_link *link, const whi_hdr *hdr) {
    int64_t status = (int64_t)hdr->arg;
    bool error = hdr->aux != WHI_ANSWER_VALUE && hdr->aux != WHI_ANSWER_DONE;
    if (hdr->aux > WHI_ANSWER_GET_FAILED || (error && (status >= 0 || status < WHI_STATUS_LAST)))
        return WH_EPROTOCOL;
    bool get = hdr->aux == WHI_ANSWER_GET_FAILED;
    wh_request *req = whi_idmap_get(get ? &link->grants : &link->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;
    bool put = req->kind == WHI_REQ_PUT;
    bool fits = get   ? req->kind == WHI_REQ_GET
                : put ? hdr->aux != WHI_ANSWER_VALUE
                      : req->kind == WHI_REQ_ATOMIC && hdr->aux != WHI_ANSWER_DONE;
    // "Done" is for what has moved; a put that moves is still the lane's.
    bool moved = put && req->stage == WHI_STAGE_MOVING && req->moved == req->accept;
    // A chunk that is landing is followed by no record before it has landed, but on a lane that lends.
    if (error && link->landing == req)
        return WH_EPROTOCOL;
    if (!fits || req->ep->number != hdr->ep || (hdr->aux == WHI_ANSWER_DONE && !moved) ||
        (put && error && req->stage != WHI_STAGE_ANNOUNCED && !moved))
        return WH_EPROTOCOL;
    if (req->held) {
        // Over, but the lane has yet to say that it is at our memory no more.
        req->let_go = 1;
        req->why = error ? (wh_status)status : WH_OK;
        return WH_OK;
    }
    if (error) {
        if (put && req->stage == WHI_STAGE_ANNOUNCED)
            req->ep->announced--;
        fail(req, (wh_status)status);
        return WH_OK;
    }
    if (!put)
        store_old(req->buf.ptr, req->buf.size, hdr->arg);
    whi_req_finish(req, WH_OK);
    return WH_OK;
}

// ---- The public calls ----

static wh_status check(const wh_rkey *rkey, unsigned access, uint64_t offset, uint64_t size) {
    if ((rkey->key.access & access) != access)
        return WH_EPERM;
    return offset > rkey->key.size || size > rkey->key.size - offset ? WH_EBOUNDS : WH_OK;
}

// done_now tells of an access that ended inside the call.
static wh_status done_now(uint64_t size, const wh_op_opts *opts, wh_request **out) {
    if (out)
        *out = NULL;
    if (opts && opts->result)
        *opts->result = (wh_result){.status = WH_OK, .size = size};
    return WH_OK;
}

// may_go_now says whether an access need not be a request: the owner asks, the memory is mapped, and no fence waits.
static bool may_go_now(const wh_rkey *rkey, const wh_op_opts *opts) {
    return whi_worker_is_owner(rkey->ep->worker) && is_direct(rkey) && !rkey->ep->fences &&
           whi_ep_usable(rkey->ep) == WH_OK && whi_plain_memory(opts);
}

// hold_rkey gives a request its key; the owner counts that of a foreign one when it takes the request over.
static void hold_rkey(wh_request *req, wh_rkey *rkey, uint64_t offset) {
    req->remote = offset;
    req->rkey = rkey;
    if (req->foreign)
        atomic_fetch_add(&rkey->submitted, 1);
    else
        rkey->refs++;
}

static wh_status move(wh_rkey *rkey, whi_req_kind kind, uint64_t offset, void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **out) {
    if (!rkey || (!buf && size) || (opts && opts->flags))
        return WH_EINVAL;
    bool put = kind == WHI_REQ_PUT;
    wh_status st = check(rkey, put ? WH_MR_WRITE : WH_MR_READ, offset, size);
    if (st != WH_OK)
        return st;
    if (may_go_now(rkey, opts)) {
        if (!is_live(rkey))
            return WH_EKEY;
        if (size) {  // else there need be no buffer
            void *there = rkey->base + offset;
            whi_copy(put ? there : buf, put ? buf : there, size);
        }
        return done_now(size, opts, out);
    }
    wh_request *req = whi_req_new(rkey->ep->worker, rkey->ep, kind, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    st = whi_buffer_resolve(&req->buf, buf, size, opts ? opts->mem : WH_MEM_AUTO,
                            opts ? opts->device : 0);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    req->result = (wh_result){.size = size};
    hold_rkey(req, rkey, offset);
    return whi_req_start(req, opts, out);
}

wh_status wh_put(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                 const wh_op_opts *opts, wh_request **req) {
    return move(rkey, WHI_REQ_PUT, offset, (void *)(uintptr_t)buf, size, opts, req);
}

wh_status wh_get(wh_rkey *rkey, uint64_t offset, void *buf, size_t size, const wh_op_opts *opts,
                 wh_request **req) {
    return move(rkey, WHI_REQ_GET, offset, buf, size, opts, req);
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
    if (!rkey || (opts && opts->flags))
        return WH_EINVAL;
    wh_status st = check_atomic(rkey, offset, op, size);
    if (st != WH_OK)
        return st;
    if (may_go_now(rkey, opts)) {
        if (!is_live(rkey))
            return WH_EKEY;
        store_old(old, size, whi_mr_atomic(rkey->base + offset, op, size, operand, compare));
        return done_now(size, opts, out);
    }
    wh_request *req = whi_req_new(rkey->ep->worker, rkey->ep, WHI_REQ_ATOMIC, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->buf = (whi_buffer){old, size, WH_MEM_HOST, -1, WH_OK};
    req->result = (wh_result){.size = size};
    req->am_id = (uint16_t)op;
    req->operand = operand;
    req->compare = compare;
    hold_rkey(req, rkey, offset);
    return whi_req_start(req, opts, out);
}

wh_status wh_endpoint_fence(wh_endpoint *ep) {
    wh_request *req = ep ? whi_req_new(ep->worker, ep, WHI_REQ_FENCE, NULL, false) : NULL;
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
