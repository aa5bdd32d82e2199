// SPDX-License-Identifier: BSD-3-Clause
//
// What stands beside the rings in the tests and the benchmark of the shm lane: a socket pair.
//
// A byte is a bell, a byte with a descriptor passes that.  Each end belongs to one thread.
#ifndef WHI_NET_SHM_TEST_WIRE_H
#define WHI_NET_SHM_TEST_WIRE_H

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/shm/shm.h"

typedef struct test_wire {
    int fd;
    unsigned bells;   // rung by this end
    unsigned refuse;  // so many descriptors are refused with WH_EAGAIN
    unsigned mute;    // and so many bells
} test_wire;

__attribute__((unused)) static void test_wire_pair(test_wire wires[2]) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    wires[0] = (test_wire){.fd = fds[0]};
    wires[1] = (test_wire){.fd = fds[1]};
}

static wh_status test_wire_bell(void *arg) {
    test_wire *wire = arg;
    if (wire->mute) {
        wire->mute--;
        return WH_EAGAIN;
    }
    wire->bells++;
    (void)!send(wire->fd, "b", 1, MSG_NOSIGNAL);
    return WH_OK;
}

static wh_status test_wire_send_fd(void *arg, int fd) {
    test_wire *wire = arg;
    if (wire->refuse) {
        wire->refuse--;
        return WH_EAGAIN;
    }
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
    struct iovec iov = {.iov_base = (char[]){'f'}, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *part = CMSG_FIRSTHDR(&msg);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    return sendmsg(wire->fd, &msg, MSG_NOSIGNAL) == 1 ? WH_OK : WH_EAGAIN;
}

static int test_wire_take_fd(void *arg) {
    test_wire *wire = arg;
    int fd = -1;
    while (fd < 0) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))];
        struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
        if (recvmsg(wire->fd, &msg, MSG_CMSG_CLOEXEC) != 1)
            return WH_EAGAIN;
        if (CMSG_FIRSTHDR(&msg))
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    }
    return fd;
}

__attribute__((unused)) static const whi_shm_wire test_wire_ops = {
    test_wire_bell, test_wire_send_fd, test_wire_take_fd};

// test_wire_sleep waits for a bell and takes it; false: none came within `timeout_ms`.
__attribute__((unused)) static bool test_wire_sleep(test_wire *wire, int timeout_ms) {
    struct pollfd item = {.fd = wire->fd, .events = POLLIN};
    char byte;
    if (poll(&item, 1, timeout_ms) != 1)
        return false;
    // A descriptor must stay for take_fd, and its byte with it.
    if (recv(wire->fd, &byte, 1, MSG_PEEK) == 1 && byte == 'b')
        (void)!recv(wire->fd, &byte, 1, 0);
    return true;
}

#endif
