// SPDX-License-Identifier: BSD-3-Clause
//
// external32: bytes as the standard has them, and every type there and back.
#include <float.h>

#include <wherry/pack.h>

#include "type/gen.h"
#include "type/oracle.h"

#include "base/test.h"

static void check_bytes(wh_type_id id, const void *value, size_t size, const char *wanted) {
    char packed[32];
    size_t actual;
    CHECK_EQ_INT(wh_external_size(1, wh_type_basic(id)), size);
    CHECK_EQ_INT(wh_external_pack(value, 1, wh_type_basic(id), packed, sizeof(packed), &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, size);
    CHECK_MEM(packed, wanted, size);
    char back[32], same[32];
    size_t width = (size_t)whi_basics[id].extent;
    memset(back, 0, sizeof(back));
    memset(same, 0, sizeof(same));
    CHECK_EQ_INT(wh_external_unpack(packed, size, back, 1, wh_type_basic(id), &actual), WH_OK);
    // The long double of x86 has 10 bytes of value.
    memcpy(same, value, id == WH_TYPE_LONG_DOUBLE && LDBL_MANT_DIG == 64 ? 10 : width);
    CHECK_MEM(back, same, width);
}

TEST(known_bytes) {
    check_bytes(WH_TYPE_INT16, &(int16_t){-2}, 2, "\xff\xfe");
    check_bytes(WH_TYPE_INT, &(int){0x01020304}, 4, "\1\2\3\4");
    check_bytes(WH_TYPE_LONG, &(long){-5}, 4, "\xff\xff\xff\xfb");
    check_bytes(WH_TYPE_ULONG, &(unsigned long){0x80000001}, 4, "\x80\0\0\1");
    check_bytes(WH_TYPE_INT64, &(int64_t){1}, 8, "\0\0\0\0\0\0\0\1");
    check_bytes(WH_TYPE_FLOAT, &(float){1}, 4, "\x3f\x80\0\0");
    check_bytes(WH_TYPE_DOUBLE, &(double){-2}, 8, "\xc0\0\0\0\0\0\0\0");
    check_bytes(WH_TYPE_LONG_DOUBLE, &(long double){1}, 16, "\x3f\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    check_bytes(WH_TYPE_LONG_DOUBLE, &(long double){-1.5L}, 16,
                "\xbf\xff\x80\0\0\0\0\0\0\0\0\0\0\0\0\0");
    check_bytes(WH_TYPE_LONG_DOUBLE, &(long double){0}, 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    check_bytes(WH_TYPE_COMPLEX_FLOAT, (float[]){1, -2}, 8, "\x3f\x80\0\0\xc0\0\0\0");
    check_bytes(WH_TYPE_BYTE, "w", 1, "w");
    struct {
        short value;
        int index;
    } pair;
    memset(&pair, 0, sizeof(pair));
    pair.value = 3;
    pair.index = -1;
    check_bytes(WH_TYPE_SHORT_INT, &pair, 6, "\0\3\xff\xff\xff\xff");
}

TEST(sizes_are_checked) {
    double memory[2] = {0};
    char packed[16];
    size_t actual = 99;
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    CHECK_EQ_INT(wh_external_pack(memory, 2, d, packed, 15, &actual), WH_ETRUNCATED);
    CHECK_EQ_INT(wh_external_unpack(packed, 15, memory, 2, d, &actual), WH_ETRUNCATED);
    CHECK_EQ_INT(actual, 99);
    CHECK_EQ_INT(wh_external_size(-1, d), -1);
    CHECK_EQ_INT(wh_external_size(1, NULL), -1);
}

enum { ROOM = 40000 };

static int64_t wide_sum;

static void add_wide(int64_t offset, wh_type_id id, void *arg) {
    (void)offset;
    (void)arg;
    wide_sum += whi_basics[id].ext32;
}

// Random types: out and in again leaves the elements that external32 can hold as they were.
TEST(there_and_back) {
    static unsigned char memory[ROOM], back[ROOM], external[2 * ROOM];
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        whi_gen gen = {.max_size = 3000, .max_span = 15000};
        whi_rng_init(&gen.rng, seed);
        wh_type *type = whi_gen_type(&gen, 4);
        size_t size, actual;
        int64_t span = type->at.true_ub - type->at.true_lb;
        // Small values in each byte that is the lowest of its element, zero elsewhere, so that also a
        // narrower form holds them.
        memset(memory, 0, (size_t)span);
        for (int64_t i = 0; i < span; i += 64)
            memory[i] = (unsigned char)(i / 64 % 100);
        unsigned char *origin = (unsigned char *)((uintptr_t)memory - (uintptr_t)type->at.true_lb);
        unsigned char *other = (unsigned char *)((uintptr_t)back - (uintptr_t)type->at.true_lb);
        static int64_t map[ROOM];
        int64_t low, bytes;
        whi_oracle_map(type, 1, map);
        bool overlaps = whi_oracle_span(map, type->at.size, &low, &bytes);
        wide_sum = 0;
        whi_oracle_walk(type, 1, add_wide, NULL);
        CHECK_EQ_INT(wh_external_size(1, type), wide_sum);
        CHECK_EQ_INT(wh_external_pack(origin, 1, type, external, sizeof(external), &size), WH_OK);
        CHECK_EQ_INT(size, wide_sum);
        memset(back, 0, sizeof(back));
        CHECK_EQ_INT(wh_external_unpack(external, size, other, 1, type, &actual), WH_OK);
        CHECK_EQ_INT(actual, size);
        static unsigned char again[2 * ROOM];
        CHECK_EQ_INT(wh_external_pack(other, 1, type, again, sizeof(again), &actual), WH_OK);
        if (!overlaps)
            CHECK_MEM(again, external, size);
        wh_type_release(type);
    }
}

TEST_MAIN()
