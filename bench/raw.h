// SPDX-License-Identifier: BSD-3-Clause
//
// Bare counterparts without Wherry: the same cells over a plain TCP socket, the ping-pong of two
// sleeping processes over a pair of eventfds, and memcpy.
//
// They run in the same two processes on the same cores as Wherry's side of the comparison.  Blocking
// calls; one thread per descriptor.
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "bench/cell.h"

#include <stdbool.h>

// One end of a bare TCP connection.
typedef struct bench_socket {
    int fd;
    bool spin;  // poll the socket instead of sleeping in the kernel
    char *buffer;
    size_t room;
} bench_socket;

// bench_socket_listen opens a listening socket at `host`, or at all addresses when it is NULL, and
// returns its descriptor and the port that it got; negative when it could not.
int bench_socket_listen(const char *host, int *port);

// bench_socket_accept takes one connection within `timeout_ms`; bench_socket_connect makes one.
// Either is undone by bench_socket_close.
bool bench_socket_accept(bench_socket *sock, int listener, int timeout_ms);
bool bench_socket_connect(bench_socket *sock, const char *host, int port);
void bench_socket_close(bench_socket *sock);

// bench_socket_lead runs a cell, bench_socket_follow is its counterpart.  False when the connection
// was lost.
bool bench_socket_lead(bench_socket *sock, const bench_cell *cell, bench_hist *hist);
bool bench_socket_follow(bench_socket *sock, const bench_cell *cell);

// Two eventfds between two processes: [0] rings the follower, [1] the lead.
typedef struct bench_bells {
    int fd[2];
} bench_bells;

// bench_bells_ping is one side of `count` round trips, in which both sleep in epoll until rung.  The
// lead passes a histogram, the follower NULL.
bool bench_bells_ping(const bench_bells *bells, uint64_t count, bench_hist *hist);

// Two buffers of one process.  Made by the first run, all zero before; unmade by bench_copy_free.
typedef struct bench_copy {
    char *from, *to;
    size_t room;
    bench_hist *hist;
} bench_copy;

// bench_copy_run copies as often as the cell says; its latency is that of one copy.  False without
// memory.
bool bench_copy_run(bench_copy *copy, const bench_cell *cell, bench_run *run);
void bench_copy_free(bench_copy *copy);

#endif
