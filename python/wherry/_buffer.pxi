# SPDX-License-Identifier: BSD-3-Clause
#
# Buffers of messages: memory of any object that can say where it is, held until the operation has
# ended.  Asked in this order: the buffer protocol (PEP 3118), memory of GPUs by
# __cuda_array_interface__, then __array_interface__ and DLPack for what has no buffer protocol.
#
# What is not contiguous in C order has a type besides; the engine packs and unpacks it.

cdef extern from "Python.h":
    PyObject *PyExc_ResourceWarning
    void *PyCapsule_GetPointer(object capsule, const char *name) except NULL

cdef extern from *:
    """
    /* DLPack's ABI, as far as it is read here: https://dmlc.github.io/dlpack/latest/c_api.html */
    typedef struct {
        void *data;
        struct { int32_t type, id; } device;
        int32_t ndim;
        struct { uint8_t code, bits; uint16_t lanes; } dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } dl_tensor;
    """
    ctypedef struct dl_device:
        int type
        int id
    ctypedef struct dl_dtype:
        unsigned char code, bits
        uint16_t lanes
    ctypedef struct dl_tensor:
        void *data
        dl_device device
        int ndim
        dl_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset


# kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged; and those of which work is in streams
DL_DEVICES = (1, 2, 3, 13)
DL_IN_STREAMS = (2, 13)
DL_OPAQUE = 3  # kDLOpaqueHandle


cdef class Hold:
    """A buffer that is held; let go by ``release`` or with the last reference."""

    cdef Py_buffer view
    cdef bint exported, device  # device: perhaps not the CPU's memory
    cdef object keep
    cdef object made  # of an allocator: what it has returned
    cdef char *data      # of what has a type: its origin
    cdef size_t size     # bytes that travel
    cdef wh_type *type   # NULL: they lie one behind the other
    cdef void *stream    # of the device, that what was done with it is in; NULL: it is ready
    cdef size_t count    # elements of the type
    cdef object typestr, shape  # of an array; None: plain bytes

    def __dealloc__(self):
        self.release()
        wh_type_release(self.type)

    cdef size_t amount(self):
        """The size that goes to the engine: bytes, or elements of the type."""
        return self.size if self.type == NULL else self.count

    cdef void lay(self, wh_type *made):
        self.type = made
        self.count = 1

    cdef void release(self):
        if self.exported:
            self.exported = False
            PyBuffer_Release(&self.view)
        self.keep = None


cdef refuse_message(object obj, bint writable):
    """Finds out why an object with the buffer protocol did not give its buffer, and raises that."""
    refuse(obj, "buf", PyBUF_STRIDES | (PyBUF_WRITABLE if writable else 0))
    cdef Py_buffer view
    PyObject_GetBuffer(obj, &view, PyBUF_STRIDES)  # which says why
    PyBuffer_Release(&view)


cdef int dense(object shape, object strides, Py_ssize_t itemsize) except -1:
    """Whether an array with these strides is contiguous in C order."""
    if strides is None:
        return 1
    cdef Py_ssize_t expected = itemsize
    if 0 in shape:
        return 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != expected:
            return 0
        expected *= n
    return 1


cdef bint has_objects(object descr) except *:
    """Whether there are Python objects among the fields of an array's type."""
    for field in descr:
        if has_objects(field[1]) if isinstance(field[1], list) else field[1][1:2] == "O":
            return True
    return False


cdef int64_t bytes_in(tuple shape, object itemsize, str kind) except -1:
    """The bytes of an array by what it says of itself."""
    for n in shape:
        size_of(n, f"buf: a dimension of '{kind}'")
    return size_of(prod(shape) * itemsize, f"buf: the size of '{kind}'")


cdef wh_mem_kind kind_at(const char *ptr) except *:
    cdef wh_mem_info info
    info.size = sizeof(info)
    must(wh_mem_query(ptr, &info), "buf")
    return info.kind


cdef int look_at_device(Hold made) except -1:
    """Has a driver noticed that came into the process with a library, after the worker was made."""
    if made.device:
        kind_at(made.data)
    return 0


cdef int look_below(Hold made, str kind, tuple shape, tuple strides) except -1:
    """Negative strides lead to memory before what an array names: the CPU must not touch it by mistake."""
    cdef Py_ssize_t below = sum((n - 1) * step for n, step in zip(shape, strides) if step < 0)
    if made.size and below and kind_at(made.data + below) != kind_at(made.data):
        raise ValueError(f"buf: elements of '{kind}' lie {-below} bytes before its memory (shape {shape}, "
                         f"strides {strides})")
    return 0


cdef int lay_array(Hold made, object obj, tuple shape, object strides, Py_ssize_t itemsize,
                   bint writable) except -1:
    """Gives memory its type, unless it is contiguous.  Strides are in bytes."""
    cdef Py_ssize_t counts[DIMS_MAX]
    cdef Py_ssize_t steps[DIMS_MAX]
    kind = type(obj).__name__
    if strides is not None and len(strides) != len(shape):
        raise ValueError(f"buf: '{kind}' has {len(shape)} dimensions, but {len(strides)} strides")
    if dense(shape, strides, itemsize):
        return 0
    check_dims(len(shape))
    for i, (n, stride) in enumerate(zip(shape, strides)):
        counts[i], steps[i] = n, stride
    made.lay(layout_of(obj, len(shape), counts, steps, itemsize, writable))
    return 0


cdef tuple integers_of(object values, str name, object least):
    try:
        items = tuple(values)
    except TypeError:
        raise TypeError(f"{name} is {values!r:.60}: a sequence of integers is needed") from None
    return tuple([within(n, name, least, INT64_MAX) for n in items])


cdef Py_ssize_t itemsize_of(object typestr, str name) except -1:
    """The bytes of an element by its type's text; dates have their unit behind them, and texts count characters."""
    digits = typestr[2:].split("[")[0] if isinstance(typestr, str) else ""
    if not (digits.isascii() and digits.isdigit()):
        raise TypeError(f"{name} is {typestr!r:.60}: a text such as '<f8' is needed")
    return size_of(int(digits) * (4 if typestr[1:2] == "U" else 1), name)


cdef object at_nothing(str kind, size_t size):
    return ValueError(f"buf: '{kind}' has its {size} bytes at the address 0")


cdef int hold_interface(Hold made, object obj, str name, bint writable) except -1:
    """Memory by ``__cuda_array_interface__`` or ``__array_interface__``."""
    cdef Py_ssize_t itemsize
    told = getattr(obj, name)
    kind = type(obj).__name__
    if not isinstance(told, dict):
        raise TypeError(f"buf: {name} of '{kind}' is {told!r:.60}: a dict is needed")
    for key in ("data", "shape", "typestr"):
        if told.get(key) is None:
            raise TypeError(f"buf: '{kind}' has no {key!r} in its {name}")
    try:
        address, readonly = told["data"]
        made.data = <char *><uintptr_t>address
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"buf: 'data' of '{kind}' is {told['data']!r:.60}: the address and whether it is "
                        "read-only are needed") from None
    if writable and readonly:
        raise TypeError(f"buf: '{kind}' is read-only")
    if told.get("mask") is not None:
        raise ValueError(f"buf: '{kind}' has a mask, which a message cannot carry")
    shape, typestr = integers_of(told["shape"], f"buf: 'shape' of '{kind}'", 0), told["typestr"]
    strides = told.get("strides")
    if strides is not None:
        strides = integers_of(strides, f"buf: 'strides' of '{kind}'", INT64_MIN)
    if isinstance(typestr, str) and typestr[1:2] == "O" or has_objects(told.get("descr") or ()):
        raise TypeError(f"buf: '{kind}' is of Python objects, whose memory has only pointers")
    itemsize = itemsize_of(typestr, f"buf: 'typestr' of '{kind}'")
    made.device = name != "__array_interface__"
    if made.device:
        made.stream = stream_of(told.get("stream"))
    made.size = bytes_in(shape, itemsize, kind)
    if made.data == NULL and made.size:
        raise at_nothing(kind, made.size)
    lay_array(made, obj, shape, strides, itemsize, writable)
    made.keep = obj
    made.typestr = typestr
    made.shape = shape
    if made.device and strides is not None:
        look_below(made, kind, shape, strides)
    return look_at_device(made)


cdef object dlpack_of(Hold made, object obj, object stream):
    """An object's capsule, with what was done before made ready for a stream: the one that was given, or the legacy default."""
    where = getattr(obj, "__dlpack_device__", None)
    device = int(where()[0]) if where is not None else DL_DEVICES[0]
    if device not in DL_DEVICES:
        raise no_such_device(obj, device)
    if device not in DL_IN_STREAMS:
        return obj.__dlpack__()
    made.stream = <void *>LEGACY_STREAM if stream is None else stream_of(stream)
    return obj.__dlpack__(stream=<uintptr_t>made.stream)


cdef object no_such_device(object obj, object device):
    return TypeError(f"buf: '{type(obj).__name__}' is on a device of DLPack's type {device}; "
                     "memory of the CPU and of CUDA can be sent")


cdef int hold_dlpack(Hold made, object obj, bint writable, object stream) except -1:
    """Memory by DLPack.  The capsule keeps it; it is the producer's to delete.

    What may be written to is not said by the first version of DLPack; a producer of read-only
    memory refuses to give it.
    """
    cdef int i
    kind = type(obj).__name__
    capsule = dlpack_of(made, obj, stream)
    cdef dl_tensor *tensor = <dl_tensor *>PyCapsule_GetPointer(capsule, "dltensor")
    if tensor.device.type not in DL_DEVICES:
        raise no_such_device(obj, tensor.device.type)
    if tensor.dtype.code == DL_OPAQUE:
        raise TypeError(f"buf: '{kind}' is of handles that only its process can use")
    bits = tensor.dtype.bits * tensor.dtype.lanes
    if bits % 8:
        # They may share bytes or have one each, which DLPack's first version does not tell.
        raise ValueError(f"buf: elements of '{kind}' have {bits} bits: only bytes can be sent; give a view of it "
                         "as bytes")
    itemsize = bits // 8
    shape = tuple([tensor.shape[i] for i in range(tensor.ndim)])
    strides = None
    if tensor.strides != NULL:
        strides = [tensor.strides[i] * itemsize for i in range(tensor.ndim)]
    made.device = tensor.device.type != DL_DEVICES[0]
    if tensor.device.type in DL_IN_STREAMS and made.stream == NULL:
        made.stream = <void *>LEGACY_STREAM  # what a producer makes ready that is not asked for another
    made.data = <char *>tensor.data + tensor.byte_offset
    made.size = bytes_in(shape, itemsize, kind)
    if tensor.data == NULL and made.size:
        raise at_nothing(kind, made.size)
    lay_array(made, obj, shape, strides, itemsize, writable)
    made.keep = (capsule, obj)
    return look_at_device(made)


NOTHING_TO_FILL = "fill; give a bytearray, a numpy array or other writable memory"


cdef str nothing_to_send(object obj):
    """What to do about an object that has no memory of its own."""
    if isinstance(obj, str):
        return "send; text.encode() makes bytes of it"
    if isinstance(obj, (list, tuple)):
        return "send; send_obj() takes a list of bytes and arrays; pickle.dumps() makes bytes of anything"
    return ("send; give bytes, bytearray, memoryview, a numpy array, or an object with "
            "__cuda_array_interface__ or __dlpack__; pickle.dumps() makes bytes of other objects")


cdef bint give_buffer(object obj, Py_buffer *view, bint writable):
    """Whether an object gives its buffer.  There are some that know of contiguous ones only."""
    cdef int flags = PyBUF_WRITABLE if writable else 0
    if get_buffer(obj, view, flags | PyBUF_STRIDES) == 0:
        return True
    PyErr_Clear()
    if get_buffer(obj, view, flags) == 0:
        return True
    PyErr_Clear()
    return False


cdef Hold hold_message(object obj, bint writable, object stream=None):
    """The memory of a message.  Raises TypeError or ValueError that say what is wrong with it.

    stream: what the operation will be behind, if that was given.
    """
    cdef Hold made
    if isinstance(obj, View):
        return hold_view(obj, writable, stream)
    made = Hold.__new__(Hold)
    if PyObject_CheckBuffer(obj):
        if not give_buffer(obj, &made.view, writable):
            # Of a class that has both, one object may be on a device.
            if hasattr(obj, "__cuda_array_interface__"):
                hold_interface(made, obj, "__cuda_array_interface__", writable)
                return made
            refuse_message(obj, writable)
            raise ValueError(f"buf: '{type(obj).__name__}' does not give its buffer")
        made.exported = True
        check_elements(obj, &made.view, "buf")
        if not is_dense(&made.view):
            made.lay(layout_of_view(obj, &made.view, writable))
        made.data = <char *>made.view.buf
        made.size = made.view.len
        if hasattr(obj, "__array_interface__"):
            made.shape, made.typestr = tuple(obj.shape), obj.dtype.str
        return made
    if hasattr(obj, "__cuda_array_interface__"):
        hold_interface(made, obj, "__cuda_array_interface__", writable)
    elif hasattr(obj, "__array_interface__"):
        hold_interface(made, obj, "__array_interface__", writable)
    elif hasattr(obj, "__dlpack__"):
        hold_dlpack(made, obj, writable, stream)
    else:
        raise TypeError(f"buf: '{type(obj).__name__}' has no memory to "
                        + (NOTHING_TO_FILL if writable else nothing_to_send(obj)))
    return made


cdef Hold hold_dense_message(object obj, bint writable):
    """The same for what needs it contiguous."""
    cdef Hold made = hold_message(obj, writable)
    if made.type != NULL:
        raise ValueError(f"buf: '{type(obj).__name__}' is not contiguous (C order){instead(writable)}")
    return made
