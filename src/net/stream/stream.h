// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane: records over a connected, non-blocking stream socket (TCP or AF_UNIX).
//
// The socket of a link lives as long as the link.  It begins in records; when the link has moved
// its messages to another lane it goes on as a channel of single bytes: the bell, and descriptors
// (AF_UNIX).  The two directions change over separately, each right after a record that says so.
#ifndef WHI_NET_STREAM_H
#define WHI_NET_STREAM_H

#include "net/lane.h"

typedef struct whi_stream_opts {
    size_t eager_limit;  // payload bytes of a record
    size_t chunk;        // bytes of a chunk; a larger one from the peer fails the lane
    bool takes_long;     // both sides take long records, which may be as large as a chunk
    bool local;          // AF_UNIX: descriptors may come
} whi_stream_opts;

// whi_stream_create makes a lane of a connected socket, which it makes non-blocking (TCP: without
// delay) and owns from a success on.
wh_status whi_stream_create(int fd, const whi_stream_opts *opts, const whi_lane_up *up, void *link,
                            whi_lane **lane);

// whi_stream_blocked tells whether the socket has refused bytes: the owner watches it for space then,
// and polls.
bool whi_stream_blocked(const whi_lane *lane);

// whi_stream_send_fd sends a record without payload and with a descriptor (the caller keeps and
// closes its own).  WH_EAGAIN: not now.  The receiver takes it in the upcall that delivers the
// record, with whi_stream_take_fd.
wh_status whi_stream_send_fd(whi_lane *lane, const whi_hdr *hdr, int fd);

// whi_stream_tx_bytes, whi_stream_rx_bytes: this direction is single bytes from now on.  rx may be
// called inside the upcall that delivers the last record.  No record may be waiting unsent
// (WH_EAGAIN).
wh_status whi_stream_tx_bytes(whi_lane *lane);
void whi_stream_rx_bytes(whi_lane *lane);

// In byte mode: ring the peer's bell.  One that finds the socket full is dropped: the peer has bytes
// to read.  WH_EAGAIN: the system has no memory for it, and the bell must be rung again.
wh_status whi_stream_bell(whi_lane *lane);

// In byte mode: pass a descriptor (the caller keeps and closes its own; WH_EAGAIN: not now).
wh_status whi_stream_pass_fd(whi_lane *lane, int fd);

// whi_stream_hang_up has the peer see the end of the connection behind what was sent; the lane still has to be closed.
void whi_stream_hang_up(whi_lane *lane);

// whi_stream_take_fd returns the next descriptor that has come, to be closed with
// whi_untrusted_close, or a negative wh_status: WH_EAGAIN when there is none yet.  In byte mode it
// reads the socket if it must.
int whi_stream_take_fd(whi_lane *lane);

#endif
