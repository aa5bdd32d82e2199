// SPDX-License-Identifier: BSD-3-Clause
//
// The public calls of tagged messages.
//
// What is plain (plain.h) takes the short way; everything else is described by a request first.
#include <wherry/tag.h>

#include "mem/mem.h"
#include "message/behind.h"
#include "message/endpoint.h"
#include "message/plain.h"
#include "message/recv.h"
#include "message/request.h"
#include "message/send.h"

// make_request makes the request of an operation, which gets its buffer.
static wh_status make_request(wh_worker *worker, wh_endpoint *ep, const whi_req_ops *ops,
                              whi_buffer *buffer, const wh_op_opts *opts, bool wanted,
                              wh_request **made) {
    wh_request *req = whi_req_new(worker, ep, ops, opts, wanted);
    if (!req) {
        whi_buffer_release(buffer);
        return WH_ENOMEM;
    }
    req->buf = *buffer;
    req->length = buffer->size;
    wh_status st = whi_behind_order(req, opts);
    if (st == WH_OK)
        *made = req;
    else
        whi_req_discard(req);
    return st;
}

// send_small sends a small message of any memory and layout as plain ones go, packed on the way.
static bool send_small(wh_endpoint *ep, const whi_buffer *buffer, uint64_t tag,
                       const wh_op_opts *opts) {
    if (!whi_plain_space(ep, buffer->size, opts))
        return false;
    void *scratch = whi_messages_of(ep->worker)->scratch;
    if (!buffer->direct && whi_buffer_read(buffer, 0, scratch, buffer->size) != WH_OK)
        return false;
    if (!whi_plain_put(ep, buffer->direct ? buffer->ptr : scratch, buffer->size, tag,
                       whi_ep_signature(ep, buffer)))
        return false;
    ep->counters.packed += !buffer->direct;
    return true;
}

wh_status wh_tag_send(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                      const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!ep || whi_req_no_buffer(buf, size, opts))
        return WH_EINVAL;
    if (__builtin_expect(whi_plain_send(ep, buf, size, tag, opts), 1))
        return whi_req_done_now(size, tag, opts, out);
    whi_buffer buffer;
    wh_status st = whi_req_buffer(&buffer, buf, size, opts);
    if (st != WH_OK)
        return st;
    if (opts && opts->type && !whi_behind_asked(&buffer, opts) &&
        send_small(ep, &buffer, tag, opts)) {
        whi_buffer_release(&buffer);
        return whi_req_done_now(buffer.size, tag, opts, out);
    }
    wh_request *req = NULL;
    st = make_request(ep->worker, ep, &whi_tag_send_ops, &buffer, opts, out != NULL, &req);
    if (st != WH_OK)
        return st;
    req->tag = tag;
    req->result = (wh_result){.size = req->buf.size, .tag = tag};
    return whi_req_start(req, opts, out);
}

static wh_status recv_into(wh_worker *worker, wh_endpoint *ep, whi_buffer *buffer, uint64_t tag,
                           uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    wh_request *req = NULL;
    wh_status st = make_request(worker, ep, &whi_tag_recv_ops, buffer, opts, out != NULL, &req);
    if (st != WH_OK)
        return st;
    req->any = !ep;
    req->tag = tag;
    req->mask = mask;
    return whi_req_start(req, opts, out);
}

static wh_status recv(wh_worker *worker, wh_endpoint *ep, void *buf, size_t size, uint64_t tag,
                      uint64_t mask, const wh_op_opts *opts, wh_request **out) {
    if (whi_req_no_buffer(buf, size, opts))
        return WH_EINVAL;
    whi_buffer buffer;
    wh_status st = whi_req_buffer(&buffer, buf, size, opts);
    return st == WH_OK ? recv_into(worker, ep, &buffer, tag, mask, opts, out) : st;
}

wh_status wh_tag_recv(wh_endpoint *ep, void *buf, size_t size, uint64_t tag, uint64_t mask,
                      const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!ep || whi_req_no_buffer(buf, size, opts))
        return WH_EINVAL;
    whi_buffer buffer;
    bool plain = whi_plain_memory(opts);
    wh_status st = plain ? WH_OK : whi_req_buffer(&buffer, buf, size, opts);
    if (__builtin_expect(st != WH_OK, 0))
        return st;
    wh_request *req = NULL;
    if (plain || !whi_behind_asked(&buffer, opts))
        req = whi_plain_post(ep, &whi_tag_recv_ops, WHI_MATCH_TAG, true, tag, mask, opts, out);
    if (__builtin_expect(!req, 0))
        return plain ? recv(ep->worker, ep, buf, size, tag, mask, opts, out)
                     : recv_into(ep->worker, ep, &buffer, tag, mask, opts, out);
    if (plain)
        whi_buffer_set_host(&req->buf, buf, size);
    else
        req->buf = buffer;
    req->length = req->buf.size;
    if (out)
        *out = req;
    return WH_PENDING;
}

wh_status wh_worker_tag_recv(wh_worker *worker, void *buf, size_t size, uint64_t tag, uint64_t mask,
                             const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    return worker ? recv(worker, NULL, buf, size, tag, mask, opts, out) : WH_EINVAL;
}

wh_status wh_tag_send_wait(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                           int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    st = wh_tag_send(ep, buf, size, tag, NULL, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, NULL) : st;
}

static wh_status recv_wait(wh_worker *worker, wh_endpoint *ep, void *buf, size_t size, uint64_t tag,
                           uint64_t mask, int timeout_ms, wh_result *result) {
    wh_status st = whi_req_may_wait(worker);
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    wh_op_opts opts = {.size = sizeof(opts), .result = result};
    st = recv(worker, ep, buf, size, tag, mask, &opts, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, result) : st;
}

wh_status wh_tag_recv_wait(wh_endpoint *ep, void *buf, size_t size, uint64_t tag, uint64_t mask,
                           int timeout_ms, wh_result *result) {
    return ep ? recv_wait(ep->worker, ep, buf, size, tag, mask, timeout_ms, result) : WH_EINVAL;
}

wh_status wh_worker_tag_recv_wait(wh_worker *worker, void *buf, size_t size, uint64_t tag,
                                  uint64_t mask, int timeout_ms, wh_result *result) {
    return worker ? recv_wait(worker, NULL, buf, size, tag, mask, timeout_ms, result) : WH_EINVAL;
}

// find looks for a message that has come.
static wh_status find(wh_worker *worker, wh_endpoint *ep, uint64_t tag, uint64_t mask,
                      wh_result *result, whi_message **found) {
    whi_message *msg = whi_recv_kept(worker, ep, WHI_MATCH_TAG, tag, mask);
    if (!msg)
        return WH_ENOTFOUND;
    if (result)
        *result =
            (wh_result){.status = WH_OK, .size = msg->length, .tag = msg->tag, .source = msg->ep};
    *found = msg;
    return WH_OK;
}

wh_status wh_tag_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result) {
    whi_message *msg;
    return ep ? WHI_OWNED(ep->worker, find(ep->worker, ep, tag, mask, result, &msg)) : WH_EINVAL;
}

wh_status wh_worker_tag_probe(wh_worker *worker, uint64_t tag, uint64_t mask, wh_result *result) {
    whi_message *msg;
    return WHI_OWNED(worker, find(worker, NULL, tag, mask, result, &msg));
}

static wh_status take(wh_worker *worker, wh_endpoint *ep, uint64_t tag, uint64_t mask,
                      wh_result *result, wh_message **out) {
    if (!out)
        return WH_EINVAL;
    whi_message *msg;
    wh_status st = find(worker, ep, tag, mask, result, &msg);
    if (st != WH_OK)
        return st;
    whi_match_drop(&whi_messages_of(worker)->match[WHI_MATCH_TAG], msg);
    msg->taken = true;
    whi_ep_retain(msg->ep);
    whi_list_push_back(&msg->ep->taken, &msg->ep_link);
    *out = msg;
    return WH_OK;
}

wh_status wh_tag_take(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result,
                      wh_message **msg) {
    return ep ? WHI_OWNED(ep->worker, take(ep->worker, ep, tag, mask, result, msg)) : WH_EINVAL;
}

wh_status wh_worker_tag_take(wh_worker *worker, uint64_t tag, uint64_t mask, wh_result *result,
                             wh_message **msg) {
    return WHI_OWNED(worker, take(worker, NULL, tag, mask, result, msg));
}

static wh_status message_recv(wh_message *msg, void *buf, size_t size, const wh_op_opts *opts,
                              wh_request **out) {
    whi_buffer buffer;
    wh_request *req = NULL;
    wh_status st = whi_req_buffer(&buffer, buf, size, opts);
    if (st == WH_OK)
        st = make_request(msg->ep->worker, msg->ep, &whi_tag_recv_ops, &buffer, opts, out != NULL,
                          &req);
    if (st != WH_OK)
        return st;
    req->tag = msg->tag;
    req->mask = WH_TAG_MASK_ALL;
    req->no_place = 1;
    return whi_recv_taken(req, msg, opts, out);
}

wh_status wh_message_recv(wh_message *msg, void *buf, size_t size, const wh_op_opts *opts,
                          wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!msg || whi_req_no_buffer(buf, size, opts))
        return WH_EINVAL;
    wh_worker *worker = msg->ep->worker;  // the message may be gone when the worker is left
    return WHI_OWNED(worker, message_recv(msg, buf, size, opts, out));
}

static wh_status message_drop(wh_message *msg) {
    whi_recv_drop_taken(msg);
    return WH_OK;
}

void wh_message_drop(wh_message *msg) {
    if (!msg)
        return;
    // After the worker's end there is nobody to tell; the message goes with its endpoint's last hold.
    wh_worker *worker = msg->ep->worker;
    if (WHI_OWNED(worker, message_drop(msg)) == WH_ECLOSED) {
        pthread_mutex_lock(&worker->foreign_lock);
        whi_recv_drop_taken(msg);
        whi_worker_unlock_or_free(worker);
    }
}
