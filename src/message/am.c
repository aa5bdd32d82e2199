// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages: handlers that run when a message arrives.
//
// The handler sees the record where it lies in the lane.  When it wants to keep a payload beyond its return, the
// payload is copied into a kept message first; when the payload was only announced, wh_am_recv asks for it.
#include "message/am.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "mem/mem.h"
#include "message/behind.h"
#include "message/copied.h"
#include "message/long.h"
#include "message/offer.h"
#include "message/plain.h"
#include "message/recv.h"
#include "message/request.h"
#include "message/send.h"

// What the user's wh_am is the first member of.
typedef struct held_am {
    wh_am pub;
    whi_message *
        msg;  // the kept message; NULL while the payload still lies in the lane, or when it is lost
    uint8_t flags;
    uint16_t signature;
    whi_announce announce;
    uint64_t offer[2];  // its ticket and address
    bool used;          // wh_am_recv or wh_am_drop has had it
    bool kept;          // its handler has returned WH_PENDING
} held_am;

// handler_of returns the handler of an id, most often the last one asked for; NULL: there is none.
static whi_am_handler *handler_of(whi_message_room *room, uint16_t id) {
    if (!room->am_last || room->am_last_id != id) {
        room->am_last = whi_hash_get(&room->am_handlers, id);
        room->am_last_id = id;
    }
    return room->am_last;
}

static wh_status worker_set_am_owned(wh_worker *worker, uint16_t id, wh_am_fn fn, void *arg) {
    whi_message_room *room = whi_messages_of(worker);
    if (!fn) {
        room->am_last = NULL;  // it may be that one
        whi_free(whi_hash_remove(&room->am_handlers, id));
        return WH_OK;
    }
    whi_am_handler *handler = handler_of(room, id);
    if (!handler)
        handler = whi_hash_make(&room->am_handlers, id, sizeof(*handler));
    if (!handler)
        return WH_ENOMEM;
    *handler = (whi_am_handler){fn, arg};
    return WH_OK;
}

wh_status wh_worker_set_am(wh_worker *worker, uint16_t id, wh_am_fn fn, void *arg) {
    return WHI_OWNED(worker, worker_set_am_owned(worker, id, fn, arg));
}

void whi_am_forget_handlers(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    size_t cursor = 0;
    uint64_t key;
    whi_am_handler *handler;
    while ((handler = whi_hash_next(&room->am_handlers, &cursor, &key)))
        whi_free(handler);
    room->am_last = NULL;
    whi_hash_fini(&room->am_handlers);
    whi_hash_init(&room->am_handlers);
}

// send_pieces sends a header and a payload that lie apart.
static wh_status send_pieces(wh_endpoint *ep, const whi_hdr *hdr, const void *header,
                             size_t header_size, const void *buf, size_t size) {
    // A record of more than a line is copied faster from one piece.
    enum { JOINED_MAX = 32 };
    if (hdr->size <= JOINED_MAX && ep->lane->ops->send_joined)
        return ep->lane->ops->send_joined(ep->lane, hdr, header, header_size, buf);
    uint8_t *scratch = whi_messages_of(ep->worker)->scratch;
    memcpy(scratch, header, header_size);
    memcpy(scratch + header_size, buf, size);
    return ep->lane->ops->send(ep->lane, hdr, scratch);
}

// send_at_once sends what fits into one record, without a request.
static wh_status send_at_once(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                              const void *buf, size_t size) {
    uint64_t whole = header_size + size;
    whi_hdr hdr = {.size = (uint32_t)whole,
                   .cls = WHI_CLASS_AM,
                   .aux = id,
                   .ep = ep->number,
                   .seq = ep->tx_seq,
                   .tag = header_size};
    bool apart = header_size && size && (const char *)header + header_size != buf;
    wh_status st = apart ? send_pieces(ep, &hdr, header, header_size, buf, size)
                         : ep->lane->ops->send(ep->lane, &hdr, header_size ? header : buf);
    if (st != WH_OK)
        return st;
    whi_plain_sent(ep, whole, size);
    return WH_OK;
}

// send_plain does so with bytes of host memory, if there is space now.
static inline bool send_plain(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                              const void *buf, size_t size, const wh_op_opts *opts) {
    return whi_plain_space(ep, header_size + size, opts) &&
           send_at_once(ep, id, header, header_size, buf, size) == WH_OK;
}

// send_small does so with a layout in host memory, packed on the way.  False: not now, or not so.
static bool send_small(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                       const whi_buffer *buffer, const wh_op_opts *opts) {
    uint64_t whole = header_size + buffer->size;
    if (buffer->kind != WH_MEM_HOST || !whi_plain_space(ep, whole, opts))
        return false;
    uint8_t *scratch = whi_messages_of(ep->worker)->scratch;
    if (header_size)
        memcpy(scratch, header, header_size);
    if (whi_buffer_read(buffer, 0, scratch + header_size, buffer->size) != WH_OK)
        return false;
    whi_am_tag tag = {.header_size = (uint16_t)header_size,
                      .signature = whi_ep_signature(ep, buffer)};
    whi_hdr hdr = {.size = (uint32_t)whole,
                   .cls = WHI_CLASS_AM,
                   .aux = id,
                   .ep = ep->number,
                   .seq = ep->tx_seq};
    memcpy(&hdr.tag, &tag, sizeof(hdr.tag));
    if (ep->lane->ops->send(ep->lane, &hdr, scratch) != WH_OK)
        return false;
    whi_plain_sent(ep, whole, buffer->size);
    ep->counters.packed += !buffer->direct;
    return true;
}

// What the request of an active message that has to wait has of its own.
typedef struct am_own {
    void *header;
    void *
        copy;  // memory for the payload, where that is the caller's again; NULL: it is the sender's
    uint16_t id;
    uint16_t header_size;
} am_own;
static_assert(sizeof(am_own) <= WHI_REQ_OWN, "it fits");

static am_own *am_of(const wh_request *req) {
    return (am_own *)(uintptr_t)req->own;
}

// describe says how long the header is, and if the peer wants to know, where the payload lies.
static void describe(const wh_request *req, whi_hdr *hdr) {
    whi_am_tag tag = {.header_size = am_of(req)->header_size};
    if (req->buf.kind != WH_MEM_HOST && (req->ep->link->peer.features & WHI_FEATURE_AM_MEMORY)) {
        tag.kind = (uint8_t)req->buf.kind;
        tag.device = req->buf.device < 0 ? 0 : (uint16_t)req->buf.device;
    }
    tag.signature = whi_ep_signature(req->ep, &req->buf);
    hdr->aux = am_of(req)->id;
    memcpy(&hdr->tag, &tag, sizeof(hdr->tag));
}

static size_t prefix(const wh_request *req, const void **bytes) {
    *bytes = am_of(req)->header;
    return am_of(req)->header_size;
}

static void fini(wh_request *req) {
    whi_free(am_of(req)->header);
    whi_blocks_put(&whi_messages_of(req->worker)->copies, am_of(req)->copy);
}

static const whi_req_ops am_send_ops = {.text = "active message",
                                        .post = whi_send_post,
                                        .start = whi_send_start_message,
                                        .withdraw = whi_send_withdraw,
                                        .fini = fini,
                                        .cls = WHI_CLASS_AM,
                                        .describe = describe,
                                        .prefix = prefix,
                                        .granted = whi_send_granted,
                                        .moved = whi_send_moved,
                                        .match = WHI_MATCH_NONE,
                                        .holds_close = true};

static wh_status never_posted(wh_request *req) {
    (void)req;
    return WH_EINVAL;  // am_recv_owned accepts it at once
}

static const whi_req_ops am_recv_ops = {.text = "active message receive",
                                        .post = never_posted,
                                        .withdraw = whi_recv_withdraw,
                                        .sink = whi_recv_sink,
                                        .landed = whi_recv_landed,
                                        .places = whi_recv_places,
                                        .fetched = whi_recv_fetched,
                                        .match = WHI_MATCH_NONE,
                                        .receives = true,
                                        .names_grant = true};

static wh_status fill_request(wh_request *req, uint16_t id, const void *header, size_t header_size,
                              const void *buf, size_t size, const wh_op_opts *opts) {
    wh_status st = whi_req_buffer(&req->buf, buf, size, opts);
    am_own *own = am_of(req);
    if (st == WH_OK && header_size) {
        own->header = whi_memdup(header, header_size);
        st = own->header ? WH_OK : WH_ENOMEM;
    }
    if (st == WH_OK)
        st = whi_behind_order(req, opts);
    own->id = id;
    own->header_size = (uint16_t)header_size;
    req->length = req->buf.size;
    req->result = (wh_result){.size = req->buf.size};
    return st;
}

static bool cannot_be(const void *header, size_t header_size, const void *buf, size_t size,
                      const wh_op_opts *opts) {
    return whi_req_no_buffer(buf, size, opts) || (!header && header_size) ||
           header_size > WH_AM_HEADER_MAX;
}

// new_request makes the request of a send, or leaves nothing behind.
static wh_status new_request(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                             const void *buf, size_t size, const wh_op_opts *opts, bool wanted,
                             wh_request **out) {
    wh_request *req = whi_req_new(ep->worker, ep, &am_send_ops, opts, wanted);
    if (!req)
        return WH_ENOMEM;
    wh_status st = fill_request(req, id, header, header_size, buf, size, opts);
    if (st != WH_OK)
        whi_req_discard(req);
    else
        *out = req;
    return st;
}

wh_status wh_am_send(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                     const void *buf, size_t size, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!ep || cannot_be(header, header_size, buf, size, opts))
        return WH_EINVAL;
    if (whi_plain_memory(opts) && send_plain(ep, id, header, header_size, buf, size, opts))
        return whi_req_done_now(size, 0, opts, out);
    if (opts && opts->type) {
        whi_buffer buffer;
        wh_status laid_out = whi_req_buffer(&buffer, buf, size, opts);
        if (laid_out != WH_OK)
            return laid_out;
        bool sent = send_small(ep, id, header, header_size, &buffer, opts);
        whi_buffer_release(&buffer);
        if (sent)
            return whi_req_done_now(buffer.size, 0, opts, out);
    }
    wh_request *req;
    wh_status st = new_request(ep, id, header, header_size, buf, size, opts, out != NULL, &req);
    return st == WH_OK ? whi_req_start(req, opts, out) : st;
}

// send_copied starts a send whose payload is the caller's when this returns.
static wh_status send_copied(wh_request *req, size_t header_size, const wh_op_opts *opts,
                             wh_request **out) {
    void *copy = whi_blocks_get(&whi_messages_of(req->worker)->copies, req->buf.size);
    am_of(req)->copy = copy;
    if (!copy) {
        whi_req_discard(req);
        return WH_ENOMEM;
    }
    // What the lane takes at once is copied by that.
    bool is_taken = req->ep->state == WHI_EP_OPEN && whi_long_may(req, header_size);
    bool waits = !is_taken && whi_copied_may_wait(req->ep);
    if (!waits && !is_taken)
        whi_copied_keep(req, copy);
    wh_status st = whi_req_start(req, opts, out);
    if (waits && st == WH_PENDING)
        whi_copied_wait(req, copy);
    else if (is_taken && st == WH_PENDING)
        whi_copied_keep(req, copy);
    return st;
}

// For callers that are not the owner, and where it must be asked whose memory it is.
static wh_status am_send_copy_owned(wh_endpoint *ep, uint16_t id, const void *header,
                                    size_t header_size, const void *buf, size_t size,
                                    const wh_op_opts *opts, wh_request **out) {
    if (send_plain(ep, id, header, header_size, buf, size, opts))
        return whi_req_done_now(size, 0, opts, out);
    wh_request *req;
    wh_status st = new_request(ep, id, header, header_size, buf, size, opts, out != NULL, &req);
    return st == WH_OK ? send_copied(req, header_size, opts, out) : st;
}

// is_host says whether the CPU may copy the bytes.  Where there are devices, it must be asked whose they are.
static bool is_host(const void *buf, size_t size, const wh_op_opts *opts) {
    if (whi_plain_memory(opts))
        return true;
    if (opts && (opts->type || opts->mem != WH_MEM_AUTO))
        return false;
    wh_mem_info info = {.kind = WH_MEM_HOST};
    if (size)
        whi_mem_query(buf, &info);
    return info.kind == WH_MEM_HOST;
}

wh_status wh_am_send_copy(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                          const void *buf, size_t size, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!ep || cannot_be(header, header_size, buf, size, opts))
        return WH_EINVAL;
    if (whi_plain_memory(opts) && send_plain(ep, id, header, header_size, buf, size, opts))
        return whi_req_done_now(size, 0, opts, out);
    if (!is_host(buf, size, opts))
        return WH_ENOTSUP;
    return WHI_OWNED(ep->worker,
                     am_send_copy_owned(ep, id, header, header_size, buf, size, opts, out));
}

wh_status wh_am_send_wait(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                          const void *buf, size_t size, int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    st = wh_am_send(ep, id, header, header_size, buf, size, NULL, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, NULL) : st;
}

static void free_held(held_am *held) {
    whi_pool_put(&whi_messages_of(held->pub.ep->worker)->messages[0], held);
}

// settle tells the sender of a message that nobody wants (any more), and gives its credit back.
static void settle(wh_endpoint *ep, uint8_t flags, uint32_t send_id, uint64_t cost) {
    if (flags & WHI_FLAG_ANNOUNCED)
        ep->rx_announced--;
    if (flags & (WHI_FLAG_ANNOUNCED | WHI_FLAG_SYNC))
        whi_recv_answer(ep, send_id, WH_OK);
    if (!(flags & WHI_FLAG_ANNOUNCED))
        whi_ep_give_credit(ep, cost);
}

// keep_followed keeps one whose payload is in the next record, with memory for that.
static whi_message *keep_followed(const held_am *held, const whi_hdr *hdr, const void *payload) {
    wh_endpoint *ep = held->pub.ep;
    whi_hdr bare = *hdr;
    bare.flags = 0;
    bare.aux = held->signature;
    whi_message *msg = whi_message_new(ep, &bare, payload);
    if (!msg)
        return NULL;
    msg->length = hdr->arg;
    msg->gone = ep->state != WHI_EP_OPEN;  // its handler has ended the endpoint
    wh_request *req = msg->gone ? NULL : whi_ahead_bring(msg);
    if (req) {
        whi_long_expect(req, hdr->arg);
    } else if (!msg->gone) {
        whi_message_free(msg);
        return NULL;
    }
    return msg;
}

// keep copies a message whose handler has answered "later".
static void keep(held_am *held, const whi_hdr *hdr, const void *payload, uint64_t cost) {
    wh_endpoint *ep = held->pub.ep;
    held->kept = true;
    whi_ep_retain(ep);
    held->msg = held->flags & WHI_FLAG_FOLLOWED ? keep_followed(held, hdr, payload)
                                                : whi_message_new(ep, hdr, payload);
    if (!held->msg) {
        // The user has the handle by now: it stays good for asking and dropping, but holds nothing.
        whi_log(WHI_ERROR, "E-AM-02", "no memory to keep an active message; it is lost");
        settle(ep, held->flags, held->announce.send_id, cost);
        held->pub.header = held->pub.data = NULL;
        held->pub.header_size = 0;
        return;
    }
    held->msg->taken = true;
    whi_list_push_back(&ep->taken, &held->msg->ep_link);
    held->pub.header = held->msg->data + whi_offer_size(&held->announce);
    if (held->pub.data)
        held->pub.data = held->msg->data + held->pub.header_size;
}

// after_handler ends or keeps a message as its handler has answered.
static inline void after_handler(held_am *held, uint8_t flags, wh_status answer, const whi_hdr *hdr,
                                 const void *payload, uint64_t cost) {
    if (!held->used && answer == WH_PENDING) {
        keep(held, hdr, payload, cost);
        return;
    }
    if (!held->used)
        settle(held->pub.ep, flags, held->announce.send_id, cost);
    free_held(held);
}

// read_tag takes the tag apart; false: it says what cannot be.
static bool read_tag(uint64_t bits, whi_am_tag *tag) {
    memcpy(tag, &bits, sizeof(*tag));
    bool host = !tag->kind && !tag->device;  // most are from there, and say nothing else
    return tag->header_size <= WH_AM_HEADER_MAX && !tag->reserved &&
           (host || (tag->kind > WH_MEM_HOST && tag->kind < WHI_MEM_KINDS));
}

// arrive takes one whose record has these flags.  They are the constant 0 for most, so that the compiler drops what only others need.
static inline __attribute__((always_inline)) wh_status arrive(wh_endpoint *ep, const whi_hdr *hdr,
                                                              const void *payload, uint8_t flags) {
    bool announced = flags & WHI_FLAG_ANNOUNCED;
    whi_announce announce = {.send_id = (uint32_t)hdr->arg};
    const void *bytes = payload;
    size_t rest = hdr->size;
    bool followed = flags & WHI_FLAG_FOLLOWED;
    if (announced && (followed || !whi_offer_split(hdr, &bytes, &rest, &announce)))
        return WH_EPROTOCOL;
    const char *offer = bytes;
    size_t prefix = hdr->size - rest + whi_offer_size(&announce);
    whi_am_tag tag;
    if (!read_tag(hdr->tag, &tag) || hdr->size < prefix + tag.header_size ||
        ((announced || followed) && hdr->size != prefix + tag.header_size))
        return WH_EPROTOCOL;
    uint64_t cost = hdr->size + WHI_MESSAGE_COST;
    uint64_t size = announced || followed ? hdr->arg : hdr->size - tag.header_size;
    if (!announced && !followed) {  // else it counts when its payload is received
        ep->counters.received_messages++;
        ep->counters.received_bytes += size;
    }
    const whi_am_handler *handler = handler_of(whi_messages_of(ep->worker), hdr->aux);
    if (!handler || ep->user_gone) {
        if (!handler)
            whi_log_once_per(WHI_WARN, "W-AM-01", 10,
                             "an active message with id %u from %s has no handler and is dropped",
                             hdr->aux, ep->link->name);
        settle(ep, flags, announce.send_id, cost);
        return WH_OK;
    }
    // A place of the smallest pool is large enough: a message costs no trip to the heap.
    static_assert(sizeof(held_am) <= sizeof(whi_message), "held_am lives in a message's place");
    held_am *held = whi_pool_get(&whi_messages_of(ep->worker)->messages[0]);
    if (!held)
        return WH_ENOMEM;
    const char *header = (const char *)payload + prefix;
    // Member by member: gcc clears a whole struct of this size with a string instruction, which takes longer.
    held->pub = (wh_am){.ep = ep,
                        .id = hdr->aux,
                        .header = header,
                        .header_size = tag.header_size,
                        .data = announced || followed ? NULL : header + tag.header_size,
                        .size = size,
                        .mem = tag.kind ? (wh_mem_kind)tag.kind : WH_MEM_HOST,
                        .device = (int)tag.device};
    held->msg = NULL;
    held->flags = flags;
    held->signature = tag.signature;
    held->announce = announce;
    held->used = held->kept = false;
    if (announce.count) {
        memcpy(held->offer, offer, sizeof(held->offer));
        held->pub.page_offset = (unsigned)(whi_offer_address(offer, 0) % WH_AM_PAGE);
    }
    whi_ep_retain(ep);  // the handler may close it
    wh_status answer = handler->fn(&held->pub, handler->arg);
    after_handler(held, flags, answer, hdr, payload, cost);
    whi_ep_release(ep);
    return WH_OK;
}

wh_status whi_am_arrived(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    return __builtin_expect(!hdr->flags, 1) ? arrive(ep, hdr, payload, 0)
                                            : arrive(ep, hdr, payload, hdr->flags);
}

// is_brought says whether the payload of a kept message came, or comes, in a record of its own.
static bool is_brought(const held_am *held) {
    return held->kept && held->msg && held->flags & WHI_FLAG_FOLLOWED;
}

// cost_of is what the message's record has cost.
static uint64_t cost_of(const held_am *held) {
    bool followed = held->flags & WHI_FLAG_FOLLOWED;
    return held->pub.header_size + (followed ? 0 : held->pub.size) + WHI_MESSAGE_COST;
}

// release_kept releases a kept message, unless a receive has it, and its endpoint.
static void release_kept(held_am *held, bool received) {
    wh_endpoint *ep = held->pub.ep;
    if (held->kept) {
        bool brought = is_brought(held);
        if (held->msg && !(brought && received)) {
            whi_list_remove(&held->msg->ep_link);
            if (brought && !held->msg->gone)
                whi_recv_settle(held->msg);
            else
                whi_message_free(held->msg);
        }
        free_held(held);
        whi_ep_release(ep);
    } else {
        held->used = true;  // inside the handler: it is freed when that has returned
    }
}

static bool gone(const held_am *held) {
    return held->kept && (!held->msg || held->msg->gone);
}

static wh_status am_recv_owned(wh_am *am, void *buf, size_t size, const wh_op_opts *opts,
                               wh_request **out) {
    held_am *held = (held_am *)am;
    if (held->used)
        return WH_EINVAL;
    wh_endpoint *ep = am->ep;
    wh_request *req = whi_req_new(ep->worker, ep, &am_recv_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    wh_status st = whi_req_buffer(&req->buf, buf, size, opts);
    bool away =
        held->flags & WHI_FLAG_ANNOUNCED || (held->flags & WHI_FLAG_FOLLOWED && !held->kept);
    if (st == WH_OK && (gone(held) || (away && ep->state != WHI_EP_OPEN)))
        st = WH_ECANCELLED;  // nobody is there to bring the payload
    if (st == WH_OK)
        st = whi_behind_order(req, opts);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    whi_req_accept(req, WHI_STAGE_QUEUED);
    if (is_brought(held)) {
        whi_list_remove(&held->msg->ep_link);
        whi_recv_meet_followed(req, held->msg);
        whi_ep_give_credit(ep, cost_of(held));
    } else {
        if (!held->kept && held->flags & WHI_FLAG_ANNOUNCED && am->mem == WH_MEM_HOST)
            whi_long_awaited(ep, held->flags, am->size);
        whi_recv_offered(req, &held->announce, held->offer);
        whi_recv_am(req, held->flags, held->signature, held->announce.send_id, am->data, am->size,
                    cost_of(held));
    }
    release_kept(held, true);
    if (out)
        *out = req;
    return WH_PENDING;
}

wh_status wh_am_recv(wh_am *am, void *buf, size_t size, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!am || whi_req_no_buffer(buf, size, opts))
        return WH_EINVAL;
    return WHI_OWNED(am->ep->worker, am_recv_owned(am, buf, size, opts, out));
}

static wh_status am_drop_owned(held_am *held) {
    wh_am *am = &held->pub;
    if (held->used)
        return WH_OK;
    if (!gone(held))
        settle(am->ep, held->flags, held->announce.send_id, cost_of(held));
    release_kept(held, false);
    return WH_OK;
}

void wh_am_drop(wh_am *am) {
    if (!am)
        return;
    // After the worker's end there is nobody to tell; the message goes with its endpoint's last hold.
    wh_worker *worker = am->ep->worker;
    if (WHI_OWNED(worker, am_drop_owned((held_am *)am)) == WH_ECLOSED) {
        pthread_mutex_lock(&worker->foreign_lock);
        (void)am_drop_owned((held_am *)am);
        whi_worker_unlock_or_free(worker);
    }
}
