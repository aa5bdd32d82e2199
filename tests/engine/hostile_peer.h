// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of comm: a peer made by hand from a bare socket and the codec of the handshake, to do what no honest one does.
//
// `victim` is a duo (test_kit.h) whose client is honest and stays connected all the while.  Every wait here lets both go on,
// and sends a message there and back between them now and then: an attack that disturbs them fails the test.
#ifndef WHI_COMM_HOSTILE_PEER_H
#define WHI_COMM_HOSTILE_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/rng.h"
#include "engine/test_kit.h"
#include "link/hello.h"
#include "link/wire.h"

typedef struct raw {
    int fd;
    whi_hello me, peer;
    uint8_t hello[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
} raw;

static whi_rng raw_rng;
static uint32_t raw_lanes = WHI_LANE_SHM | WHI_LANE_STREAM;  // what the next one offers
__attribute__((unused)) static uint64_t raw_features = WHI_FEATURE_LONG;  // and what it knows
static uint64_t honest_rounds;

// honest sends a message from the honest client to the victim and back.
__attribute__((unused)) static void honest(duo *victim) {
    wh_endpoint *ends[2] = {victim->to, victim->from};
    for (int i = 0; i < 2; i++) {
        uint64_t out = ++honest_rounds, in = 0;
        wh_request *recv = NULL;
        CHECK_EQ_INT(wh_tag_recv(ends[1 - i], &in, sizeof(in), 77, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        wh_status st = wh_tag_send(ends[i], &out, sizeof(out), 77, NULL, NULL);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK_EQ_INT(done_as(victim, recv), WH_OK);
        CHECK(in == out);
    }
}

// pump lets everybody go on for a moment.
__attribute__((unused)) static void pump(duo *victim) {
    static unsigned turns;
    duo_pass(victim);
    if (++turns % 64 == 0 && victim->to)
        honest(victim);
}

__attribute__((unused)) static void pump_for(duo *victim, unsigned ms) {
    uint64_t end = whi_clock_ns() + ms * WHI_NS_PER_MS;
    while (whi_clock_ns() < end)
        pump(victim);
}

#define PUMP_UNTIL(victim, cond) KIT_UNTIL(pump(victim), "PUMP_UNTIL(" #cond ")", cond)

__attribute__((unused)) static int raw_tcp(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

__attribute__((unused)) static int raw_local(const char *name) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path + 1, name, strlen(name));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&to, size) == 0);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

// raw_write writes all of it, unless the victim has hung up.
__attribute__((unused)) static bool raw_write(duo *victim, int fd, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
        pump(victim);
    }
    return true;
}

// raw_read reads exactly `size` bytes; false: the victim has hung up before.
__attribute__((unused)) static bool raw_read(duo *victim, int fd, void *bytes, size_t size) {
    char *at = bytes;
    uint64_t end = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    while (size) {
        ssize_t n = recv(fd, at, size, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
        pump(victim);
        CHECK(whi_clock_ns() < end);
    }
    return true;
}

// raw_hung_up says whether the victim has closed the connection; what it still sends is thrown away.
__attribute__((unused)) static bool raw_hung_up(int fd) {
    char bytes[4096];
    ssize_t n;
    do
        n = recv(fd, bytes, sizeof(bytes), 0);
    while (n > 0);
    return n == 0 || errno != EAGAIN;
}

// raw_says fills in what an honest peer of this host would say.
__attribute__((unused)) static whi_hello raw_says(duo *victim, whi_hello_step step) {
    whi_hello hello = {.step = (uint8_t)step,
                       .version_min = WHI_PROTOCOL_VERSION_MIN,
                       .version_max = WHI_PROTOCOL_VERSION,
                       .features = raw_features,
                       .lanes = raw_lanes,
                       .pid = (uint32_t)getpid(),
                       .uid = (uint32_t)geteuid(),
                       .eager_max = 8192,
                       .chunk_max = 1 << 20,
                       .host = "attacker"};
    for (int i = 0; i < 16; i++)
        hello.uuid[i] = (uint8_t)whi_rng_u64(&raw_rng);
    for (int i = 0; i < 32; i++)
        hello.nonce[i] = (uint8_t)whi_rng_u64(&raw_rng);
    memcpy(hello.boot_id, victim->ctx[0]->boot_id, 16);
    return hello;
}

__attribute__((unused)) static bool raw_hello_write(duo *victim, int fd, const whi_hello *hello,
                                                    uint8_t bytes[WHI_HELLO_SIZE]) {
    whi_hello_encode(hello, bytes);
    return raw_write(victim, fd, bytes, WHI_HELLO_SIZE);
}

// raw_hello_read reads the victim's next record of the handshake; false: it has hung up.
__attribute__((unused)) static bool raw_hello_read(duo *victim, int fd, whi_hello *hello) {
    uint8_t bytes[WHI_HELLO_SIZE];
    if (!raw_read(victim, fd, bytes, sizeof(bytes)))
        return false;
    CHECK_EQ_INT(whi_hello_decode(bytes, hello), WH_OK);
    return true;
}

// raw_hello connects to a port and sends its hello; false: that was refused (r->peer is the refusal when there was one).
__attribute__((unused)) static bool raw_hello(duo *victim, raw *r, uint16_t port, uint32_t flags) {
    *r = (raw){.fd = raw_tcp(port), .me = raw_says(victim, WHI_STEP_HELLO)};
    r->me.flags = flags;
    if (!raw_hello_write(victim, r->fd, &r->me, r->hello) ||
        !raw_read(victim, r->fd, r->answer, WHI_HELLO_SIZE))
        return false;
    CHECK_EQ_INT(whi_hello_decode(r->answer, &r->peer), WH_OK);
    return r->peer.step == WHI_STEP_ANSWER;
}

// raw_confirm proves (secret "" does not) and returns the victim's last word: READY when there is a link.
__attribute__((unused)) static whi_hello raw_confirm(duo *victim, raw *r, const char *secret,
                                                     uint32_t flags) {
    whi_hello confirm = raw_says(victim, WHI_STEP_CONFIRM), last = {.step = 0};
    uint8_t bytes[WHI_HELLO_SIZE];
    confirm.flags = flags;
    memcpy(confirm.token, r->peer.token, sizeof(confirm.token));
    if (secret[0])
        CHECK_EQ_INT(whi_hello_prove(secret, WHI_ROLE_CONNECTOR, r->hello, r->answer, confirm.mac),
                     WH_OK);
    if (raw_hello_write(victim, r->fd, &confirm, bytes))
        (void)raw_hello_read(victim, r->fd, &last);
    return last;
}

// raw_link goes through a whole handshake over TCP.
__attribute__((unused)) static void raw_link(duo *victim, raw *r, uint16_t port) {
    CHECK(raw_hello(victim, r, port, 0));
    CHECK_EQ_INT(raw_confirm(victim, r, "", 0).step, WHI_STEP_READY);
}

// raw_link_local goes through one over the victim's local socket, with the token that it gave out over TCP.
__attribute__((unused)) static void raw_link_local(duo *victim, raw *r, uint16_t port) {
    CHECK(raw_hello(victim, r, port, 0));
    CHECK(r->peer.local_name[0]);
    close(r->fd);
    r->fd = raw_local(r->peer.local_name);
    // The TCP connection was closed, and with it goes the token: hence a second one that stays open.
    raw tcp;
    CHECK(raw_hello(victim, &tcp, port, 0));
    int local = r->fd;
    *r = tcp;
    r->fd = local;
    CHECK_EQ_INT(raw_confirm(victim, r, "", WHI_HELLO_LOCAL).step, WHI_STEP_READY);
    close(tcp.fd);
}

// raw_send sends one record; false: the victim has hung up.
__attribute__((unused)) static bool raw_send(duo *victim, const raw *r, const whi_hdr *hdr,
                                             const void *payload) {
    return raw_write(victim, r->fd, hdr, sizeof(*hdr)) &&
           (!hdr->size || raw_write(victim, r->fd, payload, hdr->size));
}

// raw_open opens endpoint 1 over the link and returns the victim's end of it.
__attribute__((unused)) static wh_endpoint *raw_open(duo *victim, const raw *r) {
    unsigned before = victim->accepted_count;
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 1, .seq = 100, .tag = r->peer.listener, .arg = 1 << 20};
    CHECK(raw_send(victim, r, &open, NULL));
    PUMP_UNTIL(victim, victim->accepted_count > before);
    return victim->accepted[before];
}

// raw_hear reads records of the victim until one of class `cls` has come, whose payload is in `bytes` then.
__attribute__((unused)) static whi_hdr raw_hear(duo *victim, const raw *r, uint8_t cls,
                                                uint8_t *bytes, size_t max) {
    for (;;) {
        whi_hdr hdr;
        CHECK(raw_read(victim, r->fd, &hdr, sizeof(hdr)));
        CHECK(hdr.size <= max && raw_read(victim, r->fd, bytes, hdr.size));
        if (hdr.cls == cls)
            return hdr;
    }
}

#endif
