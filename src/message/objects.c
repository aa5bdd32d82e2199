// SPDX-License-Identifier: BSD-3-Clause
//
// Receiving objects, see objects.h and docs/wire.md.
//
// An object whose parts all fit travels like a small message.  Otherwise it is announced with its envelope (sizes and the
// user's header and the small host frames); a frame that is large or on a device follows as a segment of
// its own.  One grant lets all segments go, so that nothing is awaited frame by frame.  An envelope that is itself
// too large is fetched first, with a grant of its own.
#include "message/objects.h"

#include <string.h>

#include "base/alloc.h"
#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/frames.h"
#include "message/object.h"
#include "message/offer.h"
#include "message/plain.h"

// given_of returns the destination that the user has given for a frame, or NULL.
static whi_buffer *given_of(const wh_request *req, size_t index) {
    const whi_object_own *own = whi_object_of(req);
    return index < own->frame_count && whi_frames_given(&own->frames[index]) ? &own->frames[index]
                                                                             : NULL;
}

// buffer_of returns what the bytes of a frame go to: the destination that was given for it, or its own memory.
static whi_buffer *buffer_of(const wh_request *req, wh_object *object, size_t index) {
    whi_buffer *given = given_of(req, index);
    return given ? given : &object->frames[index].buffer;
}

// fill makes the buffer of a frame that has its memory, and copies what came with the envelope into it.
static wh_status fill(const wh_request *req, wh_object *object, size_t index) {
    whi_object_frame *f = &object->frames[index];
    if (!f->pub.size)
        return WH_OK;  // of whatever kind
    whi_buffer *to = buffer_of(req, object, index);
    wh_status st = WH_OK;
    if (to == &f->buffer)
        st = whi_buffer_resolve(to, f->pub.data, f->pub.size, f->pub.mem, f->pub.device, NULL);
    if (st != WH_OK)
        return st;
    req->ep->counters.unpacked += !to->direct;
    if (f->follows || f->origin == WHI_FRAME_INSIDE)
        return WH_OK;
    return whi_buffer_write(to, 0, f->packed, f->pub.size);
}

// complete_object completes the receive with its object.
static void complete_object(wh_request *req) {
    wh_object *object = whi_object_of(req)->object;
    whi_object_of(req)->object = NULL;
    object->request = NULL;
    req->result.object = object;
    req->result.size = object->total;
    req->ep->counters.received_messages++;
    req->ep->counters.received_bytes += object->total;
    whi_req_complete(req, WH_OK);
}

// reject ends a receive whose object cannot be taken, and lets the sender know.
static void reject(wh_request *req, wh_status why, const char *what) {
    if (whi_object_of(req)->object && whi_object_of(req)->object->announced)
        whi_recv_answer(req->ep, req->send_id, why == WH_ETRUNCATED ? WH_OK : WH_EREJECTED);
    whi_req_fail(req, why, "object receive: %s", what);
}

// put_back makes a message again of an object that its receive leaves before it has its memory.  NULL: its endpoint or its
// sender has gone, or there is no memory.
static whi_message *put_back(const wh_request *req) {
    const wh_object *object = whi_object_of(req)->object;
    const wh_endpoint *ep = req->ep;
    bool whole = !object->announced;
    if (req->no_place || ep->user_gone || (!whole && ep->state != WHI_EP_OPEN))
        return NULL;
    whi_announce announce = {.send_id = req->send_id, .slot = (uint16_t)req->offer.slot};
    for (size_t i = 0; i < object->count && !whole && req->offer.ticket; i++)
        announce.count += object->frames[i].follows;
    size_t offer = whi_offer_size(&announce), begin = whole ? 0 : sizeof(announce) + offer, size;
    const void *envelope = whi_object_envelope(object, &size);
    char *record = whi_malloc(begin + size);
    if (!record)
        return NULL;
    if (!whole)
        memcpy(record, &announce, sizeof(announce));
    uint64_t *words = (uint64_t *)(void *)(record + sizeof(announce));
    if (offer)
        *words++ = req->offer.ticket;
    for (size_t i = 0; i < object->count && offer; i++)
        if (object->frames[i].follows)
            *words++ = object->frames[i].from;
    memcpy(record + begin, envelope, size);
    whi_hdr hdr = {.cls = WHI_CLASS_OBJECT,
                   .flags = whole ? 0
                                  : WHI_FLAG_ANNOUNCED | (offer ? WHI_FLAG_OFFERED : 0) |
                                        (req->bulk & WHI_BULK_WISHED ? WHI_FLAG_BULK_LANE : 0),
                   .size = (uint32_t)(begin + size),
                   .tag = object->tag,
                   .arg = size};
    whi_message *msg = whi_recv_keep_for_others(req, &hdr, record);
    whi_free(record);
    return msg;
}

// leave ends a receive that its user has withdrawn, and leaves the object to the next one.
static void leave(wh_request *req, wh_status why) {
    wh_endpoint *ep = req->ep;
    whi_message *msg = put_back(req);
    if (!msg) {
        reject(req, why, wh_status_text(why));
        return;
    }
    whi_ep_retain(ep);
    whi_req_fail(req, why, "object receive: %s", wh_status_text(why));
    whi_recv_give_to_others(msg);
    whi_ep_release(ep);
}

// places lists the frames that follow, if each has a place that can be read into.
static unsigned places(const wh_request *req, whi_place found[WHI_OFFER_PIECES]) {
    wh_object *object = whi_object_of(req)->object;
    unsigned count = 0;
    for (size_t i = 0; i < object->count; i++) {
        const whi_object_frame *f = &object->frames[i];
        if (!f->follows)
            continue;
        const whi_buffer *to = buffer_of(req, object, i);
        if (count == WHI_OFFER_PIECES || !whi_buffer_coarse(to))
            return 0;
        found[count++] = (whi_place){f->from, to, f->pub.size};
    }
    return count;
}

// fetched ends a receive whose frames are all here, or asks for them.
static void fetched(wh_request *req, bool all) {
    if (!all) {
        whi_recv_grant(req, WHI_PART_DATA, whi_object_of(req)->object->data);
        return;
    }
    whi_recv_answer(req->ep, req->send_id, WH_OK);
    complete_object(req);
}

// receives_on_cuda says whether some frame that follows goes to CUDA memory.
static bool receives_on_cuda(const wh_request *req) {
    wh_object *object = whi_object_of(req)->object;
    for (size_t i = 0; i < object->count; i++)
        if (object->frames[i].follows && whi_bulk_is_cuda(buffer_of(req, object, i)))
            return true;
    return false;
}

// park leaves a receive until its user has given all memory, or a stream of the user's has come to it.
static void park(wh_request *req) {
    req->stage = WHI_STAGE_PARKED;
    if (req->ep->state == WHI_EP_CLOSED)
        whi_recv_set_apart(req);
}

// go_on fetches the data once every frame has memory.
static void go_on(wh_request *req) {
    wh_object *object = whi_object_of(req)->object;
    wh_status ready = whi_behind_state(req);
    if (ready == WH_PENDING) {
        park(req);
        whi_behind_await(req, go_on);
        return;
    }
    if (ready != WH_OK) {
        reject(req, ready, "the work before it on its stream has failed");
        return;
    }
    for (size_t i = 0; i < object->count; i++) {
        if (fill(req, object, i) != WH_OK) {
            reject(req, WH_EINVAL, "a frame's memory cannot be written");
            return;
        }
    }
    if (!object->announced)
        complete_object(req);
    else if (!object->data)
        fetched(req, true);
    else
        whi_offer_fetch(req);
}

// give_all gives every frame its memory, or leaves it waiting for it.
static wh_status give_all(wh_request *req, wh_object *object) {
    for (size_t i = 0; i < object->count; i++) {
        whi_object_frame *f = &object->frames[i];
        wh_status st = whi_frames_give(req, object, i);
        if (st == WH_PENDING) {
            f->waiting = true;
            object->waiting++;
        } else if (st != WH_OK) {
            if (f->origin != WHI_FRAME_GIVEN)
                f->pub.data = NULL;
            return st;
        }
    }
    return WH_OK;
}

static bool is_whole(const wh_request *req) {
    return whi_object_of(req)->object && !whi_object_of(req)->object->data;
}

static void ask_for_memory(wh_request *req) {
    wh_object *object = whi_object_of(req)->object;
    wh_endpoint *ep = req->ep;
    for (int kind = 0; kind < WHI_MEM_KINDS; kind++)
        object->allocators[kind] = *whi_frames_allocator(req, (wh_mem_kind)kind);
    object->waiting = 1;  // of our own, so that an answer that comes early does not end the loop
    // An allocator that cancels the receive, or ends its endpoint, is obeyed when all have answered.  A kept object may have
    // outlived its endpoint long before, and a whole one needs none.
    wh_status before = req->why;
    bool needed = ep->state != WHI_EP_CLOSED && !is_whole(req);
    req->stage = WHI_STAGE_ASKING;
    whi_ep_retain(ep);
    wh_status st = give_all(req, object);
    object->waiting--;
    if (req->why != before && req->why != WH_EREJECTED)
        leave(req, req->why);
    else if (req->why != before || (needed && ep->state == WHI_EP_CLOSED))
        reject(req, req->why, wh_status_text(req->why));
    else if (st != WH_OK)
        reject(req, st,
               st == WH_ETRUNCATED ? "a frame is longer than its destination"
               : st == WH_ETYPE    ? "a frame holds other elements than its destination's type"
                                   : "the allocator has no memory for a frame");
    else if (object->waiting)
        park(req);
    else
        go_on(req);
    whi_ep_release_link(ep);
    whi_ep_release(ep);
}

static wh_status object_accept_owned(wh_request *req, wh_object *object, size_t index, void *data) {
    if (object->request != req || !object->frames[index].waiting)
        return WH_EINVAL;
    object->frames[index].waiting = false;
    if (req->stage != WHI_STAGE_PARKED && req->stage != WHI_STAGE_ASKING)
        return WH_ECANCELLED;  // it has ended meanwhile
    if (!data && req->stage == WHI_STAGE_ASKING) {
        req->why =
            WH_EREJECTED;  // an allocator says so of another frame: obeyed when all have answered
        return WH_OK;
    }
    if (!data) {
        reject(req, WH_EREJECTED, "rejected by its receiver");
        return WH_OK;
    }
    object->frames[index].pub.data = data;
    if (--object->waiting == 0)
        go_on(req);
    return WH_OK;
}

wh_status wh_object_accept(wh_object *object, size_t index, void *data) {
    wh_request *req = object ? object->request : NULL;
    wh_worker *detached_from = object ? object->detached_from : NULL;
    if (!(req || detached_from) || index >= object->count)
        return WH_EINVAL;
    if (detached_from)
        return WHI_OWNED(detached_from, whi_object_answer_detached(object, index));
    return WHI_OWNED(req->worker, object_accept_owned(req, object, index, data));
}

// takes_plain says whether the destinations that were given take what is in the object, by a copy: asked before the first is
// written, since those of a receive that fails stay as they were.
static bool takes_plain(const wh_request *req, const wh_object *object) {
    for (size_t i = 0; i < object->count && i < whi_object_of(req)->frame_count; i++) {
        const whi_object_frame *f = &object->frames[i];
        const whi_buffer *given = given_of(req, i);
        if (given &&
            (!given->direct || given->size < f->pub.size || (given->signature && f->signature)))
            return false;
    }
    return true;
}

// settle_plain gives every frame its memory and bytes when nobody has to be asked: packed frames of host memory, in the
// object or in a destination that was given.  False: not so; what it has done will be done again.
static bool settle_plain(wh_request *req, wh_object *object) {
    if (object->data || !takes_plain(req, object))
        return false;
    const whi_allocator *host = whi_frames_allocator(req, WH_MEM_HOST);
    for (size_t i = 0; i < object->count; i++) {
        whi_object_frame *f = &object->frames[i];
        const whi_buffer *given = given_of(req, i);
        if (f->pub.mem != WH_MEM_HOST)
            return false;
        f->pub.data = (void *)(uintptr_t)f->packed;
        f->origin = WHI_FRAME_INSIDE;
        if (given) {
            whi_plain_copy(given->ptr, f->packed, f->pub.size);
            f->pub.data = whi_buffer_origin(given);
            f->origin = WHI_FRAME_GIVEN;
        } else if (whi_frames_asks(host, f->pub.size)) {
            return false;
        }
    }
    return true;
}

// note_addresses notes where the frames are that follow.
static wh_status note_addresses(wh_object *object, const whi_announce *announce,
                                const void *offer) {
    size_t count = 0;
    for (size_t i = 0; i < object->count; i++) {
        if (!object->frames[i].follows)
            continue;
        if (count == announce->count)
            return WH_EPROTOCOL;
        object->frames[i].from = whi_offer_address(offer, count++);
    }
    return count == announce->count ? WH_OK : WH_EPROTOCOL;
}

static wh_status take_envelope(wh_request *req, const whi_announce *announce, const void *offer,
                               const void *bytes, size_t size) {
    wh_object *object = NULL;
    bool announced = req->part != 0 || req->send_id != 0;
    wh_status st = whi_object_read(bytes, size, announced, &object);
    if (st == WH_ENOMEM) {
        if (announced)
            whi_recv_answer(req->ep, req->send_id, WH_EREJECTED);
        whi_req_fail(req, st, "object receive: no memory for the object");
        return WH_OK;
    }
    if (st != WH_OK)
        return st;
    if (announce->count && note_addresses(object, announce, offer) != WH_OK) {
        wh_object_free(object);
        return WH_EPROTOCOL;
    }
    object->tag = req->result.tag;
    object->announced = announced;
    object->request = req;
    whi_object_of(req)->object = object;
    if (!announced && settle_plain(req, object))
        complete_object(req);
    else
        ask_for_memory(req);
    return WH_OK;
}

static wh_status arrived(wh_request *req, uint8_t flags, const whi_announce *announce,
                         uint64_t length, const void *payload, size_t size) {
    req->part = WHI_PART_DATA;
    if (!(flags & WHI_FLAG_ANNOUNCED)) {
        req->send_id = 0;
        return take_envelope(req, announce, NULL, payload, size);
    }
    const void *offer = payload;
    uint32_t send_id = req->send_id = announce->send_id;
    whi_offer_read(req, announce, offer);
    payload = (const char *)payload + whi_offer_size(announce);
    size -= whi_offer_size(announce);
    if (size)
        return size == length ? take_envelope(req, announce, offer, payload, size) : WH_EPROTOCOL;
    if (announce->count)
        return WH_EPROTOCOL;  // of frames that nobody knows
    if (length < sizeof(whi_envelope) ||
        length > sizeof(whi_envelope) + WH_OBJECT_HEADER_MAX + WHI_PACKED_ALL +
                     (uint64_t)WH_OBJECT_FRAMES_MAX * sizeof(whi_wire_frame))
        return WH_EPROTOCOL;
    if (length > req->worker->ctx->config.object_head_max) {
        whi_recv_answer(req->ep, send_id, WH_EREJECTED);
        whi_req_fail(req, WH_ETRUNCATED,
                     "object receive: the object's head is larger than object_head_max");
        return WH_OK;
    }
    req->buf = whi_buffer_host(whi_malloc(length), length);
    if (!req->buf.ptr) {
        whi_recv_answer(req->ep, send_id, WH_EREJECTED);
        whi_req_fail(req, WH_ENOMEM, "object receive: no memory for the object's head");
        return WH_OK;
    }
    whi_recv_grant(req, WHI_PART_ENVELOPE, length);
    return WH_OK;
}

static wh_status sink(wh_request *req, const whi_hdr *hdr, whi_span *span) {
    // Between its envelope and its data an object has a grant that nothing may come for.
    if (req->stage != WHI_STAGE_MOVING || req->moved == req->accept)
        return WH_EPROTOCOL;
    if (req->part == WHI_PART_ENVELOPE) {
        if (hdr->seq || hdr->arg > req->accept || hdr->size > req->accept - hdr->arg)
            return WH_EPROTOCOL;
        *span = whi_buffer_sink(&req->buf, hdr->arg);
        return WH_OK;
    }
    wh_object *object = whi_object_of(req)->object;
    if (!hdr->seq || hdr->seq > object->count)
        return WH_EPROTOCOL;
    whi_object_frame *f = &object->frames[hdr->seq - 1];
    if (!f->follows || hdr->arg > f->pub.size || hdr->size > f->pub.size - hdr->arg)
        return WH_EPROTOCOL;
    *span = whi_buffer_sink(buffer_of(req, object, hdr->seq - 1), hdr->arg);
    return WH_OK;
}

// finish_frames completes what chunks have brought, and returns the first error of a copy into a frame.
static wh_status finish_frames(const wh_request *req, wh_object *object) {
    for (size_t i = 0; i < object->count; i++) {
        whi_buffer *to = buffer_of(req, object, i);
        whi_buffer_finish(to);
        if (to->failed)
            return (wh_status)to->failed;
    }
    return WH_OK;
}

static wh_status landed(wh_request *req, const whi_hdr *hdr) {
    req->moved += hdr->size;
    if (req->moved > req->accept)
        return WH_EPROTOCOL;
    whi_offer_came(req, hdr->size);
    if (req->moved < req->accept)
        return WH_OK;
    if (req->part == WHI_PART_DATA) {
        wh_status failed = finish_frames(req, whi_object_of(req)->object);
        if (failed)
            whi_req_fail(req, failed, "object receive: a frame's memory cannot be written: %s",
                         wh_status_text(failed));
        else
            complete_object(req);
        return WH_OK;
    }
    // A cancel that came meanwhile came too late: what has matched completes, within the grace time.
    const whi_announce bare = {.send_id = req->send_id};
    return take_envelope(req, &bare, NULL, req->buf.ptr, req->buf.size);
}

static bool on_device(const wh_request *req) {
    wh_object *object = whi_object_of(req)->object;
    for (size_t i = 0; i < object->count; i++)
        if (object->frames[i].follows && whi_buffer_stages(buffer_of(req, object, i)))
            return true;
    return false;
}

// withdraw ends a receive early.  While allocators are asked, it is obeyed when all have answered.
static void withdraw(wh_request *req, wh_status why) {
    if (req->stage == WHI_STAGE_ASKING)
        req->why = why;
    else if (req->stage == WHI_STAGE_PARKED)
        leave(req, why);
    else
        whi_recv_withdraw(req, why);
}

// drop drops an object that is not whole.
static void drop(wh_request *req) {
    whi_object_own *own = whi_object_of(req);
    if (own->object) {
        own->object->request = NULL;
        wh_object_free(own->object);
        own->object = NULL;
    }
    whi_free(req->buf.ptr);  // the envelope; what the user gave is in `frames`
    req->buf = whi_buffer_host(NULL, 0);
}

// forget drops that, and the request's frames.
static void fini(wh_request *req) {
    whi_object_own *own = whi_object_of(req);
    if (own->object || req->buf.ptr)
        drop(req);
    whi_frames_release(req);
    if (own->allocator)
        whi_frames_disown(req);
}

static void unclaimed(wh_request *req) {
    wh_object_free(req->result.object);
    req->result.object = NULL;
}

// notified drops an object that did not arrive whole once its user has heard of it.
static void notified(wh_request *req) {
    if (whi_object_of(req)->object && req->done)
        drop(req);
}

const whi_req_ops whi_object_recv_ops = {.text = "object receive",
                                         .post = whi_recv_post,
                                         .withdraw = withdraw,
                                         .notified = notified,
                                         .fini = fini,
                                         .sink = sink,
                                         .landed = landed,
                                         .places = places,
                                         .fetched = fetched,
                                         .on_device = on_device,
                                         .arrived = arrived,
                                         .whole = is_whole,
                                         .unclaimed = unclaimed,
                                         .reset = drop,
                                         .on_cuda = receives_on_cuda,
                                         .match = WHI_MATCH_OBJECT,
                                         .receives = true,
                                         .names_grant = true};
