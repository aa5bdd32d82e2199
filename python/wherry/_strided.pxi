# SPDX-License-Identifier: BSD-3-Clause
#
# Types of arrays that are not dense, by shape and strides: every element is a block of bytes, and
# they are packed in C order of their indices.
#
# Making a type and planning its moves takes longer than sending a small message, and programs send
# the same few shapes again and again.  So the types of the last shapes are kept, each in the place
# that its numbers choose; a newcomer takes the place of who is there.  The interpreter's lock guards
# them.

cdef enum:
    DIMS_MAX = 64    # of a buffer (PEP 3118) and of numpy
    KEPT_DIMS = 4    # arrays of more get their type made each time
    KEPT_BITS = 5    # of the number of a place
    KEPT_TYPES = 1 << KEPT_BITS

cdef struct kept_type:
    int ndim
    Py_ssize_t itemsize
    Py_ssize_t shape[KEPT_DIMS]
    Py_ssize_t strides[KEPT_DIMS]
    wh_type *type  # NULL: an empty place

cdef kept_type kept_types[KEPT_TYPES]


cdef inline bint is_dense(const Py_buffer *view):
    """Whether the elements lie one behind the other in C order; most have one dimension."""
    if view.strides == NULL:  # ctypes' arrays, whatever one asks for
        return True
    if view.ndim == 1 and view.strides[0] == view.itemsize and view.suboffsets == NULL:
        return True
    return PyBuffer_IsContiguous(<Py_buffer *>view, b"C")


cdef int check_dims(int ndim) except -1:
    if ndim > DIMS_MAX:
        raise ValueError(f"buf: it is not contiguous and has {ndim} dimensions: {<int>DIMS_MAX} at most")
    return 0


cdef wh_type *make_array_type(int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                              Py_ssize_t itemsize) except NULL:
    """The bytes of an element are one more dimension: one type to make instead of two."""
    check_dims(ndim)
    cdef int64_t counts[DIMS_MAX + 1]
    cdef int64_t steps[DIMS_MAX + 1]
    cdef wh_type *made = NULL
    cdef int i
    for i in range(ndim):
        counts[i] = shape[i]
        steps[i] = strides[i]
    counts[ndim] = itemsize
    steps[ndim] = 1
    check(wh_type_create_strided(ndim + 1, counts, steps, wh_type_basic(WH_TYPE_BYTE), &made))
    return made


cdef inline kept_type *place_for(int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                                 Py_ssize_t itemsize):
    cdef uint64_t mixed = <uint64_t>itemsize
    cdef int i
    for i in range(ndim):
        mixed = (mixed * 31 + <uint64_t>shape[i]) * 31 + <uint64_t>strides[i]
    # The upper bits of a product depend on all of its factors' bits; strides are round numbers.
    return &kept_types[(mixed * 0x9E3779B97F4A7C15u) >> (64 - KEPT_BITS)]


cdef inline bint is_kept(const kept_type *kept, int ndim, const Py_ssize_t *shape,
                         const Py_ssize_t *strides, Py_ssize_t itemsize):
    cdef int i
    if kept.type == NULL or kept.ndim != ndim or kept.itemsize != itemsize:
        return False
    for i in range(ndim):
        if kept.shape[i] != shape[i] or kept.strides[i] != strides[i]:
            return False
    return True


cdef wh_type *array_type(int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                         Py_ssize_t itemsize) except NULL:
    """The type of an array whose address is that of its element with all indices 0.  It is the
    caller's to release."""
    cdef kept_type *kept
    cdef wh_type *made
    cdef int i
    if ndim > KEPT_DIMS:
        return make_array_type(ndim, shape, strides, itemsize)
    kept = place_for(ndim, shape, strides, itemsize)
    if not is_kept(kept, ndim, shape, strides, itemsize):
        made = make_array_type(ndim, shape, strides, itemsize)
        wh_type_release(kept.type)
        kept.type = made
        kept.ndim = ndim
        kept.itemsize = itemsize
        for i in range(ndim):
            kept.shape[i] = shape[i]
            kept.strides[i] = strides[i]
    return wh_type_retain(kept.type)


cdef bint may_overlap(int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                      Py_ssize_t itemsize):
    """Whether elements may lie over each other.

    What slicing, reversing and transposing make of an array has strides each of which spans all
    that the smaller ones reach.  A stride of 0 does not, nor do windows that slide by less than
    their size.
    """
    cdef int128 reach = itemsize, step, least = 0
    cdef uint64_t seen = 0
    cdef int i, found
    while True:
        found = -1
        for i in range(ndim):
            step = -<int128>strides[i] if strides[i] < 0 else strides[i]
            if shape[i] > 1 and not seen >> i & 1 and (found < 0 or step < least):
                found = i
                least = step
        if found < 0:
            return False
        if least < reach:
            return True
        seen |= <uint64_t>1 << found
        reach += least * (shape[found] - 1)


cdef wh_type *layout_of(object obj, int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                        Py_ssize_t itemsize, bint writable) except NULL:
    """The type of an array that a message comes from or goes to."""
    if writable and may_overlap(ndim, shape, strides, itemsize):
        raise ValueError(
            f"buf: elements of '{type(obj).__name__}' overlap (shape {values_of(ndim, shape)}, "
            f"strides {values_of(ndim, strides)}), so that they cannot all be received; receive "
            "into an array of its own, and copy from there")
    return array_type(ndim, shape, strides, itemsize)


cdef tuple values_of(int ndim, const Py_ssize_t *values):
    return tuple([values[i] for i in range(ndim)])


cdef wh_type *layout_of_view(object obj, const Py_buffer *view, bint writable) except NULL:
    if view.suboffsets != NULL:
        raise has_suboffsets(obj, "buf")
    check_dims(view.ndim)
    return layout_of(obj, view.ndim, view.shape, view.strides, view.itemsize, writable)
