// SPDX-License-Identifier: BSD-3-Clause
//
// Small descriptions of enormous types, as a stranger may send them: what is asked about one costs no
// more than its description.  A walk over all that they stand for would not end within years.
#include <wherry/pack.h>

#include "type/plan.h"
#include "type/type.h"

#include "base/test.h"

enum { FLAT = 4096 };

static const wh_type *basic(wh_type_id id) {
    return wh_type_basic(id);
}

// Each node holds two of the one before, one extent and `gap` bytes apart: a tree of 2^levels leaves.
static wh_type *doubled(const wh_type *leaf, int levels, int64_t gap) {
    wh_type *type = whi_type_mutable(leaf);
    for (int i = 0; i < levels; i++) {
        wh_type *outer = NULL;
        int64_t ones[] = {1, 1}, places[] = {0, type->at.ub - type->at.lb + gap};
        const wh_type *two[] = {type, type};
        CHECK_EQ_INT(wh_type_create_struct(2, ones, places, two, &outer), WH_OK);
        wh_type_release(type);
        type = outer;
    }
    return type;
}

// Loops that no normal form makes shorter, around a list of unequal runs: `base` to the power of 12.
static wh_type *looped(int64_t base) {
    int64_t lengths[] = {1, 2, 1}, places[] = {0, 3, 9}, step = 13;
    wh_type *type, *outer;
    CHECK_EQ_INT(wh_type_create_hindexed(3, lengths, places, basic(WH_TYPE_SHORT), &type), WH_OK);
    for (int i = 0; i < 12; i++) {
        CHECK_EQ_INT(wh_type_create_hvector(base, 1, step, type, &outer), WH_OK);
        wh_type_release(type);
        type = outer;
        step = step * base + 2;
    }
    return type;
}

static wh_type *through_bytes(wh_type *type) {
    unsigned char flat[FLAT];
    size_t size;
    wh_type *copy;
    CHECK_EQ_INT(wh_type_flatten(type, flat, sizeof(flat), &size), WH_OK);
    CHECK(size < 700);
    CHECK_EQ_INT(wh_type_unflatten(flat, size, NULL, &copy), WH_OK);
    wh_type_release(type);
    return copy;
}

// All that can be asked without memory for the data.
static void ask_everything(const wh_type *type) {
    wh_type_info info = {.size = sizeof(info)};
    uint64_t hash;
    int64_t n, bytes, basics, border;
    struct iovec iov[3];
    size_t covered;
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    CHECK(info.basics > (int64_t)1 << 40);
    CHECK(wh_external_size(1, type) >= info.basics);
    CHECK_EQ_INT(wh_type_signature(type, 1, &hash, &basics), WH_OK);
    CHECK_EQ_INT(basics, info.basics);
    CHECK_EQ_INT(wh_type_get_elements(type, info.packed_size, &n), WH_OK);
    CHECK_EQ_INT(n, info.basics);
    CHECK_EQ_INT(wh_type_get_border(type, info.packed_size / 2 + 1, &border, &basics), WH_OK);
    CHECK_EQ_INT(wh_type_get_elements(type, border, &n), WH_OK);
    CHECK_EQ_INT(n, basics);
    CHECK(border >= info.packed_size / 2 + 1 - 16);
    CHECK(wh_reduce_defined(WH_REDUCE_SUM, type));
    CHECK(!wh_reduce_defined(WH_REDUCE_BXOR, type) || info.align == 2);
    CHECK_EQ_INT(wh_iov_len_max(1, type, info.packed_size / 3, &n, &bytes), WH_OK);
    const char *origin = (const char *)((uintptr_t)1 << 62);
    CHECK_EQ_INT(wh_iov(origin, 1, type, info.runs - 2, iov, 3, &n), WH_OK);
    CHECK_EQ_INT(n, 2);
    CHECK_EQ_INT(
        wh_iov_bytes(origin, 1, type, (size_t)info.packed_size / 2, SIZE_MAX, iov, 3, &n, &covered),
        WH_OK);
    CHECK_EQ_INT(n, 3);
}

TEST(a_tree_of_doubles) {
    wh_type *type = through_bytes(doubled(basic(WH_TYPE_DOUBLE), 45, 8));
    ask_everything(type);
    wh_type_release(type);
}

TEST(a_dozen_loops) {
    wh_type *type = through_bytes(looped(24));
    ask_everything(type);
    wh_type_release(type);
}

// What no copy is made of is asked about no more often than what is copied.
TEST(a_tree_that_holds_nothing) {
    wh_type *type = whi_type_mutable(basic(WH_TYPE_DOUBLE)), *outer;
    for (int i = 0; i < WHI_TYPE_DEPTH; i++) {
        int64_t lengths[] = {1, 0, 0}, places[] = {0, 0, 0};
        const wh_type *three[] = {type, type, type};
        CHECK_EQ_INT(wh_type_create_struct(3, lengths, places, three, &outer), WH_OK);
        wh_type_release(type);
        type = outer;
    }
    CHECK(wh_reduce_defined(WH_REDUCE_SUM, type));
    CHECK(!wh_reduce_defined(WH_REDUCE_BAND, type));
    wh_type_release(type);
}

// A member without copies has no say.
TEST(reductions_go_by_what_is_there) {
    int64_t lengths[] = {1, 0}, places[] = {0, 8};
    const wh_type *types[] = {basic(WH_TYPE_INT), basic(WH_TYPE_DOUBLE_INT)};
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, places, types, &type), WH_OK);
    CHECK(wh_reduce_defined(WH_REDUCE_BAND, type));
    CHECK(!wh_reduce_defined(WH_REDUCE_MINLOC, type));
    wh_type_release(type);
}

static wh_type *pieces(int64_t n, int64_t repeats, int64_t count) {
    int64_t lengths[8], places[8];
    wh_type *list, *all;
    for (int64_t i = 0; i < n * repeats; i++) {
        lengths[i] = 1 + i % n;
        places[i] = i / n * 24 + i % n * 8;
    }
    CHECK_EQ_INT(wh_type_create_hindexed(n * repeats, lengths, places, basic(WH_TYPE_BYTE), &list),
                 WH_OK);
    CHECK_EQ_INT(wh_type_create_hvector(count, 1, 24 * repeats, list, &all), WH_OK);
    wh_type_release(list);
    return all;
}

// Two descriptions of the same bytes that share no form: compared as far as is reasonable.
TEST(equality_gives_up) {
    const int64_t many = (int64_t)1 << 40;
    wh_type *one = pieces(2, 1, 2 * many), *two = pieces(2, 2, many), *other, *inner, *outer;
    bool equal = false;
    CHECK_EQ_INT(wh_type_equal(one, two, &equal), WH_ELIMIT);
    CHECK(strstr(wh_type_error(), "wh_type_equal") != NULL);
    // Made in the same way, or with loops in common, they need no walk.
    other = pieces(2, 1, 2 * many);
    CHECK_EQ_INT(wh_type_equal(one, other, &equal), WH_OK);
    CHECK(equal);
    wh_type_release(other);
    other = pieces(2, 2, 1000);
    inner = pieces(2, 1, 2000);
    wh_type *far_inner, *far_other;
    CHECK_EQ_INT(wh_type_create_hvector(many, 1, 100000, inner, &far_inner), WH_OK);
    CHECK_EQ_INT(wh_type_create_hvector(many, 1, 100000, other, &far_other), WH_OK);
    CHECK_EQ_INT(wh_type_equal(far_inner, far_other, &equal), WH_OK);
    CHECK(equal);
    CHECK_EQ_INT(wh_type_create_hvector(many, 1, 100001, other, &outer), WH_OK);
    CHECK_EQ_INT(wh_type_equal(far_inner, outer, &equal), WH_OK);
    CHECK(!equal);
    wh_type *all[] = {one, two, other, inner, far_inner, far_other, outer};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        wh_type_release(all[i]);
}

// Blocks of many elements with holes make no table that is out of proportion to their number.
TEST(few_long_blocks_stay_loops) {
    int64_t lengths[] = {500, 499}, places[] = {0, 100000};
    wh_type *hole, *type;
    const whi_plan *plan;
    CHECK_EQ_INT(wh_type_create_resized(basic(WH_TYPE_INT), 0, 12, &hole), WH_OK);
    CHECK_EQ_INT(wh_type_create_hindexed(2, lengths, places, hole, &type), WH_OK);
    CHECK_EQ_INT(whi_plan_get(type, WHI_BYTES, &plan), WH_OK);
    CHECK(plan->normal.leaf.n <= 2);
    wh_type_release(type);
    wh_type_release(hole);
}

// As many dimensions as the bytes hold, dealt out by the first.
TEST(dimensions_without_end) {
    enum { DIMS = 200000 };
    static int64_t sizes[DIMS], distribs[DIMS], dargs[DIMS], procs[DIMS];
    for (int i = 0; i < DIMS; i++) {
        sizes[i] = procs[i] = 1;
        distribs[i] = WH_DIST_BLOCK;
        dargs[i] = WH_DIST_DEFAULT;
    }
    procs[0] = 5;
    sizes[0] = 10;
    sizes[DIMS - 1] = 3;
    for (int order = WH_ORDER_C; order <= WH_ORDER_FORTRAN; order++) {
        wh_type *type;
        wh_type_info info = {.size = sizeof(info)};
        CHECK_EQ_INT(wh_type_create_darray(5, 3, DIMS, sizes, distribs, dargs, procs,
                                           (wh_order)order, basic(WH_TYPE_INT), &type),
                     WH_OK);
        CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
        CHECK_EQ_INT(info.packed_size, 2 * 3 * 4);
        CHECK_EQ_INT(info.true_lb, order == WH_ORDER_C ? 6 * 3 * 4 : 6 * 4);
        wh_type_release(type);
    }
}

// The example of a stranger's: 34 bytes, 10^15 elements.
TEST(thirty_four_bytes) {
    int64_t lengths[] = {1, 1}, places[] = {0, 7}, n;
    wh_type *type, *outer;
    const wh_type *types[] = {basic(WH_TYPE_SHORT), basic(WH_TYPE_INT)};
    unsigned char flat[FLAT];
    size_t size;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, places, types, &type), WH_OK);
    for (int64_t i = 0, step = 64; i < 3; i++, step *= 200000) {
        CHECK_EQ_INT(wh_type_create_hvector(100000, 1, step, type, &outer), WH_OK);
        wh_type_release(type);
        type = outer;
    }
    CHECK_EQ_INT(wh_type_flatten(type, flat, sizeof(flat), &size), WH_OK);
    CHECK(size < 64);
    CHECK_EQ_INT(wh_external_size(1, type), (int64_t)6000000000000000);
    CHECK_EQ_INT(wh_type_get_elements(type, wh_type_size(type) - 4, &n), WH_OK);
    CHECK_EQ_INT(n, 1999999999999999);
    wh_type_release(type);
}

TEST_MAIN()
