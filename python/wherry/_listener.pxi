# SPDX-License-Identifier: BSD-3-Clause

@cython.no_gc_clear
cdef class Listener:
    """A host and port where peers connect; from ``listen``.

    ``async with listener:`` (or ``with``) closes it at the end; endpoints that it accepted live on.
    ``async for ep in listener:`` accepts until it is closed.
    """

    cdef park_door *door  # NULL: closed
    cdef readonly Worker worker
    cdef object callback, made_at
    cdef object waiters, waiting  # of accept: operations, and endpoints that nobody has taken
    cdef object __weakref__

    def __dealloc__(self):
        if self.door == NULL or self.worker.pid != getpid():
            return  # closed, or the parent's
        self.worker.forget(self.worker.listeners, self.door.number)
        # First, since the warning runs Python code, and so may other threads: the owner's.
        if self.worker.is_owner():
            park_door_close(self.door)
        else:
            park_door_drop(self.door)
            self.worker.wake()
        self.door = NULL
        warn_unclosed(f"unclosed listener, made at {self.made_at}")

    cdef deliver(self, Endpoint ep):
        if self.callback is not None:
            run_handler(self.worker, self.callback, (ep,))
            return
        if self.waiters:
            (<Request>self.waiters.popleft()).end_here(ep, WH_OK)
        else:
            self.waiting.append(ep)

    def accept(self):
        """The next endpoint, of a listener without a callback: gives an Endpoint."""
        if self.callback is not None:
            raise ValueError("accept: this listener gives its endpoints to its callback")
        if self.door == NULL:
            raise failure(WH_ECLOSED, "the listener is closed", "accept")
        self.worker.must_own()
        if self.waiting:
            return settled(self.worker, OP_ACCEPT, self.waiting.popleft())
        cdef Request op = self.worker.begin(OP_ACCEPT)
        op.target = self
        self.waiters.append(op)
        self.worker.touch()
        return op

    def __aiter__(self):
        return iterate(self.accept)

    @property
    def port(self):
        """The port that it listens on."""
        return self.must_be_open() and wh_listener_port(self.door.listener)

    @property
    def address(self):
        """``"host:port"``, with the host as it was given (``*`` for all)."""
        cdef char text[NAME_MAX]
        self.must_be_open()
        must(wh_listener_address(self.door.listener, text, sizeof(text)), "address")
        return text.decode()

    @property
    def addresses(self):
        """Where it listens: a list of ``(host, port)``, one per socket.  Owner only."""
        cdef wh_address address
        cdef size_t index = 0
        cdef list found = []
        self.must_be_open()
        self.worker.must_own()
        while wh_listener_sockaddr(self.door.listener, index, &address) == WH_OK:
            found.append(address_of(&address))
            index += 1
        return found

    cdef int must_be_open(self) except -1:
        if self.door == NULL:
            raise failure(WH_ECLOSED, "the listener is closed")
        return 1

    @property
    def closed(self):
        """Whether ``close`` has been called."""
        return self.door == NULL

    def close(self):
        """Stops listening.  Endpoints that nobody has taken are aborted; ``accept`` ends.

        Owner only.
        """
        if self.door == NULL:
            return
        self.worker.must_own()
        park_door_close(self.door)
        self.door = NULL
        while self.waiters:
            (<Request>self.waiters.popleft()).end_here(None, WH_ECLOSED)
        while self.waiting:
            self.waiting.popleft().abort()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.__exit__(*error)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None or self.worker.pid == getpid():
            self.close()

    def __repr__(self):
        return "<Listener closed>" if self.door == NULL else f"<Listener at {self.address}>"


cdef Request listen(Worker w, object callback, object host, object port, object secret,
                    bint any_user, object data):
    cdef wh_listener_opts opts
    cdef Listener listener
    w.must_be_open()
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: {callback!r} cannot be called")
    secret_bytes = c_secret(secret)
    given, size = c_data(data, "data")
    memset(&opts, 0, sizeof(opts))
    opts.size = sizeof(opts)
    opts.data = <const char *>given
    opts.data_size = size
    opts.any_user = any_user
    if secret_bytes is not None:
        opts.secret = secret_bytes
    listener = Listener.__new__(Listener)
    listener.worker = w
    listener.callback = callback
    listener.waiters = deque()
    listener.waiting = deque()
    listener.made_at = place()
    where = address_text(host, port)
    where_bytes = c_text(where, "host")
    cdef park_door *door = <park_door *>calloc(1, sizeof(park_door))
    if door == NULL:
        raise MemoryError
    door.home = &w.parked
    door.number = park_number()
    listen_in()
    cdef wh_status status = wh_listener_open(w.c, where_bytes, &opts, park_on_accept, door,
                                             &door.listener)
    if status != WH_OK:
        free(door)
    heard(status, "listen", f" at {where}")
    listener.door = door
    w.listeners[door.number] = listener
    w.touch()
    return settled(w, OP_ACCEPT, listener)
