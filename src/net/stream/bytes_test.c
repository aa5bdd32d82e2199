// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane: descriptors, and the mode of single bytes.
#include <fcntl.h>
#include <sys/stat.h>

#include "net/stream/test_peer.h"

static uint64_t identity(int fd) {
    struct stat info;
    CHECK(fstat(fd, &info) == 0);
    return (uint64_t)info.st_ino;
}

// A pipe: its reading end tells when all copies of the writing end are gone.
typedef struct probe {
    int in, out;
} probe;

static probe probe_open(void) {
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    return (probe){fds[0], fds[1]};
}

static bool probe_gone(const probe *self) {
    char byte;
    return read(self->in, &byte, 1) == 0;
}

static void go_bytes(peer *self, bool local) {
    peer_open(self, local);
    CHECK_EQ_INT(whi_stream_tx_bytes(self->lane), WH_OK);
    whi_stream_rx_bytes(self->lane);
}

TEST(a_record_brings_a_descriptor) {
    peer a, b;
    peer_open(&a, true);
    whi_stream_opts opts = {.eager_limit = PEER_EAGER, .chunk = PEER_CHUNK, .local = true};
    b = (peer){.fd = -1, .fd_taken = -1, .take = true};
    CHECK_EQ_INT(whi_stream_create(a.fd, &opts, &peer_up, &b, &b.lane), WH_OK);
    a.fd = -1;
    probe pipe = probe_open();
    whi_hdr hdr = {.cls = 0x20, .seq = 9};
    CHECK_EQ_INT(whi_stream_send_fd(a.lane, &hdr, pipe.out), WH_OK);
    CHECK_EQ_INT(peer_poll(&b), 1);
    CHECK_EQ_INT(b.last_seq, 9);
    CHECK(b.fd_taken >= 0 && b.fd_taken != pipe.out);
    CHECK(identity(b.fd_taken) == identity(pipe.out));
    CHECK(fcntl(b.fd_taken, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ_INT(whi_stream_take_fd(b.lane), WH_EAGAIN);
    close(b.fd_taken);
    close(pipe.out);
    CHECK(probe_gone(&pipe));
    close(pipe.in);
    peer_close(&a);
    peer_close(&b);
}

TEST(bells_are_counted) {
    peer self;
    go_bytes(&self, false);
    CHECK_EQ_INT(peer_poll(&self), 0);
    peer_write(&self, "\1\1\1", 3);
    CHECK_EQ_INT(peer_poll(&self), 3);
    CHECK_EQ_INT(peer_poll(&self), 0);
    uint8_t many[1000];
    memset(many, 1, sizeof(many));
    peer_write(&self, many, sizeof(many));
    CHECK_EQ_INT(peer_poll(&self), 1000);
    CHECK(!self.lane->ops->ready(self.lane, true));
    peer_close(&self);
}

TEST(a_flood_of_bells_is_bounded) {
    peer self;
    go_bytes(&self, false);
    static uint8_t many[100000];
    memset(many, 1, sizeof(many));
    peer_write(&self, many, sizeof(many));
    int first = peer_poll(&self), all = first;
    CHECK(first >= 1000 && first <= 10000);
    while (all < (int)sizeof(many)) {
        int n = peer_poll(&self);
        CHECK(n > 0);
        all += n;
    }
    CHECK_EQ_INT(peer_poll(&self), 0);
    peer_close(&self);
}

// Ringing never waits and never fails: a peer that does not read has bytes to read.
TEST(a_bell_is_one_byte_or_none) {
    peer self;
    go_bytes(&self, false);
    CHECK_EQ_INT(whi_stream_bell(self.lane), WH_OK);
    uint8_t bytes[8];
    CHECK_EQ_INT(read(self.fd, bytes, sizeof(bytes)), 1);
    CHECK_EQ_INT(bytes[0], 1);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ_INT(whi_stream_bell(self.lane), WH_OK);
    CHECK(!whi_stream_blocked(self.lane));
    close(self.fd);
    self.fd = -1;
    CHECK_EQ_INT(whi_stream_bell(self.lane), WH_OK);
    CHECK_EQ_INT(peer_poll(&self), WH_EPEER);
    peer_close(&self);
}

// The bytes behind the last record have come with it, and are bytes.
TEST(the_change_is_exact) {
    peer self;
    peer_open(&self, true);
    probe pipe = probe_open();
    uint8_t bytes[2 * sizeof(whi_hdr) + 3] = {0};
    memcpy(bytes, &(whi_hdr){.cls = 0x20}, sizeof(whi_hdr));
    memcpy(bytes + sizeof(whi_hdr), &(whi_hdr){.cls = CLASS_LAST}, sizeof(whi_hdr));
    memcpy(bytes + 2 * sizeof(whi_hdr), "\1\1\2", 3);
    peer_write_fds(&self, bytes, sizeof(bytes), &pipe.out, 1);
    CHECK_EQ_INT(peer_poll(&self), 2 + 3);
    CHECK_EQ_INT(self.heard, 2);
    int fd = whi_stream_take_fd(self.lane);
    CHECK(fd >= 0 && identity(fd) == identity(pipe.out));
    close(fd);
    peer_write(&self, "\1", 1);
    CHECK_EQ_INT(peer_poll(&self), 1);
    close(pipe.out);
    close(pipe.in);
    peer_close(&self);
}

TEST(bytes_are_ready_after_the_change) {
    peer self;
    peer_open(&self, false);
    uint8_t bytes[sizeof(whi_hdr) + 1] = {[sizeof(whi_hdr)] = 1};
    memcpy(bytes, &(whi_hdr){.cls = 0x20}, sizeof(whi_hdr));
    peer_write(&self, bytes, sizeof(bytes));
    CHECK_EQ_INT(peer_poll(&self), 1);
    CHECK(!self.lane->ops->ready(self.lane, false));  // as a record it is not whole
    whi_stream_rx_bytes(self.lane);
    CHECK(self.lane->ops->ready(self.lane, false));
    CHECK_EQ_INT(peer_poll(&self), 1);
    CHECK(!self.lane->ops->ready(self.lane, false));
    peer_close(&self);
}

TEST(descriptors_pass_in_order) {
    peer a, b;
    go_bytes(&a, true);
    whi_stream_opts opts = {.eager_limit = PEER_EAGER, .chunk = PEER_CHUNK, .local = true};
    b = (peer){.fd = -1};
    CHECK_EQ_INT(whi_stream_create(a.fd, &opts, &peer_up, &b, &b.lane), WH_OK);
    a.fd = -1;
    whi_stream_rx_bytes(b.lane);
    probe pipes[4];
    for (int i = 0; i < 4; i++) {
        pipes[i] = probe_open();
        CHECK_EQ_INT(whi_stream_bell(a.lane), WH_OK);
        CHECK_EQ_INT(whi_stream_pass_fd(a.lane, pipes[i].out), WH_OK);
    }
    for (int i = 0; i < 4; i++) {
        int fd = whi_stream_take_fd(b.lane);
        CHECK(fd >= 0 && identity(fd) == identity(pipes[i].out));
        close(fd);
        close(pipes[i].out);
        CHECK(probe_gone(&pipes[i]));
        close(pipes[i].in);
    }
    CHECK_EQ_INT(whi_stream_take_fd(b.lane), WH_EAGAIN);
    // Bells that were read on the way to the descriptors are not lost to the poll.
    CHECK(b.lane->ops->ready(b.lane, false));
    CHECK_EQ_INT(peer_poll(&b), 8);
    CHECK_EQ_INT(peer_poll(&b), 0);
    peer_close(&a);
    peer_close(&b);
}

// The kernel ends a read behind each descriptor; a poll goes on.
TEST(a_poll_reads_past_descriptors) {
    peer self;
    go_bytes(&self, true);
    probe pipe = probe_open();
    for (int i = 0; i < 3; i++)
        peer_write_fds(&self, "\2", 1, &pipe.out, 1);
    peer_write(&self, "\1", 1);
    CHECK_EQ_INT(peer_poll(&self), 4);
    peer_close(&self);
    close(pipe.out);
    CHECK(probe_gone(&pipe));
    close(pipe.in);
}

TEST(passing_waits_for_space) {
    peer self;
    go_bytes(&self, true);
    probe pipe = probe_open();
    int passed = 0;
    while (passed < 100000 && whi_stream_pass_fd(self.lane, pipe.out) == WH_OK)
        passed++;
    CHECK(passed > 0 && passed < 100000);
    CHECK(whi_stream_blocked(self.lane));
    close(self.fd);
    self.fd = -1;
    CHECK_EQ_INT(whi_stream_pass_fd(self.lane, pipe.out), WH_EPEER);
    CHECK_EQ_INT(peer_poll(&self), WH_EPEER);
    peer_close(&self);
    close(pipe.out);
    CHECK(probe_gone(&pipe));
    close(pipe.in);
}

TEST(close_closes_what_nobody_took) {
    peer self;
    go_bytes(&self, true);
    probe pipe = probe_open();
    peer_write_fds(&self, "\2", 1, &pipe.out, 1);
    CHECK_EQ_INT(peer_poll(&self), 1);
    close(pipe.out);
    CHECK(!probe_gone(&pipe));
    peer_close(&self);
    CHECK(probe_gone(&pipe));
    close(pipe.in);
}

// offend sends bytes with descriptors in byte mode, which must end the lane and leave no
// descriptor.
static void offend(const char *bytes, size_t size, unsigned count) {
    peer self;
    go_bytes(&self, true);
    probe pipe = probe_open();
    int fds[8];
    for (unsigned i = 0; i < count; i++)
        fds[i] = pipe.out;
    if (count)
        peer_write_fds(&self, bytes, size, fds, count);
    else
        peer_write(&self, bytes, size);
    peer_violates(&self);
    close(pipe.out);
    CHECK(probe_gone(&pipe));
    close(pipe.in);
}

TEST(bad_bytes_end_the_lane) {
    offend("\0", 1, 0);
    offend("\3", 1, 0);
    offend("\1\1\377", 3, 0);
    offend("\2", 1, 0);  // announced, but not there
    offend("\1", 1, 1);  // there, but not announced
    offend("\2", 1, 2);  // one byte, two descriptors
    offend("\2\2", 2, 1);
    offend("\2\2\2\2\2", 5, 5);  // more than may wait
}

TEST(too_many_descriptors_end_the_lane) {
    for (unsigned count = 1; count <= 8; count++) {
        peer self;
        peer_open(&self, true);
        probe pipe = probe_open();
        int fds[] = {pipe.out, pipe.out, pipe.out, pipe.out,
                     pipe.out, pipe.out, pipe.out, pipe.out};
        whi_hdr hdr = {.cls = 0x20};
        peer_write_fds(&self, &hdr, sizeof(hdr), fds, count);
        if (count <= 4)
            peer_write_fds(&self, &hdr, sizeof(hdr), fds, 1);
        int events = 0;
        for (int i = 0; i < 3 && events >= 0; i++)
            events = peer_poll(&self);
        CHECK_EQ_INT(events, count <= 3 ? 0 : WH_EPROTOCOL);
        peer_close(&self);
        close(pipe.out);
        CHECK(probe_gone(&pipe));
        close(pipe.in);
    }
}

TEST_MAIN()
