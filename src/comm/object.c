// SPDX-License-Identifier: BSD-3-Clause
//
// The public calls of objects: sending and receiving them, and asking what was received.
#include "comm/object.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "comm/endpoint.h"
#include "comm/objects.h"
#include "comm/send.h"
#include "comm/wire.h"

wh_status whi_object_new(void *bytes, uint32_t count, uint64_t header_size, uint64_t data,
                         wh_object **object) {
    wh_object *o = whi_calloc(1, sizeof(*o) + count * sizeof(o->frames[0]));
    if (!o)
        return WH_ENOMEM;
    const char *at = (const char *)bytes + sizeof(whi_envelope) + count * sizeof(whi_wire_frame);
    o->bytes = bytes;
    o->count = count;
    o->data = data;
    o->header = at;
    o->header_size = header_size;
    o->total = header_size;
    at += header_size;
    for (uint32_t i = 0; i < count; i++) {
        whi_wire_frame frame;
        memcpy(&frame, (const char *)bytes + sizeof(whi_envelope) + i * sizeof(frame),
               sizeof(frame));
        whi_object_frame *f = &o->frames[i];
        f->pub.size = frame.size;
        f->pub.mem = (wh_mem_kind)frame.kind;
        f->follows = frame.flags & WHI_FRAME_FOLLOWS;
        f->packed = at;
        o->total += frame.size;
        at += f->follows ? 0 : frame.size;
    }
    *object = o;
    return WH_OK;
}

static void free_frame(wh_object *object, whi_object_frame *f) {
    if (f->origin != WHI_FRAME_ALLOCATED || !f->pub.data)
        return;
    const whi_allocator *a = &object->allocators[f->pub.mem];
    if (a->free_fn)
        a->free_fn(f->pub.data, f->pub.size, f->pub.mem, f->pub.device, a->arg);
    else if (f->pub.mem == WH_MEM_HOST)
        whi_free(f->pub.data);
    else if (wh_mem_free_kind(f->pub.mem, f->pub.data) != WH_OK)
        whi_log(WHI_WARN, "W-OBJ-01", "a frame's %s memory could not be freed",
                wh_mem_kind_name(f->pub.mem));
}

void wh_object_free(wh_object *object) {
    if (!object || object->request)
        return;  // one that is still being received belongs to its request
    for (size_t i = 0; i < object->count; i++)
        free_frame(object, &object->frames[i]);
    whi_free(object->bytes);
    whi_free(object);
}

const void *wh_object_header(const wh_object *object, size_t *size) {
    if (size)
        *size = object->header_size;
    return object->header;
}

size_t wh_object_count(const wh_object *object) {
    return object->count;
}

const wh_frame *wh_object_frame(const wh_object *object, size_t index) {
    return index < object->count ? &object->frames[index].pub : NULL;
}

uint64_t wh_object_tag(const wh_object *object) {
    return object->tag;
}

void *wh_object_take_frame(wh_object *object, size_t index) {
    if (index >= object->count || object->frames[index].origin != WHI_FRAME_ALLOCATED)
        return NULL;
    object->frames[index].origin = WHI_FRAME_GIVEN;
    return object->frames[index].pub.data;
}

static wh_status resolve_frames(const wh_frame *frames, size_t count, whi_buffer *to) {
    for (size_t i = 0; i < count; i++) {
        if (!frames[i].data && frames[i].size)
            return WH_EINVAL;
        wh_status st = whi_buffer_resolve(&to[i], frames[i].data, frames[i].size, frames[i].mem,
                                          frames[i].device);
        if (st != WH_OK)
            return st;
    }
    return WH_OK;
}

// copy_frames keeps a copy of the frame array with the request, which frees it.
static wh_status copy_frames(wh_request *req, const wh_frame *frames, size_t count) {
    if (!count)
        return WH_OK;
    whi_buffer *copy = whi_calloc(count, sizeof(*copy));
    if (!copy)
        return WH_ENOMEM;
    req->frames = copy;
    req->frame_count = count;
    return resolve_frames(frames, count, copy);
}

static bool fits_at_once(const wh_endpoint *ep, uint64_t size, const wh_op_opts *opts) {
    return whi_worker_is_owner(ep->worker) && size < ep->fast_limit &&
           ep->credit >= (int64_t)(size + WHI_MESSAGE_COST) &&
           whi_queue_empty(&ep->link->controls) && (!opts || !opts->flags);
}

enum { FEW_FRAMES = 16 };  // so many are described on the stack

// send_at_once sends an object that fits into one record, without a request.
static wh_status send_at_once(wh_endpoint *ep, const void *header, size_t header_size,
                              const wh_frame *frames, size_t count, uint64_t tag,
                              const wh_op_opts *opts, uint64_t total) {
    whi_buffer few[FEW_FRAMES];
    if (count > FEW_FRAMES || resolve_frames(frames, count, few) != WH_OK)
        return WH_EAGAIN;
    wh_request view = {.worker = ep->worker,
                       .buf = {(void *)(uintptr_t)header, header_size, WH_MEM_HOST, 0},
                       .frames = few,
                       .frame_count = count};
    uint64_t size = whi_object_eager_size(&view);
    if (size == UINT64_MAX || !fits_at_once(ep, size, opts))
        return WH_EAGAIN;
    size_t packed;
    wh_status st = whi_object_pack(&view, false, ep->worker->scratch, &packed);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = {.size = (uint32_t)packed,
                   .cls = WHI_CLASS_OBJECT,
                   .ep = ep->number,
                   .seq = ep->tx_seq,
                   .tag = tag};
    st = ep->lane->ops->send(ep->lane, &hdr, ep->worker->scratch);
    if (st != WH_OK)
        return st;
    ep->tx_seq++;
    ep->credit -= (int64_t)(packed + WHI_MESSAGE_COST);
    ep->counters.sent_messages++;
    ep->counters.sent_bytes += total;
    return WH_OK;
}

// make_envelope turns the request's header into the whole envelope, which it then owns: the header is
// the user's only until the call returns or the request completes, whichever is first to need it.
static wh_status make_envelope(wh_request *req) {
    uint64_t size = whi_object_envelope_size(req);
    void *envelope = whi_malloc(size);
    if (!envelope)
        return WH_ENOMEM;
    size_t packed;
    wh_status st = whi_object_pack(req, true, envelope, &packed);
    if (st != WH_OK) {
        whi_free(envelope);
        return st;
    }
    req->buf = (whi_buffer){envelope, size, WH_MEM_HOST, 0};
    req->envelope_made = 1;
    return WH_OK;
}

wh_status wh_object_send(wh_endpoint *ep, const void *header, size_t header_size,
                         const wh_frame *frames, size_t count, uint64_t tag, const wh_op_opts *opts,
                         wh_request **out) {
    if (!ep || (!header && header_size) || (!frames && count) || count > WH_OBJECT_FRAMES_MAX ||
        header_size > WH_OBJECT_HEADER_MAX)
        return WH_EINVAL;
    uint64_t total = header_size;
    for (size_t i = 0; i < count; i++)
        total += frames[i].size;
    if (whi_worker_is_owner(ep->worker) && total < ep->fast_limit &&
        send_at_once(ep, header, header_size, frames, count, tag, opts, total) == WH_OK) {
        if (out)
            *out = NULL;
        if (opts && opts->result)
            *opts->result = (wh_result){.status = WH_OK, .size = total, .tag = tag};
        return WH_OK;
    }
    wh_request *req = whi_req_new(ep->worker, ep, WHI_REQ_SEND_OBJECT, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->tag = tag;
    req->result = (wh_result){.size = total, .tag = tag};
    req->buf = (whi_buffer){(void *)(uintptr_t)header, header_size, WH_MEM_HOST, 0};
    wh_status st = copy_frames(req, frames, count);
    if (st == WH_OK)
        st = make_envelope(req);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}

static wh_status recv(wh_worker *worker, wh_endpoint *ep, const wh_frame *frames, size_t count,
                      uint64_t tag, uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    if ((!frames && count) || count > WH_OBJECT_FRAMES_MAX)
        return WH_EINVAL;
    wh_request *req = whi_req_new(worker, ep, WHI_REQ_RECV_OBJECT, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->any = !ep;
    req->tag = tag;
    req->mask = mask;
    wh_status st = copy_frames(req, frames, count);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}

wh_status wh_object_recv(wh_endpoint *ep, const wh_frame *frames, size_t count, uint64_t tag,
                         uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    return ep ? recv(ep->worker, ep, frames, count, tag, mask, opts, out) : WH_EINVAL;
}

wh_status wh_worker_object_recv(wh_worker *worker, const wh_frame *frames, size_t count,
                                uint64_t tag, uint64_t mask, const wh_op_opts *opts,
                                wh_request **out) {
    return worker ? recv(worker, NULL, frames, count, tag, mask, opts, out) : WH_EINVAL;
}

wh_status wh_object_send_wait(wh_endpoint *ep, const void *header, size_t header_size,
                              const wh_frame *frames, size_t count, uint64_t tag, int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    st = wh_object_send(ep, header, header_size, frames, count, tag, NULL, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, NULL) : st;
}

wh_status wh_object_recv_wait(wh_endpoint *ep, uint64_t tag, uint64_t mask, int timeout_ms,
                              wh_object **object) {
    wh_status st = ep && object ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts), .result = &result};
    st = recv(ep->worker, ep, NULL, 0, tag, mask, &opts, &req);
    if (st == WH_PENDING)
        st = whi_req_wait_result(req, timeout_ms, &result);
    if (st == WH_OK)
        *object = result.object;
    return st;
}
