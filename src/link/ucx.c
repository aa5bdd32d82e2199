// SPDX-License-Identifier: BSD-3-Clause
//
// The UCX domain of a worker, see ucx.h: when it is made, how the worker sleeps with it, and its end.
//
// The domain's descriptor is watched only while the worker sleeps, because it stays readable until the domain is armed
// again.  UCX loses wake-ups, so no sleep lasts: a millisecond after something has happened, then twice as long each time.
#include "link/ucx.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"

#define NAP_MIN_NS (1 * WHI_NS_PER_MS)
#define NAP_MAX_NS (100 * WHI_NS_PER_MS)

static void on_event(whi_watch *watch, uint32_t events) {
    (void)events;
    wh_worker *worker = &whi_container_of(watch, whi_link_room, ucx_watch)->worker;
    whi_worker_ucx_busy(worker);
    (void)whi_ucx_progress(whi_links_of(worker)->ucx);
}

// need makes the domain.  It fails once and for all: what was missing will be missing again.
static wh_status need(wh_worker *worker) {
    if (whi_links_of(worker)->ucx)
        return WH_OK;
    if (whi_links_of(worker)->ucx_failed)
        return WH_ENOLANE;
    const char *why = NULL;
    wh_status st = whi_ucx_create(&whi_links_of(worker)->ucx, &why);
    whi_links_of(worker)->ucx_watch.fn = on_event;
    if (st == WH_OK) {
        st = whi_worker_watch(worker, &whi_links_of(worker)->ucx_watch,
                              whi_ucx_fd(whi_links_of(worker)->ucx), EPOLLONESHOT);
        why = wh_status_text(st);
        if (st != WH_OK) {
            whi_ucx_free(whi_links_of(worker)->ucx);
            whi_links_of(worker)->ucx = NULL;
        }
    }
    whi_links_of(worker)->ucx_nap_ns = NAP_MIN_NS;
    if (st == WH_OK)
        return st;
    whi_links_of(worker)->ucx_failed = true;
    snprintf(whi_links_of(worker)->ucx_why, sizeof(whi_links_of(worker)->ucx_why), "%s", why);
    whi_log(WHI_WARN, "W-LNK-04", "the ucx lane is not used: %s", why);
    return st;
}

bool whi_worker_ucx_ready(wh_worker *worker) {
    return need(worker) == WH_OK;
}

uint32_t whi_worker_lanes(wh_worker *worker, bool secret) {
    uint32_t lanes = worker->ctx->lanes;
    if ((lanes & WHI_LANE_UCX) && !worker->ctx->ucx_named && !secret) {
        whi_log_once_per(
            WHI_WARN, "W-LNK-05", 3600,
            "this machine has an RDMA device, which the ucx lane would use: for that, set "
            "a secret, or name the lane in the setting lanes");
        lanes &= ~(uint32_t)WHI_LANE_UCX;
    }
    bool must = (lanes & WHI_LANE_UCX) && !(lanes & WHI_LANE_STREAM);
    if ((must && need(worker) != WH_OK) || whi_links_of(worker)->ucx_failed)
        lanes &= ~(uint32_t)WHI_LANE_UCX;
    return lanes;
}

uint32_t whi_link_lanes(const whi_link *link) {
    return whi_worker_lanes(link->worker, link->secret_count > 0) & link->peer.lanes;
}

const char *whi_worker_ucx_why(const wh_worker *worker) {
    return *whi_links_of(worker)->ucx_why ? whi_links_of(worker)->ucx_why : worker->ctx->ucx_why;
}

unsigned whi_worker_ucx_pass(wh_worker *worker) {
    return whi_links_of(worker)->ucx ? whi_ucx_progress(whi_links_of(worker)->ucx) : 0;
}

void whi_worker_ucx_busy(wh_worker *worker) {
    whi_links_of(worker)->ucx_nap_ns = NAP_MIN_NS / 2;  // doubled before each sleep
}

wh_status whi_worker_ucx_arm(wh_worker *worker) {
    if (whi_ucx_arm(whi_links_of(worker)->ucx) != WH_OK) {
        worker->countdown = 0;  // the next pass looks at the domain, whatever else it polls
        return WH_EBUSY;
    }
    whi_worker_rewatch(worker, &whi_links_of(worker)->ucx_watch, EPOLLIN | EPOLLONESHOT);
    whi_links_of(worker)->ucx_nap_ns *= 2;
    if (whi_links_of(worker)->ucx_nap_ns > NAP_MAX_NS)
        whi_links_of(worker)->ucx_nap_ns = NAP_MAX_NS;
    return WH_OK;
}

void whi_worker_ucx_end(wh_worker *worker) {
    if (!whi_links_of(worker)->ucx)
        return;
    whi_worker_unwatch(worker, &whi_links_of(worker)->ucx_watch);
    whi_ucx_free(whi_links_of(worker)->ucx);
    whi_links_of(worker)->ucx = NULL;
    whi_links_of(worker)->ucx_failed = true;
}
