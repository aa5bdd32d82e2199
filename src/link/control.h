// SPDX-License-Identifier: BSD-3-Clause
//
// Control: the socket of a link's handshake, which the link keeps for its whole life.
//
// It begins as the lane that all records go by.  When the messages of a direction have moved to
// another lane, that direction carries single bytes, the peer's bell, and descriptors.  Its end tells
// that the peer has gone.  A link inside the process has none.  Owner's thread.
#ifndef WHI_LINK_CONTROL_H
#define WHI_LINK_CONTROL_H

#include <sys/types.h>

#include "net/lane.h"
#include "worker/worker.h"

typedef struct whi_control {
    whi_lane *lane;  // NULL: there is no socket
    whi_watch watch;
    bool watching_out;
    wh_status ended;  // how it ended while messages went by another lane; WH_OK: it has not
} whi_control;

typedef struct whi_control_opts {
    bool local;          // AF_UNIX: descriptors may come
    size_t eager_limit;  // payload bytes of a record
    size_t chunk;        // bytes of a chunk
    bool takes_long;     // the peer takes long messages
    const whi_lane_up *up;
    void *link;
    void (*on_event)(whi_watch *watch, uint32_t events);
} whi_control_opts;

// whi_control_init makes one without a socket; whi_control_open gives it `fd`, which it owns from a
// success on.  whi_control_unwatch stops looking for events; whi_control_close ends it.
void whi_control_init(whi_control *control);
WH_CHECK wh_status whi_control_open(whi_control *control, wh_worker *worker, int fd,
                                    const whi_control_opts *opts);
void whi_control_unwatch(whi_control *control, wh_worker *worker);
void whi_control_close(whi_control *control);

// whi_control_peer asks the kernel for the process that made the other end; false: it does not say.
bool whi_control_peer(const whi_control *control, pid_t *pid, uid_t *uid);

// whi_control_hung_up looks whether the other end is gone, without reading.  whi_control_hang_up has the other end see that
// of this one from now on; what was sent before still arrives.
bool whi_control_hung_up(const whi_control *control);
void whi_control_hang_up(const whi_control *control);

// whi_control_watch_space asks for an event when the socket takes bytes again, or ends that.
// whi_control_blocked tells whether it has refused some.
void whi_control_watch_space(whi_control *control, wh_worker *worker, bool want);
bool whi_control_blocked(const whi_control *control);

// whi_control_left says that our records go elsewhere from now on: SWITCH was the last.
// whi_control_peer_left says so of the peer's, inside the delivery of its SWITCH.
wh_status whi_control_left(whi_control *control);
void whi_control_peer_left(whi_control *control);

// whi_control_send_fd sends a record with a descriptor, while records still go by the socket;
// whi_control_pass_fd a descriptor alone, after that.  The caller keeps and closes its own.  WH_EAGAIN:
// not now.  whi_control_take_fd returns the next one that has come, to be closed with
// whi_untrusted_close, or a negative status: WH_EAGAIN when there is none yet.
wh_status whi_control_send_fd(whi_control *control, const whi_hdr *hdr, int fd);
wh_status whi_control_pass_fd(whi_control *control, int fd);
int whi_control_take_fd(whi_control *control);

// whi_control_bell rings the peer's bell.  WH_EAGAIN: ring again.
wh_status whi_control_bell(const whi_control *control);

#endif
