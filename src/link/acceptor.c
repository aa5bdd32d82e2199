// SPDX-License-Identifier: BSD-3-Clause
//
// The accepting side of a handshake, see acceptor.h and docs/wire.md.
//
// Everything that arrives here may come from anybody.  A connection costs one fixed record, is given `handshake_timeout`, and
// there are at most `handshake_max` of them: beyond that the one that has waited longest for its first bytes is dropped.
// The link is made only when the peer has confirmed.
#include "link/acceptor.h"

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
#include "base/rng.h"
#include "link/dial.h"
#include "link/link.h"
#include "link/listener.h"
#include "link/local.h"
#include "link/sock.h"
#include "link/ucx.h"
#include "net/ucx/ucx.h"

typedef struct whi_acceptor {
    wh_worker *worker;
    wh_listener *listener;  // NULL: came to the local name
    int fd;
    bool local;
    bool answered;  // the hello was good; waits for the confirmation
    uid_t uid;      // of a local peer, as the kernel says
    size_t got;
    uint8_t bytes[WHI_HELLO_SIZE];
    uint8_t hello[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
    uint8_t token[16];
    whi_hello peer;
    char name[80];
    whi_watch watch;
    whi_timer timer;
    whi_list node;
    whi_deferred deferred;
} whi_acceptor;

static const char *secret_of(const whi_acceptor *acceptor) {
    return acceptor->listener ? whi_listener_secret(acceptor->listener)
                              : acceptor->worker->ctx->config.secret;
}

static bool has_secret(const whi_acceptor *acceptor) {
    return secret_of(acceptor)[0] != '\0';
}

static void free_acceptor(whi_deferred *deferred) {
    whi_free(whi_container_of(deferred, whi_acceptor, deferred));
}

// drop ends a handshake; `keep_fd` when a link has taken the socket.
static void drop(whi_acceptor *acceptor, bool keep_fd) {
    wh_worker *worker = acceptor->worker;
    if (!whi_list_linked(&acceptor->node))
        return;
    whi_worker_unwatch(worker, &acceptor->watch);
    if (!keep_fd)
        close(acceptor->fd);
    whi_timers_remove(&worker->timers, &acceptor->timer);
    whi_list_remove(&acceptor->node);
    whi_links_of(worker)->acceptor_count--;
    whi_worker_defer(worker, &acceptor->deferred, free_acceptor);
}

static wh_status send_hello(int fd, const whi_hello *hello, uint8_t bytes[WHI_HELLO_SIZE]) {
    whi_hello_encode(hello, bytes);
    // The socket is fresh and its buffer holds far more than this.
    return send(fd, bytes, WHI_HELLO_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) == WHI_HELLO_SIZE
               ? WH_OK
               : WH_EPEER;
}

// turn_away ends a handshake with a REJECT.
static void turn_away(whi_acceptor *acceptor, const whi_hello *hello) {
    uint8_t bytes[WHI_HELLO_SIZE];
    (void)send_hello(acceptor->fd, hello, bytes);
    // Unread bytes would turn the close into a reset, which can overtake the answer.
    shutdown(acceptor->fd, SHUT_WR);
    uint8_t rest[512];
    for (int i = 0; i < 16 && recv(acceptor->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++) {
    }
    drop(acceptor, false);
}

// reject says no, and why, and ends the handshake.  The sentence is read at both ends, so it names the
// two sides as the listener and the connecting one.  Each reason has a limit of its own in the log:
// a flood of one must not hide another, such as guesses of the secret.
#define reject(acceptor, status, ...)                                                              \
    do {                                                                                           \
        static whi_log_limiter whi_limiter;                                                        \
        reject_limited((acceptor), &whi_limiter, (status), __VA_ARGS__);                           \
    } while (0)

static void reject_limited(whi_acceptor *acceptor, whi_log_limiter *limiter, wh_status status,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
static void reject_limited(whi_acceptor *acceptor, whi_log_limiter *limiter, wh_status status,
                           const char *format, ...) {
    whi_hello hello = {.step = WHI_STEP_REJECT,
                       .version_min = WHI_PROTOCOL_VERSION_MIN,
                       .version_max = WHI_PROTOCOL_VERSION,
                       .status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(hello.text, sizeof(hello.text), format, args);
    va_end(args);
    if (whi_log_on(WHI_WARN))
        whi_log_write_limited(limiter, 1, WHI_WARN, "W-HND-01",
                              "a connection from %s was refused: %s", acceptor->name, hello.text);
    turn_away(acceptor, &hello);
}

wh_status whi_hello_mine(wh_worker *worker, whi_hello_step step, bool secret, whi_hello *hello) {
    const wh_context *ctx = worker->ctx;
    uint32_t lanes = whi_worker_lanes(worker, secret);
    *hello =
        (whi_hello){.step = (uint8_t)step,
                    .version_min = WHI_PROTOCOL_VERSION_MIN,
                    .version_max = WHI_PROTOCOL_VERSION,
                    .features = WHI_FEATURES_OWN | (ctx->barrier ? WHI_FEATURE_BARRIER : 0) |
                                (ctx->rdma ? WHI_FEATURE_RDMA : 0) |
                                (ctx->config.shm_read ? WHI_FEATURE_FETCH : 0) |
                                (whi_link_bulk_allowed(&ctx->config) ? WHI_FEATURE_BULK_LANE : 0),
                    .lanes = lanes,
                    .ucx_version = lanes & WHI_LANE_UCX ? whi_ucx_version() : 0,
                    .pid = (uint32_t)getpid(),
                    .uid = (uint32_t)geteuid(),
                    .eager_max = (uint32_t)worker->eager_max,
                    .chunk_max = (uint32_t)ctx->config.stream_chunk};
    memcpy(hello->uuid, worker->uuid, 16);
    memcpy(hello->boot_id, ctx->boot_id, 16);
    if (gethostname(hello->host, sizeof(hello->host) - 1) != 0)
        hello->host[0] = '\0';
    return whi_random_bytes(hello->nonce, sizeof(hello->nonce));
}

// user_of returns the peer's user when it is on this host, else ours: users of other machines are not compared.
static uid_t user_of(const whi_acceptor *acceptor, const whi_hello *peer) {
    return acceptor->local                                             ? acceptor->uid
           : whi_hello_same_host(peer, acceptor->worker->ctx->boot_id) ? peer->uid
                                                                       : geteuid();
}

static bool any_user(const whi_acceptor *acceptor) {
    return acceptor->listener ? whi_listener_any_user(acceptor->listener)
                              : acceptor->worker->ctx->config.local_uid == WHI_LOCAL_UID_ANY;
}

// check_hello says whether the peer may go on; it has rejected it otherwise.
static bool check_hello(whi_acceptor *acceptor) {
    const whi_hello *peer = &acceptor->peer;
    bool want = has_secret(acceptor), has = peer->flags & WHI_HELLO_HAS_SECRET;
    char ours[32], theirs[32];
    if (want != has) {
        reject(acceptor, WH_EAUTH, "the listener %s, the connecting side %s",
               want ? "asks for a secret" : "has no secret", has ? "has one" : "gives none");
        return false;
    }
    uint32_t lanes = whi_worker_lanes(acceptor->worker, want);
    if (!(peer->lanes & lanes)) {
        const char *why = whi_worker_ucx_why(acceptor->worker);
        whi_context_lane_names(lanes, ours, sizeof(ours));
        whi_context_lane_names(peer->lanes, theirs, sizeof(theirs));
        reject(acceptor, WH_ENOLANE,
               "no lane in common: lanes=%s at the listener, lanes=%s at the connecting side%s%s",
               ours, theirs, *why ? "; at the listener " : "", why);
        return false;
    }
    uid_t uid = user_of(acceptor, peer);
    if (uid != geteuid() && !any_user(acceptor)) {
        reject(acceptor, WH_EPERM,
               "a process of user %u may not connect to one of user %u; see the setting local_uid",
               (unsigned)uid, (unsigned)geteuid());
        return false;
    }
    if (peer->eager_max < WHI_EAGER_MIN || peer->chunk_max < WHI_CHUNK_MIN) {
        reject(acceptor, WH_EPROTOCOL, "limits that no side can work with");
        return false;
    }
    return true;
}

static void send_existing(whi_acceptor *acceptor) {
    whi_hello hello;
    uint8_t bytes[WHI_HELLO_SIZE];
    if (whi_hello_mine(acceptor->worker, WHI_STEP_EXISTING, has_secret(acceptor), &hello) ==
        WH_OK) {
        hello.listener = acceptor->listener ? whi_listener_id(acceptor->listener) : 0;
        (void)send_hello(acceptor->fd, &hello, bytes);
        shutdown(acceptor->fd, SHUT_WR);
    }
    drop(acceptor, false);
}

static void take_hello(whi_acceptor *acceptor) {
    wh_worker *worker = acceptor->worker;
    if (!check_hello(acceptor))
        return;
    const uint8_t *uuid = acceptor->peer.uuid;
    bool self = memcmp(uuid, worker->uuid, 16) == 0;
    const whi_link *link = self ? NULL : whi_link_find(worker, uuid);
    // Over a link that exists a listener's own secret must still be proven first.
    if (link ? whi_link_knows(link, secret_of(acceptor))
             : !self && whi_dial_committed(worker, uuid)) {
        send_existing(acceptor);
        return;
    }
    whi_hello answer;
    wh_status st = whi_hello_mine(worker, WHI_STEP_ANSWER, has_secret(acceptor), &answer);
    if (st == WH_OK)
        st = whi_random_bytes(acceptor->token, sizeof(acceptor->token));
    answer.listener = acceptor->listener ? whi_listener_id(acceptor->listener) : 0;
    answer.flags = has_secret(acceptor) ? WHI_HELLO_HAS_SECRET : 0;
    if (!acceptor->local && whi_hello_same_host(&acceptor->peer, worker->ctx->boot_id)) {
        memcpy(answer.token, acceptor->token, sizeof(answer.token));
        snprintf(answer.local_name, sizeof(answer.local_name), "%s", whi_local_name(worker));
    }
    memcpy(acceptor->hello, acceptor->bytes, WHI_HELLO_SIZE);
    whi_hello_encode(&answer, acceptor->answer);
    if (st == WH_OK && has_secret(acceptor))
        st = whi_hello_prove(secret_of(acceptor), WHI_ROLE_ACCEPTOR, acceptor->hello,
                             acceptor->answer, answer.mac);
    if (st != WH_OK || send_hello(acceptor->fd, &answer, acceptor->answer) != WH_OK) {
        drop(acceptor, false);
        return;
    }
    acceptor->answered = true;
    acceptor->got = 0;
}

// make_link ends the handshake with a link over the socket of `acceptor`; `met` is the handshake that the peer began.
static void make_link(whi_acceptor *acceptor, whi_acceptor *met) {
    wh_worker *worker = acceptor->worker;
    whi_link *link = whi_link_find(worker, met->peer.uuid);
    if (link) {
        whi_link_learn(link, secret_of(met));
        send_existing(acceptor);
        if (met != acceptor)
            drop(met, false);
        return;
    }
    whi_hello ready;
    uint8_t bytes[WHI_HELLO_SIZE];
    if (whi_hello_mine(worker, WHI_STEP_READY, has_secret(met), &ready) != WH_OK ||
        send_hello(acceptor->fd, &ready, bytes) != WH_OK) {
        drop(acceptor, false);
        drop(met, false);
        return;
    }
    char name[128];
    snprintf(name, sizeof(name), "%u@%.40s (%.60s)", met->peer.pid, met->peer.host, met->name);
    whi_worker_unwatch(worker, &acceptor->watch);  // the link watches it from now on
    if (!acceptor->local)
        whi_sock_keepalive(acceptor->fd, worker->ctx->config.peer_timeout);
    wh_status st =
        whi_link_new(worker, acceptor->fd, &met->peer, false, acceptor->local, name, &link);
    if (st == WH_OK) {
        whi_link_learn(link, secret_of(met));
        link->uid = user_of(acceptor, &met->peer);
        whi_peer_says(link->who, &met->peer, worker->ctx->boot_id);
        whi_peer_reached(link->who, met->fd);  // not the local socket that it may have gone over to
        if (acceptor->local)
            whi_peer_vouch(link->who, acceptor->fd);
    }
    // Their memory stays until the end of the pass.
    if (met != acceptor)
        drop(met, false);
    int fd = acceptor->fd;
    drop(acceptor, true);
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-HND-02", "no link to %s: %s", name, wh_status_text(st));
        close(fd);
        return;
    }
    whi_link_start(link);
    if (!link->dead)
        whi_dial_link_made(worker, link);
}

static whi_acceptor *find_token(const wh_worker *worker, const uint8_t token[16]) {
    whi_list_foreach(node, &whi_links_of(worker)->acceptors) {
        whi_acceptor *acceptor = whi_container_of(node, whi_acceptor, node);
        if (acceptor->answered && memcmp(acceptor->token, token, 16) == 0)
            return acceptor;
    }
    return NULL;
}

// given_up says whether the connecting side has hung up, so that nobody would hear what is answered.
static bool given_up(const whi_acceptor *acceptor) {
    char byte;
    return recv(acceptor->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void take_confirmation(whi_acceptor *acceptor, const whi_hello *confirm) {
    whi_acceptor *met = acceptor;
    if (acceptor->local && (confirm->flags & WHI_HELLO_LOCAL)) {
        met = find_token(acceptor->worker, confirm->token);
        if (!met && given_up(acceptor)) {
            // It has closed both of its sockets, since this worker was busy for too long, or as it has ended: the token went
            // with the other one.  It is the connecting side that knows whether its next attempt gets through.
            whi_log_once_per(WHI_DEBUG, "D-HND-07", 1, "%s hung up in the middle of its handshake",
                             acceptor->name);
            drop(acceptor, false);
            return;
        }
        if (!met) {
            reject(acceptor, WH_EPROTOCOL, "that token was not given out, or has expired");
            return;
        }
        if (acceptor->uid != geteuid() && !any_user(met)) {
            reject(acceptor, WH_EPERM, "a process of user %u may not connect to one of user %u",
                   (unsigned)acceptor->uid, (unsigned)geteuid());
            return;
        }
    } else if (!acceptor->answered) {
        reject(acceptor, WH_EPROTOCOL, "a confirmation without a hello");
        return;
    }
    if (whi_self_owns(acceptor->worker, met->peer.uuid)) {
        reject(acceptor, WH_EPROTOCOL,
               "the connecting side claims to be the listener's own worker");
        return;
    }
    const char *secret = secret_of(met);
    uint8_t mac[WHI_HELLO_MAC_SIZE];
    if (secret[0] &&
        (whi_hello_prove(secret, WHI_ROLE_CONNECTOR, met->hello, met->answer, mac) != WH_OK ||
         !whi_mac_equal(mac, confirm->mac))) {
        reject(acceptor, WH_EAUTH, "the secret of the connecting side is another one");
        return;
    }
    uint32_t lanes = met->peer.lanes & whi_worker_lanes(acceptor->worker, has_secret(met));
    bool only_shm = lanes == WHI_LANE_SHM;
    // A link that exists has its lane: then this handshake was only about the secret.
    if (only_shm && !acceptor->local && !whi_link_find(acceptor->worker, met->peer.uuid)) {
        reject(acceptor, WH_ENOLANE,
               "lanes=shm, and the two sides do not share a host and network namespace");
        return;
    }
    make_link(acceptor, met);
}

static void take_record(whi_acceptor *acceptor) {
    whi_hello hello;
    wh_status st = whi_hello_decode(acceptor->bytes, &hello);
    if (st == WH_EVERSION) {
        reject(acceptor, st,
               "protocol versions %u to %u at the listener, %u to %u at the connecting side",
               WHI_PROTOCOL_VERSION_MIN, WHI_PROTOCOL_VERSION, hello.version_min,
               hello.version_max);
    } else if (st != WH_OK) {
        whi_log_once_per(WHI_WARN, "W-HND-03", 1, "bytes from %s are not a Wherry handshake",
                         acceptor->name);
        drop(acceptor, false);
    } else if (hello.step == WHI_STEP_HELLO && !acceptor->answered) {
        acceptor->peer = hello;
        take_hello(acceptor);
    } else if (hello.step == WHI_STEP_CONFIRM) {
        take_confirmation(acceptor, &hello);
    } else {
        reject(acceptor, WH_EPROTOCOL, "step %u of the handshake came out of turn", hello.step);
    }
}

static void on_readable(whi_watch *watch, uint32_t events) {
    (void)events;
    whi_acceptor *acceptor = whi_container_of(watch, whi_acceptor, watch);
    ssize_t n = recv(acceptor->fd, acceptor->bytes + acceptor->got, WHI_HELLO_SIZE - acceptor->got,
                     MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(acceptor, false);
        return;
    }
    acceptor->got += (size_t)n;
    // Rubbish is seen by its first bytes, without waiting for a whole record of it.
    static const char magic[] = "WHERRY\r\n";
    size_t seen = acceptor->got < 8 ? acceptor->got : 8;
    if (memcmp(acceptor->bytes, magic, seen) != 0) {
        whi_log_once_per(WHI_WARN, "W-HND-03", 1, "bytes from %s are not a Wherry handshake",
                         acceptor->name);
        drop(acceptor, false);
        return;
    }
    if (acceptor->got == WHI_HELLO_SIZE) {
        acceptor->got = 0;
        take_record(acceptor);
    }
}

static void on_timeout(whi_timer *timer, void *arg) {
    (void)timer;
    whi_acceptor *acceptor = arg;
    whi_log_once_per(WHI_WARN, "W-HND-04", 1, "%s did not finish its handshake in time",
                     acceptor->name);
    drop(acceptor, false);
}

// drop_one drops the handshake that has waited longest for its hello, or, when all have sent one, the oldest: whoever
// fills all places must not be able to keep them.
static void drop_one(wh_worker *worker) {
    whi_acceptor *victim =
        whi_container_of(whi_list_first(&whi_links_of(worker)->acceptors), whi_acceptor, node);
    whi_list_foreach(node, &whi_links_of(worker)->acceptors) {
        whi_acceptor *acceptor = whi_container_of(node, whi_acceptor, node);
        if (!acceptor->answered) {
            victim = acceptor;
            break;
        }
    }
    whi_log_once_per(
        WHI_WARN, "W-HND-06", 1,
        "more than handshake_max=%llu connections are in their handshake; the one from "
        "%s is dropped",
        (unsigned long long)worker->ctx->config.handshake_max, victim->name);
    whi_hello why = {.step = WHI_STEP_REJECT,
                     .version_min = WHI_PROTOCOL_VERSION_MIN,
                     .version_max = WHI_PROTOCOL_VERSION,
                     .status = WH_ELIMIT};
    snprintf(why.text, sizeof(why.text),
             "more than handshake_max=%llu connections are in their handshake at the listener",
             (unsigned long long)worker->ctx->config.handshake_max);
    turn_away(victim, &why);
}

static void start(wh_worker *worker, int fd, wh_listener *listener) {
    if (whi_links_of(worker)->acceptor_count >= worker->ctx->config.handshake_max)
        drop_one(worker);
    whi_acceptor *acceptor =
        whi_links_of(worker)->acceptor_count < worker->ctx->config.handshake_max
            ? whi_calloc(1, sizeof(*acceptor))
            : NULL;
    pid_t pid = 0;
    if (!acceptor) {
        close(fd);
        return;
    }
    acceptor->worker = worker;
    acceptor->listener = listener;
    acceptor->local = !listener;
    acceptor->fd = fd;
    acceptor->watch.fn = on_readable;
    whi_list_init(&acceptor->node);
    whi_timer_init(&acceptor->timer, on_timeout, acceptor);
    if (acceptor->local && !whi_sock_peer_of(fd, &pid, &acceptor->uid)) {
        close(fd);
        whi_free(acceptor);
        return;
    }
    whi_sock_name(fd, acceptor->name, sizeof(acceptor->name));
    if (whi_worker_watch(worker, &acceptor->watch, fd, EPOLLIN) != WH_OK) {
        close(fd);
        whi_free(acceptor);
        return;
    }
    whi_list_push_back(&whi_links_of(worker)->acceptors, &acceptor->node);
    whi_links_of(worker)->acceptor_count++;
    whi_timers_add(&worker->timers, &acceptor->timer,
                   whi_clock_ns() + worker->ctx->config.handshake_timeout * WHI_NS_PER_MS);
}

// cannot_take says whether a connection that waits cannot be taken for want of something, and stays.
static bool cannot_take(int error) {
    bool descriptors = error == EMFILE || error == ENFILE;
    if (!descriptors && error != ENOBUFS && error != ENOMEM)
        return false;
    whi_log_once_per(WHI_ERROR, "E-HND-05", 5, "a connection waits, but %s",
                     descriptors ? "this process has no descriptors left; see ulimit -n"
                                 : "the system has no memory for it");
    return true;
}

static void end_pause(whi_timer *timer, void *arg) {
    (void)timer;
    whi_door *door = arg;
    whi_worker_rewatch(door->worker, &door->watch, EPOLLIN);
}

// pause_door stops looking for a moment at a socket that stays readable.
static void pause_door(whi_door *door) {
    enum { PAUSE_MS = 100 };
    whi_worker_rewatch(door->worker, &door->watch, 0);
    whi_timers_add(&door->worker->timers, &door->pause, whi_clock_ns() + PAUSE_MS * WHI_NS_PER_MS);
}

static void on_connection(whi_watch *watch, uint32_t events) {
    (void)events;
    enum { BATCH = 64 };  // per look, so that a flood of connections leaves time for messages
    whi_door *door = whi_container_of(watch, whi_door, watch);
    for (int i = 0; i < BATCH; i++) {
        int conn = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (conn < 0) {
            if (cannot_take(errno))
                pause_door(door);
            return;
        }
        start(door->worker, conn, door->listener);
    }
}

wh_status whi_door_open(whi_door *door, wh_worker *worker, int fd, wh_listener *listener) {
    *door = (whi_door){
        .worker = worker, .listener = listener, .fd = fd, .watch = {.fn = on_connection}};
    whi_timer_init(&door->pause, end_pause, door);
    return whi_worker_watch(worker, &door->watch, fd, EPOLLIN);
}

void whi_door_close(whi_door *door) {
    whi_worker_unwatch(door->worker, &door->watch);
    whi_timers_remove(&door->worker->timers, &door->pause);
    close(door->fd);
}

bool whi_acceptor_pending(const wh_worker *worker, const uint8_t uuid[16]) {
    whi_list_foreach(node, &whi_links_of(worker)->acceptors) {
        const whi_acceptor *acceptor = whi_container_of(node, whi_acceptor, node);
        if (acceptor->answered && memcmp(acceptor->peer.uuid, uuid, 16) == 0)
            return true;
    }
    return false;
}

void whi_acceptor_drop_all(wh_worker *worker, const wh_listener *listener) {
    whi_list_foreach(node, &whi_links_of(worker)->acceptors) {
        whi_acceptor *acceptor = whi_container_of(node, whi_acceptor, node);
        if (!listener || acceptor->listener == listener)
            drop(acceptor, false);
    }
}
