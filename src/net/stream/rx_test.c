// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane, receiving: what a peer may send at worst, and what its end leaves behind.
#include "base/alloc.h"
#include "net/stream/test_peer.h"

static void bad_header(whi_hdr hdr) {
    peer self;
    peer_open(&self, false);
    peer_record(&self, 0x20, 1, 10);  // which is still heard
    peer_write(&self, &hdr, sizeof(hdr));
    peer_violates(&self);
    CHECK_EQ_INT(self.heard, 1);
    CHECK_EQ_INT(self.sunk, 0);
}

TEST(bad_headers_end_the_lane) {
    bad_header((whi_hdr){.cls = WHI_CLASS_LANE});
    bad_header((whi_hdr){.cls = 0xff});
    bad_header((whi_hdr){.cls = 0x20, .size = PEER_EAGER + 1});
    bad_header((whi_hdr){.cls = 0x20, .size = UINT32_MAX});
    bad_header((whi_hdr){.cls = 0, .size = UINT32_MAX - 31});
    bad_header((whi_hdr){.cls = WHI_CLASS_CHUNK, .size = 0});
    bad_header((whi_hdr){.cls = WHI_CLASS_CHUNK, .size = PEER_CHUNK + 1});
    bad_header((whi_hdr){.cls = WHI_CLASS_CHUNK, .size = UINT32_MAX});
}

TEST(a_violation_is_logged) {
    peer self;
    peer_open(&self, false);
    sleep(1);  // the line is limited to one per second, for all lanes of the process
    peer_record(&self, 0xf0, 1, 0);
    CHECK_EQ_INT(peer_poll(&self), WH_EPROTOCOL);
    CHECK_EQ_INT(peer_poll(&self), WH_EPROTOCOL);
    CHECK_EQ_INT(peer_warnings, 1);
    peer_close(&self);
}

TEST(largest_sizes_are_good) {
    peer self;
    peer_open(&self, false);
    static uint8_t bytes[PEER_CHUNK];
    memset(bytes, 3, sizeof(bytes));
    peer_record(&self, 0xdf, 1, PEER_EAGER);
    peer_write(&self, &(whi_hdr){.cls = WHI_CLASS_CHUNK, .size = PEER_CHUNK}, sizeof(whi_hdr));
    peer_write(&self, bytes, sizeof(bytes));
    peer_record(&self, 0, 2, 0);
    while (self.heard < 2)
        CHECK(peer_poll(&self) > 0);
    CHECK_EQ_INT(self.landed, 1);
    CHECK_MEM(self.memory, bytes, sizeof(bytes));
    CHECK_EQ_INT(peer_poll(&self), 0);
    peer_close(&self);
}

// Long records come as chunks do, in their turn, if they were agreed on.
TEST(long_records) {
    peer_takes_long = true;
    bad_header((whi_hdr){.cls = WHI_CLASS_LONG, .size = 0});
    bad_header((whi_hdr){.cls = WHI_CLASS_LONG, .size = PEER_CHUNK + 1});
    peer self;
    peer_open(&self, false);
    CHECK_EQ_INT(self.lane->ops->long_limit(self.lane), PEER_CHUNK);
    static uint8_t bytes[PEER_CHUNK];
    for (unsigned i = 0; i < 3; i++) {
        memset(bytes, (int)i + 3, sizeof(bytes));
        peer_write(&self, &(whi_hdr){.cls = WHI_CLASS_LONG, .size = PEER_CHUNK}, sizeof(whi_hdr));
        peer_write(&self, bytes, 2000);
        while (self.sunk <= i)
            CHECK(peer_poll(&self) >= 0);
        CHECK_EQ_INT(self.landed, i);
        peer_write(&self, bytes, sizeof(bytes) - 2000);
        // More small ones than a short look ahead takes at a time.
        for (unsigned j = 0; j < 20; j++)
            peer_record(&self, 0x20, i * 20 + j, 200);
        while (self.heard < 20 * (i + 1))
            CHECK(peer_poll(&self) > 0);
        CHECK_EQ_INT(self.landed, i + 1);
        CHECK_EQ_INT(self.last_seq, i * 20 + 19);
        CHECK_MEM(self.memory, bytes, sizeof(bytes));
    }
    peer_close(&self);
    peer_takes_long = false;
    bad_header((whi_hdr){.cls = WHI_CLASS_LONG, .size = 100});
}

// Records that the budget left behind are announced by `ready`, since the socket no longer has
// them.
TEST(ready_knows_what_is_buffered) {
    peer self;
    peer_open(&self, false);
    for (uint32_t seq = 0; seq < 3; seq++)
        peer_record(&self, 0x20, seq, 20);
    peer_write(&self, &(whi_hdr){.cls = 0x20, .size = 20}, sizeof(whi_hdr));
    for (int left = 2; left >= 0; left--) {
        CHECK_EQ_INT(self.lane->ops->poll(self.lane, 1), 1);
        CHECK_EQ_INT(self.lane->ops->ready(self.lane, false), left > 0);
    }
    CHECK_EQ_INT(peer_poll(&self), 0);  // half a record is no event
    peer_write(&self, self.memory, 20);
    CHECK_EQ_INT(peer_poll(&self), 1);
    peer_close(&self);
}

// A chunk or a record at the front that is bad or can begin counts as well.
TEST(ready_knows_chunks_and_trouble) {
    for (int bad = 0; bad < 2; bad++) {
        peer self;
        peer_open(&self, false);
        peer_record(&self, 0x20, 0, 0);
        whi_hdr hdr = {.cls = bad ? 0x20 : WHI_CLASS_CHUNK, .size = bad ? PEER_EAGER + 1 : 50};
        peer_write(&self, &hdr, sizeof(hdr));
        CHECK_EQ_INT(self.lane->ops->poll(self.lane, 1), 1);
        CHECK(self.lane->ops->ready(self.lane, false));
        CHECK_EQ_INT(peer_poll(&self), bad ? WH_EPROTOCOL : 1);
        CHECK_EQ_INT(self.lane->ops->ready(self.lane, false), bad);
        peer_close(&self);
    }
}

TEST(end_within_a_record) {
    for (size_t size = 1; size < 60; size += 7) {
        peer self;
        peer_open(&self, false);
        peer_record(&self, 0x20, 1, 5);
        uint8_t bytes[60] = {0};
        memcpy(bytes, &(whi_hdr){.size = 100, .cls = 0x20}, sizeof(whi_hdr));
        peer_write(&self, bytes, size);
        CHECK(shutdown(self.fd, SHUT_WR) == 0);
        CHECK_EQ_INT(peer_poll(&self), 1);
        CHECK_EQ_INT(peer_poll(&self), WH_EPEER);
        peer_close(&self);
    }
}

TEST(end_within_a_chunk) {
    peer self;
    peer_open(&self, false);
    peer_write(&self, &(whi_hdr){.cls = WHI_CLASS_CHUNK, .size = 100}, sizeof(whi_hdr));
    peer_write(&self, "half of it", 10);
    CHECK_EQ_INT(peer_poll(&self), 1);
    close(self.fd);
    self.fd = -1;
    CHECK_EQ_INT(peer_poll(&self), WH_EPEER);
    CHECK_EQ_INT(self.sunk, 1);
    CHECK_EQ_INT(self.landed, 0);
    CHECK_MEM(self.memory, "half of it", 10);
    peer_close(&self);
}

// Sending fails at once when the peer has gone; what it said before is heard all the same.
TEST(last_words_are_heard) {
    peer self;
    peer_open(&self, false);
    for (uint32_t seq = 1; seq <= 40; seq++)
        peer_record(&self, 0x20, seq, 900);
    close(self.fd);
    self.fd = -1;
    CHECK_EQ_INT(self.lane->ops->send(self.lane, &(whi_hdr){.cls = 0x20}, NULL), WH_EPEER);
    CHECK(self.lane->ops->ready(self.lane, false));
    int events = 0;
    while (events >= 0)
        events = peer_poll(&self);
    CHECK_EQ_INT(events, WH_EPEER);
    CHECK_EQ_INT(self.last_seq, 40);
    CHECK_EQ_INT(self.heard, 40);
    peer_close(&self);
}

// Also what was on its way when sending failed.
TEST(last_words_may_come_late) {
    peer self;
    peer_open(&self, false);
    CHECK(shutdown(self.fd, SHUT_RD) == 0);
    CHECK_EQ_INT(self.lane->ops->send(self.lane, &(whi_hdr){.cls = 0x20}, NULL), WH_EPEER);
    peer_write(&self, &(whi_hdr){.cls = 0x20, .size = 9, .seq = 3}, sizeof(whi_hdr));
    CHECK_EQ_INT(peer_poll(&self), 0);
    peer_write(&self, "last word", 9);
    CHECK_EQ_INT(peer_poll(&self), 1);
    CHECK_EQ_INT(self.last_seq, 3);
    CHECK_EQ_INT(peer_poll(&self), WH_EPEER);
    peer_close(&self);
}

// Without memory for the buffer nothing is lost: the next poll does it.
TEST(no_memory_is_no_loss) {
    peer self;
    peer_open(&self, false);
    peer_record(&self, 0x20, 7, 100);
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(peer_poll(&self), 0);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(peer_warnings, 1);
    CHECK_EQ_INT(peer_poll(&self), 1);
    CHECK_EQ_INT(self.last_seq, 7);
    peer_close(&self);
}

TEST_MAIN()
