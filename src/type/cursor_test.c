// SPDX-License-Identifier: BSD-3-Clause
//
// Cursors against one call for the whole message: transposes of every shape, where they keep windows,
// and other layouts; segments ascending, descending, with gaps and in random order, both ways and in
// turn; what is kept back appears with the flush and not before its window is full.
#include <wherry/pack.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "type/type.h"

#include "base/test.h"

enum { ROOM = 1 << 20, GUARD = 128 };

static unsigned char memory[ROOM], back[ROOM], seen[ROOM];
static unsigned char whole[ROOM], parts[ROOM + 2 * GUARD];
static whi_rng rng;

typedef struct sample {
    wh_type *type;
    int64_t count;
    size_t total;
    unsigned char *from, *to;  // origins in memory and back
} sample;

static uint64_t draw(uint64_t below) {
    return whi_rng_below(&rng, below);
}

// `outer` matrices of `rows` x `columns` elements, packed column by column.
static sample transpose(int64_t len, int64_t outer, int64_t rows, int64_t columns, bool up) {
    wh_type *element, *type;
    int64_t pitch = columns * len + (int64_t)draw(3) * 8, sign = up ? 1 : -1;
    CHECK_EQ_INT(wh_type_create_contig(len, wh_type_basic(WH_TYPE_BYTE), &element), WH_OK);
    CHECK_EQ_INT(wh_type_create_strided(3, (int64_t[]){outer, columns, rows},
                                        (int64_t[]){rows * pitch + 64, len, sign * pitch}, element,
                                        &type),
                 WH_OK);
    wh_type_release(element);
    size_t skew = draw(64) + (up ? 0 : (size_t)(rows * pitch));
    return (sample){type, 1, (size_t)wh_type_size(type), memory + skew, back + skew};
}

// The columns of a matrix as elements: the count is a loop.
static sample columns_as_elements(int64_t rows, int64_t columns) {
    wh_type *column, *type;
    CHECK_EQ_INT(wh_type_create_vector(rows, 1, columns, wh_type_basic(WH_TYPE_DOUBLE), &column),
                 WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(column, 0, 8, &type), WH_OK);
    wh_type_release(column);
    size_t skew = draw(8) * 8;
    return (sample){type, columns, (size_t)(columns * wh_type_size(type)), memory + skew,
                    back + skew};
}

static sample rows(int64_t n) {
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_vector(n, 3, 5, wh_type_basic(WH_TYPE_INT), &type), WH_OK);
    return (sample){type, 2, (size_t)(2 * wh_type_size(type)), memory, back};
}

static void pack_segment(wh_cursor *cursor, size_t at, size_t size) {
    size_t actual = 0;
    memset(parts, 0xa5, size + 2 * GUARD);
    CHECK_EQ_INT(wh_cursor_pack(cursor, at, parts + GUARD, size, &actual), WH_OK);
    CHECK_EQ_INT(actual, size);
    CHECK_MEM(parts + GUARD, whole + at, size);
    for (size_t i = 0; i < GUARD; i++)
        CHECK(parts[i] == 0xa5 && parts[GUARD + size + i] == 0xa5);
}

static void unpack_segment(wh_cursor *cursor, size_t at, size_t size) {
    size_t actual = 0;
    CHECK_EQ_INT(wh_cursor_unpack(cursor, at, whole + at, size, &actual), WH_OK);
    CHECK_EQ_INT(actual, size);
}

// Calls `fn` for segments that cover the packed bytes once, in the order that `how` says.
static void each_segment(const sample *s, wh_cursor *cursor, int how,
                         void (*fn)(wh_cursor *, size_t, size_t)) {
    enum { SEGMENTS = 4096 };
    static size_t cut[SEGMENTS + 1];
    size_t n = 0, most = 1 + draw(s->total);
    most = most < s->total / 1000 + 1 ? s->total / 1000 + 1 : most;
    for (cut[0] = 0; cut[n] < s->total && n < SEGMENTS; n++) {
        size_t next = cut[n] + 1 + draw(most);
        cut[n + 1] = n + 1 == SEGMENTS || next > s->total ? s->total : next;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = how == 0 ? i : how == 1 ? n - 1 - i : (i * 2 < n ? i * 2 : (n - i) * 2 - 1);
        fn(cursor, cut[k], cut[k + 1] - cut[k]);
    }
}

static void check(sample s) {
    size_t actual;
    CHECK(s.total <= ROOM / 2);
    CHECK_EQ_INT(wh_pack(s.from, s.count, s.type, 0, whole, ROOM, WH_PACK_CACHED, &actual), WH_OK);
    CHECK_EQ_INT(actual, s.total);
    memset(seen, 0x5a, ROOM);
    CHECK_EQ_INT(wh_unpack(whole, s.total, seen + (s.to - back), s.count, s.type, 0, 0, &actual),
                 WH_OK);
    for (int how = 0; how < 6; how++) {
        wh_cursor *cursor;
        unsigned flags = how < 3 ? 0 : WH_PACK_STREAM;
        CHECK_EQ_INT(wh_cursor_create(s.from, s.count, s.type, flags, &cursor), WH_OK);
        each_segment(&s, cursor, how % 3, pack_segment);
        wh_cursor_destroy(cursor);
        CHECK_EQ_INT(wh_cursor_create(s.to, s.count, s.type, flags, &cursor), WH_OK);
        memset(back, 0x5a, ROOM);
        each_segment(&s, cursor, how % 3, unpack_segment);
        CHECK_EQ_INT(wh_cursor_flush(cursor), WH_OK);
        CHECK_MEM(back, seen, ROOM);
        // From one direction to the other: what was kept back is there to be packed.
        memset(back, 0x5a, ROOM);
        unpack_segment(cursor, 0, s.total / 3);
        unpack_segment(cursor, s.total / 3, s.total - s.total / 3);
        pack_segment(cursor, s.total / 7, s.total / 2);
        unpack_segment(cursor, 0, s.total / 5);
        pack_segment(cursor, 0, s.total);
        wh_cursor_destroy(cursor);
    }
    wh_type_release(s.type);
}

static void fill(uint64_t seed) {
    whi_rng_init(&rng, seed);
    for (size_t i = 0; i < ROOM; i++)
        memory[i] = (unsigned char)(i * 151 + (i >> 8) * 7);
}

TEST(transposes) {
    fill(1);
    for (int i = 0; i < 40; i++) {
        int64_t len = 1 << draw(5), most = len > 4 ? 90 : 150;
        check(transpose(len, 1 + (int64_t)draw(2), 4 + (int64_t)draw((uint64_t)most),
                        4 + (int64_t)draw((uint64_t)most), i % 3 != 0));
        check(transpose(4, 5, 4 + (int64_t)draw(9), 4 + (int64_t)draw(20), true));
        check(columns_as_elements(4 + (int64_t)draw(150), 4 + (int64_t)draw(150)));
    }
}

TEST(other_layouts) {
    fill(2);
    for (int i = 0; i < 10; i++)
        check(rows(1 + (int64_t)draw(3000)));
    check((sample){wh_type_retain(whi_type_mutable(wh_type_basic(WH_TYPE_BYTE))), 5000, 5000,
                   memory, back});
}

TEST(empty_messages) {
    wh_cursor *cursor;
    size_t actual = 9;
    CHECK_EQ_INT(wh_cursor_create(NULL, 0, wh_type_basic(WH_TYPE_INT), 0, &cursor), WH_OK);
    CHECK_EQ_INT(wh_cursor_pack(cursor, 0, parts, 100, &actual), WH_OK);
    CHECK_EQ_INT(actual, 0);
    CHECK_EQ_INT(wh_cursor_flush(cursor), WH_OK);
    wh_cursor_destroy(cursor);
    wh_cursor_destroy(NULL);
}

// What makes a cursor fast is that it sees whole windows: a part is kept back until the flush.
TEST(parts_of_windows_are_kept) {
    fill(3);
    sample s = columns_as_elements(64, 64);
    wh_cursor *cursor;
    CHECK_EQ_INT(wh_cursor_create(s.to, s.count, s.type, 0, &cursor), WH_OK);
    memset(back, 0, ROOM);
    memset(whole, 1, s.total);
    unpack_segment(cursor, 0, 100);
    for (size_t i = 0; i < ROOM; i++)
        CHECK(back[i] == 0);
    CHECK_EQ_INT(wh_cursor_flush(cursor), WH_OK);
    size_t set = 0;
    for (size_t i = 0; i < ROOM; i++)
        set += back[i];
    CHECK_EQ_INT(set, 100);
    wh_cursor_destroy(cursor);
    wh_type_release(s.type);
}

TEST(errors_name_the_argument) {
    char memory_[8] = {0}, packed[8];
    size_t actual = 99;
    wh_cursor *cursor = NULL;
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    CHECK_EQ_INT(wh_cursor_create(memory_, 1, NULL, 0, &cursor), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_create(memory_, -1, d, 0, &cursor), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_create(memory_, 1, d, 8, &cursor), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_create(memory_, 1, d, 0, NULL), WH_EINVAL);
    CHECK(!cursor && strstr(wh_type_error(), "wh_cursor_create: cursor is NULL"));
    CHECK_EQ_INT(wh_cursor_create(memory_, 1, d, 0, &cursor), WH_OK);
    CHECK_EQ_INT(wh_cursor_pack(NULL, 0, packed, 8, &actual), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_pack(cursor, 9, packed, 8, &actual), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_pack(cursor, 0, NULL, 8, &actual), WH_EINVAL);
    CHECK_EQ_INT(wh_cursor_unpack(cursor, 0, packed, 8, NULL), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "wh_cursor_unpack: actual is NULL"));
    CHECK_EQ_INT(wh_cursor_flush(NULL), WH_EINVAL);
    CHECK_EQ_INT(actual, 99);
    wh_cursor_destroy(cursor);
}

TEST(memory_runs_out) {
    sample s = columns_as_elements(64, 64);
    wh_cursor *cursor = NULL;
    wh_status status = WH_ENOMEM;
    for (uint64_t n = 1; status != WH_OK; n++) {
        CHECK(n < 100);
        whi_alloc_fail_at(n);
        status = wh_cursor_create(s.to, s.count, s.type, 0, &cursor);
        whi_alloc_fail_at(0);
        CHECK(status == WH_OK || (status == WH_ENOMEM && !cursor));
    }
    wh_cursor_destroy(cursor);
    wh_type_release(s.type);
}

TEST_MAIN()
