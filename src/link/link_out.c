// SPDX-License-Identifier: BSD-3-Clause
//
// What a link sends: control records that found no room, queued messages, chunks; and how it changes lanes.
//
// The order: control first, since peers wait for it; then the queues of endpoints; then chunks of granted payloads, each in
// turn.  A control record that carries a sequence number was numbered when it was handed in here, so nothing of
// its endpoint may overtake it: as long as `controls` is not empty, no message goes to the lane directly.
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "link/link.h"
#include "link/sock.h"
#include "link/ucx.h"
#include "net/foreign.h"
#include "net/shm/shm.h"
#include "net/stream/stream.h"

enum {
    CONTROLS_MAX = 1 << 20
};  // a peer that makes us answer this often and never reads has broken the protocol

typedef struct control {
    whi_queue_node node;
    whi_hdr hdr;
    uint8_t payload[WHI_CONTROL_MAX];
} control;

size_t whi_link_control_size(void) {
    return sizeof(control);
}

void whi_link_free_control(wh_worker *worker, whi_queue_node *node) {
    whi_pool_put(&whi_links_of(worker)->controls, whi_container_of(node, control, node));
}

static void keep(whi_link *link, const whi_hdr *hdr, const void *payload) {
    control *c = link->control_count < CONTROLS_MAX
                     ? whi_pool_get(&whi_links_of(link->worker)->controls)
                     : NULL;
    if (!c) {
        bool full = link->control_count >= CONTROLS_MAX;
        whi_log(WHI_WARN, "W-LNK-03", "%s: %zu control records wait and %s", link->name,
                link->control_count,
                full ? "the peer does not read them" : "there is no memory for another");
        whi_link_doom(link, full ? WH_EPROTOCOL : WH_ENOMEM);
        return;
    }
    c->hdr = *hdr;
    if (hdr->size)
        memcpy(c->payload, payload, hdr->size);
    whi_queue_push(&link->controls, &c->node);
    link->control_count++;
    whi_link_mark(link);
}

void whi_link_control(whi_link *link, const whi_hdr *hdr, const void *payload) {
    assert(hdr->size <= WHI_CONTROL_MAX);
    if (link->dead || link->doomed)
        return;
    if (whi_queue_empty(&link->controls) && !link->holding) {
        wh_status st = link->tx->ops->send(link->tx, hdr, payload);
        if (st == WH_OK)
            return;
        if (st != WH_EAGAIN) {
            whi_link_doom(link, st);
            return;
        }
    }
    keep(link, hdr, payload);
}

static unsigned send_controls(whi_link *link) {
    unsigned count = 0;
    whi_queue_node *node;
    while ((node = whi_queue_first(&link->controls))) {
        control *c = whi_container_of(node, control, node);
        wh_status st = link->tx->ops->send(link->tx, &c->hdr, c->payload);
        if (st == WH_EAGAIN) {
            link->source.blocked = true;
            break;
        }
        if (st != WH_OK) {
            whi_link_doom(link, st);
            break;
        }
        (void)whi_queue_pop(&link->controls);
        whi_link_free_control(link->worker, node);
        link->control_count--;
        count++;
    }
    return count;
}

unsigned whi_link_flush_out(whi_link *link) {
    if (link->doomed)
        return 0;
    link->source.blocked = link->holding;
    if (link->holding)
        return 0;
    const whi_link_user *user = whi_link_user_of(link);
    // Until a chunk that was begun is whole the lane refuses all else, so it cannot wait behind that.
    unsigned count = user->rest(link);
    if (!link->dead && !link->source.blocked)
        count += send_controls(link);
    if (!link->dead && !link->source.blocked && !link->doomed)
        count += user->send(link);
    if (link->dead || link->doomed)
        return count + 1;
    bool empty = whi_queue_empty(&link->controls) && user->empty(link);
    // A stream lane may hold the end of a record that the socket did not take.
    bool rest = link->tx == link->stream && link->stream && whi_stream_blocked(link->stream);
    if (rest)
        link->source.blocked = true;
    if (empty && !rest) {
        whi_source_sent(&link->source);
        whi_link_want_room(link, false);
        if (link->closing)
            whi_link_drop(link);
    }
    return count;
}

static wh_status bell(void *arg) {
    const whi_link *link = arg;
    return link->stream && !link->dead ? whi_stream_bell(link->stream) : WH_OK;
}

static wh_status pass_fd(void *arg, int fd) {
    whi_link *link = arg;
    return whi_stream_pass_fd(link->stream, fd);
}

static int take_fd(void *arg) {
    whi_link *link = arg;
    return whi_stream_take_fd(link->stream);
}

static const whi_shm_wire wire = {.bell = bell, .send_fd = pass_fd, .take_fd = take_fd};

// switch_to_shm moves our messages into a ring: the ring's descriptor goes with the last record of the socket.
static wh_status switch_to_shm(whi_link *link) {
    const wh_context *ctx = link->worker->ctx;
    // A process of another user could make us wait for its memory, or we may have rights over it that it does not expect.
    bool fetch = (link->peer.features & WHI_FEATURE_FETCH) && !whi_link_other_user(link);
    pid_t pid = 0;
    uid_t uid;
    if (!whi_sock_peer_of(link->watch.fd, &pid, &uid))
        pid = 0;
    whi_shm_opts opts = {.ring_size = ctx->config.ring_size,
                         .ring_max = ctx->config.ring_max,
                         .eager_limit = link->eager_max,
                         .slot_size = ctx->config.bulk_slot,
                         .slots = (unsigned)ctx->config.bulk_slots,
                         .asymmetric = ctx->barrier && (link->peer.features & WHI_FEATURE_BARRIER),
                         .fetch = fetch ? (int)ctx->config.shm_read : WHI_SHM_READ_NEVER,
                         .peer = pid,
                         .budget = &whi_links_of(link->worker)->bulk_budget,
                         .wire = &wire,
                         .wire_arg = link};
    int fd = -1;
    wh_status st = whi_shm_create(&opts, whi_link_user_of(link)->up, link, &link->shm, &fd);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    st = whi_stream_send_fd(link->stream, &hdr, fd);
    close(fd);
    if (st == WH_OK)
        st = whi_stream_tx_bytes(link->stream);
    if (st == WH_OK)
        link->tx = link->shm;
    return st;
}

void whi_link_start(whi_link *link) {
    if (whi_link_wants_ucx(link)) {
        whi_link_ucx_start(link);
        return;
    }
    if (!link->local || !(whi_link_lanes(link) & WHI_LANE_SHM))
        return;
    wh_status st = switch_to_shm(link);
    if (st != WH_OK)
        whi_link_fail(link, st, "shared memory could not be set up: %s", wh_status_text(st));
}

void whi_link_try_switch(whi_link *link) {
    int fd = whi_stream_take_fd(link->stream);
    if (fd < 0)
        return;
    link->switch_pending = false;
    wh_status st = link->shm ? whi_shm_attach(link->shm, fd) : WH_EPROTOCOL;
    if (!link->shm)
        whi_foreign_close(fd);
    if (st != WH_OK) {
        whi_link_fail(link, st, "the peer's ring cannot be used: %s", wh_status_text(st));
        return;
    }
    whi_link_receive_by(link, link->shm);
}

static wh_status deliver_switch(whi_link *link, const whi_hdr *hdr) {
    if (hdr->aux == WHI_LANE_UCX && whi_link_ucx_switch(link) == WH_OK)
        return WH_OK;
    bool allowed = link->local && (link->worker->ctx->lanes & link->peer.lanes & WHI_LANE_SHM);
    if (hdr->aux != WHI_LANE_SHM || !allowed || link->rx != link->stream || link->switch_pending ||
        !link->shm)
        return whi_link_broken(link, hdr, "that lane was not agreed on");
    whi_stream_rx_bytes(link->stream);
    link->switch_pending = true;
    whi_link_try_switch(link);
    return link->dead ? WH_EPROTOCOL : WH_OK;
}

static wh_status deliver_lane(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_status st = whi_link_ucx_lane(link, hdr, payload);
    return st == WH_EPROTOCOL ? whi_link_broken(link, hdr, "that lane cannot be opened so") : st;
}

wh_status whi_link_record(whi_link *link, const whi_hdr *hdr, const void *payload) {
    switch (hdr->cls) {
    case WHI_CLASS_SWITCH: return deliver_switch(link, hdr);
    case WHI_CLASS_LANE_OFFER: return deliver_lane(link, hdr, payload);
    default:  // BYE
        link->closing = true;
        if (link->rx == link->ucx)
            whi_link_ucx_bye(link);
        return WH_OK;
    }
}
