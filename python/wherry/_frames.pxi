# SPDX-License-Identifier: BSD-3-Clause
#
# Objects: one message of any number of parts, each of a kind that the receiver gets back.
#
# The header says what the parts are (all numbers little-endian):
#
#   "WPY\1"  flags: 1 byte, bit 0: a list (else there is one part)  then for each part
#   kind: 1 byte  "b" bytes, "m" other memory, "a" an array, followed by
#     size of the type's text: 2 bytes, text; dimensions: 1 byte, 8 bytes for each
#
# What comes from a peer is checked before it is believed; the text of a type is read as a literal.

MAGIC = b"WPY\1"

cdef enum:
    NOTHINGS_MAX = 1 << 20  # elements of no size: no memory bounds how many a peer can name


cdef class ObjectHold:
    """A received object; its frames live as long."""

    cdef wh_object *c

    def __dealloc__(self):
        wh_object_free(self.c)


cdef ObjectHold take_object(wh_object *c):
    cdef ObjectHold made = ObjectHold.__new__(ObjectHold)
    made.c = c
    return made


cdef class Frame:
    """Memory of one received part: a buffer, or on a device ``__cuda_array_interface__``.

    A large part owns its memory, so that one of them does not keep the others.
    """

    cdef ObjectHold owner  # of a small one, which lies in the object
    cdef void *data
    cdef size_t size
    cdef wh_mem_kind mem
    cdef bint owned
    cdef object typestr, shape

    def __dealloc__(self):
        if self.owned:
            wh_mem_free_kind(self.mem, self.data)  # if it fails, the log has said why

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.mem != WH_MEM_HOST:
            raise BufferError("this memory is on a device")
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)

    def __len__(self):
        return self.size

    @property
    def __cuda_array_interface__(self):
        if self.mem == WH_MEM_HOST:
            raise AttributeError("this memory is not on a device")
        return {"version": 3, "data": (<uintptr_t>self.data, False), "strides": None,
                "typestr": self.typestr or "|u1", "stream": None,
                "shape": self.shape if self.typestr else (self.size,)}


cdef bytes describe(object obj, Hold hold):
    """A part's entry in the header."""
    if type(obj) is bytes:
        return b"b"
    if hold.typestr is None:
        return b"m"
    text = hold.typestr
    dtype = getattr(obj, "dtype", None)
    if text[1:2] == "V" and getattr(dtype, "fields", None):
        text = repr(dtype.descr)
    encoded = text.encode()
    if len(encoded) > 0xffff:
        raise ValueError("the array's type takes more than 64 KiB to describe")
    shape = hold.shape
    return (b"a" + struct_pack("<H", len(encoded)) + encoded
            + struct_pack(f"<B{len(shape)}Q", len(shape), *shape))


cdef void set_frame(wh_frame *frame, Hold hold):
    frame.data = hold.data
    frame.size = hold.amount()
    frame.type = hold.type
    frame.mem = WH_MEM_AUTO if hold.device else WH_MEM_HOST


cdef void *stream_of_all(list holds, object given) except? NULL:
    """The stream of an object: the one that was given, or the one that its parts name."""
    cdef void *found = stream_of(given)
    cdef Hold hold
    if given is not None:
        return found
    for each in holds:
        hold = each
        if hold is None or hold.stream == NULL:
            continue
        if found != NULL and found != hold.stream:
            raise ValueError(f"the parts are in use by several streams (0x{<uintptr_t>found:x} and "
                             f"0x{<uintptr_t>hold.stream:x}): have one of them wait for the others, and give it as stream=")
        found = hold.stream
    return found


cdef Request send_object(Endpoint ep, object obj, uint64_t tag, object timeout,
                         object stream):
    cdef Worker w = ep.worker
    cdef int32_t timeout_ms = milliseconds(timeout)
    cdef wh_status status
    cdef bint many = isinstance(obj, (list, tuple))
    parts = list(obj) if many else [obj]
    holds = [hold_message(part, False, stream) for part in parts]
    cdef bytes header = MAGIC + (b"\1" if many else b"\0") + b"".join(
        [describe(part, part_hold) for part, part_hold in zip(parts, holds)])
    cdef Request op = w.begin(OP_SEND_OBJ)
    op.keep = holds
    op.stream = stream_of_all(holds, stream)
    op.tag = tag
    cdef wh_endpoint *c = ep.open()
    cdef size_t count = len(holds), i
    cdef uint64_t total = len(header)
    cdef wh_frame *frames = <wh_frame *>calloc(count + 1, sizeof(wh_frame))
    if frames == NULL:
        raise MemoryError
    for i in range(count):
        set_frame(&frames[i], holds[i])
        total += min((<Hold>holds[i]).size, <size_t>INT64_MAX)
        if total > <uint64_t>INT64_MAX:
            free(frames)
            raise ValueError("send_obj: the parts have more than 2^63 bytes together")
    status = wh_object_send(c, PyBytes_AS_STRING(header), len(header), frames, count, sizeof(wh_frame), tag,
                            w.options(op, timeout_ms, 0), &op.handle)
    free(frames)
    return w.started(op, status, ep)


cdef Request recv_object(Worker w, Endpoint ep, object into, uint64_t tag, uint64_t mask,
                         object timeout, object allocator, object threshold, object stream):
    cdef int32_t timeout_ms = milliseconds(timeout)
    cdef wh_status status
    cdef wh_allocator own
    cdef wh_op_opts *opts
    places = list(into) if isinstance(into, (list, tuple)) else [] if into is None else [into]
    holds = [None if place is None else hold_message(place, True, stream) for place in places]
    cdef Request op = w.begin(OP_RECV_OBJ)
    op.keep = (places, holds)
    op.stream = stream_of_all(holds, stream)
    op.tag = tag
    if allocator is not None:
        fill_allocator(&own, allocator, threshold, "recv_obj")
        op.more().allocator = allocator
    w.must_be_open()
    cdef wh_endpoint *c = ep.open() if ep is not None else NULL
    if w.cancels():
        return w.withdrawn(op, w if ep is None else ep)
    cdef size_t count = len(holds), i
    cdef wh_frame *frames = <wh_frame *>calloc(count + 1, sizeof(wh_frame))
    if frames == NULL:
        raise MemoryError
    for i in range(count):
        if holds[i] is not None:
            set_frame(&frames[i], holds[i])
    opts = w.options(op, timeout_ms, 0)
    opts.allocator = &own if allocator is not None else NULL
    if ep is not None:
        status = wh_object_recv(c, frames, count, sizeof(wh_frame), tag, mask, opts, &op.handle)
    else:
        status = wh_worker_object_recv(w.c, frames, count, sizeof(wh_frame), tag, mask, opts, &op.handle)
    opts.allocator = NULL
    free(frames)
    return w.started(op, status, w if ep is None else ep)


cdef object unpack_object(ObjectHold object, tuple keep, dict given):
    """What the receiver gets: the parts as their kinds say, or as the buffers that he gave."""
    cdef size_t size = 0, i, count = wh_object_count(object.c)
    cdef const char *start = <const char *>wh_object_header(object.c, &size)
    cdef bytes header = start[:size] if size else b""
    places = dict(enumerate(keep[0]))
    frames = {}
    if given:
        for part, hold in given.items():
            # Of an object that was withdrawn meanwhile there may be memory that this one does not use.
            if (<size_t>part >= count or hold is None
                    or wh_object_frame(object.c, part).data != (<Hold>hold).data):
                continue
            if (<Hold>hold).made is None:
                frames[part] = (<Hold>hold).keep
            else:
                places[part] = (<Hold>hold).made
    if not header.startswith(MAGIC):
        # A sender in C: his header, then his frames.
        return [header] + [plain_part(object, i, places.get(i), frames) for i in range(count)]
    reader = Reader(header, len(MAGIC))
    many = reader.number("<B") & 1
    if not many and count != 1:
        raise bad_header()
    parts = [part_of_object(object, i, reader, places.get(i), frames) for i in range(count)]
    return parts if many else parts[0]


cdef object plain_part(ObjectHold object, size_t i, place, dict frames):
    if place is not None:
        return place
    frame = frame_of(object, i, frames)
    return memoryview(frame) if on_host(object, i) else frame


cdef int fill_allocator(wh_allocator *to, object allocator, object threshold, str name) except -1:
    if not callable(allocator):
        raise TypeError(f"{name}: {allocator!r} cannot be called")
    memset(to, 0, sizeof(to[0]))
    to.size = sizeof(to[0])
    to.alloc = park_on_alloc
    to.free_fn = park_on_free
    to.threshold = size_of(threshold, "threshold")
    return 0


cdef wh_mem_kind kind_of(str memory) except? WH_MEM_AUTO:
    cdef wh_mem_kind kind
    if wh_mem_kind_parse(c_text(memory, "memory"), &kind) != WH_OK or kind == WH_MEM_AUTO:
        raise ValueError(f"memory is {memory!r}: host, cuda or sim")
    return kind


cdef Endpoint endpoint_of(Worker w, wh_object *object):
    """Where an object comes from, for allocators; None when that has been closed."""
    cdef wh_endpoint *c = wh_object_endpoint(object)
    return None if c == NULL else w.endpoints.get(park_number_of(c))


cdef Hold hold_frame(part):
    """The library's own memory for a part, as without an allocator."""
    cdef Frame frame = Frame.__new__(Frame)
    cdef Hold hold = Hold.__new__(Hold)
    frame.mem = kind_of(part.memory)
    cdef wh_status status = wh_mem_alloc_kind(frame.mem, 0, part.size, &frame.data)
    must(status, "recv_obj", f"recv_obj: {part.size} bytes of {part.memory} memory: "
                             f"{wh_status_text(status).decode()}")
    frame.size, frame.owned = part.size, True
    hold.data, hold.size, hold.keep = <char *>frame.data, frame.size, frame
    return hold


cdef dict incoming_parts(wh_object *object, Endpoint ep):
    """Number -> what the allocators are told, of the parts that wait for one of them."""
    cdef size_t size = 0, i
    cdef const char *start = <const char *>wh_object_header(object, &size)
    cdef const wh_frame *frame
    cdef bytes header = start[:size] if size else b""
    reader = None
    if header.startswith(MAGIC):
        reader = Reader(header, len(MAGIC) + 1)
    waiting = {}
    for i in range(wh_object_count(object)):
        frame = wh_object_frame(object, i)
        typestr = shape = None
        if reader is not None:
            typestr, shape = described(reader)[1:]
        memory = wh_mem_kind_name(frame.mem).decode()
        if frame.data == NULL:
            waiting[i] = Incoming(frame.size, memory,
                                  None if typestr is None else typestr.decode("ascii", "replace"),
                                  shape, wh_object_tag(object), i, ep)
    return waiting


cdef size_t next_without_memory(wh_object *object):
    cdef size_t i = 0
    while wh_object_frame(object, i).data != NULL:
        i += 1
    return i


cdef int check_memory(Hold hold, part) except -1:
    """Whether what an allocator has returned is fit for a part."""
    cdef wh_mem_info info
    if hold.size < <size_t>part.size:
        raise ValueError(f"the allocator has returned {hold.size} bytes for {part.size}")
    info.size = sizeof(info)
    must(wh_mem_query(hold.data, &info), "recv_obj")
    found = wh_mem_kind_name(info.kind).decode()
    if part.size and found != part.memory:
        raise ValueError(f"the allocator has returned {found} memory for {part.memory} memory")
    return 0


cdef tuple described(reader):
    """A part's entry in the header: its kind, and of an array the type's text and the shape."""
    kind = reader.take(1)
    if kind == b"a":
        text = reader.take(reader.number("<H"))
        shape = tuple([reader.number("<Q") for _ in range(min(reader.number("<B"), DIMS_MAX))])
        return kind, text, shape
    if kind not in (b"b", b"m"):
        raise bad_header()
    return kind, None, None


cdef Frame frame_of(ObjectHold object, size_t i, dict frames):
    """The Frame of a part; of `frames` when it has had its memory from hold_frame."""
    if i in frames:
        return frames[i]
    cdef Frame made = Frame.__new__(Frame)
    cdef const wh_frame *c = wh_object_frame(object.c, i)
    made.data, made.size, made.mem = c.data, c.size, c.mem
    made.owned = wh_object_take_frame(object.c, i) != NULL
    if not made.owned:
        made.owner = object
    return made


cdef bint on_host(ObjectHold object, size_t i):
    return wh_object_frame(object.c, i).mem in (WH_MEM_HOST, WH_MEM_AUTO)


cdef bad_header():
    return failure(<wh_status>-14, "recv_obj: the object's header is not what send_obj writes",
                   "recv_obj")


class Reader:
    """Reads a header that a peer has sent, and does not run over its end."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def take(self, size):
        self.at += size
        if self.at > len(self.data):
            raise bad_header()
        return self.data[self.at - size:self.at]

    def number(self, format):
        return struct_unpack(format, self.take(calcsize(format)))[0]


cdef object part_of_object(ObjectHold object, size_t i, reader, place, dict frames):
    kind, text, shape = described(reader)
    if place is not None:
        return place
    cdef Frame frame = frame_of(object, i, frames)
    if not on_host(object, i):
        if text is not None and text[:1] != b"[":
            frame.typestr, frame.shape = text.decode("ascii", "replace"), shape
        return frame
    if kind == b"b":
        return (<const char *>frame.data)[:frame.size] if frame.size else b""
    if kind == b"m":
        return memoryview(frame)
    return array_of(frame, text, shape)


def fits(dtype):
    """Whether all fields lie within their elements: numpy adds sizes up as C ints, which wrap."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return fits(base) and base.itemsize * prod(shape) == dtype.itemsize
    return dtype.itemsize >= 0 and all(
        0 <= offset and offset + field.itemsize <= dtype.itemsize and fits(field)
        for field, offset, *_ in (dtype.fields or {}).values())


cdef object array_of(Frame frame, bytes text, tuple shape):
    """A numpy array over the frame's memory; without numpy the memory as it is."""
    try:
        import numpy
        from numpy.lib.format import descr_to_dtype
    except ImportError:
        return memoryview(frame)
    from ast import literal_eval
    try:
        dtype = text.decode("ascii")
        # Padding has to stay padding: numpy.dtype would make fields of it.
        dtype = (descr_to_dtype(literal_eval(dtype)) if dtype.startswith("[")
                 else numpy.dtype(dtype))
        if dtype.hasobject or not fits(dtype):
            raise ValueError("an array of pointers, or with elements outside of its memory")
        if dtype.itemsize == 0 and prod(shape) > NOTHINGS_MAX:
            raise ValueError("more elements without a size than anybody sends")
        return numpy.ndarray(shape, dtype, buffer=frame)
    except Exception as error:
        raise bad_header() from error
