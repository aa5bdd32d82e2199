// SPDX-License-Identifier: BSD-3-Clause
//
// Datatypes: descriptions of where the bytes of a message lie in memory.
//
// A type is a tree.  Its leaves are the predefined types below; each inner node repeats or places
// its children.  The order in which the tree visits its leaves, the type map, is the order of the
// bytes when packed.  A type never changes after it was made: any number of threads may use,
// retain and release it at once.  A derived type retains its children, so that any order of
// release is safe.  Predefined types live for ever; retaining or releasing one does nothing.
//
// All lengths and displacements are 64-bit.  Every argument is checked: a call that fails names the
// argument in wh_type_error().
#ifndef WHERRY_TYPE_H
#define WHERRY_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_type wh_type;

// The predefined types: X(NAME, what it is in C).  Numbers follow the order, are part of the
// flattened format, and never change; new ones go to the end.
#define WH_TYPE_LIST(X)                                                                            \
    X(BYTE, "uninterpreted byte")                                                                  \
    X(BOOL, "_Bool")                                                                               \
    X(CHAR, "char")                                                                                \
    X(SCHAR, "signed char")                                                                        \
    X(UCHAR, "unsigned char")                                                                      \
    X(WCHAR, "wchar_t")                                                                            \
    X(INT8, "int8_t")                                                                              \
    X(INT16, "int16_t")                                                                            \
    X(INT32, "int32_t")                                                                            \
    X(INT64, "int64_t")                                                                            \
    X(UINT8, "uint8_t")                                                                            \
    X(UINT16, "uint16_t")                                                                          \
    X(UINT32, "uint32_t")                                                                          \
    X(UINT64, "uint64_t")                                                                          \
    X(SHORT, "short")                                                                              \
    X(USHORT, "unsigned short")                                                                    \
    X(INT, "int")                                                                                  \
    X(UINT, "unsigned int")                                                                        \
    X(LONG, "long")                                                                                \
    X(ULONG, "unsigned long")                                                                      \
    X(LLONG, "long long")                                                                          \
    X(ULLONG, "unsigned long long")                                                                \
    X(INT_FAST8, "int_fast8_t")                                                                    \
    X(INT_FAST16, "int_fast16_t")                                                                  \
    X(INT_FAST32, "int_fast32_t")                                                                  \
    X(INT_FAST64, "int_fast64_t")                                                                  \
    X(UINT_FAST8, "uint_fast8_t")                                                                  \
    X(UINT_FAST16, "uint_fast16_t")                                                                \
    X(UINT_FAST32, "uint_fast32_t")                                                                \
    X(UINT_FAST64, "uint_fast64_t")                                                                \
    X(INT_LEAST8, "int_least8_t")                                                                  \
    X(INT_LEAST16, "int_least16_t")                                                                \
    X(INT_LEAST32, "int_least32_t")                                                                \
    X(INT_LEAST64, "int_least64_t")                                                                \
    X(UINT_LEAST8, "uint_least8_t")                                                                \
    X(UINT_LEAST16, "uint_least16_t")                                                              \
    X(UINT_LEAST32, "uint_least32_t")                                                              \
    X(UINT_LEAST64, "uint_least64_t")                                                              \
    X(INTMAX, "intmax_t")                                                                          \
    X(UINTMAX, "uintmax_t")                                                                        \
    X(SIZE, "size_t")                                                                              \
    X(INTPTR, "intptr_t")                                                                          \
    X(UINTPTR, "uintptr_t")                                                                        \
    X(PTRDIFF, "ptrdiff_t")                                                                        \
    X(FLOAT, "float")                                                                              \
    X(DOUBLE, "double")                                                                            \
    X(LONG_DOUBLE, "long double")                                                                  \
    X(COMPLEX_FLOAT, "float _Complex")                                                             \
    X(COMPLEX_DOUBLE, "double _Complex")                                                           \
    X(COMPLEX_LONG_DOUBLE, "long double _Complex")                                                 \
    X(FLOAT_INT, "struct { float value; int index; }")                                             \
    X(DOUBLE_INT, "struct { double value; int index; }")                                           \
    X(LONG_INT, "struct { long value; int index; }")                                               \
    X(INT_INT, "struct { int value; int index; }")                                                 \
    X(SHORT_INT, "struct { short value; int index; }")                                             \
    X(LONG_DOUBLE_INT, "struct { long double value; int index; }")                                 \
    X(FLOAT16, "IEEE 754 half precision")                                                          \
    X(BFLOAT16, "the upper half of a float")                                                       \
    X(FLOAT8_E4M3, "8-bit float, 4 exponent bits, finite values and NaN only")                     \
    X(FLOAT8_E5M2, "8-bit float, 5 exponent bits, as a short FLOAT16")

typedef enum wh_type_id {
#define WH_TYPE_ENUM(name, text) WH_TYPE_##name,
    WH_TYPE_LIST(WH_TYPE_ENUM)
#undef WH_TYPE_ENUM
        WH_TYPE_IDS  // how many there are
} wh_type_id;

// wh_type_basic returns a predefined type, or NULL when there is none of that id.
WH_API const wh_type *wh_type_basic(wh_type_id id);

// wh_type_error returns the sentence that explains this thread's last failed call of type.h or
// pack.h.  It is valid until the next such failure in the same thread.
WH_API const char *wh_type_error(void);

// How a type was made.  Numbers are part of the flattened format.
typedef enum wh_type_kind {
    WH_KIND_BASIC = 0,
    WH_KIND_DUP = 1,
    WH_KIND_CONTIG = 2,
    WH_KIND_VECTOR = 3,
    WH_KIND_HVECTOR = 4,
    WH_KIND_INDEXED = 5,
    WH_KIND_HINDEXED = 6,
    WH_KIND_INDEXED_BLOCK = 7,
    WH_KIND_HINDEXED_BLOCK = 8,
    WH_KIND_STRUCT = 9,
    WH_KIND_SUBARRAY = 10,
    WH_KIND_DARRAY = 11,
    WH_KIND_RESIZED = 12,
    WH_KIND_STRIDED = 13,
} wh_type_kind;

typedef enum wh_order { WH_ORDER_C = 0, WH_ORDER_FORTRAN = 1 } wh_order;
typedef enum wh_distrib { WH_DIST_NONE = 0, WH_DIST_BLOCK = 1, WH_DIST_CYCLIC = 2 } wh_distrib;
#define WH_DIST_DEFAULT ((int64_t)-1)  // darray: the default block of a distribution

// The constructors.  On WH_OK the caller owns *type and ends it with wh_type_release; `old` is
// retained.  They fail with WH_EINVAL (naming the argument), WH_ENOMEM, or WH_ELIMIT when a type
// would nest deeper than 100 levels.  Counts may be zero.  A stride or displacement without `h` is
// in extents of `old`, with `h` in bytes; both may be negative.
//
// Every constructor rounds the extent up to the strictest alignment among the elements, as a C
// compiler does, unless bounds were set by hand (resized, subarray, darray) in the type or in one
// that it is made of: then those bounds, and no others, decide.  Zero copies count for nothing.

// wh_type_create_contig repeats `old` count times, one extent apart.
WH_API WH_CHECK wh_status wh_type_create_contig(int64_t count, const wh_type *old, wh_type **type);

// wh_type_create_vector makes `count` blocks of `blocklength` elements, `stride` apart.
WH_API WH_CHECK wh_status wh_type_create_vector(int64_t count, int64_t blocklength, int64_t stride,
                                                const wh_type *old, wh_type **type);
WH_API WH_CHECK wh_status wh_type_create_hvector(int64_t count, int64_t blocklength, int64_t stride,
                                                 const wh_type *old, wh_type **type);

// wh_type_create_indexed makes `count` blocks, each with its own length and displacement.
WH_API WH_CHECK wh_status wh_type_create_indexed(int64_t count, const int64_t *blocklengths,
                                                 const int64_t *displacements, const wh_type *old,
                                                 wh_type **type);
WH_API WH_CHECK wh_status wh_type_create_hindexed(int64_t count, const int64_t *blocklengths,
                                                  const int64_t *displacements, const wh_type *old,
                                                  wh_type **type);

// wh_type_create_indexed_block makes `count` blocks of one length, each with its displacement.
WH_API WH_CHECK wh_status wh_type_create_indexed_block(int64_t count, int64_t blocklength,
                                                       const int64_t *displacements,
                                                       const wh_type *old, wh_type **type);
WH_API WH_CHECK wh_status wh_type_create_hindexed_block(int64_t count, int64_t blocklength,
                                                        const int64_t *displacements,
                                                        const wh_type *old, wh_type **type);

// wh_type_create_struct places blocks of different types at byte displacements.
WH_API WH_CHECK wh_status wh_type_create_struct(int64_t count, const int64_t *blocklengths,
                                                const int64_t *displacements,
                                                const wh_type *const *types, wh_type **type);

// wh_type_create_subarray takes the part `subsizes` beginning at `starts` of an array of `sizes`.
// The type's origin and extent are those of the whole array.
WH_API WH_CHECK wh_status wh_type_create_subarray(int ndims, const int64_t *sizes,
                                                  const int64_t *subsizes, const int64_t *starts,
                                                  wh_order order, const wh_type *old,
                                                  wh_type **type);

// wh_type_create_darray takes what process `rank` of `size` owns of an array spread over a grid of
// processes.  Per dimension: its global size, how it is dealt out, the block length (or
// WH_DIST_DEFAULT), and the number of processes.  Ranks are in C order in both array orders.
WH_API WH_CHECK wh_status wh_type_create_darray(int64_t size, int64_t rank, int ndims,
                                                const int64_t *gsizes, const int64_t *distribs,
                                                const int64_t *dargs, const int64_t *psizes,
                                                wh_order order, const wh_type *old, wh_type **type);

// wh_type_create_resized sets lower bound and extent by hand; both may be negative.
WH_API WH_CHECK wh_status wh_type_create_resized(const wh_type *old, int64_t lb, int64_t extent,
                                                 wh_type **type);

// wh_type_create_strided describes an array by its shape and byte strides, as NumPy does: the
// last index runs fastest, the origin is the element with all indices zero.
WH_API WH_CHECK wh_status wh_type_create_strided(int ndims, const int64_t *shape,
                                                 const int64_t *strides, const wh_type *old,
                                                 wh_type **type);

// wh_type_dup makes a type equal to `old` in all but its handle.
WH_API WH_CHECK wh_status wh_type_dup(const wh_type *old, wh_type **type);

// wh_type_commit does now what the first use would do: normalise the layout and choose its kernels.
// After it no pack or unpack of the type allocates.  Fails with WH_ENOMEM only.
WH_API WH_CHECK wh_status wh_type_commit(const wh_type *type);

// wh_type_retain adds a reference and returns `type`; wh_type_release drops one.  NULL is allowed.
WH_API wh_type *wh_type_retain(wh_type *type);
WH_API void wh_type_release(wh_type *type);

// wh_type_size returns the packed bytes of one element, or -1 for a handle that is not valid.
WH_API int64_t wh_type_size(const wh_type *type);

// Bounds are relative to the address given to pack.  The extent is the distance between
// consecutive elements; the true ones cover the bytes that are touched.
typedef struct wh_type_info {
    size_t size;                   // of the caller's struct: no more than that is written
    int64_t packed_size;           // bytes, as wh_type_size
    int64_t lb, extent;            // ub is lb + extent
    int64_t true_lb, true_extent;  //
    int64_t basics;                // predefined elements; a pair counts as two
    int64_t runs;                  // maximal contiguous runs of bytes, in type map order
    int64_t align;                 // the strictest alignment among its elements
} wh_type_info;

// wh_type_get_info fills `info`; set info->size first.  It commits the type, to count runs.
WH_API WH_CHECK wh_status wh_type_get_info(const wh_type *type, wh_type_info *info);

// wh_type_get_envelope tells how the type was made and how much wh_type_get_contents returns.
WH_API WH_CHECK wh_status wh_type_get_envelope(const wh_type *type, wh_type_kind *kind,
                                               size_t *nargs, size_t *nchildren);

// wh_type_get_contents copies the constructor's arguments in the order of its parameters (arrays
// element by element; basic: the id; ndims, order as in docs/reference/type.md) and borrows the
// children, which live as long as the type.
WH_API WH_CHECK wh_status wh_type_get_contents(const wh_type *type, size_t max_args, int64_t *args,
                                               size_t max_children, const wh_type **children);

// wh_type_equal says in *equal whether two types select the same bytes in the same order with the
// same bounds, however they were made.  Costs O(runs) when their normal forms differ, and fails with
// WH_ELIMIT when they still agree after 2^26 of them.
WH_API WH_CHECK wh_status wh_type_equal(const wh_type *a, const wh_type *b, bool *equal);

// wh_type_signature returns in *hash a number that depends only on the sequence of element classes
// and widths of `count` elements: `int` and `int32_t` agree, `float` and `int32_t` do not.  Sender
// and receiver match when hash and *basics, the number of elements, are the same.
WH_API WH_CHECK wh_status wh_type_signature(const wh_type *type, int64_t count, uint64_t *hash,
                                            int64_t *basics);

// wh_type_get_elements says how many whole predefined elements the first `size` packed bytes hold.
// Fails with WH_EINVAL when they end inside one.
WH_API WH_CHECK wh_status wh_type_get_elements(const wh_type *type, int64_t size, int64_t *basics);

// wh_type_get_border returns in *border the last byte at or below `size`, counted in packed bytes of
// any number of elements, that cuts no predefined element: where a sender may end a chunk that the
// receiver is to convert or to combine.  A pair stays whole.  *basics, if not NULL, tells how many
// predefined elements lie before it; a pair counts as two.
WH_API WH_CHECK wh_status wh_type_get_border(const wh_type *type, int64_t size, int64_t *border,
                                             int64_t *basics);

// wh_type_flatten writes the type as bytes that any machine and any later version understands.
// *actual is the size needed; WH_ETRUNCATED when `max` is smaller, and then `data` may be NULL.
WH_API WH_CHECK wh_status wh_type_flatten(const wh_type *type, void *data, size_t max,
                                          size_t *actual);

// wh_type_unflatten makes a type from what wh_type_flatten wrote.  Any bytes give a type or an
// error (WH_EPROTOCOL; WH_EVERSION for a later format); *used, if not NULL, tells how many were
// read.  The bytes are borrowed for the call only.
WH_API WH_CHECK wh_status wh_type_unflatten(const void *data, size_t size, size_t *used,
                                            wh_type **type);

#ifdef __cplusplus
}
#endif
#endif
