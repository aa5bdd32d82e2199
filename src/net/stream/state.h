// SPDX-License-Identifier: BSD-3-Clause
//
// The inside of the stream lane, shared by its own files only.
//
// stream.c makes, asks and unmakes; tx.c writes; rx.c reads records; bytes.c has the mode of single
// bytes and the descriptors.  The two directions share the socket and nothing else: a direction
// that has failed does not stop the other, so that what the peer said before it went is still
// heard.  Both buffers exist while the lane is busy only (whi_stream_rest), because most links are
// idle most of the time.  Everything belongs to the thread of the worker.
#ifndef WHI_NET_STREAM_STATE_H
#define WHI_NET_STREAM_STATE_H

#include <sys/socket.h>
#include <sys/types.h>

#include "base/list.h"  // whi_container_of
#include "net/stream/stream.h"

enum {
    // Space for descriptors that have come and were not yet taken.  The protocol above never has
    // more than two under way, so more are an attempt to use up our table of descriptors.
    WHI_STREAM_FDS = 4,
};

// A run of bytes in memory that comes and goes: [at, end) of `size` are in use.
typedef struct whi_stream_buf {
    uint8_t *data;
    size_t size, at, end;
} whi_stream_buf;

typedef struct whi_stream {
    whi_lane lane;
    whi_stream_opts opts;
    int fd;
    unsigned quiet;    // polls in a row that found nothing
    bool heard;        // the socket gave something in this poll
    wh_status broken;  // the first failure of receiving; it ends the lane

    // tx.c.  At most one of `out` and an open chunk is continued at a time: `out` goes first.
    wh_status tx_broken;  // sending has failed; receiving goes on until it finds nothing more
    bool tx_bytes;        // this direction has left records behind
    bool full;            // the socket has refused bytes and was not seen writable since
    whi_stream_buf out;   // taken from the user, not yet by the socket
    whi_hdr open;         // the chunk announced and not wholly taken; `arg` is where it goes on
    size_t open_left;     // bytes of it that are still to be pushed

    // rx.c
    whi_stream_buf in;    // received, not yet delivered
    whi_hdr landing;      // the chunk on its way into the user's memory
    whi_span sink;        // where it goes
    size_t landing_left;  // bytes of it that have not come
    size_t moved;         // bytes of such that this poll has taken from the socket
    unsigned bulky;       // so many more small records are read with a short look ahead

    // bytes.c
    bool rx_bytes;        // that direction has left records behind
    unsigned unreported;  // bytes read on the way to a descriptor, for the next poll to count
    unsigned fd_count;    // descriptors that wait to be taken
    unsigned fd_bytes;    // bytes that have announced one of them
    int fds[WHI_STREAM_FDS];
} whi_stream;

// whi_stream_of returns the stream lane that a lane is part of.
static inline whi_stream *whi_stream_of(const whi_lane *lane) {
    return whi_container_of(lane, whi_stream, lane);
}

// whi_stream_pending returns how many bytes a buffer holds.
static inline size_t whi_stream_pending(const whi_stream_buf *buf) {
    return buf->end - buf->at;
}

// whi_stream_fail ends receiving, and so the lane, with `status`, and returns it.
wh_status whi_stream_fail(whi_stream *stream, wh_status status);

// whi_stream_violated logs what the peer did against the protocol, with the value that showed it,
// and ends the lane.  Returns WH_EPROTOCOL.
wh_status whi_stream_violated(whi_stream *stream, const char *what, uint64_t value);

// whi_stream_lost turns the errno of a failed call on the socket into a status.
wh_status whi_stream_lost(const whi_stream *stream, const char *call, int error);

// whi_stream_rest gives back the buffers that hold nothing.
void whi_stream_rest(whi_stream *stream);

// tx.c: the vtable's send and push; flush tries what was refused and returns true when there is
// space again; write sends an iovec, with a descriptor if fd >= 0, and returns how many bytes the
// socket took, 0 for none now, or -1 when sending has failed.
wh_status whi_stream_send(whi_lane *lane, const whi_hdr *hdr, const void *payload);
wh_status whi_stream_send_long(whi_lane *lane, const whi_hdr *front, const void *front_payload,
                               const whi_hdr *hdr, const whi_span *src);
wh_status whi_stream_push(whi_lane *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                          size_t *moved);
bool whi_stream_flush(whi_stream *stream);
ssize_t whi_stream_write(whi_stream *stream, struct iovec *iov, size_t count, int fd);

// rx.c: read delivers up to `budget` records and returns how many events that were, or a negative
// status.  complete tells whether a record can be delivered without the socket.
int whi_stream_read(whi_stream *stream, int budget);
bool whi_stream_complete(const whi_stream *stream);

// bytes.c: receive is recvmsg with errors turned into our own, for both modes; it keeps the
// descriptors that come along.  It returns the bytes, 0 for none now, or -1 when the lane has
// failed.  read_bytes reads what waits in byte mode and returns how many bytes, or a negative
// status.
ssize_t whi_stream_receive(whi_stream *stream, struct iovec *iov, size_t count);
int whi_stream_read_bytes(whi_stream *stream);

#endif
