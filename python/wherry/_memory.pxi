# SPDX-License-Identifier: BSD-3-Clause
#
# Memory of Python objects, by the buffer protocol (PEP 3118): held for as long as C may touch it,
# and checked before it does.  Nobody must know the format of the elements, so that arrays whose
# element types the protocol cannot express (datetime64, bfloat16) are taken too.  And the integers
# that say which part of it: what is no integer raises TypeError, what C cannot take ValueError.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyBytes_Type, PyByteArray_Type, PyMemoryView_Type
    PyTypeObject *Py_TYPE(object obj)
    PyObject *PyErr_Occurred()
    enum:
        PyBUF_INDIRECT
    # As the C functions are: the error stays set, for the caller to look at.
    int get_buffer "PyObject_GetBuffer"(object obj, Py_buffer *view, int flags)
    uint64_t as_bits "PyLong_AsUnsignedLongLong"(object value)
    Py_buffer *PyMemoryView_GET_BUFFER(object view)


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


cdef object array_class = array
cdef object ndarray = None  # numpy's, once an array has come
cdef object good_dtype = None  # of the last one without pointers


cdef inline int check_elements(object obj, Py_buffer *view, str name) except -1:
    """Refuses memory whose bytes are not the data; each send and receive asks, so most pass quickly.

    The pointers of Python objects mean nothing elsewhere, and whoever writes others into them
    breaks this interpreter.  Of a masked array the memory is only half.
    """
    cdef PyTypeObject *kind = Py_TYPE(obj)
    if kind == &PyBytes_Type or kind == &PyByteArray_Type or kind == <PyTypeObject *>array_class:
        return 0
    if kind == &PyMemoryView_Type:
        return check_format(obj, PyMemoryView_GET_BUFFER(obj).format, name)
    if kind == <PyTypeObject *>ndarray and (view.itemsize < <Py_ssize_t>sizeof(void *)
                                            or obj.dtype is good_dtype):
        return 0
    return look_at_elements(obj, type(obj), view, name)


cdef int look_at_elements(object obj, object kind, Py_buffer *view, str name) except -1:
    global ndarray, good_dtype
    cdef Py_buffer asked
    dtype = getattr(obj, "dtype", None)
    if dtype is not None and hasattr(dtype, "hasobject"):
        if dtype.hasobject:
            raise TypeError(f"{name}: '{kind.__name__}' is of Python objects, whose memory has "
                            "only pointers")
        if hasattr(obj, "mask") and hasattr(obj, "filled"):
            raise TypeError(f"{name}: '{kind.__name__}' has a mask, which its memory does not tell "
                            "of; give its .data and its .mask, or .filled()")
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            ndarray, good_dtype = kind, dtype
    elif view.itemsize >= <Py_ssize_t>sizeof(void *):
        if get_buffer(obj, &asked, PyBUF_FORMAT | PyBUF_STRIDES) < 0:
            PyErr_Clear()  # it has no name for its elements
            return 0
        try:
            check_format(obj, asked.format, name)
        finally:
            PyBuffer_Release(&asked)
    return 0


cdef inline int check_format(object obj, const char *format, str name) except -1:
    """The same by PEP 3118, where names stand between colons."""
    if format == NULL or (format[0] == b"B" and format[1] == 0) or strchr(format, b"O") == NULL:
        return 0
    from re import sub
    if "O" in sub(":[^:]*:", "", format.decode("utf-8", "replace")):
        raise TypeError(f"{name}: '{type(obj).__name__}' is of Python objects, whose memory has "
                        "only pointers")
    return 0


cdef str instead(bint writable):
    """What to do with memory that is not contiguous."""
    if writable:
        return "; take contiguous memory, and copy from there"
    return "; bytes() of a memoryview and numpy.ascontiguousarray() of an array make a copy that is"


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
    if get_buffer(obj, &view, PyBUF_INDIRECT) < 0:
        PyErr_Clear()
    else:
        pointers = view.suboffsets != NULL
        PyBuffer_Release(&view)
        if pointers:
            raise has_suboffsets(obj, name)
    if not flags & PyBUF_STRIDES:
        # A memoryview that was released and the like refuse this, too, and say why.
        PyObject_GetBuffer(obj, &view, PyBUF_STRIDES)
        PyBuffer_Release(&view)
        raise ValueError(f"{name}: '{kind}' is not contiguous (C order){instead(flags & PyBUF_WRITABLE)}")


cdef object has_suboffsets(object obj, str name):
    return TypeError(f"{name}: '{type(obj).__name__}' is an array of pointers to its rows (suboffsets), which no "
                     "type describes; give the rows one by one, or bytes() of a memoryview of it")


cdef Memory hold(object obj, str name, int flags):
    cdef Memory memory = Memory.__new__(Memory)
    try:
        PyObject_GetBuffer(obj, &memory.view, flags)
    except Exception:
        refuse(obj, name, flags)
        raise
    memory.held = True
    check_elements(obj, &memory.view, name)
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
    if view.strides == NULL:  # as ctypes gives its arrays, whatever one asks for: C order
        memory.high = view.len
        return memory
    memory.high = view.itemsize
    for i in range(view.ndim):
        reach = (view.shape[i] - 1) * view.strides[i]
        if reach < 0:
            memory.low += reach
        else:
            memory.high += reach
    return memory


cdef object within(object value, str name, object low, object high):
    """An integer from `low` to `high`.  A float is none, even if it is whole."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r:.60}: an integer is needed") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}: {low} to {high}")
    return number


cdef int64_t whole(object value, str name) except? -1:
    return within(value, name, INT64_MIN, INT64_MAX)


cdef int64_t size_of(object value, str name) except -1:
    """A number of bytes, or where they begin."""
    return within(value, name, 0, INT64_MAX)


cdef inline uint64_t bits_of(object value, str name) except? 0:
    """64 bits, such as a tag.  Each send and receive asks for one."""
    cdef uint64_t bits
    if type(value) is int:
        bits = as_bits(value)
        if bits != UINT64_MAX or PyErr_Occurred() == NULL:
            return bits
        PyErr_Clear()
    return within(value, name, 0, UINT64_MAX)


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
        raise ValueError(f"{name}: a number is not within {INT64_MIN} to {INT64_MAX}") from None
    return made


cdef const int64_t *numbers_at(object made) except? NULL:
    """Where an array of ``numbers`` has them."""
    return <const int64_t *><uintptr_t>made.buffer_info()[0]
