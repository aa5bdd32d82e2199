// SPDX-License-Identifier: BSD-3-Clause
//
// Who is at the other end of a link, see peer.h.
#include "link/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "link/address.h"
#include "link/sock.h"

whi_peer *whi_peer_new(const uint8_t uuid[16]) {
    whi_peer *peer = whi_calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->refs = 1;
    peer->info.size = sizeof(peer->info);
    memcpy(peer->info.uuid, uuid, sizeof(peer->info.uuid));
    return peer;
}

whi_peer *whi_peer_retain(whi_peer *peer) {
    peer->refs++;
    return peer;
}

void whi_peer_release(whi_peer *peer) {
    if (peer && --peer->refs == 0)
        whi_free(peer);
}

void whi_peer_says(whi_peer *peer, const whi_hello *hello, const uint8_t boot_id[16]) {
    peer->info.same_host = whi_hello_same_host(hello, boot_id);
    peer->info.uid = hello->uid;
    peer->info.pid = hello->pid;
    snprintf(peer->info.host, sizeof(peer->info.host), "%s", hello->host);
}

typedef int (*name_fn)(int fd, struct sockaddr *addr, socklen_t *size);

static void tell_end(int fd, name_fn name, wh_address *out) {
    whi_sockaddr addr = {.size = sizeof(addr.addr)};
    if (name(fd, (struct sockaddr *)&addr.addr, &addr.size) == 0)
        whi_address_tell(&addr, out);
}

// glibc declares these two with a union of its own, and so they are of another type.
static int own_name(int fd, struct sockaddr *addr, socklen_t *size) {
    return getsockname(fd, addr, size);
}

static int their_name(int fd, struct sockaddr *addr, socklen_t *size) {
    return getpeername(fd, addr, size);
}

void whi_peer_reached(whi_peer *peer, int fd) {
    tell_end(fd, own_name, &peer->info.local);
    tell_end(fd, their_name, &peer->info.remote);
}

void whi_peer_vouch(whi_peer *peer, int local_fd) {
    pid_t pid;
    uid_t uid;
    if (!whi_sock_peer_of(local_fd, &pid, &uid))
        return;
    peer->info.same_host = true;
    peer->info.uid = uid;
    // Of a process that this pid namespace does not see the kernel says 0: then its own word is all
    // there is.
    if (pid > 0)
        peer->info.pid = (uint32_t)pid;
    peer->info.vouched = true;
}
