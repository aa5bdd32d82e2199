// SPDX-License-Identifier: BSD-3-Clause
//
// See buffers.h.
#include "bench/buffers.h"

#include <stdlib.h>
#include <string.h>

#include "bench/layout_type.h"
#include "bench/memory.h"

// At least one page, also for empty messages.
static size_t whole_pages(size_t size) {
    return (size + 4096) & ~(size_t)4095;
}

static void drop(bench_buffers *self) {
    bench_memory_free(self->kind, self->managed, self->out);
    bench_memory_free(self->kind, self->managed, self->in);
    self->out = self->in = NULL;
    self->room = 0;
}

static void drop_packed(bench_buffers *self) {
    free(self->packed_out);
    free(self->packed_in);
    self->packed_out = self->packed_in = NULL;
    self->packed_room = 0;
}

static wh_status reserve(bench_buffers *self, size_t span) {
    if (span <= self->room && self->out)
        return WH_OK;
    drop(self);
    size_t room = whole_pages(span);
    self->out = bench_memory_alloc(self->kind, self->managed, room);
    self->in = bench_memory_alloc(self->kind, self->managed, room);
    if (!self->out || !self->in) {
        drop(self);
        return WH_ENOMEM;
    }
    self->room = room;
    return WH_OK;
}

static wh_status reserve_packed(bench_buffers *self, size_t size) {
    if (size <= self->packed_room)
        return WH_OK;
    drop_packed(self);
    size_t room = whole_pages(size);
    self->packed_out = bench_memory_alloc(WH_MEM_HOST, false, room);
    self->packed_in = bench_memory_alloc(WH_MEM_HOST, false, room);
    if (!self->packed_out || !self->packed_in) {
        drop_packed(self);
        return WH_ENOMEM;
    }
    self->packed_room = room;
    return WH_OK;
}

static bool is_laid_out(const bench_buffers *self, const bench_layout *layout, uint64_t size) {
    return self->size == size && self->layout.kind == layout->kind &&
           self->layout.block == layout->block && self->layout.stride == layout->stride;
}

static wh_status lay_out(bench_buffers *self, const bench_layout *layout, uint64_t size) {
    if (is_laid_out(self, layout, size))
        return WH_OK;
    wh_type_release(self->type);
    self->type = NULL;
    self->size = 0;
    self->layout = *layout;
    self->count = size;
    if (layout->kind != BENCH_DENSE) {
        wh_status status = bench_layout_type(layout, size, &self->type, &self->count);
        if (status != WH_OK)
            return status;
    }
    self->size = size;
    self->span = bench_layout_shape(layout, size).span;
    return WH_OK;
}

wh_status bench_buffers_fit(bench_buffers *self, const bench_layout *layout, uint64_t size,
                            bool packed) {
    if (size > SIZE_MAX - 4096 || !bench_layout_fits(layout, size))
        return WH_ENOMEM;
    wh_status status = lay_out(self, layout, size);
    if (status == WH_OK)
        status = reserve(self, self->span);
    if (status == WH_OK && packed)
        status = reserve_packed(self, size);
    return status;
}

void bench_buffers_free(bench_buffers *self) {
    drop(self);
    drop_packed(self);
    wh_type_release(self->type);
    *self = (bench_buffers){.kind = self->kind};
}

wh_status bench_buffers_pack(bench_buffers *self) {
    size_t packed;
    return wh_pack(self->out, (int64_t)self->count, self->type, 0, self->packed_out, self->size, 0,
                   &packed);
}

wh_status bench_buffers_unpack(bench_buffers *self) {
    size_t packed;
    return wh_unpack(self->packed_in, self->size, self->in, (int64_t)self->count, self->type, 0, 0,
                     &packed);
}

// What stands at a place; never zero.
static char mark_of(size_t place) {
    return (char)(1 + ((uint32_t)place * 2654435761u >> 8) % 255);
}

static char *make_marks(size_t span) {
    char *marks = malloc(span + 1);
    for (size_t i = 0; marks && i < span; i++)
        marks[i] = mark_of(i);
    return marks;
}

wh_status bench_buffers_mark(bench_buffers *self) {
    char *marks = make_marks(self->span);
    if (!marks)
        return WH_ENOMEM;
    wh_status status = wh_mem_copy(self->out, self->kind, marks, WH_MEM_HOST, self->span);
    memset(marks, 0, self->span);
    if (status == WH_OK)
        status = wh_mem_copy(self->in, self->kind, marks, WH_MEM_HOST, self->span);
    free(marks);
    return status;
}

wh_status bench_buffers_verify(const bench_buffers *self) {
    char *seen = malloc(self->span + 1);
    uint64_t found = 0;
    if (!seen)
        return WH_ENOMEM;
    wh_status status = wh_mem_copy(seen, WH_MEM_HOST, self->in, self->kind, self->span);
    for (size_t i = 0; i < self->span && status == WH_OK; i++) {
        if (!seen[i])
            continue;
        found++;
        if (seen[i] != mark_of(i))
            status = WH_EPROTOCOL;
    }
    free(seen);
    return status == WH_OK && found != self->size ? WH_EPROTOCOL : status;
}

char *bench_buffers_marked(const bench_buffers *self) {
    char *marks = make_marks(self->span);
    size_t packed;
    if (!marks || !self->type)
        return marks;
    char *bytes = malloc(self->size + 1);
    if (bytes && wh_pack(marks, (int64_t)self->count, self->type, 0, bytes, self->size, 0,
                         &packed) != WH_OK) {
        free(bytes);
        bytes = NULL;
    }
    free(marks);
    return bytes;
}
