// SPDX-License-Identifier: BSD-3-Clause
//
// Messages and control to other PEs: by pointer within the process, else as active messages.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rt/wire/state.h"

static whi_wire *sibling(const whi_wire *wire, int pe) {
    int at = pe - wire->sibling_first;
    if (pe == wire->pe)
        return (whi_wire *)(uintptr_t)wire;
    return at >= 0 && at < wire->sibling_count ? wire->siblings[at] : NULL;
}

// ---- Within the process.

static void on_post(wh_post *post) {
    whi_msg *msg = whi_container_of(post, whi_msg, post);
    whi_wire *wire = msg->wire;
    if (wire->closed) {
        whi_msg_free(msg);
    } else if (msg->control) {
        wire->up->control(wire->owner, msg->pub.source, msg->pub.head, msg->pub.head_size);
        whi_msg_free(msg);
    } else {
        wire->up->message(wire->owner, msg);
    }
}

// to_own makes what lies in the engine's memory, or in the program's, the message's own, so that it can go to another thread.
static whi_msg *to_own(whi_msg *msg) {
    if (!msg->am && !msg->charged && !msg->lent)
        return msg;
    // The floor that has made one that is lent may write another head into it.
    whi_msg *own = whi_msg_own(msg, msg->lent ? WH_PE_HEAD_MAX : 0);
    if (!own)
        whi_msg_free(msg);
    return own;
}

static wh_status hand_over(whi_wire *to, whi_wire *from, whi_msg *msg) {
    if (!(msg = to_own(msg)))
        return WH_ENOMEM;
    msg->pub.source = from->pe;
    msg->wire = to;
    msg->post.fn = on_post;
    wh_worker_post(to->worker, &msg->post);
    return WH_OK;
}

// ---- To other processes.

// ended looks at how a send has ended.  One that has failed leaves a gap: nothing may come behind it.
static void ended(whi_peer *peer, whi_lane_use use, wh_status st) {
    const wh_endpoint *ep = peer->out[use];
    if (st == WH_OK || !ep || wh_endpoint_lost(ep))
        return;  // of an endpoint that is lost it tells itself
    char sentence[128];
    snprintf(sentence, sizeof(sentence), "a message to it was lost here: %s", wh_status_text(st));
    whi_peer_cut(peer, st, sentence);
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whi_msg *msg = arg;
    ended(msg->peer, WHI_USE_DATA, result->status);
    whi_msg_free(msg);
}

static void on_control_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    ended(arg, WHI_USE_CONTROL, result->status);
}

// pass_am has the engine send a message.  The data of one that is lent is the program's again when this returns.
static wh_status pass_am(wh_endpoint *ep, whi_msg *msg, const void *header, size_t header_size) {
    wh_op_opts opts = {.size = sizeof(wh_op_opts),
                       .timeout_ms = -1,
                       .mem = WH_MEM_HOST,
                       .done = on_sent,
                       .arg = msg};
    return __builtin_expect(msg->lent, 0)
               ? wh_am_send_copy(ep, WHI_AM_DATA, header, header_size, msg->pub.data, msg->pub.size,
                                 &opts, NULL)
               : wh_am_send(ep, WHI_AM_DATA, header, header_size, msg->pub.data, msg->pub.size,
                            &opts, NULL);
}

static wh_status send_am(whi_wire *wire, int dest, whi_msg *msg) {
    wh_endpoint *ep;
    wh_status st = whi_wire_to(wire, dest, WHI_USE_DATA, &ep);
    if (st != WH_OK || !whi_msg_open(msg)) {
        whi_msg_free(msg);
        return st != WH_OK ? st : WH_ENOMEM;
    }
    _Alignas(8) uint8_t header[WHI_ENVELOPE_MAX];
    whi_envelope envelope = {.handler = msg->pub.handler,
                             .head_size = (uint16_t)msg->pub.head_size,
                             .priority = msg->pub.priority};
    whi_msg_uncharge(msg);  // else two PEs that pass on what they get could both be full
    msg->peer = wire->peers[dest];
    // What lies in one piece with its data goes so, without a copy.
    bool whole = msg->pub.head == msg->own &&
                 (char *)msg->pub.data == (char *)msg->own + whi_envelope_space(&envelope);
    void *at = whole ? msg->own : header;
    size_t header_size = whi_envelope_write(&envelope, msg->pub.head, at);
    st = pass_am(ep, msg, at, header_size);
    if (st == WH_PENDING)
        return WH_OK;
    whi_msg_free(msg);
    return st;
}

wh_status whi_wire_send(whi_wire *wire, int dest, whi_msg *msg) {
    if (dest < 0 || dest >= wire->pes || wire->closed) {
        whi_msg_free(msg);
        return wire->closed ? WH_ECLOSED : WH_EINVAL;
    }
    whi_wire *to = sibling(wire, dest);
    if (dest == wire->pe) {
        if (msg->lent && !(msg = to_own(msg)))
            return WH_ENOMEM;
        msg->pub.source = wire->pe;
        wire->up->message(wire->owner, msg);
        return WH_OK;
    }
    return to ? hand_over(to, wire, msg) : send_am(wire, dest, msg);
}

wh_status whi_wire_control(whi_wire *wire, int dest, const void *data, size_t size) {
    if (dest < 0 || dest >= wire->pes || size > WHI_CONTROL_MAX)
        return WH_EINVAL;
    if (wire->closed)
        return WH_ECLOSED;
    whi_wire *to = sibling(wire, dest);
    if (to) {
        whi_msg *msg = whi_msg_new(wire, size, 0);
        if (!msg)
            return WH_ENOMEM;
        memcpy(msg->own, data, size);
        msg->control = true;
        return hand_over(to, wire, msg);
    }
    wh_endpoint *ep;
    wh_status st = whi_wire_endpoint(wire, dest, WHI_USE_CONTROL, &ep);
    if (st == WH_OK)
        st = wh_am_send(ep, WHI_AM_CONTROL, data, size, NULL, 0,
                        &(wh_op_opts){.size = sizeof(wh_op_opts),
                                      .timeout_ms = -1,
                                      .done = on_control_sent,
                                      .arg = wire->peers[dest]},
                        NULL);
    return st == WH_PENDING ? WH_OK : st;
}
