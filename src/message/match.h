// SPDX-License-Identifier: BSD-3-Clause
//
// Matching: which receive gets a message, and which message a receive gets.
//
// A match table serves one kind of messages (tag or object) of one worker.  Receives wait in a hash of (endpoint
// or any, tag) when their mask is whole, else in a list; messages that came first wait in lists by arrival
// and in hashes by (endpoint, tag) and by tag.  The rule: of the receives that accept a message the one
// posted first wins, on its endpoint or on the worker; of the messages that a receive accepts the first
// that came.  Pure bookkeeping: nothing here sends, completes or frees.
#ifndef WHI_MESSAGE_MATCH_H
#define WHI_MESSAGE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#include "base/list.h"

struct wh_request;
struct wh_endpoint;

// A message that no receive has taken yet.
struct wh_message {
    whi_list all_link, ep_link, tag_link, ep_tag_link;
    struct wh_endpoint *ep;
    uint64_t tag;
    uint64_t number;   // order among the messages of the worker
    uint64_t length;   // of the whole message
    uint32_t send_id;  // announced, or synchronous
    uint32_t size;     // bytes at `data`
    uint8_t cls;
    uint8_t flags;  // WHI_FLAG_*
    uint8_t pool;   // the size class that it came from
    bool taken;     // by wh_tag_take or a handler: it is in its endpoint's list of those
    bool gone;      // taken, and then withdrawn by its sender or lost with it
    bool dropped;   // to be freed when its prefetch has completed
    bool paid;      // its credit has been given back
    uint16_t aux;   // of its record: what a tagged one holds (signature), or which handler gets it
    uint16_t offer_slot, offer_count;  // of an announcement: `data` begins with its offer
    // Of an announced message that is asked for before its receive is there (ahead.c).
    whi_list ahead_link;
    uint8_t *body;  // where its payload comes, instead of `data`; NULL: there
    struct wh_request *prefetch, *waiter;
    uint8_t data[] __attribute__((aligned(16)));
};
typedef struct wh_message whi_message;

typedef struct whi_match {
    whi_list *exact;      // buckets of receives whose mask is whole
    whi_list *by_ep_tag;  // buckets of messages
    whi_list *by_tag;
    size_t bucket_mask;
    unsigned shift;    // of a product of 64 bits down to a bucket
    uint64_t factor;   // odd and secret, so that a peer cannot choose tags that share a bucket
    size_t exact_any;  // receives with a whole mask, from any endpoint
    size_t receives, messages;
    whi_list masked;  // other receives from any endpoint
    whi_list all;     // messages in the order in which they came
    uint64_t next_post, next_message;
} whi_match;

// The part of an endpoint.
typedef struct whi_match_ep {
    size_t exact;     // receives of this endpoint with a whole mask
    whi_list masked;  // its other receives
    whi_list messages;
} whi_match_ep;

wh_status whi_match_init(whi_match *m);
void whi_match_fini(whi_match *m);
void whi_match_ep_init(whi_match_ep *e);

// whi_match_post takes a receive in, as the last one; whi_match_repost gives one that was matched in vain its old place
// back.  `e` is NULL for any source.
void whi_match_post(whi_match *m, whi_match_ep *e, struct wh_request *recv);
void whi_match_repost(whi_match *m, whi_match_ep *e, struct wh_request *recv);

// whi_match_unpost takes a receive out.
void whi_match_unpost(whi_match *m, whi_match_ep *e, struct wh_request *recv);

// whi_match_message finds, and takes out, the receive that gets a message of `ep` with `tag`; NULL: none.
struct wh_request *whi_match_message(whi_match *m, whi_match_ep *e, struct wh_endpoint *ep,
                                     uint64_t tag);

// whi_match_keep keeps a message that nobody wanted, as the last one; whi_match_keep_again one whose receive did not take
// it, where its number belongs.  whi_match_drop takes it out.
void whi_match_keep(whi_match *m, whi_match_ep *e, whi_message *msg);
void whi_match_keep_again(whi_match *m, whi_match_ep *e, whi_message *msg);
void whi_match_drop(whi_match *m, whi_message *msg);

// whi_match_bucket returns where a key hashes to.  Multiplicative: the high bits of the product depend on all bits of the
// key.
static inline size_t whi_match_bucket(const whi_match *m, const void *ep, uint64_t tag) {
    uint64_t key = tag ^ ((uint64_t)(uintptr_t)ep << 17 | (uint64_t)(uintptr_t)ep >> 47);
    return (key * m->factor) >> m->shift;
}

// whi_match_find returns the first kept message that a receive of (ep or NULL, tag, mask) would get; NULL: none.
whi_message *whi_match_find(const whi_match *m, const whi_match_ep *e, const struct wh_endpoint *ep,
                            uint64_t tag, uint64_t mask);

#endif
