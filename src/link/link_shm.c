// SPDX-License-Identifier: BSD-3-Clause
//
// How a link of one host comes to its rings.
//
// Each side makes the ring that it sends by and passes its descriptor with SWITCH, the last record of its direction of the
// socket; that stays as doorbell, and for further descriptors.
#include <unistd.h>

#include "link/lanes.h"
#include "link/ucx.h"
#include "net/shm/shm.h"
#include "net/untrusted.h"

static bool wanted(const whi_link *link) {
    return link->local && (whi_link_lanes(link) & WHI_LANE_SHM);
}

static wh_status bell(void *arg) {
    const whi_link *link = arg;
    return link->dead ? WH_OK : whi_control_bell(&link->control);
}

static wh_status pass_fd(void *arg, int fd) {
    whi_link *link = arg;
    return whi_control_pass_fd(&link->control, fd);
}

static int take_fd(void *arg) {
    whi_link *link = arg;
    return whi_control_take_fd(&link->control);
}

static const whi_shm_wire wire = {.bell = bell, .send_fd = pass_fd, .take_fd = take_fd};

// open_ring moves our messages into a ring: the ring's descriptor goes with the last record of the socket.
static wh_status open_ring(whi_link *link) {
    const wh_context *ctx = link->worker->ctx;
    // A process of another user could make us wait for its memory, or we may have rights over it that it does not expect.
    bool fetch = (link->peer.features & WHI_FEATURE_FETCH) && !whi_link_other_user(link);
    pid_t pid = 0;
    uid_t uid;
    if (!whi_control_peer(&link->control, &pid, &uid))
        pid = 0;
    whi_shm_opts opts = {.ring_size = ctx->config.ring_size,
                         .ring_max = ctx->config.ring_max,
                         .eager_limit = link->eager_max,
                         .chunk_max = ctx->config.bulk_chunk,
                         .chunks = (unsigned)ctx->config.bulk_chunks,
                         .takes_long = (link->peer.features & WHI_FEATURE_LONG_SHM) != 0,
                         .asymmetric = ctx->barrier && (link->peer.features & WHI_FEATURE_BARRIER),
                         .fetch = fetch ? (int)ctx->config.shm_read : WHI_SHM_READ_NEVER,
                         .peer = pid,
                         .budget = &whi_links_of(link->worker)->bulk_budget,
                         .wire = &wire,
                         .wire_arg = link};
    int fd = -1;
    wh_status st = whi_shm_create(&opts, whi_link_up_of(link)->lane_up, link, &link->fast, &fd);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    st = whi_control_send_fd(&link->control, &hdr, fd);
    close(fd);
    if (st == WH_OK)
        st = whi_control_left(&link->control);
    if (st == WH_OK)
        whi_link_send_by(link, link->fast);
    return st;
}

static void start(whi_link *link) {
    wh_status st = open_ring(link);
    if (st != WH_OK)
        whi_link_fail(link, st, "shared memory could not be set up: %s", wh_status_text(st));
}

// rang goes over to the peer's ring if its descriptor has come.
static void rang(whi_link *link) {
    int fd = link->switch_pending ? whi_control_take_fd(&link->control) : WH_EAGAIN;
    if (fd < 0)
        return;
    link->switch_pending = false;
    wh_status st = whi_shm_attach(link->fast, fd);
    if (st == WH_OK)
        whi_link_receive_by(link, link->fast);
    else
        whi_link_fail(link, st, "the peer's ring cannot be used: %s", wh_status_text(st));
}

static wh_status switched(whi_link *link) {
    if (link->switch_pending)
        return WH_EPROTOCOL;
    whi_control_peer_left(&link->control);
    link->switch_pending = true;
    rang(link);
    return WH_OK;
}

const whi_lane_kind whi_shm_kind = {
    .bit = WHI_LANE_SHM, .wanted = wanted, .start = start, .switched = switched, .rang = rang};
