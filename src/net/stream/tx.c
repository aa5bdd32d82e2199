// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane, sending: one system call per record, and a buffer for what the socket refused.
//
// Invariant: the bytes that the peer sees are whole records in the order they were taken.  A record
// of which the socket took a part continues in `out`; a chunk whose bytes are in the user's memory
// continues with the next push of it.  While one of the two is unfinished nothing else is written.
// A chunk from a `move` source is always whole in `out`, since each byte may be asked for only
// once.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "net/stream/state.h"

enum {
    // A record up to this size is copied beside its header first: one flat send is cheaper than
    // having the kernel import two pieces.
    FLAT_SIZE = 4096,
    // The part of a `move` source that is produced at a time: enough for the call to cost little
    // beside the copies, and it stays in a second-level cache on its way to the socket.
    STAGE_SIZE = 128 * 1024,
};

// refused sorts the errno of a send that wrote nothing: 0 to try again later, -1 when sending is
// over.
static ssize_t refused(whi_stream *stream, int error) {
    switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:        // of the kernel, which recovers
    case ETOOMANYREFS:  // more descriptors under way than this user may have, until some are taken
        stream->full = true;
        return 0;
    default: stream->tx_broken = whi_stream_lost(stream, "send", error); return -1;
    }
}

ssize_t whi_stream_write(whi_stream *stream, struct iovec *iov, size_t count, int fd) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    ssize_t n;
    do
        n = sendmsg(stream->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? refused(stream, errno) : n;
}

// write_flat is whi_stream_write of a single piece without a descriptor, in the cheaper call.
static ssize_t write_flat(whi_stream *stream, const void *data, size_t size) {
    ssize_t n;
    do
        n = send(stream->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? refused(stream, errno) : n;
}

// reserve makes `out`, which is empty, at least `size` bytes large.
static wh_status reserve(whi_stream_buf *out, size_t size) {
    out->at = out->end = 0;
    if (out->size >= size)
        return WH_OK;
    uint8_t *data = whi_malloc(size);
    if (!data)
        return WH_ENOMEM;
    whi_free(out->data);
    out->data = data;
    out->size = size;
    return WH_OK;
}

static void tell_unsent(whi_stream *stream) {
    if (stream->lane.up->unsent)
        stream->lane.up->unsent(stream->lane.link);
}

// keep puts what lies behind the first `done` bytes of a head and a payload into `out`.
static wh_status keep(whi_stream *stream, const void *head, size_t head_size, const void *payload,
                      size_t size, size_t done) {
    whi_stream_buf *out = &stream->out;
    stream->full = true;
    // A record cannot be unsent.  Without memory for its rest the stream is torn, and over.
    if (reserve(out, head_size + size - done) != WH_OK)
        return stream->tx_broken = WH_ENOMEM;
    if (done < head_size) {
        out->end = head_size - done;
        memcpy(out->data, (const char *)head + done, out->end);
        done = head_size;
    }
    size_t taken = done - head_size;
    if (payload)
        memcpy(out->data + out->end, (const char *)payload + taken, size - taken);
    out->end += size - taken;
    tell_unsent(stream);
    return WH_OK;
}

// drain writes from `out` and returns true when it is empty.
static bool drain(whi_stream *stream) {
    whi_stream_buf *out = &stream->out;
    ssize_t n = write_flat(stream, out->data + out->at, whi_stream_pending(out));
    if (n > 0)
        out->at += (size_t)n;
    if (whi_stream_pending(out) > 0) {
        stream->full = true;
        return false;
    }
    out->at = out->end = 0;
    return true;
}

bool whi_stream_flush(whi_stream *stream) {
    if (stream->tx_broken != WH_OK)
        return false;
    if (whi_stream_pending(&stream->out) > 0) {
        if (!drain(stream))
            return false;
    } else {
        // Nothing of ours to try it with, so ask; the answer comes with some space to spare.
        struct pollfd socket = {.fd = stream->fd, .events = POLLOUT};
        if (poll(&socket, 1, 0) <= 0)
            return false;
    }
    stream->full = false;
    return true;
}

// gate tells whether a new record may begin.
static wh_status gate(const whi_stream *stream) {
    if (stream->broken != WH_OK)
        return stream->broken;
    if (stream->tx_broken != WH_OK)
        return stream->tx_broken;
    assert(!stream->tx_bytes);
    return whi_stream_pending(&stream->out) > 0 || stream->open_left > 0 ? WH_EAGAIN : WH_OK;
}

// write_record writes header and payload, in one piece where that is cheaper.
static ssize_t write_record(whi_stream *stream, const whi_hdr *hdr, const void *payload, int fd) {
    if (fd < 0 && hdr->size <= FLAT_SIZE) {
        uint8_t flat[sizeof(*hdr) + FLAT_SIZE];
        memcpy(flat, hdr, sizeof(*hdr));
        if (payload)
            memcpy(flat + sizeof(*hdr), payload, hdr->size);
        return write_flat(stream, flat, sizeof(*hdr) + hdr->size);
    }
    struct iovec iov[] = {
        {.iov_base = (void *)(uintptr_t)hdr, .iov_len = sizeof(*hdr)},
        {.iov_base = (void *)(uintptr_t)payload, .iov_len = hdr->size},
    };
    return whi_stream_write(stream, iov, 2, fd);
}

static wh_status send_record(whi_stream *stream, const whi_hdr *hdr, const void *payload, int fd) {
    assert(hdr->cls != WHI_CLASS_CHUNK && hdr->cls != WHI_CLASS_LONG &&
           hdr->size <= stream->opts.eager_limit);
    wh_status status = gate(stream);
    if (status != WH_OK)
        return status;
    ssize_t n = write_record(stream, hdr, payload, fd);
    if (n <= 0)
        return n == 0 ? WH_EAGAIN : stream->tx_broken;
    if ((size_t)n == sizeof(*hdr) + hdr->size)
        return WH_OK;
    return keep(stream, hdr, sizeof(*hdr), payload, hdr->size, (size_t)n);
}

wh_status whi_stream_send(whi_lane *lane, const whi_hdr *hdr, const void *payload) {
    return send_record(whi_stream_of(lane), hdr, payload, -1);
}

// stage has bytes produced into `out`, behind a head if there is one, and writes what it can.
static wh_status stage(whi_stream *stream, const void *head, size_t head_size, const whi_span *src,
                       size_t size) {
    whi_stream_buf *out = &stream->out;
    if (reserve(out, head_size + size) != WH_OK) {
        stream->full =
            true;  // nothing has happened: the next poll finds space and it is tried again
        return WH_EAGAIN;
    }
    if (head_size)
        memcpy(out->data, head, head_size);
    src->move(src->ctx, src->base, out->data + head_size, size);
    out->end = head_size + size;
    (void)drain(stream);
    return stream->tx_broken;
}

// send_moved sends a record whose payload is moved.
static wh_status send_moved(whi_stream *stream, const void *head, size_t head_size,
                            const whi_span *src, size_t size) {
    wh_status status = stage(stream, head, head_size, src, size);
    if (status == WH_OK && whi_stream_pending(&stream->out) > 0)
        tell_unsent(stream);
    return status;
}

// append puts more behind what is there and returns where that ends.
static uint8_t *append(uint8_t *at, const void *bytes, size_t size) {
    if (size)
        memcpy(at, bytes, size);
    return at + size;
}

wh_status whi_stream_send_long(whi_lane *lane, const whi_hdr *front, const void *front_payload,
                               const whi_hdr *hdr, const whi_span *src) {
    whi_stream *stream = whi_stream_of(lane);
    assert((!front || front->size <= FLAT_SIZE) && hdr->cls == WHI_CLASS_LONG &&
           hdr->size <= whi_lane_long_limit(lane));
    wh_status status = gate(stream);
    if (status != WH_OK)
        return status;
    uint8_t head[2 * sizeof(*hdr) + FLAT_SIZE], *end = head;
    if (front) {
        end = append(end, front, sizeof(*front));
        end = append(end, front_payload, front->size);
    }
    end = append(end, hdr, sizeof(*hdr));
    size_t head_size = (size_t)(end - head);
    if (!src->ptr)
        return send_moved(stream, head, head_size, src, hdr->size);
    struct iovec iov[] = {
        {.iov_base = head, .iov_len = head_size},
        {.iov_base = src->ptr, .iov_len = hdr->size},
    };
    ssize_t n = whi_stream_write(stream, iov, 2, -1);
    if (n <= 0)
        return n == 0 ? WH_EAGAIN : stream->tx_broken;
    if ((size_t)n == head_size + hdr->size)
        return WH_OK;
    return keep(stream, head, head_size, src->ptr, hdr->size, (size_t)n);
}

wh_status whi_stream_send_fd(whi_lane *lane, const whi_hdr *hdr, int fd) {
    assert(hdr->size == 0 && fd >= 0);
    return send_record(whi_stream_of(lane), hdr, NULL, fd);
}

// took notes that `size` bytes of the open chunk are taken, and says whether it is whole.
static wh_status took(whi_stream *stream, size_t size, size_t *moved) {
    stream->open.arg += size;
    stream->open_left -= size;
    *moved = size;
    if (stream->open_left == 0)
        return WH_OK;
    stream->full = true;
    return WH_PENDING;
}

// resume continues the open chunk.  What is left of it may come from another kind of source than
// what went before.
static wh_status resume(whi_stream *stream, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                        size_t *moved) {
    const whi_hdr *open = &stream->open;
    bool same = hdr->ep == open->ep && hdr->seq == open->seq && hdr->arg == open->arg;
    if (!same || whi_stream_pending(&stream->out) > 0)
        return WH_EAGAIN;
    size_t part = size < stream->open_left ? (size_t)size : stream->open_left;
    if (!src->ptr) {
        part = part < STAGE_SIZE ? part : STAGE_SIZE;
        wh_status status = stage(stream, NULL, 0, src, part);
        return status == WH_OK ? took(stream, part, moved) : status;
    }
    ssize_t n = write_flat(stream, src->ptr, part);
    if (n <= 0)
        return n == 0 ? WH_EAGAIN : stream->tx_broken;
    return took(stream, (size_t)n, moved);
}

// push_memory begins a chunk that the socket takes straight from the user's memory.
static wh_status push_memory(whi_stream *stream, const whi_hdr *chunk, void *data, size_t *moved) {
    struct iovec iov[] = {
        {.iov_base = (void *)(uintptr_t)chunk, .iov_len = sizeof(*chunk)},
        {.iov_base = data, .iov_len = chunk->size},
    };
    ssize_t n = whi_stream_write(stream, iov, 2, -1);
    if (n <= 0)
        return n == 0 ? WH_EAGAIN : stream->tx_broken;
    size_t head = (size_t)n < sizeof(*chunk) ? (size_t)n : sizeof(*chunk);
    if (head < sizeof(*chunk)) {
        wh_status status = keep(stream, chunk, sizeof(*chunk), NULL, 0, head);
        if (status != WH_OK)
            return status;
    }
    stream->open = *chunk;
    stream->open_left = chunk->size;
    return took(stream, (size_t)n - head, moved);
}

// push_moved has a whole chunk produced.
static wh_status push_moved(whi_stream *stream, const whi_hdr *chunk, const whi_span *src,
                            size_t *moved) {
    wh_status status = stage(stream, chunk, sizeof(*chunk), src, chunk->size);
    if (status == WH_OK)
        *moved = chunk->size;
    return status;
}

wh_status whi_stream_push(whi_lane *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                          size_t *moved) {
    whi_stream *stream = whi_stream_of(lane);
    assert(size > 0);
    if (stream->open_left > 0 && stream->tx_broken == WH_OK && stream->broken == WH_OK)
        return resume(stream, hdr, src, size, moved);
    wh_status status = gate(stream);
    if (status != WH_OK)
        return status;
    size_t most = src->ptr || stream->opts.chunk < STAGE_SIZE ? stream->opts.chunk : STAGE_SIZE;
    whi_hdr chunk = *hdr;
    chunk.cls = WHI_CLASS_CHUNK;
    chunk.size = (uint32_t)(size < most ? size : most);
    return src->ptr ? push_memory(stream, &chunk, src->ptr, moved)
                    : push_moved(stream, &chunk, src, moved);
}

wh_status whi_stream_tx_bytes(whi_lane *lane) {
    whi_stream *stream = whi_stream_of(lane);
    wh_status status = gate(stream);
    if (status == WH_OK)
        stream->tx_bytes = true;
    return status;
}
