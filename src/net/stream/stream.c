// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane: life, questions, and the order of things within a poll.
//
// A poll first tries to write what was refused, then reads.  A socket that fails while writing may
// still hold records from before the failure: they are read and delivered first, and the lane fails
// when there are no more.  A lane at rest is its struct and its socket: `arm`, or a long time of
// polls that find nothing, gives the buffers back.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/stream/state.h"
#include "net/untrusted.h"

enum {
    // Polls that find nothing before the buffers go.  About a millisecond of spinning: long beside
    // a round trip, short beside the life of a link.
    QUIET_POLLS = 4096,
};

static_assert(sizeof(whi_stream) < 512, "an idle link must be cheap");

wh_status whi_stream_fail(whi_stream *stream, wh_status status) {
    if (stream->broken == WH_OK)
        stream->broken = status;
    return stream->broken;
}

wh_status whi_stream_violated(whi_stream *stream, const char *what, uint64_t value) {
    char peer[96];
    stream->lane.ops->describe(&stream->lane, peer, sizeof(peer));
    // Limited, so that a peer cannot fill our log by connecting again and again.
    whi_log_once_per(WHI_WARN, "W-STREAM-01", 1,
                     "%s: %s (%llu); the connection is dropped: is this a Wherry peer?", peer, what,
                     (unsigned long long)value);
    return whi_stream_fail(stream, WH_EPROTOCOL);
}

wh_status whi_stream_lost(const whi_stream *stream, const char *call, int error) {
    char peer[96];
    stream->lane.ops->describe(&stream->lane, peer, sizeof(peer));
    whi_log(WHI_DEBUG, "D-STREAM-02", "%s: %s: %s", peer, call, strerror(error));
    switch (error) {
    case EBADF:
    case ENOTSOCK:
    case EFAULT:
    case EINVAL: return WH_ESYSTEM;  // our own mistake, and no word about the peer
    default: return WH_EPEER;
    }
}

static void release(whi_stream_buf *buf) {
    whi_free(buf->data);
    *buf = (whi_stream_buf){0};
}

void whi_stream_rest(whi_stream *stream) {
    stream->quiet = 0;
    if (whi_stream_pending(&stream->out) == 0)
        release(&stream->out);
    if (whi_stream_pending(&stream->in) == 0)
        release(&stream->in);
}

static size_t stream_eager_limit(const whi_lane *lane) {
    return whi_stream_of(lane)->opts.eager_limit;
}

static size_t stream_long_limit(const whi_lane *lane) {
    const whi_stream_opts *opts = &whi_stream_of(lane)->opts;
    return opts->takes_long ? opts->chunk : 0;
}

// read_some reads in the mode that the direction is in, which the last record may change midway.
static int read_some(whi_stream *stream, int budget) {
    int events = 0;
    if (!stream->rx_bytes)
        events = whi_stream_read(stream, budget);
    if (!stream->rx_bytes || events < 0)
        return events;
    int bytes = whi_stream_read_bytes(stream);
    return bytes < 0 ? bytes : events + bytes;
}

static int stream_poll(whi_lane *lane, int budget) {
    whi_stream *stream = whi_stream_of(lane);
    if (stream->broken != WH_OK)
        return stream->broken;
    int space = stream->full && whi_stream_flush(stream);
    stream->heard = false;
    int events = read_some(stream, budget);
    if (events < 0)
        return events;
    if (events > 0 || stream->heard)
        stream->quiet = 0;
    else if (stream->tx_broken != WH_OK)
        return whi_stream_fail(stream, stream->tx_broken);
    else if (++stream->quiet >= QUIET_POLLS)
        whi_stream_rest(stream);
    return events + space;
}

static bool stream_arm(whi_lane *lane, bool want_space) {
    (void)want_space;  // the owner watches the socket, for space too
    whi_stream_rest(whi_stream_of(lane));
    return false;
}

static bool stream_ready(whi_lane *lane, bool want_space) {
    (void)want_space;
    const whi_stream *stream = whi_stream_of(lane);
    return stream->broken != WH_OK || stream->tx_broken != WH_OK || stream->unreported > 0 ||
           whi_stream_complete(stream);
}

static void describe_unix(int fd, char *text, size_t size) {
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof(peer);
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    snprintf(text, size, "unix pid %d", (int)peer.pid);
}

static void stream_describe(const whi_lane *lane, char *text, size_t size) {
    int fd = whi_stream_of(lane)->fd;
    char host[INET6_ADDRSTRLEN] = "?";
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_storage space;
    } peer = {.any.sa_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    (void)getpeername(fd, &peer.any, &length);
    switch (peer.any.sa_family) {
    case AF_UNIX: describe_unix(fd, text, size); break;
    case AF_INET:
        inet_ntop(AF_INET, &peer.in.sin_addr, host, sizeof(host));
        snprintf(text, size, "tcp %s:%u", host, ntohs(peer.in.sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &peer.in6.sin6_addr, host, sizeof(host));
        snprintf(text, size, "tcp [%s]:%u", host, ntohs(peer.in6.sin6_port));
        break;
    default: snprintf(text, size, "stream, not connected"); break;
    }
}

static void stream_close(whi_lane *lane) {
    whi_stream *stream = whi_stream_of(lane);
    for (unsigned i = 0; i < stream->fd_count; i++)
        whi_untrusted_close(stream->fds[i]);
    close(stream->fd);
    release(&stream->in);
    release(&stream->out);
    whi_free(stream);
}

static const whi_lane_ops stream_ops = {
    .name = "stream",
    .eager_limit = stream_eager_limit,
    .long_limit = stream_long_limit,
    .send = whi_stream_send,
    .send_long = whi_stream_send_long,
    .push = whi_stream_push,
    .poll = stream_poll,
    .arm = stream_arm,
    .ready = stream_ready,
    .describe = stream_describe,
    .close = stream_close,
};

// prepare makes the socket non-blocking and, where it is TCP, send at once: the answer that delayed
// sending hopes to travel with does not come while the peer waits for the rest of our record.
static wh_status prepare(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return WH_ESYSTEM;
    int family = 0;
    socklen_t length = sizeof(family);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
        return WH_ESYSTEM;
    if (family == AF_UNIX)
        return WH_OK;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0 ? WH_OK
                                                                                 : WH_ESYSTEM;
}

wh_status whi_stream_create(int fd, const whi_stream_opts *opts, const whi_lane_up *up, void *link,
                            whi_lane **lane) {
    // Sizes on the wire have 32 bits.
    if (opts->chunk == 0 || opts->chunk > UINT32_MAX || opts->eager_limit > UINT32_MAX)
        return WH_EINVAL;
    whi_stream *stream = whi_calloc(1, sizeof(*stream));
    if (!stream)
        return WH_ENOMEM;
    wh_status status = prepare(fd);
    if (status != WH_OK) {
        whi_log(WHI_ERROR, "E-STREAM-03", "descriptor %d cannot become a stream lane: %s", fd,
                strerror(errno));
        whi_free(stream);
        return status;
    }
    whi_lane_init(&stream->lane, &stream_ops, up, link);
    stream->opts = *opts;
    stream->fd = fd;
    *lane = &stream->lane;
    return WH_OK;
}

bool whi_stream_blocked(const whi_lane *lane) {
    return whi_stream_of(lane)->full;
}
