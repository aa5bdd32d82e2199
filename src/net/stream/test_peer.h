// SPDX-License-Identifier: BSD-3-Clause
//
// For the stream lane's tests: a lane whose other side is a bare socket in the hands of the test.
//
// What the lane hears is noted in a `peer`, which also says what the upcalls do.  Warnings that the
// lane logs are counted instead of printed.
#ifndef WHI_NET_STREAM_TEST_PEER_H
#define WHI_NET_STREAM_TEST_PEER_H

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/test.h"
#include "net/stream/stream.h"

enum { PEER_EAGER = 5000, PEER_CHUNK = 50000, PEER_POLL = 16, CLASS_LAST = 0x2f };

typedef struct peer {
    whi_lane *lane;
    int fd;  // the bare socket
    unsigned heard, sunk, landed;
    uint32_t last_seq;
    int fd_taken;  // by the upcall, when `take`
    bool take;
    uint8_t memory[PEER_CHUNK];
} peer;

static wh_status peer_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    peer *self = link;
    CHECK(hdr->size <= PEER_EAGER && payload);
    self->heard++;
    self->last_seq = hdr->seq;
    if (self->take)
        self->fd_taken = whi_stream_take_fd(self->lane);
    if (hdr->cls == CLASS_LAST)
        whi_stream_rx_bytes(self->lane);
    return WH_OK;
}

static wh_status peer_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    peer *self = link;
    CHECK(hdr->size > 0 && hdr->size <= PEER_CHUNK);
    self->sunk++;
    *span = (whi_span){.ptr = self->memory};
    return WH_OK;
}

static wh_status peer_landed(void *link, const whi_hdr *hdr) {
    (void)hdr;
    peer *self = link;
    self->landed++;
    return WH_OK;
}

static unsigned peer_unsents;
static void peer_unsent(void *link) {
    (void)link;
    peer_unsents++;
}

static const whi_lane_up peer_up = {
    .deliver = peer_deliver, .sink = peer_sink, .landed = peer_landed, .unsent = peer_unsent};

static unsigned peer_warnings;
static bool peer_takes_long;  // the next lane takes long records

static void peer_log(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)text, (void)arg;
    peer_warnings += strncmp(id, "W-STREAM-", 9) == 0;
}

__attribute__((unused)) static void peer_open(peer *self, bool local) {
    whi_stream_opts opts = {.eager_limit = PEER_EAGER,
                            .chunk = PEER_CHUNK,
                            .takes_long = peer_takes_long,
                            .local = local};
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    *self = (peer){.fd = fds[1], .fd_taken = -1};
    CHECK_EQ_INT(whi_stream_create(fds[0], &opts, &peer_up, self, &self->lane), WH_OK);
    peer_warnings = 0;
    whi_log_set_sink(peer_log, NULL);
}

__attribute__((unused)) static void peer_close(peer *self) {
    if (self->lane)
        self->lane->ops->close(self->lane);
    if (self->fd >= 0)
        close(self->fd);
    whi_log_set_sink(NULL, NULL);
}

__attribute__((unused)) static int peer_poll(peer *self) {
    return self->lane->ops->poll(self->lane, PEER_POLL);
}

// peer_write sends bytes to the lane, all of them.
__attribute__((unused)) static void peer_write(peer *self, const void *data, size_t size) {
    CHECK(write(self->fd, data, size) == (ssize_t)size);
}

__attribute__((unused)) static void peer_record(peer *self, uint8_t cls, uint32_t seq,
                                                uint32_t size) {
    uint8_t bytes[sizeof(whi_hdr) + PEER_EAGER] = {0};
    CHECK(size <= PEER_EAGER);
    memcpy(bytes, &(whi_hdr){.size = size, .cls = cls, .seq = seq}, sizeof(whi_hdr));
    peer_write(self, bytes, sizeof(whi_hdr) + size);
}

// peer_write_fds sends bytes with descriptors.
__attribute__((unused)) static void peer_write_fds(peer *self, const void *data, size_t size,
                                                   const int *fds, unsigned count) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control = {.space = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space};
    msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    CHECK(sendmsg(self->fd, &msg, 0) == (ssize_t)size);
}

// peer_violates sees that the lane ends, stays ended, and says why.
__attribute__((unused)) static void peer_violates(peer *self) {
    CHECK_EQ_INT(peer_poll(self), WH_EPROTOCOL);
    CHECK_EQ_INT(peer_poll(self), WH_EPROTOCOL);
    CHECK(self->lane->ops->ready(self->lane, false));
    CHECK_EQ_INT(self->lane->ops->send(self->lane, &(whi_hdr){.cls = 0x20}, NULL), WH_EPROTOCOL);
    peer_close(self);
}

#endif
