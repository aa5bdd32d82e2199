# SPDX-License-Identifier: BSD-3-Clause
#
# Endpoints: the calls of tag.h, object.h, am.h and endpoint.h on one conversation.
#
# A call converts, starts the operation, and returns it; what was done at once and has no result is
# one shared object, DONE.

cdef Request DONE  # made below: an operation of no worker in particular

cdef enum:
    NAME_MAX = 256  # bytes of a peer's name or of the lanes


@cython.no_gc_clear
cdef class Endpoint:
    """One ordered conversation with a peer, from ``connect`` or a listener.

    Messages with the same tag arrive in the order of their sends.  All calls that may take time
    return a Request: ``await`` it, or ask for its ``result(timeout)``.  Any thread may start
    operations; the others are for the thread that owns the worker.

    ``async with endpoint:`` (or ``with``, without a loop) closes it at the end.  That the peer has gone
    is then no error, as it is for ``close``.
    """

    cdef wh_endpoint *c
    cdef uint64_t number
    cdef readonly Worker worker
    cdef str peer_name, made_at
    cdef object lost_fn
    cdef dict allocators  # as the worker's; None: it has none of its own
    cdef bint closing
    cdef bint was_lost       # of one that was closed
    cdef wh_peer_info told   # size 0: nothing yet
    cdef bytes data_told
    cdef object __weakref__

    def __dealloc__(self):
        if self.c == NULL or self.worker.pid != getpid():
            return  # closed, or the parent's
        self.worker.forget(self.worker.endpoints, self.number)
        made_at = self.made_at
        try:
            warn_unclosed(f"unclosed endpoint with {self.peer_name or 'its peer'}, {made_at}")
        finally:
            # In order all the same: what was sent shall arrive.
            wh_endpoint_close(self.c, NULL, NULL)
            self.c = NULL
            self.worker.touch()

    cdef wh_endpoint *open(self) except NULL:
        if self.c == NULL:
            raise failure(WH_ECLOSED, "the endpoint is closed", None, self.peer_name)
        return self.c

    cdef str sentence(self):
        return wh_endpoint_error(self.c).decode() if self.c != NULL else ""

    cdef introduce(self):
        """Learns who the peer is: after the end there is nobody to ask any more."""
        cdef char text[NAME_MAX]
        cdef wh_peer_info info
        cdef size_t size
        if wh_endpoint_peer(self.c, text, sizeof(text)) == WH_OK:
            self.peer_name = text.decode()
        info.size = sizeof(info)
        if wh_endpoint_peer_info(self.c, &info) == WH_OK:
            self.told = info
            data = <const char *>wh_endpoint_peer_data(self.c, &size)
            self.data_told = data[:size] if data != NULL else b""

    cdef bint introduced(self):
        if self.told.size == 0 and self.c != NULL:
            self.introduce()
        return self.told.size != 0

    cdef void drop(self):
        cdef wh_endpoint *c = self.c
        if c != NULL:
            self.was_lost = wh_endpoint_lost(c)
            self.c = NULL
            wh_endpoint_abort(c)

    def send(self, buf, tag=0, *, bint sync=False, Type type=None, count=1, origin=0,
             timeout=None, stream=None):
        """Sends the bytes of `buf` as one message.

        buf: bytes, bytearray, memoryview, numpy array, or anything with memory: the buffer
            protocol, ``__cuda_array_interface__``, ``__array_interface__`` or DLPack.  Of any
            strides: the elements travel in C order of their indices, whatever their order in
            memory, and nobody has to make them contiguous first.
        type, count, origin: what is sent is `count` elements of `type` instead, whose origin is
            `origin` bytes from the first element of `buf`: their packed bytes.
        sync: done only when a receive has matched it; otherwise when `buf` may be changed again.
        timeout: seconds after which it ends with TimedOutError.
        stream: of `buf`'s device: it is sent as what is in the stream now has left it.  A stream of
            cupy, torch or numba, an object with ``__cuda_stream__``, or its handle as an integer.
            None: what ``__cuda_array_interface__`` names, or the one that DLPack makes ready; else
            `buf` has to be ready.

        Gives None.  Raises TypeError or ValueError for a buffer that cannot be sent, ClosedError,
        PeerError.
        """
        return self.start_send(seen_as(buf, type, count, origin), bits_of(tag, "tag"),
                               WH_OP_SYNC if sync else 0, milliseconds(timeout), stream)

    cdef Request start_send(self, object buf, uint64_t tag, uint32_t flags, int32_t timeout_ms,
                            object stream):
        cdef Worker w = self.worker
        cdef Request op = w.begin(OP_SEND)
        cdef wh_status status
        hold_into(op, buf, False, stream)
        status = wh_tag_send(self.open(), op.view.buf, op.amount(), tag,
                             w.options(op, timeout_ms, flags), &op.handle)
        if status == WH_OK and not w.must_yield():
            # The operation was not needed; the next one takes it.
            op.let_go()
            if op.keep is not None:
                op.keep = None
            w.spare = op
            w.touch()
            return DONE
        op.tag = tag
        return w.started(op, status, self)

    def recv(self, buf, tag=0, mask=ALL, *, Type type=None, count=1, origin=0, timeout=None,
             stream=None):
        """Receives the next message whose tag fits into `buf`, which must be writable.

        A message fits when ``message.tag & mask == tag & mask``: by default, when the tag is `tag`.

        buf, type, count, origin: as for ``send``; elements that overlap cannot be received into.
        stream: as for ``send``: `buf` is left alone until what is in the stream now has been done.

        Gives the bytes of the message, which may be fewer than `buf` holds.  Raises TruncatedError
        when they are more (``size`` says how many; `buf` holds the beginning), ClosedError when
        the peer has closed, PeerError when it was lost, TimedOutError after `timeout` seconds.
        """
        return self.start_recv(seen_as(buf, type, count, origin), bits_of(tag, "tag"),
                               bits_of(mask, "mask"), milliseconds(timeout), stream)

    cdef Request start_recv(self, object buf, uint64_t tag, uint64_t mask, int32_t timeout_ms,
                            object stream):
        cdef Worker w = self.worker
        cdef Request op = w.begin(OP_RECV)
        hold_into(op, buf, True, stream)
        op.tag = tag
        if w.cancels():
            return w.withdrawn(op, self)
        return w.started(op, wh_tag_recv(self.open(), op.view.buf, op.amount(), tag, mask,
                                         w.options(op, timeout_ms, 0), &op.handle), self)

    def send_obj(self, obj, tag=0, *, timeout=None, stream=None):
        """Sends an object, or a list or tuple of them, as one message for ``recv_obj``.

        obj: what ``send`` takes, and ``wherry.types.View``.  What arrives is of the same kind and
            contiguous: bytes as bytes, a numpy array as a numpy array of the same type and shape,
            other memory as a memoryview.

        Gives None.
        """
        return send_object(self, obj, bits_of(tag, "tag"), timeout, stream)

    def recv_obj(self, tag=0, mask=ALL, *, into=None, timeout=None, allocator=None, threshold=0,
                 stream=None):
        """Receives the next object whose tag fits, and allocates what it needs.

        into: a writable buffer, or a list of them, for the object's parts, of any strides or a
            ``wherry.types.View``; None among them: allocate.  A given buffer is returned as that
            part.
        allocator: who gives the memory of all other parts, of any kind of memory, that have at
            least `threshold` bytes; as ``Worker.set_allocator``, for this receive.
        stream: as for ``recv``, of all parts on a device.

        Gives what was sent: an object, or a list of them.  Raises TruncatedError when a given
        buffer is too small, and what ``recv`` does.
        """
        return recv_object(self.worker, self, into, bits_of(tag, "tag"), bits_of(mask, "mask"),
                           timeout, allocator, threshold, stream)

    def set_allocator(self, str memory not None, allocator, *, threshold=0):
        """Sets who gives the memory for objects from this endpoint, as ``Worker.set_allocator``
        does for all of them.  None: as for all.  Owner only.
        """
        cdef wh_allocator made
        cdef wh_mem_kind kind = kind_of(memory)
        cdef wh_endpoint *c = self.open()
        if allocator is None:
            must(wh_endpoint_set_allocator(c, kind, NULL), "set_allocator")
            if self.allocators is not None:
                self.allocators.pop(memory, None)
            return
        fill_allocator(&made, allocator, threshold, "set_allocator")
        must(wh_endpoint_set_allocator(c, kind, &made), "set_allocator")
        if self.allocators is None:
            self.allocators = {}
        self.allocators[memory] = allocator

    def objects(self, tag=0, mask=ALL, *, timeout=None):
        """For ``async for obj in ep.objects():`` what ``recv_obj`` gives, until the peer has closed.

        Raises PeerError when it was lost; TimedOutError when none has come for `timeout` seconds,
        after which the iteration can go on.  One that is left has taken no object with it.
        """
        return iterate_objects(self.recv_obj, tag, mask, timeout)

    def am_send(self, id, buf=b"", header=b"", *, Type type=None, count=1, origin=0, timeout=None,
                stream=None):
        """Sends an active message: the handler that the peer's worker has for `id` is called.

        buf, type, count, origin, stream: as for ``send``.
        header: at most 1,024 bytes.

        Gives None, when `buf` may be changed again.
        """
        cdef Worker w = self.worker
        cdef uint16_t number = within(id, "id", 0, UINT16_MAX)
        cdef const unsigned char[::1] head = header
        cdef const unsigned char *first = &head[0] if len(head) else NULL
        cdef size_t size = len(head)
        cdef int32_t timeout_ms = milliseconds(timeout)
        if size > WH_AM_HEADER_MAX:
            raise failure(WH_EINVAL, f"am_send: the header has {size} bytes: at most "
                          f"{<int>WH_AM_HEADER_MAX}; what is more goes into buf", "am_send")
        cdef Request op = w.begin(OP_AM_SEND)
        hold_into(op, seen_as(buf, type, count, origin), False, stream)
        return w.started(op, wh_am_send(self.open(), number, first, size, op.view.buf, op.amount(),
                                        w.options(op, timeout_ms, 0), &op.handle), self)

    def probe(self, tag=0, mask=ALL):
        """The first message that has come and that such a receive would get, or None.

        Gives ``(size, tag, source)``; the message stays where it is.  Owner only.
        """
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        cdef wh_endpoint *c = self.open()
        self.worker.must_own()
        wh_worker_progress(self.worker.c)
        self.worker.touch()
        return probed(self.worker, wh_tag_probe(c, wanted, compared, &self.worker.result))

    def probe_obj(self, tag=0, mask=ALL):
        """The first object that has come and that such a receive would get, or None.

        Gives ``(tag, source)``; the object stays where it is, and of a large one only its head has come.
        Owner only.
        """
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        cdef wh_endpoint *c = self.open()
        self.worker.must_own()
        wh_worker_progress(self.worker.c)
        self.worker.touch()
        return probed_obj(self.worker, wh_object_probe(c, wanted, compared, &self.worker.result))

    def take(self, tag=0, mask=ALL):
        """Takes the message that ``probe`` would tell of: a Message, or None.  Owner only."""
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        cdef wh_endpoint *c = self.open()
        cdef wh_message *message = NULL
        self.worker.must_own()
        wh_worker_progress(self.worker.c)
        self.worker.touch()
        cdef wh_status status = wh_tag_take(c, wanted, compared, &self.worker.result,
                                            &message)
        return taken(self.worker, status, message)

    def open_key(self, key):
        """Opens memory of the peer by its key (``RegisteredMemory.key``): a RemoteMemory.

        The endpoint must lead to a worker of the context that made the key.  Owner only.  Raises
        RemoteKeyError when these bytes are no key.
        """
        return open_key(self, key)

    def fence(self):
        """What this thread starts here from now on, messages too, takes effect at the peer after
        all remote accesses that it has started before.  Does not wait.
        """
        must(wh_endpoint_fence(self.open()), "fence")
        self.worker.touch()

    def flush(self, *, timeout=None):
        """Done when the peer's library holds all earlier small messages, the payloads of large ones
        that a receive has matched have moved, and puts and atomics are visible to the peer.  Raises
        the error of any of these that has failed since.

        Gives None.
        """
        return self.start_flush(milliseconds(timeout))

    cdef Request start_flush(self, int32_t timeout_ms):
        cdef Worker w = self.worker
        cdef Request op = w.begin(OP_FLUSH)
        return w.started(op, wh_endpoint_flush(self.open(), w.options(op, timeout_ms, 0),
                                               &op.handle), self)

    def close(self, *, timeout=None):
        """Ends the conversation in order: what was sent arrives, then the peer sees ClosedError.

        The endpoint cannot be used from now on, and receives that wait end with ClosedError.
        timeout: seconds; default: the setting `close_timeout`.

        Gives None once the peer has acknowledged; a second close gives None at once.
        """
        return self.end(timeout, TELL_ALL)

    cdef Request end(self, object timeout, int quiet):
        cdef Worker w = self.worker
        cdef int32_t timeout_ms = milliseconds(timeout)
        cdef wh_endpoint *c = self.c
        if c == NULL or (quiet == TELL_NOTHING and w.pid != getpid()):
            return DONE
        if quiet != TELL_ALL and (w.c == NULL or w.destroyed):
            self.drop()
            return DONE
        w.must_be_ours()
        cdef Request op = w.begin(OP_CLOSE)
        op.quiet = quiet
        if self.peer_name is None:
            self.introduce()
        self.was_lost = wh_endpoint_lost(c)
        # The handle is given up with the call, and with it the way to ask for the lost peer.
        self.c = NULL
        return w.started(op, wh_endpoint_close(c, w.options(op, timeout_ms, 0), &op.handle), self)

    def abort(self):
        """Ends it at once: operations end with CancelledError, the peer sees PeerError."""
        if self.c != NULL:
            self.worker.must_be_ours()
        self.drop()
        self.worker.touch()

    def on_lost(self, fn):
        """Calls ``fn(error)``, once, when the peer has closed or was lost (ClosedError, PeerError).

        A coroutine function becomes a task.
        """
        if not callable(fn):
            raise TypeError(f"on_lost: {fn!r} cannot be called")
        must(wh_endpoint_on_lost(self.open(), park_on_lost, &self.worker.parked), "on_lost")
        self.lost_fn = fn
        self.worker.touch()

    cdef tell_lost(self, wh_status why):
        fn, self.lost_fn = self.lost_fn, None
        if fn is not None:
            run_handler(self.worker, fn, (failure(why, self.sentence(), None, self.peer_name),))

    @property
    def closed(self):
        """Whether ``close`` or ``abort`` has been called."""
        return self.c == NULL

    @property
    def lost(self):
        """Whether the peer has closed or was lost; after ``close`` or ``abort``: whether it had then.

        Any thread may ask, and finds it before any other operation tells.
        """
        return wh_endpoint_lost(self.c) if self.c != NULL else self.was_lost

    @property
    def connected(self):
        """Whether the peer is there: connected, and neither closed nor lost.  Owner only."""
        if self.c == NULL:
            return False
        self.worker.must_own()
        return wh_endpoint_status(self.c) == WH_OK

    @property
    def peer(self):
        """Who is at the other end: ``"pid@host (address)"``; None before it is connected."""
        if self.peer_name is None and self.c != NULL:
            self.introduce()
        return self.peer_name

    @property
    def local_address(self):
        """This end of the connection to the peer: ``(host, port)``; None before it is connected.

        It is what the first ``connect`` between the two workers used: later endpoints share it.  A
        connect by ``address`` on one host needs no port: then it is a local socket's name, a str.
        """
        return address_of(&self.told.local) if self.introduced() else None

    @property
    def remote_address(self):
        """The peer's end of the connection, as ``local_address``."""
        return address_of(&self.told.remote) if self.introduced() else None

    @property
    def peer_info(self):
        """Who is at the other end: a PeerInfo; None before it is connected."""
        cdef const wh_peer_info *told = &self.told
        if not self.introduced():
            return None
        return PeerInfo(told.uuid[:16], address_of(&told.local), address_of(&told.remote),
                        bool(told.same_host), bool(told.vouched), told.uid, told.pid,
                        told.host.decode(errors="replace"))

    @property
    def peer_data(self):
        """What the peer gave as `data` of ``connect`` or ``listen``; None before it is connected."""
        return self.data_told if self.introduced() else None

    @property
    def lanes(self):
        """What its messages go over: ``"shm (shm ring 32 KiB)"``; None when not connected.

        Owner only.
        """
        cdef char text[NAME_MAX]
        self.open()
        self.worker.must_own()
        if wh_endpoint_lanes(self.open(), text, sizeof(text)) != WH_OK:
            return None
        return text.decode()

    def counters(self):
        """What the endpoint has done so far: name -> number."""
        cdef wh_counters counters
        counters.size = sizeof(counters)
        must(wh_endpoint_counters(self.open(), &counters), "counters")
        return {name: value for name, value in counters.items()
                if name not in ("size", "doorbells", "wakeups", "sleeps", "links", "endpoints",
                                "pending")}

    async def __aenter__(self):
        return self

    def __aexit__(self, kind, error, trace):
        return self.end(None, left_by(kind))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.end(None, left_by(kind)).result()

    def __repr__(self):
        if self.c == NULL:
            state = "closed"
        else:
            # Other threads and a forked child cannot ask.
            state = "" if not self.worker.owned or self.connected else "not connected"
        return f"<Endpoint with {self.peer or 'its peer'}{', ' if state else ''}{state}>"


cdef int left_by(object kind):
    """What the close at the end of a ``with`` tells: a failure that is on its way says more than it,
    and that the peer has gone is what operations tell."""
    return TELL_OTHERS if kind is None else TELL_NOTHING


DONE = Request.__new__(Request)
DONE.finished = True


cdef int hold_into(Request op, object buf, bint writable, object stream=None) except -1:
    """Gives an operation its buffer: in `view`, whatever it came by; and the stream that it is behind."""
    if get_buffer(buf, &op.view, PyBUF_STRIDES | (PyBUF_WRITABLE if writable else 0)) < 0:
        return hold_other(op, buf, writable, stream)
    if stream is not None:
        stream_of(stream)  # nothing to the CPU's memory, but a mistake is told
    op.held = True
    check_elements(buf, &op.view, "buf")
    if not is_dense(&op.view):
        op.layout = layout_of_view(buf, &op.view, writable)
        op.elements = 1
    return 0


cdef int hold_other(Request op, object buf, bint writable, object stream) except -1:
    PyErr_Clear()
    cdef Hold other = hold_message(buf, writable, stream)
    op.stream = other.stream if stream is None else stream_of(stream)
    op.keep = other
    # Released like a plain one: of a view without an object that does nothing.
    memset(&op.view, 0, sizeof(op.view))
    op.view.buf = other.data
    op.view.len = other.size
    op.held = True
    op.layout = wh_type_retain(other.type)
    op.elements = other.count
    return 0


cdef Endpoint new_endpoint(Worker worker):
    cdef Endpoint ep = Endpoint.__new__(Endpoint)
    ep.worker = worker
    ep.made_at = f"made at {place()}"
    return ep


cdef Endpoint adopt_endpoint(Worker worker, wh_endpoint *c, str listener_at):
    """The Endpoint of one that a peer has opened."""
    cdef Endpoint ep = Endpoint.__new__(Endpoint)
    ep.worker = worker
    ep.made_at = (f"accepted by the listener made at {listener_at}" if listener_at else
                  f"accepted by the worker made at {worker.made_at}")
    ep.c = c
    ep.number = park_number_of(c)
    ep.introduce()
    worker.endpoints[ep.number] = ep
    return ep


cdef str address_text(object host, object port):
    if host is not None and not isinstance(host, str):
        raise TypeError(f"host is {host!r:.60}: a name or an address is needed, as text")
    host = host or ""
    number = within(port, "port", 0, UINT16_MAX)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"{host}:{number}"


cdef Request connect(Worker w, object host, object port, object address, object timeout,
                     object secret, object data):
    cdef wh_endpoint_opts opts
    cdef wh_status status
    cdef const unsigned char[::1] blob
    w.must_be_open()
    if (address is None) == (host is None or port is None):
        raise TypeError("connect: give a host and a port, or an address")
    secret_bytes = c_secret(secret)
    given, size = c_data(data, "data")
    memset(&opts, 0, sizeof(opts))
    opts.size = sizeof(opts)
    opts.data = <const char *>given
    opts.data_size = size
    opts.timeout_ms = milliseconds(timeout)
    opts.done = park_on_done
    if secret_bytes is not None:
        opts.secret = secret_bytes
    cdef Endpoint ep = new_endpoint(w)
    cdef Request op = w.begin(OP_CONNECT)
    opts.arg = &op.c
    if address is not None:
        where = "that worker"
        blob = address
        listen_in()
        status = wh_endpoint_connect_blob(w.c, &blob[0] if len(blob) else NULL, len(blob), &opts,
                                          &ep.c)
    else:
        where = address_text(host, port)
        where_bytes = c_text(where, "host")
        listen_in()
        status = wh_endpoint_connect(w.c, where_bytes, &opts, &ep.c)
    heard(status, "connect", f" to {where}")
    park_set_number(ep.c)
    ep.number = park_number_of(ep.c)
    w.endpoints[ep.number] = ep
    return w.started(op, WH_PENDING, ep)


cdef object probed(Worker w, wh_status status):
    if status == WH_ENOTFOUND:
        return None
    must(status, "probe")
    return Probed(w.result.size, w.result.tag, source_of(w))


cdef object probed_obj(Worker w, wh_status status):
    if status == WH_ENOTFOUND:
        return None
    must(status, "probe_obj")
    return (w.result.tag, source_of(w))


cdef Endpoint source_of(Worker w):
    """Where what the worker's result describes comes from; None when nobody has that endpoint any more."""
    if w.result.source == NULL:
        return None
    return w.endpoints.get(park_number_of(w.result.source))
