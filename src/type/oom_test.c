// SPDX-License-Identifier: BSD-3-Clause
//
// Every public call of the layout engine that may need memory, with each of its allocations failing in turn.
//
// A scenario makes its types, uses them and releases all of it.  With a failure in it the first call that needs the memory
// says WH_ENOMEM and leaves its output alone; nothing leaks (the address sanitizer looks), and the data of calls that have
// succeeded is right.
#include <wherry/pack.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "base/test.h"

// TRY goes on while everything has worked.
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (status == WH_OK)                                                                       \
            status = (call);                                                                       \
    } while (0)

static const wh_type *basic(wh_type_id id) {
    return wh_type_basic(id);
}

static void every_allocation(wh_status (*scenario)(void)) {
    for (uint64_t n = 1;; n++) {
        whi_alloc_fail_at(n);
        wh_status status = scenario();
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        if (!reached) {
            CHECK_EQ_INT(status, WH_OK);
            CHECK(n > 1);
            return;
        }
        CHECK_EQ_INT(status, WH_ENOMEM);
    }
}

enum { MADE = 12 };

static wh_status constructors(void) {
    static const int64_t three[] = {4, 4, 4}, two[] = {2, 2, 2}, one[] = {1, 1, 1};
    static const int64_t lengths[] = {2, 1, 3}, at[] = {0, 5, 9}, bytes[] = {0, 40, 80};
    static const int64_t dists[] = {WH_DIST_BLOCK, WH_DIST_CYCLIC}, none[] = {-1, -1};
    wh_type *t[MADE] = {NULL};
    wh_status status = WH_OK;
    const wh_type *d = basic(WH_TYPE_DOUBLE);
    TRY(wh_type_create_contig(7, d, &t[0]));
    TRY(wh_type_create_vector(5, 2, 3, d, &t[1]));
    TRY(wh_type_create_hvector(5, 2, 40, d, &t[2]));
    TRY(wh_type_create_indexed(3, lengths, at, d, &t[3]));
    TRY(wh_type_create_hindexed(3, lengths, bytes, d, &t[4]));
    TRY(wh_type_create_indexed_block(3, 2, at, d, &t[5]));
    TRY(wh_type_create_hindexed_block(3, 2, bytes, d, &t[6]));
    TRY(wh_type_create_struct(2, lengths, bytes, (const wh_type *const[]){t[1], d}, &t[7]));
    TRY(wh_type_create_subarray(3, three, two, one, WH_ORDER_C, d, &t[8]));
    TRY(wh_type_create_darray(4, 1, 2, three, dists, none, two, WH_ORDER_FORTRAN, d, &t[9]));
    TRY(wh_type_create_resized(t[1], -8, 400, &t[10]));
    TRY(wh_type_dup(t[7], &t[11]));
    for (int i = 0; i < MADE; i++) {
        CHECK((status == WH_OK) <= (t[i] != NULL));
        wh_type_release(t[i]);
    }
    return status;
}

TEST(making_types) {
    every_allocation(constructors);
}

// A type that nobody has committed makes its plan when it is first used.
static wh_status uses(void) {
    double memory[40], back[40] = {0};
    char packed[200];
    struct iovec pieces[4];
    size_t size;
    int64_t got;
    wh_type *type = NULL;
    wh_status status = wh_type_create_vector(5, 2, 4, basic(WH_TYPE_DOUBLE), &type);
    for (int i = 0; i < 40; i++)
        memory[i] = i;
    TRY(wh_pack(memory, 2, type, 0, packed, sizeof(packed), 0, &size));
    TRY(wh_unpack(packed, size, back, 2, type, 0, 0, &size));
    TRY(wh_iov(memory, 1, type, 1, pieces, 4, &got));
    TRY(wh_accumulate(packed, 80, back, 1, type, 0, WH_REDUCE_SUM, &size));
    if (status == WH_OK)
        CHECK(back[5] == 10 && back[1] == 2 && back[2] == 0);
    TRY(wh_external_pack(memory, 1, type, packed, sizeof(packed), &size));
    TRY(wh_external_unpack(packed, size, back, 1, type, &size));
    wh_type_release(type);
    return status;
}

TEST(using_types) {
    every_allocation(uses);
}

static wh_status comparisons(void) {
    static const int64_t lengths[] = {1, 1, 1}, at[] = {0, 2, 5}, other[] = {0, 3, 5};
    wh_type *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    uint64_t x = 0, y = 0;
    int64_t n;
    bool equal = false;
    wh_status status = wh_type_create_indexed(3, lengths, at, basic(WH_TYPE_INT), &a);
    TRY(wh_type_create_indexed(3, lengths, at, basic(WH_TYPE_INT), &b));
    TRY(wh_type_create_indexed(3, lengths, other, basic(WH_TYPE_INT), &c));
    TRY(wh_type_create_contig(1, a, &d));
    TRY(wh_type_equal(a, b, &equal));
    CHECK(status != WH_OK || equal);
    TRY(wh_type_equal(a, d, &equal));
    CHECK(status != WH_OK || equal);
    TRY(wh_type_equal(a, c, &equal));
    CHECK(status != WH_OK || !equal);
    TRY(wh_type_signature(a, 1, &x, &n));
    TRY(wh_type_signature(c, 1, &y, &n));
    CHECK(status != WH_OK || x == y);
    wh_type_release(a);
    wh_type_release(b);
    wh_type_release(c);
    wh_type_release(d);
    return status;
}

TEST(comparing_types) {
    every_allocation(comparisons);
}

// Segments that cut an element; what could not be kept changes nothing, and may come again.
static wh_status accumulation(void) {
    int32_t memory[8] = {0};
    const int32_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const char *packed = (const char *)values;
    static const size_t cuts[] = {0, 6, 13, 22, 32};
    wh_accumulator *acc = NULL;
    wh_status failed = WH_OK;
    wh_status status = wh_accumulator_create(memory, 8, basic(WH_TYPE_INT32), WH_REDUCE_SUM, &acc);
    for (int i = 3; status == WH_OK && i >= 0; i--) {
        size_t size = cuts[i + 1] - cuts[i];
        wh_status st = wh_accumulator_add(acc, cuts[i], packed + cuts[i], size);
        if (st == WH_ENOMEM) {
            failed = st;
            st = wh_accumulator_add(acc, cuts[i], packed + cuts[i], size);
        }
        status = st;
    }
    if (status == WH_OK) {
        CHECK_MEM(memory, values, sizeof(values));
        CHECK_EQ_INT(wh_accumulator_pending(acc), 0);
    }
    wh_accumulator_destroy(acc);
    return status == WH_OK ? failed : status;
}

TEST(accumulating) {
    every_allocation(accumulation);
}

TEST_MAIN()
