// SPDX-License-Identifier: BSD-3-Clause
//
// Every kernel of every set that runs here, against copying byte by byte: each size class at its edges,
// two loops, strides of both signs, tables, lists, short lists many times over, transposes with every
// alignment of both sides; plain and around the cache.  Bytes around the packed side stay untouched.
#include <wherry/pack.h>

#include "base/rng.h"
#include "type/kernels/kernels.h"
#include "type/oracle.h"
#include "type/plan.h"

#include "base/test.h"

enum { ROOM = 1 << 20, PACKED = 1 << 18, GUARD = 128 };

static const char *const sets[] = {"base", "avx2", "avx512"};
static _Alignas(64) unsigned char memory[ROOM], back[ROOM];
static unsigned char packed[PACKED + 2 * GUARD], wanted[PACKED];
static int64_t map[PACKED];
static int checked;

static void check_packed(const wh_type *type, int64_t count, int64_t total, int64_t low,
                         unsigned flags, size_t shift) {
    unsigned char *origin = (unsigned char *)((uintptr_t)memory - (uintptr_t)low);
    size_t actual;
    memset(packed, 0xa5, (size_t)total + 2 * GUARD);
    CHECK_EQ_INT(
        wh_pack(origin, count, type, 0, packed + GUARD - shift, (size_t)total, flags, &actual),
        WH_OK);
    CHECK_MEM(packed + GUARD - shift, wanted, (size_t)total);
    for (size_t i = 0; i < GUARD - shift; i++)
        CHECK(packed[i] == 0xa5 && packed[GUARD - shift + (size_t)total + i] == 0xa5);
}

static void check_unpack(const wh_type *type, int64_t count, int64_t total, int64_t low,
                         int64_t span, unsigned flags) {
    size_t actual;
    memset(back, 0x5a, (size_t)span);
    CHECK_EQ_INT(wh_unpack(wanted, (size_t)total, (void *)((uintptr_t)back - (uintptr_t)low), count,
                           type, 0, flags, &actual),
                 WH_OK);
    for (int64_t i = 0; i < total; i++) {
        CHECK(back[map[i] - low] == wanted[i]);
        back[map[i] - low] = 0x5a;
    }
    for (int64_t i = 0; i < span; i++)
        CHECK(back[i] == 0x5a);
}

// Packs and unpacks a type whose runs do not overlap, and releases it.
static void check(wh_type *type, int64_t count) {
    int64_t total = count * wh_type_size(type), low, span;
    CHECK(total <= PACKED);
    whi_oracle_map(type, count, map);
    CHECK(!whi_oracle_span(map, total, &low, &span) && span <= ROOM);
    for (int64_t i = 0; i < total; i++)
        wanted[i] = memory[map[i] - low];
    for (size_t shift = 0; shift < 64; shift += 21) {
        check_packed(type, count, total, low, WH_PACK_CACHED, shift);
        check_packed(type, count, total, low, WH_PACK_STREAM, shift);
    }
    check_unpack(type, count, total, low, span, WH_PACK_CACHED);
    check_unpack(type, count, total, low, span, WH_PACK_STREAM);
    checked++;
    wh_type_release(type);
}

static void each_set(void (*body)(void)) {
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)(i * 151 + (i >> 8) * 7);
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
        if (whi_kernels_use(sets[i]))
            body();
    whi_kernels_use(NULL);
}

static wh_type *bytes(int64_t n) {
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_contig(n, wh_type_basic(WH_TYPE_BYTE), &type), WH_OK);
    return type;
}

// Two loops with different strides around a run of `len` bytes.
static void rows_apart(int64_t len, int64_t inner, int64_t n1, int64_t n0, int64_t sign) {
    wh_type *run = bytes(len), *type;
    int64_t outer = n0 * inner + (inner % 64 ? 11 : 64);
    CHECK_EQ_INT(wh_type_create_strided(2, (int64_t[]){n1, n0}, (int64_t[]){outer, sign * inner},
                                        run, &type),
                 WH_OK);
    wh_type_release(run);
    check(type, 1);
}

static void rows_of(int64_t len, int64_t n1, int64_t n0, int64_t sign) {
    rows_apart(len, len + 5, n1, n0, sign);
}

static void rows(void) {
    static const int64_t lengths[] = {1,   2,   3,   4,    5,    7,    8,    9,   15,  16,
                                      17,  31,  32,  33,   63,   64,   65,   100, 127, 128,
                                      129, 200, 512, 1000, 1023, 1024, 1025, 3000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        rows_of(lengths[i], 1, 33, 1);
        rows_of(lengths[i], 3, 19, -1);
        rows_of(lengths[i], lengths[i] > 512 ? 2 : 9, 21, 1);
    }
}

TEST(rows) {
    each_set(rows);
}

// Loops long enough for the nontemporal kernels, runs that are lines of memory, and runs that lie on a
// page each.
static void long_rows(void) {
    static const int64_t lengths[] = {1, 8, 24, 64, 96, 128, 1000, 1024, 2048};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        rows_of(lengths[i], 3, 70000 / lengths[i] / 2, i % 2 ? 1 : -1);
    for (int64_t len = 64; len <= 1024; len *= 2)
        rows_apart(len, 2 * len, 2, 50, 1);
    for (int64_t len = 1; len <= 1024; len = 3 * len + 5)
        rows_apart(len, 4096 + 64 * (len % 2), 2, 90, len % 3 ? 1 : -1);
}

TEST(long_rows) {
    each_set(long_rows);
}

// Irregular blocks; `spread` makes their lengths differ.
static void blocks_of(int64_t n, int64_t least, int64_t spread, int64_t count) {
    int64_t lengths[600], displacements[600], at = 3;
    whi_rng rng;
    whi_rng_init(&rng, (uint64_t)(n * 31 + least));
    for (int64_t i = 0; i < n; i++) {
        lengths[i] = least + (int64_t)whi_rng_below(&rng, (uint64_t)spread);
        displacements[i] = at;
        at += lengths[i] + 1 + (int64_t)whi_rng_below(&rng, 9);
    }
    wh_type *type;
    CHECK_EQ_INT(
        wh_type_create_hindexed(n, lengths, displacements, wh_type_basic(WH_TYPE_BYTE), &type),
        WH_OK);
    check(type, count);
}

static void blocks(void) {
    for (int64_t len = 1; len < 140; len += len < 18 ? 1 : 13) {
        blocks_of(40, len, 1, 1);
        blocks_of(7, len, 1, 5);
        blocks_of(40, len, 60, 2);
        blocks_of(600, len, 9, 1);
    }
    blocks_of(20, 200, 100, 3);
    blocks_of(20, 200, 2000, 1);
}

TEST(blocks) {
    each_set(blocks);
}

// Small structs, many of them: 2 to 5 fields in up to 100 bytes, with and without gaps between.
static void structs(void) {
    whi_rng rng;
    whi_rng_init(&rng, 7);
    for (int i = 0; i < 150; i++) {
        int64_t n = 2 + (int64_t)whi_rng_below(&rng, 4), lengths[5], displacements[5], at = 0;
        for (int64_t k = 0; k < n; k++) {
            lengths[k] = 1 + (int64_t)whi_rng_below(&rng, i % 3 ? 8 : 24);
            displacements[k] = at;
            at += lengths[k] + 1 + (int64_t)whi_rng_below(&rng, 5);
        }
        wh_type *fields, *type;
        CHECK_EQ_INT(wh_type_create_hindexed(n, lengths, displacements, wh_type_basic(WH_TYPE_BYTE),
                                             &fields),
                     WH_OK);
        CHECK_EQ_INT(wh_type_create_resized(fields, 0, at + (int64_t)whi_rng_below(&rng, 3), &type),
                     WH_OK);
        wh_type_release(fields);
        check(type, 60 + (int64_t)whi_rng_below(&rng, 90));
    }
}

TEST(structs) {
    each_set(structs);
}

// A rows x columns matrix of `len` byte elements, packed column by column, at an odd place.
static void transpose_of(int64_t len, int64_t nrows, int64_t columns, int64_t skew) {
    wh_type *element = bytes(len), *matrix, *type;
    int64_t one[] = {1}, at[] = {skew};
    CHECK_EQ_INT(wh_type_create_strided(2, (int64_t[]){columns, nrows},
                                        (int64_t[]){len, columns * len + 64}, element, &matrix),
                 WH_OK);
    CHECK_EQ_INT(wh_type_create_hindexed(1, one, at, matrix, &type), WH_OK);
    wh_type_release(element);
    wh_type_release(matrix);
    check(type, 1);
}

static void transposes(void) {
    for (int64_t len = 1; len <= 16; len *= 2) {
        for (int64_t skew = 0; skew < 64; skew += 8) {
            transpose_of(len, 37, 70, skew);
            transpose_of(len, 64, 64, skew);
        }
        transpose_of(len, 4, 5, 3);
        transpose_of(len, 300, 9, 0);
        transpose_of(len, 60, 4200 / len, 0);  // a page from row to row
    }
}

TEST(transposes) {
    each_set(transposes);
}

TEST(nothing_was_left_out) {
    CHECK(checked > 150);  // in the one set that every processor has
    CHECK(!whi_kernels_use("vax"));
    CHECK(whi_kernels_use(NULL));
}

TEST_MAIN()
