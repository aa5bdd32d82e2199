// SPDX-License-Identifier: BSD-3-Clause
//
// The connecting side's half of the handshake, see dialing.h and docs/wire.md.
//
// Hello, answer, confirm, ready: records of one size.  The peer's proof of the secret, if there is one, is looked at before
// anything else that it says.  Between answer and confirmation the socket may become the peer's local one.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/acceptor.h"
#include "link/dialing.h"
#include "link/sock.h"
#include "link/ucx.h"

static bool send_record(whi_dial *dial, const uint8_t bytes[WHI_HELLO_SIZE]) {
    return send(dial->fd, bytes, WHI_HELLO_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) == WHI_HELLO_SIZE;
}

void whi_dial_hello(whi_dial *dial) {
    whi_hello hello;
    wh_status st = whi_hello_mine(dial->worker, WHI_STEP_HELLO, whi_dial_has_secret(dial), &hello);
    if (st == WH_OK && !hello.lanes) {
        whi_dial_fail(dial, WH_ENOLANE, whi_worker_ucx_why(dial->worker));
        return;
    }
    if (whi_dial_has_secret(dial))
        hello.flags |= WHI_HELLO_HAS_SECRET;
    whi_hello_encode(&hello, dial->hello);
    if (st != WH_OK || !send_record(dial, dial->hello)) {
        whi_dial_attempt_failed(dial, st != WH_OK ? st : WH_EPEER,
                                "the connection was lost at once");
        return;
    }
    dial->state = WHI_DIAL_HELLO_SENT;
    dial->got = 0;
    whi_worker_rewatch(dial->worker, &dial->watch, EPOLLIN);
}

static void confirm(whi_dial *dial) {
    whi_hello hello;
    uint8_t bytes[WHI_HELLO_SIZE];
    wh_status st =
        whi_hello_mine(dial->worker, WHI_STEP_CONFIRM, whi_dial_has_secret(dial), &hello);
    if (dial->tcp_fd >= 0) {  // the hello went over the socket that the local one replaces
        hello.flags |= WHI_HELLO_LOCAL;
        memcpy(hello.token, dial->peer.token, sizeof(hello.token));
    }
    if (st == WH_OK && whi_dial_has_secret(dial))
        st =
            whi_hello_prove(dial->secret, WHI_ROLE_CONNECTOR, dial->hello, dial->answer, hello.mac);
    whi_hello_encode(&hello, bytes);
    if (st != WH_OK || !send_record(dial, bytes)) {
        whi_dial_attempt_failed(dial, st != WH_OK ? st : WH_EPEER,
                                "the connection was lost in the handshake");
        return;
    }
    dial->state = WHI_DIAL_CONFIRMED;
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
    if (has != whi_dial_has_secret(dial)) {
        whi_dial_fail(dial, WH_EAUTH,
                      has ? "that side asks for a secret and this side has none"
                          : "this side has a secret and that side has none");
        return false;
    }
    if (!has)
        return true;
    if (whi_hello_prove(dial->secret, WHI_ROLE_ACCEPTOR, dial->hello, dial->answer, mac) == WH_OK &&
        whi_mac_equal(mac, dial->peer.mac))
        return true;
    whi_dial_fail(dial, WH_EAUTH, "the secret of that side is another one");
    return false;
}

// workable says whether what the peer offers can be worked with; it has failed the dial otherwise.
static bool workable(whi_dial *dial, uint32_t lanes) {
    char ours[32], theirs[32], text[400];
    if (dial->peer.eager_max < WHI_EAGER_MIN || dial->peer.chunk_max < WHI_CHUNK_MIN) {
        whi_dial_fail(dial, WH_EPROTOCOL, "that side has limits that no side can work with");
        return false;
    }
    if (lanes)
        return true;
    const char *why = whi_worker_ucx_why(dial->worker);
    whi_context_lane_names(whi_worker_lanes(dial->worker, whi_dial_has_secret(dial)), ours,
                           sizeof(ours));
    whi_context_lane_names(dial->peer.lanes, theirs, sizeof(theirs));
    snprintf(text, sizeof(text), "no lane in common: lanes=%s here, lanes=%s there%s%s", ours,
             theirs, *why ? "; here " : "", why);
    whi_dial_fail(dial, WH_ENOLANE, text);
    return false;
}

// is_meant says whether a worker that answers is the one that is asked for; it has gone on to the next address otherwise.  The
// port of one that has ended may be another's, and an address of its host may be one of another host's, too.
static bool is_meant(whi_dial *dial, const uint8_t uuid[16]) {
    if (!dial->by_blob || memcmp(dial->blob_uuid, uuid, 16) == 0)
        return true;
    whi_dial_attempt_failed(dial, WH_EREFUSED,
                            "another worker listens there, not that of the address blob");
    return false;
}

static void take_answer(whi_dial *dial) {
    wh_worker *worker = dial->worker;
    memcpy(dial->answer, dial->bytes, WHI_HELLO_SIZE);
    if (!is_meant(dial, dial->peer.uuid) || !proven(dial))
        return;
    dial->listener = dial->peer.listener;
    const uint8_t *uuid = dial->peer.uuid;
    int order = memcmp(worker->uuid, uuid, 16);
    whi_link *link = whi_link_find(worker, uuid);
    if (order == 0) {
        wh_status st = whi_self_link(worker, dial->secret, dial->fd, &link);
        if (st != WH_OK) {
            whi_dial_fail(dial, st, "no link of the worker to itself");
            return;
        }
    }
    if (link && whi_link_knows(link, dial->secret)) {
        whi_dial_found(dial, link);
        return;
    }
    if (link) {
        // The link was made with another secret: prove this one, and be told to use the link.
        confirm(dial);
        return;
    }
    // Both dial at once: the smaller uuid's connection wins, and the other side sees the same.  A second dial
    // of our own to the same peer waits for the first.
    if ((order > 0 && whi_acceptor_pending(worker, uuid)) || whi_dial_committed(worker, uuid)) {
        whi_dial_park(dial);
        return;
    }
    uint32_t lanes = whi_worker_lanes(worker, whi_dial_has_secret(dial)) & dial->peer.lanes;
    if (!workable(dial, lanes))
        return;
    bool here = dial->local;
    if (!here && (lanes & WHI_LANE_SHM) && dial->peer.local_name[0])
        here = upgrade(dial);
    if (lanes == WHI_LANE_SHM && !here) {
        whi_dial_fail(dial, WH_ENOLANE,
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
        whi_dial_fail(dial, st, "no link to the peer");
        return;
    }
    whi_link_learn(link, dial->secret);
    whi_peer_says(link->who, &dial->peer, worker->ctx->boot_id);
    whi_peer_reached(link->who, dial->tcp_fd >= 0 ? dial->tcp_fd : fd);
    if (dial->local) {
        (void)whi_sock_peer_of(fd, &pid, &link->uid);
        whi_peer_vouch(link->who, fd);
    } else if (whi_hello_same_host(&dial->peer, worker->ctx->boot_id)) {
        link->uid = dial->peer.uid;  // its word, as of those that dial us
    }
    whi_link_start(link);
    if (link->dead) {
        whi_dial_attempt_failed(dial, WH_EPEER,
                                "the connection was lost while the link was set up");
        return;
    }
    whi_dial_found(dial, link);
    whi_dial_link_made(worker, link);  // unless nobody could use it and it is closed
}

// take_existing goes over to the link that both sides have.
static void take_existing(whi_dial *dial, const whi_hello *hello) {
    if (!is_meant(dial, hello->uuid))
        return;
    whi_link *link = whi_link_find(dial->worker, hello->uuid);
    if (link && dial->state == WHI_DIAL_CONFIRMED && memcmp(dial->peer.uuid, hello->uuid, 16) == 0)
        whi_link_learn(link, dial->secret);  // proven both ways just now
    if (link && !whi_link_knows(link, dial->secret)) {
        whi_dial_fail(dial, WH_EAUTH, "the secret of that side is another one");
        return;
    }
    memcpy(dial->peer.uuid, hello->uuid, 16);
    dial->listener = hello->listener;
    whi_dial_park(dial);
}

// refused takes a no.  At an address of a blob it may be another worker's, and the meant one at the next; if that is not so either, the no
// tells most.
static void refused(whi_dial *dial, wh_status status, const char *sentence) {
    if (!dial->by_blob || dial->local || dial->state == WHI_DIAL_CONFIRMED) {
        whi_dial_fail(dial, status, sentence);
        return;
    }
    whi_dial_note(dial, status, sentence);
    dial->was_refused = true;
    whi_dial_attempt_failed(dial, status, sentence);
}

static void take_record(whi_dial *dial) {
    whi_hello hello;
    wh_status st = whi_hello_decode(dial->bytes, &hello);
    if (st == WH_EVERSION) {
        char text[128];
        snprintf(text, sizeof(text), "protocol versions %u to %u here, %u to %u there",
                 WHI_PROTOCOL_VERSION_MIN, WHI_PROTOCOL_VERSION, hello.version_min,
                 hello.version_max);
        refused(dial, st, text);
    } else if (st != WH_OK) {
        refused(dial, WH_EPROTOCOL, "what listens there is not Wherry");
    } else if (hello.step == WHI_STEP_REJECT) {
        bool known = hello.status <= WH_EINVAL && hello.status >= WHI_STATUS_LAST;
        refused(dial, known ? (wh_status)hello.status : WH_EREFUSED, hello.text);
    } else if (hello.step == WHI_STEP_EXISTING) {
        take_existing(dial, &hello);
    } else if (hello.step == WHI_STEP_ANSWER && dial->state == WHI_DIAL_HELLO_SENT) {
        dial->peer = hello;
        take_answer(dial);
    } else if (hello.step == WHI_STEP_READY && dial->state == WHI_DIAL_CONFIRMED) {
        take_ready(dial);
    } else {
        whi_dial_fail(dial, WH_EPROTOCOL, "the handshake is out of turn");
    }
}

void whi_dial_readable(whi_dial *dial) {
    ssize_t n = recv(dial->fd, dial->bytes + dial->got, WHI_HELLO_SIZE - dial->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (dial->state == WHI_DIAL_CONFIRMED &&
            whi_acceptor_pending(dial->worker, dial->peer.uuid))
            whi_dial_park(dial);  // the peer goes by its own connection
        else
            whi_dial_attempt_failed(dial, WH_EPEER, "the connection was closed in the handshake");
        return;
    }
    dial->got += (size_t)n;
    if (dial->got == WHI_HELLO_SIZE) {
        dial->got = 0;
        take_record(dial);
    }
}
