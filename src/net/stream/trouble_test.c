// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane in byte mode where the system has run out of something, or the peer means harm.
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "net/stream/test_peer.h"
#include "net/test_linger.h"

// What send(2) fails with; 0: it works.
static int send_error;

// Takes the place of the C library's.
ssize_t send(int fd, const void *data, size_t size, int flags) {
    if (send_error) {
        errno = send_error;
        return -1;
    }
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

static void go_bytes(peer *self) {
    peer_open(self, true);
    CHECK_EQ_INT(whi_stream_tx_bytes(self->lane), WH_OK);
    whi_stream_rx_bytes(self->lane);
}

TEST(a_bell_without_memory_is_said_to_be_owed) {
    static const struct {
        int error;
        wh_status status;
    } cases[] = {{ENOBUFS, WH_EAGAIN}, {ENOMEM, WH_EAGAIN}, {EAGAIN, WH_OK}, {EPIPE, WH_OK}};
    peer self;
    go_bytes(&self);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        send_error = cases[i].error;
        wh_status status = whi_stream_bell(self.lane);
        send_error = 0;
        CHECK_EQ_INT(status, cases[i].status);
    }
    char byte;
    CHECK(recv(self.fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    CHECK_EQ_INT(whi_stream_bell(self.lane), WH_OK);
    CHECK_EQ_INT(recv(self.fd, &byte, 1, MSG_DONTWAIT), 1);
    peer_close(&self);
}

// ---- a descriptor for which this process has no number left

static char said[512];

static void keep_line(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    snprintf(said, sizeof(said), "%s %s %s", level, id, text);
}

static void without_descriptors(peer *self, const void *bytes, size_t size) {
    struct rlimit usual, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    peer_write_fds(self, bytes, size, &self->fd, 1);
    whi_log_set_sink(keep_line, NULL);
    int next = dup(self->fd);
    close(next);
    none = usual;
    none.rlim_cur = (rlim_t)next;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int events = peer_poll(self);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK_EQ_INT(events, WH_ELIMIT);
    CHECK(strstr(said, "E-STREAM-05") && strstr(said, "ulimit -n"));
    CHECK_EQ_INT(whi_stream_take_fd(self->lane), WH_ELIMIT);
    peer_close(self);
}

TEST(our_own_limit_is_not_the_peers_fault) {
    peer self;
    peer_open(&self, true);
    whi_hdr hdr = {.cls = 0x20};
    without_descriptors(&self, &hdr, sizeof(hdr));
    CHECK_EQ_INT(self.heard, 0);
    go_bytes(&self);
    without_descriptors(&self, "\2", 1);
}

// ---- bells before a descriptor

TEST(a_descriptor_is_found_behind_many_bells) {
    peer self;
    go_bytes(&self);
    static uint8_t bells[20000];
    memset(bells, 1, sizeof(bells));
    peer_write(&self, bells, sizeof(bells));
    peer_write_fds(&self, "\2", 1, &self.fd, 1);
    int fd = whi_stream_take_fd(self.lane);
    CHECK(fd >= 0);
    close(fd);
    CHECK_EQ_INT(whi_stream_take_fd(self.lane), WH_EAGAIN);
    CHECK_EQ_INT(peer_poll(&self), (int)sizeof(bells) + 1);
    peer_close(&self);
}

// ---- closing what a peer chose

TEST(a_lingering_socket_does_not_hold_us) {
    int others[2][2];
    peer self;
    go_bytes(&self);
    for (int i = 0; i < 2; i++) {
        int fd = linger_open(others[i]);
        int fds[] = {fd, fd, fd, fd};
        // First as many as may wait; then one more, which is closed at once.
        peer_write_fds(&self, "\2\2\2\2", i ? 1 : 4, fds, i ? 1 : 4);
        close(fd);
        LINGER_CHECK(CHECK_EQ_INT(peer_poll(&self), i ? WH_EPROTOCOL : 4));
    }
    LINGER_CHECK(peer_close(&self));
    for (int i = 0; i < 4; i++)
        close(others[i / 2][i % 2]);
}

TEST_MAIN()
