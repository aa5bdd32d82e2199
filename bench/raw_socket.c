// SPDX-License-Identifier: BSD-3-Clause
//
// The bare socket: what two careful loops over send and recv reach.
//
// Spinning sides use MSG_DONTWAIT on both calls; sleeping sides block in the call itself, which is
// one system call less than asking epoll first.
#include "bench/clock.h"
#include "bench/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Silence after which the other side counts as hung.
#define SILENCE_NS (20 * BENCH_NS_PER_S)

int bench_socket_listen(const char *host, int *port) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t length = sizeof name;
    if (getaddrinfo(host, "0", &hints, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 8) == 0 &&
                getsockname(fd, &name.any, &length) == 0;
    freeaddrinfo(found);
    if (!good) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
    return fd;
}

static bool adopt(bench_socket *sock, int fd) {
    int on = 1;
    sock->fd = fd;
    return fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

bool bench_socket_accept(bench_socket *sock, int listener, int timeout_ms) {
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    if (poll(&wait, 1, timeout_ms) != 1)
        return false;
    return adopt(sock, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

bool bench_socket_connect(bench_socket *sock, const char *host, int port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return false;
    int fd = -1;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return adopt(sock, fd);
}

void bench_socket_close(bench_socket *sock) {
    if (sock->fd >= 0)
        close(sock->fd);
    free(sock->buffer);
    sock->fd = -1;
    sock->buffer = NULL;
    sock->room = 0;
}

// Both directions use halves of one allocation; its pages are written once so that none is missing.
static bool reserve(bench_socket *sock, size_t size) {
    size_t room = size ? size : 1;
    if (room <= sock->room)
        return true;
    free(sock->buffer);
    sock->buffer = room < SIZE_MAX / 2 ? malloc(2 * room) : NULL;
    sock->room = sock->buffer ? room : 0;
    if (sock->buffer)
        memset(sock->buffer, 's', 2 * room);
    return sock->buffer != NULL;
}

// One call of send or recv: how many bytes moved, 0 for none yet, -1 when the connection is gone.
static ssize_t move(bench_socket *sock, bool out, size_t done, size_t size, int flags) {
    size_t left = size - done;
    ssize_t moved = out ? send(sock->fd, sock->buffer + done, left, flags | MSG_NOSIGNAL)
                        : recv(sock->fd, sock->buffer + sock->room + done, left, flags);
    if (moved > 0)
        return moved;
    bool again = moved < 0 && (errno == EAGAIN || errno == EINTR);
    return again ? 0 : -1;
}

static bool move_all(bench_socket *sock, bool out, size_t size) {
    enum { IDLE_BETWEEN_CHECKS = 1 << 14 };
    int flags = sock->spin ? MSG_DONTWAIT : 0;
    size_t done = 0;
    uint64_t idle = 0, since = 0;
    while (done < size) {
        ssize_t moved = move(sock, out, done, size, flags);
        if (moved < 0)
            return false;
        done += (size_t)moved;
        if (moved > 0) {
            idle = since = 0;
        } else if (++idle % IDLE_BETWEEN_CHECKS == 0) {
            uint64_t now = bench_ns();
            since = since ? since : now;
            if (now - since > SILENCE_NS)
                return false;
        }
    }
    return true;
}

static bool ping(bench_socket *sock, const bench_cell *cell, bench_hist *hist) {
    uint64_t before = bench_ticks();
    for (uint64_t i = 0; i < cell->count; i++) {
        if (!move_all(sock, true, cell->size) || !move_all(sock, false, cell->size))
            return false;
        uint64_t now = bench_ticks();
        bench_hist_add(hist, now - before);
        before = now;
    }
    return true;
}

static bool pong(bench_socket *sock, const bench_cell *cell) {
    for (uint64_t i = 0; i < cell->count; i++) {
        if (!move_all(sock, false, cell->size) || !move_all(sock, true, cell->size))
            return false;
    }
    return true;
}

// One direction of the exchange: a message at a time, as far as the socket goes without waiting.
typedef struct bench_flow {
    bool out;
    uint64_t left;  // messages, the current one included
    size_t done;    // bytes of the current one
} bench_flow;

static ssize_t flow_move(bench_socket *sock, bench_flow *flow, size_t size) {
    if (flow->left == 0)
        return 0;
    ssize_t moved = move(sock, flow->out, flow->done, size, MSG_DONTWAIT);
    if (moved <= 0)
        return moved;
    flow->done += (size_t)moved;
    if (flow->done == size) {
        flow->done = 0;
        flow->left--;
    }
    return moved;
}

// Both directions at once on one descriptor, never waiting in one of them; the same on both sides.
static bool exchange(bench_socket *sock, const bench_cell *cell) {
    bench_flow out = {true, cell->count, 0}, in = {false, cell->count, 0};
    while (out.left || in.left) {
        ssize_t sent = flow_move(sock, &out, cell->size);
        ssize_t got = flow_move(sock, &in, cell->size);
        if (sent < 0 || got < 0)
            return false;
        if (sent || got || sock->spin)
            continue;
        short events = (short)((out.left ? POLLOUT : 0) | (in.left ? POLLIN : 0));
        struct pollfd wait = {.fd = sock->fd, .events = events};
        if (poll(&wait, 1, (int)(SILENCE_NS / 1000000)) == 0)
            return false;
    }
    return true;
}

// One way ends with an answer of one byte: only then has everything arrived.
static bool one_way(bench_socket *sock, const bench_cell *cell, bool out) {
    for (uint64_t i = 0; i < cell->count; i++) {
        if (!move_all(sock, out, cell->size))
            return false;
    }
    return move_all(sock, !out, 1);
}

bool bench_socket_lead(bench_socket *sock, const bench_cell *cell, bench_hist *hist) {
    if (!reserve(sock, cell->size))
        return false;
    if (cell->metric == BENCH_LATENCY)
        return ping(sock, cell, hist);
    return cell->metric == BENCH_BIDIR ? exchange(sock, cell) : one_way(sock, cell, true);
}

bool bench_socket_follow(bench_socket *sock, const bench_cell *cell) {
    if (!reserve(sock, cell->size))
        return false;
    if (cell->metric == BENCH_LATENCY)
        return pong(sock, cell);
    return cell->metric == BENCH_BIDIR ? exchange(sock, cell) : one_way(sock, cell, false);
}
