// SPDX-License-Identifier: BSD-3-Clause
//
// Packing: moving data between a layout in memory and dense bytes.
//
// `count` elements of a type, laid out from `buf` one extent apart, are packed into count x size
// bytes.  All calls take an offset into these packed bytes and work on any part of them, at any
// byte, in any order; finding the place costs O(depth of the type), O(log n) in an irregular one.
// After wh_type_commit only what has a handle of its own allocates.  All functions may be called
// from any thread; buffers are borrowed for the call, or for the life of that handle.  `buf` is the
// origin of the type: with a negative lower bound bytes before it are touched.
//
// Either side may be a device's memory (wherry/mem.h), pinned host memory or plain host memory.  Kernels of the device
// then do the work, and the call returns when it is done; where elements overlap their order is open.
#ifndef WHERRY_PACK_H
#define WHERRY_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <wherry/status.h>
#include <wherry/type.h>

#ifdef __cplusplus
extern "C" {
#endif

// Who reads the result next decides which stores are best.  Without a flag the library goes by the
// size of the transfer and the caches of the machine.
#define WH_PACK_CACHED 1u  // this core, soon: leave the result in its cache
#define WH_PACK_STREAM 2u  // a device or a far core: write around the cache

// wh_pack copies up to `max` packed bytes, from byte `offset` on, into `packed`.
//
// *actual is `max`, or less only at the end of the packed bytes.  WH_EINVAL when `offset` lies
// beyond it.
WH_API WH_CHECK wh_status wh_pack(const void *buf, int64_t count, const wh_type *type,
                                  size_t offset, void *packed, size_t max, unsigned flags,
                                  size_t *actual);

// wh_unpack copies `size` bytes, which are the packed bytes from `offset` on, into the
// layout.  *actual is `size`, or less only at the end of the packed bytes.
WH_API WH_CHECK wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count,
                                    const wh_type *type, size_t offset, unsigned flags,
                                    size_t *actual);

// wh_pack_on and wh_unpack_on do so in the order of `stream`: a CUstream (a cudaStream_t is one) of the
// device where the memory lies, NULL for its default stream.
//
// At least one side is a device's memory (WH_ENOTSUP).  They return when the work is submitted, and both
// buffers and the type are borrowed until the stream has come past it; *actual is known at once.  Where a
// kernel does not reach both sides (plain host memory, another device's) they wait instead, and it is done
// when they return.
WH_API WH_CHECK wh_status wh_pack_on(const void *buf, int64_t count, const wh_type *type,
                                     size_t offset, void *packed, size_t max, void *stream,
                                     size_t *actual);
WH_API WH_CHECK wh_status wh_unpack_on(const void *packed, size_t size, void *buf, int64_t count,
                                       const wh_type *type, size_t offset, void *stream,
                                       size_t *actual);

// A cursor moves one message in segments.  It does what wh_pack and wh_unpack do with an offset,
// but sees the message as a whole: it stores by its size, not the segment's, and where segments cut
// through rows that share lines of memory (a transpose) it packs rows ahead, and keeps rows back
// until they are complete, which is several times faster.  One thread at a time.
typedef struct wh_cursor wh_cursor;

// wh_cursor_create makes one; it retains `type` and borrows `buf` until it is destroyed.  The
// memory behind `buf` may be read before its segment is asked for, and written after it was given.
WH_API WH_CHECK wh_status wh_cursor_create(void *buf, int64_t count, const wh_type *type,
                                           unsigned flags, wh_cursor **cursor);

// wh_cursor_pack and wh_cursor_unpack move a segment, as wh_pack and wh_unpack do.  Segments may
// come in any order; ascending is fast.
WH_API WH_CHECK wh_status wh_cursor_pack(wh_cursor *cursor, size_t offset, void *packed, size_t max,
                                         size_t *actual);
WH_API WH_CHECK wh_status wh_cursor_unpack(wh_cursor *cursor, size_t offset, const void *packed,
                                           size_t size, size_t *actual);

// wh_cursor_flush brings to its place what was kept back, and forgets what was read ahead.  Call
// it once at the end of unpacking: wh_cursor_destroy drops what is still kept.
WH_API WH_CHECK wh_status wh_cursor_flush(wh_cursor *cursor);
WH_API void wh_cursor_destroy(wh_cursor *cursor);

// wh_pack_set_threads sets how many helper threads this process keeps for packs, unpacks and
// cursors that move many megabytes in one call; none to begin with.  The caller works too.  It
// waits for helpers that have to go.  A forked child begins with none.  Set 0 before unloading the
// library.
WH_API WH_CHECK wh_status wh_pack_set_threads(unsigned count);

// A pack or unpack that goes on after the call.  Both buffers are borrowed, and the type retained,
// until it is over.  What neither helpers nor a kernel would speed up is over when the call returns.
typedef struct wh_pack_request wh_pack_request;
WH_API WH_CHECK wh_status wh_pack_start(const void *buf, int64_t count, const wh_type *type,
                                        size_t offset, void *packed, size_t max, unsigned flags,
                                        wh_pack_request **req);
WH_API WH_CHECK wh_status wh_unpack_start(const void *packed, size_t size, void *buf, int64_t count,
                                          const wh_type *type, size_t offset, unsigned flags,
                                          wh_pack_request **req);

// wh_pack_request_test returns WH_PENDING, or WH_OK when it is over and the bytes moved in *actual.
// wh_pack_request_wait helps until it is, or waits for the device; both return the device's error.
// One thread at a time.  WH_EFORKED in a child of the process that began it.
WH_API WH_CHECK wh_status wh_pack_request_test(wh_pack_request *req, size_t *actual);
WH_API WH_CHECK wh_status wh_pack_request_wait(wh_pack_request *req, size_t *actual);

// wh_pack_request_free ends a request; it waits when it is not over.
WH_API void wh_pack_request_free(wh_pack_request *req);

// wh_type_copy copies between two layouts without a buffer of the message's size.  The smaller of
// the two packed sizes is moved and returned in *actual.  The two must not overlap.
WH_API WH_CHECK wh_status wh_type_copy(void *to, int64_t to_count, const wh_type *to_type,
                                       const void *from, int64_t from_count,
                                       const wh_type *from_type, size_t *actual);

// wh_iov_len counts the maximal contiguous runs of `count` elements in type map order.
WH_API WH_CHECK wh_status wh_iov_len(int64_t count, const wh_type *type, int64_t *len);

// wh_iov_len_max says how many whole runs from the start hold no more than `max_bytes`, and their
// bytes.
WH_API WH_CHECK wh_status wh_iov_len_max(int64_t count, const wh_type *type, int64_t max_bytes,
                                         int64_t *len, int64_t *bytes);

// wh_iov fills up to `max` entries with runs number `first` and following.  O(depth) to begin at
// any.
WH_API WH_CHECK wh_status wh_iov(const void *buf, int64_t count, const wh_type *type, int64_t first,
                                 struct iovec *iov, int64_t max, int64_t *actual);

// wh_iov_bytes does the same from packed byte `offset` on, for at most `max_bytes`;
// *bytes is what the entries cover.  The first and the last may be parts of a run.
WH_API WH_CHECK wh_status wh_iov_bytes(const void *buf, int64_t count, const wh_type *type,
                                       size_t offset, size_t max_bytes, struct iovec *iov,
                                       int64_t max, int64_t *actual, size_t *bytes);

// What to do with the value that is there (a) and the one that comes (b).
//
// MAX and MIN give NaN if either is NaN.  Arithmetic is defined on integers, characters and floats;
// SUM and PROD on complex too; integers wrap.  L* (any non-zero is true, the result is 0 or 1) on
// integers, characters, BOOL and floats; B* on integers, characters, BOOL and BYTE.
// MINLOC and MAXLOC on the pairs only; equal values keep the smaller index, NaN wins over a number.
// REPLACE and NO_OP on everything.
typedef enum wh_reduce {
    WH_REDUCE_MAX,
    WH_REDUCE_MIN,
    WH_REDUCE_SUM,
    WH_REDUCE_PROD,
    WH_REDUCE_LAND,
    WH_REDUCE_BAND,
    WH_REDUCE_LOR,
    WH_REDUCE_BOR,
    WH_REDUCE_LXOR,
    WH_REDUCE_BXOR,
    WH_REDUCE_MINLOC,
    WH_REDUCE_MAXLOC,
    WH_REDUCE_REPLACE,
    WH_REDUCE_NO_OP,
    WH_REDUCES  // how many there are
} wh_reduce;

// A reduction of the user's: inout[i] = f(inout[i], in[i]) for n packed elements of a predefined
// type.  A pair comes as its packed bytes.  Must be callable from any thread that accumulates.
typedef void (*wh_reduce_fn)(const void *in, void *inout, size_t n, const wh_type *basic,
                             void *arg);

// wh_reduce_defined says whether the operation is defined on all elements of the type.
WH_API bool wh_reduce_defined(wh_reduce op, const wh_type *type);

// wh_accumulate combines `size` packed bytes, which are those from `offset` on, into
// the layout: buf = buf op packed.
//
// WH_ENOTSUP, and nothing is touched, when the operation is not defined on an element of the type.
// Both ends must fall between elements (WH_EINVAL); segments that cut elements go through a
// wh_accumulator.
WH_API WH_CHECK wh_status wh_accumulate(const void *packed, size_t size, void *buf, int64_t count,
                                        const wh_type *type, size_t offset, wh_reduce op,
                                        size_t *actual);
WH_API WH_CHECK wh_status wh_accumulate_fn(const void *packed, size_t size, void *buf,
                                           int64_t count, const wh_type *type, size_t offset,
                                           wh_reduce_fn fn, void *arg, size_t *actual);

// wh_accumulate_on does so in the order of a stream, as wh_unpack_on does.  Where the device lacks the arithmetic of an
// element (long double) both sides pass through the host, and the call waits.
WH_API WH_CHECK wh_status wh_accumulate_on(const void *packed, size_t size, void *buf,
                                           int64_t count, const wh_type *type, size_t offset,
                                           wh_reduce op, void *stream, size_t *actual);

// wh_pack_accumulate combines the other way: packed = packed op buf, under the same rules.
WH_API WH_CHECK wh_status wh_pack_accumulate(const void *buf, int64_t count, const wh_type *type,
                                             size_t offset, void *packed, size_t max, wh_reduce op,
                                             size_t *actual);

// wh_accumulate_packed combines packed bytes with packed bytes, those from `offset` on of `count` elements
// of the type: inout = inout op in, by `fn(in, inout, ...)` in the place of `op` unless `fn` is NULL.
//
// The rules are those of wh_accumulate; both sides are host memory, of any alignment, and `size` bytes of the
// packed bytes must be there (WH_EINVAL).
WH_API WH_CHECK wh_status wh_accumulate_packed(const void *in, void *inout, size_t size,
                                               int64_t count, const wh_type *type, size_t offset,
                                               wh_reduce op, wh_reduce_fn fn, void *arg);

// An accumulator takes the segments of one message in any order and of any size, and keeps the
// pieces of elements that a segment border has cut until the rest arrives.  One thread at a time.
typedef struct wh_accumulator wh_accumulator;

// wh_accumulator_create begins one; it retains `type` and borrows `buf` until it is destroyed.
WH_API WH_CHECK wh_status wh_accumulator_create(void *buf, int64_t count, const wh_type *type,
                                                wh_reduce op, wh_accumulator **acc);

// wh_accumulator_add takes one segment.  No packed byte may come twice.
WH_API WH_CHECK wh_status wh_accumulator_add(wh_accumulator *acc, size_t offset, const void *packed,
                                             size_t size);

// wh_accumulator_pending returns the bytes that wait for the rest of their element.
WH_API size_t wh_accumulator_pending(const wh_accumulator *acc);
WH_API void wh_accumulator_destroy(wh_accumulator *acc);

// The external32 representation: big-endian, IEEE, sizes fixed by the MPI standard.
//
// wh_external_size returns the bytes of `count` elements, or -1 for a bad argument.
// wh_external_pack and wh_external_unpack convert all packed bytes; `size` and `max` must suffice
// (WH_ETRUNCATED).  *actual is what was written or read.
WH_API int64_t wh_external_size(int64_t count, const wh_type *type);
WH_API WH_CHECK wh_status wh_external_pack(const void *buf, int64_t count, const wh_type *type,
                                           void *packed, size_t max, size_t *actual);
WH_API WH_CHECK wh_status wh_external_unpack(const void *packed, size_t size, void *buf,
                                             int64_t count, const wh_type *type, size_t *actual);

#ifdef __cplusplus
}
#endif
#endif
