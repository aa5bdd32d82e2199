// SPDX-License-Identifier: BSD-3-Clause
//
// Descriptors that a peer has passed: how to be rid of them.
//
// They name files of the peer's choice.  Whoever takes one looks at what it is before using it, and
// closes it with whi_untrusted_close, never with close(2) alone.
#ifndef WHI_NET_UNTRUSTED_H
#define WHI_NET_UNTRUSTED_H

#include <sys/socket.h>
#include <unistd.h>

// whi_untrusted_close closes a descriptor that came from a peer.
//
// Closing the last descriptor of a TCP socket that lingers (SO_LINGER) waits until its bytes are
// gone, which a peer can put off for as long as it likes.  What is no socket refuses the option.
static inline void whi_untrusted_close(int fd) {
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    close(fd);
}

#endif
