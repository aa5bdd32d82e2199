// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a link's bulk lane, see bulk_lane.h.
//
// Each side tells its address once: who wants the lane first, and who is asked.  Who has heard the whole of the peer's is
// connected, and the peer's lane is there already, so that either may then send.  What comes of the address goes to UCX as it is:
// nothing of a peer that is not trusted gets that far.
#include "link/bulk_lane.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"
#include "link/lanes.h"
#include "link/ucx.h"
#include "net/ucx/ucx.h"

#define LOST_NS (50 * WHI_NS_PER_MS)

enum {
    BUDGET = 64,
    IDLE_POLLS = 10000,  // without an event, after which the domain's own progress is enough
};

bool whi_link_bulk_allowed(const whi_config *config) {
    return config->bulk_lane == WHI_BULK_LANE_UCX ||
           (config->bulk_lane == WHI_BULK_LANE_AUTO && config->device_path == WHI_DEVICE_PATH_AUTO);
}

bool whi_link_bulk_agreed(const whi_link *link) {
    return (link->peer.features & WHI_FEATURE_BULK_LANE) && link->control.lane &&
           whi_link_bulk_allowed(&link->worker->ctx->config) &&
           !(link->kind && link->kind->bit == WHI_LANE_UCX);
}

whi_lane *whi_link_bulk(const whi_link *link) {
    return link->bulk.state == WHI_BULK_OPEN ? link->bulk.lane : NULL;
}

// is_polled says whether there is a lane, and it has not been given up.
static bool is_polled(const whi_link *link) {
    return link->bulk.lane && link->bulk.state != WHI_BULK_NONE && !link->bulk.closing;
}

bool whi_link_bulk_ready(const whi_link *link) {
    const whi_bulk_lane *bulk = &link->bulk;
    return is_polled(link) && bulk->lane->ops->ready(bulk->lane, true);
}

// ---- the lane's way to its link

static unsigned look(whi_link *link, int events);

void whi_link_bulk_busy(whi_link *link) {
    if (!is_polled(link))
        return;
    link->bulk.idle = 0;
    link->beside = look;
    whi_worker_ucx_busy(link->worker);
    whi_link_heat(link);
}

static void wake(void *arg) {
    whi_link *link = arg;
    if (!link->dead)
        whi_link_bulk_busy(link);
}

static void disconnected(void *arg) {
    (void)arg;  // it gives no access to memory
}

static void closed(void *arg) {
    whi_link *link = arg;
    link->bulk.lane = NULL;
    if (link->bulk.awaited)
        whi_worker_defer(link->worker, &link->deferred, link->deferred.fn);
}

static const whi_ucx_owner owner = {.wake = wake, .disconnected = disconnected, .closed = closed};

// ---- the end

static void close_lane(whi_link *link) {
    whi_bulk_lane *bulk = &link->bulk;
    if (!bulk->lane || bulk->closing)
        return;
    if (link->beside == look)
        link->beside = NULL;
    bulk->closing = true;
    if (link->failed)
        whi_ucx_lane_lost(bulk->lane);
    whi_worker_ucx_busy(link->worker);
    bulk->lane->ops->close(bulk->lane);
}

bool whi_link_bulk_gone(whi_link *link) {
    close_lane(link);
    link->bulk.awaited = link->bulk.lane != NULL;
    return !link->bulk.lane;
}

static wh_status tell(whi_link *link, const whi_hdr *hdr, const void *payload) {
    whi_link_control(link, hdr, payload);
    return WH_OK;
}

// give_up goes on without the lane; what is under way on it, if it was open, fails, unless the peer has never had it.
static void give_up(whi_link *link, bool open, bool unused, const char *why) {
    bool wanted = link->worker->ctx->config.bulk_lane == WHI_BULK_LANE_UCX;
    char sentence[448];
    snprintf(sentence, sizeof(sentence), "%s: the bulk lane is not used%s: %s", link->name,
             open ? " any more" : "", why);
    whi_log(open || wanted ? WHI_WARN : WHI_INFO, open || wanted ? "W-LNK-07" : "I-LNK-07", "%s",
            sentence);
    link->bulk.state = WHI_BULK_NONE;
    whi_lane_address_drop(&link->bulk.address);
    close_lane(link);
    if (open)
        whi_link_up_of(link)->bulk_lost(link, unused, sentence);
}

// refuse does so and lets the peer know.
static void refuse(whi_link *link, const char *why) {
    (void)!whi_lane_address_refuse(link, why, WHI_FLAG_BULK_LANE, tell);
    give_up(link, false, false, why);
}

static void on_timer(whi_timer *timer, void *arg) {
    (void)timer;
    whi_link *link = arg;
    const char *why = wh_status_text(link->bulk.lost);
    (void)!whi_lane_address_refuse(link, why, WHI_FLAG_BULK_LANE | WHI_FLAG_LANE_LOST, tell);
    give_up(link, true, false, why);
}

// lose waits a moment with that: mostly the peer has gone, which the link will say.  Nothing more is begun on the lane.
static void lose(whi_link *link, wh_status why) {
    link->beside = NULL;
    link->bulk.state = WHI_BULK_NONE;
    link->bulk.lost = why;
    whi_timer_init(&link->lane_timer, on_timer, link);
    whi_timers_add(&link->worker->timers, &link->lane_timer, whi_clock_ns() + LOST_NS);
}

// look polls the lane, and pushes what waits for it.
static unsigned look(whi_link *link, int events) {
    (void)events;
    whi_bulk_lane *bulk = &link->bulk;
    int n = bulk->lane->ops->poll(bulk->lane, BUDGET);
    if (link->dead)
        return 1;
    if (n == WH_EPROTOCOL) {
        whi_link_lost(link, WH_EPROTOCOL);
        return 1;
    }
    if (n < 0) {
        lose(link, (wh_status)n);
        return 1;
    }
    unsigned count = (unsigned)n + whi_link_up_of(link)->send_bulk(link);
    if (count) {
        bulk->idle = 0;
        whi_worker_ucx_busy(link->worker);
    } else if (++bulk->idle > IDLE_POLLS) {
        link->beside = NULL;
    }
    return count;
}

// ---- opening

// make makes our lane, or says why there is none.
static const char *make(whi_link *link) {
    wh_worker *worker = link->worker;
    const whi_config *config = &worker->ctx->config;
    bool named = config->bulk_lane == WHI_BULK_LANE_UCX;
    const char *why = NULL;
    // UCX takes what a peer says of itself as it is, and may abort the process over it.
    if (!named && !link->secret_count)
        return "it is for peers that have proven a secret; set one, or bulk_lane=ucx";
    if (whi_ucx_load(config->ucx_dir, &why) != WH_OK)
        return why;
    if (!named && !whi_ucx_knows(WH_MEM_CUDA))
        return "this UCX has no CUDA";
    if (!whi_worker_ucx_ready(worker))
        return whi_worker_ucx_why(worker);
    link->bulk.same_host = whi_hello_same_host(&link->peer, worker->ctx->boot_id);
    whi_ucx_opts opts = {.eager_limit = link->eager_max,
                         .eager_max = worker->eager_max,
                         .same_host = link->bulk.same_host,
                         .peer = link->name};
    wh_status st =
        whi_ucx_lane_create(whi_links_of(worker)->ucx, &opts, whi_link_up_of(link)->bulk_up, &owner,
                            link, &link->bulk.lane);
    return st == WH_OK ? NULL : wh_status_text(st);
}

// tell_address tells the peer of our lane.
static void tell_address(whi_link *link) {
    wh_status st = whi_lane_address_tell(link, link->bulk.lane, WHI_FLAG_BULK_LANE, tell);
    if (st != WH_OK)
        refuse(link, wh_status_text(st));
}

void whi_link_bulk_want(whi_link *link) {
    if (link->bulk.state != WHI_BULK_UNTRIED || link->dead || link->closing)
        return;
    const char *why = make(link);
    if (why) {
        refuse(link, why);
        return;
    }
    link->bulk.state = WHI_BULK_OPENING;
    tell_address(link);
}

static void connect_lane(whi_link *link) {
    whi_bulk_lane *bulk = &link->bulk;
    bool asked = bulk->state == WHI_BULK_UNTRIED;
    const char *why = asked ? make(link) : NULL;
    if (!why)
        (void)!whi_ucx_lane_connect(bulk->lane, bulk->address.bytes, bulk->address.size, &why);
    whi_lane_address_drop(&bulk->address);
    if (why) {
        refuse(link, why);
        return;
    }
    bulk->state = WHI_BULK_OPEN;
    bulk->opened = true;
    if (asked)
        tell_address(link);
}

static void take_refusal(whi_link *link, const whi_hdr *hdr, const void *payload) {
    char text[WHI_CONTROL_MAX + 1], why[WHI_CONTROL_MAX + 32];
    if (link->bulk.state == WHI_BULK_NONE)
        return;  // that is known, or will be said
    whi_printable_copy(text, sizeof(text), payload, hdr->size);
    snprintf(why, sizeof(why), "the other side says: %s", text);
    give_up(link, link->bulk.state == WHI_BULK_OPEN, !(hdr->flags & WHI_FLAG_LANE_LOST), why);
}

wh_status whi_link_bulk_record(whi_link *link, const whi_hdr *hdr, const void *payload) {
    if (!whi_link_bulk_agreed(link))
        return WH_EPROTOCOL;
    if (hdr->flags & WHI_FLAG_NO_LANE) {
        take_refusal(link, hdr, payload);
        return link->dead ? WH_EPEER : WH_OK;
    }
    if (link->bulk.state == WHI_BULK_NONE)
        return WH_OK;  // it has been refused meanwhile
    if (link->bulk.state == WHI_BULK_OPEN)
        return WH_EPROTOCOL;
    wh_status st = whi_lane_address_add(&link->bulk.address, hdr, payload);
    if (st != WH_OK)
        return st == WH_PENDING ? WH_OK : st;
    connect_lane(link);
    return link->dead ? WH_EPEER : WH_OK;
}
