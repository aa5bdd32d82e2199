// SPDX-License-Identifier: BSD-3-Clause
//
// The owner's side of access through UCX, see native.h.
//
// A share is memory that one worker's UCX has registered, at the first request of a peer; a lease is a link that may reach
// it.  UCX believes whoever accesses, and its software crashes on memory that is gone; so a share goes after its last
// lease, and a registration after its last share.  A share's lists and leases are its worker's; that it is among those
// of its registration, and whether that is recalled, is guarded by the table's lock.
#include <string.h>

#include "base/alloc.h"
#include "rma/native.h"
#include "worker/context.h"

typedef struct share {
    whi_list of_mr, of_worker;
    wh_mr *mr;
    wh_worker *worker;
    whi_lane_memory *memory;
    const whi_lane_access *access;  // of the lane that has registered it
    whi_list leases;
} share;

typedef struct lease {
    whi_list node;  // in share->leases
    share *share;
    whi_link *link;
    bool told;  // that it is to end
} lease;

static void lock(const wh_mr *mr) {
    pthread_mutex_lock(&mr->table->lock);
}

static void unlock(const wh_mr *mr) {
    pthread_mutex_unlock(&mr->table->lock);
}

static bool is_recalled(const wh_mr *mr) {
    lock(mr);
    bool recalled = mr->recalled;
    unlock(mr);
    return recalled;
}

// end_share takes the memory from UCX.  The registration may be gone after it.
static void end_share(share *s) {
    wh_mr *mr = s->mr;
    assert(whi_list_empty(&s->leases));
    s->access->unmap(s->memory);
    whi_list_remove(&s->of_worker);
    lock(mr);
    whi_list_remove(&s->of_mr);
    whi_mr_unlock_or_free(mr);
    whi_free(s);
}

static void free_lease(lease *l) {
    whi_list_remove(&l->node);
    whi_free(l);
}

static share *find(const wh_worker *worker, const wh_mr *mr) {
    share *found = NULL;
    lock(mr);
    whi_list_foreach(node, &mr->shares) {
        share *s = whi_container_of(node, share, of_mr);
        if (s->worker == worker)
            found = s;
    }
    unlock(mr);
    return found;
}

static wh_status make(whi_link *link, wh_mr *mr, share **out) {
    wh_worker *worker = link->worker;
    share *s = whi_calloc(1, sizeof(*s));
    if (!s)
        return WH_ENOMEM;
    s->access = link->tx->ops->access;
    wh_status st = s->access->map(link->tx, mr->buf.ptr, mr->buf.size, &s->memory);
    if (st != WH_OK) {
        whi_free(s);
        return st;
    }
    s->mr = mr;
    s->worker = worker;
    whi_list_init(&s->leases);
    lock(mr);
    bool late = mr->recalled;  // by another thread, which has not been told to wait for us
    if (!late)
        whi_list_push_back(&mr->shares, &s->of_mr);
    unlock(mr);
    if (late) {
        s->access->unmap(s->memory);
        whi_free(s);
        return WH_EKEY;
    }
    whi_list_push_back(&whi_memory_of(worker)->shares, &s->of_worker);
    *out = s;
    return WH_OK;
}

static wh_status let(share *s, whi_link *link) {
    if (whi_hash_get(&whi_memory_on(link)->leases, s->mr->id))
        return WH_OK;
    lease *l = whi_calloc(1, sizeof(*l));
    wh_status st = l ? whi_hash_put(&whi_memory_on(link)->leases, s->mr->id, l) : WH_ENOMEM;
    if (st != WH_OK) {
        whi_free(l);
        return st;
    }
    l->share = s;
    l->link = link;
    whi_list_push_back(&s->leases, &l->node);
    return WH_OK;
}

wh_status whi_share_answer(whi_link *link, wh_mr *mr, void *payload, uint32_t *size) {
    wh_worker *worker = link->worker;
    bool always = worker->ctx->config.ucx_rma == WHI_UCX_RMA_NATIVE;
    if (mr->buf.kind != WH_MEM_HOST || !whi_native_may(link) ||
        !(always || link->tx->ops->access->guards(link->tx)))
        return WH_ENOTSUP;
    share *s = find(worker, mr);
    wh_status st = s ? WH_OK : make(link, mr, &s);
    if (st != WH_OK)
        return st;
    size_t key_size;
    const void *key = s->access->key(s->memory, &key_size);
    whi_native_head head = {
        .address = (uint64_t)(uintptr_t)mr->buf.ptr, .size = mr->buf.size, .access = mr->access};
    st = sizeof(head) + key_size > WHI_CONTROL_MAX ? WH_ENOTSUP : let(s, link);
    if (st == WH_OK) {
        memcpy(payload, &head, sizeof(head));
        memcpy((char *)payload + sizeof(head), key, key_size);
        *size = (uint32_t)(sizeof(head) + key_size);
    }
    // Another thread may have recalled the registration before there was this lease, and is waiting for it now.
    if (is_recalled(mr))
        atomic_store(&worker->ask, true);
    return st;
}

void whi_share_recall(wh_mr *mr) {
    mr->recalled = true;
    whi_list_foreach(node, &mr->shares) {
        wh_worker *worker = whi_container_of(node, share, of_mr)->worker;
        whi_worker_ask(worker);
    }
}

static void recall(share *s) {
    whi_list_foreach(node, &s->leases) {
        lease *l = whi_container_of(node, lease, node);
        if (l->told)
            continue;
        l->told = true;
        whi_hdr hdr = {.cls = WHI_CLASS_RECALL, .tag = s->mr->id};
        whi_link_control(l->link, &hdr, NULL);
    }
    if (whi_list_empty(&s->leases))
        end_share(s);
}

void whi_share_run(wh_worker *worker) {
    whi_list_foreach(node, &whi_memory_of(worker)->shares) {
        share *s = whi_container_of(node, share, of_worker);
        if (is_recalled(s->mr))
            recall(s);
    }
}

// end_lease ends a lease, and the share if it was kept for no other.
static void end_lease(lease *l) {
    share *s = l->share;
    free_lease(l);
    if (whi_list_empty(&s->leases) && is_recalled(s->mr))
        end_share(s);
}

wh_status whi_share_returned(whi_link *link, const whi_hdr *hdr) {
    lease *l =
        link->rx->ops->access ? whi_hash_remove(&whi_memory_on(link)->leases, hdr->tag) : NULL;
    if (!l)
        return WH_EPROTOCOL;
    end_lease(l);
    return WH_OK;
}

void whi_share_link_ended(whi_link *link) {
    size_t cursor = 0;
    uint64_t id;
    lease *l;
    while ((l = whi_hash_next(&whi_memory_on(link)->leases, &cursor, &id)))
        end_lease(l);
    whi_hash_fini(&whi_memory_on(link)->leases);
}

void whi_share_worker_ended(wh_worker *worker) {
    whi_list *node;
    while ((node = whi_list_first(&whi_memory_of(worker)->shares))) {
        share *s = whi_container_of(node, share, of_worker);
        whi_list_foreach(held, &s->leases) {
            lease *l = whi_container_of(held, lease, node);
            (void)whi_hash_remove(&whi_memory_on(l->link)->leases, s->mr->id);
            free_lease(l);
        }
        end_share(s);
    }
}
