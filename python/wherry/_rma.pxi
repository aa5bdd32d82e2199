# SPDX-License-Identifier: BSD-3-Clause
#
# One-sided operations: memory that peers may read and write, and what is done to a peer's.
#
# Memory that the engine has allocated goes with its handle, so a handle whose memory somebody looks
# at cannot be closed; memory of the user's is held like that of an operation.

cdef dict ACCESS = {"r": WH_MR_READ, "w": WH_MR_WRITE, "a": WH_MR_ATOMIC}
cdef dict ATOMICS = {"add": WH_ATOMIC_ADD, "and": WH_ATOMIC_AND, "or": WH_ATOMIC_OR,
                     "xor": WH_ATOMIC_XOR, "swap": WH_ATOMIC_SWAP, "cswap": WH_ATOMIC_CSWAP}

# Handles without an object whose memory a peer is in the middle of: (address, Hold).
cdef list lingering = []


cdef unsigned access_of(str access) except 0:
    cdef unsigned found = 0
    for letter in access:
        if letter not in ACCESS:
            raise ValueError(f"access is {access!r}: give letters of 'rwa' (read, write, atomics)")
        found |= <unsigned>ACCESS[letter]
    if not found:
        raise ValueError("access is '': give letters of 'rwa' (read, write, atomics)")
    return found


cdef int end_lingering() except -1:
    """Ends the handles whose last access has ended since."""
    lingering[:] = [each for each in lingering
                    if wh_mr_destroy(<wh_mr *><uintptr_t>each[0]) == WH_EBUSY]
    return 0


@cython.no_gc_clear
cdef class RegisteredMemory:
    """Memory that peers who have its ``key`` may read and write; from ``alloc`` or ``register``.

    What ``alloc`` has made is a buffer of bytes, zeroed at first: ``memoryview(memory)``,
    ``numpy.frombuffer(memory, dtype)``.  Peers on this host reach it directly; all other memory is
    reached by help of the workers of its context, which must progress.

    ``with memory:`` closes it at the end.
    """

    cdef wh_mr *c
    cdef readonly Context context
    cdef Hold hold       # of the user's memory; None: the engine's
    cdef int views, pid
    cdef str made_at
    cdef object __weakref__

    def __dealloc__(self):
        cdef wh_status status
        if self.c == NULL:
            return
        status = wh_mr_destroy(self.c)
        if status == WH_EFORKED:
            return  # it is the parent's
        if status == WH_EBUSY:
            lingering.append((<uintptr_t>self.c, self.hold))
        warn_unclosed(f"unclosed registered memory, made at {self.made_at}")

    cdef int must_be_open(self) except -1:
        if self.c == NULL:
            raise failure(WH_ECLOSED, "the registered memory is closed")
        if self.pid != getpid():
            raise failure(WH_EFORKED, "")  # which has not got the memory
        return 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        self.must_be_open()
        if self.hold is not None:
            raise BufferError("this memory belongs to the object that was registered")
        PyBuffer_FillInfo(view, self, wh_mr_address(self.c), wh_mr_size(self.c), 0, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    def __len__(self):
        return self.size

    @property
    def size(self):
        """Its bytes."""
        self.must_be_open()
        return wh_mr_size(self.c)

    @property
    def key(self):
        """What a peer needs for ``Endpoint.open_key``: at most 256 bytes, to be sent to him."""
        cdef char key[WH_MR_KEY_MAX]
        cdef size_t size = sizeof(key)
        self.must_be_open()
        must(wh_mr_key(self.c, key, &size), "key")
        return key[:size]

    @property
    def closed(self):
        """Whether ``close`` has been called."""
        return self.c == NULL

    def close(self):
        """Takes the key back: from now on peers get RemoteKeyError.  Any thread.

        Raises BufferError while somebody has a view of memory that ``alloc`` has made, and
        BusyError while a peer is in the middle of an access to memory that was registered: let the
        workers progress, and call again.
        """
        if self.c == NULL:
            return
        if self.views:
            raise BufferError(f"close: {self.views} views of the memory exist")
        cdef wh_status status = wh_mr_destroy(self.c)
        must(status, "close", "close: a peer is in the middle of an access"
             if status == WH_EBUSY else None)
        self.c = NULL
        self.hold = None
        end_lingering()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.close()
        except (BufferError, BusyError, ForkedError):
            # What is on its way says more, and its traceback may hold the views.
            if kind is None:
                raise

    def __repr__(self):
        state = "closed" if self.c == NULL else f"of {wh_mr_size(self.c)} bytes"
        return f"<RegisteredMemory {state}, made at {self.made_at}>"


cdef RegisteredMemory new_memory(Context ctx):
    cdef RegisteredMemory made = RegisteredMemory.__new__(RegisteredMemory)
    made.context = ctx
    made.pid = getpid()
    made.made_at = place()
    return made


cdef RegisteredMemory alloc_memory(Context ctx, size_t size, str access):
    cdef RegisteredMemory made = new_memory(ctx)
    must(wh_mr_alloc(ctx.c, size, access_of(access), &made.c), "alloc",
         "alloc: 0 bytes" if size == 0 else None)
    return made


cdef RegisteredMemory register_memory(Context ctx, object buf, str access):
    cdef RegisteredMemory made = new_memory(ctx)
    cdef unsigned rights = access_of(access)
    made.hold = hold_dense_message(buf, rights != WH_MR_READ)
    must(wh_mr_register(ctx.c, made.hold.data, made.hold.size, WH_MEM_AUTO, rights, &made.c),
         "register", "register: 0 bytes" if made.hold.size == 0 else None)
    return made


cdef void close_rkey(void *key) noexcept nogil:
    wh_rkey_close(<wh_rkey *>key)


@cython.no_gc_clear
cdef class RemoteMemory:
    """A peer's registered memory, over one endpoint; from ``Endpoint.open_key``.

    Offsets and sizes are in bytes.  Operations take effect in no stated order, save for
    ``Endpoint.fence``; ``Endpoint.flush`` is done when the effects of all earlier ones are visible
    to the owner.  Any thread may start operations; the rest is for the one that owns the worker.

    It is closed with the object, too.  ``with remote:`` closes it at the end.
    """

    cdef wh_rkey *c
    cdef readonly Endpoint endpoint
    cdef object __weakref__

    def __dealloc__(self):
        if self.c != NULL:
            let_go(self.endpoint.worker, close_rkey, self.c)

    cdef wh_rkey *open(self) except NULL:
        if self.c == NULL:
            raise failure(WH_ECLOSED, "the remote memory is closed", None, self.endpoint.peer_name)
        return self.c

    def put(self, buf, offset=0, *, Type type=None, count=1, origin=0, timeout=None,
            stream=None):
        """Writes the bytes of `buf` to `offset` of the peer's memory.

        buf, type, count, origin, stream: as for ``Endpoint.send``; the packed bytes are written one behind
            the other.

        Gives None, when `buf` may be changed again; ``Endpoint.flush`` says when they are there.
        Raises BoundsError, DeniedError (the key does not allow it), RemoteKeyError (its owner has
        closed the memory), PeerError.
        """
        cdef Worker w = self.endpoint.worker
        cdef int32_t timeout_ms = milliseconds(timeout)
        cdef uint64_t at = size_of(offset, "offset")
        cdef Request op = w.begin(OP_PUT)
        hold_into(op, seen_as(buf, type, count, origin), False, stream)
        return w.started(op, wh_put(self.open(), at, op.view.buf, op.amount(),
                                    w.options(op, timeout_ms, 0), &op.handle), self.endpoint)

    def get(self, buf, offset=0, *, Type type=None, count=1, origin=0, timeout=None,
            stream=None):
        """Fills `buf`, which must be writable, from `offset` of the peer's memory on.

        buf, type, count, origin, stream: as for ``Endpoint.recv``.

        Gives None, when the bytes are here.  Raises what ``put`` does.
        """
        cdef Worker w = self.endpoint.worker
        cdef int32_t timeout_ms = milliseconds(timeout)
        cdef uint64_t at = size_of(offset, "offset")
        cdef Request op = w.begin(OP_GET)
        hold_into(op, seen_as(buf, type, count, origin), True, stream)
        return w.started(op, wh_get(self.open(), at, op.view.buf, op.amount(),
                                    w.options(op, timeout_ms, 0), &op.handle), self.endpoint)

    def atomic(self, str kind not None, offset, operand, *, compare=0, size=8,
               bint fetch=True, timeout=None):
        """Changes the word of `size` bytes, 4 or 8, at `offset`, a multiple of `size`.

        kind: "add", "and", "or", "xor", "swap", or "cswap": `operand`, if the word is `compare`.
        operand, compare: integers of `size` bytes, signed or not.
        fetch: whether the value from before is asked for.

        Gives that value, as an unsigned integer, or None without `fetch`.  Atomic among each other
        and with atomics of the owner's process.  Raises what ``put`` does.
        """
        if kind not in ATOMICS:
            raise ValueError(f"kind is {kind!r}: one of {', '.join(ATOMICS)}")
        cdef int width = within(size, "size", 0, INT_MAX)
        if width != 4 and width != 8:
            raise ValueError(f"size is {width}: 4 or 8 bytes")
        cdef uint64_t at = size_of(offset, "offset")
        if at % width:
            raise ValueError(f"offset is {at}: a multiple of {width} is needed")
        cdef Worker w = self.endpoint.worker
        cdef int32_t timeout_ms = milliseconds(timeout)
        cdef uint64_t value = word_of(operand, width, "operand")
        cdef uint64_t expected = word_of(compare, width, "compare")
        cdef wh_atomic_op what = ATOMICS[kind]
        cdef Request op = w.begin(OP_ATOMIC)
        cdef Rare rare = op.more()
        rare.fetches = width if fetch else 0
        return w.started(op, wh_atomic(self.open(), at, what, width, value, expected,
                                       &rare.word if fetch else NULL, w.options(op, timeout_ms, 0),
                                       &op.handle), self.endpoint)

    @property
    def size(self):
        """Bytes of the memory."""
        return wh_rkey_size(self.open())

    @property
    def direct(self):
        """Whether it is reached without the owner's help, as of now: memory from ``alloc`` of a
        peer on this host, soon after the key was opened."""
        return bool(wh_rkey_direct(self.open()))

    @property
    def closed(self):
        """Whether ``close`` has been called."""
        return self.c == NULL

    def close(self):
        """Gives it up; operations under way go on."""
        if self.c == NULL:
            return
        self.endpoint.worker.must_own()
        wh_rkey_close(self.c)
        self.c = NULL

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None or self.endpoint.worker.pid == getpid():
            self.close()

    def __repr__(self):
        state = "closed" if self.c == NULL else f"of {self.size} bytes"
        return f"<RemoteMemory {state} with {self.endpoint.peer}>"


cdef uint64_t word_of(object value, int size, str name) except? 0:
    """An integer of so many bytes, signed or not, as the engine takes it."""
    bits = 8 * size
    return within(value, name, -(1 << (bits - 1)), (1 << bits) - 1) & ((1 << bits) - 1)


cdef RemoteMemory open_key(Endpoint ep, object key):
    cdef const unsigned char[::1] bytes = key
    cdef RemoteMemory made = RemoteMemory.__new__(RemoteMemory)
    made.endpoint = ep
    ep.worker.must_own()
    must(wh_rkey_open(ep.open(), &bytes[0] if len(bytes) else NULL, len(bytes), &made.c),
         "open_key")
    ep.worker.touch()
    return made
