// SPDX-License-Identifier: BSD-3-Clause
//
// What goes to all elements of a collection.
//
// The PE that has made the collection numbers its broadcasts and sends them down the tree, so that they come to all PEs in one
// order.  Each element knows the number of the last one that it has had.
#include "rt/chare/why.h"

static int root_of(const whi_chares *c, uint32_t collection) {
    return (int)(collection % (unsigned)c->pe->pes);
}

// It is numbered in the scheduler's turn, also where that is here: entries do not run within a send.
wh_status whi_broadcast(whi_chares *c, whi_head *head, const void *data, size_t size) {
    head->broadcast.source = (uint32_t)c->pe->number;
    return whi_chares_tell(c, root_of(c, head->broadcast.collection), head, data, size);
}

// call_copy gives an element a call of its own, which it can keep.
static void call_copy(whi_chares *c, whi_element *element, const whi_head *head,
                      const wh_pe_msg *msg) {
    whi_place_key key = whi_element_key(element);
    whi_call *call = whi_call_new(c, &key, whi_follow_entry(head), msg->size);
    if (!call) {
        whi_pe_fail(c->pe, "there is no memory for a message to all elements");
        return;
    }
    if (msg->size)
        memcpy(call->msg->pub.data, msg->data, msg->size);
    call->ref = head->broadcast.ref;
    call->from = head->broadcast.source;
    call->follows = true;
    call->place.stamp.flags = WHI_STAMP_SETTLED;  // should it move with its element
    call->element = element;
    if (whi_follow_lacks(element)) {
        call->number = head->broadcast.number;
        whi_follow_keep(c, element, call);
    } else {
        whi_element_take(c, call);
    }
}

static void call_one(whi_chares *c, whi_element *element, const whi_head *head,
                     const wh_pe_msg *msg) {
    unsigned entry = head->broadcast.entry;
    bool later = whi_follow_lacks(element) || element->held;
    if (head->broadcast.what != WHI_BROADCAST_CALL && !later) {
        if (head->broadcast.what == WHI_BROADCAST_DESTROY)
            whi_element_destroy(c, element);
        return;
    }
    const wh_entry *e =
        head->broadcast.what == WHI_BROADCAST_CALL && entry < element->cls->entry_count
            ? &element->cls->entries[entry]
            : NULL;
    if (!e || e->flags & (WH_ENTRY_THREADED | WH_ENTRY_WHEN) || later) {
        call_copy(c, element, head, msg);
        return;
    }
    wh_call call = {.struct_size = sizeof(call),
                    .args = msg->data,
                    .size = msg->size,
                    .ref = head->broadcast.ref,
                    .source = (int)head->broadcast.source};
    whi_element_run(c, element, e->fn, &call);
}

// Elements lie by their epochs, so that entries may make and end others meanwhile.
static void call_all(whi_chares *c, whi_collection *in, const whi_head *head,
                     const wh_pe_msg *msg) {
    whi_list *node;
    while ((node = whi_list_first(&in->elements))) {
        whi_element *element = whi_container_of(node, whi_element, link);
        if (element->epoch >= head->broadcast.number || c->pe->exit.state >= WHI_END_STOPPED)
            return;
        whi_element_set_epoch(element, head->broadcast.number);
        call_one(c, element, head, msg);
    }
}

void whi_broadcast_take(whi_chares *c, whi_head *head, wh_pe_msg *msg) {
    whi_collection *in = whi_collection_find(c, head->broadcast.collection);
    int root = root_of(c, head->broadcast.collection);
    if (in && in->known && !head->broadcast.number && c->pe->number == root) {
        if (in->ended) {
            wh_proxy proxy = {.collection = in->def.id};
            whi_chares_error(c, &proxy, "PE %d has called %s, which has been destroyed",
                             msg->source, whi_say_collection(c, in->def.id).text);
            return;
        }
        head->broadcast.number = ++in->numbered;
    } else if (!in || !in->known || msg->source == c->pe->number ||
               head->broadcast.number != in->epoch + 1) {
        whi_pe_fail(c->pe, "PE %d has sent a broadcast of %s that cannot come now", msg->source,
                    whi_say_collection(c, head->broadcast.collection).text);
        return;
    }
    in->epoch = head->broadcast.number;
    wh_status st = whi_tree_tell(c, root, head, msg->data, msg->size);
    if (st != WH_OK) {
        whi_pe_fail(c->pe, "a broadcast cannot be sent: %s", wh_status_text(st));
        return;
    }
    whi_follow_send(c, in, head, msg);
    if (head->broadcast.what == WHI_BROADCAST_DESTROY)
        in->ended = true;
    if (in->inserting && head->broadcast.what != WHI_BROADCAST_CALL)
        c->reduce.inserted(c, in);
    in->inserting = in->inserting && head->broadcast.what == WHI_BROADCAST_CALL;
    call_all(c, in, head, msg);
    if (head->broadcast.what != WHI_BROADCAST_CALL)
        whi_places_reject_awaited(c->places, in->def.id);
}
