// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels: C that is also CUDA C, and nothing of the one that the other has not.
//
// The idea: a thread owns words of the packed bytes and finds where each lies in memory by walking down the layout, one
// quotient per loop and one search per table; neither side needs the other's order, so a launch moves any part of a
// message.  A kernel consists of phases (WHI_EACH_THREAD) with barriers between them; as C a phase is a loop over the
// threads of a block.  Memory is touched by WHI_LOAD and WHI_STORE only: whoever compiles it as C says by WHI_REACH
// where an address can be touched.  Defining WHI_CONST_* folds one message's layout into the code, which then
// has no kernel but what is asked for behind it (special.c).
#ifndef WHI_TYPE_DEVICE_CODE_H
#define WHI_TYPE_DEVICE_CODE_H

#include "type/device/args.h"
#include "type/small_float.h"

#ifdef __CUDACC__
#define WHI_FN static __device__ __forceinline__
#define WHI_FN_ONCE static __device__ __noinline__
#define WHI_GRID_CONST __grid_constant__
#define WHI_KERNEL(name)                                                                           \
    extern "C" __global__ void __launch_bounds__(WHI_DEVICE_THREADS, 4)                            \
        name(const WHI_GRID_CONST whi_device_args args)
#define WHI_ARGS (&args)
#define WHI_BLOCK ((whi_d64)blockIdx.x)
#define WHI_EACH_THREAD(t) for (whi_d32 t = threadIdx.x, once = 1; once; once = 0)
#define WHI_BARRIER __syncthreads()
#define WHI_SHARED __shared__
// All that kernels touch is in the global space, which the compiler cannot know of a number.
static __device__ __forceinline__ void *whi_global(unsigned long long address) {
    void *at = (void *)address;
    __builtin_assume(__isGlobal(at));
    return at;
}
#define WHI_LOAD(T, address) (*(const T *)whi_global(address))
#define WHI_STORE(T, address, value) (*(T *)whi_global(address) = (value))
#define WHI_HIGH32(a, b) __umulhi(a, b)
#define WHI_HIGH64(a, b) __umul64hi(a, b)
#define WHI_MULTIPLY(a, b) __dmul_rn(a, b)
#define WHI_UNROLL _Pragma("unroll")
#define WHI_NO_UNROLL _Pragma("unroll 1")
#define WHI_OFFSET(T, member) ((whi_d64) & ((T *)0)->member)
typedef uint4 whi_word16;
#else
#define WHI_FN static inline
#define WHI_FN_ONCE static
#define WHI_KERNEL(name)                                                                           \
    extern void name(const whi_device_args *args, whi_d64 block);                                  \
    __attribute__((visibility("default"))) void name(const whi_device_args *args, whi_d64 block)
#define WHI_ARGS args
#define WHI_BLOCK block
#define WHI_EACH_THREAD(t) for (whi_d32 t = 0; t < WHI_DEVICE_THREADS; t++)
#define WHI_BARRIER
#define WHI_SHARED
#define WHI_LOAD(T, address)                                                                       \
    ({                                                                                             \
        T loaded;                                                                                  \
        __builtin_memcpy(&loaded, WHI_REACH(address, sizeof(T)), sizeof(T));                       \
        loaded;                                                                                    \
    })
#define WHI_STORE(T, address, value)                                                               \
    do {                                                                                           \
        T stored = (value);                                                                        \
        __builtin_memcpy(WHI_REACH(address, sizeof(T)), &stored, sizeof(T));                       \
    } while (0)
#define WHI_HIGH32(a, b) ((whi_d32)((whi_d64)(a) * (b) >> 32))
#define WHI_HIGH64(a, b) ((whi_d64)((unsigned __int128)(a) * (b) >> 64))
#define WHI_MULTIPLY(a, b) ((a) * (b))
#define WHI_UNROLL
#define WHI_NO_UNROLL
#define WHI_OFFSET(T, member) __builtin_offsetof(T, member)
typedef struct whi_word16 {
    whi_d64 half[2];
} whi_word16;
#endif

// ---- Where a packed byte lies.

// Where a word was found: its address, how far it is into its run, and what elements the run has.
typedef struct whi_place {
    whi_d64 at, within;
    whi_d32 element;
} whi_place;

// Exact for all dividends: the method of Granlund and Montgomery.
WHI_FN whi_d64 whi_quotient(whi_d64 n, const whi_divisor *by, whi_d32 narrow) {
    whi_d32 first = by->log != 0, rest = by->log - first;
    if (narrow) {
        whi_d32 n32 = (whi_d32)n, high = WHI_HIGH32(by->mul32, n32);
        return (high + ((n32 - high) >> first)) >> rest;
    }
    whi_d64 high = WHI_HIGH64(by->mul, n);
    return (high + ((n - high) >> first)) >> rest;
}

#ifdef WHI_CONST_LOOPS
// Constants, from which the compiler makes the quotients and the addresses.
#define WHI_NARROW(a) WHI_CONST_NARROW
#define WHI_UNPACK(a) WHI_CONST_UNPACK
WHI_FN whi_d64 whi_descend(const whi_device_args *a, whi_d64 *p) {
    const whi_d64 sizes[] = WHI_CONST_SIZES;
    const whi_dint strides[] = WHI_CONST_STRIDES;
    whi_d64 at = a->memory;
    WHI_UNROLL
    for (int d = 0; d < WHI_CONST_LOOPS; d++) {
        whi_d64 i = WHI_CONST_NARROW ? (whi_d32)*p / (whi_d32)sizes[d] : *p / sizes[d];
        *p -= i * sizes[d];
        at += i * (whi_d64)strides[d];
    }
    return at;
}
#else
#define WHI_NARROW(a) (a)->narrow
#define WHI_UNPACK(a) (a)->unpack
WHI_FN whi_d64 whi_descend(const whi_device_args *a, whi_d64 *p) {
    whi_d64 at = a->memory;
    WHI_NO_UNROLL
    for (whi_d32 d = 0; d < a->ndims; d++) {
        whi_d64 i = whi_quotient(*p, &a->loop[d].size, a->narrow);
        *p -= i * a->loop[d].size.by;
        at += i * (whi_d64)a->loop[d].stride;
    }
    return at;
}
#endif

// The tables are in the device's memory: a copy of the few numbers of a layout or a loop.
WHI_FN whi_divisor whi_load_divisor(whi_d64 at) {
    whi_divisor by;
    by.by = WHI_LOAD(whi_d64, at);
    by.mul = WHI_LOAD(whi_d64, at + 8);
    by.mul32 = WHI_LOAD(whi_d32, at + 16);
    by.log = WHI_LOAD(whi_d32, at + 20);
    return by;
}
#define WHI_AT(T, layout, member) ((layout) + WHI_OFFSET(T, member))
#define WHI_LOAD_OF(T, layout, member) WHI_LOAD(T, WHI_AT(whi_device_layout, layout, member))

// The last entry of a table that is not above p; the first never is.
WHI_FN whi_d64 whi_search(whi_d64 table, whi_d64 n, whi_d64 p) {
    whi_d64 low = 0, high = n;
    WHI_NO_UNROLL
    while (high - low > 1) {
        whi_d64 middle = low + (high - low) / 2;
        if (WHI_LOAD(whi_d64, table + middle * 8) <= p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Goes on in the leaf of the message, whose layouts begin at `tables`, with position p of it.  Compiled once: of a message
// with tables most of the time is spent on them.
WHI_FN_ONCE whi_place whi_look_up(whi_d64 tables, whi_d64 p, whi_d32 narrow) {
    whi_d64 layout = tables, at = 0;
    whi_place found;
    for (;;) {
        at += (whi_d64)WHI_LOAD_OF(whi_dint, layout, off);
        whi_d32 kind = WHI_LOAD_OF(whi_d32, layout, kind);
        whi_d32 ndims = WHI_LOAD_OF(whi_d32, layout, ndims);
        WHI_NO_UNROLL
        for (whi_d32 d = 0; d < ndims; d++) {
            whi_d64 loop = WHI_AT(whi_device_layout, layout, loop) + d * sizeof(whi_device_loop);
            whi_divisor size = whi_load_divisor(loop);
            whi_d64 pass = whi_quotient(p, &size, narrow);
            p -= pass * size.by;
            at += pass * (whi_d64)WHI_LOAD(whi_dint, WHI_AT(whi_device_loop, loop, stride));
        }
        found.element = WHI_LOAD_OF(whi_d32, layout, element);
        if (kind == WHI_DEVICE_RUN)
            break;
        whi_d64 i, offsets = WHI_LOAD_OF(whi_d64, layout, offsets);
        if (kind == WHI_DEVICE_BLOCKS || kind == WHI_DEVICE_INDEX) {
            whi_divisor each = whi_load_divisor(WHI_AT(whi_device_layout, layout, each));
            i = whi_quotient(p, &each, narrow);
            p -= i * each.by;
        } else {
            whi_d64 places = tables + WHI_LOAD_OF(whi_d64, layout, places);
            i = whi_search(places, WHI_LOAD_OF(whi_d64, layout, n), p);
            p -= WHI_LOAD(whi_d64, places + i * 8);
        }
        if (offsets)
            at += WHI_LOAD(whi_d64, tables + offsets + i * 8);
        if (kind == WHI_DEVICE_BLOCKS || kind == WHI_DEVICE_LIST) {
            whi_d64 elements = WHI_LOAD_OF(whi_d64, layout, elements);
            if (elements)
                found.element = WHI_LOAD(whi_d32, tables + elements + i * 4);
            break;
        }
        i = WHI_LOAD_OF(whi_d32, layout, child) + (kind == WHI_DEVICE_SEQ ? i : 0);
        layout = tables + i * sizeof(whi_device_layout);
    }
    found.at = at + p;
    found.within = p;
    return found;
}

WHI_FN whi_place whi_find(const whi_device_args *a, whi_d64 p) {
    whi_place found;
    whi_d64 at = whi_descend(a, &p);
#ifndef WHI_CONST_LOOPS
    if (a->tables) {
        found = whi_look_up(a->tables, p, a->narrow);
        found.at += at;
        return found;
    }
#endif
    found.at = at + p;
    found.within = p;
    found.element = a->element;
    return found;
}

// ---- Moving.

WHI_FN whi_d64 whi_packed(const whi_device_args *a, whi_d64 p) {
    return a->packed + (p - a->from);
}

// What does not fill words, at both ends of the part, is moved by the first block: thread t takes byte t of it.
WHI_FN void whi_move_ends(const whi_device_args *a, whi_d64 first, whi_d64 last, whi_d32 t) {
    whi_d64 head = first - a->from, tail = a->to - last;
    if (t >= head + tail)
        return;
    whi_d64 p = t < head ? a->from + t : last + (t - head);
    whi_d64 at = whi_find(a, p).at, packed = whi_packed(a, p);
    whi_d8 byte = WHI_LOAD(whi_d8, WHI_UNPACK(a) ? packed : at);
    WHI_STORE(whi_d8, WHI_UNPACK(a) ? at : packed, byte);
}

// Words begin at multiples of their size in the packed bytes, where the layout begins them too.  All loads of a thread
// come before its stores, so that they are under way at one time.
#define WHI_DEFINE_MOVE(W, T)                                                                      \
    WHI_KERNEL(wherry_move_##W) {                                                                  \
        WHI_EACH_THREAD(t) {                                                                       \
            const whi_device_args *a = WHI_ARGS;                                                   \
            whi_d64 first = (a->from + W - 1) / W * W, last = a->to / W * W;                       \
            T word[WHI_DEVICE_PER_THREAD];                                                         \
            whi_d64 to[WHI_DEVICE_PER_THREAD];                                                     \
            if (last < first)                                                                      \
                first = last = a->to; /* no word is whole */                                       \
            whi_d64 p0 =                                                                           \
                first + (WHI_BLOCK * (WHI_DEVICE_THREADS * WHI_DEVICE_PER_THREAD) + t) * W;        \
            WHI_UNROLL                                                                             \
            for (int k = 0; k < WHI_DEVICE_PER_THREAD; k++) {                                      \
                whi_d64 p = p0 + (whi_d64)(k * WHI_DEVICE_THREADS * W);                            \
                to[k] = 0;                                                                         \
                if (p < last) {                                                                    \
                    whi_d64 at = whi_find(a, p).at, packed = whi_packed(a, p);                     \
                    to[k] = WHI_UNPACK(a) ? at : packed;                                           \
                    word[k] = WHI_LOAD(T, WHI_UNPACK(a) ? packed : at);                            \
                }                                                                                  \
            }                                                                                      \
            WHI_UNROLL                                                                             \
            for (int k = 0; k < WHI_DEVICE_PER_THREAD; k++)                                        \
                if (to[k])                                                                         \
                    WHI_STORE(T, to[k], word[k]);                                                  \
            if (W > 1 && WHI_BLOCK == 0)                                                           \
                whi_move_ends(a, first, last, t);                                                  \
        }                                                                                          \
    }

#ifndef WHI_CONST_LOOPS
WHI_DEFINE_MOVE(1, whi_d8)
WHI_DEFINE_MOVE(2, whi_d16)
WHI_DEFINE_MOVE(4, whi_d32)
WHI_DEFINE_MOVE(8, whi_d64)
WHI_DEFINE_MOVE(16, whi_word16)
#endif

// ---- Transposes: the inner loop takes larger steps than the one around it, and the run is one word.

// The packed position of an element of a block's tile; ~0 where the part has none there.  Blocks go tile by tile along
// the rows of a matrix, and matrix by matrix.
WHI_FN whi_d64 whi_cell(const whi_device_args *a, whi_d64 block, whi_d32 row, whi_d32 column) {
    whi_d64 matrix = whi_quotient(block, &a->tiles, 0), tile = block - matrix * a->tiles.by;
    whi_d64 tile_row = whi_quotient(tile, &a->columns, 0);
    whi_d64 r = a->first_row + tile_row * WHI_DEVICE_TILE + row;
    whi_d64 c = (tile - tile_row * a->columns.by) * WHI_DEVICE_TILE + column;
    whi_d64 in_row = c * a->word, in_matrix = r * a->row_size + in_row;
    whi_d64 p = a->first_matrix + matrix * a->matrix_size + in_matrix;
    int there = in_row < a->row_size && in_matrix < a->matrix_size && p >= a->from && p < a->to;
    return there ? p : ~(whi_d64)0;
}

// One phase brings a tile into shared memory along the rows of the side that is read, the other takes it out along those
// of the other side.  The odd length of a row there keeps columns in different banks.
#define WHI_DEFINE_TRANSPOSE(W, T)                                                                 \
    WHI_KERNEL(wherry_transpose_##W) {                                                             \
        WHI_SHARED T tile[WHI_DEVICE_TILE][WHI_DEVICE_TILE + 1];                                   \
        WHI_EACH_THREAD(t) {                                                                       \
            const whi_device_args *a = WHI_ARGS;                                                   \
            whi_d32 x = t % WHI_DEVICE_TILE;                                                       \
            for (whi_d32 y = t / WHI_DEVICE_TILE; y < WHI_DEVICE_TILE;                             \
                 y += WHI_DEVICE_THREADS / WHI_DEVICE_TILE) {                                      \
                whi_d64 p =                                                                        \
                    WHI_UNPACK(a) ? whi_cell(a, WHI_BLOCK, y, x) : whi_cell(a, WHI_BLOCK, x, y);   \
                if (p != ~(whi_d64)0)                                                              \
                    tile[y][x] =                                                                   \
                        WHI_LOAD(T, WHI_UNPACK(a) ? whi_packed(a, p) : whi_find(a, p).at);         \
            }                                                                                      \
        }                                                                                          \
        WHI_BARRIER;                                                                               \
        WHI_EACH_THREAD(t) {                                                                       \
            const whi_device_args *a = WHI_ARGS;                                                   \
            whi_d32 x = t % WHI_DEVICE_TILE;                                                       \
            for (whi_d32 y = t / WHI_DEVICE_TILE; y < WHI_DEVICE_TILE;                             \
                 y += WHI_DEVICE_THREADS / WHI_DEVICE_TILE) {                                      \
                whi_d64 p =                                                                        \
                    WHI_UNPACK(a) ? whi_cell(a, WHI_BLOCK, x, y) : whi_cell(a, WHI_BLOCK, y, x);   \
                if (p != ~(whi_d64)0)                                                              \
                    WHI_STORE(T, WHI_UNPACK(a) ? whi_find(a, p).at : whi_packed(a, p),             \
                              tile[x][y]);                                                         \
            }                                                                                      \
        }                                                                                          \
    }

#ifndef WHI_CONST_LOOPS
WHI_DEFINE_TRANSPOSE(1, whi_d8)
WHI_DEFINE_TRANSPOSE(2, whi_d16)
WHI_DEFINE_TRANSPOSE(4, whi_d32)
WHI_DEFINE_TRANSPOSE(8, whi_d64)
WHI_DEFINE_TRANSPOSE(16, whi_word16)
#endif

#endif
