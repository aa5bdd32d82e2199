// SPDX-License-Identifier: BSD-3-Clause
//
// Handles, arguments and their errors, contents, ownership, and memory that runs out.
#include <sys/mman.h>

#include <wherry/pack.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "type/plan.h"
#include "type/type.h"

#include "base/test.h"

static const wh_type *basic(wh_type_id id) {
    return wh_type_basic(id);
}

// The call fails with this status, leaves its output alone, and the sentence has the argument's name.
#define FAILS(status, name, call)                                                                  \
    do {                                                                                           \
        wh_type *type = NULL;                                                                      \
        CHECK_EQ_INT(call, status);                                                                \
        CHECK(type == NULL);                                                                       \
        if (!strstr(wh_type_error(), name))                                                        \
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "\"%s\" lacks \"%s\"",               \
                         wh_type_error(), name);                                                   \
    } while (0)

TEST(basic_types) {
    CHECK(wh_type_basic((wh_type_id)-1) == NULL);
    CHECK(wh_type_basic(WH_TYPE_IDS) == NULL);
    CHECK_EQ_INT(wh_type_size(basic(WH_TYPE_INT)), sizeof(int));
    CHECK_EQ_INT(wh_type_size(basic(WH_TYPE_LONG_DOUBLE)), sizeof(long double));
    CHECK_EQ_INT(wh_type_size(basic(WH_TYPE_SHORT_INT)), 6);
    CHECK_EQ_INT(wh_type_size(basic(WH_TYPE_FLOAT8_E5M2)), 1);
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(basic(WH_TYPE_SHORT_INT), &info), WH_OK);
    CHECK_EQ_INT(info.extent, 8);
    CHECK_EQ_INT(info.true_extent, 8);
    CHECK_EQ_INT(info.basics, 2);
    CHECK_EQ_INT(info.runs, 2);
    CHECK_EQ_INT(wh_type_get_info(basic(WH_TYPE_DOUBLE_INT), &info), WH_OK);
    CHECK_EQ_INT(info.packed_size, 12);
    CHECK_EQ_INT(info.extent, 16);
    CHECK_EQ_INT(info.runs, 1);
    CHECK_EQ_INT(info.align, 8);
    for (int id = 0; id < WH_TYPE_IDS; id++) {
        wh_type *same = wh_type_retain(whi_type_mutable(basic((wh_type_id)id)));
        CHECK(same == basic((wh_type_id)id));
        wh_type_release(same);
        CHECK(whi_basics[id].name && whi_basics[id].size && whi_basics[id].ext32);
    }
}

TEST(errors_name_the_argument) {
    const wh_type *d = basic(WH_TYPE_DOUBLE);
    int64_t one[] = {1}, bad[] = {-1}, zero[] = {0}, two[] = {2}, three[] = {3};
    FAILS(WH_EINVAL, "count", wh_type_create_contig(-1, d, &type));
    FAILS(WH_EINVAL, "old", wh_type_create_contig(1, NULL, &type));
    FAILS(WH_EINVAL, "blocklength", wh_type_create_vector(1, -2, 1, d, &type));
    FAILS(WH_EINVAL, "blocklengths is NULL", wh_type_create_indexed(1, NULL, one, d, &type));
    FAILS(WH_EINVAL, "displacements is NULL", wh_type_create_hindexed(1, one, NULL, d, &type));
    FAILS(WH_EINVAL, "blocklengths[0] is -1", wh_type_create_indexed(1, bad, one, d, &type));
    FAILS(WH_EINVAL, "count", wh_type_create_hindexed_block(-4, 1, one, d, &type));
    FAILS(WH_EINVAL, "types is NULL", wh_type_create_struct(1, one, one, NULL, &type));
    const wh_type *none[] = {NULL};
    FAILS(WH_EINVAL, "types[0]", wh_type_create_struct(1, one, one, none, &type));
    FAILS(WH_EINVAL, "ndims", wh_type_create_subarray(-1, one, one, one, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "subsizes[0] is 2",
          wh_type_create_subarray(1, one, two, zero, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "starts[0] is 1",
          wh_type_create_subarray(1, two, two, one, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "order", wh_type_create_subarray(1, two, one, one, (wh_order)7, d, &type));
    FAILS(WH_EINVAL, "shape[0]", wh_type_create_strided(1, bad, one, d, &type));
    FAILS(WH_EINVAL, "rank",
          wh_type_create_darray(2, 2, 1, two, one, one, two, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "size",
          wh_type_create_darray(3, 0, 1, two, one, one, two, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "distribs",
          wh_type_create_darray(1, 0, 1, two, three, one, one, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "dargs",
          wh_type_create_darray(1, 0, 1, two, one, one, one, WH_ORDER_C, d, &type));
    FAILS(WH_EINVAL, "spans more than 2^61", wh_type_create_contig(INT64_MAX, d, &type));
    FAILS(WH_EINVAL, "spans more than 2^61", wh_type_create_hvector(2, 1, INT64_MAX, d, &type));
    FAILS(WH_EINVAL, "spans more than 2^61",
          wh_type_create_resized(d, INT64_MIN, INT64_MAX, &type));
    // One element again and again, which spans no more than itself.
    const int64_t often[] = {INT64_MAX}, many[] = {INT64_C(1) << 58}, places[] = {0, 0};
    wh_type *again = NULL;
    FAILS(WH_EINVAL, "packs into more than 2^61", wh_type_create_strided(1, often, zero, d, &type));
    CHECK_EQ_INT(wh_type_create_strided(1, many, zero, d, &again), WH_OK);
    FAILS(WH_EINVAL, "packs into more than 2^61",
          wh_type_create_indexed_block(2, 1, places, again, &type));
    wh_type_release(again);
    CHECK_EQ_INT(wh_type_create_contig(1, d, NULL), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "type is NULL") != NULL);
}

TEST(errors_of_pack) {
    char memory[8] = {0}, packed[8];
    size_t actual = 99;
    const wh_type *d = basic(WH_TYPE_DOUBLE);
    struct {
        const char *name;
        wh_status got;
    } calls[] = {
        {"type", wh_pack(memory, 1, NULL, 0, packed, 8, 0, &actual)},
        {"count", wh_pack(memory, -1, d, 0, packed, 8, 0, &actual)},
        {"count", wh_pack(memory, INT64_MAX, d, 0, packed, 8, 0, &actual)},
        {"buf", wh_pack(NULL, 1, d, 0, packed, 8, 0, &actual)},
        {"offset", wh_pack(memory, 1, d, 9, packed, 8, 0, &actual)},
        {"flags", wh_pack(memory, 1, d, 0, packed, 8, 4, &actual)},
        {"packed", wh_pack(memory, 1, d, 0, NULL, 8, 0, &actual)},
        {"actual", wh_pack(memory, 1, d, 0, packed, 8, 0, NULL)},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        CHECK_EQ_INT(calls[i].got, WH_EINVAL);
    CHECK_EQ_INT(wh_unpack(packed, 8, memory, 1, d, 9, 0, &actual), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "wh_unpack: offset") != NULL);
    CHECK_EQ_INT(actual, 99);
    // Nothing to move is no mistake.
    CHECK_EQ_INT(wh_pack(NULL, 0, d, 0, NULL, 0, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, 0);
}

TEST(a_released_handle_is_noticed) {
    wh_type fake;
    memset(&fake, 0, sizeof(fake));
    CHECK_EQ_INT(wh_type_size(&fake), -1);
    CHECK(strstr(wh_type_error(), "released") != NULL);
    CHECK_EQ_INT(wh_type_size(NULL), -1);
    CHECK_EQ_INT(wh_type_commit(NULL), WH_EINVAL);
}

TEST(contents_are_the_arguments) {
    int64_t lengths[] = {1, 2}, displacements[] = {0, 16};
    const wh_type *types[] = {basic(WH_TYPE_INT), basic(WH_TYPE_DOUBLE)}, *children[2];
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, displacements, types, &type), WH_OK);
    wh_type_kind kind;
    size_t nargs, nchildren;
    int64_t args[5] = {0};
    CHECK_EQ_INT(wh_type_get_envelope(type, &kind, &nargs, &nchildren), WH_OK);
    CHECK_EQ_INT(kind, WH_KIND_STRUCT);
    CHECK_EQ_INT(nargs, 5);
    CHECK_EQ_INT(nchildren, 2);
    CHECK_EQ_INT(wh_type_get_contents(type, 4, args, 2, children), WH_EINVAL);
    CHECK_EQ_INT(wh_type_get_contents(type, 5, args, 2, children), WH_OK);
    int64_t expected[] = {2, 1, 2, 0, 16};
    CHECK_MEM(args, expected, sizeof(expected));
    CHECK(children[0] == types[0] && children[1] == types[1]);
    wh_type_release(type);
}

TEST(children_outlive_their_handles) {
    wh_type *vector, *twice;
    CHECK_EQ_INT(wh_type_create_vector(3, 1, 2, basic(WH_TYPE_INT), &vector), WH_OK);
    CHECK_EQ_INT(wh_type_create_contig(2, vector, &twice), WH_OK);
    wh_type_release(vector);
    int32_t memory[12], packed[6], expected[] = {0, 2, 4, 5, 7, 9};
    size_t actual;
    for (int i = 0; i < 12; i++)
        memory[i] = i;
    CHECK_EQ_INT(wh_pack(memory, 1, twice, 0, packed, sizeof(packed), 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, sizeof(expected));
    CHECK_MEM(packed, expected, sizeof(expected));
    wh_type_release(twice);
}

TEST(a_type_can_nest_a_hundred_levels) {
    wh_type *type = whi_type_mutable(basic(WH_TYPE_BYTE)), *outer;
    for (int i = 0; i < WHI_TYPE_DEPTH; i++) {
        // Two copies with a gap, so that no level vanishes in the normal form.
        CHECK_EQ_INT(wh_type_create_resized(type, 0, i % 2 + 1, &outer), WH_OK);
        wh_type_release(type);
        type = outer;
    }
    CHECK_EQ_INT(wh_type_dup(type, &outer), WH_ELIMIT);
    CHECK_EQ_INT(wh_type_commit(type), WH_OK);
    wh_type_release(type);
}

// More loops than one layout holds.
TEST(many_dimensions) {
    enum { DIMS = 30 };
    int64_t sizes[DIMS], subsizes[DIMS], starts[DIMS];
    for (int i = 0; i < DIMS; i++) {
        bool wide = i % 2 == 0;
        sizes[i] = wide ? 2 : 1;
        subsizes[i] = 1;
        starts[i] = 0;
    }
    sizes[DIMS - 1] = 3;
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_subarray(DIMS, sizes, subsizes, starts, WH_ORDER_C,
                                         basic(WH_TYPE_BYTE), &type),
                 WH_OK);
    wh_type_release(type);
    int64_t shape[DIMS], strides[DIMS], len;
    for (int i = 0; i < DIMS; i++) {
        shape[i] = 2;
        strides[i] = (int64_t)1 << (DIMS - i + i % 2);
    }
    CHECK_EQ_INT(wh_type_create_strided(16, shape, strides, basic(WH_TYPE_BYTE), &type), WH_OK);
    CHECK_EQ_INT(wh_iov_len(1, type, &len), WH_OK);
    CHECK_EQ_INT(len, 1 << 16);
    wh_type_release(type);
}

// Five ways to say the same column of a matrix give one normal form.
TEST(one_normal_form) {
    enum { N = 16 };
    wh_type *types[5], *column;
    const wh_type *d = basic(WH_TYPE_DOUBLE);
    int64_t sizes[] = {N, N}, subsizes[] = {N, 1}, starts[] = {0, 0}, displacements[N];
    for (int i = 0; i < N; i++)
        displacements[i] = i * N;
    CHECK_EQ_INT(wh_type_create_vector(N, 1, N, d, &types[0]), WH_OK);
    CHECK_EQ_INT(wh_type_create_hvector(N, 1, N * 8, d, &types[1]), WH_OK);
    CHECK_EQ_INT(wh_type_create_subarray(2, sizes, subsizes, starts, WH_ORDER_C, d, &types[2]),
                 WH_OK);
    CHECK_EQ_INT(wh_type_create_indexed_block(N, 1, displacements, d, &types[3]), WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(d, 0, N * 8, &column), WH_OK);
    CHECK_EQ_INT(wh_type_create_contig(N, column, &types[4]), WH_OK);
    wh_type_release(column);
    for (int i = 0; i < 5; i++) {
        const whi_plan *plan;
        CHECK_EQ_INT(whi_plan_get(types[i], WHI_BYTES, &plan), WH_OK);
        CHECK_EQ_INT(plan->normal.ndims, 1);
        CHECK_EQ_INT(plan->normal.leaf.kind, WHI_RUN);
        CHECK_EQ_INT(plan->normal.leaf.size, 8);
        CHECK_EQ_INT(plan->normal.dim[0].count, N);
        CHECK_EQ_INT(plan->normal.dim[0].stride, N * 8);
        wh_type_release(types[i]);
    }
}

// Counts, displacements and packed bytes beyond 32 bits, without the memory for them.
TEST(large_counts) {
    wh_type *type;
    int64_t len, elements, bytes;
    const int64_t many = (int64_t)1 << 40;
    CHECK_EQ_INT(wh_type_create_vector(many, 1, 2, basic(WH_TYPE_DOUBLE), &type), WH_OK);
    CHECK_EQ_INT(wh_type_size(type), many * 8);
    CHECK_EQ_INT(wh_iov_len(3, type, &len), WH_OK);
    CHECK_EQ_INT(len, 3 * many - 2);  // the last block of a vector adjoins the next vector's first
    CHECK_EQ_INT(wh_type_get_elements(type, 8 * (many - 1), &elements), WH_OK);
    CHECK_EQ_INT(elements, many - 1);
    struct iovec iov[2];
    char *origin = (char *)(uintptr_t)4096;
    CHECK_EQ_INT(wh_iov(origin, 1, type, many - 1, iov, 2, &len), WH_OK);
    CHECK_EQ_INT(len, 1);
    CHECK(iov[0].iov_base == origin + 16 * (many - 1));
    CHECK_EQ_INT(wh_iov_len_max(1, type, 8 * (many / 2) + 5, &len, &bytes), WH_OK);
    CHECK_EQ_INT(len, many / 2);
    CHECK_EQ_INT(bytes, 8 * (many / 2));
    wh_type_release(type);
}

// Beyond 2^31 elements with real data: a zero stride reads one byte again and again.
TEST(more_than_2_31_elements) {
    wh_type *type;
    const int64_t many = ((int64_t)1 << 31) + 9;
    char one = 'w', packed[64];
    size_t actual;
    CHECK_EQ_INT(wh_type_create_hvector(many, 1, 0, basic(WH_TYPE_CHAR), &type), WH_OK);
    CHECK_EQ_INT(wh_pack(&one, 1, type, (size_t)many - 40, packed, sizeof(packed), 0, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, 40);
    for (int i = 0; i < 40; i++)
        CHECK(packed[i] == 'w');
    wh_type_release(type);
}

// A count beyond 2^31 in an address range that is mostly never touched.
TEST(counts_beyond_2_31) {
    const int64_t many = ((int64_t)1 << 31) + 77;
    const size_t span = (size_t)many * 3;
    wh_type *type;
    char packed[200];
    size_t actual;
    char *memory = mmap(NULL, span, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        SKIP("no address range of 6 GiB");
    CHECK_EQ_INT(wh_type_create_resized(basic(WH_TYPE_CHAR), 0, 3, &type), WH_OK);
    for (int64_t i = many - 100; i < many; i++)
        memory[i * 3] = (char)(i % 100);
    CHECK_EQ_INT(
        wh_pack(memory, many, type, (size_t)many - 100, packed, sizeof(packed), 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, 100);
    for (int64_t i = 0; i < 100; i++)
        CHECK_EQ_INT(packed[i], (many - 100 + i) % 100);
    memset(memory + (many - 100) * 3, 0, 298);
    CHECK_EQ_INT(wh_unpack(packed, 100, memory, many, type, (size_t)many - 100, 0, &actual), WH_OK);
    for (int64_t i = many - 100; i < many; i++)
        CHECK(memory[i * 3] == i % 100 && (i == many - 1 || memory[i * 3 + 1] == 0));
    wh_type_release(type);
    CHECK_EQ_INT(munmap(memory, span), 0);
}

TEST(elements_of_a_cut_packed) {
    int64_t lengths[] = {1, 2}, displacements[] = {0, 8}, n;
    const wh_type *types[] = {basic(WH_TYPE_INT), basic(WH_TYPE_DOUBLE_INT)};
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, displacements, types, &type), WH_OK);
    CHECK_EQ_INT(wh_type_size(type), 28);
    int64_t good[][2] = {{0, 0}, {4, 1}, {12, 2}, {16, 3}, {24, 4}, {28, 5}, {60, 11}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        CHECK_EQ_INT(wh_type_get_elements(type, good[i][0], &n), WH_OK);
        CHECK_EQ_INT(n, good[i][1]);
    }
    CHECK_EQ_INT(wh_type_get_elements(type, 5, &n), WH_EINVAL);
    CHECK_EQ_INT(wh_type_get_elements(type, 30, &n), WH_EINVAL);
    wh_type_release(type);
}

TEST(borders_keep_elements_whole) {
    int64_t lengths[] = {1, 2}, displacements[] = {0, 8}, border, n;
    const wh_type *types[] = {basic(WH_TYPE_INT), basic(WH_TYPE_DOUBLE_INT)};
    wh_type *type, *nothing;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, displacements, types, &type), WH_OK);
    // Elements end at 4, 16 and 28: a pair is not cut between its value and its index.
    int64_t good[][3] = {{0, 0, 0},   {3, 0, 0},   {4, 4, 1},   {12, 4, 1},  {15, 4, 1},
                         {16, 16, 3}, {27, 16, 3}, {28, 28, 5}, {31, 28, 5}, {60, 60, 11}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        CHECK_EQ_INT(wh_type_get_border(type, good[i][0], &border, &n), WH_OK);
        CHECK_EQ_INT(border, good[i][1]);
        CHECK_EQ_INT(n, good[i][2]);
    }
    CHECK_EQ_INT(wh_type_get_border(type, 31, &border, NULL), WH_OK);
    CHECK_EQ_INT(border, 28);
    CHECK_EQ_INT(wh_type_get_border(type, -1, &border, &n), WH_EINVAL);
    CHECK_EQ_INT(wh_type_get_border(type, 1, NULL, &n), WH_EINVAL);
    CHECK_EQ_INT(wh_type_get_border(NULL, 1, &border, &n), WH_EINVAL);
    // A member of several elements in front counts with all of them.
    wh_type *led;
    lengths[0] = 3;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, displacements, types, &led), WH_OK);
    CHECK_EQ_INT(wh_type_get_border(led, 25, &border, &n), WH_OK);
    CHECK(border == 24 && n == 5);
    wh_type_release(led);
    CHECK_EQ_INT(wh_type_create_contig(0, type, &nothing), WH_OK);
    CHECK_EQ_INT(wh_type_get_border(nothing, 0, &border, &n), WH_OK);
    CHECK_EQ_INT(border, 0);
    CHECK_EQ_INT(wh_type_get_border(nothing, 1, &border, &n), WH_EINVAL);
    wh_type_release(nothing);
    wh_type_release(type);
}

TEST(signatures_go_by_type_class_and_width) {
    uint64_t a, b;
    int64_t n;
    CHECK_EQ_INT(wh_type_signature(basic(WH_TYPE_INT), 4, &a, &n), WH_OK);
    CHECK_EQ_INT(wh_type_signature(basic(WH_TYPE_INT32), 4, &b, &n), WH_OK);
    CHECK(a == b);
    CHECK_EQ_INT(wh_type_signature(basic(WH_TYPE_UINT32), 4, &b, &n), WH_OK);
    CHECK(a != b);
    CHECK_EQ_INT(wh_type_signature(basic(WH_TYPE_FLOAT), 4, &b, &n), WH_OK);
    CHECK(a != b);
    CHECK_EQ_INT(wh_type_signature(basic(WH_TYPE_INT), 5, &b, &n), WH_OK);
    CHECK(a != b);
    CHECK_EQ_INT(n, 5);
}

// Everything that allocates, with each allocation failing in turn.
static wh_status everything(void) {
    wh_type *vector = NULL, *list = NULL, *all = NULL, *copy = NULL;
    int64_t lengths[] = {2, 1, 3}, displacements[] = {0, 5, 9}, elements;
    unsigned char flat[400];
    size_t size;
    wh_status status = wh_type_create_vector(50, 1, 3, basic(WH_TYPE_SHORT_INT), &vector);
    if (status == WH_OK)
        status = wh_type_create_indexed(3, lengths, displacements, vector, &list);
    if (status == WH_OK)
        status = wh_type_create_struct(2, lengths, displacements + 1,
                                       (const wh_type *const[]){list, vector}, &all);
    if (status == WH_OK)
        status = wh_type_commit(all);
    if (status == WH_OK)
        status = wh_type_get_elements(all, 12, &elements);
    if (status == WH_OK)
        status = wh_type_flatten(all, flat, sizeof(flat), &size);
    if (status == WH_OK)
        status = wh_type_unflatten(flat, size, NULL, &copy);
    wh_type_release(copy);
    wh_type_release(all);
    wh_type_release(list);
    wh_type_release(vector);
    return status;
}

TEST(memory_runs_out) {
    for (uint64_t n = 1;; n++) {
        whi_alloc_fail_at(n);
        wh_status status = everything();
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        if (!reached) {
            CHECK_EQ_INT(status, WH_OK);
            CHECK(n > 10);
            break;
        }
        CHECK_EQ_INT(status, WH_ENOMEM);
    }
}

TEST(a_committed_type_packs_without_allocating) {
    wh_type *type;
    char memory[400] = {0}, packed[200];
    size_t actual;
    CHECK_EQ_INT(wh_type_create_vector(20, 1, 2, basic(WH_TYPE_DOUBLE), &type), WH_OK);
    CHECK_EQ_INT(wh_type_commit(type), WH_OK);
    whi_alloc_fail_at(UINT64_MAX);
    CHECK_EQ_INT(wh_pack(memory, 1, type, 3, packed, 100, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_unpack(packed, 100, memory, 1, type, 3, 0, &actual), WH_OK);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    whi_alloc_fail_at(0);
    wh_type_release(type);
}

// Types are immutable: threads that make its plan at the same time agree on one.
static void *use(void *arg) {
    double memory[64], packed[32];
    size_t actual;
    memset(memory, 0, sizeof(memory));
    wh_type *type = wh_type_retain(arg);
    wh_status status = wh_pack(memory, 1, type, 0, packed, sizeof(packed), 0, &actual);
    wh_type_release(type);
    return status == WH_OK && actual == sizeof(packed) ? arg : NULL;
}

TEST(threads_share_a_type) {
    for (int round = 0; round < 50; round++) {
        enum { THREADS = 4 };
        pthread_t threads[THREADS];
        wh_type *type;
        CHECK_EQ_INT(wh_type_create_vector(32, 1, 2, basic(WH_TYPE_DOUBLE), &type), WH_OK);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, use, type) == 0);
        for (int i = 0; i < THREADS; i++) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0);
            CHECK(result == type);
        }
        wh_type_release(type);
    }
}

TEST_MAIN()
