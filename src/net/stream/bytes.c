// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane, the socket itself: descriptors, and the mode of single bytes.
//
// Descriptors come with the bytes they were sent with and wait in order until they are taken.  In
// byte mode each is announced by a byte of its own, and whenever all bytes that have come were
// looked at, as many descriptors wait as were announced: a peer that sends one without the other is
// caught at once.  Descriptors that came with records are taken by the upcall that delivers the
// record.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"
#include "net/stream/state.h"
#include "net/untrusted.h"

enum {
    BYTE_BELL = 0x01,
    BYTE_FD = 0x02,
    // Bytes per read, and reads per poll: a peer that floods us with bells gets no more of our
    // time.
    READ_SIZE = 256,
    READS = 16,
    // Bells that may stand before a descriptor in the socket, far more than a socket's buffer holds
    // when each was rung by itself: looking for the descriptor ends, however many a peer sends.
    BELLS_MAX = 1 << 20,
};

// adopt takes the descriptors of one control message and returns how many those were.  It closes
// those for which there is no space.
static size_t adopt(whi_stream *stream, const struct cmsghdr *cmsg) {
    size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(fd), sizeof(fd));
        if (stream->fd_count < WHI_STREAM_FDS)
            stream->fds[stream->fd_count++] = fd;
        else
            whi_untrusted_close(fd);
    }
    return count;
}

// ran_out ends the lane because this process has no descriptor left for one that came.
static wh_status ran_out(whi_stream *stream) {
    char peer[96];
    stream->lane.ops->describe(&stream->lane, peer, sizeof(peer));
    whi_log_once_per(WHI_ERROR, "E-STREAM-05", 5,
                     "%s: a descriptor of shared memory has come, but this process has none left "
                     "for it; the connection is dropped; see ulimit -n",
                     peer);
    return whi_stream_fail(stream, WH_ELIMIT);
}

// adopt_all takes what a message brought.
static wh_status adopt_all(whi_stream *stream, struct msghdr *msg) {
    size_t came = 0, waited = stream->fd_count;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
            came += adopt(stream, cmsg);
    bool cut = msg->msg_flags & MSG_CTRUNC;
    // The kernel cuts at the space that we gave, or where it has no number for one more.
    if (cut && came < WHI_STREAM_FDS)
        return ran_out(stream);
    if (cut || waited + came > WHI_STREAM_FDS)
        return whi_stream_violated(stream, "more descriptors at once than are allowed",
                                   WHI_STREAM_FDS);
    return WH_OK;
}

// receive_raw makes the cheapest call that serves.
static ssize_t receive_raw(whi_stream *stream, struct msghdr *msg) {
    if (!msg->msg_control && msg->msg_iovlen == 1)
        return recv(stream->fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, MSG_DONTWAIT);
    return recvmsg(stream->fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

ssize_t whi_stream_receive(whi_stream *stream, struct iovec *iov, size_t count) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(WHI_STREAM_FDS * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    if (stream->opts.local) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
    }
    ssize_t n;
    do
        n = receive_raw(stream, &msg);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n < 0) {
        (void)whi_stream_fail(stream, whi_stream_lost(stream, "receive", errno));
        return -1;
    }
    if (stream->opts.local && adopt_all(stream, &msg) != WH_OK)
        return -1;
    if (n == 0) {
        (void)whi_stream_fail(stream, WH_EPEER);
        return -1;
    }
    stream->heard = true;
    return n;
}

// look checks bytes that have come in byte mode.
static wh_status look(whi_stream *stream, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == BYTE_FD)
            stream->fd_bytes++;
        else if (bytes[i] != BYTE_BELL)
            return whi_stream_violated(stream, "an unknown byte in byte mode", bytes[i]);
    }
    if (stream->fd_bytes != stream->fd_count)
        return whi_stream_violated(
            stream, "descriptors come without being announced, or are missing", stream->fd_count);
    return WH_OK;
}

// look_behind checks what was received together with the last record.
static int look_behind(whi_stream *stream) {
    whi_stream_buf *in = &stream->in;
    size_t size = whi_stream_pending(in);
    if (size == 0)
        return 0;
    wh_status status = look(stream, in->data + in->at, size);
    in->at = in->end = 0;
    return status == WH_OK ? (int)size : (int)status;
}

int whi_stream_read_bytes(whi_stream *stream) {
    int events = look_behind(stream);
    if (events < 0)
        return events;
    events += (int)stream->unreported;
    stream->unreported = 0;
    for (int reads = 0; reads < READS; reads++) {
        uint8_t bytes[READ_SIZE];
        unsigned fds = stream->fd_count;
        struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
        ssize_t n = whi_stream_receive(stream, &iov, 1);
        if (n < 0 || (n > 0 && look(stream, bytes, (size_t)n) != WH_OK))
            return stream->broken;
        events += (int)n;
        // The kernel ends a read at a descriptor; else a short one says that nothing is left.
        if (n < READ_SIZE && stream->fd_count == fds)
            break;
    }
    return events;
}

void whi_stream_rx_bytes(whi_lane *lane) {
    whi_stream *stream = whi_stream_of(lane);
    assert(stream->landing_left == 0);
    stream->rx_bytes = true;
}

void whi_stream_hang_up(whi_lane *lane) {
    (void)shutdown(whi_stream_of(lane)->fd, SHUT_RDWR);
}

wh_status whi_stream_bell(whi_lane *lane) {
    const whi_stream *stream = whi_stream_of(lane);
    assert(stream->tx_bytes);
    ssize_t n;
    do
        n = send(stream->fd, &(uint8_t){BYTE_BELL}, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    // A full socket rings by itself, and a lost peer is found by receiving.
    return n < 0 && (errno == ENOBUFS || errno == ENOMEM) ? WH_EAGAIN : WH_OK;
}

wh_status whi_stream_pass_fd(whi_lane *lane, int fd) {
    whi_stream *stream = whi_stream_of(lane);
    assert(stream->tx_bytes && stream->opts.local && fd >= 0);
    if (stream->tx_broken != WH_OK)
        return stream->tx_broken;
    struct iovec iov = {.iov_base = &(uint8_t){BYTE_FD}, .iov_len = 1};
    ssize_t n = whi_stream_write(stream, &iov, 1, fd);
    if (n == 0)
        return WH_EAGAIN;
    return n > 0 ? WH_OK : stream->tx_broken;
}

// find_fd reads until a descriptor has come or the socket is empty.
static void find_fd(whi_stream *stream) {
    unsigned before;
    do {
        before = stream->unreported;
        int n = whi_stream_read_bytes(stream);
        stream->unreported = n > 0 ? (unsigned)n : 0;
    } while (stream->fd_count == 0 && stream->unreported > before &&
             stream->unreported < BELLS_MAX);
}

int whi_stream_take_fd(whi_lane *lane) {
    whi_stream *stream = whi_stream_of(lane);
    if (stream->fd_count == 0 && stream->rx_bytes && stream->broken == WH_OK)
        find_fd(stream);
    if (stream->fd_count == 0)
        return stream->broken != WH_OK ? (int)stream->broken : WH_EAGAIN;
    int fd = stream->fds[0];
    stream->fd_count--;
    memmove(stream->fds, stream->fds + 1, stream->fd_count * sizeof(fd));
    if (stream->fd_bytes > 0)
        stream->fd_bytes--;
    return fd;
}
