# SPDX-License-Identifier: BSD-3-Clause
#
# A buffer seen through a type: what messages are made of where strides do not say it.


@cython.final
cdef class View:
    """`count` elements of `type` in a buffer, for ``Endpoint.send``, ``recv`` and all others that
    take a buffer.

    buf: what ``Endpoint.send`` takes.
    type, count: the elements lie one extent apart.
    origin: where in `buf` the type's origin is, in bytes from its first element.

    It holds `buf`, but not its memory: that is asked for, and checked, by each operation.
    """

    cdef object memory
    cdef Type of
    cdef int64_t elements, start

    def __cinit__(self, buf, Type type not None, count=1, *, origin=0):
        if isinstance(buf, View):
            raise TypeError("buf: a View of a View; give the buffer itself")
        self.memory = buf
        self.of = type
        self.elements = size_of(count, "count")
        self.start = whole(origin, "origin")

    @property
    def buf(self):
        """The buffer."""
        return self.memory

    @property
    def type(self):
        """The type of its elements."""
        return self.of

    @property
    def count(self):
        """How many there are."""
        return self.elements

    @property
    def origin(self):
        """Bytes from the first element of the buffer to the origin of the type."""
        return self.start

    def __repr__(self):
        return f"<View of {self.elements} x {self.of!r} in '{type(self.memory).__name__}'>"


cdef inline object seen_as(object buf, Type type, object count, object origin):
    """What a call's buffer is with the `type`, `count` and `origin` that were given along."""
    if type is not None:
        return View(buf, type, count, origin=origin)
    if count != 1 or origin != 0:
        raise TypeError("count and origin go with a type; give type=, too")
    return buf


cdef Hold hold_view(View asked, bint writable, object stream):
    """The memory of a View; ValueError if a part of the layout lies outside of it."""
    cdef Hold under = hold_message(asked.memory, writable, stream)
    cdef Hold made = Hold.__new__(Hold)
    cdef wh_type_info known
    cdef int64_t low = 0, high = under.size
    if under.type != NULL:
        known.size = sizeof(known)
        check(wh_type_get_info(under.type, &known))
        low, high = known.true_lb, known.true_lb + known.true_extent
    made.size = packed_within(asked.of, asked.elements, asked.start, low, high, "buf")
    made.data = under.data + asked.start
    made.type = wh_type_retain(asked.of.c)
    made.count = asked.elements
    made.device = under.device
    made.stream = under.stream
    made.keep = under
    return made
