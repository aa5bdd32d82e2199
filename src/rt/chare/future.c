// SPDX-License-Identifier: BSD-3-Clause
//
// Futures: a value that is set once, from anywhere, and waited for on one PE.
#include "base/alloc.h"
#include "base/log.h"
#include "rt/chare/why.h"

typedef struct waiter {
    whi_list link;
    wh_wait wait;
    wh_status status;
} waiter;

typedef struct future {
    uint32_t id;
    bool set;
    void *value;  // aligned to 16
    size_t size;
    whi_list waiters;
} future;

wh_status wh_future_create(wh_pe *pe, wh_future *out) {
    whi_chares *c = whi_chares_of(pe);
    future *f = c ? whi_calloc(1, sizeof(*f)) : NULL;
    if (!f)
        return WH_ENOMEM;
    whi_list_init(&f->waiters);
    wh_status st = whi_idmap_put(&c->futures, f, &f->id);
    if (st != WH_OK) {
        whi_free(f);
        return st;
    }
    *out = (wh_future){.pe = pe->number, .id = f->id};
    return WH_OK;
}

wh_status whi_future_set(whi_chares *c, const wh_future *which, const void *value, size_t size) {
    if ((size && !value) || which->pe < 0 || which->pe >= c->pe->pes)
        return WH_EINVAL;
    whi_head head = {.kind = WHI_HEAD_FUTURE, .value.id = which->id};
    return whi_chares_tell(c, which->pe, &head, value, size);
}

wh_status wh_future_set(wh_pe *pe, wh_future which, const void *value, size_t size) {
    whi_chares *c = whi_chares_of(pe);
    if (!c)
        return WH_ENOMEM;
    if (size && !value)
        return whi_refuse_data("wh_future_set", "value", size);
    if (which.pe < 0 || which.pe >= pe->pes)
        return whi_refuse_pe(pe, "wh_future_set", "the future's PE", which.pe);
    return whi_future_set(c, &which, value, size);
}

static void wake(wh_pe *pe, future *f, wh_status status) {
    whi_list *node;
    while ((node = whi_list_pop_front(&f->waiters))) {
        waiter *w = whi_container_of(node, waiter, link);
        w->status = status;
        wh_pe_resume(pe, &w->wait);
    }
}

void whi_future_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    future *f =
        head->value.id <= UINT32_MAX ? whi_idmap_get(&c->futures, (uint32_t)head->value.id) : NULL;
    if (!f || f->set) {
        whi_log(f ? WHI_WARN : WHI_DEBUG, f ? "W-CHARE-01" : "D-CHARE-01",
                "PE %d: a value of %zu bytes for a future is dropped: it %s", c->pe->number,
                msg->size, f ? "has one already" : "is not waited for any more");
        return;
    }
    f->value = whi_aligned_alloc(16, msg->size ? msg->size : 1);
    if (!f->value) {
        whi_pe_fail(c->pe, "there is no memory for the value of a future");
        return;
    }
    if (msg->size)
        memcpy(f->value, msg->data, msg->size);
    f->size = msg->size;
    f->set = true;
    wake(c->pe, f, WH_OK);
}

static wh_status find(wh_pe *pe, wh_future which, future **f) {
    whi_chares *c = whi_chares_of(pe);
    *f = c && which.pe == pe->number ? whi_idmap_get(&c->futures, which.id) : NULL;
    return *f ? WH_OK : c ? WH_ENOTFOUND : WH_ENOMEM;
}

WHI_COLD static wh_status refuse(const wh_pe *pe, const char *call, wh_future which) {
    if (which.pe != pe->number)
        return whi_refuse(
            WH_ENOTFOUND, "E-CHARE-08",
            "%s: the future is of PE %d, where its value comes, and this is PE %d: wait "
            "there, or make one here",
            call, which.pe, pe->number);
    return whi_refuse(
        WH_ENOTFOUND, "E-CHARE-08",
        "%s: PE %d has no future %u: it was freed, or wh_future_create has not made it", call,
        pe->number, which.id);
}

wh_status wh_future_get(wh_pe *pe, wh_future which, const void **value, size_t *size) {
    future *f;
    wh_status st = find(pe, which, &f);
    if (st != WH_OK)
        return st == WH_ENOTFOUND ? refuse(pe, "wh_future_get", which) : st;
    if (!f->set)
        return WH_PENDING;
    *value = f->value;
    *size = f->size;
    return WH_OK;
}

wh_status wh_future_wait(wh_pe *pe, wh_future which, const void **value, size_t *size) {
    future *f;
    wh_status st = find(pe, which, &f);
    if (st == WH_ENOTFOUND)
        return refuse(pe, "wh_future_wait", which);
    if (st == WH_OK && !f->set && !whi_pe_may_wait(pe))
        return whi_refuse_wait(pe, "wh_future_wait");
    if (st == WH_OK && !f->set) {
        waiter w = {.status = WH_OK};
        whi_list_push_back(&f->waiters, &w.link);
        st = wh_pe_wait(pe, &w.wait);
        if (st != WH_OK)
            whi_list_remove(&w.link);
        else
            st = w.status;
    }
    return st == WH_OK ? wh_future_get(pe, which, value, size) : st;
}

void wh_future_free(wh_pe *pe, wh_future which) {
    future *f;
    if (find(pe, which, &f) != WH_OK)
        return;
    whi_idmap_remove(&whi_chares_of(pe)->futures, which.id);
    wake(pe, f, WH_ECANCELLED);
    whi_free(f->value);
    whi_free(f);
}

bool whi_future_awaited(const whi_chares *c, const wh_wait *wait, FILE *file) {
    uint32_t cursor = 0;
    const future *f;
    while ((f = whi_idmap_next(&c->futures, &cursor)))
        whi_list_foreach(node, (whi_list *)(uintptr_t)&f->waiters) {
            const waiter *w = whi_container_of(node, waiter, link);
            if (&w->wait != wait)
                continue;
            fprintf(file, "future %u of this PE, which has no value yet", f->id);
            return true;
        }
    return false;
}

void whi_future_free_all(whi_chares *c) {
    uint32_t cursor = 0;
    future *f;
    while ((f = whi_idmap_next(&c->futures, &cursor))) {
        whi_free(f->value);
        whi_free(f);
    }
    whi_idmap_fini(&c->futures);
}
