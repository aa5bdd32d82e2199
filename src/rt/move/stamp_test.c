// SPDX-License-Identifier: BSD-3-Clause
#include "rt/move/stamp.h"

#include "base/test.h"

enum { PES = 9, FROM = 3 };

static whi_place_key key_of(int dims) {
    static const int32_t index[WHI_PLACE_DIMS_MAX] = {1, -2, INT32_MAX, INT32_MIN, 5, 6};
    whi_place_key key;
    CHECK_EQ_INT(whi_place_key_make(77, index, dims, &key), WH_OK);
    return key;
}

// The first two need a byte, the others four.
static size_t key_size(int dims) {
    return 2 + (dims > 2 ? 4u : 1u) * (size_t)dims;
}

TEST(keys_have_one_to_six_dimensions) {
    int32_t index[7] = {0};
    whi_place_key key;
    CHECK_EQ_INT(whi_place_key_make(1, index, 0, &key), WH_EINVAL);
    CHECK_EQ_INT(whi_place_key_make(1, index, 7, &key), WH_EINVAL);
    for (int dims = 1; dims <= WHI_PLACE_DIMS_MAX; dims++) {
        key = key_of(dims);
        uint8_t bytes[WHI_PLACE_ENCODED_MAX];
        whi_writer to;
        whi_writer_init(&to, bytes, sizeof(bytes));
        whi_place_key_write(&to, &key);
        CHECK_EQ_INT(whi_writer_size(&to), key_size(dims));
        whi_reader from;
        whi_reader_init(&from, bytes, whi_writer_size(&to));
        whi_place_key read;
        whi_place_key_read(&from, &read);
        CHECK(whi_reader_done(&from));
        CHECK_MEM(&read, &key, sizeof(key));
    }
}

static void check_stamp(const whi_place_stamp *read, const whi_place_stamp *expected) {
    CHECK_EQ_INT(read->entry, expected->entry);
    CHECK_EQ_INT(read->via, expected->via);
    CHECK_EQ_INT(read->at, expected->at);
    CHECK_EQ_INT(read->source, expected->source);
    CHECK_EQ_INT(read->flags, expected->flags);
}

TEST(a_message_comes_out_as_it_went_in) {
    const whi_place_stamp stamps[] = {
        {.source = FROM},
        {.entry = 5, .at = 5, .source = FROM},
        {.entry = 5, .at = 7, .source = 2},
        {.via = 6, .at = 6, .source = 0},
        {.at = 6, .source = 8, .flags = WHI_STAMP_SETTLED},
        {.entry = 1ull << 40, .at = UINT64_MAX, .source = 8},
    };
    const size_t sizes[] = {1, 17, 21, 21, 13, 21};
    for (size_t i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
        whi_place_message message = {.key = key_of(1 + (int)i % 6), .stamp = stamps[i]}, read;
        uint8_t bytes[WHI_PLACE_ENCODED_MAX];
        size_t size = whi_place_message_encode(&message, bytes), used;
        CHECK_EQ_INT(size, key_size(message.key.dims) + sizes[i]);
        CHECK_EQ_INT(whi_place_message_decode(bytes, sizeof(bytes), FROM, PES, &read, &used),
                     WH_OK);
        CHECK_EQ_INT(used, size);
        CHECK_MEM(&read.key, &message.key, sizeof(read.key));
        check_stamp(&read.stamp, &message.stamp);
        CHECK_EQ_INT(read.kind, WHI_PLACE_MESSAGE);
        CHECK(!read.incomplete);
        for (size_t less = 0; less < size; less++)
            CHECK_EQ_INT(whi_place_message_decode(bytes, less, FROM, PES, &read, &used),
                         WH_EPROTOCOL);
    }
}

static wh_status read_stamp(whi_place_stamp stamp) {
    whi_place_message message = {.key = key_of(1), .stamp = stamp}, read;
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    size_t size = whi_place_message_encode(&message, bytes), used;
    return whi_place_message_decode(bytes, size, FROM, PES, &read, &used);
}

// read_bits reads a stamp whose flags are these, and that has nothing else.
static wh_status read_bits(unsigned flags) {
    whi_place_message message = {.key = key_of(1), .stamp = {.source = FROM}}, read;
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    size_t size = whi_place_message_encode(&message, bytes), used;
    bytes[size - 1] = (uint8_t)flags;
    return whi_place_message_decode(bytes, size, FROM, PES, &read, &used);
}

TEST(a_stamp_that_cannot_be_is_refused) {
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.entry = 2, .at = 3, .source = 1}), WH_OK);
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.entry = 4, .at = 3, .source = 1}), WH_EPROTOCOL);
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.via = 4, .at = 3, .source = 1}), WH_EPROTOCOL);
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.via = 1, .entry = 1, .at = 3, .source = 1}),
                 WH_EPROTOCOL);
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.entry = 2, .at = 3, .source = PES}), WH_EPROTOCOL);
    CHECK_EQ_INT(read_stamp((whi_place_stamp){.source = FROM, .flags = WHI_STAMP_SETTLED}),
                 WH_EPROTOCOL);
    for (unsigned flag = 2; flag < 256; flag *= 2)
        if (flag < 8 || flag > 64)
            CHECK_EQ_INT(read_bits(flag), WH_EPROTOCOL);
    CHECK_EQ_INT(read_bits(0), WH_OK);
}

static size_t write_key(uint32_t collection, int32_t first, int32_t second, uint8_t *bytes) {
    const int32_t index[] = {first, second};
    whi_place_key key, read;
    whi_writer to;
    whi_reader from;
    CHECK_EQ_INT(whi_place_key_make(collection, index, 2, &key), WH_OK);
    whi_writer_init(&to, bytes, WHI_PLACE_ENCODED_MAX);
    whi_place_key_write(&to, &key);
    whi_reader_init(&from, bytes, whi_writer_size(&to));
    whi_place_key_read(&from, &read);
    CHECK(whi_reader_done(&from));
    CHECK_MEM(&read, &key, sizeof(key));
    return whi_writer_size(&to);
}

TEST(a_key_is_as_wide_as_it_needs) {
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    CHECK_EQ_INT(write_key(255, 127, -128, bytes), 1 + 1 + 2);
    CHECK_EQ_INT(write_key(256, 127, -128, bytes), 1 + 2 + 2);
    CHECK_EQ_INT(write_key(65535, 128, 0, bytes), 1 + 2 + 4);
    CHECK_EQ_INT(write_key(65536, 0, -129, bytes), 1 + 4 + 4);
    CHECK_EQ_INT(write_key(0, 32767, -32768, bytes), 1 + 1 + 4);
    CHECK_EQ_INT(write_key(0, 32768, 0, bytes), 1 + 1 + 8);
    CHECK_EQ_INT(write_key(UINT32_MAX, 0, -32769, bytes), 1 + 4 + 8);
}

TEST(a_key_that_cannot_be_is_refused) {
    // Collection 1 and index 0: only where they are no wider than a byte it is one.
    for (int first = 0; first < 256; first++) {
        uint8_t bytes[WHI_PLACE_ENCODED_MAX] = {(uint8_t)first, 1};
        whi_reader from;
        whi_place_key key;
        whi_reader_init(&from, bytes, sizeof(bytes));
        whi_place_key_read(&from, &key);
        CHECK_EQ_INT(whi_reader_ok(&from), first >= 1 && first <= 6);
    }
    uint8_t wide[] = {1 | 1 << 3, 1, 1, 0}, right[] = {1 | 1 << 3, 1, 128, 0};
    whi_reader from;
    whi_place_key key;
    whi_reader_init(&from, wide, sizeof(wide));
    whi_place_key_read(&from, &key);
    CHECK(!whi_reader_ok(&from));
    whi_reader_init(&from, right, sizeof(right));
    whi_place_key_read(&from, &key);
    CHECK(whi_reader_done(&from));
    CHECK_EQ_INT(key.index[0], 128);
}

static const whi_place_stamp by_entry = {.entry = 3, .at = 3, .source = FROM};
static const whi_place_stamp by_home = {.via = 3, .at = 3, .source = FROM};

static wh_status read_control(whi_place_control control, whi_place_control *read) {
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    size_t size = whi_place_control_encode(&control, bytes);
    wh_status status = whi_place_control_decode(bytes, size, FROM, PES, read);
    whi_place_control other;
    for (size_t less = 0; less < size; less++)
        CHECK_EQ_INT(whi_place_control_decode(bytes, less, FROM, PES, &other), WH_EPROTOCOL);
    bytes[size] = 0;
    CHECK_EQ_INT(whi_place_control_decode(bytes, size + 1, FROM, PES, &other), WH_EPROTOCOL);
    return status;
}

static void check_control(const whi_place_control *read, const whi_place_control *expected) {
    CHECK_EQ_INT(read->kind, expected->kind);
    CHECK_MEM(&read->key, &expected->key, sizeof(read->key));
    check_stamp(&read->stamp, &expected->stamp);
    CHECK_EQ_INT(read->number, expected->number);
}

TEST(a_control_comes_out_as_it_went_in) {
    const whi_place_stamp end = {.at = 4, .source = FROM};
    const whi_place_stamp from = {.source = FROM};
    const whi_place_control controls[] = {
        {.kind = WHI_PLACE_MARKER, .key = key_of(2), .stamp = by_entry, .number = 7},
        {.kind = WHI_PLACE_MARKER, .key = key_of(2), .stamp = by_entry},
        {.kind = WHI_PLACE_HOME_MARKER, .key = key_of(6), .stamp = by_home, .number = 9},
        {.kind = WHI_PLACE_END, .key = key_of(6), .stamp = end},
        {.kind = WHI_PLACE_NEW, .key = key_of(3), .stamp = from, .number = 2},
        {.kind = WHI_PLACE_LEAVE, .key = key_of(4), .stamp = from, .number = 2},
        {.kind = WHI_PLACE_RELEASE, .key = key_of(5), .stamp = from, .number = UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        whi_place_control read;
        CHECK_EQ_INT(read_control(controls[i], &read), WH_OK);
        check_control(&read, &controls[i]);
        CHECK_EQ_INT(whi_place_in_order(&read), i < 4);
    }
}

TEST(a_control_that_cannot_be_is_refused) {
    const whi_place_stamp settled = {.at = 3, .source = FROM, .flags = WHI_STAMP_SETTLED};
    const whi_place_control controls[] = {
        {.kind = WHI_PLACE_MESSAGE, .key = key_of(2), .stamp = by_entry, .number = 7},
        {.kind = WHI_PLACE_MARKER, .key = key_of(2), .stamp = by_entry, .number = 3},
        {.kind = WHI_PLACE_MARKER, .key = key_of(2), .stamp = settled, .number = 3},
        {.kind = WHI_PLACE_HOME_MARKER, .key = key_of(6), .stamp = by_home, .number = 3},
        {.kind = WHI_PLACE_HOME_MARKER, .key = key_of(6), .stamp = by_entry, .number = 9},
        {.kind = WHI_PLACE_END, .key = key_of(6), .stamp = by_entry},
        {.kind = WHI_PLACE_END, .key = key_of(6)},
        {.kind = WHI_PLACE_NEW, .key = key_of(3)},
        {.kind = WHI_PLACE_LEAVE, .key = key_of(4)},
        {.kind = WHI_PLACE_RELEASE, .key = key_of(5)},
        {.kind = WHI_PLACE_KINDS, .key = key_of(2), .number = 1},
        {.kind = 255, .key = key_of(2), .number = 1},
    };
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        whi_place_control read;
        CHECK_EQ_INT(read_control(controls[i], &read), WH_EPROTOCOL);
    }
}

TEST_MAIN()
