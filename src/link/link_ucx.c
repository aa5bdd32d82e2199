// SPDX-License-Identifier: BSD-3-Clause
//
// How a link comes to its ucx lane, and how it releases it.
//
// Both sides tell each other over the socket how to be reached; who has heard it all connects, and switches over with
// the last record of its direction of the socket.  Until then a link that wants ucx holds back its messages, so that
// a connection that must not go any other way never does.  A side that cannot says so, with its reason: then
// the socket serves, or, where it may not, the link fails on both sides with that sentence.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"
#include "link/lanes.h"
#include "link/ucx.h"
#include "net/ucx/ucx.h"

// What was sent before the socket ended is waited for: UCX's ways are others, and may be slower.
#define DRAIN_NS (20 * WHI_NS_PER_MS)

static bool wanted(const whi_link *link) {
    uint32_t lanes = whi_link_lanes(link);
    bool rdma = link->worker->ctx->rdma && (link->peer.features & WHI_FEATURE_RDMA);
    if (!(lanes & WHI_LANE_UCX) || (link->local && (lanes & WHI_LANE_SHM)))
        return false;
    return rdma || !(lanes & WHI_LANE_STREAM);
}

// ---- the lane's way to its link

static void wake(void *arg) {
    whi_link *link = arg;
    whi_worker_ucx_busy(link->worker);
    whi_link_heat(link);
}

static void lane_closed(void *arg) {
    whi_link *link = arg;
    link->fast = NULL;
    link->beside = NULL;
    whi_worker_defer(link->worker, &link->deferred, link->deferred.fn);
}

// lane_disconnected ends the peer's leases, which must not wait for a chunk that UCX never gives back.
static void lane_disconnected(void *arg) {
    whi_link *link = arg;
    whi_link_up_of(link)->disconnected(link);
}

static const whi_ucx_owner owner = {
    .wake = wake, .disconnected = lane_disconnected, .closed = lane_closed};

static void close_lane(whi_link *link) {
    if (link->failed)
        whi_ucx_lane_lost(link->fast);
    whi_worker_ucx_busy(link->worker);
    link->fast->ops->close(link->fast);
}

// ---- opening

// tell sends by the socket, which is fresh and holds far more than an address.
static wh_status tell(whi_link *link, const whi_hdr *hdr, const void *payload) {
    return link->control.lane->ops->send(link->control.lane, hdr, payload);
}

// without goes on by the socket, or ends the link where that is not allowed.
static void without(whi_link *link, const char *why) {
    link->holding = false;
    whi_timers_remove(&link->worker->timers, &link->lane_timer);
    if (!(whi_link_lanes(link) & WHI_LANE_STREAM)) {
        whi_link_fail(link, WH_ENOLANE, "%s", why);
        return;
    }
    whi_log(WHI_WARN, "W-LNK-06", "%s: the ucx lane is not used: %s", link->name, why);
    whi_link_mark(link);
}

// fail tells the peer that this side does without the lane.
static void fail(whi_link *link, const char *why) {
    // If this does not go, the peer's patience ends by itself.
    (void)!whi_lane_address_refuse(link, why, 0, tell);
    without(link, why);
}

static void on_timer(whi_timer *timer, void *arg) {
    (void)timer;
    whi_link *link = arg;
    if (link->holding) {
        fail(link, "the other side has not told its UCX address in time");
        return;
    }
    // All that was under way when the socket ended has had its time.
    while (!link->dead && whi_link_pass(link)) {
    }
    whi_link_lost(link, link->control.ended ? link->control.ended : WH_EPEER);
}

// look looks after the side of the lane that the poll of another lane does not: before the peer has switched, our chunks come
// back and space is made, and what it sends is kept.
static unsigned look(whi_link *link, int events) {
    if (events)
        whi_worker_ucx_busy(link->worker);
    if (link->rx == link->fast)
        return 0;
    int n = link->fast->ops->poll(link->fast, 0);
    if (n < 0)
        whi_link_lost(link, (wh_status)n);
    return n < 0 ? 1 : (unsigned)n;
}

static void start(whi_link *link) {
    wh_worker *worker = link->worker;
    whi_timer_init(&link->lane_timer, on_timer, link);
    link->holding = true;
    if (!whi_worker_ucx_ready(worker)) {
        fail(link, whi_worker_ucx_why(worker));
        return;
    }
    whi_ucx_opts opts = {.eager_limit = link->eager_max,
                         .eager_max = worker->eager_max,
                         .same_host = whi_hello_same_host(&link->peer, worker->ctx->boot_id),
                         .peer = link->name};
    wh_status st = whi_ucx_lane_create(whi_links_of(worker)->ucx, &opts,
                                       whi_link_up_of(link)->lane_up, &owner, link, &link->fast);
    if (st == WH_OK) {
        link->beside = look;
        st = whi_lane_address_tell(link, link->fast, 0, tell);
    }
    if (st != WH_OK) {
        fail(link, wh_status_text(st));
        return;
    }
    whi_timers_add(&worker->timers, &link->lane_timer,
                   whi_clock_ns() + worker->ctx->config.handshake_timeout * WHI_NS_PER_MS);
}

// go_over connects to the peer's lane and moves our messages there.
static void go_over(whi_link *link) {
    const char *why = NULL;
    wh_status st =
        whi_ucx_lane_connect(link->fast, link->lane_address.bytes, link->lane_address.size, &why);
    whi_lane_address_drop(&link->lane_address);
    if (st != WH_OK) {
        fail(link, why);
        return;
    }
    whi_hdr hdr = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_UCX};
    st = link->control.lane->ops->send(link->control.lane, &hdr, NULL);
    if (st == WH_OK)
        st = whi_control_left(&link->control);
    if (st != WH_OK) {
        whi_link_fail(link, st, "the ucx lane could not be opened: %s", wh_status_text(st));
        return;
    }
    whi_timers_remove(&link->worker->timers, &link->lane_timer);
    whi_link_send_by(link, link->fast);
}

bool whi_link_reads_keys(const whi_link *link) {
    // Keys are made for the release that made them; nothing says that another one reads them, or survives doing so.
    return link->tx->ops->access && link->peer.ucx_version == whi_ucx_version();
}

// take_text makes what the peer says of its reason fit for a log.
static void take_text(whi_link *link, const void *payload, size_t size) {
    char text[WHI_CONTROL_MAX + 1], why[WHI_CONTROL_MAX + 32];
    whi_printable_copy(text, sizeof(text), payload, size);
    snprintf(why, sizeof(why), "the other side says: %s", text);
    if (link->holding)
        without(link, why);
}

static wh_status address_came(whi_link *link, const whi_hdr *hdr, const void *payload) {
    if (hdr->flags & WHI_FLAG_NO_LANE) {
        take_text(link, payload, hdr->size);
        return link->dead ? WH_EPEER : WH_OK;
    }
    if (!link->holding || !link->fast)
        return WH_OK;  // it has failed meanwhile
    wh_status st = whi_lane_address_add(&link->lane_address, hdr, payload);
    if (st != WH_OK)
        return st == WH_PENDING ? WH_OK : st;
    go_over(link);
    return link->dead ? WH_EPEER : WH_OK;
}

static wh_status switched(whi_link *link) {
    whi_control_peer_left(&link->control);
    whi_link_receive_by(link, link->fast);
    return WH_OK;
}

static void after_bye(whi_deferred *deferred) {
    whi_link_lost(whi_container_of(deferred, whi_link, doom), WH_EPEER);
}

static void bye(whi_link *link) {
    if (link->doomed)
        return;
    link->doomed = WH_EPEER;
    whi_worker_defer(link->worker, &link->doom, after_bye);
}

static void socket_ended(whi_link *link) {
    whi_timers_add(&link->worker->timers, &link->lane_timer, whi_clock_ns() + DRAIN_NS);
}

const whi_lane_kind whi_ucx_kind = {.bit = WHI_LANE_UCX,
                                    .wanted = wanted,
                                    .start = start,
                                    .switched = switched,
                                    .address_came = address_came,
                                    .bye = bye,
                                    .socket_ended = socket_ended,
                                    .close = close_lane};
