// SPDX-License-Identifier: BSD-3-Clause
//
// Layouts of the conformance suite, see kit_layout.h.
#include "kit_layout.h"

enum { WORD = KIT_WORD, GUARD = 64 };

wh_type *kit_type(kit_side *me, kit_shape s, int64_t n) {
    const wh_type *word = wh_type_basic(WH_TYPE_DOUBLE);
    const wh_type *two[] = {word, word};
    const int64_t lengths[] = {1, 5, 2}, at[] = {3, 17, 9}, twos[] = {1, 2}, words[] = {0, 24};
    const int64_t sizes[] = {n / 4 + 3, 7}, subsizes[] = {n / 4, 4}, starts[] = {1, 2};
    const int64_t rows[] = {8, n / 8}, strides[] = {WORD, 8 * WORD}, back[] = {-2 * WORD};
    // A long run is a 24th of the message, if that is longer than 24 words.
    const int64_t row = n / 24 > 24 ? n / 24 : 24, third = n / 3;
    const int64_t box[] = {n / row + 3, row + 5}, box_part[] = {n / row, row};
    const int64_t piece_lengths[] = {third, n - third - n / 24, n / 24};
    const int64_t piece_at[] = {n, 3, n + third + 24};
    const int64_t part_lengths[] = {third, n - third}, part_bytes[] = {0, WORD * (n + 24)};
    wh_type *t = NULL;
    wh_status st = WH_OK;
    switch (s) {
    case KIT_VECTOR: st = wh_type_create_vector(n, 1, 3, word, &t); break;
    case KIT_BLOCKS: st = wh_type_create_vector(n / 12, 12, 13, word, &t); break;
    case KIT_SUBARRAY:
        st = wh_type_create_subarray(2, sizes, subsizes, starts, WH_ORDER_C, word, &t);
        break;
    case KIT_INDEXED: st = wh_type_create_indexed(3, lengths, at, word, &t); break;
    case KIT_STRUCT: st = wh_type_create_struct(2, twos, words, two, &t); break;
    case KIT_TRANSPOSED: st = wh_type_create_strided(2, rows, strides, word, &t); break;
    case KIT_REVERSED: st = wh_type_create_strided(1, &n, back, word, &t); break;
    case KIT_SPREAD: st = wh_type_create_resized(word, 0, 2 * WORD, &t); break;
    case KIT_ROWS: st = wh_type_create_vector(n / row, row, 2 * row, word, &t); break;
    case KIT_BOX:
        st = wh_type_create_subarray(2, box, box_part, starts, WH_ORDER_C, word, &t);
        break;
    case KIT_PIECES: st = wh_type_create_indexed(3, piece_lengths, piece_at, word, &t); break;
    case KIT_PARTS: st = wh_type_create_struct(2, part_lengths, part_bytes, two, &t); break;
    default: st = wh_type_create_contig(n, word, &t);
    }
    REQUIRE_STATUS(st, WH_OK);
    return t;
}

static size_t count_of(kit_shape s, size_t n) {
    return s == KIT_INDEXED ? n / 8 : s == KIT_STRUCT ? n / 3 : s == KIT_SPREAD ? n : 1;
}

kit_layout kit_lay_out(kit_side *me, kit_shape s, size_t n, wh_mem_kind kind) {
    kit_layout l = {.kind = kind, .count = count_of(s, n)};
    wh_type_info info = {.size = sizeof(info)};
    l.type = kit_type(me, s, (int64_t)n);
    REQUIRE_STATUS(wh_type_get_info(l.type, &info), WH_OK);
    REQUIRE_INT((size_t)info.packed_size * l.count, n * WORD);
    l.space = (size_t)((int64_t)(l.count - 1) * info.extent + info.true_extent) + 2 * GUARD;
    if (kind == WH_MEM_HOST) {
        l.base = kit_alloc(me, l.space);
    } else {
        void *ptr;
        REQUIRE_STATUS(wh_mem_alloc_kind(kind, 0, l.space, &ptr), WH_OK);
        l.base = ptr;
    }
    char *empty = kit_alloc(me, l.space);
    memset(empty, 0x5a, l.space);
    REQUIRE_STATUS(wh_mem_copy(l.base, kind, empty, WH_MEM_HOST, l.space), WH_OK);
    free(empty);
    l.origin = l.base + GUARD - info.true_lb;
    return l;
}

void kit_layout_drop(kit_side *me, kit_layout *l) {
    if (l->kind == WH_MEM_HOST)
        free(l->base);
    else
        REQUIRE_STATUS(wh_mem_free_kind(l->kind, l->base), WH_OK);
    wh_type_release(l->type);
}

// with_words returns the memory of a layout as it should be when its first `words` words come from a seed.
static char *with_words(kit_side *me, const kit_layout *l, size_t words, uint64_t seed) {
    char *expected = kit_alloc(me, l->space), *packed = kit_alloc(me, words * WORD);
    size_t moved;
    memset(expected, 0x5a, l->space);
    kit_fill(packed, words * WORD, seed);
    REQUIRE_STATUS(wh_unpack(packed, words * WORD, expected + ((char *)l->origin - l->base),
                             (int64_t)l->count, l->type, 0, 0, &moved),
                   WH_OK);
    free(packed);
    return expected;
}

void kit_layout_fill(kit_side *me, kit_layout *l, size_t words, uint64_t seed) {
    char *filled = with_words(me, l, words, seed);
    REQUIRE_STATUS(wh_mem_copy(l->base, l->kind, filled, WH_MEM_HOST, l->space), WH_OK);
    free(filled);
}

void kit_layout_check(kit_side *me, const kit_layout *l, size_t words, uint64_t seed) {
    char *expected = with_words(me, l, words, seed), *is = kit_alloc(me, l->space);
    REQUIRE_STATUS(wh_mem_copy(is, WH_MEM_HOST, l->base, l->kind, l->space), WH_OK);
    REQUIRE(memcmp(is, expected, l->space) == 0);
    free(expected);
    free(is);
}

const wh_op_opts *kit_opts_typed(kit_op *op, const kit_layout *l, uint32_t flags) {
    (void)kit_opts_with(op, flags, 0);
    op->opts.type = l->type;
    return &op->opts;
}
