# SPDX-License-Identifier: BSD-3-Clause
#
# Memory of Python objects, by the buffer protocol (PEP 3118): held for as long as C may touch it,
# and checked before it does.  The format of the elements is never asked for, so that arrays whose
# element types the protocol cannot express (datetime64, bfloat16) are taken too.

cdef class Memory:
    """Holds a buffer; knows where its first element is and which bytes around it it spans."""

    cdef Py_buffer view
    cdef bint held
    cdef int64_t low, high  # the bytes spanned, counted from the first element

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef char *address(self):
        return <char *>self.view.buf


cdef refuse(object obj, str name, int flags):
    """Finds out why an object did not give its buffer, and raises that."""
    kind = type(obj).__name__
    if not PyObject_CheckBuffer(obj):
        raise TypeError(f"{name}: '{kind}' has no buffer protocol; "
                        "give bytes, bytearray, memoryview or a numpy array")
    cdef Py_buffer view
    if flags & PyBUF_WRITABLE:
        try:
            PyObject_GetBuffer(obj, &view, flags & ~PyBUF_WRITABLE)
        except Exception:
            pass
        else:
            PyBuffer_Release(&view)
            raise TypeError(f"{name}: '{kind}' is read-only")
    if not flags & PyBUF_STRIDES:
        raise ValueError(f"{name}: '{kind}' is not contiguous (C order)")


cdef Memory hold(object obj, str name, int flags):
    cdef Memory memory = Memory.__new__(Memory)
    try:
        PyObject_GetBuffer(obj, &memory.view, flags)
    except Exception:
        refuse(obj, name, flags)
        raise
    memory.held = True
    return memory


cdef Memory hold_dense(object obj, str name, bint writable):
    """A buffer of packed bytes: contiguous; its size is ``view.len``."""
    return hold(obj, name, PyBUF_SIMPLE | (PyBUF_WRITABLE if writable else 0))


cdef Memory hold_strided(object obj, str name, bint writable):
    """A buffer with a layout in it: any strides; from ``low`` to ``high`` it may be touched."""
    cdef Memory memory = hold(obj, name, PyBUF_STRIDES | (PyBUF_WRITABLE if writable else 0))
    cdef Py_buffer *view = &memory.view
    cdef int64_t reach
    cdef int i
    if view.len == 0:
        return memory
    memory.high = view.itemsize
    for i in range(view.ndim):
        reach = (view.shape[i] - 1) * view.strides[i]
        if reach < 0:
            memory.low += reach
        else:
            memory.high += reach
    return memory


cdef int64_t not_negative(int64_t value, str name) except -1:
    if value < 0:
        raise ValueError(f"{name} is {value}, below 0")
    return value


cdef object numbers(object values, str name):
    """64-bit integers in a row: an array('q') of its own, whatever they came in."""
    made = array("q")
    # An index of a million blocks comes as a numpy array: not one by one through Python integers.
    if PyObject_CheckBuffer(values):
        view = memoryview(values)
        if view.ndim == 1 and view.itemsize == 8 and view.format in ("q", "l"):
            made.frombytes(view.tobytes())
            return made
    try:
        made.extend(map(index, values))
    except TypeError:
        raise TypeError(f"{name}: a sequence of integers is needed, not {values!r:.60}") from None
    except OverflowError:
        raise OverflowError(f"{name}: a number does not fit into 64 bits") from None
    return made


cdef const int64_t *numbers_at(object made) except? NULL:
    """Where an array of ``numbers`` has them."""
    return <const int64_t *><uintptr_t>made.buffer_info()[0]
