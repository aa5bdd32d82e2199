// SPDX-License-Identifier: BSD-3-Clause
//
// Puts devices behind a test of the host engine: included before all of it, by its build (src/type/meson.build).
//
// The calls that move and reduce are replaced by such that copy both buffers to memory of a device, in turn of
// every kind that a side may have, make the same call there, and copy back what it has written.  The copies lie at
// addresses of the same alignment and end where the buffers do, so that a byte too many is a fault of the test driver.
// Over a real driver the bytes go by its own copies.
#ifndef WHI_TYPE_DEVICE_SHADOW_H
#define WHI_TYPE_DEVICE_SHADOW_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/mem.h>
#include <wherry/pack.h>

#include "mem/cuda.h"
#include "type/type.h"

enum { SHADOW_MAX = 32 << 20, SHADOW_ALIGN = 64 };

typedef enum shadow_kind { SHADOW_HOST, SHADOW_DEVICE, SHADOW_OTHER, SHADOW_PINNED } shadow_kind;

// What the two sides are, turn by turn.  At least one is a device's.
static const struct {
    shadow_kind layout, packed;
    int stream;
} shadow_turns[] = {
    {SHADOW_DEVICE, SHADOW_DEVICE, 0}, {SHADOW_DEVICE, SHADOW_HOST, 0},
    {SHADOW_DEVICE, SHADOW_DEVICE, 1}, {SHADOW_HOST, SHADOW_DEVICE, 0},
    {SHADOW_DEVICE, SHADOW_OTHER, 0},  {SHADOW_PINNED, SHADOW_DEVICE, 1},
    {SHADOW_OTHER, SHADOW_PINNED, 0},  {SHADOW_DEVICE, SHADOW_HOST, 1},
};

typedef struct shadow {
    shadow_kind kind;
    unsigned char *there, *at;  // the allocation, and where the copy begins in it
    unsigned char *here;
    size_t size;
} shadow;

static unsigned shadow_turn;

// shadow_copy copies between the memory of a test and the copy's; `in`: to the copy.
static void shadow_copy(const shadow *s, int in) {
    static unsigned char *(*engine)(
        const void *);  // the test driver's: where the CPU finds a device's byte
    static int looked;
    if (!looked++) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        *(void **)&engine = library ? dlsym(library, "cutest_engine") : NULL;
    }
    if (s->kind == SHADOW_HOST || s->kind == SHADOW_PINNED || engine) {
        unsigned char *at = s->kind == SHADOW_HOST || !engine ? s->at : engine(s->at);
        memcpy(in ? at : s->here, in ? s->here : at, s->size);
        return;
    }
    const whi_cuda_device *device;
    whi_cuda_ptr here = (uintptr_t)s->here, there = (uintptr_t)s->at;
    if (whi_cuda_device_of(0, &device) != WH_OK || whi_cuda_enter(device->context) != WH_OK ||
        whi_cuda.cuMemcpyAsync(in ? there : here, in ? here : there, s->size, NULL) != 0 ||
        whi_cuda.cuStreamSynchronize(NULL) != 0)
        abort();
    whi_cuda_leave();
}

static shadow shadow_make(shadow_kind kind, const void *here, size_t size) {
    shadow s = {.kind = kind, .here = (unsigned char *)(uintptr_t)here, .size = size};
    size_t past = (uintptr_t)here % SHADOW_ALIGN, bytes = past + size;
    void *made = NULL;
    int device = kind == SHADOW_OTHER && whi_cuda_open() == WH_OK && whi_cuda_devices() > 1;
    if (kind == SHADOW_HOST)
        made = aligned_alloc(SHADOW_ALIGN, (bytes + SHADOW_ALIGN) & ~(size_t)(SHADOW_ALIGN - 1));
    else if (kind == SHADOW_PINNED ? whi_cuda_staging.pin(0, bytes, &made) != WH_OK
                                   : whi_mem_cuda.alloc(device, bytes, &made) != WH_OK)
        abort();
    s.there = made;
    s.at = s.there + past;
    shadow_copy(&s, 1);
    return s;
}

static void shadow_end(shadow *s, int written) {
    if (written)
        shadow_copy(s, 0);
    if (s->kind == SHADOW_HOST)
        free(s->there);
    else if (s->kind == SHADOW_PINNED)
        whi_cuda_staging.unpin(0, s->there);
    else if (whi_mem_cuda.free(s->there) != WH_OK)
        abort();
}

static whi_cuda_stream shadow_stream(void) {
    static whi_cuda_stream made;
    const whi_cuda_device *device;
    if (made)
        return made;
    if (whi_cuda_device_of(0, &device) != WH_OK || whi_cuda_enter(device->context) != WH_OK ||
        whi_cuda.cuStreamCreate(&made, 1) != 0)
        abort();
    whi_cuda_leave();
    return made;
}

static void shadow_wait(void *stream) {
    if (whi_cuda_kernels.wait(0, stream) != WH_OK)
        abort();
}

// What a call is about; false: it is one that is refused, or one of nothing, which the real one tells better.
static int shadow_fits(const void *buf, int64_t count, const wh_type *type, size_t offset,
                       const void *packed, size_t *max, const size_t *actual, const void **low,
                       size_t *size) {
    static unsigned plain;
    int64_t total, last;
    // Of the thousands of single numbers some go there.
    if (whi_type_valid(type) && type->depth == 0 && count == 1 && plain++ % 16)
        return 0;
    if (!whi_type_valid(type) || count <= 0 || !packed || !actual || !*max ||
        __builtin_mul_overflow(count, type->at.size, &total) ||
        __builtin_mul_overflow(count - 1, type->at.ub - type->at.lb, &last) || !total ||
        offset >= (size_t)total || llabs(last) > SHADOW_MAX ||
        type->at.true_ub - type->at.true_lb > SHADOW_MAX)
        return 0;
    int64_t first = type->at.true_lb + (last < 0 ? last : 0);
    *low = (const void *)((uintptr_t)buf + (uintptr_t)first);
    *size = (size_t)(type->at.true_ub - type->at.true_lb + llabs(last));
    *max = *max < (size_t)total - offset ? *max : (size_t)total - offset;
    return 1;
}

typedef struct shadow_pair {
    shadow layout, packed;
    void *buf, *stream;
} shadow_pair;

static shadow_pair shadow_both(const void *buf, const void *low, size_t size, const void *packed,
                               size_t max) {
    unsigned turn = shadow_turn++ % (sizeof(shadow_turns) / sizeof(shadow_turns[0]));
    shadow_pair p = {.layout = shadow_make(shadow_turns[turn].layout, low, size),
                     .packed = shadow_make(shadow_turns[turn].packed, packed, max)};
    p.buf = (void *)((uintptr_t)p.layout.at + ((uintptr_t)buf - (uintptr_t)low));
    p.stream = shadow_turns[turn].stream ? shadow_stream() : NULL;
    return p;
}

__attribute__((unused)) static wh_status shadow_pack(const void *buf, int64_t count,
                                                     const wh_type *type, size_t offset,
                                                     void *packed, size_t max, unsigned flags,
                                                     size_t *actual) {
    const void *low;
    size_t size;
    if (!shadow_fits(buf, count, type, offset, packed, &max, actual, &low, &size))
        return wh_pack(buf, count, type, offset, packed, max, flags, actual);
    shadow_pair p = shadow_both(buf, low, size, packed, max);
    wh_status st = p.stream
                       ? wh_pack_on(p.buf, count, type, offset, p.packed.at, max, p.stream, actual)
                       : wh_pack(p.buf, count, type, offset, p.packed.at, max, flags, actual);
    if (p.stream)
        shadow_wait(p.stream);
    shadow_end(&p.packed, 1);
    shadow_end(&p.layout, 0);
    return st;
}

__attribute__((unused)) static wh_status shadow_unpack(const void *packed, size_t max, void *buf,
                                                       int64_t count, const wh_type *type,
                                                       size_t offset, unsigned flags,
                                                       size_t *actual) {
    const void *low;
    size_t size;
    if (!shadow_fits(buf, count, type, offset, packed, &max, actual, &low, &size))
        return wh_unpack(packed, max, buf, count, type, offset, flags, actual);
    shadow_pair p = shadow_both(buf, low, size, packed, max);
    wh_status st =
        p.stream ? wh_unpack_on(p.packed.at, max, p.buf, count, type, offset, p.stream, actual)
                 : wh_unpack(p.packed.at, max, p.buf, count, type, offset, flags, actual);
    if (p.stream)
        shadow_wait(p.stream);
    shadow_end(&p.packed, 0);
    shadow_end(&p.layout, 1);
    return st;
}

__attribute__((unused)) static wh_status shadow_accumulate(const void *packed, size_t max,
                                                           void *buf, int64_t count,
                                                           const wh_type *type, size_t offset,
                                                           wh_reduce op, size_t *actual) {
    const void *low;
    size_t size;
    if (!shadow_fits(buf, count, type, offset, packed, &max, actual, &low, &size))
        return wh_accumulate(packed, max, buf, count, type, offset, op, actual);
    shadow_pair p = shadow_both(buf, low, size, packed, max);
    wh_status st =
        p.stream
            ? wh_accumulate_on(p.packed.at, max, p.buf, count, type, offset, op, p.stream, actual)
            : wh_accumulate(p.packed.at, max, p.buf, count, type, offset, op, actual);
    if (p.stream)
        shadow_wait(p.stream);
    shadow_end(&p.packed, 0);
    shadow_end(&p.layout, 1);
    return st;
}

__attribute__((unused)) static wh_status shadow_pack_accumulate(const void *buf, int64_t count,
                                                                const wh_type *type, size_t offset,
                                                                void *packed, size_t max,
                                                                wh_reduce op, size_t *actual) {
    const void *low;
    size_t size;
    if (!shadow_fits(buf, count, type, offset, packed, &max, actual, &low, &size))
        return wh_pack_accumulate(buf, count, type, offset, packed, max, op, actual);
    shadow_pair p = shadow_both(buf, low, size, packed, max);
    wh_status st = wh_pack_accumulate(p.buf, count, type, offset, p.packed.at, max, op, actual);
    shadow_end(&p.packed, 1);
    shadow_end(&p.layout, 0);
    return st;
}

#define wh_pack shadow_pack
#define wh_unpack shadow_unpack
#define wh_accumulate shadow_accumulate
#define wh_pack_accumulate shadow_pack_accumulate

#endif
