// SPDX-License-Identifier: BSD-3-Clause
//
// The connecting side, see dial.h; its handshake is dial_handshake.c's.
//
// A dial goes through its addresses until one answers, proves itself, moves to the peer's local socket when both share a
// host, and confirms.  When both sides dial at once, the connection whose connector has the smaller uuid wins on both: the
// other dial parks until that link is there.  A dial that finds a living link uses it.
#include "link/dial.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "link/acceptor.h"
#include "link/dialing.h"
#include "link/sock.h"

#define PARK_NS (20 * WHI_NS_PER_MS)        // between two looks of a parked dial
#define LEAST_TRY_NS (200 * WHI_NS_PER_MS)  // one address gets at least this of the time
enum { RETRIES = 3 };

static void try_next(whi_dial *dial);
static void start_attempts(whi_dial *dial);

static void close_fd(whi_dial *dial) {
    whi_worker_unwatch(dial->worker, &dial->watch);
    if (dial->resolve)
        whi_resolve_end(dial->resolve);
    else if (dial->fd >= 0)
        close(dial->fd);
    if (dial->tcp_fd >= 0) {
        whi_fdset_remove(&dial->worker->watched, dial->tcp_fd);
        close(dial->tcp_fd);
    }
    dial->resolve = NULL;
    dial->fd = dial->tcp_fd = -1;
}

static void free_dial(whi_deferred *deferred) {
    whi_dial *dial = whi_container_of(deferred, whi_dial, deferred);
    if (dial->secret)
        explicit_bzero(dial->secret, strlen(dial->secret));
    whi_free(dial->secret);
    whi_free(dial);
}

void whi_dial_end(whi_dial *dial) {
    close_fd(dial);
    whi_dial_leave_queue(dial);
    whi_timers_remove(&dial->worker->timers, &dial->timer);
    whi_list_remove(&dial->node);
    whi_worker_defer(dial->worker, &dial->deferred, free_dial);
}

void whi_dial_fail(whi_dial *dial, wh_status status, const char *sentence) {
    char text[448];
    snprintf(text, sizeof(text), "connecting to %s: %s", dial->target, sentence);
    whi_log(WHI_DEBUG, "D-DIAL-01", "%s", text);
    dial->up->failed(dial->arg, status, text);
}

void whi_dial_note(whi_dial *dial, wh_status status, const char *sentence) {
    if (dial->was_refused)
        return;
    dial->error = status;
    snprintf(dial->sentence, sizeof(dial->sentence), "%s", sentence);
}

void whi_dial_attempt_failed(whi_dial *dial, wh_status status, const char *sentence) {
    whi_dial_note(dial, status, sentence);
    close_fd(dial);
    try_next(dial);
}

static void set_timer(whi_dial *dial, uint64_t ns) {
    uint64_t now = whi_clock_ns(), deadline = dial->deadline_ns;
    bool before = now < deadline && ns < deadline - now;
    whi_timers_add(&dial->worker->timers, &dial->timer, before ? now + ns : deadline);
}

void whi_dial_found_one(whi_dial *dial, whi_link *link) {
    close_fd(dial);
    dial->state = WHI_DIAL_LINKED;
    whi_timers_add(&dial->worker->timers, &dial->timer, dial->deadline_ns);
    dial->up->linked(dial->arg, link, dial->listener);
}

// use goes over to a link that was made by another handshake, once this dial's secret is proven too.
static void use(whi_dial *dial, whi_link *link) {
    close_fd(dial);
    if (whi_link_knows(link, dial->secret))
        whi_dial_found(dial, link);
    else
        start_attempts(dial);
}

void whi_dial_park(whi_dial *dial) {
    close_fd(dial);
    whi_link *link = whi_link_find(dial->worker, dial->peer.uuid);
    if (link) {
        use(dial, link);
        return;
    }
    dial->state = WHI_DIAL_PARKED;
    set_timer(dial, PARK_NS);
}

void whi_dial_link_made(wh_worker *worker, whi_link *link) {
    whi_list_foreach(node, &whi_links_of(worker)->dials) {
        whi_dial *dial = whi_container_of(node, whi_dial, node);
        if (link->dead || link->closing)
            return;
        if (dial->state == WHI_DIAL_PARKED && memcmp(dial->peer.uuid, link->uuid, 16) == 0)
            use(dial, link);
    }
}

bool whi_dial_committed(const wh_worker *worker, const uint8_t uuid[16]) {
    whi_list_foreach(node, &whi_links_of(worker)->dials) {
        const whi_dial *dial = whi_container_of(node, whi_dial, node);
        if (dial->state == WHI_DIAL_CONFIRMED && memcmp(dial->peer.uuid, uuid, 16) == 0)
            return true;
    }
    return false;
}

static void on_resolved(whi_dial *dial) {
    dial->count = whi_resolve_take(dial->resolve, dial->addrs);
    close_fd(dial);
    if (!dial->count) {
        whi_dial_fail(dial, WH_EADDRESS, "the name does not resolve");
        return;
    }
    start_attempts(dial);
}

static void on_event(whi_watch *watch, uint32_t events) {
    (void)events;
    whi_dial *dial = whi_container_of(watch, whi_dial, watch);
    if (dial->state == WHI_DIAL_RESOLVING) {
        on_resolved(dial);
    } else if (dial->state == WHI_DIAL_CONNECTING) {
        wh_status st = whi_sock_connected(dial->fd);
        if (st == WH_OK)
            whi_dial_hello(dial);
        else
            whi_dial_attempt_failed(dial, st, wh_status_text(st));
    } else {
        whi_dial_readable(dial);
    }
}

static void on_timer(whi_timer *timer, void *arg) {
    (void)timer;
    whi_dial *dial = arg;
    if (whi_clock_ns() >= dial->deadline_ns) {
        const char *what = dial->state == WHI_DIAL_NEW
                               ? "another connect to the same address did not get through in time"
                           : dial->state == WHI_DIAL_RESOLVING ? "the name was not resolved in time"
                           : dial->state == WHI_DIAL_CONNECTING
                               ? "nothing answered in time"
                               : "the handshake did not finish in time";
        whi_dial_fail(dial, WH_ETIMEDOUT, what);
        return;
    }
    if (dial->state == WHI_DIAL_NEW) {
        start_attempts(dial);
        return;
    }
    if (dial->state == WHI_DIAL_PARKED) {
        bool coming = whi_acceptor_pending(dial->worker, dial->peer.uuid) ||
                      whi_dial_committed(dial->worker, dial->peer.uuid);
        if (coming || whi_link_find(dial->worker, dial->peer.uuid))
            whi_dial_park(dial);
        else
            start_attempts(dial);
        return;
    }
    whi_dial_attempt_failed(dial, WH_ETIMEDOUT, "nothing answered in time");
}

// share_of returns the time that the next attempt may take, so that each address has its turn.
static uint64_t share_of(const whi_dial *dial) {
    uint64_t now = whi_clock_ns();
    uint64_t left = now < dial->deadline_ns ? dial->deadline_ns - now : 0;
    // Without a limit the last address has all the time there is, and those before it what they would have by default.
    if (dial->deadline_ns == WHI_TIMER_NEVER && dial->next < dial->count)
        left = dial->worker->ctx->config.connect_timeout * WHI_NS_PER_MS;
    uint64_t share = left / (dial->count - dial->next + 1);
    return share > LEAST_TRY_NS ? share : LEAST_TRY_NS;
}

// try_local begins with the local name of a blob of this host.
static bool try_local(whi_dial *dial) {
    if (!dial->local_name[0] || dial->local_tried)
        return false;
    dial->local_tried = true;
    if (whi_sock_connect_local(dial->local_name, &dial->fd) != WH_OK)
        return false;
    if (whi_worker_watch(dial->worker, &dial->watch, dial->fd, EPOLLIN) != WH_OK) {
        close(dial->fd);
        dial->fd = -1;
        return false;
    }
    dial->local = true;
    set_timer(dial, share_of(dial));
    whi_dial_hello(dial);
    return true;
}

static void try_next(whi_dial *dial) {
    dial->local = false;
    if (try_local(dial))
        return;
    while (dial->next < dial->count) {
        whi_sockaddr *addr = &dial->addrs[dial->next++];
        wh_status st = whi_sock_connect(addr, &dial->worker->ctx->config, &dial->fd);
        if (st == WH_OK || st == WH_PENDING) {
            if (whi_worker_watch(dial->worker, &dial->watch, dial->fd, EPOLLOUT) == WH_OK) {
                dial->state = WHI_DIAL_CONNECTING;
                set_timer(dial, share_of(dial));
                return;
            }
            close(dial->fd);
            st = WH_ESYSTEM;
        }
        dial->fd = -1;
        char text[128];
        snprintf(text, sizeof(text), "%s%s", wh_status_text(st),
                 st == WH_ELIMIT ? "; see ulimit -n" : "");
        whi_dial_note(dial, st, text);
    }
    whi_dial_fail(dial, dial->error, dial->sentence);
}

// resolve_name looks the name up, which takes a thread and a descriptor.
static void resolve_name(whi_dial *dial) {
    wh_status st = whi_resolve_start(dial->host, dial->port, &dial->resolve, &dial->fd);
    if (st == WH_OK)
        st = whi_worker_watch(dial->worker, &dial->watch, dial->fd, EPOLLIN);
    if (st != WH_OK) {
        whi_dial_fail(dial, st, "the name cannot be looked up");
        return;
    }
    dial->state = WHI_DIAL_RESOLVING;
    whi_timers_add(&dial->worker->timers, &dial->timer, dial->deadline_ns);
}

static void start_attempts(whi_dial *dial) {
    dial->state = WHI_DIAL_NEW;
    if (whi_dial_waits(dial)) {
        whi_timers_add(&dial->worker->timers, &dial->timer, dial->deadline_ns);
        return;
    }
    if (dial->host[0] && !dial->count) {
        resolve_name(dial);
        return;
    }
    dial->next = 0;
    dial->local_tried = dial->was_refused = false;
    whi_dial_note(dial, WH_EUNREACHABLE, "there is no address to try");
    try_next(dial);
}

bool whi_dial_again(whi_dial *dial, wh_status why) {
    if (dial->state != WHI_DIAL_LINKED || dial->retried >= RETRIES ||
        (why != WH_EPEER && why != WH_ECLOSED))
        return false;
    dial->retried++;
    // A moment later, when the old link is out of the way on both sides.
    dial->state = WHI_DIAL_PARKED;
    memset(dial->peer.uuid, 0, 16);
    set_timer(dial, WHI_NS_PER_MS);
    return true;
}

wh_status whi_dial_new(wh_worker *worker, const char *secret, int32_t timeout_ms,
                       const whi_dial_up *up, void *arg, whi_dial **made) {
    whi_dial *dial = whi_calloc(1, sizeof(*dial));
    char *own = whi_strdup(secret ? secret : worker->ctx->config.secret);
    if (!dial || !own) {
        whi_free(dial);
        whi_free(own);
        return WH_ENOMEM;
    }
    uint64_t timeout = timeout_ms ? (uint64_t)timeout_ms : worker->ctx->config.connect_timeout;
    dial->up = up;
    dial->arg = arg;
    dial->worker = worker;
    dial->secret = own;
    dial->fd = dial->tcp_fd = -1;
    dial->watch.fd = -1;
    dial->watch.fn = on_event;
    dial->deadline_ns = timeout_ms < 0 ? WHI_TIMER_NEVER : whi_clock_ns() + timeout * WHI_NS_PER_MS;
    whi_timer_init(&dial->timer, on_timer, dial);
    whi_list_init(&dial->waiters);
    whi_list_init(&dial->wait_node);
    whi_list_push_back(&whi_links_of(worker)->dials, &dial->node);
    *made = dial;
    return WH_OK;
}

// In progress, so that even what fails at once is told there.
void whi_dial_begin_soon(whi_dial *dial) {
    whi_timers_add(&dial->worker->timers, &dial->timer, 0);
}

void whi_dial_host(whi_dial *dial, const char *address, const char *host, uint16_t port) {
    snprintf(dial->target, sizeof(dial->target), "%.100s", address);
    snprintf(dial->host, sizeof(dial->host), "%s", host);
    dial->port = port;
    dial->count = whi_address_resolve(host, port, true, false, dial->addrs);
    whi_dial_begin_soon(dial);
}

void whi_dial_blob(whi_dial *dial, const whi_blob *blob) {
    const wh_context *ctx = dial->worker->ctx;
    memcpy(dial->addrs, blob->addrs, sizeof(blob->addrs));
    dial->count = blob->count;
    memcpy(dial->peer.uuid, blob->uuid, 16);
    dial->by_blob = true;
    memcpy(dial->blob_uuid, blob->uuid, 16);
    dial->listener = dial->blob_listener = blob->listener;
    if (memcmp(blob->boot_id, ctx->boot_id, 16) == 0 && (ctx->lanes & WHI_LANE_SHM))
        snprintf(dial->local_name, sizeof(dial->local_name), "%s", blob->local_name);
    snprintf(dial->target, sizeof(dial->target), "worker %02x%02x%02x%02x", blob->uuid[0],
             blob->uuid[1], blob->uuid[2], blob->uuid[3]);
    whi_dial_begin_soon(dial);
}
