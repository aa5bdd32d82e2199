// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoint: one conversation on a link: its sequence numbers, credit, queue and pending operations.
#ifndef WHI_MESSAGE_ENDPOINT_H
#define WHI_MESSAGE_ENDPOINT_H

#include <wherry/endpoint.h>

#include "message/request.h"
#include "message/room.h"

typedef enum whi_ep_state {
    WHI_EP_CONNECTING,  // no link, or the peer has not accepted yet
    WHI_EP_OPEN,
    WHI_EP_CLOSED,  // ended: by us, by the peer's loss, or never begun
} whi_ep_state;

// A message that came before its turn, on a lane that reorders.
typedef struct whi_early {
    whi_list link;
    whi_hdr hdr;
    uint8_t payload[];
} whi_early;
enum { WHI_EARLY_MAX = 1024 };  // per endpoint; more fails the link

struct wh_endpoint {
    // What an eager send reads.
    wh_worker *worker;
    whi_lane *lane;       // the link's tx
    uint64_t fast_limit;  // a payload below this may go at once; 0: nothing may
    int64_t credit;       // bytes that the peer will still hold unexpected
    uint32_t number;
    uint32_t tx_seq;

    // What an arriving message reads.
    uint32_t rx_seq;
    uint32_t rx_announced;  // announcements that we hold
    int64_t rx_window;      // credit that the peer has left
    uint64_t rx_owed;       // credit to give back
    uint64_t owed_max;      // above which something is done with it
    whi_match_ep match[WHI_MATCH_COUNT];
    wh_counters counters;

    whi_link *link;
    whi_list link_node;  // in the link's list
    whi_list worker_node;
    whi_list dirty_node;
    // Written by other threads: in words of their own (request.h says why).
    whi_list abort_node;                     // in the worker's list of aborts by other threads
    _Alignas(8) _Atomic uint32_t submitted;  // their requests that the owner has yet to take over
    // Read by them.
    _Alignas(8) _Atomic uint32_t lost_flag;  // the peer has closed or was lost
    _Alignas(8) _Atomic(whi_connect_data *) peer_data;

    _Alignas(8) bool dirty;
    bool credit_due;  // a CREDIT found no space
    bool user_gone;   // the handle was released
    bool eos;         // the peer has closed and all before it was read
    bool close_sent;
    bool lost_notified;
    bool was_open;
    bool object_lost;  // one for the worker's handler went with the peer
    uint8_t state;     // whi_ep_state
    uint32_t refs;     // the user's, the library's, one per request
    uint32_t announced, announce_limit;
    uint32_t sends;        // pending operations that an orderly close waits for
    uint64_t rx_more;      // credit beyond the setting that the peer has got
    uint64_t bulk_serial;  // number of the next granted send
    wh_status why;         // why it ended
    whi_list sendq;        // requests not yet sent
    whi_list ops;          // all pending requests
    whi_list waiting;      // requests of the queue that wait for the end of others
    whi_list taken;        // messages that wh_tag_take has taken
    whi_list ahead;        // announced messages that may be prefetched (ahead.c)
    whi_list early;        // messages that came before their turn (lanes that reorder)
    whi_list handled;   // receives of objects for the worker's handler, in the order of the sends
    unsigned handling;  // so many
    uint32_t early_count;
    struct whi_dial *dial;  // while connecting
    wh_request *connect_req;
    wh_request *close_req;
    uint64_t listener_id;
    whi_connect_data *own_data;  // until the endpoint is open
    whi_peer *who;               // of the link that it was opened on last; NULL: of none yet
    wh_lost_fn lost;
    void *lost_arg;
    whi_deferred lost_call;
    bool lost_queued;
    void *data;
    whi_allocator *allocators;  // by kind; NULL: none was set here
    char *error;
};

// What the room above, remote memory access, has to do with links and endpoints.
typedef struct whi_message_up {
    void (*link_made)(whi_link *link);
    void (*link_freed)(whi_link *link);
    void (*link_disconnected)(whi_link *link);  // as `disconnected` of whi_link_up

    // settled says whether an orderly close may be sent as far as accesses go; if not, it sees to it that whi_ep_settle is
    // called when it may.
    bool (*settled)(wh_endpoint *ep);
} whi_message_up;

static inline const whi_message_up *whi_message_up_of(const wh_worker *worker) {
    return whi_messages_of(worker)->up;
}

// whi_ep_new makes an endpoint that is connecting, held by the library and by the user.
WH_CHECK wh_status whi_ep_new(wh_worker *worker, wh_endpoint **ep);
static inline void whi_ep_retain(wh_endpoint *ep) {
    ep->refs++;
}

// whi_ep_release drops a reference; whi_ep_unreferenced frees it behind the last one, unless other threads have handed over requests.
void whi_ep_unreferenced(wh_endpoint *ep);
static inline void whi_ep_release(wh_endpoint *ep) {
    if (!--ep->refs)
        whi_ep_unreferenced(ep);
}

// whi_ep_join takes it in under its number on its link; whi_ep_leave takes it out.
WH_CHECK wh_status whi_ep_join(whi_link *link, wh_endpoint *ep);
void whi_ep_leave(whi_link *link, wh_endpoint *ep);

// whi_ep_bind opens the endpoint on a link: sends OPEN.
void whi_ep_bind(wh_endpoint *ep, whi_link *link);

// whi_ep_learn notes whom the link leads to and what the peer has given with its OPEN or ACCEPT.
WH_CHECK wh_status whi_ep_learn(wh_endpoint *ep, const whi_link *link, const void *data,
                                size_t size);

// whi_ep_mark_lost tells other threads that the peer has closed or was lost, before any callback
// does.
static inline void whi_ep_mark_lost(wh_endpoint *ep) {
    atomic_store_explicit(&ep->lost_flag, 1, memory_order_release);
}

// whi_ep_opened makes it ready: the peer's credit and bound of announcements are known.
void whi_ep_opened(wh_endpoint *ep, uint64_t credit, uint32_t announce_limit);

// whi_ep_send_abort tells the peer that the endpoint is dropped.
void whi_ep_send_abort(wh_endpoint *ep);

// whi_ep_end ends the endpoint: pending operations end with `why`.  The peer is not told.
void whi_ep_end(wh_endpoint *ep, wh_status why, const char *sentence);

// whi_ep_release_link releases the link of an endpoint that has ended, once no operation of it is left there.
void whi_ep_release_link(wh_endpoint *ep);

// whi_ep_returned completes an operation whose buffer the lane had when its endpoint ended, and has returned now.
void whi_ep_returned(wh_request *req);

// whi_ep_drain sends from the queue what can go.  whi_ep_refresh works out fast_limit again.
unsigned whi_ep_drain(wh_endpoint *ep);
void whi_ep_refresh(wh_endpoint *ep);
void whi_ep_mark(wh_endpoint *ep);

// whi_ep_give_credit owes the peer the credit of a message that no longer waits.  It is returned in large pieces: a sender
// without credit announces, so it never waits for one.  What was announced is prefetched in smaller ones, as large as it takes
// to pay for waking the peer (ahead.c).
enum { WHI_CREDIT_PART = 4, WHI_AHEAD_PART = 16 };
void whi_ep_return_credit(wh_endpoint *ep);
static inline void whi_ep_give_credit(wh_endpoint *ep, uint64_t cost) {
    ep->rx_owed += cost;
    if (__builtin_expect(ep->rx_owed >= ep->owed_max, 0))
        whi_ep_return_credit(ep);
}

// whi_ep_raise_credit gives the peer more credit for good, as far as the setting allows, since a receive has waited for a
// message that lacked so much.  It is lowered again when the endpoint holds more than `credit` of what it has received.
void whi_ep_raise_credit(wh_endpoint *ep, uint64_t lacked);

// whi_ep_peer_closed: end of stream was read in order.
void whi_ep_peer_closed(wh_endpoint *ep);

// whi_ep_settle goes on with flushes, an orderly close and the news of the peer's after something has ended.
void whi_ep_settle(wh_endpoint *ep);

// whi_ep_close_acked ends an orderly close that the peer has answered.
void whi_ep_close_acked(wh_endpoint *ep);

// whi_ep_close_without_worker releases the handle of an endpoint whose worker is gone.
wh_status whi_ep_close_without_worker(wh_endpoint *ep);

// whi_ep_run_foreign_aborts aborts what other threads want aborted.
void whi_ep_run_foreign_aborts(wh_worker *worker);

// whi_ep_close_now ends an endpoint whose worker is being destroyed; the peer reads an abort.
void whi_ep_close_now(wh_endpoint *ep);

// whi_ep_dump prints it and its pending operations.
void whi_ep_dump(const wh_endpoint *ep, FILE *file);

// whi_ep_complete_request completes one pending operation of an endpoint that ends.  False: it must stay, since a lane is in
// the middle of its buffer, or an allocator is being asked.
bool whi_ep_complete_request(wh_endpoint *ep, wh_request *req, wh_status why);

// whi_ep_queue_lost has the user's callback for the end called at the end of the pass, once.
void whi_ep_queue_lost(wh_endpoint *ep);

// whi_open_init and whi_close_init register the records of endpoints.
void whi_open_init(wh_worker *worker);
void whi_close_init(wh_worker *worker);

// whi_ep_release_aborted only drops their holds: at the worker's end, under its foreign_lock.
void whi_ep_release_aborted(wh_worker *worker);

// whi_ep_add_counters adds up the counters of all endpoints that are there.
void whi_ep_add_counters(const wh_worker *worker, wh_counters *to);

// whi_ep_signature returns what the peer is told of a buffer's elements: nothing, where it would not know it.
static inline uint16_t whi_ep_signature(const wh_endpoint *ep, const whi_buffer *buf) {
    return ep->link && (ep->link->peer.features & WHI_FEATURE_TYPES) ? buf->signature : 0;
}

// whi_ep_usable says whether something may be sent: WH_OK, or why not.
wh_status whi_ep_usable(const wh_endpoint *ep);

// whi_ep_sentence writes why the endpoint ended, for the error of an operation.
const char *whi_ep_sentence(const wh_endpoint *ep);

#endif
