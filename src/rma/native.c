// SPDX-License-Identifier: BSD-3-Clause
//
// The initiator's side of access through UCX, see native.h.
//
// A put that has ended has left its buffer; where its bytes are only a flush of UCX's endpoint tells.  So an endpoint counts
// what it has started and what a flush has shown to be there, and fences, flushes and an orderly close wait for the
// second number.  UCX keeps no order between accesses and records; that, too, is made by waiting.
#include "rma/native.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rma/rma.h"

struct whi_native {
    whi_link *link;  // valid while `open`
    whi_lane_key *key;
    const whi_lane_access *access;  // of the lane that the key is for
    whi_native_head head;
    uint64_t id;
    uint32_t refs;  // of the link until it is recalled, and of keys
    bool open;      // neither recalled nor has the link ended
};

// access_of returns what the lane can do that is used; NULL: nothing of this kind.
static const whi_lane_access *access_of(const whi_link *link) {
    return link->tx->ops->access;
}

bool whi_native_may(const whi_link *link) {
    return whi_link_reads_keys(link) && link->worker->ctx->config.ucx_rma != WHI_UCX_RMA_SERVED;
}

whi_native *whi_native_find(whi_link *link, const whi_key *key) {
    whi_native *native = whi_hash_get(&whi_memory_on(link)->natives, key->id);
    // The key may have been tampered with by whoever has brought it: what it promises must be there.
    if (!native || !native->open || key->kind != WH_MEM_HOST || key->size > native->head.size ||
        key->align != (native->head.address & 7))
        return NULL;
    native->refs++;
    return native;
}

void whi_native_release(whi_native *native) {
    if (!--native->refs)
        whi_free(native);
}

// end_lease tells the owner that we reach its memory no more.
static void end_lease(whi_link *link, uint64_t id) {
    whi_hdr hdr = {.cls = WHI_CLASS_RECALLED, .tag = id};
    whi_link_control(link, &hdr, NULL);
}

static wh_status open_key(whi_link *link, whi_native *native, const void *key, size_t size) {
    wh_status st = native->access->open(link->tx, key, size, &native->key);
    if (st != WH_OK)
        return st == WH_ENOMEM ? st : WH_ENOTSUP;
    st = whi_hash_put(&whi_memory_on(link)->natives, native->id, native);
    if (st != WH_OK)
        native->access->close(native->key);
    return st;
}

wh_status whi_native_open(whi_link *link, uint64_t id, const void *payload, size_t size) {
    whi_native_head head;
    if (size <= sizeof(head) || whi_hash_get(&whi_memory_on(link)->natives, id))
        return WH_EPROTOCOL;
    memcpy(&head, payload, sizeof(head));
    if (!head.size || head.address > UINT64_MAX - head.size)
        return WH_EPROTOCOL;
    wh_status st = WH_ENOMEM;
    whi_native *native = whi_calloc(1, sizeof(*native));
    if (native) {
        *native = (whi_native){.link = link,
                               .access = access_of(link),
                               .head = head,
                               .id = id,
                               .refs = 1,
                               .open = true};
        st = open_key(link, native, (const char *)payload + sizeof(head), size - sizeof(head));
    }
    if (st == WH_OK)
        return WH_OK;
    whi_free(native);
    end_lease(link, id);
    return st;
}

bool whi_native_allows(const whi_native *native, unsigned access) {
    return native->open && (native->head.access & access) == access;
}

static void access_done(void *arg, bool good) {
    wh_request *req = arg;
    whi_link *link = req->ep->link;
    whi_messages_on(link)->held--;
    req->held--;
    if (req->fate == WHI_FATE_RETURNED) {
        whi_ep_returned(req);
        whi_link_maybe_close(link);
    } else if (good) {
        whi_req_complete(req, WH_OK);
    }
    // Else the lane has failed, and the link, which ends now, ends the request.
}

wh_status whi_native_start(wh_request *req, const whi_native *native) {
    wh_endpoint *ep = req->ep;
    whi_link *link = ep->link;
    uint64_t address = native->head.address + whi_access_of(req)->remote;
    wh_status st = req->ops == &whi_put_ops
                       ? native->access->write(link->tx, native->key, address, req->buf.ptr,
                                               req->buf.size, access_done, req)
                       : native->access->read(link->tx, native->key, address, req->buf.ptr,
                                              req->buf.size, access_done, req);
    if (st < WH_OK) {
        if (st != WH_EAGAIN)
            whi_link_doom(link, st);
        return st;
    }
    whi_memory_at(ep)->native++;
    if (st == WH_PENDING) {
        whi_access_of(req)->native = true;
        req->held++;
        whi_messages_on(link)->held++;
        req->stage = WHI_STAGE_MOVING;
    }
    return st;
}

static void endpoint_settled(void *arg, bool good) {
    wh_endpoint *ep = arg;
    uint64_t count = whi_memory_at(ep)->native_asked;
    whi_memory_at(ep)->native_asked = 0;
    if (good && ep->state == WHI_EP_OPEN) {
        whi_memory_at(ep)->native_settled = count;
        whi_ep_settle(ep);
        if (!whi_list_empty(&ep->sendq))
            whi_ep_mark(ep);
    }
    whi_ep_release(ep);
}

bool whi_native_settled(wh_endpoint *ep, uint64_t count) {
    if (whi_memory_at(ep)->native_settled >= count)
        return true;
    if (whi_memory_at(ep)->native_asked)
        return false;  // if that is not enough, whoever waits will ask again
    wh_status st = access_of(ep->link)->settled(ep->link->tx, endpoint_settled, ep);
    if (st == WH_OK)
        whi_memory_at(ep)->native_settled = whi_memory_at(ep)->native;
    if (st < WH_OK)
        whi_link_doom(ep->link, st);
    if (st != WH_PENDING)
        return st == WH_OK;
    whi_memory_at(ep)->native_asked = whi_memory_at(ep)->native;
    whi_ep_retain(ep);
    return false;
}

static void recall_settled(void *arg, bool good) {
    whi_native *native = arg;
    if (!good)
        return;  // the link ends, and the lease with it: whi_native_link_ended
    (void)whi_hash_remove(&whi_memory_on(native->link)->natives, native->id);
    native->access->close(native->key);
    end_lease(native->link, native->id);
    whi_native_release(native);
}

wh_status whi_native_recalled(whi_link *link, const whi_hdr *hdr) {
    if (!link->rx->ops->access)
        return WH_EPROTOCOL;
    whi_native *native = whi_hash_get(&whi_memory_on(link)->natives, hdr->tag);
    if (!native || !native->open)
        return WH_OK;  // given back already, or about to be
    // What is started from now on goes by records, and is told that the key is not known any more.
    native->open = false;
    wh_status st = access_of(link)->settled(link->tx, recall_settled, native);
    if (st == WH_OK)
        recall_settled(native, true);
    if (st < WH_OK)
        whi_link_doom(link, st);
    return WH_OK;
}

void whi_native_link_ended(whi_link *link) {
    size_t cursor = 0;
    uint64_t id;
    whi_native *native;
    while ((native = whi_hash_next(&whi_memory_on(link)->natives, &cursor, &id))) {
        native->open = false;
        native->access->close(native->key);
        whi_native_release(native);
    }
    whi_hash_fini(&whi_memory_on(link)->natives);
}
