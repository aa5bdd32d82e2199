// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of the lanes: a descriptor that a hostile peer would pass.
#ifndef WHI_NET_TEST_LINGER_H
#define WHI_NET_TEST_LINGER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/test.h"

enum { LINGER_S = 6 };

// linger_open makes a TCP socket whose closing takes LINGER_S: its bytes have nowhere to go.
// `others` are its peer and what that came from, to be closed after it.
static int linger_open(int others[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&at, size) == 0);
    others[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    others[1] = listener;
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
    static char bytes[1 << 16];
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
    return fd;
}

// LINGER_CHECK does something and sees that it did not wait for such a socket.
#define LINGER_CHECK(what)                                                                         \
    do {                                                                                           \
        uint64_t linger_start = whi_clock_ns();                                                    \
        what;                                                                                      \
        CHECK(whi_clock_ns() - linger_start < LINGER_S * WHI_NS_PER_S / 2);                        \
    } while (0)

#endif
