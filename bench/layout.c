// SPDX-License-Identifier: BSD-3-Clause
//
// See layout.h.
#include "bench/layout.h"

#include <stdio.h>
#include <string.h>

enum { STRIDE_MAX = 1 << 20 };
#define SPAN_MAX (UINT64_C(16) << 30)

static const struct {
    const char *name;
    uint32_t block, stride;
} known[] = {
#define LAYOUT_ROW(symbol, name, block, stride) {name, block, stride},
    BENCH_LAYOUTS(LAYOUT_ROW)
#undef LAYOUT_ROW
};

static bool find(const char *name, bench_layout *layout) {
    for (int i = 0; i < BENCH_LAYOUT_KINDS; i++) {
        if (strcmp(known[i].name, name) == 0) {
            *layout = (bench_layout){(bench_layout_kind)i, known[i].block, known[i].stride};
            return true;
        }
    }
    return false;
}

bool bench_layout_parse(const char *text, bench_layout *layout) {
    char name[16];
    unsigned block = 0, stride = 0;
    bench_layout made;
    int ends[3];  // of what was read
    int found =
        sscanf(text, "%15[a-z]%n:%7u%n:%7u%n", name, &ends[0], &block, &ends[1], &stride, &ends[2]);
    bool strange = text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789:")] != '\0';
    if (found < 1 || strange || text[ends[found - 1]] != '\0' || !find(name, &made))
        return false;
    if ((found > 1 && !made.block) || (found > 2 && !made.stride))
        return false;
    if (found > 1) {
        stride = found > 2 ? stride : 2 * block;
        if (block == 0 || block > STRIDE_MAX || stride > STRIDE_MAX || stride < block)
            return false;
        made.block = block;
        made.stride = made.stride ? stride : 0;
    }
    *layout = made;
    return true;
}

char *bench_layout_format(const bench_layout *layout, char *text, size_t size) {
    const char *name = known[layout->kind].name;
    if (layout->stride)
        snprintf(text, size, "%s:%u:%u", name, layout->block, layout->stride);
    else if (layout->block)
        snprintf(text, size, "%s:%u", name, layout->block);
    else
        snprintf(text, size, "%s", name);
    return text;
}

static uint64_t block_of(const bench_layout *layout) {
    return layout->kind == BENCH_STRUCT ? BENCH_STRUCT_SIZE : layout->block;
}

bool bench_layout_fits(const bench_layout *layout, uint64_t size) {
    if (layout->kind == BENCH_DENSE)
        return true;
    return size > 0 && size <= SPAN_MAX && size % block_of(layout) == 0 &&
           size / block_of(layout) * (layout->stride ? layout->stride : 1) <= SPAN_MAX;
}

// The largest power of two that divides `n`, and is not above its root: both sides of a grid.
static int64_t inner_of(int64_t n) {
    int64_t inner = 1;
    while (n % (2 * inner) == 0 && 4 * inner * inner <= n)
        inner *= 2;
    return inner;
}

bench_shape bench_layout_shape(const bench_layout *layout, uint64_t size) {
    bench_shape shape = {.word = 8, .span = size};
    if (layout->kind == BENCH_DENSE)
        return shape;
    shape.blocks = (int64_t)(size / block_of(layout));
    shape.inner = inner_of(shape.blocks);
    shape.outer = shape.blocks / shape.inner;
    while ((layout->block | layout->stride) % shape.word)
        shape.word /= 2;
    shape.block = layout->block / shape.word;
    shape.stride = layout->stride / shape.word;
    if (layout->kind == BENCH_STRUCT)
        shape.span = (uint64_t)shape.blocks * BENCH_STRUCT_EXTENT;
    else if (layout->kind == BENCH_SUBARRAY)  // each plane has a row before and one behind
        shape.span = (uint64_t)(shape.outer * (shape.inner + 2)) * layout->stride;
    else if (layout->stride)
        shape.span = (uint64_t)shape.blocks * layout->stride;
    return shape;
}

int64_t bench_layout_place(const bench_shape *shape, int64_t i) {
    uint64_t random = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
    return i * shape->stride +
           (int64_t)((random >> 32) % (uint64_t)(shape->stride - shape->block + 1));
}
