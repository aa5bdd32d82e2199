# SPDX-License-Identifier: BSD-3-Clause
#
# Python objects as bytes.  Each value is a letter and what it says; what no letter is for is pickled, all such values of a
# message together, so that what they share stays shared.
#
#     count, then of each value:
#       N T F     None, True, False
#       i f       an integer of 64 bits, a double
#       b y m s   bytes, bytearray, memoryview, str: length and bytes
#       a         a numpy array: its type's text, its shape, its bytes
#       A         the same, but its bytes are a message of their own, behind this one: a large one's of a channel
#       d         an array on a device, see _device.py
#       D         the same, but its bytes are a message of their own: what it is, its size; in a channel, see _buffers.pxi
#       p         the next one of those that were pickled
#       w         the next one of those beside the message, see _buffers.pxi
#     and, if there is a p: length and pickle, count of buffers, of each length and bytes.

cdef enum:
    DIMS_MAX = 64       # numpy's
    TYPE_TEXT_MAX = 16  # of a plain type, such as "<f8"

cdef object ndarray = None  # numpy's class, once somebody has imported numpy


cdef object numpy_array():
    global ndarray
    if ndarray is None and "numpy" in modules:
        ndarray = getattr(modules["numpy"], "ndarray", None)
    return ndarray


def plain_type(text):
    """Whether a type of numpy's is one number: those go without pickle."""
    return len(text) <= TYPE_TEXT_MAX and text[0] in "<>|=" and text[1] in "biufc" and text[2:].isdigit()


cdef dict plain_types = {}  # type -> its text's bytes, or None: it is not plain
cdef dict read_types = {}   # its bytes -> the type
cdef object last_type = None  # of the array before, and its text
cdef bytes last_text = None


cdef bytes type_bytes(object dtype):
    """By the type itself: to make its text takes longer than to send a small array."""
    global last_type, last_text
    if dtype is last_type:
        return last_text
    found = plain_types.get(dtype)
    last_type, last_text = dtype, found
    if found is not None or dtype in plain_types:
        return found
    text = dtype.str
    found = text.encode("ascii") if plain_type(text) else None
    if len(plain_types) < 1000:
        plain_types[dtype] = found
    last_text = found
    return found


cdef object type_of(bytes text):
    found = read_types.get(text)
    if found is None:
        name = text.decode("ascii", "replace")
        try:
            if not plain_type(name):
                raise TypeError
            from numpy import dtype
            found = dtype(name)
        except (TypeError, IndexError):
            raise bad_message(f"{name!r} is no type of an array") from None
        if len(read_types) < 1000:
            read_types[text] = found
    return found


cdef bint put_array(writer *to, object array) except -1:
    """Writes a numpy array; False where only pickle can."""
    cdef bytes text
    cdef Py_buffer view
    cdef part *one
    cdef int i
    text = type_bytes(array.dtype)
    if text is None:
        return False
    if get_buffer(array, &view, PyBUF_C_CONTIGUOUS) != 0:
        PyErr_Clear()
        if array.flags.f_contiguous:
            return False  # its order stays with pickle
        array = array.copy()
        PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS)
    cdef bint apart = to.apart and view.len >= PART_MIN
    try:
        put_u8(to, c'A' if apart else c'a')
        put_u8(to, len(text))
        put(to, <const char *>text, len(text))
        put_u8(to, view.ndim)
        for i in range(view.ndim):
            put_u64(to, view.shape[i])
        if apart:
            one = new_part(view.len, True)
            memcpy(one.data, view.buf, view.len)
            add_part(to, one)
        else:
            put(to, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return True


@cython.no_gc
cdef class Landing:
    """Memory of an array that comes apart."""

    cdef char *data
    cdef Py_ssize_t size
    cdef object array  # on a device, whose memory it is; None: it is the host's, and this one's

    def __cinit__(self, size_t size, array=None):
        self.size, self.array = size, array
        self.data = new_pages(size) if array is None else address_of(array)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)

    def __dealloc__(self):
        if self.array is None:
            free(self.data)

    cdef bytes content(self):
        return self.data[:self.size] if self.array is None else bytes(to_host(self.array)[1])

    cdef int fill(self, bytes content) except -1:
        if len(content) != self.size:
            raise bad_message("an array that has come has another length")
        if self.array is None:
            memcpy(self.data, <const char *>content, self.size)
        else:
            fill(self.array, content)
        return 0


cdef object take_array(reader *source, list landings, bint apart):
    cdef size_t length = take_u8(source)
    cdef bytes text = take(source, length)[:length]
    cdef int ndim = take_u8(source)
    cdef Py_buffer view
    dtype = type_of(text)
    if ndim > DIMS_MAX:
        raise bad_message(f"an array has {ndim} dimensions")
    shape = tuple([take_u64(source) for _ in range(ndim)])
    size = dtype.itemsize
    for n in shape:
        size *= n
    if apart:
        if landings is None or size < PART_MIN:
            raise bad_message(f"the bytes of an array of shape {shape} cannot come apart")
        landing = Landing(size)
        landings.append(landing)
        return numpy_array()(shape, dtype, landing)
    if size > source.end - source.at:
        raise bad_message(f"an array of shape {shape} has too few bytes")
    try:
        made = numpy_array()(shape, dtype)
    except (ValueError, MemoryError) as error:
        if size:
            raise
        raise bad_message(f"an array of shape {shape}: {error}") from None
    PyObject_GetBuffer(made, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
    memcpy(view.buf, take(source, view.len), view.len)
    PyBuffer_Release(&view)
    return made


cdef int put_value(writer *to, object value, list beside) except -1:
    """1: it is one of those that are pickled together."""
    cdef int overflow = 0
    cdef long long number
    cdef double real
    cdef Py_ssize_t size
    cdef const char *text
    kind = type(value)
    if kind is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            put_u8(to, c'i')
            return put(to, &number, 8)
    elif kind is float:
        real = value
        put_u8(to, c'f')
        return put(to, &real, 8)
    elif value is None:
        return put_u8(to, c'N')
    elif value is True:
        return put_u8(to, c'T')
    elif value is False:
        return put_u8(to, c'F')
    elif kind is numpy_array() and kind is not None:
        if put_array(to, value):
            return 0
    elif kind is str:
        text = utf8_of(value, &size)
        if text != NULL:
            put_u8(to, c's')
            put_u64(to, size)
            return put(to, text, size)
        PyErr_Clear()  # half of a pair of surrogates: pickle knows how
    elif kind is bytes:
        put_u8(to, c'b')
        return put_sized(to, value)
    elif kind is bytearray:
        put_u8(to, c'y')
        return put_sized(to, value)
    elif kind is memoryview:
        put_u8(to, c'm')
        return put_sized(to, value if value.c_contiguous else bytes(value))
    elif hasattr(kind, "__cuda_array_interface__") or hasattr(value, "__cuda_array_interface__"):
        if put_apart(to, value) if to.apart else put_beside(to, value, beside):
            return 0
        put_u8(to, c'd')
        described, content = to_host(value)
        put_sized(to, described)
        return put_sized(to, content)
    put_u8(to, c'p')
    return 1


cdef int put_values(writer *to, tuple values, list beside=None) except -1:
    """Writes values; arrays on devices are appended to `beside` with what they are, unless it is None."""
    cdef list pickled = None
    put_u32(to, len(values))
    for value in values:
        if put_value(to, value, beside):
            if pickled is None:
                pickled = []
            pickled.append(value)
    if pickled is None:
        return 0
    cdef list buffers = []
    put_sized(to, pickle().dumps(pickled, 5, buffer_callback=buffers.append))
    put_u32(to, len(buffers))
    for buffer in buffers:
        put_sized(to, buffer.raw())
    return 0


cdef object take_value(reader *source, list beside, list landings):
    cdef int64_t number
    cdef double real
    cdef char kind = take_u8(source)
    if kind == c'i':
        memcpy(&number, take(source, 8), 8)
        return number
    if kind == c'a' or kind == c'A':
        return take_array(source, landings, kind == c'A')
    if kind == c'f':
        memcpy(&real, take(source, 8), 8)
        return real
    if kind == c'N':
        return None
    if kind == c'T':
        return True
    if kind == c'F':
        return False
    if kind == c's':
        return take_sized(source).decode()
    if kind == c'b':
        return take_sized(source)
    if kind == c'y':
        return bytearray(take_sized(source))
    if kind == c'm':
        return memoryview(take_sized(source))
    if kind == c'd':
        described = take_sized(source)
        return to_device(described, take_sized(source))
    if kind == c'D':
        return take_apart(source, landings)
    if kind == c'w' and beside:
        return beside.pop(0)
    raise bad_message(f"a value of kind {kind}")


cdef tuple take_values(reader *source, list beside=None, list landings=None):
    """The values; arrays whose bytes are still to come have their memory appended to `landings`."""
    cdef list values = []
    cdef list pickled = []
    cdef uint32_t count = take_u32(source)
    cdef uint32_t i
    for i in range(count):
        if source.at < source.end and source.at[0] == c'p':
            source.at += 1
            pickled.append(i)
            values.append(None)
        else:
            values.append(take_value(source, beside, landings))
    if pickled:
        data = take_sized(source)
        buffers = [bytearray(take_sized(source)) for _ in range(take_u32(source))]
        made = pickle().loads(data, buffers=buffers)
        if type(made) is not list or len(made) != len(pickled):
            raise bad_message("its pickle is not of its values")
        for i, value in zip(pickled, made):
            values[i] = value
    if source.at != source.end or beside:
        raise bad_message("it has too many bytes")
    return tuple(values)


def encode(tuple values not None):
    """Values as the bytes that a message has of them."""
    cdef writer to
    writer_init(&to)
    try:
        put_values(&to, values)
        return to.data[:to.size]
    finally:
        writer_fini(&to)


def decode(bytes data not None):
    """The values again.  Raises ValueError for what is none, or what pickle does."""
    cdef reader source
    source.at = data
    source.end = source.at + len(data)
    return take_values(&source)
