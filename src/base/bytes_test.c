// SPDX-License-Identifier: BSD-3-Clause
//
// Wire cursors: the byte order, the bounds at every length, and errors that stick.
#include "base/bytes.h"

#include "base/test.h"

static const uint8_t wire[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e,
                               0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 'x',  'y',  'z'};

static void write_all(whi_writer *w) {
    whi_writer_u8(w, 0x01);
    whi_writer_u16(w, 0x0203);
    whi_writer_u32(w, 0x04050607);
    whi_writer_u64(w, 0x08090a0b0c0d0e0f);
    whi_writer_bytes(w, "xyz", 3);
}

TEST(little_endian) {
    uint8_t buffer[sizeof(wire)];
    whi_writer w;
    whi_writer_init(&w, buffer, sizeof(buffer));
    write_all(&w);
    CHECK(whi_writer_ok(&w));
    CHECK_EQ_INT(whi_writer_size(&w), sizeof(wire));
    CHECK_MEM(buffer, wire, sizeof(wire));

    whi_reader r;
    whi_reader_init(&r, wire, sizeof(wire));
    CHECK_EQ_INT(whi_reader_u8(&r), 0x01);
    CHECK_EQ_INT(whi_reader_u16(&r), 0x0203);
    CHECK_EQ_INT(whi_reader_u32(&r), 0x04050607);
    CHECK(whi_reader_u64(&r) == 0x08090a0b0c0d0e0f);
    CHECK_EQ_INT(whi_reader_left(&r), 3);
    CHECK(!whi_reader_done(&r));
    CHECK_MEM(whi_reader_bytes(&r, 3), "xyz", 3);
    CHECK(whi_reader_ok(&r) && whi_reader_done(&r));
}

TEST(reader_stops_at_every_end) {
    for (size_t size = 0; size < sizeof(wire); size++) {
        uint8_t *exact = malloc(size ? size : 1);  // so that a sanitizer sees one byte too many
        memcpy(exact, wire, size);
        whi_reader r;
        whi_reader_init(&r, exact, size);
        (void)whi_reader_u8(&r);
        (void)whi_reader_u16(&r);
        (void)whi_reader_u32(&r);
        (void)whi_reader_u64(&r);
        CHECK(!whi_reader_bytes(&r, 3));
        CHECK(!whi_reader_ok(&r) && !whi_reader_done(&r));
        CHECK_EQ_INT(whi_reader_left(&r), 0);
        free(exact);
    }
}

TEST(reader_errors_stick) {
    whi_reader r;
    whi_reader_init(&r, wire, 3);
    CHECK_EQ_INT(whi_reader_u32(&r), 0);
    CHECK_EQ_INT(whi_reader_u8(&r), 0);  // although a byte was left before the failure
    uint8_t copy[2] = {9, 9};
    whi_reader_copy(&r, copy, 2);
    CHECK_EQ_INT(copy[0] + copy[1], 0);
    CHECK(!whi_reader_bytes(&r, 0));
    whi_reader_init(&r, wire, 3);
    whi_reader_fail(&r);
    CHECK(!whi_reader_ok(&r));
    CHECK_EQ_INT(whi_reader_u8(&r), 0);
}

TEST(reader_of_nothing) {
    whi_reader r;
    whi_reader_init(&r, NULL, 0);
    CHECK(whi_reader_done(&r));
    CHECK(whi_reader_bytes(&r, 0));
    CHECK(whi_reader_ok(&r));
    CHECK(!whi_reader_bytes(&r, 1));
}

TEST(huge_lengths_do_not_wrap) {
    whi_reader r;
    whi_reader_init(&r, wire, sizeof(wire));
    (void)whi_reader_u8(&r);
    CHECK(!whi_reader_bytes(&r, SIZE_MAX));
    uint8_t buffer[8];
    whi_writer w;
    whi_writer_init(&w, buffer, sizeof(buffer));
    whi_writer_u8(&w, 1);
    CHECK(!whi_writer_space(&w, SIZE_MAX));
    CHECK(!whi_writer_ok(&w));
}

TEST(writer_stops_at_every_end) {
    for (size_t size = 0; size < sizeof(wire); size++) {
        uint8_t buffer[sizeof(wire) + 1];
        memset(buffer, 0xaa, sizeof(buffer));
        whi_writer w;
        whi_writer_init(&w, buffer, size);
        write_all(&w);
        CHECK(!whi_writer_ok(&w));
        size_t written = whi_writer_size(&w);
        CHECK(written <= size);
        CHECK_MEM(buffer, wire, written);
        for (size_t i = written; i < sizeof(buffer); i++)
            CHECK_EQ_INT(buffer[i], 0xaa);
    }
}

TEST(writer_errors_stick) {
    uint8_t buffer[3];
    whi_writer w;
    whi_writer_init(&w, buffer, sizeof(buffer));
    whi_writer_u32(&w, 1);
    whi_writer_u8(&w, 1);  // would fit
    CHECK_EQ_INT(whi_writer_size(&w), 0);
    CHECK(!whi_writer_space(&w, 0));
    whi_writer_init(&w, NULL, 0);
    whi_writer_bytes(&w, NULL, 0);
    CHECK(whi_writer_ok(&w));
    whi_writer_u8(&w, 1);
    CHECK(!whi_writer_ok(&w));
}

TEST(space_is_filled_by_the_caller) {
    uint8_t buffer[6];
    whi_writer w;
    whi_writer_init(&w, buffer, sizeof(buffer));
    whi_writer_u8(&w, 7);
    uint8_t *space = whi_writer_space(&w, 4);
    CHECK(space == buffer + 1);
    memcpy(space, "abcd", 4);
    whi_writer_u8(&w, 8);
    CHECK(whi_writer_ok(&w));
    CHECK_MEM(buffer, "\7abcd\10", 6);
}

TEST_MAIN()
