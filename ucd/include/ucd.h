// SPDX-License-Identifier: BSD-3-Clause
//
// The UCD interface on Wherry's datatype engine: a program written for UCD builds against this header
// and runs with -lwherry-ucd instead of -lucd.
//
// Names, signatures and return codes are UCD's.  What is better here needs no new name: offsets and
// maxima work at any byte, flattened types may go to another process or machine, bad arguments
// return UCD_ERR__INTERNAL instead of ending the process.  That holds for handles too: one that was
// never given out or was freed is noticed, also when another has come to its place.  Freeing
// UCD_TYPE__NULL, a predefined type or a NULL info does nothing.  ucd_unflatten is not told how many
// bytes there are and takes their word for it: check what strangers send for its length first.
// Any thread may call any function.
//
// Buffers may be memory of GPUs that the CUDA driver knows, on either side, when it was loaded before ucd_init or before
// the last type was made.  A call is over when it returns; with an info that has the key UCD_INFO_STREAM, whose value is
// a CUstream or cudaStream_t, it is over when the stream has come past it.
#ifndef UCD_H_INCLUDED
#define UCD_H_INCLUDED

#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define UCD_API __attribute__((visibility("default")))
#else
#define UCD_API
#endif

enum {
    UCD_SUCCESS = 0,
    UCD_ERR__OUT_OF_MEM = 1,
    UCD_ERR__INTERNAL = 2,
    UCD_ERR__NOT_SUPPORTED = 3,
};

#define UCD_INFO_STREAM "wherry_stream"

typedef uint64_t ucd_type_t;
typedef uint64_t ucd_request_t;
typedef struct ucd_info_s *ucd_info_t;

// The predefined types: X(UCD's name, Wherry's name), numbered from 1 in this order.
#define UCD_TYPE_LIST(X)                                                                           \
    X(_BOOL, BOOL)                                                                                 \
    X(CHAR, CHAR)                                                                                  \
    X(SIGNED_CHAR, SCHAR)                                                                          \
    X(UNSIGNED_CHAR, UCHAR)                                                                        \
    X(WCHAR_T, WCHAR)                                                                              \
    X(INT8_T, INT8)                                                                                \
    X(INT16_T, INT16)                                                                              \
    X(INT32_T, INT32)                                                                              \
    X(INT64_T, INT64)                                                                              \
    X(UINT8_T, UINT8)                                                                              \
    X(UINT16_T, UINT16)                                                                            \
    X(UINT32_T, UINT32)                                                                            \
    X(UINT64_T, UINT64)                                                                            \
    X(INT, INT)                                                                                    \
    X(UNSIGNED, UINT)                                                                              \
    X(SHORT, SHORT)                                                                                \
    X(UNSIGNED_SHORT, USHORT)                                                                      \
    X(LONG, LONG)                                                                                  \
    X(UNSIGNED_LONG, ULONG)                                                                        \
    X(LONG_LONG, LLONG)                                                                            \
    X(UNSIGNED_LONG_LONG, ULLONG)                                                                  \
    X(INT_FAST8_T, INT_FAST8)                                                                      \
    X(INT_FAST16_T, INT_FAST16)                                                                    \
    X(INT_FAST32_T, INT_FAST32)                                                                    \
    X(INT_FAST64_T, INT_FAST64)                                                                    \
    X(INT_LEAST8_T, INT_LEAST8)                                                                    \
    X(INT_LEAST16_T, INT_LEAST16)                                                                  \
    X(INT_LEAST32_T, INT_LEAST32)                                                                  \
    X(INT_LEAST64_T, INT_LEAST64)                                                                  \
    X(UINT_FAST8_T, UINT_FAST8)                                                                    \
    X(UINT_FAST16_T, UINT_FAST16)                                                                  \
    X(UINT_FAST32_T, UINT_FAST32)                                                                  \
    X(UINT_FAST64_T, UINT_FAST64)                                                                  \
    X(UINT_LEAST8_T, UINT_LEAST8)                                                                  \
    X(UINT_LEAST16_T, UINT_LEAST16)                                                                \
    X(UINT_LEAST32_T, UINT_LEAST32)                                                                \
    X(UINT_LEAST64_T, UINT_LEAST64)                                                                \
    X(BYTE, BYTE)                                                                                  \
    X(INTMAX_T, INTMAX)                                                                            \
    X(UINTMAX_T, UINTMAX)                                                                          \
    X(SIZE_T, SIZE)                                                                                \
    X(INTPTR_T, INTPTR)                                                                            \
    X(UINTPTR_T, UINTPTR)                                                                          \
    X(PTRDIFF_T, PTRDIFF)                                                                          \
    X(FLOAT, FLOAT)                                                                                \
    X(DOUBLE, DOUBLE)                                                                              \
    X(LONG_DOUBLE, LONG_DOUBLE)                                                                    \
    X(C_COMPLEX, COMPLEX_FLOAT)                                                                    \
    X(C_DOUBLE_COMPLEX, COMPLEX_DOUBLE)                                                            \
    X(C_LONG_DOUBLE_COMPLEX, COMPLEX_LONG_DOUBLE)                                                  \
    X(FLOAT_INT, FLOAT_INT)                                                                        \
    X(DOUBLE_INT, DOUBLE_INT)                                                                      \
    X(LONG_INT, LONG_INT)                                                                          \
    X(2INT, INT_INT)                                                                               \
    X(SHORT_INT, SHORT_INT)                                                                        \
    X(LONG_DOUBLE_INT, LONG_DOUBLE_INT)

enum {
    UCD_TYPE__NULL = 0,
#define UCD_TYPE_ENUM(name, wherry) UCD_TYPE__##name,
    UCD_TYPE_LIST(UCD_TYPE_ENUM)
#undef UCD_TYPE_ENUM
        UCD_TYPE__PREDEFINED  // how many handles there are below those of derived types
};

enum { UCD_REQUEST__NULL = 0 };

typedef enum { UCD_SUBARRAY_ORDER__C, UCD_SUBARRAY_ORDER__FORTRAN } ucd_subarray_order_e;

UCD_API int ucd_info_create(ucd_info_t *info);
UCD_API int ucd_info_free(ucd_info_t info);
UCD_API int ucd_info_keyval_append(ucd_info_t info, const char *key, const void *val,
                                   unsigned int vallen);

UCD_API int ucd_init(ucd_info_t info);
UCD_API int ucd_finalize(void);

UCD_API int ucd_type_create_vector(int count, int blocklength, int stride, ucd_type_t oldtype,
                                   ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_hvector(int count, int blocklength, intptr_t stride, ucd_type_t oldtype,
                                    ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_contig(int count, ucd_type_t oldtype, ucd_info_t info,
                                   ucd_type_t *newtype);
UCD_API int ucd_type_create_dup(ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_indexed_block(int count, int blocklength,
                                          const int *array_of_displacements, ucd_type_t oldtype,
                                          ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_hindexed_block(int count, int blocklength,
                                           const intptr_t *array_of_displacements,
                                           ucd_type_t oldtype, ucd_info_t info,
                                           ucd_type_t *newtype);
UCD_API int ucd_type_create_indexed(int count, const int *array_of_blocklengths,
                                    const int *array_of_displacements, ucd_type_t oldtype,
                                    ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_hindexed(int count, const int *array_of_blocklengths,
                                     const intptr_t *array_of_displacements, ucd_type_t oldtype,
                                     ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_resized(ucd_type_t oldtype, intptr_t lb, intptr_t extent,
                                    ucd_info_t info, ucd_type_t *newtype);
UCD_API int ucd_type_create_struct(int count, const int *array_of_blocklengths,
                                   const intptr_t *array_of_displacements,
                                   const ucd_type_t *array_of_types, ucd_info_t info,
                                   ucd_type_t *newtype);
UCD_API int ucd_type_create_subarray(int ndims, const int *array_of_sizes,
                                     const int *array_of_subsizes, const int *array_of_starts,
                                     ucd_subarray_order_e order, ucd_type_t oldtype,
                                     ucd_info_t info, ucd_type_t *newtype);

UCD_API int ucd_type_get_size(ucd_type_t type, uintptr_t *size);
UCD_API int ucd_type_get_extent(ucd_type_t type, intptr_t *lb, intptr_t *extent);
UCD_API int ucd_type_get_true_extent(ucd_type_t type, intptr_t *lb, intptr_t *extent);
UCD_API int ucd_type_free(ucd_type_t type);

UCD_API int ucd_request_test(ucd_request_t request, int *completed);
UCD_API int ucd_request_wait(ucd_request_t request);

UCD_API int ucd_ipack(const void *inbuf, uintptr_t incount, ucd_type_t type, uintptr_t inoffset,
                      void *outbuf, uintptr_t max_pack_bytes, uintptr_t *actual_pack_bytes,
                      ucd_info_t info, ucd_request_t *request);
UCD_API int ucd_iunpack(const void *inbuf, uintptr_t insize, void *outbuf, uintptr_t outcount,
                        ucd_type_t type, uintptr_t outoffset, uintptr_t *actual_unpack_bytes,
                        ucd_info_t info, ucd_request_t *request);

UCD_API int ucd_iov_len(uintptr_t count, ucd_type_t type, uintptr_t *iov_len);
UCD_API int ucd_iov(const char *buf, uintptr_t count, ucd_type_t type, uintptr_t iov_offset,
                    struct iovec *iov, uintptr_t max_iov_len, uintptr_t *actual_iov_len);

UCD_API int ucd_flatten_size(ucd_type_t type, uintptr_t *flattened_type_size);
UCD_API int ucd_flatten(ucd_type_t type, void *flattened_type);
UCD_API int ucd_unflatten(ucd_type_t *type, const void *flattened_type);

#ifdef __cplusplus
}
#endif
#endif
