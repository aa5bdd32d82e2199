// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access, the side that serves, see rma.h.
//
// Nothing of a record is believed: the key must be known here, and the place within what it stands for.
// What is wrong is the initiator's error, told by an answer, and harms nobody; only a record that no Wherry
// sends fails the link.  Large transfers are requests without a user, so that the end of an endpoint or link ends
// them as it ends any other.
#include <string.h>

#include "mem/mem.h"
#include "message/recv.h"
#include "message/send.h"
#include "net/copy.h"
#include "rma/native.h"
#include "rma/rma.h"

static void answer(wh_endpoint *ep, uint32_t id, unsigned what, uint64_t value) {
    whi_hdr hdr = {.cls = WHI_CLASS_RMA_ANSWER,
                   .aux = (uint16_t)what,
                   .ep = ep->number,
                   .tag = id,
                   .arg = value};
    whi_link_control(ep->link, &hdr, NULL);
}

// refuse tells of an access that failed; of those that are done for the initiator already, of the first when it flushes.
static void refuse(wh_endpoint *ep, uint32_t id, bool get, wh_status why) {
    if (id)
        answer(ep, id, get ? WHI_ANSWER_GET_FAILED : WHI_ANSWER_FAILED, (uint64_t)(int64_t)why);
    else if (whi_memory_at(ep)->serve_error == WH_OK)
        whi_memory_at(ep)->serve_error = why;
}

static void put_here(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    wh_mr *mr = NULL;
    wh_status st = whi_mr_begin(ep->worker->ctx, hdr->tag, WH_MR_WRITE, hdr->arg, hdr->size, &mr);
    if (st != WH_OK) {
        refuse(ep, 0, false, st);
        return;
    }
    char *to = (char *)mr->buf.ptr + hdr->arg;
    if (mr->buf.kind == WH_MEM_HOST)
        whi_copy(to, payload, hdr->size);
    else
        st = whi_mem_copy(whi_mem_ops_of((wh_mem_kind)mr->buf.kind), to, &whi_mem_host, payload,
                          hdr->size);
    if (st != WH_OK)
        refuse(ep, 0, false, st);
    whi_mr_end(mr);
}

// transfer begins a transfer by chunks for an access of `size` bytes, as a request without a user.
static wh_status transfer(wh_endpoint *ep, const whi_hdr *hdr, const whi_req_ops *ops,
                          uint64_t size, wh_request **out) {
    unsigned access = ops == &whi_serve_put_ops ? WH_MR_WRITE : WH_MR_READ;
    wh_mr *mr = NULL;
    wh_status st = whi_mr_begin(ep->worker->ctx, hdr->tag, access, hdr->arg, size, &mr);
    if (st != WH_OK)
        return st;
    wh_request *req = whi_req_new(ep->worker, ep, ops, NULL, false);
    if (!req) {
        whi_mr_end(mr);
        return WH_ENOMEM;
    }
    req->buf = mr->buf;
    req->buf.ptr = (char *)mr->buf.ptr + hdr->arg;
    req->buf.size = size;
    req->length = req->accept = size;
    req->result = (wh_result){.size = size};
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_mr_join(mr, req);
    *out = req;
    return WH_OK;
}

static wh_status take_in(wh_endpoint *ep, const whi_hdr *hdr, const whi_access *access) {
    wh_request *req;
    wh_status st = transfer(ep, hdr, &whi_serve_put_ops, access->value, &req);
    if (st != WH_OK)
        return st;
    req->send_id = access->id;
    whi_recv_grant(req, WHI_PART_DATA, access->value);
    return WH_OK;
}

static wh_status give_out(wh_endpoint *ep, const whi_hdr *hdr, const whi_access *access) {
    wh_request *req;
    wh_status st = transfer(ep, hdr, &whi_serve_get_ops, access->value, &req);
    if (st != WH_OK)
        return st;
    req->grant_id = access->id;
    req->stage = WHI_STAGE_MOVING;
    req->serial = ep->bulk_serial++;
    whi_list_push_back(&whi_messages_on(ep->link)->bulks, &req->queue_link);
    whi_link_mark(ep->link);
    return WH_OK;
}

static wh_status do_atomic(wh_endpoint *ep, const whi_hdr *hdr, const whi_access *access) {
    unsigned op = hdr->aux & 0xff, size = hdr->aux >> 8;
    wh_mr *mr = NULL;
    wh_status st = whi_mr_begin(ep->worker->ctx, hdr->tag, WH_MR_ATOMIC, hdr->arg, size, &mr);
    if (st != WH_OK)
        return st;
    void *word = (char *)mr->buf.ptr + hdr->arg;
    if (mr->buf.kind != WH_MEM_HOST)
        st = WH_ENOTSUP;
    else if ((uintptr_t)word & (size - 1))
        st = WH_EINVAL;
    if (st == WH_OK) {
        uint64_t old = whi_mr_atomic(word, (wh_atomic_op)op, size, access->value, access->compare);
        if (access->id)
            answer(ep, access->id, WHI_ANSWER_VALUE, old);
    }
    whi_mr_end(mr);
    return st;
}

static bool is_sane(const whi_hdr *hdr, const whi_access *access) {
    if (hdr->cls != WHI_CLASS_ATOMIC)
        return access->id && access->value;
    unsigned op = hdr->aux & 0xff, size = hdr->aux >> 8;
    return op <= WH_ATOMIC_CSWAP && (size == 4 || size == 8);
}

wh_status whi_serve(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    if (hdr->cls == WHI_CLASS_PUT && !(hdr->flags & WHI_FLAG_ANNOUNCED)) {
        put_here(ep, hdr, payload);
        return WH_OK;
    }
    whi_access access;
    if (hdr->size != sizeof(access))
        return WH_EPROTOCOL;
    memcpy(&access, payload, sizeof(access));
    if (!is_sane(hdr, &access))
        return WH_EPROTOCOL;
    wh_status st;
    if (hdr->cls == WHI_CLASS_ATOMIC) {
        st = do_atomic(ep, hdr, &access);
    } else {
        // Counted until it has ended, like an announcement.
        if (++ep->rx_announced > ep->worker->ctx->config.announce_max)
            return WH_EPROTOCOL;
        bool put = hdr->cls == WHI_CLASS_PUT;
        st = put ? take_in(ep, hdr, &access) : give_out(ep, hdr, &access);
        if (st != WH_OK)
            ep->rx_announced--;
    }
    if (st != WH_OK)
        refuse(ep, access.id, hdr->cls == WHI_CLASS_GET, st);
    return WH_OK;
}

static void completed(wh_request *req, whi_req_stage stage) {
    (void)stage;
    wh_endpoint *ep = req->ep;
    wh_status st = req->result.status;
    bool put = req->ops == &whi_serve_put_ops;
    ep->rx_announced--;
    whi_mr_leave(req);
    if (ep->state != WHI_EP_OPEN)
        return;
    if (put && st == WH_OK)
        answer(ep, req->send_id, WHI_ANSWER_DONE, 0);
    else if (put && req->moved == req->accept)
        refuse(ep, req->send_id, false, st);
    else if (!put && st != WH_OK)
        refuse(ep, req->grant_id, true, st);
}

// withdraw_put takes a transfer away from its memory, which nothing is at.  The initiator cannot be stopped: what still comes
// is thrown away, and it is told when it has sent all.
static bool withdraw_put(wh_request *req, wh_status why) {
    (void)why;
    if (!whi_rma_may_withdraw(req))
        return false;
    req->disowned = 1;
    req->why = WH_EKEY;
    whi_mr_leave(req);
    return true;
}

static bool withdraw_get(wh_request *req, wh_status why) {
    (void)why;
    if (!whi_rma_may_withdraw(req))
        return false;
    whi_req_complete(req, WH_EKEY);
    return true;
}

// Memory of the user's that a peer puts into is not lent: UCX may keep what it was lent for good when the peer dies, and this
// memory's owner has to get it back.
static bool put_lendable(const wh_request *req) {
    const wh_mr *mr = whi_access_of(req)->mr;
    return mr && mr->region;
}

static wh_status never_posted(wh_request *req) {
    (void)req;
    return WH_EINVAL;  // `transfer` accepts it at once
}

const whi_req_ops whi_serve_put_ops = {.text = "peer's put",
                                       .post = never_posted,
                                       .withdraw = whi_req_complete,
                                       .withdraw_moving = withdraw_put,
                                       .completed = completed,
                                       .sink = whi_recv_sink,
                                       .landed = whi_recv_landed,
                                       .lendable = put_lendable,
                                       .match = WHI_MATCH_NONE,
                                       .names_grant = true};

const whi_req_ops whi_serve_get_ops = {.text = "peer's get",
                                       .post = never_posted,
                                       .withdraw = whi_req_complete,
                                       .withdraw_moving = withdraw_get,
                                       .completed = completed,
                                       .moved = whi_send_moved,
                                       .match = WHI_MATCH_NONE,
                                       .holds_close = true};

// pass_memory answers with what makes the memory reachable over the lane that is used.
static wh_status pass_memory(whi_link *link, wh_mr *mr, whi_hdr *reply) {
    uint8_t payload[WHI_CONTROL_MAX];
    const whi_lane_ops *ops = link->tx->ops;
    bool shm = ops->pass != NULL;
    if (!(shm && mr->region) && !ops->access)
        return WH_ENOTSUP;
    if (whi_link_other_user(link))
        return WH_EPERM;
    if (shm)
        return ops->pass(link->tx, reply, mr->fd);
    wh_status st = whi_share_answer(link, mr, payload, &reply->size);
    if (st == WH_OK)
        whi_link_control(link, reply, payload);
    return st;
}

wh_status whi_serve_map(whi_link *link, wh_endpoint *ep, const whi_hdr *hdr) {
    wh_mr *mr = NULL;
    wh_status st = ep ? whi_mr_begin(ep->worker->ctx, hdr->tag, 0, 0, 0, &mr) : WH_ECLOSED;
    whi_hdr reply = {.cls = WHI_CLASS_MAPPED, .ep = hdr->ep, .tag = hdr->tag};
    if (st == WH_OK) {
        st = pass_memory(link, mr, &reply);
        whi_mr_end(mr);
    }
    if (st == WH_OK)
        return WH_OK;
    reply.aux = 1;
    reply.arg = (uint64_t)(int64_t)st;
    whi_link_control(link, &reply, NULL);
    return WH_OK;
}
