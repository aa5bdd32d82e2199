// SPDX-License-Identifier: BSD-3-Clause
//
// Keys of a peer's memory, see rkey.h.
#include "rma/rkey.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/untrusted.h"
#include "rma/native.h"

// is_to_be_had says whether the memory can be reached without its owner's help over the lane that is used.
static bool is_to_be_had(const wh_rkey *rkey) {
    const whi_link *link = rkey->ep->link;
    if (link->tx->ops->pass)
        return rkey->key.flags & WHI_KEY_SHARED;
    return rkey->key.kind == WH_MEM_HOST && whi_native_may(link);
}

void whi_rkey_ask(wh_rkey *rkey) {
    wh_endpoint *ep = rkey->ep;
    whi_link *link = ep->link;
    if (rkey->map != WHI_MAP_UNASKED || ep->state != WHI_EP_OPEN || whi_memory_on(link)->mapping)
        return;
    bool known = whi_hash_get(&whi_memory_on(link)->natives, rkey->key.id) != NULL;
    if (known)
        rkey->native = whi_native_find(link, &rkey->key);
    if (known || !is_to_be_had(rkey)) {
        rkey->map = rkey->native ? WHI_MAP_DONE : WHI_MAP_NEVER;
        return;
    }
    rkey->map = WHI_MAP_ASKED;
    rkey->refs++;
    whi_memory_on(link)->mapping = rkey;
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
    whi_rkey_ask(rkey);
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

bool wh_rkey_direct(const wh_rkey *rkey) {
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
    if (WHI_OWNED(worker, rkey_close_owned(rkey)) != WH_ECLOSED)
        return;
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
    int fd = whi_control_take_fd(&link->control);
    if (fd == WH_EAGAIN)
        return WH_EPROTOCOL;
    if (fd < 0) {
        // It could not come, which need not be the peer's fault, and the socket is of no use any more.
        whi_link_doom(link, (wh_status)fd);
        return (wh_status)fd;
    }
    wh_status st = map_memory(rkey, fd);
    whi_untrusted_close(fd);
    return st == WH_EPROTOCOL ? WH_EKEY : st;
}

static wh_status take_native(whi_link *link, wh_rkey *rkey, const void *payload, size_t size) {
    wh_status st = whi_native_open(link, rkey->key.id, payload, size);
    if (st == WH_OK)
        rkey->native = whi_native_find(link, &rkey->key);
    return st == WH_OK && !rkey->native ? WH_EKEY : st;
}

wh_status whi_rkey_mapped(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_rkey *rkey =
        whi_memory_on(link)->mapping;  // whose endpoint may have ended, and know no link any more
    bool shm = link->rx->ops->pass != NULL;
    if (!rkey || hdr->tag != rkey->key.id || !(shm || link->rx->ops->access))
        return WH_EPROTOCOL;
    wh_status st = hdr->aux ? (wh_status)(int32_t)hdr->arg
                   : shm    ? take_fd(link, rkey)
                            : take_native(link, rkey, payload, hdr->size);
    if (st == WH_EPROTOCOL && !hdr->aux)
        return st;
    whi_memory_on(link)->mapping = NULL;
    rkey->map = st == WH_OK ? WHI_MAP_DONE : st == WH_EAGAIN ? WHI_MAP_UNASKED : WHI_MAP_NEVER;
    if (st != WH_OK && st != WH_EAGAIN)
        whi_log(WHI_INFO, "I-RMA-01", "%s: its memory is not mapped, but served by it: %s",
                link->name, wh_status_text(st));
    whi_rkey_release(rkey);
    return WH_OK;
}
