# SPDX-License-Identifier: BSD-3-Clause
#
# Handles for one message in many segments.  They hold their buffer until they are closed.  C allows
# one thread at a time, and Python's lock is given away meanwhile: `busy` turns a second one away.

cdef class Segments:
    """What both handles share: the layout, one thread at a time, ``with``; each brings its _end."""

    cdef Layout layout
    cdef bint busy

    cdef int enter(self) except -1:
        if self.layout is None:
            raise ValueError(f"the {type(self).__name__} is closed")
        if self.busy:
            raise RuntimeError(f"another thread uses this {type(self).__name__}")
        self.busy = True
        return 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._end(kind is None)

    def close(self):
        """Ends it and gives the buffer back; a second time does nothing."""
        self._end(True)


cdef class Cursor(Segments):
    """Packs or unpacks one message in segments, in any order; ascending is fast.

    Does what ``pack`` and ``unpack`` do with an offset, but sees the message as a whole, which is
    several times faster where segments cut through rows that share lines of memory (a transpose).
    The arguments are those of ``pack``; `writable` for unpacking.  The buffer may be read before
    its segment is asked for, and is written at the latest by ``flush`` or ``close``::

        with Cursor(matrix.T, writable=True) as cursor:
            for offset, data in incoming:
                cursor.unpack(offset, data)
    """

    cdef wh_cursor *c
    cdef bint writable

    def __cinit__(self, buf, Type type=None, count=1, *, origin=0, hint=None, writable=False):
        cdef Layout layout = lay(buf, "buf", type, count, origin, writable)
        check(wh_cursor_create(layout.origin, layout.count, layout.type.c, flags_of(hint), &self.c))
        self.layout = layout
        self.writable = writable

    def __dealloc__(self):
        wh_cursor_destroy(self.c)

    def pack_into(self, offset, out):
        """Fills `out` from packed byte `offset` on; returns the bytes written."""
        cdef Memory packed = hold_dense(out, "out", True)
        cdef size_t first = size_of(offset, "offset"), actual = 0
        cdef wh_status status
        self.enter()
        with nogil:
            status = wh_cursor_pack(self.c, first, packed.view.buf, packed.view.len, &actual)
        self.busy = False
        check(status)
        return actual

    def unpack(self, offset, packed):
        """Takes the segment that begins at packed byte `offset`; returns the bytes used."""
        cdef Memory source = hold_dense(packed, "packed", False)
        cdef size_t first = size_of(offset, "offset"), actual = 0
        cdef wh_status status
        if not self.writable:
            raise TypeError("the Cursor was not made with writable=True")
        self.enter()
        with nogil:
            status = wh_cursor_unpack(self.c, first, source.view.buf, source.view.len, &actual)
        self.busy = False
        check(status)
        return actual

    def flush(self):
        """Brings to its place what was kept back, and forgets what was read ahead."""
        cdef wh_status status
        self.enter()
        with nogil:
            status = wh_cursor_flush(self.c)
        self.busy = False
        check(status)

    def _end(self, whole):
        if self.layout is None:
            return
        if whole and self.writable:
            self.flush()
        self.enter()
        wh_cursor_destroy(self.c)
        self.c = NULL
        self.layout = None
        self.busy = False


cdef class Accumulator(Segments):
    """Combines the segments of one message into a layout: in any order, cutting elements anywhere.

    The arguments are those of ``accumulate``.
    """

    cdef wh_accumulator *c

    def __cinit__(self, buf, Type type not None, op, count=1, *, origin=0):
        cdef Layout layout = lay(buf, "buf", type, count, origin, True)
        check(wh_accumulator_create(layout.origin, layout.count, layout.type.c, reduce_of(op),
                                    &self.c))
        self.layout = layout

    def __dealloc__(self):
        wh_accumulator_destroy(self.c)

    def add(self, offset, packed):
        """Takes the segment that begins at byte `offset`.  No packed byte may come twice."""
        cdef Memory source = hold_dense(packed, "packed", False)
        cdef size_t first = size_of(offset, "offset")
        cdef wh_status status
        self.enter()
        with nogil:
            status = wh_accumulator_add(self.c, first, source.view.buf, source.view.len)
        self.busy = False
        check(status)

    @property
    def pending(self):
        """Bytes that wait for the rest of their element."""
        return wh_accumulator_pending(self.c)

    def _end(self, whole):
        if self.layout is None:
            return
        self.enter()
        wh_accumulator_destroy(self.c)
        self.c = NULL
        self.layout = None
        self.busy = False
