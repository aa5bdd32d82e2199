// SPDX-License-Identifier: BSD-3-Clause
//
// Data that PE 0 gives all others before they go on.
#include "base/alloc.h"
#include "rt/chare/why.h"

// The n-th of them: waited for here, or come before it was.
typedef struct readonly {
    whi_queue_node link;
    uint64_t number;
    bool there;
    wh_wait wait;
    size_t size;
    void *data;  // aligned to 16
} readonly;

// get finds or makes the record of a number.
static readonly *get(whi_chares *c, uint64_t number) {
    for (whi_queue_node *node = whi_queue_first(&c->readonly); node; node = node->next) {
        readonly *r = whi_container_of(node, readonly, link);
        if (r->number == number)
            return r;
    }
    readonly *r = whi_calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->number = number;
    whi_queue_push(&c->readonly, &r->link);
    return r;
}

static wh_status fill(readonly *r, const void *data, size_t size) {
    r->data = whi_aligned_alloc(16, size ? size : 1);
    if (!r->data)
        return WH_ENOMEM;
    if (size)
        memcpy(r->data, data, size);
    r->size = size;
    r->there = true;
    return WH_OK;
}

void whi_readonly_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    readonly *r = get(c, head->value.id);
    wh_status st = r && !r->there ? fill(r, msg->data, msg->size) : r ? WH_EPROTOCOL : WH_ENOMEM;
    if (st == WH_OK)
        st = whi_tree_tell(c, 0, head, msg->data, msg->size);
    if (st == WH_OK)
        wh_pe_resume(c->pe, &r->wait);
    else
        whi_pe_fail(c->pe, "the readonly data of PE 0 cannot be taken: %s", wh_status_text(st));
}

wh_status wh_readonly(wh_pe *pe, const void *data, size_t size, const void **out) {
    whi_chares *c = whi_chares_of(pe);
    readonly *r = c ? get(c, c->readonly_count) : NULL;
    if (!r)
        return WH_ENOMEM;
    wh_status st = WH_OK;
    if (pe->number == 0 && size && !data)
        return whi_refuse_data("wh_readonly", "data", size);
    if (pe->number != 0 && !r->there && !whi_pe_may_wait(pe))
        return whi_refuse_wait(pe, "wh_readonly");
    if (pe->number == 0) {
        whi_head head = {.kind = WHI_HEAD_READONLY, .value.id = c->readonly_count};
        st = fill(r, data, size);
        if (st == WH_OK)
            st = whi_tree_tell(c, 0, &head, data, size);
    } else if (!r->there) {
        st = wh_pe_wait(pe, &r->wait);
    }
    if (st == WH_OK && r->size != size)
        st = whi_refuse(
            WH_ETRUNCATED, "E-CHARE-08",
            "wh_readonly: call %llu gives %zu bytes on PE 0, and size is %zu on PE %d: all "
            "PEs call it in the same order, with the same sizes",
            (unsigned long long)c->readonly_count + 1, r->size, size, pe->number);
    if (st != WH_OK)
        return st;
    c->readonly_count++;
    *out = r->data;
    return WH_OK;
}

void whi_readonly_free_all(whi_chares *c) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&c->readonly))) {
        readonly *r = whi_container_of(node, readonly, link);
        whi_free(r->data);
        whi_free(r);
    }
}
