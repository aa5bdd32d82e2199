// SPDX-License-Identifier: BSD-3-Clause
//
// The socket of a link, see control.h: what it can do is the stream lane's.
#include "link/control.h"

#include <poll.h>
#include <sys/epoll.h>

#include "link/sock.h"
#include "net/stream/stream.h"

void whi_control_init(whi_control *control) {
    *control = (whi_control){.watch = {.fd = -1}};
}

wh_status whi_control_open(whi_control *control, wh_worker *worker, int fd,
                           const whi_control_opts *opts) {
    wh_status st = whi_worker_watch(worker, &control->watch, fd, EPOLLIN);
    if (st != WH_OK)
        return st;
    whi_stream_opts stream = {.eager_limit = opts->eager_limit,
                              .chunk = opts->chunk,
                              .takes_long = opts->takes_long,
                              .local = opts->local};
    st = whi_stream_create(fd, &stream, opts->up, opts->link, &control->lane);
    if (st == WH_OK)
        control->watch.fn = opts->on_event;
    else
        whi_worker_unwatch(worker, &control->watch);
    return st;
}

void whi_control_unwatch(whi_control *control, wh_worker *worker) {
    whi_worker_unwatch(worker, &control->watch);
}

void whi_control_close(whi_control *control) {
    if (control->lane)
        control->lane->ops->close(control->lane);
    control->lane = NULL;
}

bool whi_control_peer(const whi_control *control, pid_t *pid, uid_t *uid) {
    return whi_sock_peer_of(control->watch.fd, pid, uid);
}

bool whi_control_hung_up(const whi_control *control) {
    struct pollfd p = {.fd = control->watch.fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

void whi_control_hang_up(const whi_control *control) {
    if (control->lane)
        whi_stream_hang_up(control->lane);
}

void whi_control_watch_space(whi_control *control, wh_worker *worker, bool want) {
    if (want == control->watching_out)
        return;
    control->watching_out = want;
    whi_worker_rewatch(worker, &control->watch, EPOLLIN | (want ? (uint32_t)EPOLLOUT : 0));
}

bool whi_control_blocked(const whi_control *control) {
    return whi_stream_blocked(control->lane);
}

wh_status whi_control_left(whi_control *control) {
    return whi_stream_tx_bytes(control->lane);
}

void whi_control_peer_left(whi_control *control) {
    whi_stream_rx_bytes(control->lane);
}

wh_status whi_control_send_fd(whi_control *control, const whi_hdr *hdr, int fd) {
    return whi_stream_send_fd(control->lane, hdr, fd);
}

wh_status whi_control_pass_fd(whi_control *control, int fd) {
    return whi_stream_pass_fd(control->lane, fd);
}

int whi_control_take_fd(whi_control *control) {
    return whi_stream_take_fd(control->lane);
}

wh_status whi_control_bell(const whi_control *control) {
    return whi_stream_bell(control->lane);
}
