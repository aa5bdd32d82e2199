// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane, sending: what the socket takes in parts.
//
// No socket can be told to be full at a given byte, so this program has a send and a sendmsg of its
// own, which stand before the library's: behind a valve that lets so many bytes through and no
// more.
#include <errno.h>
#include <sys/syscall.h>

#include "base/alloc.h"
#include "net/stream/test_peer.h"

static uint8_t data[PEER_CHUNK];
static uint8_t stream[1 << 22];  // what the bare socket has read
static size_t stream_size;
static size_t valve = SIZE_MAX;  // bytes that still go through

// pass sends what the valve lets through.
static ssize_t pass(int fd, const struct msghdr *msg, int flags) {
    struct iovec iov[2];
    size_t size = 0;
    CHECK(msg->msg_iovlen <= 2);
    for (size_t i = 0; i < msg->msg_iovlen; i++) {
        size_t left = valve - size, length = msg->msg_iov[i].iov_len;
        iov[i].iov_base = msg->msg_iov[i].iov_base;
        iov[i].iov_len = length < left ? length : left;
        size += iov[i].iov_len;
    }
    if (size == 0) {
        errno = EAGAIN;
        return -1;
    }
    struct msghdr part = *msg;
    part.msg_iov = iov;
    ssize_t n = syscall(SYS_sendmsg, fd, &part, flags);
    if (n > 0 && valve != SIZE_MAX)
        valve -= (size_t)n;
    return n;
}

ssize_t valve_sendmsg(int fd, const struct msghdr *msg, int flags) __asm__("sendmsg");
ssize_t valve_send(int fd, const void *bytes, size_t size, int flags) __asm__("send");

ssize_t valve_sendmsg(int fd, const struct msghdr *msg, int flags) {
    return pass(fd, msg, flags);
}

ssize_t valve_send(int fd, const void *bytes, size_t size, int flags) {
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    return pass(fd, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1}, flags);
}

static void start(peer *self) {
    peer_open(self, false);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    stream_size = 0;
    valve = SIZE_MAX;
}

// drink reads up to `size` bytes from the bare socket.
static size_t drink(peer *self, size_t size) {
    CHECK(stream_size + size <= sizeof(stream));
    ssize_t n = recv(self->fd, stream + stream_size, size, MSG_DONTWAIT);
    if (n > 0)
        stream_size += (size_t)n;
    return n > 0 ? (size_t)n : 0;
}

static wh_status say(peer *self, uint32_t seq, uint32_t size) {
    whi_hdr hdr = {.cls = 0x20, .seq = seq, .size = size};
    return self->lane->ops->send(self->lane, &hdr, data);
}

static wh_status push(peer *self, uint64_t offset, uint64_t size, size_t *moved) {
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 5, .seq = 6, .arg = offset};
    whi_span src = {.ptr = data + offset};
    return self->lane->ops->push(self->lane, &hdr, &src, size, moved);
}

// push_other offers a chunk of another segment.
static wh_status push_other(peer *self, uint64_t offset, uint64_t size, size_t *moved) {
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 5, .seq = 7, .arg = offset};
    whi_span src = {.ptr = data + offset};
    return self->lane->ops->push(self->lane, &hdr, &src, size, moved);
}

// settle reads, and polls the lane, until nothing moves any more.
static void settle(peer *self) {
    for (int idle = 0; idle < 3; idle++) {
        if (drink(self, 65536) > 0)
            idle = 0;
        CHECK(peer_poll(self) >= 0);
    }
    CHECK(!whi_stream_blocked(self->lane));
}

// parse walks over what came and returns the number of records; their payloads must be `data`.
static unsigned parse(void) {
    unsigned count = 0;
    for (size_t at = 0; at < stream_size; count++) {
        whi_hdr hdr;
        CHECK(stream_size - at >= sizeof(hdr));
        memcpy(&hdr, stream + at, sizeof(hdr));
        at += sizeof(hdr);
        CHECK(stream_size - at >= hdr.size);
        CHECK(hdr.cls == WHI_CLASS_CHUNK || (hdr.cls == 0x20 && hdr.seq == count));
        CHECK_MEM(stream + at, data + (hdr.cls == WHI_CLASS_CHUNK ? hdr.arg : 0), hdr.size);
        at += hdr.size;
    }
    return count;
}

// The second record is cut at every byte; the third has to wait for it.
TEST(records_stay_whole) {
    static const uint32_t sizes[] = {0, 1, 300, 4096, PEER_EAGER};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t whole = sizeof(whi_hdr) + sizes[i];
        for (size_t cut = 1; cut < whole; cut++) {
            peer self;
            start(&self);
            valve = whole + cut;
            CHECK_EQ_INT(say(&self, 0, sizes[i]), WH_OK);
            CHECK(!whi_stream_blocked(self.lane));
            CHECK_EQ_INT(say(&self, 1, sizes[i]), WH_OK);
            CHECK(whi_stream_blocked(self.lane));
            CHECK_EQ_INT(say(&self, 2, sizes[i]), WH_EAGAIN);
            CHECK_EQ_INT(peer_poll(&self), 0);
            valve = 1;
            CHECK_EQ_INT(peer_poll(&self), cut + 1 == whole);
            valve = SIZE_MAX;
            CHECK_EQ_INT(peer_poll(&self), cut + 1 < whole);
            CHECK(!whi_stream_blocked(self.lane));
            CHECK_EQ_INT(peer_poll(&self), 0);
            CHECK_EQ_INT(say(&self, 2, sizes[i]), WH_OK);
            settle(&self);
            CHECK_EQ_INT(parse(), 3);
            peer_close(&self);
        }
    }
}

TEST(a_full_socket_takes_nothing) {
    peer self;
    start(&self);
    valve = 0;
    size_t moved = 0;
    CHECK_EQ_INT(say(&self, 0, 10), WH_EAGAIN);
    CHECK_EQ_INT(say(&self, 0, PEER_EAGER), WH_EAGAIN);
    CHECK_EQ_INT(push(&self, 0, 100, &moved), WH_EAGAIN);
    CHECK_EQ_INT(moved, 0);
    CHECK(whi_stream_blocked(self.lane));
    CHECK_EQ_INT(peer_poll(&self), 1);  // asked, the socket says that it has space
    valve = SIZE_MAX;
    CHECK_EQ_INT(say(&self, 0, 10), WH_OK);
    settle(&self);
    CHECK_EQ_INT(parse(), 1);
    peer_close(&self);
}

static void make(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy(host, data + offset, size);
    *(size_t *)ctx += size;
}

// A chunk that has begun goes on with the next push of just its rest, and nothing goes between.
TEST(an_open_chunk_comes_first) {
    enum { SIZE = 400 };
    for (size_t cut = 1; cut < sizeof(whi_hdr) + SIZE; cut++) {
        peer self;
        start(&self);
        size_t at = 0, moved = 0;
        valve = cut;
        CHECK_EQ_INT(push(&self, 0, SIZE, &at), WH_PENDING);
        CHECK_EQ_INT(at, cut > sizeof(whi_hdr) ? cut - sizeof(whi_hdr) : 0);
        CHECK(whi_stream_blocked(self.lane));
        CHECK_EQ_INT(push(&self, at, SIZE - at, &moved), WH_EAGAIN);
        valve = SIZE_MAX;
        if (cut < sizeof(whi_hdr))
            CHECK_EQ_INT(push(&self, at, SIZE - at, &moved), WH_EAGAIN);  // its header goes first
        CHECK_EQ_INT(peer_poll(&self), 1);
        CHECK_EQ_INT(say(&self, 0, 0), WH_EAGAIN);
        CHECK_EQ_INT(push(&self, at + 1, SIZE - at, &moved), WH_EAGAIN);
        CHECK_EQ_INT(push_other(&self, at, SIZE, &moved), WH_EAGAIN);
        CHECK_EQ_INT(whi_stream_tx_bytes(self.lane), WH_EAGAIN);
        valve = 1;
        CHECK_EQ_INT(push(&self, at, SIZE - at, &moved), at + 1 == SIZE ? WH_OK : WH_PENDING);
        CHECK_EQ_INT(moved, 1);
        valve = SIZE_MAX;
        if (at + 1 < SIZE) {
            // More may be offered than was announced: it is for the next chunk.
            CHECK_EQ_INT(push(&self, at + 1, PEER_CHUNK - at - 1, &moved), WH_OK);
            CHECK_EQ_INT(moved, SIZE - at - 1);
        }
        CHECK_EQ_INT(say(&self, 1, 7), WH_OK);
        settle(&self);
        CHECK_EQ_INT(parse(), 2);
        CHECK_EQ_INT(whi_stream_tx_bytes(self.lane), WH_OK);
        peer_close(&self);
    }
}

// Its rest may be produced, where memory was before; then it need not all fit into the socket.
TEST(an_open_chunk_changes_its_source) {
    for (size_t cut = 1; cut < 200; cut += 13) {
        peer self;
        start(&self);
        size_t at = 0, moved = 0, asked = 0;
        valve = cut;
        CHECK_EQ_INT(push(&self, 0, PEER_CHUNK, &at), WH_PENDING);
        valve = SIZE_MAX;
        CHECK_EQ_INT(peer_poll(&self), 1);
        valve = 10;
        whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 5, .seq = 6, .arg = at};
        whi_span src = {.move = make, .ctx = &asked, .base = at};
        CHECK_EQ_INT(self.lane->ops->push(self.lane, &hdr, &src, PEER_CHUNK - at, &moved), WH_OK);
        CHECK(moved == PEER_CHUNK - at && asked == moved);
        CHECK_EQ_INT(say(&self, 1, 7), WH_EAGAIN);
        valve = SIZE_MAX;
        settle(&self);
        CHECK_EQ_INT(say(&self, 1, 7), WH_OK);
        settle(&self);
        CHECK_EQ_INT(parse(), 2);
        peer_close(&self);
    }
}

TEST(a_moved_source_is_asked_once) {
    peer self;
    start(&self);
    size_t asked = 0, moved = 0;
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK};
    whi_span src = {.move = make, .ctx = &asked};
    valve = 100;
    CHECK_EQ_INT(self.lane->ops->push(self.lane, &hdr, &src, PEER_CHUNK, &moved), WH_OK);
    CHECK(moved == PEER_CHUNK && asked == PEER_CHUNK);
    CHECK_EQ_INT(self.lane->ops->push(self.lane, &hdr, &src, 1, &moved), WH_EAGAIN);
    CHECK(whi_stream_blocked(self.lane));
    valve = SIZE_MAX;
    settle(&self);
    CHECK_EQ_INT(asked, PEER_CHUNK);
    CHECK_EQ_INT(parse(), 1);
    peer_close(&self);
}

// Without memory a push has not begun, and is offered again by the next poll.
TEST(no_memory_for_staging_is_not_now) {
    peer self;
    start(&self);
    size_t asked = 0, moved = 0;
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK};
    whi_span src = {.move = make, .ctx = &asked};
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(self.lane->ops->push(self.lane, &hdr, &src, 100, &moved), WH_EAGAIN);
    whi_alloc_fail_at(0);
    CHECK(asked == 0 && moved == 0);
    CHECK_EQ_INT(peer_poll(&self), 1);
    CHECK_EQ_INT(self.lane->ops->push(self.lane, &hdr, &src, 100, &moved), WH_OK);
    CHECK_EQ_INT(moved, 100);
    peer_close(&self);
}

// A record of which a part is gone cannot be taken back when there is no memory for the rest.
TEST(a_torn_record_ends_the_lane) {
    peer self;
    start(&self);
    peer_record(&self, 0x20, 1, 10);
    valve = 40;
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(say(&self, 0, PEER_EAGER), WH_ENOMEM);
    whi_alloc_fail_at(0);
    valve = SIZE_MAX;
    CHECK_EQ_INT(say(&self, 1, 0), WH_ENOMEM);
    CHECK_EQ_INT(peer_poll(&self), 1);  // what had come before is heard
    CHECK_EQ_INT(peer_poll(&self), WH_ENOMEM);
    peer_close(&self);
}

// A long record goes whole into the socket, or what it does not take is kept: the caller's memory is free at once.
TEST(long_records) {
    peer_takes_long = true;
    size_t whole = sizeof(whi_hdr) + sizeof(data);
    static const size_t firsts[] = {0, 1, sizeof(whi_hdr) - 1, sizeof(whi_hdr), 5000, SIZE_MAX};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        peer self;
        start(&self);
        valve = firsts[i];
        whi_hdr hdr = {.cls = WHI_CLASS_LONG, .size = sizeof(data)};
        wh_status st =
            self.lane->ops->send_long(self.lane, NULL, NULL, &hdr, &(whi_span){.ptr = data});
        CHECK_EQ_INT(st, firsts[i] ? WH_OK : WH_EAGAIN);
        if (firsts[i] && firsts[i] < whole) {
            data[sizeof(data) - 1] ^= 1;
            CHECK_EQ_INT(say(&self, 1, 10), WH_EAGAIN);
        }
        valve = SIZE_MAX;
        settle(&self);
        CHECK_EQ_INT(stream_size, firsts[i] ? whole : 0);
        if (firsts[i] && firsts[i] < whole)
            data[sizeof(data) - 1] ^= 1;
        if (firsts[i])
            CHECK_MEM(stream + sizeof(whi_hdr), data, sizeof(data));
        peer_close(&self);
    }
    peer_takes_long = false;
}

// Two records of which neither goes without the other: nothing is taken of them, or both arrive, wherever the socket stops.
TEST(followed_records) {
    enum { FIRST = 40 };
    peer_takes_long = true;
    size_t whole = 2 * sizeof(whi_hdr) + FIRST + sizeof(data), head = whole - sizeof(data);
    for (int sized = 0; sized < 2; sized++) {
        size_t first = sized ? FIRST : 0;
        size_t firsts[] = {0,        1,    sizeof(whi_hdr), sizeof(whi_hdr) + 5, head - 1, head,
                           head + 1, 5000, SIZE_MAX};
        for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
            peer self;
            start(&self);
            valve = firsts[i];
            whi_hdr hdr = {.cls = 0x12, .size = (uint32_t)first, .seq = 7},
                    next = {.cls = WHI_CLASS_LONG, .size = sizeof(data), .seq = 8};
            whi_span src = {.ptr = data};
            wh_status st =
                self.lane->ops->send_long(self.lane, &hdr, first ? data : NULL, &next, &src);
            CHECK_EQ_INT(st, firsts[i] ? WH_OK : WH_EAGAIN);
            bool rest = firsts[i] && firsts[i] < whole - FIRST + first;
            if (rest) {
                data[sizeof(data) - 1] ^= 1;
                CHECK_EQ_INT(say(&self, 1, 10), WH_EAGAIN);
            }
            valve = SIZE_MAX;
            settle(&self);
            CHECK_EQ_INT(stream_size, firsts[i] ? whole - FIRST + first : 0);
            if (rest)
                data[sizeof(data) - 1] ^= 1;
            if (firsts[i]) {
                CHECK_MEM(stream, (const uint8_t *)&hdr, sizeof(hdr));
                CHECK_MEM(stream + sizeof(hdr), data, first);
                CHECK_MEM(stream + sizeof(hdr) + first, (const uint8_t *)&next, sizeof(next));
                CHECK_MEM(stream + 2 * sizeof(hdr) + first, data, sizeof(data));
            }
            peer_close(&self);
        }
    }
    peer_takes_long = false;
}

static void move_data(void *ctx, uint64_t offset, void *host, size_t size) {
    ++*(int *)ctx;
    memcpy(host, data + offset, size);
}

// One whose payload is moved is moved once, and what the socket does not take of it is kept.
TEST(followed_record_that_is_moved) {
    enum { FIRST = 40 };
    peer_takes_long = true;
    size_t whole = 2 * sizeof(whi_hdr) + FIRST + sizeof(data);
    size_t firsts[] = {0, 1, 2 * sizeof(whi_hdr) + FIRST, whole - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        peer self;
        start(&self);
        valve = firsts[i];
        int moves = 0;
        unsigned before = peer_unsents;
        whi_hdr hdr = {.cls = 0x12, .size = FIRST, .seq = 7},
                next = {.cls = WHI_CLASS_LONG, .size = sizeof(data), .seq = 8};
        whi_span src = {.move = move_data, .ctx = &moves};
        CHECK_EQ_INT(self.lane->ops->send_long(self.lane, &hdr, data, &next, &src), WH_OK);
        CHECK_EQ_INT(peer_unsents - before, firsts[i] < whole);
        if (firsts[i] < whole)
            CHECK_EQ_INT(say(&self, 1, 10), WH_EAGAIN);
        valve = SIZE_MAX;
        settle(&self);
        CHECK_EQ_INT(moves, 1);
        CHECK_EQ_INT(stream_size, whole);
        CHECK_MEM(stream, (const uint8_t *)&hdr, sizeof(hdr));
        CHECK_MEM(stream + sizeof(hdr), data, FIRST);
        CHECK_MEM(stream + sizeof(hdr) + FIRST, (const uint8_t *)&next, sizeof(next));
        CHECK_MEM(stream + 2 * sizeof(hdr) + FIRST, data, sizeof(data));
        peer_close(&self);
    }
    peer_takes_long = false;
}

TEST_MAIN()
