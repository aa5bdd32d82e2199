// SPDX-License-Identifier: BSD-3-Clause
//
// Sockets: the system calls behind listeners, dials and the local name, with their errors as statuses.
#ifndef WHI_LINK_SOCK_H
#define WHI_LINK_SOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "link/address.h"
#include "worker/context.h"

// whi_sock_listen opens a listening TCP socket, non-blocking and close-on-exec.
WH_CHECK wh_status whi_sock_listen(const whi_sockaddr *addr, const whi_config *config, int *fd);

// whi_sock_connect begins to connect: WH_OK connected, WH_PENDING under way, else failed.  whi_sock_connected asks
// how that went.
WH_CHECK wh_status whi_sock_connect(const whi_sockaddr *addr, const whi_config *config, int *fd);
wh_status whi_sock_connected(int fd);

// whi_sock_status translates an errno of connecting.
wh_status whi_sock_status(int error);

// The abstract AF_UNIX name of a worker.
WH_CHECK wh_status whi_sock_listen_local(const char *name, int *fd);
WH_CHECK wh_status whi_sock_connect_local(const char *name, int *fd);

// whi_sock_peer_of reads who is at the other end of a local socket.
bool whi_sock_peer_of(int fd, pid_t *pid, uid_t *uid);

// whi_sock_keepalive makes a dead network be noticed within `timeout_ms`.
void whi_sock_keepalive(int fd, uint64_t timeout_ms);

// whi_sock_name writes the peer's address for people.
void whi_sock_name(int fd, char *text, size_t size);

#endif
