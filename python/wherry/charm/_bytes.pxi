# SPDX-License-Identifier: BSD-3-Clause
#
# Bytes of a message, written and read in this machine's order: the processes of a job run one build.

cdef enum:
    SMALL = 1024     # bytes of a message that are written without an allocation
    PART_MIN = 4096  # bytes of an array that goes apart, where arrays may
    PAGE = 4096


# Bytes that are sent as they are, from here until their send has ended.
cdef struct part:
    part *next
    part *previous
    wh_status *outcome   # of the first send that failed, if it is still wanted
    size_t size
    char *data
    PyObject *memory     # what holds the bytes, on a device; NULL: they are the part's own


cdef char *new_pages(size_t size) except NULL:
    """Memory at the begin of a page: a copy between processes is several times as fast where both ends lie alike in their pages."""
    cdef void *made
    if size > <size_t>PY_SSIZE_T_MAX or posix_memalign(&made, PAGE, size) != 0:
        raise MemoryError(f"an array has {size} bytes")
    return <char *>made


cdef part *new_part(size_t size, bint paged=False) except NULL:
    cdef part *made = <part *>malloc(sizeof(part) + (0 if paged else size))
    if made == NULL:
        raise MemoryError(f"a message needs {size} bytes")
    made.data = <char *>(made + 1)
    made.size = size
    made.memory = NULL
    if paged:
        try:
            made.data = new_pages(size)
        except MemoryError:
            free(made)
            raise
    return made


cdef void let_go(PyObject *memory) noexcept with gil:
    Py_DECREF(<object>memory)


cdef void free_part(part *one) noexcept nogil:
    if one.memory != NULL:
        let_go(one.memory)
    elif one.data != <char *>(one + 1):
        free(one.data)
    free(one)


cdef struct writer:
    char *data
    size_t size
    size_t capacity
    bint apart       # large arrays, and those on devices, go as parts, behind the message that says what they are
    part *parts      # copies of these, in their order
    part **last
    char small[SMALL]


cdef inline void writer_init(writer *to):
    to.data = to.small
    to.size = 0
    to.capacity = SMALL
    to.apart = False
    to.parts = NULL
    to.last = &to.parts


cdef inline void add_part(writer *to, part *one) noexcept:
    one.next = NULL
    to.last[0] = one
    to.last = &one.next


cdef inline void writer_fini(writer *to):
    cdef part *one
    if to.data != to.small:
        free(to.data)
    while to.parts != NULL:
        one = to.parts
        to.parts = one.next
        free_part(one)


cdef char *room(writer *to, size_t size) except NULL:
    """Where the next `size` bytes are to be written."""
    cdef size_t capacity = to.capacity
    cdef char *grown
    if size > capacity - to.size:
        if size > <size_t>PY_SSIZE_T_MAX - to.size:
            raise MemoryError("a message of this size cannot be made")
        while size > capacity - to.size:
            capacity = 2 * capacity if capacity < <size_t>PY_SSIZE_T_MAX // 2 else to.size + size
        grown = <char *>(malloc(capacity) if to.data == to.small else realloc(to.data, capacity))
        if grown == NULL:
            raise MemoryError(f"a message needs {capacity} bytes")
        if to.data == to.small:
            memcpy(grown, to.small, to.size)
        to.data = grown
        to.capacity = capacity
    grown = to.data + to.size
    to.size += size
    return grown


cdef inline int put(writer *to, const void *data, size_t size) except -1:
    memcpy(room(to, size), data, size)
    return 0


cdef inline int put_u8(writer *to, uint8_t value) except -1:
    return put(to, &value, 1)


cdef inline int put_u32(writer *to, uint32_t value) except -1:
    return put(to, &value, 4)


cdef inline int put_u64(writer *to, uint64_t value) except -1:
    return put(to, &value, 8)


cdef int put_sized(writer *to, object data) except -1:
    """A length, and the bytes of an object with a contiguous buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        put_u64(to, view.len)
        put(to, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef struct reader:
    const char *at
    const char *end


cdef object bad_message(str what):
    return ValueError(f"a message of wherry.charm is damaged: {what}; all processes must run the same program")


cdef inline const char *take(reader *source, size_t size) except NULL:
    cdef const char *found = source.at
    if size > <size_t>(source.end - source.at):
        raise bad_message("it ends too early")
    source.at += size
    return found


cdef inline uint8_t take_u8(reader *source) except? 255:
    return (<const uint8_t *>take(source, 1))[0]


cdef inline uint32_t take_u32(reader *source) except? 0xffffffff:
    cdef uint32_t value
    memcpy(&value, take(source, 4), 4)
    return value


cdef inline uint64_t take_u64(reader *source) except? 0xffffffff:
    cdef uint64_t value
    memcpy(&value, take(source, 8), 8)
    return value


cdef inline bytes take_sized(reader *source):
    cdef uint64_t size = take_u64(source)
    return PyBytes_FromStringAndSize(take(source, size), size)
