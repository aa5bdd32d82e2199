// SPDX-License-Identifier: BSD-3-Clause
//
// The public calls that send and receive objects.
#include <string.h>

#include "base/alloc.h"
#include "link/wire.h"
#include "message/behind.h"
#include "message/endpoint.h"
#include "message/frames.h"
#include "message/object.h"
#include "message/objects.h"
#include "message/plain.h"

// has_type says whether the options ask for a layout: each frame has its own instead.
static bool has_type(const wh_op_opts *opts) {
    return opts && opts->type;
}

static wh_status resolve_frames(const wh_frame *frames, size_t count, const wh_op_opts *opts,
                                whi_buffer *to) {
    for (size_t i = 0; i < count; i++) {
        const wh_frame *f = &frames[i];
        if (!f->data && f->size && !f->type)
            return WH_EINVAL;
        wh_status st = whi_buffer_resolve(&to[i], f->data, f->size, f->mem, f->device, f->type);
        if (st != WH_OK)
            return st;
        if (opts && (opts->flags & WH_OP_UNTYPED))
            to[i].signature = 0;
    }
    return WH_OK;
}

// copy_frames keeps a copy of the frame array with the request, which frees it.
static wh_status copy_frames(wh_request *req, const wh_frame *frames, size_t count,
                             const wh_op_opts *opts) {
    if (!count)
        return WH_OK;
    whi_buffer *copy = count == 1 ? &whi_object_of(req)->frame : whi_calloc(count, sizeof(*copy));
    if (!copy)
        return WH_ENOMEM;
    whi_object_of(req)->frames = copy;
    whi_object_of(req)->frame_count = count;
    return resolve_frames(frames, count, opts, copy);
}

// order_frames puts the operation behind a stream: that of memory of the first frame on a device, or of `mem` if none is.
static wh_status order_frames(wh_request *req, const wh_op_opts *opts) {
    const whi_object_own *own = whi_object_of(req);
    wh_mem_kind kind = WH_MEM_HOST;
    for (size_t i = 0; kind == WH_MEM_HOST && i < own->frame_count; i++)
        if (whi_frames_given(&own->frames[i]))
            kind = (wh_mem_kind)own->frames[i].kind;
    if (kind == WH_MEM_HOST && opts->mem != WH_MEM_AUTO)
        kind = opts->mem;
    if (!whi_mem_ops_of(kind))
        return WH_ENOTSUP;
    return kind == WH_MEM_HOST ? WH_OK : whi_behind_begin(req, kind, opts->stream);
}

// size_of returns the bytes of an object.  WH_EINVAL: more than a receiver takes, which a layout can say without having the
// memory, when its elements lie over each other.
static wh_status size_of(const wh_request *req, uint64_t header_size, uint64_t *size) {
    const whi_object_own *own = whi_object_of(req);
    uint64_t sum = header_size;
    for (size_t i = 0; i < own->frame_count; i++) {
        if (own->frames[i].size > INT64_MAX - sum)
            return WH_EINVAL;
        sum += own->frames[i].size;
    }
    *size = sum;
    return WH_OK;
}

// packed_size returns the bytes of an object whose frames are all in host memory and packed; UINT64_MAX: one is not, or
// it is larger than `limit` and may be anything.
static uint64_t packed_size(const wh_frame *frames, size_t count, size_t header_size,
                            uint64_t limit) {
    uint64_t size = sizeof(whi_envelope) + header_size;
    bool devices = whi_mem_devices();
    for (size_t i = 0; i < count; i++) {
        const wh_frame *f = &frames[i];
        bool host = f->mem == WH_MEM_HOST || (f->mem == WH_MEM_AUTO && !devices);
        if (!host || f->type || f->size > limit || (!f->data && f->size) || size > limit)
            return UINT64_MAX;
        size += sizeof(whi_wire_frame) + f->size;
    }
    return size;
}

// strange says whether frames are of another version's size, so that they must be taken over before they can be read.
static bool strange(size_t count, size_t frame_size) {
    return __builtin_expect(count && frame_size != sizeof(wh_frame), 0);
}

// take_frames copies strange frames; the caller frees them.
static wh_status take_frames(const wh_frame *frames, size_t count, size_t frame_size,
                             wh_frame **taken) {
    if (!frames || count > WH_OBJECT_FRAMES_MAX)
        return WH_EINVAL;
    wh_frame *made = whi_calloc(count, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    wh_status st = whi_opts_take_array(made, sizeof(*made), frames, frame_size, count, "wh_frame");
    if (st == WH_OK)
        *taken = made;
    else
        whi_free(made);
    return st;
}

// send_at_once sends an object that fits into one record, without a request.  False: not now, or not so.
static bool send_at_once(wh_endpoint *ep, const void *header, size_t header_size,
                         const wh_frame *frames, size_t count, uint64_t tag, const wh_op_opts *opts,
                         uint64_t total) {
    uint64_t size = packed_size(frames, count, header_size, ep->fast_limit);
    if (size == UINT64_MAX || !whi_plain_space(ep, size, opts))
        return false;
    char *scratch = (char *)whi_messages_of(ep->worker)->scratch;
    whi_envelope_writer w = whi_envelope_begin(scratch, count, header, header_size);
    for (size_t i = 0; i < count; i++)
        whi_envelope_frame(&w, frames[i].data, frames[i].size, WH_MEM_HOST, 0, false);
    whi_hdr hdr = {.size = (uint32_t)size,
                   .cls = WHI_CLASS_OBJECT,
                   .ep = ep->number,
                   .seq = ep->tx_seq,
                   .tag = tag};
    if (ep->lane->ops->send(ep->lane, &hdr, scratch) != WH_OK)
        return false;
    whi_plain_sent(ep, size, total);
    return true;
}

wh_status wh_object_send(wh_endpoint *ep, const void *header, size_t header_size,
                         const wh_frame *frames, size_t count, size_t frame_size, uint64_t tag,
                         const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (strange(count, frame_size)) {
        wh_frame *taken;
        wh_status st = take_frames(frames, count, frame_size, &taken);
        if (st != WH_OK)
            return st;
        st = wh_object_send(ep, header, header_size, taken, count, sizeof(*taken), tag, opts, out);
        whi_free(taken);
        return st;
    }
    if (!ep || (!header && header_size) || (!frames && count) || count > WH_OBJECT_FRAMES_MAX ||
        header_size > WH_OBJECT_HEADER_MAX || has_type(opts))
        return WH_EINVAL;
    uint64_t total = header_size;
    for (size_t i = 0; i < count; i++)
        total += frames[i].size;
    if (whi_worker_is_owner(ep->worker) && total < ep->fast_limit &&
        send_at_once(ep, header, header_size, frames, count, tag, opts, total))
        return whi_req_done_now(total, tag, opts, out);
    wh_request *req = whi_req_new(ep->worker, ep, &whi_object_send_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->tag = tag;
    req->buf = whi_buffer_host(header, header_size);
    wh_status st = copy_frames(req, frames, count, opts);
    req->result.tag = tag;
    if (st == WH_OK)
        st = size_of(req, header_size, &req->result.size);
    if (st == WH_OK && opts && opts->stream)
        st = order_frames(req, opts);
    if (st == WH_OK)
        st = whi_object_make_envelope(req);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}

static wh_status recv(wh_worker *worker, wh_endpoint *ep, const wh_frame *frames, size_t count,
                      uint64_t tag, uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    if ((!frames && count) || count > WH_OBJECT_FRAMES_MAX || has_type(opts))
        return WH_EINVAL;
    wh_request *req = whi_req_new(worker, ep, &whi_object_recv_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    req->any = !ep;
    req->tag = tag;
    req->mask = mask;
    wh_status st = copy_frames(req, frames, count, opts);
    if (st == WH_OK && opts && opts->stream)
        st = order_frames(req, opts);
    if (st == WH_OK && opts && opts->allocator)
        st = whi_frames_own(req, opts->allocator);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}

// recv_strange does what a receive with strange frames asks for.
static wh_status recv_strange(wh_worker *worker, wh_endpoint *ep, const wh_frame *frames,
                              size_t count, size_t frame_size, uint64_t tag, uint64_t mask,
                              const wh_op_opts *opts, wh_request **out) {
    wh_frame *taken;
    wh_status st = take_frames(frames, count, frame_size, &taken);
    if (st != WH_OK)
        return st;
    st = recv(worker, ep, taken, count, tag, mask, opts, out);
    whi_free(taken);
    return st;
}

wh_status wh_object_recv(wh_endpoint *ep, const wh_frame *frames, size_t count, size_t frame_size,
                         uint64_t tag, uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (ep && strange(count, frame_size))
        return recv_strange(ep->worker, ep, frames, count, frame_size, tag, mask, opts, out);
    if (!ep || (!frames && count) || has_type(opts))
        return WH_EINVAL;
    whi_buffer one = {.ptr = NULL};
    wh_request *req = NULL;
    bool more = opts && (opts->allocator || opts->stream);
    if (count <= 1 && !more && resolve_frames(frames, count, opts, &one) == WH_OK)
        req =
            whi_plain_post(ep, &whi_object_recv_ops, WHI_MATCH_OBJECT, false, tag, mask, opts, out);
    if (!req) {
        whi_buffer_release(&one);
        return recv(ep->worker, ep, frames, count, tag, mask, opts, out);
    }
    if (count) {
        whi_object_of(req)->frame = one;
        whi_object_of(req)->frames = &whi_object_of(req)->frame;
        whi_object_of(req)->frame_count = 1;
    }
    if (out)
        *out = req;
    return WH_PENDING;
}

wh_status wh_worker_object_recv(wh_worker *worker, const wh_frame *frames, size_t count,
                                size_t frame_size, uint64_t tag, uint64_t mask,
                                const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!worker)
        return WH_EINVAL;
    if (strange(count, frame_size))
        return recv_strange(worker, NULL, frames, count, frame_size, tag, mask, opts, out);
    return recv(worker, NULL, frames, count, tag, mask, opts, out);
}

wh_status wh_object_send_wait(wh_endpoint *ep, const void *header, size_t header_size,
                              const wh_frame *frames, size_t count, size_t frame_size, uint64_t tag,
                              int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    st = wh_object_send(ep, header, header_size, frames, count, frame_size, tag, NULL, &req);
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

static wh_status probe(wh_worker *worker, wh_endpoint *ep, uint64_t tag, uint64_t mask,
                       wh_result *result) {
    const whi_message *msg = whi_recv_kept(worker, ep, WHI_MATCH_OBJECT, tag, mask);
    if (!msg)
        return WH_ENOTFOUND;
    if (result)
        *result = (wh_result){.status = WH_OK, .tag = msg->tag, .source = msg->ep};
    return WH_OK;
}

wh_status wh_object_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result) {
    return ep ? WHI_OWNED(ep->worker, probe(ep->worker, ep, tag, mask, result)) : WH_EINVAL;
}

wh_status wh_worker_object_probe(wh_worker *worker, uint64_t tag, uint64_t mask,
                                 wh_result *result) {
    return WHI_OWNED(worker, probe(worker, NULL, tag, mask, result));
}
