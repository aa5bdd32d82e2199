// SPDX-License-Identifier: BSD-3-Clause
//
// Sockets, see sock.h.
#include "link/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { BACKLOG = 4096 };  // cut to net.core.somaxconn by the kernel

wh_status whi_sock_status(int error) {
    switch (error) {
    case ECONNREFUSED: return WH_EREFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN: return WH_EUNREACHABLE;
    case ETIMEDOUT: return WH_ETIMEDOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS: return WH_ELIMIT;
    case EACCES:
    case EPERM: return WH_EPERM;
    case ENOMEM: return WH_ENOMEM;
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EINVAL: return WH_EADDRESS;
    case ECONNRESET:
    case EPIPE: return WH_EPEER;
    default: return WH_ESYSTEM;
    }
}

static wh_status restrict_to_interface(int fd, const whi_config *config) {
    const char *name = config->interface;
    if (!name[0] || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name)) == 0)
        return WH_OK;
    whi_log(WHI_ERROR, "E-NET-01", "interface=%s: the socket cannot be bound to it: %m", name);
    return errno == ENODEV ? WH_EADDRESS : whi_sock_status(errno);
}

wh_status whi_sock_listen(const whi_sockaddr *addr, const whi_config *config, int *out) {
    int fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return whi_sock_status(errno);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (addr->addr.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    wh_status st = restrict_to_interface(fd, config);
    if (st == WH_OK && (bind(fd, (const struct sockaddr *)&addr->addr, addr->size) != 0 ||
                        listen(fd, BACKLOG) != 0))
        st = whi_sock_status(errno);
    if (st != WH_OK) {
        int error = errno;  // for the caller, who says what to do about it
        close(fd);
        errno = error;
        return st;
    }
    *out = fd;
    return WH_OK;
}

wh_status whi_sock_connect(const whi_sockaddr *addr, const whi_config *config, int *out) {
    int fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return whi_sock_status(errno);
    wh_status st = restrict_to_interface(fd, config);
    if (st == WH_OK && connect(fd, (const struct sockaddr *)&addr->addr, addr->size) != 0)
        st = errno == EINPROGRESS ? WH_PENDING : whi_sock_status(errno);
    if (st != WH_OK && st != WH_PENDING) {
        close(fd);
        return st;
    }
    *out = fd;
    return st;
}

wh_status whi_sock_connected(int fd) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return error ? whi_sock_status(error) : WH_OK;
}

static socklen_t local_address(const char *name, struct sockaddr_un *addr) {
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, sizeof(addr->sun_path) - 1);
    memcpy(addr->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

wh_status whi_sock_listen_local(const char *name, int *out) {
    struct sockaddr_un addr;
    socklen_t size = local_address(name, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return whi_sock_status(errno);
    if (bind(fd, (struct sockaddr *)&addr, size) != 0 || listen(fd, BACKLOG) != 0) {
        wh_status st = whi_sock_status(errno);
        close(fd);
        return st;
    }
    *out = fd;
    return WH_OK;
}

wh_status whi_sock_connect_local(const char *name, int *out) {
    struct sockaddr_un addr;
    socklen_t size = local_address(name, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return whi_sock_status(errno);
    // A local connect ends at once: connected, refused, or EAGAIN when the backlog is full.
    if (connect(fd, (struct sockaddr *)&addr, size) != 0) {
        wh_status st = errno == EAGAIN ? WH_EAGAIN : whi_sock_status(errno);
        close(fd);
        return st;
    }
    *out = fd;
    return WH_OK;
}

bool whi_sock_peer_of(int fd, pid_t *pid, uid_t *uid) {
    struct ucred cred;
    socklen_t size = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
        return false;
    *pid = cred.pid;
    *uid = cred.uid;
    return true;
}

void whi_sock_keepalive(int fd, uint64_t timeout_ms) {
    int on = 1, count = 3;
    int interval = (int)(timeout_ms / 1000 / 4);
    interval = interval < 1 ? 1 : interval;
    unsigned user = (unsigned)timeout_ms;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, sizeof(user));
}

void whi_sock_name(int fd, char *text, size_t size) {
    whi_sockaddr addr = {.size = sizeof(addr.addr)};
    if (getpeername(fd, (struct sockaddr *)&addr.addr, &addr.size) != 0) {
        snprintf(text, size, "unknown");
        return;
    }
    whi_address_text(&addr, text, size);
}
