// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a link, see link.h.
//
// A link is one of three: living, closing in order (it sends no more endpoints' messages), dead.  Death is noted at once
// and ends all endpoints; the lanes are closed at the end of the pass, when no lane is being polled any more.
#include "link/link.h"
#include "link/lanes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

void whi_link_unsent(void *arg) {
    whi_link *link = arg;  // a dirty link stays hot, and whoever sleeps asks for space
    if (link->dead)
        return;
    whi_link_mark(link);
    whi_link_heat(link);
    link->pollable.blocked = true;
}

// ---- What the worker asks of a link.

static whi_link *link_of(whi_pollable *pollable) {
    return whi_container_of(pollable, whi_link, pollable);
}

static unsigned pollable_pass(whi_pollable *pollable) {
    return whi_link_pass(link_of(pollable));
}

static unsigned pollable_send(whi_pollable *pollable) {
    return whi_link_flush_out(link_of(pollable));
}

static bool pollable_arm(whi_pollable *pollable) {
    whi_lane *rx = link_of(pollable)->rx;
    return rx->ops->arm(rx, false);
}

static bool pollable_ready(whi_pollable *pollable) {
    const whi_link *link = link_of(pollable);
    return link->rx->ops->ready(link->rx, false) || whi_link_bulk_ready(link);
}

static bool pollable_want_space(whi_pollable *pollable) {
    return whi_link_want_space(link_of(pollable), true);
}

static bool pollable_has_space(whi_pollable *pollable) {
    whi_lane *tx = link_of(pollable)->tx;
    return tx->ops->ready(tx, true);
}

static const whi_pollable_ops pollable_ops = {.pass = pollable_pass,
                                              .send = pollable_send,
                                              .arm = pollable_arm,
                                              .ready = pollable_ready,
                                              .want_space = pollable_want_space,
                                              .has_space = pollable_has_space};

static uint64_t key_of(const uint8_t uuid[16]) {
    return whi_hash_bytes(uuid, 16);
}

whi_link *whi_link_find(const wh_worker *worker, const uint8_t uuid[16]) {
    whi_link *link = whi_hash_get(&whi_links_of(worker)->links, key_of(uuid));
    return link && !link->dead && !link->closing && memcmp(link->uuid, uuid, 16) == 0 ? link : NULL;
}

// free_memory frees a link that nothing leads to any more.
static void free_memory(whi_link *link) {
    whi_link_up_of(link)->freed(link);
    whi_peer_release(link->who);
    whi_lane_address_drop(&link->lane_address);
    whi_lane_address_drop(&link->bulk.address);
    whi_free(link);
}

wh_status whi_link_bare(wh_worker *worker, const uint8_t peer_uuid[16], bool active,
                        const char *name, whi_link **out) {
    const whi_link_up *up = whi_links_of(worker)->up;
    whi_link *link = whi_calloc(1, whi_links_of(worker)->link_size);
    whi_peer *who = link ? whi_peer_new(peer_uuid) : NULL;
    wh_status st = WH_OK;
    if (!who) {
        whi_free(link);
        return WH_ENOMEM;
    }
    whi_pollable_init(&link->pollable, &pollable_ops);
    link->worker = worker;
    link->active = active;
    whi_control_init(&link->control);
    link->uid = geteuid();
    link->same_process = true;
    link->who = who;
    link->peer.features = WHI_FEATURES_OWN;  // without a handshake it is the same library
    memcpy(link->uuid, peer_uuid, 16);
    snprintf(link->name, sizeof(link->name), "%s", name);
    whi_list_init(&link->process_link);
    whi_queue_init(&link->controls);
    up->made(link);
    whi_link *old = whi_hash_get(&whi_links_of(worker)->links, key_of(peer_uuid));
    // A peer that begins anew has nothing left to hear on a link that was closing and could not say so yet.
    if (old && old->closing && memcmp(old->uuid, peer_uuid, 16) == 0)
        whi_link_drop(old);
    else if (old)  // whoever claims a name that hashes like another link's does not get its place
        st = WH_EREFUSED;
    if (st == WH_OK)
        st = whi_hash_put(&whi_links_of(worker)->links, key_of(peer_uuid), link);
    if (st != WH_OK) {
        free_memory(link);
        return st;
    }
    *out = link;
    return WH_OK;
}

void whi_link_set_lane(whi_link *link, whi_lane *lane) {
    link->tx = lane;
    size_t limit = lane->ops->eager_limit(lane);
    link->eager_max = limit < link->worker->eager_max ? limit : link->worker->eager_max;
    whi_link_receive_by(link, lane);
}

// socket_ended notes the end of the socket beside a ring.  It may be seen before the ring's last records: those are
// read first.
static void socket_ended(whi_link *link, wh_status why) {
    link->peer_died = true;
    link->control.ended = why;
    whi_control_unwatch(&link->control, link->worker);
    if (whi_lane_receives(link) && link->kind->socket_ended)
        link->kind->socket_ended(link);
    whi_link_heat(link);
}

static void on_socket(whi_watch *watch, uint32_t events) {
    whi_link *link = whi_container_of(watch, whi_link, control.watch);
    if (link->dead)
        return;
    (void)events;
    whi_lane *socket = link->control.lane;
    if (link->rx != socket) {
        int n = socket->ops->poll(socket, 64);
        if (n < 0) {
            socket_ended(link, (wh_status)n);
            return;
        }
        link->worker->counters.doorbells += (unsigned)n;
    }
    whi_link_heat(link);
    if (link->kind && link->kind->rang)
        link->kind->rang(link);
    if (link->pollable.dirty)
        link->pollable.blocked = false;
}

wh_status whi_link_new(wh_worker *worker, int fd, const whi_hello *peer, bool active, bool local,
                       const char *name, whi_link **out) {
    whi_link *link = NULL;
    wh_status st = whi_link_bare(worker, peer->uuid, active, name, &link);
    if (st != WH_OK)
        return st;
    link->peer = *peer;
    link->local = local;
    const whi_config *config = &worker->ctx->config;
    whi_control_opts opts = {.local = local,
                             .eager_limit = worker->eager_max,
                             .chunk = config->stream_chunk,
                             .takes_long = (peer->features & WHI_FEATURE_LONG) != 0,
                             .up = whi_link_up_of(link)->lane_up,
                             .link = link,
                             .on_event = on_socket};
    if (peer->eager_max < opts.eager_limit)
        opts.eager_limit = peer->eager_max;
    if (peer->chunk_max < opts.chunk)
        opts.chunk = peer->chunk_max;
    st = whi_control_open(&link->control, worker, fd, &opts);
    if (st != WH_OK) {
        (void)whi_hash_remove(&whi_links_of(worker)->links, key_of(link->uuid));
        free_memory(link);
        return st;
    }
    // The kernel's word counts, and no handshake's: a process of another pid namespace may have this number, too.
    pid_t pid;
    uid_t uid;
    link->same_process = local && whi_control_peer(&link->control, &pid, &uid) && pid == getpid();
    link->eager_max = opts.eager_limit;
    link->tx = link->control.lane;
    if (local)
        whi_process_attach(link);
    whi_link_receive_by(link, link->control.lane);
    *out = link;
    return WH_OK;
}

void whi_link_heat(whi_link *link) {
    if (!link->dead)
        whi_pollable_heat(link->worker, &link->pollable);
}

void whi_link_mark(whi_link *link) {
    if (!link->dead)
        whi_pollable_mark(link->worker, &link->pollable);
}

bool whi_link_want_space(whi_link *link, bool want) {
    bool asked = want && link->tx && link->tx->ops->arm(link->tx, true);
    // A socket tells of space by itself, if asked.
    bool out = want && link->tx && link->tx == link->control.lane && !link->holding;
    whi_control_watch_space(&link->control, link->worker, out);
    return asked;
}

// The two halves of a switch.  A lane's file begins ours (link_shm.c, link_ucx.c), the peer's comes to on_switch (link_out.c).
void whi_link_send_by(whi_link *link, whi_lane *lane) {
    link->tx = lane;
    link->holding = false;
    whi_link_mark(link);
}

void whi_link_receive_by(whi_link *link, whi_lane *lane) {
    link->rx = lane;
    link->pollable.syscall = lane == link->control.lane;
    link->pollable.rings = link->control.lane != NULL;
    whi_link_heat(link);
}

unsigned whi_link_pass(whi_link *link) {
    whi_lane *polled = link->rx;
    int n = polled->ops->poll(polled, 64);
    if (__builtin_expect(n < 0, 0)) {
        // The peer may have changed to its ring and left in one go.
        if (polled != link->rx)
            socket_ended(link, (wh_status)n);
        else
            whi_link_lost(link, (wh_status)n);
        return 1;
    }
    unsigned count = (unsigned)n;
    link->pollable.idle = n ? 0 : link->pollable.idle + 1;
    if (__builtin_expect(link->beside != NULL, 0)) {
        count += link->beside(link, n);
        if (link->dead)
            return count;
    }
    if (__builtin_expect(link->peer_died, 0) && !n &&
        !(whi_lane_receives(link) && link->kind->socket_ended)) {
        whi_link_lost(link, link->control.ended ? link->control.ended : WH_EPEER);
        return 1;
    }
    if (__builtin_expect(link->pollable.dirty, 0))
        count += whi_link_flush_out(link);
    return count;
}

bool whi_link_hung_up(const whi_link *link) {
    return link->dead || link->doomed || link->peer_died ||
           (link->control.lane && whi_control_hung_up(&link->control));
}

void whi_link_lost(whi_link *link, wh_status why) {
    if (link->dead)
        return;
    if (why == WH_EPEER && link->closing)
        whi_link_drop(link);
    else if (why == WH_EPEER)
        whi_link_fail(link, why, "%s", "the peer died or the connection to it was lost");
    else if (why == WH_EPROTOCOL)
        whi_link_fail(link, why, "%s", wh_status_text(why));
    else
        whi_link_fail(link, why, "the %s lane failed: %s", link->rx->ops->name,
                      wh_status_text(why));
}

static void end_doomed(whi_deferred *deferred) {
    whi_link *link = whi_container_of(deferred, whi_link, doom);
    if (link->dead)
        return;
    if (link->doomed == WH_EPEER && link->rx == link->tx) {
        // The peer takes nothing more.  What it said before it went may be its good-bye: the lane, when it has been read,
        // will say that this was all.
        whi_link_heat(link);
        return;
    }
    whi_link_lost(link, link->doomed);
}

void whi_link_doom(whi_link *link, wh_status why) {
    if (link->dead || link->doomed)
        return;
    link->doomed = why;
    // Queued before the memory of the link can be, so that it is still there when this runs.
    whi_worker_defer(link->worker, &link->doom, end_doomed);
}

static void free_deferred(whi_deferred *deferred);

static void free_link(whi_link *link) {
    link->deferred.fn = free_deferred;
    if (!whi_link_bulk_gone(link)) {
        // It gives the users' memory back first, for which it may wait for UCX; the peer is to hear of the end now.
        if (link->control.lane)
            link->tx = NULL;
        whi_control_close(&link->control);
        return;
    }
    if (link->fast && link->kind->close) {
        // The lane gives the users' memory back first, and the socket, which tells the peer that this is the end, follows what
        // the lane still sends.
        if (!link->lane_closing)
            link->kind->close(link);
        link->lane_closing = true;
        return;
    }
    if (link->fast)
        link->fast->ops->close(link->fast);
    if (!link->control.lane && link->tx)
        link->tx->ops->close(link->tx);  // one inside the process
    whi_control_close(&link->control);
    whi_queue_node *node;
    while ((node = whi_queue_pop(&link->controls)))
        whi_link_free_control(link->worker, node);
    free_memory(link);
}

static void free_deferred(whi_deferred *deferred) {
    free_link(whi_container_of(deferred, whi_link, deferred));
}

// forget takes a link that is over out of everything that could still use it.
static void forget(whi_link *link) {
    wh_worker *worker = link->worker;
    link->dead = true;
    if (whi_hash_get(&whi_links_of(worker)->links, key_of(link->uuid)) == link)
        (void)whi_hash_remove(&whi_links_of(worker)->links, key_of(link->uuid));
    whi_pollable_end(worker, &link->pollable);
    whi_control_unwatch(&link->control, worker);
    whi_timers_remove(&worker->timers, &link->lane_timer);
    whi_process_detach(link);
}

void whi_link_fail(whi_link *link, wh_status why, const char *format, ...) {
    if (link->dead)
        return;
    char what[256], sentence[448];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    snprintf(sentence, sizeof(sentence), "%s, over %s: %s", link->name,
             link->tx ? link->tx->ops->name : "no lane", what);
    link->failed = true;
    if (why == WH_EPEER)
        whi_log(WHI_INFO, "I-LNK-01", "%s", sentence);
    else
        whi_log_once_per(WHI_WARN, "W-LNK-02", 1, "%s", sentence);
    forget(link);
    whi_link_up_of(link)->ended(link, why, sentence);
    whi_worker_defer(link->worker, &link->deferred, free_deferred);
}

void whi_link_drop(whi_link *link) {
    if (link->dead)
        return;
    forget(link);
    whi_link_up_of(link)->ended(link, WH_ECLOSED, "the link was closed");
    whi_worker_defer(link->worker, &link->deferred, free_deferred);
}

void whi_link_close(whi_link *link) {
    if (link->dead)
        return;
    link->closing = true;
    whi_hdr hdr = {.cls = WHI_CLASS_BYE};
    whi_link_control(link, &hdr, NULL);
    if (!link->dead && !link->pollable.dirty && whi_link_up_of(link)->empty(link))
        whi_link_drop(link);
}

void whi_link_maybe_close(whi_link *link) {
    if (link->dead || link->closing || whi_link_up_of(link)->needed(link))
        return;
    whi_link_close(link);
}

wh_status whi_link_broken(const whi_link *link, const whi_hdr *hdr, const char *what) {
    whi_log_once_per(WHI_WARN, "W-PRT-01", 1, "%s: class 0x%02x, endpoint %u, number %u: %s",
                     link->name, hdr->cls, hdr->ep, hdr->seq, what);
    return WH_EPROTOCOL;
}

void whi_link_dump(const whi_link *link, FILE *file) {
    char text[96];
    link->tx->ops->describe(link->tx, text, sizeof(text));
    fprintf(file,
            "  link to %s: sends by %s (%s), receives by %s%s%s%s, %zu control records wait\n",
            link->name, link->tx->ops->name, text, link->rx->ops->name,
            link->pollable.hot ? ", polled" : "", link->pollable.dirty ? ", has output" : "",
            link->pollable.blocked ? " without space" : "", link->control_count);
    const whi_lane *bulk = whi_link_bulk(link);
    if (bulk) {
        bulk->ops->describe(bulk, text, sizeof(text));
        fprintf(file, "    large payloads by %s\n", text);
    }
    whi_link_up_of(link)->dump(link, file);
}
