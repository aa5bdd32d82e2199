// SPDX-License-Identifier: BSD-3-Clause
//
// Bounds as the MPI standard defines them: what markers, padding, and entries that are not there do.
#include <wherry/type.h>

#include "type/type.h"

#include "base/test.h"

static const wh_type *basic(wh_type_id id) {
    return wh_type_basic(id);
}

// The type that a constructor makes into `made`.
#define MAKE(call)                                                                                 \
    ({                                                                                             \
        wh_type *made = NULL;                                                                      \
        CHECK_EQ_INT(call, WH_OK);                                                                 \
        made;                                                                                      \
    })

// Checks the bounds of a type and releases it.
static void bounds(wh_type *type, int64_t lb, int64_t extent) {
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    CHECK_EQ_INT(info.lb, lb);
    CHECK_EQ_INT(info.extent, extent);
    wh_type_release(type);
}

static int64_t align_of(const wh_type *type) {
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    return info.align;
}

static wh_type *structure(int64_t n, const int64_t *lengths, const int64_t *displacements,
                          const wh_type *const *types) {
    return MAKE(wh_type_create_struct(n, lengths, displacements, types, &made));
}

static wh_type *resized(const wh_type *old, int64_t lb, int64_t extent) {
    return MAKE(wh_type_create_resized(old, lb, extent, &made));
}

TEST(members_that_are_not_there_do_not_count) {
    int64_t lengths[] = {1, 1, 0}, displacements[] = {0, 2, 8}, all[] = {1, 1, 1};
    const wh_type *types[] = {basic(WH_TYPE_CHAR), basic(WH_TYPE_SHORT), basic(WH_TYPE_DOUBLE)};
    wh_type *type = structure(3, lengths, displacements, types);
    CHECK_EQ_INT(align_of(type), 2);
    bounds(type, 0, 4);
    // A copy of a type that holds nothing is no entry either, however far away it is.
    wh_type *nothing = MAKE(wh_type_create_contig(0, basic(WH_TYPE_DOUBLE), &made));
    types[2] = nothing;
    displacements[2] = INT64_MAX;
    type = structure(3, all, displacements, types);
    CHECK_EQ_INT(align_of(type), 2);
    bounds(type, 0, 4);
    bounds(MAKE(wh_type_create_hvector(5, 1, 100, nothing, &made)), 0, 0);
    wh_type_release(nothing);
}

TEST(markers_without_data_count) {
    int64_t lengths[] = {1, 1}, displacements[] = {10, 0};
    wh_type *nothing = MAKE(wh_type_create_contig(0, basic(WH_TYPE_INT), &made));
    wh_type *space = resized(nothing, -8, 20);
    const wh_type *types[] = {space, basic(WH_TYPE_CHAR)};
    bounds(structure(2, lengths, displacements, types), 2, 20);
    bounds(MAKE(wh_type_create_contig(10, space, &made)), -8, 200);
    wh_type_release(space);
    wh_type_release(nothing);
}

TEST(markers_alone_decide_where_there_are_any) {
    int64_t lengths[] = {1, 1}, displacements[] = {0, 8}, below[] = {0, -40};
    wh_type *d = resized(basic(WH_TYPE_DOUBLE), 0, 8);
    const wh_type *types[] = {d, basic(WH_TYPE_CHAR)};
    wh_type *both = structure(2, lengths, displacements, types);
    bounds(wh_type_retain(both), 0, 8);
    // They go on to whatever is made of it, and so does what lies outside of them.
    bounds(MAKE(wh_type_create_contig(3, both, &made)), 0, 24);
    bounds(structure(2, lengths, below, types), 0, 8);
    wh_type_release(both);
    wh_type_release(d);
    // The standard's own example.
    wh_type *i = resized(basic(WH_TYPE_INT), -3, 9);
    bounds(MAKE(wh_type_create_contig(2, i, &made)), -3, 18);
    // New ones take the place of the old ones.
    bounds(resized(i, 1, 2), 1, 2);
    wh_type_release(i);
}

TEST(subarray_and_darray_set_markers) {
    int64_t size[] = {3}, part[] = {2}, start[] = {1}, lengths[] = {1, 1}, displacements[] = {0, 3};
    wh_type *sub =
        MAKE(wh_type_create_subarray(1, size, part, start, WH_ORDER_C, basic(WH_TYPE_CHAR), &made));
    const wh_type *types[] = {sub, basic(WH_TYPE_INT)};
    bounds(structure(2, lengths, displacements, types), 0, 3);
    wh_type_release(sub);
}

TEST(every_kind_is_padded) {
    int64_t lengths[] = {1, 1}, displacements[] = {0, 3}, shape[] = {2}, strides[] = {3};
    const wh_type *i = basic(WH_TYPE_INT), *c = basic(WH_TYPE_CHAR);
    bounds(MAKE(wh_type_create_hvector(2, 1, 3, i, &made)), 0, 8);
    bounds(MAKE(wh_type_create_hindexed(2, lengths, displacements, i, &made)), 0, 8);
    bounds(MAKE(wh_type_create_hindexed_block(2, 1, displacements, i, &made)), 0, 8);
    bounds(MAKE(wh_type_create_strided(1, shape, strides, i, &made)), 0, 8);
    bounds(MAKE(wh_type_create_hvector(2, 1, -3, i, &made)), -3, 8);
    bounds(MAKE(wh_type_create_hvector(2, 1, 3, c, &made)), 0, 4);
    const wh_type *types[] = {i, c};
    int64_t places[] = {0, 4};
    wh_type *inner = structure(2, lengths, places, types);
    bounds(wh_type_retain(inner), 0, 8);
    // Padding inside stays where copies are cut short by the next one.
    bounds(MAKE(wh_type_create_hindexed_block(2, 1, displacements, inner, &made)), 0, 12);
    wh_type_release(inner);
}

TEST_MAIN()
