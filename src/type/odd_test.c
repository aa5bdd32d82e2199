// SPDX-License-Identifier: BSD-3-Clause
//
// Huge and odd arguments to every function of type.h and pack.h: each answers, and the sanitizers see
// no overflow and no foreign byte.  Types are made of types that were made before, so that numbers
// multiply; data is only moved where the whole layout lies in memory.
//
// Every step follows from the seed; a failure prints it, `odd_test seed N` repeats it, and
// `odd_test steps N` goes on for longer.
#include <wherry/pack.h>

#include "base/rng.h"
#include "type/type.h"

#include "base/test.h"

enum {
    STEPS = 30000,
    POOL = 48,
    HALF = 1 << 15,  // bytes of memory on both sides of the origin
    FLAT = 1 << 14,
    LISTS = 6,
};

static whi_rng rng;
static wh_type *pool[POOL];
static uint64_t seed = 1, steps = STEPS;
static unsigned char memory[2 * HALF], packed[4096];

// Whatever the arguments, one of these comes back; an allocation in proportion to the type succeeds.
static void answers(wh_status status) {
    CHECK(status == WH_OK || status == WH_EINVAL || status == WH_ELIMIT || status == WH_ENOTSUP ||
          status == WH_ETRUNCATED);
}

static uint64_t draw(uint64_t below) {
    return whi_rng_below(&rng, below);
}

// Numbers at which something may give way: around powers of two, at the ends, and small ones.
static int64_t odd(void) {
    static const int64_t ends[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1};
    if (draw(10) < 6)
        return (int64_t)draw(12) - 2;
    if (draw(6) == 0)
        return ends[draw(4)];
    int64_t value = (int64_t)(((uint64_t)1 << draw(63)) + draw(5) - 2);
    return draw(3) ? value : -value;
}

static void odd_list(int64_t *list, int64_t n, bool positive) {
    for (int64_t i = 0; i < n; i++) {
        int64_t value = draw(4) ? (int64_t)draw(70) - (positive ? 0 : 20) : odd();
        list[i] = value;
    }
}

static wh_type *any(void) {
    return pool[draw(POOL)];
}

static wh_status make_list(wh_type **type) {
    int64_t n = (int64_t)draw(LISTS + 1), lengths[LISTS], places[LISTS];
    const wh_type *types[LISTS];
    odd_list(lengths, n, true);
    odd_list(places, n, false);
    for (int64_t i = 0; i < n; i++)
        types[i] = any();
    switch (draw(5)) {
    case 0: return wh_type_create_indexed(n, lengths, places, any(), type);
    case 1: return wh_type_create_hindexed(n, lengths, places, any(), type);
    case 2: return wh_type_create_indexed_block(n, odd(), places, any(), type);
    case 3: return wh_type_create_hindexed_block(n, odd(), places, any(), type);
    default: return wh_type_create_struct(n, lengths, places, types, type);
    }
}

static wh_status make_array(wh_type **type) {
    int64_t n = (int64_t)draw(LISTS), a[LISTS], b[LISTS], c[LISTS], d[LISTS], size = 1;
    odd_list(a, n, true);
    odd_list(b, n, true);
    odd_list(c, n, true);
    odd_list(d, n, false);
    switch (draw(4)) {
    case 0: return wh_type_create_strided((int)n, a, d, any(), type);
    case 1:
        return wh_type_create_subarray((int)n, a, b, c, draw(2) ? WH_ORDER_C : WH_ORDER_FORTRAN,
                                       any(), type);
    case 2:  // mostly legal ones
        for (int64_t i = 0; i < n; i++) {
            a[i] = a[i] < 0 ? 3 : a[i];
            b[i] = a[i] ? (int64_t)draw((uint64_t)a[i]) : 0;
            c[i] = a[i] - b[i] ? (int64_t)draw((uint64_t)(a[i] - b[i])) : 0;
        }
        return wh_type_create_subarray((int)n, a, b, c, WH_ORDER_C, any(), type);
    default:
        for (int64_t i = 0; i < n; i++) {
            b[i] = (int64_t)draw(3);
            d[i] = b[i] ? 1 + (int64_t)draw(3) : 1;
            c[i] = draw(2) ? WH_DIST_DEFAULT : c[i];
            size *= d[i];
        }
        return wh_type_create_darray(size, (int64_t)draw((uint64_t)size), (int)n, a, b, c, d,
                                     WH_ORDER_C, any(), type);
    }
}

static wh_status make(wh_type **type) {
    switch (draw(8)) {
    case 0: return wh_type_create_contig(odd(), any(), type);
    case 1: return wh_type_create_vector(odd(), odd(), odd(), any(), type);
    case 2: return wh_type_create_hvector(odd(), odd(), odd(), any(), type);
    case 3: return wh_type_create_resized(any(), odd(), odd(), type);
    case 4: return wh_type_dup(any(), type);
    case 5: return make_array(type);
    default: return make_list(type);
    }
}

// Whether all of `count` elements lies in memory.
static bool lies_in_memory(const wh_type *type, int64_t count) {
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    if (count < 0 || info.packed_size == 0)
        return false;
    __int128 last = count ? (__int128)(count - 1) * info.extent : 0;
    __int128 low = info.true_lb + (last < 0 ? last : 0);
    __int128 high = (__int128)info.true_lb + info.true_extent + (last > 0 ? last : 0);
    return low >= -HALF && high <= HALF && (__int128)info.packed_size * count <= INT64_MAX;
}

static void ask_numbers(const wh_type *type) {
    wh_type_info info = {.size = sizeof(info)};
    uint64_t hash;
    int64_t size = odd(), n = 0, border = 0, basics = 0;
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    CHECK(info.true_extent >= 0 && info.runs <= info.packed_size &&
          info.basics <= info.packed_size);
    CHECK_EQ_INT(wh_type_size(type), info.packed_size);
    answers(wh_type_signature(type, odd(), &hash, &basics));
    (void)wh_external_size(odd(), type);
    for (int op = -1; op <= WH_REDUCES; op++)
        (void)wh_reduce_defined((wh_reduce)op, type);
    answers(wh_type_get_elements(type, size, &n));
    if (wh_type_get_border(type, size, &border, &basics) == WH_OK) {
        CHECK(border <= size && size - border < 32);
        CHECK_EQ_INT(wh_type_get_elements(type, border, &n), WH_OK);
        CHECK_EQ_INT(n, basics);
    }
}

static void ask_runs(const wh_type *type) {
    // An origin from which all addresses of a layout are possible ones.
    const char *origin = (const char *)((uintptr_t)1 << 63);
    struct iovec iov[4];
    int64_t count = odd(), n, bytes;
    size_t covered;
    answers(wh_iov_len(count, type, &n));
    answers(wh_iov_len_max(count, type, odd(), &n, &bytes));
    answers(wh_iov(origin, count, type, odd(), iov, (int64_t)draw(5), &n));
    answers(wh_iov(origin, count, type, odd(), iov, 4, &n));
    answers(wh_iov_bytes(origin, count, type, (size_t)odd(), (size_t)odd(), iov, 4, &n, &covered));
    if (wh_iov_len(1, type, &n) == WH_OK && n > 0) {
        int64_t first = n - 1 - (int64_t)draw((uint64_t)n < 9 ? (uint64_t)n : 9);
        CHECK_EQ_INT(wh_iov(origin, 1, type, first, iov, 4, &bytes), WH_OK);
        CHECK(bytes == (n - first < 4 ? n - first : 4));
    }
}

static void flatten(const wh_type *type) {
    static unsigned char flat[FLAT];
    size_t size = 0, used = 0;
    wh_type *copy;
    bool equal = false;
    if (wh_type_flatten(type, flat, sizeof(flat), &size) != WH_OK)
        return;
    CHECK_EQ_INT(wh_type_unflatten(flat, size, &used, &copy), WH_OK);
    CHECK_EQ_INT(used, size);
    CHECK_EQ_INT(wh_type_equal(type, copy, &equal), WH_OK);
    CHECK(equal);
    wh_type_release(copy);
    // What a stranger may make of it.
    flat[draw(size)] = (unsigned char)draw(256);
    if (wh_type_unflatten(flat, size - draw(3), &used, &copy) != WH_OK)
        return;
    ask_numbers(copy);
    ask_runs(copy);
    wh_type_release(copy);
}

static void move(const wh_type *type) {
    unsigned char *origin = memory + HALF;
    int64_t count = odd(), total;
    if (!lies_in_memory(type, count))
        count = 1;
    if (!lies_in_memory(type, count))
        return;
    total = count * wh_type_size(type);
    size_t offset = draw(2) ? (size_t)draw((uint64_t)total + 1) : (size_t)odd(), actual = 0;
    size_t most = (size_t)draw(sizeof(packed));
    answers(wh_pack(origin, count, type, offset, packed, most, (unsigned)draw(5), &actual));
    answers(wh_unpack(packed, most, origin, count, type, offset, 0, &actual));
    int64_t border = 0, end = 0;
    if (offset <= (size_t)total &&
        wh_type_get_border(type, (int64_t)offset, &border, NULL) == WH_OK &&
        wh_type_get_border(type, border + (total - border < 900 ? total - border : 900), &end,
                           NULL) == WH_OK)
        // Between borders arithmetic is always possible, if it is at all.
        CHECK(wh_accumulate(packed, (size_t)(end - border), origin, count, type, (size_t)border,
                            WH_REDUCE_LOR, &actual) ==
              (wh_reduce_defined(WH_REDUCE_LOR, type) ? WH_OK : WH_ENOTSUP));
    answers(wh_pack_accumulate(origin, count, type, offset, packed, most, WH_REDUCE_SUM, &actual));
    answers(wh_external_pack(origin, count, type, packed, most, &actual));
    answers(wh_external_unpack(packed, most, origin, count, type, &actual));
}

static void move_with_handles(const wh_type *type) {
    unsigned char *origin = memory + HALF;
    int64_t count = (int64_t)draw(3);
    size_t offset = (size_t)odd(), actual = 0, most = (size_t)draw(sizeof(packed));
    wh_cursor *cursor;
    wh_accumulator *acc;
    wh_pack_request *req;
    if (!lies_in_memory(type, count))
        return;
    if (wh_cursor_create(origin, count, type, 0, &cursor) == WH_OK) {
        answers(wh_cursor_pack(cursor, offset, packed, most, &actual));
        answers(wh_cursor_unpack(cursor, offset, packed, most, &actual));
        CHECK_EQ_INT(wh_cursor_flush(cursor), WH_OK);
        wh_cursor_destroy(cursor);
    }
    if (wh_accumulator_create(origin, count, type, WH_REDUCE_MAX, &acc) == WH_OK) {
        answers(wh_accumulator_add(acc, offset, packed, most));
        CHECK(wh_accumulator_pending(acc) <= most);
        wh_accumulator_destroy(acc);
    }
    if (wh_pack_start(origin, count, type, offset, packed, most, 0, &req) == WH_OK) {
        CHECK_EQ_INT(wh_pack_request_wait(req, &actual), WH_OK);
        wh_pack_request_free(req);
    }
}

// Calls that must not touch memory, for they have nothing to move, or ask for too much.
static void move_nothing(const wh_type *type) {
    int64_t count = odd();
    size_t actual = 0;
    char *nowhere = (char *)((uintptr_t)1 << 63);
    wh_cursor *cursor;
    answers(wh_pack(nowhere, count, type, (size_t)odd(), packed, 0, 0, &actual));
    answers(wh_unpack(packed, 0, nowhere, count, type, (size_t)odd(), 0, &actual));
    answers(wh_accumulate(packed, 0, nowhere, count, type, (size_t)odd(), WH_REDUCE_SUM, &actual));
    if (wh_type_size(type) > 32)
        answers(wh_external_pack(nowhere, count > 0 ? count : 1, type, packed, 1, &actual));
    if (wh_cursor_create(nowhere, count, type, 0, &cursor) == WH_OK) {
        answers(wh_cursor_pack(cursor, (size_t)odd(), packed, 0, &actual));
        wh_cursor_destroy(cursor);
    }
}

static void ask(const wh_type *type) {
    bool equal;
    CHECK_EQ_INT(wh_type_commit(type), WH_OK);
    ask_numbers(type);
    ask_runs(type);
    flatten(type);
    move(type);
    move_with_handles(type);
    move_nothing(type);
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    // Millions of runs may be compared; not here, a thousand times.
    if (info.runs < 10000)
        answers(wh_type_equal(type, any(), &equal));
}

static void tell_seed(void) {
    fprintf(stderr, "odd arguments: seed %llu\n", (unsigned long long)seed);
}

TEST(every_function_answers) {
    uint64_t made = 0, huge = 0;
    whi_rng_init(&rng, seed);
    for (int i = 0; i < POOL; i++)
        pool[i] = whi_type_mutable(wh_type_basic((wh_type_id)(i % WH_TYPE_IDS)));
    for (uint64_t i = 0; i < steps; i++) {
        wh_type *type = NULL;
        wh_status status = make(&type);
        CHECK(status == WH_OK || status == WH_EINVAL || status == WH_ELIMIT);
        if (status != WH_OK)
            continue;
        ask(type);
        made++;
        huge += wh_type_size(type) > (int64_t)1 << 40;
        // Predefined types stay among the choices: what is huge already takes no more.
        uint64_t place = draw(POOL);
        if (place % 2) {
            wh_type_release(pool[place]);
            pool[place] = type;
        } else {
            wh_type_release(type);
        }
    }
    for (int i = 0; i < POOL; i++)
        wh_type_release(pool[i]);
    CHECK(made > steps / 10 && huge > made / 100);
}

// Sums that pass 2^63 on the way to an answer that does not.
TEST(sums_that_overflow) {
    enum { BLOCKS = 20 };
    int64_t lengths[BLOCKS], places[BLOCKS], n = 0, bytes = 0;
    const wh_type *byte = wh_type_basic(WH_TYPE_BYTE);
    char *nowhere = (char *)((uintptr_t)1 << 63);
    wh_type *two, *type;
    size_t actual = 9;
    // The reach of the elements and the span of the last one are more than 64 bits together.
    CHECK_EQ_INT(wh_type_create_hvector(2, 1, (int64_t)1 << 60, byte, &two), WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(two, 0, 2, &type), WH_OK);
    CHECK_EQ_INT(
        wh_pack(nowhere, ((int64_t)1 << 62) - 1, type, 0, packed, 0, WH_PACK_STREAM, &actual),
        WH_OK);
    CHECK_EQ_INT(actual, 0);
    wh_type_release(type);
    wh_type_release(two);
    // As many blocks as long as the first would be.
    for (int64_t i = 0; i < BLOCKS; i++) {
        lengths[i] = i ? 1 + i % 2 : (int64_t)1 << 60;
        places[i] = i ? ((int64_t)1 << 60) + 3 * i * i : 0;
    }
    CHECK_EQ_INT(wh_type_create_hindexed(BLOCKS, lengths, places, byte, &type), WH_OK);
    CHECK_EQ_INT(wh_iov_len(1, type, &n), WH_OK);
    CHECK_EQ_INT(n, BLOCKS);
    wh_type_release(type);
    // As many runs as a number can count.
    CHECK_EQ_INT(wh_type_create_resized(byte, 0, 0, &type), WH_OK);
    CHECK_EQ_INT(wh_iov_len_max(INT64_MAX, type, INT64_MAX, &n, &bytes), WH_OK);
    CHECK(n == INT64_MAX && bytes == INT64_MAX);
    wh_type_release(type);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "seed") == 0)
        seed = strtoull(argv[2], NULL, 0);
    if (argc == 3 && strcmp(argv[1], "steps") == 0) {
        steps = strtoull(argv[2], NULL, 0);
        seed = steps;
    }
    tell_seed();
    return whi_test_main("");
}
