# SPDX-License-Identifier: BSD-3-Clause

# In the order of wh_type_kind.
KINDS = ("basic", "dup", "contig", "vector", "hvector", "indexed", "hindexed", "indexed_block",
         "hindexed_block", "struct", "subarray", "darray", "resized", "strided")


cdef class Type:
    """Where the bytes of one element lie in memory, and in which order they are packed.

    Never changes: any number of threads may use one.  Made by the functions of
    :mod:`wherry.types`, not by calling the class.  Two types are equal when they select the same
    bytes in the same order with the same bounds and the same type classes (``INT`` equals
    ``INT32``), however they were made.  Types can be pickled.
    """

    cdef wh_type *c
    cdef wh_type_info known
    cdef bint asked

    def __dealloc__(self):
        wh_type_release(self.c)

    cdef wh_type_info *info(self) except NULL:
        if not self.asked:
            self.known.size = sizeof(self.known)
            check(wh_type_get_info(self.c, &self.known))
            self.asked = True
        return &self.known

    def commit(self):
        """Does now what the first use would do: choose how to pack.  Returns the type itself."""
        check(wh_type_commit(self.c))
        return self

    @property
    def size(self):
        """Packed bytes of one element."""
        return wh_type_size(self.c)

    @property
    def extent(self):
        """Bytes from one element to the next."""
        return self.info().extent

    @property
    def lb(self):
        """Lower bound in bytes from the origin."""
        return self.info().lb

    @property
    def ub(self):
        """Upper bound: ``lb + extent``."""
        return self.info().lb + self.info().extent

    @property
    def true_lb(self):
        """The lowest byte that is touched, from the origin."""
        return self.info().true_lb

    @property
    def true_extent(self):
        """Bytes from the lowest to the highest that is touched, inclusive."""
        return self.info().true_extent

    @property
    def basics(self):
        """Predefined elements in it; a pair counts as two."""
        return self.info().basics

    @property
    def runs(self):
        """Contiguous runs of bytes, in packing order, as long as they go."""
        return self.info().runs

    @property
    def align(self):
        """The strictest alignment among its elements, in bytes."""
        return self.info().align

    @property
    def kind(self):
        """How it was made: the name of the function, or ``"basic"``."""
        return self.envelope[0]

    @property
    def envelope(self):
        """``(kind, number of arguments, number of children)``."""
        cdef wh_type_kind kind
        cdef size_t nargs, nchildren
        check(wh_type_get_envelope(self.c, &kind, &nargs, &nchildren))
        return KINDS[<int>kind], nargs, nchildren

    @property
    def contents(self):
        """``(arguments, children)``: tuples of the integers and the types that it was made of.

        The arguments are in the order of docs/reference/type.md, arrays element by element.
        """
        _, nargs, nchildren = self.envelope
        args = array("q", bytes(8 * nargs))
        # Addresses of the children, borrowed from this type.
        children = array("q", bytes(8 * nchildren))
        check(wh_type_get_contents(self.c, nargs, <int64_t *>numbers_at(args), nchildren,
                                   <const wh_type **>numbers_at(children)))
        return tuple(args), tuple([
            wrap(wh_type_retain(<wh_type *><uintptr_t>child)) for child in children])

    def same_layout(self, Type other not None):
        """Whether both select the same bytes in the same order with the same bounds.

        Unlike ``==`` it does not ask what the bytes are: ``FLOAT`` and ``INT32`` agree.  Both raise
        LimitError for types that were made differently and still agree after 2^26 runs.
        """
        cdef cbool equal = False
        check(wh_type_equal(self.c, other.c, &equal))
        return bool(equal)

    def signature(self, count=1):
        """``(hash, number of elements)`` of the sequence of type classes and widths.

        The layouts of a sender and a receiver fit together when both are the same.
        """
        cdef uint64_t value = 0
        cdef int64_t basics = 0
        check(wh_type_signature(self.c, whole(count, "count"), &value, &basics))
        return value, basics

    def elements(self, size):
        """How many predefined elements the first `size` packed bytes hold.

        Raises InvalidError when they end inside one.
        """
        cdef int64_t basics = 0
        check(wh_type_get_elements(self.c, whole(size, "size"), &basics))
        return basics

    def border(self, size):
        """The last byte at or below `size` packed bytes at which no predefined element is cut.

        Who cuts packed bytes into chunks that are to be combined or converted, each as it arrives, cuts
        it there.  A pair stays whole.
        """
        cdef int64_t border = 0
        check(wh_type_get_border(self.c, whole(size, "size"), &border, NULL))
        return border

    def flatten(self):
        """The type as bytes that any machine and any later version understands."""
        cdef size_t size = 0
        cdef wh_status status = wh_type_flatten(self.c, NULL, 0, &size)
        if status != WH_ETRUNCATED:
            check(status)
        data = PyBytes_FromStringAndSize(NULL, size)
        check(wh_type_flatten(self.c, PyBytes_AS_STRING(data), size, &size))
        return data

    def __eq__(self, other):
        if not isinstance(other, Type):
            return NotImplemented
        return self.signature() == other.signature() and self.same_layout(other)

    def __hash__(self):
        cdef wh_type_info *info = self.info()
        return hash((info.packed_size, info.lb, info.extent, info.true_lb, info.true_extent,
                     self.signature()))

    def __reduce__(self):
        return unflatten, (self.flatten(),)

    def __repr__(self):
        kind = self.kind
        if kind == "basic":
            kind = type_names[self.contents[0][0]].decode()
        return f"<wherry.types.Type {kind}: {self.size} bytes>"


cdef Type wrap(wh_type *c):
    """Takes over the caller's reference."""
    cdef Type made = Type.__new__(Type)
    made.c = c
    return made


def unflatten(data):
    """The type that ``Type.flatten`` wrote.

    `data` is any contiguous buffer.  Raises ProtocolError for other bytes, VersionError for a later
    format.
    """
    cdef Memory memory = hold_dense(data, "data", False)
    cdef wh_type *made = NULL
    check(wh_type_unflatten(memory.address(), memory.view.len, NULL, &made))
    return wrap(made)


# Name -> predefined type, in the order of their ids.
BASIC = {type_names[i].decode(): wrap(<wh_type *>wh_type_basic(<wh_type_id>i))
         for i in range(<int>WH_TYPE_IDS)}
