// SPDX-License-Identifier: BSD-3-Clause
//
// Matching, see match.h.
//
// Each list is in order: receives by post number, messages by arrival.  So the best candidate of each list
// is its first that accepts, and the winner is the best of at most four lists, of which those with
// a count of zero are not looked at.  Buckets double when there are twice as many entries as buckets; when that
// fails for want of memory the lists only get longer.
#include "message/match.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "message/request.h"

enum { BUCKETS_LOG_MIN = 6, BUCKETS_MIN = 1 << BUCKETS_LOG_MIN };

static whi_list *buckets_new(size_t count) {
    whi_list *buckets = whi_calloc(count, sizeof(*buckets));
    for (size_t i = 0; buckets && i < count; i++)
        whi_list_init(&buckets[i]);
    return buckets;
}

wh_status whi_match_init(whi_match *m) {
    *m = (whi_match){.bucket_mask = BUCKETS_MIN - 1, .shift = 64 - BUCKETS_LOG_MIN};
    if (whi_random_bytes(&m->factor, sizeof(m->factor)) != WH_OK)
        return WH_ESYSTEM;
    m->factor |= 1;
    whi_list_init(&m->masked);
    whi_list_init(&m->all);
    m->exact = buckets_new(BUCKETS_MIN);
    m->by_ep_tag = buckets_new(BUCKETS_MIN);
    m->by_tag = buckets_new(BUCKETS_MIN);
    if (m->exact && m->by_ep_tag && m->by_tag)
        return WH_OK;
    whi_match_fini(m);
    return WH_ENOMEM;
}

void whi_match_fini(whi_match *m) {
    whi_free(m->exact);
    whi_free(m->by_ep_tag);
    whi_free(m->by_tag);
    m->exact = m->by_ep_tag = m->by_tag = NULL;
}

void whi_match_ep_init(whi_match_ep *e) {
    e->exact = 0;
    whi_list_init(&e->masked);
    whi_list_init(&e->messages);
}

static wh_request *recv_of(whi_list *node) {
    return whi_container_of(node, wh_request, queue_link);
}

// append puts an entry at the end of an initialised bucket.
static void append(whi_list *bucket, whi_list *node) {
    assert(bucket->prev);
    whi_list_push_back(bucket, node);
}

// grow doubles the buckets.  Entries move over from the front, which keeps the order of each list.
static void grow(whi_match *m) {
    size_t old = m->bucket_mask + 1;
    whi_match bigger = {.bucket_mask = 2 * old - 1,
                        .shift = m->shift - 1,
                        .factor = m->factor,
                        .exact = buckets_new(2 * old),
                        .by_ep_tag = buckets_new(2 * old),
                        .by_tag = buckets_new(2 * old)};
    if (!bigger.exact || !bigger.by_ep_tag || !bigger.by_tag) {
        whi_match_fini(&bigger);
        return;
    }
    for (size_t i = 0; i < old; i++) {
        whi_list *node;
        while ((node = whi_list_pop_front(&m->exact[i]))) {
            wh_request *r = recv_of(node);
            append(&bigger.exact[whi_match_bucket(&bigger, r->ep, r->tag)], node);
        }
        while ((node = whi_list_pop_front(&m->by_ep_tag[i]))) {
            whi_message *msg = whi_container_of(node, whi_message, ep_tag_link);
            append(&bigger.by_ep_tag[whi_match_bucket(&bigger, msg->ep, msg->tag)], node);
        }
        while ((node = whi_list_pop_front(&m->by_tag[i]))) {
            whi_message *msg = whi_container_of(node, whi_message, tag_link);
            append(&bigger.by_tag[whi_match_bucket(&bigger, NULL, msg->tag)], node);
        }
    }
    whi_match_fini(m);
    m->exact = bigger.exact;
    m->by_ep_tag = bigger.by_ep_tag;
    m->by_tag = bigger.by_tag;
    m->bucket_mask = bigger.bucket_mask;
    m->shift = bigger.shift;
}

// insert puts a receive where its post number belongs: at the end, unless it regains its place.
static void insert(whi_list *list, wh_request *recv) {
    whi_list *before = list->prev;
    while (before != list && recv_of(before)->post_number > recv->post_number)
        before = before->prev;
    whi_list_insert(before, &recv->queue_link);
}

void whi_match_repost(whi_match *m, whi_match_ep *e, wh_request *recv) {
    m->receives++;
    if (recv->mask != WH_TAG_MASK_ALL) {
        insert(e ? &e->masked : &m->masked, recv);
        return;
    }
    if (m->receives > 2 * m->bucket_mask)
        grow(m);
    if (e)
        e->exact++;
    else
        m->exact_any++;
    insert(&m->exact[whi_match_bucket(m, recv->ep, recv->tag)], recv);
}

void whi_match_post(whi_match *m, whi_match_ep *e, wh_request *recv) {
    recv->post_number = m->next_post++;
    whi_match_repost(m, e, recv);
}

void whi_match_unpost(whi_match *m, whi_match_ep *e, wh_request *recv) {
    whi_list_remove(&recv->queue_link);
    m->receives--;
    if (recv->mask != WH_TAG_MASK_ALL)
        return;
    if (e)
        e->exact--;
    else
        m->exact_any--;
}

static wh_request *first_exact(const whi_match *m, const wh_endpoint *ep, uint64_t tag) {
    whi_list *bucket = &m->exact[whi_match_bucket(m, ep, tag)];
    for (whi_list *node = bucket->next; node != bucket; node = node->next) {
        wh_request *r = recv_of(node);
        if (r->tag == tag && r->ep == ep)
            return r;
    }
    return NULL;
}

static wh_request *first_masked(const whi_list *list, uint64_t tag) {
    for (whi_list *node = list->next; node != list; node = node->next) {
        wh_request *r = recv_of(node);
        if (((r->tag ^ tag) & r->mask) == 0)
            return r;
    }
    return NULL;
}

static inline wh_request *earlier(wh_request *a, wh_request *b) {
    if (!a || !b)
        return a ? a : b;
    return a->post_number < b->post_number ? a : b;
}

wh_request *whi_match_message(whi_match *m, whi_match_ep *e, wh_endpoint *ep, uint64_t tag) {
    if (!m->receives)
        return NULL;
    wh_request *best = e->exact ? first_exact(m, ep, tag) : NULL;
    if (m->exact_any)
        best = earlier(best, first_exact(m, NULL, tag));
    best = earlier(best, first_masked(&e->masked, tag));
    best = earlier(best, first_masked(&m->masked, tag));
    if (best)
        whi_match_unpost(m, best->ep ? e : NULL, best);
    return best;
}

void whi_match_keep(whi_match *m, whi_match_ep *e, whi_message *msg) {
    if (++m->messages > 2 * m->bucket_mask)
        grow(m);
    msg->number = m->next_message++;
    whi_list_push_back(&m->all, &msg->all_link);
    whi_list_push_back(&e->messages, &msg->ep_link);
    whi_list_push_back(&m->by_tag[whi_match_bucket(m, NULL, msg->tag)], &msg->tag_link);
    whi_list_push_back(&m->by_ep_tag[whi_match_bucket(m, msg->ep, msg->tag)], &msg->ep_tag_link);
}

// The number of the message whose `offset` bytes behind its begin are at a node.
static uint64_t number_at(const whi_list *node, size_t offset) {
    return ((const whi_message *)(const void *)((const char *)node - offset))->number;
}

// insert_message puts a message into a list by its number; `offset` is that of the list's link.
static void insert_message(whi_list *list, whi_message *msg, size_t offset) {
    whi_list *before = list->prev;
    while (before != list && number_at(before, offset) > msg->number)
        before = before->prev;
    whi_list_insert(before, (whi_list *)(void *)((char *)msg + offset));
}

void whi_match_keep_again(whi_match *m, whi_match_ep *e, whi_message *msg) {
    if (++m->messages > 2 * m->bucket_mask)
        grow(m);
    insert_message(&m->all, msg, offsetof(whi_message, all_link));
    insert_message(&e->messages, msg, offsetof(whi_message, ep_link));
    insert_message(&m->by_tag[whi_match_bucket(m, NULL, msg->tag)], msg,
                   offsetof(whi_message, tag_link));
    insert_message(&m->by_ep_tag[whi_match_bucket(m, msg->ep, msg->tag)], msg,
                   offsetof(whi_message, ep_tag_link));
}

void whi_match_drop(whi_match *m, whi_message *msg) {
    m->messages--;
    whi_list_remove(&msg->all_link);
    whi_list_remove(&msg->ep_link);
    whi_list_remove(&msg->tag_link);
    whi_list_remove(&msg->ep_tag_link);
    whi_list_remove(&msg->ahead_link);
}

// The four ways to look for a message: by endpoint or not, by whole tag or by mask.
static whi_message *find_exact(const whi_match *m, const wh_endpoint *ep, uint64_t tag) {
    if (ep) {
        whi_list *bucket = &m->by_ep_tag[whi_match_bucket(m, ep, tag)];
        for (whi_list *node = bucket->next; node != bucket; node = node->next) {
            whi_message *msg = whi_container_of(node, whi_message, ep_tag_link);
            if (msg->tag == tag && msg->ep == ep)
                return msg;
        }
        return NULL;
    }
    whi_list *bucket = &m->by_tag[whi_match_bucket(m, NULL, tag)];
    for (whi_list *node = bucket->next; node != bucket; node = node->next) {
        whi_message *msg = whi_container_of(node, whi_message, tag_link);
        if (msg->tag == tag)
            return msg;
    }
    return NULL;
}

static whi_message *find_masked(const whi_match *m, const whi_match_ep *e, uint64_t tag,
                                uint64_t mask) {
    const whi_list *list = e ? &e->messages : &m->all;
    for (whi_list *node = list->next; node != list; node = node->next) {
        whi_message *msg = e ? whi_container_of(node, whi_message, ep_link)
                             : whi_container_of(node, whi_message, all_link);
        if (((msg->tag ^ tag) & mask) == 0)
            return msg;
    }
    return NULL;
}

whi_message *whi_match_find(const whi_match *m, const whi_match_ep *e, const wh_endpoint *ep,
                            uint64_t tag, uint64_t mask) {
    if (!m->messages || (e && whi_list_empty(&e->messages)))
        return NULL;
    return mask == WH_TAG_MASK_ALL ? find_exact(m, ep, tag) : find_masked(m, e, tag, mask);
}
