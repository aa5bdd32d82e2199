// SPDX-License-Identifier: BSD-3-Clause
//
// Wires and their endpoints: opening, accepting, losing, closing.
#include "rt/wire/wire.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rt/wire/state.h"

wh_status whi_wire_peer(whi_wire *wire, int pe, whi_peer **peer) {
    if (pe < 0 || pe >= wire->pes)
        return WH_EINVAL;
    if (!wire->peers)
        return WH_ECLOSED;  // whi_wire_end
    if (!wire->peers[pe]) {
        whi_peer *made = whi_calloc(1, sizeof(*made));
        if (!made)
            return WH_ENOMEM;
        made->wire = wire;
        made->pe = pe;
        whi_list_init(&made->receives);
        wire->peers[pe] = made;
    }
    *peer = wire->peers[pe];
    return WH_OK;
}

void whi_peer_lost(whi_peer *peer, wh_status why, const char *sentence) {
    whi_wire *wire = peer->wire;
    if (peer->lost != WH_OK || wire->closed)
        return;
    peer->lost = why;
    whi_peer_fail_receives(peer, why);
    wire->up->lost(wire->owner, peer->pe, why, sentence ? sentence : wh_status_text(why));
}

static void abort_endpoints(whi_peer *peer, whi_lane_use use) {
    wh_endpoint *out = peer->out[use], *in = peer->in[use];
    peer->out[use] = peer->in[use] = NULL;
    if (out)
        wh_endpoint_abort(out);
    if (in)
        wh_endpoint_abort(in);
}

void whi_peer_reject(whi_peer *peer, const char *sentence) {
    whi_peer_cut(peer, WH_EPROTOCOL, sentence);
}

void whi_peer_cut(whi_peer *peer, wh_status why, const char *sentence) {
    if (peer->lost != WH_OK || peer->wire->closed)
        return;
    whi_log(WHI_ERROR, "E-RT-01", "PE %d is cut off by PE %d: %s", peer->pe, peer->wire->pe,
            sentence);
    whi_peer_lost(peer, why, sentence);
    for (int use = 0; use < WHI_USES; use++)
        abort_endpoints(peer, (whi_lane_use)use);
}

void whi_wire_reject(whi_wire *wire, int pe, const char *sentence) {
    whi_peer *peer;
    if (whi_wire_peer(wire, pe, &peer) == WH_OK)
        whi_peer_reject(peer, sentence);
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    whi_peer_lost(arg, why, wh_endpoint_error(ep));
}

// ask_contact finds out once how a PE is reached.
static wh_status ask_contact(whi_peer *peer) {
    if (peer->contact)
        return WH_OK;
    whi_contact *contact = whi_calloc(1, sizeof(*contact));
    if (!contact)
        return WH_ENOMEM;
    wh_status st = peer->wire->up->contact(peer->wire->owner, peer->pe, contact);
    if (st == WH_OK)
        peer->contact = contact;
    else
        whi_free(contact);
    return st;
}

static void forget_contact(whi_peer *peer) {
    whi_free(peer->contact);
    peer->contact = NULL;
}

static bool all_open(const whi_peer *peer) {
    for (int use = 0; use < WHI_USES; use++)
        if (!peer->out[use])
            return false;
    return true;
}

static wh_status open_endpoint(whi_peer *peer, whi_lane_use use) {
    whi_wire *wire = peer->wire;
    wh_status st = ask_contact(peer);
    if (st != WH_OK)
        return st;
    const whi_contact *contact = peer->contact;
    uint8_t data[WHI_GREETING_SIZE];
    whi_greeting greeting = {.use = use, .pe = (uint32_t)wire->pe};
    memcpy(greeting.ticket, contact->ticket, sizeof(greeting.ticket));
    whi_greeting_write(&greeting, data);
    wh_endpoint *ep = NULL;
    // Without a limit: a PE whose entry computes for long answers when it returns, and one that has died is noticed.
    st = wh_endpoint_connect_blob(wire->worker, contact->blob, contact->blob_size,
                                  &(wh_endpoint_opts){.size = sizeof(wh_endpoint_opts),
                                                      .timeout_ms = -1,
                                                      .data = data,
                                                      .data_size = sizeof(data)},
                                  &ep);
    if (st == WH_OK)
        st = wh_endpoint_on_lost(ep, on_lost, peer);
    if (st != WH_OK && ep)
        wh_endpoint_abort(ep);
    else if (st == WH_OK)
        peer->out[use] = ep;
    if (all_open(peer))
        forget_contact(peer);
    return st;
}

wh_status whi_wire_open(whi_wire *wire, int dest, whi_lane_use use, wh_endpoint **ep) {
    whi_peer *peer;
    wh_status st = whi_wire_peer(wire, dest, &peer);
    if (st == WH_OK)
        st = peer->lost;
    if (st == WH_OK && wire->closed)
        st = WH_ECLOSED;
    if (st == WH_OK && !peer->out[use])
        st = open_endpoint(peer, use);
    if (st == WH_OK)
        *ep = peer->out[use];
    return st;
}

wh_status whi_wire_endpoint(whi_wire *wire, int dest, whi_lane_use use, wh_endpoint **ep) {
    return whi_wire_to(wire, dest, use, ep);
}

// ---- Accepting.

static wh_status refuse(const wh_endpoint *ep, const char *why) {
    char peer[128] = "";
    if (wh_endpoint_peer(ep, peer, sizeof(peer)) != WH_OK)
        *peer = '\0';
    whi_log_once_per(WHI_WARN, "W-RT-01", 10, "a connection from %s is refused: %s", peer, why);
    return WH_EREFUSED;
}

// read_greeting finds out who has connected.
static wh_status read_greeting(whi_wire *wire, wh_endpoint *ep, whi_greeting *greeting) {
    size_t size = 0;
    const void *data = wh_endpoint_peer_data(ep, &size);
    wh_status st = whi_greeting_read(greeting, data, size);
    if (st == WH_EVERSION)
        return refuse(ep, "it is of a job with another version of Wherry");
    if (st != WH_OK)
        return refuse(ep, "it is no processing element of a job");
    if (memcmp(greeting->ticket, wire->ticket, WHI_TICKET_SIZE) != 0)
        return refuse(ep, "it is of another job");
    if (greeting->pe >= (uint32_t)wire->pes)
        return refuse(ep, "it says to be a processing element that this job does not have");
    return WH_OK;
}

static wh_status answer(wh_endpoint *ep, void *data, size_t *size, void *arg) {
    (void)data;
    whi_wire *wire = arg;
    whi_greeting greeting;
    wh_status st = read_greeting(wire, ep, &greeting);
    whi_peer *peer;
    if (st == WH_OK)
        st = whi_wire_peer(wire, (int)greeting.pe, &peer);
    if (st == WH_OK && (peer->lost != WH_OK || wire->closed))
        st = WH_EREFUSED;
    else if (st == WH_OK && peer->in[greeting.use])
        st = refuse(ep, "its processing element has connected before");
    *size = 0;
    return st;
}

static void on_accepted_lost(wh_endpoint *ep, wh_status why, void *arg) {
    whi_peer *peer = arg;
    for (int use = 0; use < WHI_USES; use++)
        if (peer->in[use] == ep)
            peer->in[use] = NULL;
    whi_peer_lost(peer, why, wh_endpoint_error(ep));
    wh_endpoint_abort(ep);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    whi_wire *wire = arg;
    whi_greeting greeting;
    whi_peer *peer = NULL;
    if (read_greeting(wire, ep, &greeting) != WH_OK ||
        whi_wire_peer(wire, (int)greeting.pe, &peer) != WH_OK || peer->in[greeting.use] ||
        wh_endpoint_on_lost(ep, on_accepted_lost, peer) != WH_OK) {
        wh_endpoint_abort(ep);
        return;
    }
    wh_endpoint_set_data(ep, peer);
    peer->in[greeting.use] = ep;
    if (greeting.use == WHI_USE_DATA)
        whi_peer_receive(peer);
}

// ---- Control.

static wh_status on_control(wh_am *am, void *arg) {
    whi_wire *wire = arg;
    whi_peer *peer = wh_endpoint_data(am->ep);
    if (peer && peer->in[WHI_USE_CONTROL] == am->ep && peer->lost == WH_OK)
        wire->up->control(wire->owner, peer->pe, am->header, am->header_size);
    return WH_OK;
}

// ---- Life.

static wh_status init_wire(whi_wire *wire, const whi_wire_opts *opts) {
    wire->pe = opts->pe;
    wire->pes = opts->pes;
    memcpy(wire->ticket, opts->ticket, WHI_TICKET_SIZE);
    wire->up = opts->up;
    wire->owner = opts->owner;
    wire->inbox_max = opts->inbox_max;
    whi_queue_init(&wire->asking);
    whi_blocks_init(&wire->blocks);
    wire->peers = whi_calloc((size_t)opts->pes, sizeof(void *));
    if (!wire->peers)
        return WH_ENOMEM;
    wh_status st = wh_worker_create(opts->ctx,
                                    &(wh_worker_opts){.size = sizeof(wh_worker_opts),
                                                      .accept = on_accept,
                                                      .accept_arg = wire,
                                                      .answer = answer},
                                    &wire->worker);
    if (st == WH_OK)
        st = wh_worker_set_am(wire->worker, WHI_AM_DATA, whi_wire_arrive, wire);
    if (st == WH_OK)
        st = wh_worker_set_am(wire->worker, WHI_AM_CONTROL, on_control, wire);
    return st;
}

wh_status whi_wire_create(const whi_wire_opts *opts, whi_wire **out) {
    whi_wire *wire = whi_calloc(1, sizeof(*wire));
    if (!wire)
        return WH_ENOMEM;
    wh_status st = init_wire(wire, opts);
    if (st == WH_OK)
        *out = wire;
    else
        whi_wire_destroy(wire);
    return st;
}

wh_worker *whi_wire_worker(const whi_wire *wire) {
    return wire->worker;
}

void whi_wire_join(whi_wire *wire, whi_wire *const *wires, int first, int count) {
    wire->siblings = wires;
    wire->sibling_first = first;
    wire->sibling_count = count;
}

int whi_wire_local(const whi_wire *wire) {
    return wire->sibling_count ? wire->sibling_count : 1;
}

static void on_closed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    ((whi_wire *)arg)->closing--;
}

static void close_endpoint(whi_wire *wire, wh_endpoint *ep, int timeout_ms) {
    wire->closing++;
    wh_status st = wh_endpoint_close(
        ep,
        &(wh_op_opts){
            .size = sizeof(wh_op_opts), .timeout_ms = timeout_ms, .done = on_closed, .arg = wire},
        NULL);
    if (st != WH_PENDING)
        wire->closing--;
}

void whi_wire_close(whi_wire *wire, int timeout_ms) {
    wire->closed = true;
    for (int i = 0; i < wire->pes; i++) {
        whi_peer *peer = wire->peers[i];
        if (!peer)
            continue;
        abort_endpoints(peer, WHI_USE_DATA);
        wh_endpoint *ep = peer->out[WHI_USE_CONTROL];
        peer->out[WHI_USE_CONTROL] = NULL;
        if (ep)
            close_endpoint(wire, ep, timeout_ms);
    }
}

bool whi_wire_closed(const whi_wire *wire) {
    return wire->closed && !wire->closing;
}

static void end_peer(whi_peer *peer) {
    for (int use = 0; use < WHI_USES; use++)
        abort_endpoints(peer, (whi_lane_use)use);
    forget_contact(peer);
    whi_peer_fail_receives(peer, WH_ECLOSED);
}

void whi_wire_end(whi_wire *wire) {
    wire->closed = true;
    for (int i = 0; wire->peers && i < wire->pes; i++)
        if (wire->peers[i])
            end_peer(wire->peers[i]);
    if (wire->worker)
        wh_worker_destroy(wire->worker);  // runs what was posted, and ends what is under way
    wire->worker = NULL;
    // Not before: an endpoint that was still connecting has told its peer of its end.
    for (int i = 0; wire->peers && i < wire->pes; i++)
        whi_free(wire->peers[i]);
    whi_free(wire->peers);
    wire->peers = NULL;
}

void whi_wire_destroy(whi_wire *wire) {
    whi_wire_end(wire);
    whi_queue_node *node;
    while ((node = whi_queue_pop(&wire->asking)))
        whi_msg_free(whi_container_of(node, whi_msg, ask));
    while ((node = wire->free)) {
        wire->free = node->next;
        whi_free(whi_container_of(node, whi_msg, link));
    }
    whi_blocks_fini(&wire->blocks);
    whi_free(wire);
}
