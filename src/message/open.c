// SPDX-License-Identifier: BSD-3-Clause
//
// How an endpoint is opened on a link: OPEN from one side, ACCEPT or REFUSE from the other, and credit from both.
//
// OPEN and ACCEPT may bring connect data, which the other side has before anything else of the
// endpoint.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/printable.h"
#include "link/dial.h"
#include "link/listener.h"
#include "message/deliver.h"
#include "message/endpoint.h"

void whi_ep_bind(wh_endpoint *ep, whi_link *link) {
    if (ep->own_data && !(link->peer.features & WHI_FEATURE_DATA)) {
        whi_ep_end(ep, WH_ENOTSUP,
                   "connect data was given, and the peer's library is too old to take it");
        whi_link_maybe_close(link);  // it may have been made for this endpoint
        return;
    }
    ep->link = link;
    ep->number = whi_messages_on(link)->next_number;
    if (ep->number > UINT32_MAX - 2) {
        ep->link = NULL;
        whi_ep_end(ep, WH_ELIMIT, "the link to the peer has used up its endpoint numbers");
        return;
    }
    if (whi_ep_join(link, ep) != WH_OK) {
        ep->link = NULL;
        whi_ep_end(ep, WH_ENOMEM, "no memory for the endpoint");
        whi_link_maybe_close(link);
        return;
    }
    whi_messages_on(link)->next_number += 2;
    ep->lane = link->tx;
    const whi_config *config = &ep->worker->ctx->config;
    ep->rx_window = (int64_t)config->credit;
    whi_hdr hdr = {.size = ep->own_data ? (uint32_t)ep->own_data->size : 0,
                   .cls = WHI_CLASS_OPEN,
                   .ep = ep->number,
                   .seq = (uint32_t)config->announce_max,
                   .tag = ep->listener_id,
                   .arg = config->credit};
    whi_link_control(link, &hdr, ep->own_data ? ep->own_data->bytes : NULL);
}

void whi_ep_opened(wh_endpoint *ep, uint64_t credit, uint32_t announce_limit) {
    ep->state = WHI_EP_OPEN;
    ep->lane = ep->link->tx;
    ep->credit = credit > INT64_MAX ? INT64_MAX : (int64_t)credit;
    ep->announce_limit = announce_limit;
    ep->was_open = true;
    whi_free(ep->own_data);
    ep->own_data = NULL;
    if (ep->dial)
        whi_dial_end(ep->dial);
    ep->dial = NULL;
    if (ep->connect_req) {
        wh_request *req = ep->connect_req;
        ep->connect_req = NULL;
        whi_req_complete(req, WH_OK);
    }
    whi_ep_refresh(ep);
    if (!whi_list_empty(&ep->sendq))
        whi_ep_mark(ep);
    whi_ep_settle(ep);  // the user may have closed it already
}

static void refuse(whi_link *link, const whi_hdr *hdr, wh_status status, const char *text) {
    whi_hdr no = {.size = (uint32_t)strlen(text),
                  .cls = WHI_CLASS_REFUSE,
                  .ep = hdr->ep,
                  .arg = (uint64_t)(int64_t)status};
    whi_link_control(link, &no, text);
}

// why_not says why the peer of a link may not open an endpoint there; WH_OK: it may.
static wh_status why_not(const whi_link *link, const whi_taker *to, const char **text) {
    wh_status st = WH_OK;
    if (!to->accept) {
        *text = "nobody accepts endpoints at that address any more";
        st = WH_EREFUSED;
    } else if (link->closing) {
        *text = "the link is being closed";
        st = WH_EREFUSED;
    } else if (!whi_link_knows(link, to->secret)) {
        *text = "the listener asks for a secret that the connecting side has not proven";
        st = WH_EAUTH;
    } else if (whi_link_other_user(link) && !to->any_user) {
        *text = "the listener is not for processes of other users; see the setting local_uid";
        st = WH_EPERM;
    } else if (whi_hash_count(&whi_messages_on(link)->eps) >= WHI_LINK_ENDPOINTS) {
        *text = "the link has 65536 endpoints, and may not have more";
        static_assert(WHI_LINK_ENDPOINTS == 65536, "the text");
        st = WH_ELIMIT;
    }
    return st;
}

// drop takes back an endpoint that is not to be.
static void drop(wh_endpoint *ep, wh_status why) {
    ep->user_gone = true;
    whi_ep_end(ep, why, NULL);
    whi_ep_release(ep);
}

// make makes the endpoint that a peer opens; it is not open yet.
static wh_status make(whi_link *link, const whi_hdr *hdr, const void *payload, wh_endpoint **out) {
    wh_endpoint *ep = NULL;
    wh_status st = whi_ep_new(link->worker, &ep);
    if (st != WH_OK)
        return st;
    ep->number = hdr->ep;
    st = whi_ep_learn(ep, link, payload, hdr->size);
    if (st == WH_OK)
        st = whi_ep_join(link, ep);
    if (st != WH_OK) {
        drop(ep, st);
        return st;
    }
    ep->link = link;
    ep->lane = link->tx;
    ep->rx_window = (int64_t)link->worker->ctx->config.credit;
    *out = ep;
    return WH_OK;
}

// ask has the user say whether an endpoint is accepted, and with which connect data.
static wh_status ask(wh_endpoint *ep, uint64_t listener, const whi_taker *to, uint8_t *data,
                     size_t *size) {
    *size = to->data ? to->data->size : 0;
    if (*size)
        memcpy(data, to->data->bytes, *size);
    if (!to->answer)
        return WH_OK;
    wh_status st = to->answer(ep, data, size, to->arg);
    if (st == WH_OK && *size > WH_CONNECT_DATA_MAX) {
        whi_log(WHI_ERROR, "E-LST-06",
                "the answer to an endpoint has %zu bytes of connect data; the most is %d", *size,
                WH_CONNECT_DATA_MAX);
        return WH_EINVAL;
    }
    if (st == WH_OK && !whi_listener_find(ep->worker, listener).accept)
        return WH_EREFUSED;  // it closed its listener
    // The peer takes no other number for the end of an endpoint.
    return st == WH_OK || (st <= WH_EINVAL && st >= WHI_STATUS_LAST) ? st : WH_EREFUSED;
}

static void accept_as(wh_endpoint *ep, const whi_hdr *hdr, const uint8_t *data, size_t size) {
    const whi_config *config = &ep->worker->ctx->config;
    whi_hdr yes = {.size = ep->link->peer.features & WHI_FEATURE_DATA ? (uint32_t)size : 0,
                   .cls = WHI_CLASS_ACCEPT,
                   .ep = hdr->ep,
                   .seq = (uint32_t)config->announce_max,
                   .arg = config->credit};
    static_assert((int)WH_CONNECT_DATA_MAX <= (int)WHI_EAGER_MIN, "any link takes it");
    whi_link_control(ep->link, &yes, data);
    whi_ep_opened(ep, hdr->arg, hdr->seq);
}

static void turn_down(whi_link *link, const whi_hdr *hdr, wh_status st, const char *text) {
    // A limit per reason: a flood of one must not hide another.
    static whi_log_limiter limiters[3];
    int reason = st == WH_EAUTH ? 0 : st == WH_EPERM ? 1 : 2;
    if (st != WH_EREFUSED && whi_log_on(WHI_WARN))
        whi_log_write_limited(&limiters[reason], 1, WHI_WARN, "W-LST-04",
                              "an endpoint from %s was refused: %s", link->name, text);
    refuse(link, hdr, st, text);
}

static wh_status open_endpoint(whi_link *link, const whi_hdr *hdr, const void *payload) {
    whi_taker to = whi_listener_find(link->worker, hdr->tag);
    const char *text = NULL;
    wh_status st = why_not(link, &to, &text);
    if (st != WH_OK) {
        turn_down(link, hdr, st, text);
        return WH_OK;
    }
    wh_endpoint *ep = NULL;
    st = make(link, hdr, payload, &ep);
    if (st != WH_OK) {
        refuse(link, hdr, st, "the accepting side has no memory");
        return WH_OK;
    }
    uint8_t data[WH_CONNECT_DATA_MAX];
    size_t size;
    whi_ep_retain(ep);  // the user may give it up in either of the callbacks
    st = ask(ep, hdr->tag, &to, data, &size);
    if (st == WH_OK && ep->state == WHI_EP_CONNECTING) {
        accept_as(ep, hdr, data, size);
        to.accept(ep, to.arg);
    } else if (ep->state == WHI_EP_CONNECTING) {
        refuse(link, hdr, st, "the accepting side does not want the endpoint");
        drop(ep, st);
    }
    whi_ep_release(ep);
    return WH_OK;
}

// may_carry says whether an OPEN or ACCEPT may have that payload.
static bool may_carry(const whi_link *link, const whi_hdr *hdr) {
    return !hdr->size || (link->peer.features & WHI_FEATURE_DATA);
}

static wh_status on_open(whi_link *link, const whi_hdr *hdr, const void *payload) {
    bool theirs = (hdr->ep & 1) == (link->active ? 0u : 1u);
    if (!hdr->ep || !theirs || hdr->ep <= whi_messages_on(link)->peer_number)
        return whi_link_broken(link, hdr, "the number of a new endpoint is not the peer's to give");
    if (!may_carry(link, hdr))
        return whi_link_broken(link, hdr, "connect data of a peer that knows of none");
    whi_messages_on(link)->peer_number = hdr->ep;
    return open_endpoint(link, hdr, payload);
}

static wh_status on_answer(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_endpoint *ep = whi_ep_of_number(link, hdr->ep);
    bool ours = (hdr->ep & 1) == (link->active ? 1u : 0u);
    if (!ep || !ours)
        return whi_ep_known(link, hdr->ep) && ours
                   ? WH_OK
                   : whi_link_broken(link, hdr, "nobody asked for that");
    if (ep->state != WHI_EP_CONNECTING)
        return whi_link_broken(link, hdr, "the endpoint is open already");
    if (hdr->cls == WHI_CLASS_ACCEPT) {
        if (!may_carry(link, hdr))
            return whi_link_broken(link, hdr, "connect data of a peer that knows of none");
        wh_status st = whi_ep_learn(ep, link, payload, hdr->size);
        if (st != WH_OK) {
            whi_ep_send_abort(ep);
            whi_ep_end(ep, st, "no memory for the peer's connect data");
            return WH_OK;
        }
        whi_ep_opened(ep, hdr->arg, hdr->seq);
        return whi_deliver_early(link, hdr->ep);
    }
    char text[WHI_CONTROL_MAX + 1];
    whi_printable_copy(text, sizeof(text), payload, hdr->size);
    int64_t status = (int64_t)hdr->arg;
    bool known = status <= WH_EINVAL && status >= WHI_STATUS_LAST;
    whi_ep_end(ep, known ? (wh_status)status : WH_EREFUSED,
               *text ? text : "the peer refused the endpoint");
    return WH_OK;
}

static wh_status on_credit(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = whi_ep_find(link, hdr, &ep);
    if (!ep)
        return st;
    if (hdr->arg > INT64_MAX / 2 || ep->credit > INT64_MAX / 2)
        return whi_link_broken(link, hdr, "more credit than there is");
    ep->credit += (int64_t)hdr->arg;
    if (!whi_list_empty(&ep->sendq))  // credit is what the first of them may have waited for
        whi_ep_mark(ep);
    return WH_OK;
}

void whi_open_init(wh_worker *worker) {
    whi_control_on(worker, WHI_CLASS_OPEN, on_open, WH_CONNECT_DATA_MAX);
    whi_control_on(worker, WHI_CLASS_CREDIT, on_credit, 0);
    whi_control_on(worker, WHI_CLASS_ACCEPT, on_answer, WH_CONNECT_DATA_MAX);
    whi_control_on(worker, WHI_CLASS_REFUSE, on_answer, WHI_CONTROL_MAX);
}
