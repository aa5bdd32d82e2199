// SPDX-License-Identifier: BSD-3-Clause
//
// What a launch gives to the kernels of code.h: plain numbers, of the same size on host and device.
//
// A layout is what it is to the host (type/layout.h): loops around a leaf, whose tables name children.
// The loops of the whole message are parameters of the launch; what its leaf needs beyond one run lies in
// the device's memory as an array of whi_device_layout, of which the first is that leaf, and behind it
// the tables.  This text is part of what NVRTC compiles: it includes nothing.
#ifndef WHI_TYPE_DEVICE_ARGS_H
#define WHI_TYPE_DEVICE_ARGS_H

#ifdef __CUDACC__
typedef unsigned uint32_t;
#endif

typedef unsigned char whi_d8;
typedef unsigned short whi_d16;
typedef unsigned whi_d32;
typedef unsigned long long whi_d64;
typedef long long whi_dint;  // of 64 bits, too

enum {
    WHI_DEVICE_THREADS = 256,   // of a block
    WHI_DEVICE_PER_THREAD = 4,  // words that a thread moves, all loaded before the first is stored
    WHI_DEVICE_TILE = 32,       // a transpose goes by squares of so many elements
    WHI_DEVICE_LOOPS = 13,      // WHI_DIMS, and one for the count of elements
};

// A divisor, and what makes a quotient by it of a multiplication and shifts.  `mul32` does so for dividends below 2^32.
typedef struct whi_divisor {
    whi_d64 by, mul;
    whi_d32 mul32, log;  // log: rounded up
} whi_divisor;

typedef struct whi_device_loop {
    whi_divisor size;  // packed bytes of one pass
    whi_dint stride;
} whi_device_loop;

// The kinds of leaf, as whi_leaf_kind has them.
enum { WHI_DEVICE_RUN, WHI_DEVICE_BLOCKS, WHI_DEVICE_LIST, WHI_DEVICE_INDEX, WHI_DEVICE_SEQ };

// A layout in the device's memory.  Tables are named by their distance in bytes from the first layout; 0: there is none.
typedef struct whi_device_layout {
    whi_dint off;
    whi_d32 kind, ndims;
    whi_divisor each;  // BLOCKS: bytes of a block; INDEX: of a copy
    whi_d64 n;
    whi_d64 offsets;   // BLOCKS, LIST, INDEX: of block or copy i
    whi_d64 places;    // LIST, SEQ: packed position of block or child i, and the end
    whi_d64 elements;  // LIST: whi_device_element of block i, where they differ
    whi_d32 element;   // else of all
    whi_d32 child;     // INDEX, SEQ: which layout is the (first) child
    whi_device_loop loop[WHI_DEVICE_LOOPS - 1];
} whi_device_layout;

// What an element is to arithmetic, in one number: its class, bytes of its value, packed bytes, and where
// a pair's index lies in memory (0: it is no pair).  The classes are those of whi_type_class.
#define WHI_DEVICE_ELEMENT(type_class, value, size, index_at)                                      \
    ((whi_d32)(type_class) | (whi_d32)(value) << 8 | (whi_d32)(size) << 16 |                       \
     (whi_d32)(index_at) << 24)
#define WHI_DEVICE_CLASS(element) ((element)&0xff)
#define WHI_DEVICE_VALUE(element) ((element) >> 8 & 0xff)
#define WHI_DEVICE_SIZE(element) ((element) >> 16 & 0xff)
#define WHI_DEVICE_INDEX_AT(element) ((element) >> 24)

// A launch: the packed bytes [from, to) of a message, which lie at `packed`.
typedef struct whi_device_args {
    whi_d64 memory, packed;  // addresses: of the first loop's first pass, and of packed byte `from`
    whi_d64 from, to;
    whi_d64 tables;   // address of the layouts; 0: the leaf is one run
    whi_d32 unpack;   // 0: from memory to packed
    whi_d32 narrow;   // all packed positions are below 2^32
    whi_d32 element;  // accumulate: of a leaf that is one run
    whi_d32 op;       // accumulate: wh_reduce
    whi_d32 grain;    // accumulate: each element begins at a multiple of it
    whi_d32 ndims;
    // Of a transpose: the tiles of a matrix and of one row of them, the packed position of the first matrix, the first
    // row of interest in each, and packed bytes.
    whi_divisor tiles, columns;
    whi_d64 first_matrix, first_row, matrix_size, row_size, word;
    whi_device_loop loop[WHI_DEVICE_LOOPS];
} whi_device_args;

#endif
