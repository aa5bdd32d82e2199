// SPDX-License-Identifier: BSD-3-Clause
#include "rt/wire/envelope.h"

#include "base/test.h"

static uint8_t bytes[WHI_ENVELOPE_MAX + 16], head[WH_PE_HEAD_MAX + 1];

static size_t write_one(uint16_t handler, uint16_t head_size, int32_t priority) {
    const whi_envelope envelope = {
        .handler = handler, .head_size = head_size, .priority = priority};
    memset(bytes, 0xee, sizeof(bytes));
    return whi_envelope_write(&envelope, head, bytes);
}

static bool is_one(size_t size) {
    whi_envelope envelope;
    return whi_envelope_read(&envelope, bytes, size);
}

TEST(comes_out_as_it_went_in) {
    const int32_t priorities[] = {0, 1, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof(head); i++)
        head[i] = (uint8_t)(i + 1);
    for (int p = 0; p < 5; p++)
        for (uint16_t size = 0; size <= WH_PE_HEAD_MAX; size++) {
            whi_envelope read;
            size_t all = write_one(0xfffe, size, priorities[p]);
            CHECK(all <= WHI_ENVELOPE_MAX && all % 16 == 0);
            CHECK_EQ_INT(bytes[all], 0xee);
            CHECK(whi_envelope_read(&read, bytes, all));
            CHECK_EQ_INT(read.handler, 0xfffe);
            CHECK_EQ_INT(read.head_size, size);
            CHECK_EQ_INT(read.priority, priorities[p]);
            CHECK_MEM(bytes, head, size);
            for (size_t at = size; at < all - 8; at++)
                CHECK_EQ_INT(bytes[at], 0);
        }
}

TEST(a_short_one_leaves_space_in_a_cache_line) {
    CHECK_EQ_INT(write_one(7, 12, 0), 16);
    CHECK_EQ_INT(write_one(7, 13, 0), 32);
    CHECK_EQ_INT(write_one(7, 8, 1), 16);
    CHECK_EQ_INT(write_one(7, 9, 1), 32);
}

TEST(what_is_none_is_refused) {
    size_t size = write_one(7, 20, 0);
    CHECK(is_one(size));
    CHECK(!is_one(0));
    CHECK(!is_one(size - 1));
    CHECK(!is_one(size - 16));
    bytes[size - 1] ^= 0x80;  // a priority, and it is 0
    CHECK(!is_one(size));
    size = write_one(7, WH_PE_HEAD_MAX, 0);
    CHECK(is_one(size));
    bytes[size - 2] += 1;  // a head that is too long
    CHECK(!is_one(size));
    bytes[size - 2] = 0xff;  // shorter by one, which needs as much space
    bytes[size - 1] = 1;
    CHECK(is_one(size));
    bytes[size - 2] = 0;  // shorter by 256, which needs less
    CHECK(!is_one(size));
}

TEST_MAIN()
