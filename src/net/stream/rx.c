// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane, receiving: one system call for many records, and none between socket and memory
// for the bulk of a chunk.
//
// Invariant: `in` begins with a header, unless a chunk is landing; then all that was in `in` has
// gone to the chunk already, and what is received goes there first.  A header is copied out and
// checked before any field of it is used.  A socket that gave less than was asked for is empty for
// now, so that a poll rarely makes a call that finds nothing.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/stream/state.h"

enum {
    // At least so large is `in`: chunks with a `move` sink pass through it.
    IN_MIN = 64 * 1024,
    // What is received behind the end of a chunk with the same call: the next header, and a few
    // small records if they are there; more would be copied twice if it is the next chunk's.
    LOOKAHEAD = 1024,
    // So many small records after a chunk or a long record, more of those are expected: then a read
    // takes no more than LOOKAHEAD of what may be the next one, since it would be copied twice.
    BULKY = 8,
    // Those up to this size count as small: to copy one takes less than another system call.
    COPIED = 16 * 1024,
};

// lands says whether the payload of a record goes where the owner says, however much has come.
static bool lands(const whi_hdr *hdr) {
    return hdr->cls == WHI_CLASS_CHUNK || hdr->cls == WHI_CLASS_LONG;
}

// fill makes space in `in` behind what it holds, for a whole record at least, and returns how much.
static size_t fill(whi_stream *stream) {
    whi_stream_buf *in = &stream->in;
    size_t record = sizeof(whi_hdr) + stream->opts.eager_limit;
    if (in->at == in->end) {
        in->at = in->end = 0;
    } else if (in->size - in->at < record) {
        memmove(in->data, in->data + in->at, in->end - in->at);
        in->end -= in->at;
        in->at = 0;
    }
    return in->size - in->end;
}

// wake gets the buffer for a lane that was at rest, once there is something to put in, be it the
// socket's end; false: there is no buffer.
static bool wake(whi_stream *stream) {
    char byte;
    ssize_t n = recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    size_t size = 2 * (sizeof(whi_hdr) + stream->opts.eager_limit);
    size = size < IN_MIN ? IN_MIN : size;
    uint8_t *data = whi_malloc(size);
    if (!data) {
        // Nothing is lost: the bytes stay in the socket and the next poll tries again.
        whi_log_once_per(WHI_WARN, "W-STREAM-04", 1, "no memory for a receive buffer of %zu bytes",
                         size);
        return false;
    }
    stream->in = (whi_stream_buf){.data = data, .size = size};
    return true;
}

// receive_records reads into `in`; *all tells whether the socket gave all that was asked for.
static ssize_t receive_records(whi_stream *stream, bool *all) {
    if (!stream->in.data && !wake(stream))
        return 0;
    size_t space = fill(stream);
    if (stream->bulky && whi_stream_pending(&stream->in) == 0 && stream->landing_left == 0)
        space = LOOKAHEAD;
    struct iovec iov = {.iov_base = stream->in.data + stream->in.end, .iov_len = space};
    ssize_t n = whi_stream_receive(stream, &iov, 1);
    if (n > 0)
        stream->in.end += (size_t)n;
    *all = n == (ssize_t)space;
    return n;
}

// receive_landing reads the rest of a chunk into the user's memory and what follows into `in`.
static ssize_t receive_landing(whi_stream *stream, bool *all) {
    size_t ahead = fill(stream);
    ahead = ahead < LOOKAHEAD ? ahead : LOOKAHEAD;
    size_t left = stream->landing_left;
    char *to = (char *)stream->sink.ptr + (stream->landing.size - left);
    struct iovec iov[] = {
        {.iov_base = to, .iov_len = left},
        {.iov_base = stream->in.data, .iov_len = ahead},
    };
    ssize_t n = whi_stream_receive(stream, iov, 2);
    if (n <= 0)
        return n;
    *all = (size_t)n == left + ahead;
    size_t landed = (size_t)n < left ? (size_t)n : left;
    stream->landing_left = left - landed;
    stream->in.end = (size_t)n - landed;
    return n;
}

// land moves what `in` holds of the landing chunk to its place.
static void land(whi_stream *stream) {
    size_t left = stream->landing_left, size = whi_stream_pending(&stream->in);
    size = size < left ? size : left;
    if (size == 0)
        return;
    uint8_t *from = stream->in.data + stream->in.at;
    uint64_t offset = stream->landing.size - left;
    const whi_span *sink = &stream->sink;
    if (sink->ptr)
        memcpy((char *)sink->ptr + offset, from, size);
    else
        sink->move(sink->ctx, sink->base + offset, from, size);
    stream->in.at += size;
    stream->landing_left -= size;
}

// finish tells the owner that the chunk is there.
static wh_status finish(whi_stream *stream) {
    const whi_lane *lane = &stream->lane;
    return lane->up->landed(lane->link, &stream->landing);
}

// begin asks where a chunk goes and takes what has come of it already; its header is consumed.
static wh_status begin(whi_stream *stream, const whi_hdr *hdr) {
    const whi_lane *lane = &stream->lane;
    whi_span sink = {.ptr = NULL};
    wh_status status = lane->up->sink(lane->link, hdr, &sink);
    if (status != WH_OK)
        return status;
    assert(sink.ptr || sink.move);
    stream->landing = *hdr;
    stream->sink = sink;
    stream->landing_left = hdr->size;
    if (hdr->size > COPIED)
        stream->bulky = BULKY;
    else
        stream->bulky -= stream->bulky > 0;
    land(stream);
    return stream->landing_left == 0 ? finish(stream) : WH_OK;
}

// check refuses a header that no honest peer sends.
static wh_status check(whi_stream *stream, const whi_hdr *hdr) {
    if (hdr->cls >= WHI_CLASS_LANE)
        return whi_stream_violated(stream, "a record of an unknown class", hdr->cls);
    if (hdr->cls == WHI_CLASS_LONG && !stream->opts.takes_long)
        return whi_stream_violated(stream, "a long record, which was not agreed on", hdr->size);
    if (!lands(hdr) && hdr->size > stream->opts.eager_limit)
        return whi_stream_violated(stream, "a record that is too large", hdr->size);
    if (lands(hdr) && (hdr->size == 0 || hdr->size > stream->opts.chunk))
        return whi_stream_violated(stream, "a chunk or long record of a bad size", hdr->size);
    return WH_OK;
}

// step handles the record at the front of `in`: 1 when that was an event, 0 when it is not whole
// yet, else a negative status.
static int step(whi_stream *stream) {
    whi_stream_buf *in = &stream->in;
    whi_hdr hdr;
    if (whi_stream_pending(in) < sizeof(hdr))
        return 0;
    memcpy(&hdr, in->data + in->at, sizeof(hdr));
    wh_status status = check(stream, &hdr);
    if (status != WH_OK)
        return status;
    if (lands(&hdr)) {
        in->at += sizeof(hdr);
        status = begin(stream, &hdr);
    } else {
        if (whi_stream_pending(in) < sizeof(hdr) + hdr.size)
            return 0;
        const uint8_t *payload = in->data + in->at + sizeof(hdr);
        in->at += sizeof(hdr) + hdr.size;
        stream->bulky -= stream->bulky > 0;
        status = stream->lane.up->deliver(stream->lane.link, &hdr, payload);
    }
    return status == WH_OK ? 1 : (int)whi_stream_fail(stream, status);
}

// advance continues a landing chunk from the socket: 1, 0 when nothing came, or a negative status.
static int advance(whi_stream *stream, bool *all) {
    ssize_t n;
    if (stream->sink.ptr) {
        n = receive_landing(stream, all);
    } else {
        n = receive_records(stream, all);
        land(stream);
    }
    if (n <= 0)
        return n < 0 ? (int)stream->broken : 0;
    stream->moved += (size_t)n;
    if (stream->landing_left > 0)
        return 1;
    wh_status status = finish(stream);
    return status == WH_OK ? 1 : (int)whi_stream_fail(stream, status);
}

// refill gets more from the socket: 1 when a chunk moved, 0 when not, or a negative status.  *more
// tells whether asking again may bring more.
static int refill(whi_stream *stream, bool *more) {
    *more = false;
    if (stream->landing_left > 0)
        return advance(stream, more);
    ssize_t n = receive_records(stream, more);
    return n < 0 ? (int)stream->broken : 0;
}

// deliver handles the records that are whole in `in`.
static int deliver(whi_stream *stream, int budget) {
    int events = 0;
    while (events < budget && stream->landing_left == 0 && !stream->rx_bytes) {
        int n = step(stream);
        if (n <= 0)
            return n < 0 ? n : events;
        events++;
    }
    return events;
}

int whi_stream_read(whi_stream *stream, int budget) {
    int events = 0;
    stream->moved = 0;
    for (bool more = true;;) {
        int n = deliver(stream, budget - events);
        if (n < 0)
            return n;
        events += n;
        if (!more || events >= budget || stream->moved >= WHI_LANE_TURN || stream->rx_bytes)
            return events;
        n = refill(stream, &more);
        if (n < 0)
            return n;
        events += n;
    }
}

bool whi_stream_complete(const whi_stream *stream) {
    const whi_stream_buf *in = &stream->in;
    size_t size = whi_stream_pending(in);
    if (stream->rx_bytes)
        return size > 0;
    whi_hdr hdr;
    if (size < sizeof(hdr))
        return false;
    memcpy(&hdr, in->data + in->at, sizeof(hdr));
    // A chunk begins with its header alone, and so does trouble.
    return lands(&hdr) || hdr.size > stream->opts.eager_limit || size >= sizeof(hdr) + hdr.size;
}
