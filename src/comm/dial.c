// SPDX-License-Identifier: BSD-3-Clause
//
// The connecting side, see dial.h and docs/wire.md.
//
// A dial goes through its addresses until one answers, proves itself, moves to the peer's local socket when both share a
// host, and confirms.  When both sides dial at once, the connection whose connector has the smaller uuid wins on both: the
// other dial parks until that link is there.  A dial that finds a living link uses it.
#include "comm/dial.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/address.h"
#include "comm/endpoint.h"
#include "comm/hand.h"
#include "comm/resolve.h"
#include "comm/sock.h"
#include "comm/ucx.h"

#define PARK_NS (20 * WHI_NS_PER_MS)        // between two looks of a parked dial
#define LEAST_TRY_NS (200 * WHI_NS_PER_MS)  // one address gets at least this of the time
enum { RETRIES = 3 };

typedef enum dial_state {
    DIAL_NEW,
    DIAL_RESOLVING,
    DIAL_CONNECTING,
    DIAL_OFFERED,
    DIAL_CONFIRMED,
    DIAL_PARKED,
    DIAL_BOUND,  // the endpoint is being opened on a link
} dial_state;

struct whi_dial {
    wh_worker *worker;
    wh_endpoint *ep;
    dial_state state;
    int fd;      // -1: none
    int tcp_fd;  // the socket that `fd` has replaced; -1: none
    bool local;  // fd is the peer's local socket
    whi_watch watch;
    whi_timer timer;       // of this attempt, or of the next look when parked
    uint64_t deadline_ns;  // of the whole
    whi_resolve *resolve;
    whi_sockaddr addrs[WHI_ADDRESSES_MAX];
    size_t count, next;
    char local_name[WHI_LOCAL_NAME_MAX];  // of a blob of this host: tried first
    bool local_tried;
    char target[128];  // for people
    char *secret;
    size_t got;
    uint8_t bytes[WHI_HELLO_SIZE], offer[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
    whi_hello peer;
    wh_status error;  // of the last attempt
    char sentence[256];
    whi_list node;
    whi_deferred deferred;
};

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

void whi_dial_drop_ep(wh_endpoint *ep) {
    whi_dial *dial = ep->dial;
    if (!dial)
        return;
    ep->dial = NULL;
    close_fd(dial);
    whi_timers_remove(&dial->worker->timers, &dial->timer);
    whi_list_remove(&dial->node);
    whi_worker_defer(dial->worker, &dial->deferred, free_dial);
}

// give_up ends the endpoint with the error of the last attempt.
static void give_up(whi_dial *dial, wh_status status, const char *sentence) {
    char text[448];
    snprintf(text, sizeof(text), "connecting to %s: %s", dial->target, sentence);
    whi_log(WHI_DEBUG, "D-DIAL-01", "%s", text);
    whi_ep_end(dial->ep, status, text);
}

// attempt_failed goes on with the next address.
static void attempt_failed(whi_dial *dial, wh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void attempt_failed(whi_dial *dial, wh_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(dial->sentence, sizeof(dial->sentence), format, args);
    va_end(args);
    dial->error = status;
    close_fd(dial);
    try_next(dial);
}

static void set_timer(whi_dial *dial, uint64_t ns) {
    uint64_t when = whi_clock_ns() + ns;
    whi_timers_add(&dial->worker->timers, &dial->timer,
                   when < dial->deadline_ns ? when : dial->deadline_ns);
}

static void bind_to(whi_dial *dial, whi_link *link) {
    close_fd(dial);
    dial->state = DIAL_BOUND;
    whi_timers_add(&dial->worker->timers, &dial->timer, dial->deadline_ns);
    whi_ep_bind(dial->ep, link);
}

// use goes over to a link that was made by another handshake, once this dial's secret is proven too.
static void use(whi_dial *dial, whi_link *link) {
    close_fd(dial);
    if (whi_link_knows(link, dial->secret))
        bind_to(dial, link);
    else
        start_attempts(dial);
}

// park waits for a link to the peer that somebody else is making.
static void park(whi_dial *dial) {
    close_fd(dial);
    whi_link *link = whi_link_find(dial->worker, dial->peer.uuid);
    if (link) {
        use(dial, link);
        return;
    }
    dial->state = DIAL_PARKED;
    set_timer(dial, PARK_NS);
}

void whi_dial_link_made(wh_worker *worker, whi_link *link) {
    whi_list_foreach(node, &worker->dials) {
        whi_dial *dial = whi_container_of(node, whi_dial, node);
        if (dial->state == DIAL_PARKED && memcmp(dial->peer.uuid, link->uuid, 16) == 0)
            use(dial, link);
    }
}

bool whi_dial_committed(const wh_worker *worker, const uint8_t uuid[16]) {
    whi_list_foreach(node, &worker->dials) {
        const whi_dial *dial = whi_container_of(node, whi_dial, node);
        if (dial->state == DIAL_CONFIRMED && memcmp(dial->peer.uuid, uuid, 16) == 0)
            return true;
    }
    return false;
}

static bool has_secret(const whi_dial *dial) {
    return dial->secret[0] != '\0';
}

static bool send_record(whi_dial *dial, const uint8_t bytes[WHI_HELLO_SIZE]) {
    return send(dial->fd, bytes, WHI_HELLO_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) == WHI_HELLO_SIZE;
}

static void send_offer(whi_dial *dial) {
    whi_hello hello;
    wh_status st = whi_hello_mine(dial->worker, WHI_HELLO_OFFER, has_secret(dial), &hello);
    if (st == WH_OK && !hello.lanes) {
        give_up(dial, WH_ENOLANE, whi_worker_ucx_why(dial->worker));
        return;
    }
    if (has_secret(dial))
        hello.flags |= WHI_HELLO_HAS_SECRET;
    whi_hello_encode(&hello, dial->offer);
    if (st != WH_OK || !send_record(dial, dial->offer)) {
        attempt_failed(dial, st != WH_OK ? st : WH_EPEER, "the connection was lost at once");
        return;
    }
    dial->state = DIAL_OFFERED;
    dial->got = 0;
    whi_worker_rewatch(dial->worker, &dial->watch, EPOLLIN);
}

static void confirm(whi_dial *dial) {
    whi_hello hello;
    uint8_t bytes[WHI_HELLO_SIZE];
    wh_status st = whi_hello_mine(dial->worker, WHI_HELLO_CONFIRM, has_secret(dial), &hello);
    if (dial->tcp_fd >= 0) {  // the offer went over the socket that the local one replaces
        hello.flags |= WHI_HELLO_LOCAL;
        memcpy(hello.token, dial->peer.token, sizeof(hello.token));
    }
    if (st == WH_OK && has_secret(dial))
        st =
            whi_hello_prove(dial->secret, WHI_ROLE_CONNECTOR, dial->offer, dial->answer, hello.mac);
    whi_hello_encode(&hello, bytes);
    if (st != WH_OK || !send_record(dial, bytes)) {
        attempt_failed(dial, st != WH_OK ? st : WH_EPEER,
                       "the connection was lost in the handshake");
        return;
    }
    dial->state = DIAL_CONFIRMED;
    dial->got = 0;
}

// upgrade replaces the TCP socket by the peer's local one.  False: it stays as it is.
static bool upgrade(whi_dial *dial) {
    int fd;
    pid_t pid;
    uid_t uid;
    if (whi_sock_connect_local(dial->peer.local_name, &fd) != WH_OK)
        return false;
    bool any = dial->worker->ctx->config.local_uid == WHI_LOCAL_UID_ANY;
    if (!whi_sock_peer_of(fd, &pid, &uid) || (uid != geteuid() && !any)) {
        close(fd);
        return false;
    }
    int tcp = dial->fd;
    whi_worker_unwatch(dial->worker, &dial->watch);
    if (whi_worker_watch(dial->worker, &dial->watch, fd, EPOLLIN) != WH_OK) {
        close(fd);
        // Without a watch the timer ends this attempt, and the next one begins anew.
        return false;
    }
    // The TCP socket stays until the link is there: the peer's record of the handshake hangs on it.
    dial->tcp_fd = tcp;
    whi_fdset_add(&dial->worker->watched, tcp);  // though it is not: so that no child keeps it
    dial->fd = fd;
    dial->local = true;
    return true;
}

static bool proven(whi_dial *dial) {
    bool has = dial->peer.flags & WHI_HELLO_HAS_SECRET;
    uint8_t mac[WHI_HELLO_MAC_SIZE];
    if (has != has_secret(dial)) {
        give_up(dial, WH_EAUTH,
                has ? "that side asks for a secret and this side has none"
                    : "this side has a secret and that side has none");
        return false;
    }
    if (!has)
        return true;
    if (whi_hello_prove(dial->secret, WHI_ROLE_ACCEPTOR, dial->offer, dial->answer, mac) == WH_OK &&
        whi_hello_proof_ok(mac, dial->peer.mac))
        return true;
    give_up(dial, WH_EAUTH, "the secret of that side is another one");
    return false;
}

// workable says whether what the peer offers can be worked with; it has given up otherwise.
static bool workable(whi_dial *dial, uint32_t lanes) {
    char ours[32], theirs[32], text[400];
    if (dial->peer.eager_max < WHI_EAGER_MIN || dial->peer.chunk_max < WHI_CHUNK_MIN) {
        give_up(dial, WH_EPROTOCOL, "that side has limits that no side can work with");
        return false;
    }
    if (lanes)
        return true;
    const char *why = whi_worker_ucx_why(dial->worker);
    whi_context_lane_names(whi_worker_lanes(dial->worker, has_secret(dial)), ours, sizeof(ours));
    whi_context_lane_names(dial->peer.lanes, theirs, sizeof(theirs));
    snprintf(text, sizeof(text), "no lane in common: lanes=%s here, lanes=%s there%s%s", ours,
             theirs, *why ? "; here " : "", why);
    give_up(dial, WH_ENOLANE, text);
    return false;
}

static void take_answer(whi_dial *dial) {
    wh_worker *worker = dial->worker;
    memcpy(dial->answer, dial->bytes, WHI_HELLO_SIZE);
    if (!proven(dial))
        return;
    dial->ep->listener_id = dial->peer.listener;
    const uint8_t *uuid = dial->peer.uuid;
    int order = memcmp(worker->uuid, uuid, 16);
    whi_link *link = whi_link_find(worker, uuid);
    if (order == 0) {
        wh_status st = whi_self_link(worker, dial->secret, &link);
        if (st != WH_OK) {
            give_up(dial, st, "no link of the worker to itself");
            return;
        }
    }
    if (link && whi_link_knows(link, dial->secret)) {
        bind_to(dial, link);
        return;
    }
    if (link) {
        // The link was made with another secret: prove this one, and be told to use the link.
        confirm(dial);
        return;
    }
    // Both dial at once: the smaller uuid's connection wins, and the other side sees the same.  A second dial
    // of our own to the same peer waits for the first.
    if ((order > 0 && whi_hand_pending(worker, uuid)) || whi_dial_committed(worker, uuid)) {
        park(dial);
        return;
    }
    uint32_t lanes = whi_worker_lanes(worker, has_secret(dial)) & dial->peer.lanes;
    if (!workable(dial, lanes))
        return;
    bool here = dial->local;
    if (!here && (lanes & WHI_LANE_SHM) && dial->peer.local_name[0])
        here = upgrade(dial);
    if (lanes == WHI_LANE_SHM && !here) {
        give_up(dial, WH_ENOLANE,
                "lanes=shm, and the two sides do not share a host and network namespace");
        return;
    }
    confirm(dial);
}

static void take_ready(whi_dial *dial) {
    wh_worker *worker = dial->worker;
    char name[128], address[80];
    whi_sock_name(dial->tcp_fd >= 0 ? dial->tcp_fd : dial->fd, address, sizeof(address));
    snprintf(name, sizeof(name), "%u@%.40s (%.60s)", dial->peer.pid, dial->peer.host, address);
    int fd = dial->fd;
    pid_t pid;
    whi_worker_unwatch(worker, &dial->watch);
    dial->fd = -1;
    if (!dial->local)
        whi_sock_keepalive(fd, worker->ctx->config.peer_timeout);
    whi_link *link = NULL;
    wh_status st = whi_link_new(worker, fd, &dial->peer, true, dial->local, name, &link);
    if (st != WH_OK) {
        close(fd);
        give_up(dial, st, "no link to the peer");
        return;
    }
    whi_link_learn(link, dial->secret);
    if (dial->local)
        (void)whi_sock_peer_of(fd, &pid, &link->uid);
    whi_link_start(link);
    if (link->dead) {
        attempt_failed(dial, WH_EPEER, "the connection was lost while the link was set up");
        return;
    }
    bind_to(dial, link);
    whi_dial_link_made(worker, link);
}

// take_existing goes over to the link that both sides have.
static void take_existing(whi_dial *dial, const whi_hello *hello) {
    whi_link *link = whi_link_find(dial->worker, hello->uuid);
    if (link && dial->state == DIAL_CONFIRMED && memcmp(dial->peer.uuid, hello->uuid, 16) == 0)
        whi_link_learn(link, dial->secret);  // proven both ways just now
    if (link && !whi_link_knows(link, dial->secret)) {
        give_up(dial, WH_EAUTH, "the secret of that side is another one");
        return;
    }
    memcpy(dial->peer.uuid, hello->uuid, 16);
    dial->ep->listener_id = hello->listener;
    park(dial);
}

static void take_record(whi_dial *dial) {
    whi_hello hello;
    wh_status st = whi_hello_decode(dial->bytes, &hello);
    if (st == WH_EVERSION) {
        char text[128];
        snprintf(text, sizeof(text), "protocol versions %u to %u here, %u to %u there",
                 WHI_PROTOCOL_VERSION_MIN, WHI_PROTOCOL_VERSION, hello.version_min,
                 hello.version_max);
        give_up(dial, st, text);
    } else if (st != WH_OK) {
        give_up(dial, WH_EPROTOCOL, "what listens there is not Wherry");
    } else if (hello.step == WHI_HELLO_REJECT) {
        bool known = hello.status <= WH_EINVAL && hello.status >= WHI_STATUS_LAST;
        give_up(dial, known ? (wh_status)hello.status : WH_EREFUSED, hello.text);
    } else if (hello.step == WHI_HELLO_EXISTING) {
        take_existing(dial, &hello);
    } else if (hello.step == WHI_HELLO_ANSWER && dial->state == DIAL_OFFERED) {
        dial->peer = hello;
        take_answer(dial);
    } else if (hello.step == WHI_HELLO_READY && dial->state == DIAL_CONFIRMED) {
        take_ready(dial);
    } else {
        give_up(dial, WH_EPROTOCOL, "the handshake is out of turn");
    }
}

static void on_readable(whi_dial *dial) {
    ssize_t n = recv(dial->fd, dial->bytes + dial->got, WHI_HELLO_SIZE - dial->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (dial->state == DIAL_CONFIRMED && whi_hand_pending(dial->worker, dial->peer.uuid))
            park(dial);  // the peer goes by its own connection
        else
            attempt_failed(dial, WH_EPEER, "the connection was closed in the handshake");
        return;
    }
    dial->got += (size_t)n;
    if (dial->got == WHI_HELLO_SIZE) {
        dial->got = 0;
        take_record(dial);
    }
}

static void on_resolved(whi_dial *dial) {
    dial->count = whi_resolve_take(dial->resolve, dial->addrs);
    close_fd(dial);
    if (!dial->count) {
        give_up(dial, WH_EADDRESS, "the name does not resolve");
        return;
    }
    start_attempts(dial);
}

static void on_event(whi_watch *watch, uint32_t events) {
    (void)events;
    whi_dial *dial = whi_container_of(watch, whi_dial, watch);
    if (dial->state == DIAL_RESOLVING) {
        on_resolved(dial);
    } else if (dial->state == DIAL_CONNECTING) {
        wh_status st = whi_sock_connected(dial->fd);
        if (st == WH_OK)
            send_offer(dial);
        else
            attempt_failed(dial, st, "%s", wh_status_text(st));
    } else {
        on_readable(dial);
    }
}

static void on_timer(whi_timer *timer, void *arg) {
    (void)timer;
    whi_dial *dial = arg;
    if (whi_clock_ns() >= dial->deadline_ns) {
        const char *what = dial->state == DIAL_RESOLVING ? "the name was not resolved in time"
                           : dial->state == DIAL_CONNECTING
                               ? "nothing answered in time"
                               : "the handshake did not finish in time";
        give_up(dial, WH_ETIMEDOUT, what);
        return;
    }
    if (dial->state == DIAL_NEW) {
        start_attempts(dial);
        return;
    }
    if (dial->state == DIAL_PARKED) {
        bool coming = whi_hand_pending(dial->worker, dial->peer.uuid) ||
                      whi_dial_committed(dial->worker, dial->peer.uuid);
        if (coming || whi_link_find(dial->worker, dial->peer.uuid))
            park(dial);
        else
            start_attempts(dial);
        return;
    }
    attempt_failed(dial, WH_ETIMEDOUT, "nothing answered in time");
}

// share_of returns the time that the next attempt may take, so that each address has its turn.
static uint64_t share_of(const whi_dial *dial) {
    uint64_t now = whi_clock_ns();
    uint64_t left = now < dial->deadline_ns ? dial->deadline_ns - now : 0;
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
    send_offer(dial);
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
                dial->state = DIAL_CONNECTING;
                set_timer(dial, share_of(dial));
                return;
            }
            close(dial->fd);
            st = WH_ESYSTEM;
        }
        dial->fd = -1;
        dial->error = st;
        snprintf(dial->sentence, sizeof(dial->sentence), "%s", wh_status_text(st));
    }
    give_up(dial, dial->error, dial->sentence);
}

static void start_attempts(whi_dial *dial) {
    dial->next = 0;
    dial->local_tried = false;
    dial->error = WH_EUNREACHABLE;
    snprintf(dial->sentence, sizeof(dial->sentence), "there is no address to try");
    try_next(dial);
}

bool whi_dial_again(wh_endpoint *ep, wh_status why) {
    whi_dial *dial = ep->dial;
    if (!dial || dial->state != DIAL_BOUND || ep->retried >= RETRIES ||
        (why != WH_EPEER && why != WH_ECLOSED))
        return false;
    ep->retried++;
    whi_link_remove_ep(ep->link, ep);
    ep->link = NULL;
    dial->state = DIAL_PARKED;  // a moment later, when the old link is out of the way on both sides
    memset(dial->peer.uuid, 0, 16);
    set_timer(dial, WHI_NS_PER_MS);
    return true;
}

wh_status whi_dial_new(wh_worker *worker, const wh_endpoint_opts *opts, wh_endpoint **out,
                       whi_dial **made) {
    wh_endpoint *ep = NULL;
    whi_dial *dial = whi_calloc(1, sizeof(*dial));
    char *secret = whi_strdup(opts->secret ? opts->secret : worker->ctx->config.secret);
    if (!dial || !secret || whi_ep_new(worker, &ep) != WH_OK) {
        whi_free(dial);
        whi_free(secret);
        return WH_ENOMEM;
    }
    uint64_t timeout = opts->timeout_ms ? opts->timeout_ms : worker->ctx->config.connect_timeout;
    dial->worker = worker;
    dial->ep = ep;
    dial->secret = secret;
    dial->fd = dial->tcp_fd = -1;
    dial->watch.fd = -1;
    dial->watch.fn = on_event;
    dial->deadline_ns = whi_clock_ns() + timeout * WHI_NS_PER_MS;
    whi_timer_init(&dial->timer, on_timer, dial);
    whi_list_push_back(&worker->dials, &dial->node);
    ep->dial = dial;
    *out = ep;
    *made = dial;
    return WH_OK;
}

// begin_soon makes the first attempt in progress, so that even what fails at once is told there.
static void begin_soon(whi_dial *dial) {
    whi_timers_add(&dial->worker->timers, &dial->timer, 0);
}

wh_status whi_dial_host(whi_dial *dial, const char *address, const char *host, uint16_t port) {
    snprintf(dial->target, sizeof(dial->target), "%.100s", address);
    dial->count = whi_address_resolve(host, port, true, false, dial->addrs);
    if (dial->count) {
        begin_soon(dial);
        return WH_OK;
    }
    wh_status st = whi_resolve_start(host, port, &dial->resolve, &dial->fd);
    if (st == WH_OK)
        st = whi_worker_watch(dial->worker, &dial->watch, dial->fd, EPOLLIN);
    dial->state = DIAL_RESOLVING;
    whi_timers_add(&dial->worker->timers, &dial->timer, dial->deadline_ns);
    return st;
}

void whi_dial_blob(whi_dial *dial, const whi_blob *blob) {
    const wh_context *ctx = dial->worker->ctx;
    memcpy(dial->addrs, blob->addrs, sizeof(blob->addrs));
    dial->count = blob->count;
    memcpy(dial->peer.uuid, blob->uuid, 16);
    dial->ep->listener_id = blob->listener;
    if (memcmp(blob->boot_id, ctx->boot_id, 16) == 0 && (ctx->lanes & WHI_LANE_SHM))
        snprintf(dial->local_name, sizeof(dial->local_name), "%s", blob->local_name);
    snprintf(dial->target, sizeof(dial->target), "worker %02x%02x%02x%02x", blob->uuid[0],
             blob->uuid[1], blob->uuid[2], blob->uuid[3]);
    begin_soon(dial);
}
