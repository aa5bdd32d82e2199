# SPDX-License-Identifier: BSD-3-Clause
#
# What the binding uses of the public headers; nothing else is declared to C anywhere.
from libc.stdint cimport int64_t, uint64_t

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<wherry/status.h>" nogil:
    ctypedef enum wh_status:
        WH_OK
        WH_ETRUNCATED

cdef extern from "<wherry/context.h>" nogil:
    const char *wh_version()

cdef extern from "<stdbool.h>":
    ctypedef unsigned char cbool "bool"

cdef extern from "<wherry/type.h>" nogil:
    ctypedef struct wh_type:
        pass
    ctypedef enum wh_type_id:
        WH_TYPE_BYTE
        WH_TYPE_IDS
    ctypedef enum wh_type_kind:
        WH_KIND_BASIC
    ctypedef enum wh_order:
        WH_ORDER_C
        WH_ORDER_FORTRAN
    ctypedef enum wh_distrib:
        WH_DIST_NONE
        WH_DIST_BLOCK
        WH_DIST_CYCLIC
    int64_t WH_DIST_DEFAULT
    ctypedef struct wh_type_info:
        int64_t size
        int64_t lb
        int64_t extent
        int64_t true_lb
        int64_t true_extent
        int64_t basics
        int64_t runs
        int64_t align

    const wh_type *wh_type_basic(wh_type_id id)
    const char *wh_type_error()
    wh_status wh_type_create_contig(int64_t count, const wh_type *old, wh_type **type)
    wh_status wh_type_create_vector(int64_t count, int64_t blocklength, int64_t stride,
                                    const wh_type *old, wh_type **type)
    wh_status wh_type_create_hvector(int64_t count, int64_t blocklength, int64_t stride,
                                     const wh_type *old, wh_type **type)
    wh_status wh_type_create_indexed(int64_t count, const int64_t *blocklengths,
                                     const int64_t *displacements, const wh_type *old,
                                     wh_type **type)
    wh_status wh_type_create_hindexed(int64_t count, const int64_t *blocklengths,
                                      const int64_t *displacements, const wh_type *old,
                                      wh_type **type)
    wh_status wh_type_create_indexed_block(int64_t count, int64_t blocklength,
                                           const int64_t *displacements, const wh_type *old,
                                           wh_type **type)
    wh_status wh_type_create_hindexed_block(int64_t count, int64_t blocklength,
                                            const int64_t *displacements, const wh_type *old,
                                            wh_type **type)
    wh_status wh_type_create_struct(int64_t count, const int64_t *blocklengths,
                                    const int64_t *displacements, const wh_type **types,
                                    wh_type **type)
    wh_status wh_type_create_subarray(int ndims, const int64_t *sizes, const int64_t *subsizes,
                                      const int64_t *starts, wh_order order, const wh_type *old,
                                      wh_type **type)
    wh_status wh_type_create_darray(int64_t size, int64_t rank, int ndims, const int64_t *gsizes,
                                    const int64_t *distribs, const int64_t *dargs,
                                    const int64_t *psizes, wh_order order, const wh_type *old,
                                    wh_type **type)
    wh_status wh_type_create_resized(const wh_type *old, int64_t lb, int64_t extent,
                                     wh_type **type)
    wh_status wh_type_create_strided(int ndims, const int64_t *shape, const int64_t *strides,
                                     const wh_type *old, wh_type **type)
    wh_status wh_type_dup(const wh_type *old, wh_type **type)
    wh_status wh_type_commit(const wh_type *type)
    wh_type *wh_type_retain(wh_type *type)
    void wh_type_release(wh_type *type)
    int64_t wh_type_size(const wh_type *type)
    wh_status wh_type_get_info(const wh_type *type, wh_type_info *info)
    wh_status wh_type_get_envelope(const wh_type *type, wh_type_kind *kind, size_t *nargs,
                                   size_t *nchildren)
    wh_status wh_type_get_contents(const wh_type *type, size_t max_args, int64_t *args,
                                   size_t max_children, const wh_type **children)
    wh_status wh_type_equal(const wh_type *a, const wh_type *b, cbool *equal)
    wh_status wh_type_signature(const wh_type *type, int64_t count, uint64_t *hash,
                                int64_t *basics)
    wh_status wh_type_get_elements(const wh_type *type, int64_t size, int64_t *basics)
    wh_status wh_type_flatten(const wh_type *type, void *data, size_t max, size_t *actual)
    wh_status wh_type_unflatten(const void *data, size_t size, size_t *used, wh_type **type)

cdef extern from "<wherry/pack.h>" nogil:
    unsigned WH_PACK_CACHED
    unsigned WH_PACK_STREAM
    wh_status wh_pack(const void *buf, int64_t count, const wh_type *type, size_t offset,
                      void *packed, size_t max, unsigned flags, size_t *actual)
    wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count,
                        const wh_type *type, size_t offset, unsigned flags, size_t *actual)
    wh_status wh_pack_set_threads(unsigned count)
    ctypedef struct wh_cursor:
        pass
    wh_status wh_cursor_create(void *buf, int64_t count, const wh_type *type, unsigned flags,
                               wh_cursor **cursor)
    wh_status wh_cursor_pack(wh_cursor *cursor, size_t offset, void *packed, size_t max,
                             size_t *actual)
    wh_status wh_cursor_unpack(wh_cursor *cursor, size_t offset, const void *packed, size_t size,
                               size_t *actual)
    wh_status wh_cursor_flush(wh_cursor *cursor)
    void wh_cursor_destroy(wh_cursor *cursor)
    wh_status wh_type_copy(void *to, int64_t to_count, const wh_type *to_type, const void *source,
                           int64_t from_count, const wh_type *from_type, size_t *actual)
    wh_status wh_iov_len(int64_t count, const wh_type *type, int64_t *len)
    wh_status wh_iov_len_max(int64_t count, const wh_type *type, int64_t max_bytes, int64_t *len,
                             int64_t *bytes)
    wh_status wh_iov(const void *buf, int64_t count, const wh_type *type, int64_t first,
                     iovec *iov, int64_t max, int64_t *actual)
    wh_status wh_iov_bytes(const void *buf, int64_t count, const wh_type *type, size_t offset,
                           size_t max_bytes, iovec *iov, int64_t max, int64_t *actual,
                           size_t *bytes)
    ctypedef enum wh_reduce:
        WH_REDUCE_MAX
        WH_REDUCE_MIN
        WH_REDUCE_SUM
        WH_REDUCE_PROD
        WH_REDUCE_LAND
        WH_REDUCE_BAND
        WH_REDUCE_LOR
        WH_REDUCE_BOR
        WH_REDUCE_LXOR
        WH_REDUCE_BXOR
        WH_REDUCE_MINLOC
        WH_REDUCE_MAXLOC
        WH_REDUCE_REPLACE
        WH_REDUCE_NO_OP
    bint wh_reduce_defined(wh_reduce op, const wh_type *type)
    wh_status wh_accumulate(const void *packed, size_t size, void *buf, int64_t count,
                            const wh_type *type, size_t offset, wh_reduce op, size_t *actual)
    wh_status wh_pack_accumulate(const void *buf, int64_t count, const wh_type *type,
                                 size_t offset, void *packed, size_t max, wh_reduce op,
                                 size_t *actual)
    ctypedef struct wh_accumulator:
        pass
    wh_status wh_accumulator_create(void *buf, int64_t count, const wh_type *type, wh_reduce op,
                                    wh_accumulator **acc)
    wh_status wh_accumulator_add(wh_accumulator *acc, size_t offset, const void *packed,
                                 size_t size)
    size_t wh_accumulator_pending(const wh_accumulator *acc)
    void wh_accumulator_destroy(wh_accumulator *acc)
    int64_t wh_external_size(int64_t count, const wh_type *type)
    wh_status wh_external_pack(const void *buf, int64_t count, const wh_type *type, void *packed,
                               size_t max, size_t *actual)
    wh_status wh_external_unpack(const void *packed, size_t size, void *buf, int64_t count,
                                 const wh_type *type, size_t *actual)

# The X-lists, expanded by the C compiler: Cython does not see macros.
cdef extern from *:
    """
    #define NAME_OF(name, text) #name,
    static const char *const type_names[] = {WH_TYPE_LIST(NAME_OF)};
    #undef NAME_OF
    #define NAME_OF(name, number, text) #name,
    static const char *const status_names[] = {WH_STATUS_LIST(NAME_OF)};
    #undef NAME_OF
    #define NUMBER_OF(name, number, text) number,
    static const int status_numbers[] = {WH_STATUS_LIST(NUMBER_OF)};
    #undef NUMBER_OF
    enum { STATUSES = sizeof(status_numbers) / sizeof(status_numbers[0]) };
    """
    const char **type_names
    const char **status_names
    const int *status_numbers
    const int STATUSES
    # Sums of 64-bit products; C computes them, Cython only needs to know that it is an integer.
    ctypedef long long int128 "__int128"
