# SPDX-License-Identifier: BSD-3-Clause
#
# Packing.  Before C is called, the whole layout is known to lie within the buffer, so that no
# argument can make it touch foreign memory.

# Bytes from which on other threads may run meanwhile.  Below, giving the interpreter's lock away
# and getting it back costs more than it gives.
cdef enum:
    RELEASE = 65536

HINTS = {None: 0, "cached": <int>WH_PACK_CACHED, "stream": <int>WH_PACK_STREAM}


cdef unsigned flags_of(object hint) except *:
    if hint not in HINTS:
        raise ValueError(f"hint is {hint!r}: give None, 'cached' or 'stream'")
    return HINTS[hint]


cdef Type bytes_of(Memory memory):
    """The type that stands for all bytes of a buffer, elements in C order."""
    cdef Py_buffer *view = &memory.view
    cdef wh_type *made = NULL
    if is_dense(view):
        check(wh_type_create_contig(view.len, wh_type_basic(WH_TYPE_BYTE), &made))
        return wrap(made)
    return wrap(array_type(view.ndim, view.shape, view.strides, view.itemsize))


cdef class Layout:
    """Elements of a type in a buffer: what every call here is about."""

    cdef Memory memory
    cdef Type type
    cdef int64_t count, total  # total: packed bytes
    cdef char *origin


cdef Layout lay(object buf, str name, Type type, object count, object origin, bint writable):
    cdef Layout made = Layout.__new__(Layout)
    cdef int64_t n = size_of(count, "count"), start = whole(origin, "origin")
    made.memory = hold_strided(buf, name, writable)
    made.type = type if type is not None else bytes_of(made.memory)
    made.count = n
    made.origin = made.memory.address() + start
    made.total = packed_within(made.type, n, start, made.memory.low, made.memory.high, name)
    return made


cdef int64_t packed_within(Type type, int64_t n, int64_t start, int64_t first, int64_t end,
                           str name) except -1:
    """The packed bytes of `n` elements at `start`, all of which must lie from byte `first` to byte
    `end` of a buffer."""
    cdef wh_type_info *info = type.info()
    cdef int128 low, high, last = <int128>info.packed_size * n
    if last > <int128>0x7fffffffffffffff:
        raise ValueError(f"count is {n}: there are more than 2^63 packed bytes")
    cdef int64_t total = <int64_t>last
    if total == 0:
        return 0
    last = <int128>info.extent * (n - 1)
    low = <int128>start + info.true_lb + (last if last < 0 else 0)
    high = <int128>start + info.true_lb + info.true_extent + (last if last > 0 else 0)
    if low < first or high > end:
        raise ValueError(
            f"{n} x {type!r} at origin {start} needs bytes {number(low)} to {number(high)} of "
            f"{name}, which has {first} to {end}")
    return total


cdef object number(int128 value):
    """For messages; the few values beyond 64 bits are clipped to them."""
    cdef int64_t limit = 0x7fffffffffffffff
    return limit if value > limit else -limit if value < -limit else <int64_t>value


cdef int64_t part_of(Layout layout, object offset, object size) except -1:
    """How many packed bytes are asked for, cut at their end."""
    cdef int64_t first = size_of(offset, "offset"), rest
    if first > layout.total:
        raise ValueError(f"offset is {first}, but there are {layout.total} packed bytes")
    rest = layout.total - first
    if size is None:
        return rest
    return min(rest, size_of(size, "size"))


cdef size_t move_out(Layout layout, size_t offset, char *packed, size_t size,
                     unsigned flags) except? 0:
    cdef size_t actual = 0
    cdef wh_status status
    cdef const wh_type *c = layout.type.c
    if size >= RELEASE:
        with nogil:
            status = wh_pack(layout.origin, layout.count, c, offset, packed, size, flags, &actual)
    else:
        status = wh_pack(layout.origin, layout.count, c, offset, packed, size, flags, &actual)
    check(status)
    return actual


def pack(buf, Type type=None, count=1, *, offset=0, size=None, origin=0, hint=None):
    """Packed bytes `offset` to ``offset + size``, as ``bytes``.

    buf: any object with the buffer protocol, of any strides.
    type, count: `count` elements of `type`, one extent apart.  Without a type: all bytes of the
        elements of `buf` in C order, padding included.
    offset, size: in packed bytes; without a size to the end.  Less only at their end.
    origin: where in `buf` the type's origin is, in bytes from its first element.
    hint: who reads the result next: ``"cached"`` this core, ``"stream"`` a device or a far core.

    Raises TypeError when `buf` is no buffer, ValueError when the layout leaves it or `offset` lies
    beyond their end.
    """
    cdef Layout layout = lay(buf, "buf", type, count, origin, False)
    cdef int64_t n = part_of(layout, offset, size)
    cdef unsigned flags = flags_of(hint)
    packed = PyBytes_FromStringAndSize(NULL, n)
    if n:
        move_out(layout, size_of(offset, "offset"), PyBytes_AS_STRING(packed), n, flags)
    return packed


def pack_into(out, buf, Type type=None, count=1, *, offset=0, origin=0, hint=None):
    """As ``pack``, into the contiguous writable buffer `out`; returns the bytes written.

    They are as many as `out` holds, or less at the end of the packed bytes.  `out` and `buf` must not
    overlap.
    """
    cdef Layout layout = lay(buf, "buf", type, count, origin, False)
    cdef Memory packed = hold_dense(out, "out", True)
    cdef int64_t n = part_of(layout, offset, packed.view.len)
    cdef unsigned flags = flags_of(hint)
    return move_out(layout, size_of(offset, "offset"), packed.address(), n, flags) if n else 0


def unpack(packed, buf, Type type=None, count=1, *, offset=0, origin=0, hint=None):
    """Copies `packed`, the packed bytes from `offset` on, into the layout.

    packed: a contiguous buffer of bytes.
    buf: a writable buffer of any strides; type, count, origin as for ``pack``.

    Returns the bytes used: all, or less at their end.  Segments may come in any order
    and cut elements.  Raises TypeError when `buf` is read-only, ValueError when the layout leaves
    it.
    """
    cdef Layout layout = lay(buf, "buf", type, count, origin, True)
    cdef Memory source = hold_dense(packed, "packed", False)
    cdef size_t n = part_of(layout, offset, source.view.len), actual = 0
    cdef size_t first = size_of(offset, "offset")
    cdef unsigned flags = flags_of(hint)
    cdef wh_status status
    if n >= RELEASE:
        with nogil:
            status = wh_unpack(source.view.buf, n, layout.origin, layout.count, layout.type.c,
                               first, flags, &actual)
    elif n:
        status = wh_unpack(source.view.buf, n, layout.origin, layout.count, layout.type.c, first,
                           flags, &actual)
    else:
        return 0
    check(status)
    return actual


def copy(to, Type to_type, source, Type from_type, *, to_count=1, from_count=1, to_origin=0,
         from_origin=0):
    """Copies between two layouts without a buffer of the message's size; returns the packed bytes.

    None instead of a type is as in ``pack``.  The smaller of the two packed sizes is moved.  The two
    must not overlap.
    """
    cdef Layout into = lay(to, "to", to_type, to_count, to_origin, True)
    cdef Layout of = lay(source, "source", from_type, from_count, from_origin, False)
    cdef size_t actual = 0
    cdef wh_status status
    if into.total == 0 or of.total == 0:
        return 0
    with nogil:
        status = wh_type_copy(into.origin, into.count, into.type.c, of.origin, of.count, of.type.c,
                              &actual)
    check(status)
    return actual


def set_threads(count):
    """How many helper threads this process keeps for moves of many megabytes; 0 to begin with."""
    check(wh_pack_set_threads(within(count, "count", 0, UINT_MAX)))


def external_size(Type type not None, count=1):
    """Bytes of `count` elements in external32, the portable representation of the MPI standard."""
    cdef int64_t size = wh_external_size(whole(count, "count"), type.c)
    if size < 0:
        raise ValueError(f"count is {count}: no size for that")
    return size


def external_pack(buf, Type type not None, count=1, *, origin=0):
    """All elements converted to external32 (big-endian), as ``bytes``."""
    cdef Layout layout = lay(buf, "buf", type, count, origin, False)
    cdef size_t actual = 0
    cdef int64_t size = external_size(type, count)
    cdef wh_status status
    packed = PyBytes_FromStringAndSize(NULL, size)
    cdef char *to = PyBytes_AS_STRING(packed)
    with nogil:
        status = wh_external_pack(layout.origin, layout.count, layout.type.c, to, size, &actual)
    check(status)
    return packed


def external_unpack(packed, buf, Type type not None, count=1, *, origin=0):
    """Converts external32 bytes into the layout; returns the bytes used.

    Raises TruncatedError when `packed` holds fewer than ``external_size(type, count)``.
    """
    cdef Layout layout = lay(buf, "buf", type, count, origin, True)
    cdef Memory source = hold_dense(packed, "packed", False)
    cdef size_t actual = 0
    cdef wh_status status
    with nogil:
        status = wh_external_unpack(source.view.buf, source.view.len, layout.origin, layout.count,
                                    layout.type.c, &actual)
    check(status)
    return actual
