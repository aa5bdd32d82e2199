# SPDX-License-Identifier: BSD-3-Clause
#
# Proxies: what a chare, or all of a collection, is called by.  A class of chares has a class of proxies (_chare.py), whose
# attributes are its entries.

cdef class Proxy:
    """Names a chare, or all of a group or an array: ``proxy.method(...)`` sends it a message, ``proxy[index]`` is one of them.

    It can be an argument of a call.
    """

    cdef wh_proxy c
    cdef wh_section section    # if it is of one
    cdef bint is_section
    cdef int dims              # of the collection's indices
    cdef str kind              # "chare", "group", "array"
    cdef bint balanced
    cdef object count          # elements of the collection; None: unknown here
    cdef object __weakref__

    cdef Proxy at(self, object index):
        cdef int32_t numbers[6]
        cdef Proxy made
        cdef Py_ssize_t i
        if self.is_section:
            raise TypeError(f"{self!r} has no elements by index: use the proxy of the whole")
        if self.c.dims or self.kind == "chare":
            raise TypeError(f"{self!r} is one chare: only groups and arrays have elements")
        if type(index) is not tuple:
            index = (index,)
        if len(index) != self.dims:
            raise IndexError(f"{self!r} has indices of {self.dims} dimensions, not {len(index)}")
        for i in range(self.dims):
            try:
                numbers[i] = index[i]
            except TypeError:
                raise TypeError(f"{self!r} has integers as indices, not {index[i]!r:.80}") from None
        if self.kind == "group" and not 0 <= numbers[0] < here.pes:
            raise IndexError(f"{self!r} has elements 0 to {here.pes - 1}, not {numbers[0]}")
        made = <Proxy>type(self).__new__(type(self))
        made.c = wh_proxy_at(self.c, self.dims, numbers)
        made.kind, made.count, made.dims, made.balanced = self.kind, self.count, self.dims, self.balanced
        return made

    def __getitem__(self, index):
        return self.at(index)

    def ckSection(self, indices):
        """Makes a section: a proxy of some elements of an array or a group, which calls them all."""
        cdef Proxy made
        cdef Proxy one
        cdef int32_t *numbers
        cdef Py_ssize_t i = 0
        distinct = {index if type(index) is tuple else (index,) for index in indices}
        if not distinct:
            raise ValueError("a section has one element or more")
        made = <Proxy>type(self).__new__(type(self))
        made.c, made.kind, made.count, made.dims, made.is_section = self.c, self.kind, len(distinct), self.dims, True
        numbers = <int32_t *>malloc(len(distinct) * self.dims * sizeof(int32_t))
        if numbers == NULL:
            raise MemoryError()
        try:
            for index in distinct:
                one = self.at(index)
                memcpy(numbers + i * self.dims, one.c.index, self.dims * sizeof(int32_t))
                i += 1
            must(wh_section_create(running().pe, self.c, self.dims, numbers, i, &made.section), "ckSection")
        finally:
            free(numbers)
        here.touch()
        return made

    def ckInsert(self, index, args=()):
        """Makes an element of an array that was made without a shape."""
        cdef Proxy element = self.at(index)
        cdef writer to
        writer_init(&to)
        try:
            put_values(&to, ("array", class_name(self._chare), self._chare._methods_sum, None, self.balanced, *args))
            must(wh_array_insert(running().pe, element.c, to.data, to.size), "ckInsert")
        finally:
            writer_fini(&to)
        here.touch()

    def ckDoneInserting(self):
        """No more elements will be inserted: what is sent to one that is not there is an error from now on."""
        must(wh_array_done(running().pe, self.c), "ckDoneInserting")
        here.touch()

    def ckDestroy(self):
        """Ends the chare, or all of the collection, behind what was sent to it before from this PE; of a section, the section
        and not its elements."""
        if self.is_section:
            must(wh_section_destroy(running().pe, self.section), "ckDestroy")
        else:
            must(wh_chare_destroy(running().pe, self.c), "ckDestroy")
        here.touch()

    def __eq__(self, other):
        if not isinstance(other, Proxy):
            return NotImplemented
        return proxy_bytes(self) == proxy_bytes(other)

    def __hash__(self):
        return hash(proxy_bytes(self))

    def __reduce__(self):
        return proxy_at, (class_name(self._chare), proxy_bytes(self), self.kind, self.dims, self.count, self.balanced)

    def __repr__(self):
        which = ""
        if self.c.dims and self.kind != "chare":
            which = f"[{', '.join([str(self.c.index[i]) for i in range(self.c.dims)])}]"
        kind = f"section of {self.count} of {self.kind}" if self.is_section else f"{self.kind} of"
        return f"<{kind} {self._chare.__name__}{which}>"


cdef bytes proxy_bytes(Proxy proxy):
    cdef char data[64]
    wh_proxy_encode(&proxy.c, data)
    if not proxy.is_section:
        return data[:WH_PROXY_SIZE]
    wh_section_encode(&proxy.section, data + WH_PROXY_SIZE)
    return data[:WH_PROXY_SIZE + WH_SECTION_SIZE]


def proxy_at(name, bytes data not None, str kind, int dims, count, bint balanced):
    """A proxy of what __reduce__ says of it."""
    cls = find_class(name)._proxy_class
    cdef Proxy made = <Proxy>cls.__new__(cls)
    made.is_section = len(data) != WH_PROXY_SIZE
    if (wh_proxy_decode(<const char *>data, min(len(data), WH_PROXY_SIZE), &made.c) != WH_OK
            or not 0 < dims <= WH_CHARE_DIMS_MAX
            or made.is_section and wh_section_decode(<const char *>data + WH_PROXY_SIZE, len(data) - WH_PROXY_SIZE,
                                                     &made.section) != WH_OK):
        raise bad_message("a proxy is none")
    made.kind, made.dims, made.count, made.balanced = kind, dims, count, balanced
    if kind == "group" and not made.is_section and here is not None:
        made.count = here.pes  # which were others, if it comes from a checkpoint
    return made


cdef class Entry:
    """A method of a chare, as its proxies have it."""

    cdef unsigned number
    cdef readonly str name
    cdef object doc

    def __init__(self, unsigned number, str name, doc):
        self.number, self.name, self.doc = number, name, doc

    def __get__(self, proxy, owner):
        if proxy is None:
            return self
        cdef BoundEntry made = BoundEntry.__new__(BoundEntry)
        made.proxy, made.entry = <Proxy>proxy, self
        return made


cdef int sent(wh_status status, BoundEntry entry) except -1:
    if status == WH_ENOTFOUND:
        raise CLASS_OF[<int>status](f"{entry.entry.name}: {entry.proxy!r} has been destroyed")
    return must(status, entry.entry.name)


@cython.freelist(16)
cdef class BoundEntry:
    """An entry of a chare: called, it sends the message and returns at once.

    awaitable=True: it returns a future that is done when the method has returned on all that were called.
    ret=True: the future has the result, of many elements the list by their indices.
    """

    cdef Proxy proxy
    cdef Entry entry

    def __call__(self, *args, awaitable=False, ret=False, **keywords):
        cdef writer to
        cdef uint16_t number = self.entry.number
        cdef uint8_t flags = 0
        cdef Future future = None
        cdef Proxy proxy = self.proxy
        cdef Runtime home = here
        cdef Py_ssize_t count = 1
        cdef bint all = proxy.c.dims == 0
        cdef list beside = None if all or proxy.is_section else []
        if home is None:
            running()
        home.begin_sends()
        if all:
            flags |= CALL_ALL
        if awaitable or ret:
            flags |= CALL_ANSWER
            if ret:
                flags |= CALL_VALUE
            if all:
                if proxy.count is None:
                    raise ValueError(f"{self!r} cannot be awaited: the elements of {proxy!r} were inserted one by one, so it is "
                                     "not known how many there are; have them send to a Future(n)")
                count = proxy.count
            future = Future.__new__(Future)
            home.adopt(future, count)
            future.sorted_by_key = all
            future.only_done = not ret
            future._awaits = self
        if keywords:
            flags |= CALL_KEYWORDS
            args = (*args, *keywords.values(), tuple(keywords))
        writer_init(&to)
        try:
            put(&to, &number, 2)
            put_u8(&to, flags)
            put_u8(&to, 0)
            if future is not None:
                put_u32(&to, home.number)
                put_u32(&to, future.id)
            put_values(&to, args, beside)
            if beside:
                must(send_beside(home.pe, proxy.c, &to, beside), self.entry.name)
            elif proxy.is_section:
                must(wh_section_send(home.pe, proxy.section, ENTRY_CALL, to.data, to.size, 0), self.entry.name)
            else:
                sent(wh_chare_send(home.pe, proxy.c, ENTRY_CALL, to.data, to.size, NULL), self)
        except:
            if future is not None:
                home.futures.pop(future.id, None)
            raise
        finally:
            writer_fini(&to)
        home.touch()
        return future

    def __reduce__(self):
        return getattr, (self.proxy, self.entry.name)

    def __repr__(self):
        return f"<entry {self.entry.name} of {self.proxy!r}>"
