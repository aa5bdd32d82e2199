// SPDX-License-Identifier: BSD-3-Clause
//
// Channels: a stream of messages between two chares (chare.h), received into memory that is named ahead.
//
// A message of a channel names no entry and runs nothing: what one end sends, any memory of any layout, goes straight into what the
// other end has given a receive.  Sends and receives of a channel match in order.  Both ends are told by completions, as in all
// operations (request.h).
//
// Threads: as those of chare.h.
#ifndef WHERRY_CHANNEL_H
#define WHERRY_CHANNEL_H

#include <wherry/chare.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_channel wh_channel;  // one end

enum {
    // Receives do not keep the element from moving: when it leaves, those that have not matched a message fail with WH_ECANCELLED,
    // and it waits for the others.  All have ended before `pack` is asked last.  With an id only.
    WH_CHANNEL_WITHDRAW = 1 << 0,
};

typedef struct wh_channel_opts {  // zero in any field means its default
    size_t size;                  // of the caller's struct, so that it can grow
    // Messages that this end may be sent before it has received them, up to 65536; beyond it they wait with their sender.
    // Default: 64.  Of those from an element of the same PE, each of up to 8 KiB takes its own size of memory meanwhile.
    uint32_t window;
    // By which this element finds the end again when it has moved (wh_channel_find), another one for each of its ends.
    // 0: the element cannot move while it has this end.
    uint32_t id;
    uint32_t flags;  // WH_CHANNEL_*
    uint32_t reserved;
} wh_channel_opts;
#ifndef __cplusplus
#define WH_CHANNEL_OPTS(...) (&(wh_channel_opts){.size = sizeof(wh_channel_opts), __VA_ARGS__})
#endif

// wh_channel_open makes this element's end of a channel to another element, which does the same: the k-th end that one
// opens to the other belongs to the k-th of that one.
//
// It returns at once, and operations can be started at once.  They fail with WH_EPEER when the other element does
// not exist, ends, or is lost with its PE.  WH_EBUSY: this element is about to move.  WH_EINVAL: it has another end of this id; `flags`
// has an unknown bit, or WH_CHANNEL_WITHDRAW without an id.
WH_API WH_CHECK wh_status wh_channel_open(wh_chare *self, wh_proxy peer,
                                          const wh_channel_opts *opts, wh_channel **channel);

// wh_channel_find finds an end of this element that is not closed, in its `unpack` or later: handles do not move with their element.
// WH_ENOTFOUND: it has no end of this id.
WH_API WH_CHECK wh_status wh_channel_find(wh_chare *self, uint32_t id, wh_channel **channel);

// wh_channel_send and wh_channel_recv are wh_tag_send and wh_tag_recv (tag.h) on a channel, without WH_OP_SYNC.
//
// A send completes when its buffer may be used again, and waits while the other end's window is full.  WH_ECLOSED: the other
// end is closed, and has not received it.  A receive fails with WH_ECLOSED when it has all that was sent.  WH_EBUSY: the element
// is about to move.
WH_API WH_CHECK wh_status wh_channel_send(wh_channel *channel, const void *buf, size_t size,
                                          const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_channel_recv(wh_channel *channel, void *buf, size_t size,
                                          const wh_op_opts *opts, wh_request **req);

// wh_channel_send_then and wh_channel_recv_then carry out a callback (chare.h) when the operation has ended, which may be
// before they return: it gets the wh_result as its value.  WH_OK: it will; an error: nothing happened.
WH_API WH_CHECK wh_status wh_channel_send_then(wh_channel *channel, const void *buf, size_t size,
                                               const wh_op_opts *opts, const wh_callback *callback);
WH_API WH_CHECK wh_status wh_channel_recv_then(wh_channel *channel, void *buf, size_t size,
                                               const wh_op_opts *opts, const wh_callback *callback);

// wh_channel_close ends this end: its receives fail with WH_ECLOSED, its sends go on.  The other end receives what was sent, then
// WH_ECLOSED.  An element that ends closes its channels, and their handles are gone with it.
WH_API void wh_channel_close(wh_channel *channel);

#ifdef __cplusplus
}
#endif
#endif
