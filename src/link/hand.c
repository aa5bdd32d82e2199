// SPDX-License-Identifier: BSD-3-Clause
//
// The accepting side of a handshake, see hand.h and docs/wire.md.
//
// Everything that arrives here may come from anybody.  A connection costs one fixed record, is given `handshake_timeout`, and
// there are at most `handshake_max` of them: beyond that the one that has waited longest for its first bytes makes room.
// The link is made only when the peer has confirmed.
#include "link/hand.h"

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

typedef struct whi_hand {
    wh_worker *worker;
    wh_listener *listener;  // NULL: came to the local name
    int fd;
    bool local;
    bool answered;  // the offer was good; waits for the confirmation
    uid_t uid;      // of a local peer, as the kernel says
    size_t got;
    uint8_t bytes[WHI_HELLO_SIZE];
    uint8_t offer[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
    uint8_t token[16];
    whi_hello peer;
    char name[80];
    whi_watch watch;
    whi_timer timer;
    whi_list node;
    whi_deferred deferred;
} whi_hand;

static const char *secret_of(const whi_hand *hand) {
    return hand->listener ? whi_listener_secret(hand->listener) : hand->worker->ctx->config.secret;
}

static bool has_secret(const whi_hand *hand) {
    return secret_of(hand)[0] != '\0';
}

static void free_hand(whi_deferred *deferred) {
    whi_free(whi_container_of(deferred, whi_hand, deferred));
}

// drop ends a handshake; `keep_fd` when a link has taken the socket.
static void drop(whi_hand *hand, bool keep_fd) {
    wh_worker *worker = hand->worker;
    if (!whi_list_linked(&hand->node))
        return;
    whi_worker_unwatch(worker, &hand->watch);
    if (!keep_fd)
        close(hand->fd);
    whi_timers_remove(&worker->timers, &hand->timer);
    whi_list_remove(&hand->node);
    whi_links_of(worker)->hand_count--;
    whi_worker_defer(worker, &hand->deferred, free_hand);
}

static wh_status send_hello(int fd, const whi_hello *hello, uint8_t bytes[WHI_HELLO_SIZE]) {
    whi_hello_encode(hello, bytes);
    // The socket is fresh and its buffer holds far more than this.
    return send(fd, bytes, WHI_HELLO_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) == WHI_HELLO_SIZE
               ? WH_OK
               : WH_EPEER;
}

// turn_away ends a handshake with a REJECT.
static void turn_away(whi_hand *hand, const whi_hello *hello) {
    uint8_t bytes[WHI_HELLO_SIZE];
    (void)send_hello(hand->fd, hello, bytes);
    // Unread bytes would turn the close into a reset, which can overtake the answer.
    shutdown(hand->fd, SHUT_WR);
    uint8_t rest[512];
    for (int i = 0; i < 16 && recv(hand->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++) {
    }
    drop(hand, false);
}

// reject says no, and why, and ends the handshake.  The sentence is read at both ends, so it names the
// two sides as the listener and the connecting one.  Each reason has a limit of its own in the log:
// a flood of one must not hide another, such as guesses of the secret.
#define reject(hand, status, ...)                                                                  \
    do {                                                                                           \
        static whi_log_limiter whi_limiter;                                                        \
        reject_limited((hand), &whi_limiter, (status), __VA_ARGS__);                               \
    } while (0)

static void reject_limited(whi_hand *hand, whi_log_limiter *limiter, wh_status status,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
static void reject_limited(whi_hand *hand, whi_log_limiter *limiter, wh_status status,
                           const char *format, ...) {
    whi_hello hello = {.step = WHI_HELLO_REJECT,
                       .version_min = WHI_PROTOCOL_VERSION_MIN,
                       .version_max = WHI_PROTOCOL_VERSION,
                       .status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(hello.text, sizeof(hello.text), format, args);
    va_end(args);
    if (whi_log_on(WHI_WARN))
        whi_log_write_limited(limiter, 1, WHI_WARN, "W-HND-01",
                              "a connection from %s was refused: %s", hand->name, hello.text);
    turn_away(hand, &hello);
}

wh_status whi_hello_mine(wh_worker *worker, whi_hello_step step, bool secret, whi_hello *hello) {
    const wh_context *ctx = worker->ctx;
    uint32_t lanes = whi_worker_lanes(worker, secret);
    *hello = (whi_hello){.step = (uint8_t)step,
                         .version_min = WHI_PROTOCOL_VERSION_MIN,
                         .version_max = WHI_PROTOCOL_VERSION,
                         .features = WHI_FEATURES_OWN | (ctx->barrier ? WHI_FEATURE_BARRIER : 0) |
                                     (ctx->rdma ? WHI_FEATURE_RDMA : 0) |
                                     (ctx->config.shm_read ? WHI_FEATURE_FETCH : 0),
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
static uid_t user_of(const whi_hand *hand, const whi_hello *peer) {
    return hand->local                                             ? hand->uid
           : whi_hello_same_host(peer, hand->worker->ctx->boot_id) ? peer->uid
                                                                   : geteuid();
}

static bool any_user(const whi_hand *hand) {
    return hand->listener ? whi_listener_any_user(hand->listener)
                          : hand->worker->ctx->config.local_uid == WHI_LOCAL_UID_ANY;
}

// check_offer says whether the peer may go on; it has rejected it otherwise.
static bool check_offer(whi_hand *hand) {
    const whi_hello *peer = &hand->peer;
    bool want = has_secret(hand), has = peer->flags & WHI_HELLO_HAS_SECRET;
    char ours[32], theirs[32];
    if (want != has) {
        reject(hand, WH_EAUTH, "the listener %s, the connecting side %s",
               want ? "asks for a secret" : "has no secret", has ? "has one" : "gives none");
        return false;
    }
    uint32_t lanes = whi_worker_lanes(hand->worker, want);
    if (!(peer->lanes & lanes)) {
        const char *why = whi_worker_ucx_why(hand->worker);
        whi_context_lane_names(lanes, ours, sizeof(ours));
        whi_context_lane_names(peer->lanes, theirs, sizeof(theirs));
        reject(hand, WH_ENOLANE,
               "no lane in common: lanes=%s at the listener, lanes=%s at the connecting side%s%s",
               ours, theirs, *why ? "; at the listener " : "", why);
        return false;
    }
    uid_t uid = user_of(hand, peer);
    if (uid != geteuid() && !any_user(hand)) {
        reject(hand, WH_EPERM,
               "a process of user %u may not connect to one of user %u; see the setting local_uid",
               (unsigned)uid, (unsigned)geteuid());
        return false;
    }
    if (peer->eager_max < WHI_EAGER_MIN || peer->chunk_max < WHI_CHUNK_MIN) {
        reject(hand, WH_EPROTOCOL, "limits that no side can work with");
        return false;
    }
    return true;
}

static void send_existing(whi_hand *hand) {
    whi_hello hello;
    uint8_t bytes[WHI_HELLO_SIZE];
    if (whi_hello_mine(hand->worker, WHI_HELLO_EXISTING, has_secret(hand), &hello) == WH_OK) {
        hello.listener = hand->listener ? whi_listener_id(hand->listener) : 0;
        (void)send_hello(hand->fd, &hello, bytes);
        shutdown(hand->fd, SHUT_WR);
    }
    drop(hand, false);
}

static void take_offer(whi_hand *hand) {
    wh_worker *worker = hand->worker;
    if (!check_offer(hand))
        return;
    const uint8_t *uuid = hand->peer.uuid;
    bool self = memcmp(uuid, worker->uuid, 16) == 0;
    const whi_link *link = self ? NULL : whi_link_find(worker, uuid);
    // Over a link that exists a listener's own secret must still be proven first.
    if (link ? whi_link_knows(link, secret_of(hand)) : !self && whi_dial_committed(worker, uuid)) {
        send_existing(hand);
        return;
    }
    whi_hello answer;
    wh_status st = whi_hello_mine(worker, WHI_HELLO_ANSWER, has_secret(hand), &answer);
    if (st == WH_OK)
        st = whi_random_bytes(hand->token, sizeof(hand->token));
    answer.listener = hand->listener ? whi_listener_id(hand->listener) : 0;
    answer.flags = has_secret(hand) ? WHI_HELLO_HAS_SECRET : 0;
    if (!hand->local && whi_hello_same_host(&hand->peer, worker->ctx->boot_id)) {
        memcpy(answer.token, hand->token, sizeof(answer.token));
        snprintf(answer.local_name, sizeof(answer.local_name), "%s", whi_local_name(worker));
    }
    memcpy(hand->offer, hand->bytes, WHI_HELLO_SIZE);
    whi_hello_encode(&answer, hand->answer);
    if (st == WH_OK && has_secret(hand))
        st = whi_hello_prove(secret_of(hand), WHI_ROLE_ACCEPTOR, hand->offer, hand->answer,
                             answer.mac);
    if (st != WH_OK || send_hello(hand->fd, &answer, hand->answer) != WH_OK) {
        drop(hand, false);
        return;
    }
    hand->answered = true;
    hand->got = 0;
}

// make_link ends the handshake with a link over the socket of `hand`; `met` is the handshake that the peer began.
static void make_link(whi_hand *hand, whi_hand *met) {
    wh_worker *worker = hand->worker;
    whi_link *link = whi_link_find(worker, met->peer.uuid);
    if (link) {
        whi_link_learn(link, secret_of(met));
        send_existing(hand);
        if (met != hand)
            drop(met, false);
        return;
    }
    whi_hello ready;
    uint8_t bytes[WHI_HELLO_SIZE];
    if (whi_hello_mine(worker, WHI_HELLO_READY, has_secret(met), &ready) != WH_OK ||
        send_hello(hand->fd, &ready, bytes) != WH_OK) {
        drop(hand, false);
        drop(met, false);
        return;
    }
    char name[128];
    snprintf(name, sizeof(name), "%u@%.40s (%.60s)", met->peer.pid, met->peer.host, met->name);
    whi_worker_unwatch(worker, &hand->watch);  // the link watches it from now on
    if (!hand->local)
        whi_sock_keepalive(hand->fd, worker->ctx->config.peer_timeout);
    wh_status st = whi_link_new(worker, hand->fd, &met->peer, false, hand->local, name, &link);
    if (st == WH_OK) {
        whi_link_learn(link, secret_of(met));
        link->uid = user_of(hand, &met->peer);
        whi_peer_says(link->who, &met->peer, worker->ctx->boot_id);
        whi_peer_reached(link->who, met->fd);  // not the local socket that it may have gone over to
        if (hand->local)
            whi_peer_vouch(link->who, hand->fd);
    }
    // Their memory stays until the end of the pass.
    if (met != hand)
        drop(met, false);
    int fd = hand->fd;
    drop(hand, true);
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-HND-02", "no link to %s: %s", name, wh_status_text(st));
        close(fd);
        return;
    }
    whi_link_start(link);
    if (!link->dead)
        whi_dial_link_made(worker, link);
}

static whi_hand *find_token(const wh_worker *worker, const uint8_t token[16]) {
    whi_list_foreach(node, &whi_links_of(worker)->hands) {
        whi_hand *hand = whi_container_of(node, whi_hand, node);
        if (hand->answered && memcmp(hand->token, token, 16) == 0)
            return hand;
    }
    return NULL;
}

static void take_confirmation(whi_hand *hand, const whi_hello *confirm) {
    whi_hand *met = hand;
    if (hand->local && (confirm->flags & WHI_HELLO_LOCAL)) {
        met = find_token(hand->worker, confirm->token);
        if (!met) {
            reject(hand, WH_EPROTOCOL, "that token was not given out, or has expired");
            return;
        }
        if (hand->uid != geteuid() && !any_user(met)) {
            reject(hand, WH_EPERM, "a process of user %u may not connect to one of user %u",
                   (unsigned)hand->uid, (unsigned)geteuid());
            return;
        }
    } else if (!hand->answered) {
        reject(hand, WH_EPROTOCOL, "a confirmation without an offer");
        return;
    }
    if (whi_self_owns(hand->worker, met->peer.uuid)) {
        reject(hand, WH_EPROTOCOL, "the connecting side claims to be the listener's own worker");
        return;
    }
    const char *secret = secret_of(met);
    uint8_t mac[WHI_HELLO_MAC_SIZE];
    if (secret[0] &&
        (whi_hello_prove(secret, WHI_ROLE_CONNECTOR, met->offer, met->answer, mac) != WH_OK ||
         !whi_hello_proof_ok(mac, confirm->mac))) {
        reject(hand, WH_EAUTH, "the secret of the connecting side is another one");
        return;
    }
    uint32_t lanes = met->peer.lanes & whi_worker_lanes(hand->worker, has_secret(met));
    bool only_shm = lanes == WHI_LANE_SHM;
    // A link that exists has its lane: then this handshake was only about the secret.
    if (only_shm && !hand->local && !whi_link_find(hand->worker, met->peer.uuid)) {
        reject(hand, WH_ENOLANE,
               "lanes=shm, and the two sides do not share a host and network namespace");
        return;
    }
    make_link(hand, met);
}

static void take_record(whi_hand *hand) {
    whi_hello hello;
    wh_status st = whi_hello_decode(hand->bytes, &hello);
    if (st == WH_EVERSION) {
        reject(
            hand, st, "protocol versions %u to %u at the listener, %u to %u at the connecting side",
            WHI_PROTOCOL_VERSION_MIN, WHI_PROTOCOL_VERSION, hello.version_min, hello.version_max);
    } else if (st != WH_OK) {
        whi_log_once_per(WHI_WARN, "W-HND-03", 1, "bytes from %s are not a Wherry handshake",
                         hand->name);
        drop(hand, false);
    } else if (hello.step == WHI_HELLO_OFFER && !hand->answered) {
        hand->peer = hello;
        take_offer(hand);
    } else if (hello.step == WHI_HELLO_CONFIRM) {
        take_confirmation(hand, &hello);
    } else {
        reject(hand, WH_EPROTOCOL, "step %u of the handshake came out of turn", hello.step);
    }
}

static void on_readable(whi_watch *watch, uint32_t events) {
    (void)events;
    whi_hand *hand = whi_container_of(watch, whi_hand, watch);
    ssize_t n = recv(hand->fd, hand->bytes + hand->got, WHI_HELLO_SIZE - hand->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(hand, false);
        return;
    }
    hand->got += (size_t)n;
    // Rubbish is seen by its first bytes, without waiting for a whole record of it.
    static const char magic[] = "WHERRY\r\n";
    size_t seen = hand->got < 8 ? hand->got : 8;
    if (memcmp(hand->bytes, magic, seen) != 0) {
        whi_log_once_per(WHI_WARN, "W-HND-03", 1, "bytes from %s are not a Wherry handshake",
                         hand->name);
        drop(hand, false);
        return;
    }
    if (hand->got == WHI_HELLO_SIZE) {
        hand->got = 0;
        take_record(hand);
    }
}

static void on_timeout(whi_timer *timer, void *arg) {
    (void)timer;
    whi_hand *hand = arg;
    whi_log_once_per(WHI_WARN, "W-HND-04", 1, "%s did not finish its handshake in time",
                     hand->name);
    drop(hand, false);
}

// make_room drops the handshake that has waited longest for its offer, or, when all have made one, the oldest: whoever
// fills all places must not be able to keep them.
static void make_room(wh_worker *worker) {
    whi_hand *victim =
        whi_container_of(whi_list_first(&whi_links_of(worker)->hands), whi_hand, node);
    whi_list_foreach(node, &whi_links_of(worker)->hands) {
        whi_hand *hand = whi_container_of(node, whi_hand, node);
        if (!hand->answered) {
            victim = hand;
            break;
        }
    }
    whi_log_once_per(
        WHI_WARN, "W-HND-06", 1,
        "more than handshake_max=%llu connections are in their handshake; the one from "
        "%s makes room",
        (unsigned long long)worker->ctx->config.handshake_max, victim->name);
    whi_hello why = {.step = WHI_HELLO_REJECT,
                     .version_min = WHI_PROTOCOL_VERSION_MIN,
                     .version_max = WHI_PROTOCOL_VERSION,
                     .status = WH_ELIMIT};
    snprintf(why.text, sizeof(why.text),
             "more than handshake_max=%llu connections are in their handshake at the listener",
             (unsigned long long)worker->ctx->config.handshake_max);
    turn_away(victim, &why);
}

static void start(wh_worker *worker, int fd, wh_listener *listener) {
    if (whi_links_of(worker)->hand_count >= worker->ctx->config.handshake_max)
        make_room(worker);
    whi_hand *hand = whi_links_of(worker)->hand_count < worker->ctx->config.handshake_max
                         ? whi_calloc(1, sizeof(*hand))
                         : NULL;
    pid_t pid = 0;
    if (!hand) {
        close(fd);
        return;
    }
    hand->worker = worker;
    hand->listener = listener;
    hand->local = !listener;
    hand->fd = fd;
    hand->watch.fn = on_readable;
    whi_list_init(&hand->node);
    whi_timer_init(&hand->timer, on_timeout, hand);
    if (hand->local && !whi_sock_peer_of(fd, &pid, &hand->uid)) {
        close(fd);
        whi_free(hand);
        return;
    }
    whi_sock_name(fd, hand->name, sizeof(hand->name));
    if (whi_worker_watch(worker, &hand->watch, fd, EPOLLIN) != WH_OK) {
        close(fd);
        whi_free(hand);
        return;
    }
    whi_list_push_back(&whi_links_of(worker)->hands, &hand->node);
    whi_links_of(worker)->hand_count++;
    whi_timers_add(&worker->timers, &hand->timer,
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

bool whi_hand_accept_all(wh_worker *worker, int fd, wh_listener *listener) {
    enum { BATCH = 64 };  // per look, so that a flood of connections leaves time for messages
    for (int i = 0; i < BATCH; i++) {
        int conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (conn < 0)
            return !cannot_take(errno);
        start(worker, conn, listener);
    }
    return true;
}

bool whi_hand_pending(const wh_worker *worker, const uint8_t uuid[16]) {
    whi_list_foreach(node, &whi_links_of(worker)->hands) {
        const whi_hand *hand = whi_container_of(node, whi_hand, node);
        if (hand->answered && memcmp(hand->peer.uuid, uuid, 16) == 0)
            return true;
    }
    return false;
}

void whi_hand_drop_all(wh_worker *worker, const wh_listener *listener) {
    whi_list_foreach(node, &whi_links_of(worker)->hands) {
        whi_hand *hand = whi_container_of(node, whi_hand, node);
        if (!listener || hand->listener == listener)
            drop(hand, false);
    }
}
