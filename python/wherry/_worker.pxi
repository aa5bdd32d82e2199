# SPDX-License-Identifier: BSD-3-Clause
#
# The worker: how operations begin, and what users ask of it.  How a loop drives it is in _loop.pxi.


cdef class Worker(Driven):
    """One progress domain: owned by the thread that makes it, driven by that thread's event loop.

    context: the configuration; default: one made from the environment.
    accept: called with each endpoint that a peer opens through ``address``; a function, or a
        coroutine function, of which a task is made.
    data: bytes that those peers read as ``Endpoint.peer_data``; at most 1,024.

    It joins the loop that runs when it is made, or else the first in which one of its operations is
    awaited; when that loop is closed, the next.  Without a loop its operations are waited for by
    ``Request.result``.  Most programs never make one: ``wherry.connect`` and ``wherry.listen`` keep
    one per thread and running loop.
    """

    cdef readonly Context context
    cdef park_door door
    cdef wh_op_opts opts      # of the operation that is being started
    cdef wh_result result     # of one that was done at once
    cdef Request spare        # the next operation: not made anew for a send that is done at once
    cdef object endpoints, listeners  # number -> the open ones
    cdef dict handlers                # of active messages: id -> function
    cdef dict allocators              # of objects: name of the memory -> function
    cdef object accept
    cdef str made_at
    cdef set late             # tasks that were given a message instead of their cancellation
    cdef object __weakref__

    def __cinit__(self, Context context=None, *, accept=None, data=None):
        cdef wh_worker_opts opts
        if accept is not None and not callable(accept):
            raise TypeError(f"accept: {accept!r} cannot be called")
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        given, size = c_data(data, "data")
        opts.accept_data = <const char *>given
        opts.accept_data_size = size
        self.context = context if context is not None else Context()
        park_init(&self.parked)
        self.door.home = &self.parked
        self.accept = accept
        if accept is not None:
            opts.accept = park_on_accept
            opts.accept_arg = &self.door
        listen_in()
        cdef wh_status status = wh_worker_create(self.context.c, &opts, &self.c)
        heard(status, "Worker")
        self.thread = PyThread_get_thread_ident()
        self.pid = getpid()
        self.endpoints = WeakValueDictionary()
        self.listeners = WeakValueDictionary()
        self.handlers = {}
        self.allocators = {}
        self.late = set()
        self.made_at = place()
        self.opts.size = sizeof(self.opts)
        self.opts.done = park_on_done
        self.opts.result = &self.result
        self.luck = 1
        config = self.context.config
        if config["progress"][0] != "wait" and int(config["spin_us"][0]):
            self.spin_ns = max(<int>SPIN_NS, 1000 * int(config["spin_us"][0]))
        self.yields_to_others = config["progress"][0] != "spin"

    def __init__(self, *args, **kwargs):
        self.on_turn = self._turn
        workers.add(self)
        self.join_loop()

    def __dealloc__(self):
        if self.c == NULL or self.destroyed:
            park_close_dropped(&self.parked)
            return
        # No operation is under way, since each of them holds the worker.
        if wh_worker_adopt(self.c) == WH_OK:
            park_close_dropped(&self.parked)
            wh_worker_destroy(self.c)
            self.drop_events()

    # forget takes away an endpoint or a listener that goes.  Only when its __dealloc__ is over are
    # weak references to it cleared: whoever found it meanwhile would have freed memory.
    cdef void forget(self, found, uint64_t number):
        if found is not None:  # the garbage collector may have cleared the worker already
            found.data.pop(number, None)  # without running Python code

    cdef void wake(self):
        if self.c != NULL and not self.destroyed:
            wh_worker_wake(self.c)

    cdef void drop_events(self):
        cdef parked_event *event = park_pop(&self.parked)
        while event != NULL:
            if event.kind == PARKED_ENDPOINT:
                wh_endpoint_abort(event.ep)
            free(event)
            event = park_pop(&self.parked)
        park_drop_losses(&self.parked)

    # ---- operations

    # begin returns the operation to be started.
    cdef Request begin(self, int kind):
        cdef Request op = self.spare
        if op is None:
            op = Request.__new__(Request)
            op.worker = self
            park_op_init(&op.c, &self.parked, <void *>op)
        else:
            self.spare = None
        op.kind = kind
        return op

    # options are the engine's, for the call in which they are asked for: before it, objects are
    # asked for their memory, and they or another thread may start operations meanwhile.
    cdef inline wh_op_opts *options(self, Request op, int32_t timeout_ms, uint32_t flags):
        self.opts.arg = &op.c
        self.opts.timeout_ms = timeout_ms
        self.opts.flags = flags
        self.opts.type = op.layout
        self.opts.stream = op.stream
        op.stream = NULL  # which another operation may take
        # A plain buffer is the CPU's; of others the engine finds out, which has its price.
        self.opts.mem = WH_MEM_HOST if op.keep is None else WH_MEM_AUTO
        return &self.opts

    # started sees to an operation that the engine has been told of; `status` is what it said.
    cdef Request started(self, Request op, wh_status status, object target):
        op.target = target
        if status == WH_PENDING:
            op.in_engine = True
            Py_INCREF(op)  # the engine's; given back when it leaves the park
            op.yields = True
            self.touch()
            if self.debug:  # as the loop says that it may have joined
                op.place = place()
            return op
        if status == WH_OK:
            op.c.result = self.result
            op.c.result.status = WH_OK
            op.c.source = park_number_of(self.result.source) if self.result.source != NULL else 0
            op.yields = True
            op.finish()
            self.touch()
            return op
        op.c.result.status = status
        op.c.result.size = 0
        error = op.make_error()
        if error is None:
            return DONE
        raise error

    # put_off has a task see its cancellation once it waits for something, or at its next receive:
    # as long as messages are there, it would not have to wait.
    cdef put_off(self, task):
        self.late.add(task)
        get_running_loop().call_soon(cancel_put_off, self, task)

    cdef inline bint cancels(self) except -1:
        """Whether the running task is to see such a cancellation now, and receive nothing."""
        if not self.late or get_running_loop() is None:
            return False
        from asyncio import current_task
        task = current_task()
        return task in self.late and is_cancelled(task)

    # withdrawn ends a receive that the engine was never told of.
    cdef Request withdrawn(self, Request op, object target):
        op.target = target
        op.cancel_asked = True
        op.c.result.status = WH_ECANCELLED
        op.finish()
        return op

    # ---- what users ask for

    def progress(self):
        """Moves all that can move without waiting; True when something did.  Owner only.

        A loop or a waiting ``result`` do this; only programs that have neither need it.
        """
        cdef unsigned events
        self.must_be_open()
        self.must_own()
        events = wh_worker_progress(self.c)
        drain_without_tasks(self)
        return events != 0

    def wait(self, timeout=None):
        """Sleeps until something moves, and moves it; False: nothing did for `timeout` seconds.

        For a program without a loop whose other threads use the worker: the owner waits, in turns,
        for as long as they need it.  Owner only, and not inside its running event loop.
        """
        cdef uint64_t deadline = deadline_of(timeout)
        cdef int slice_ms
        cdef wh_status status = WH_ETIMEDOUT
        self.must_own()
        self.join_loop()
        must_be_outside_loop(self, "Worker.wait")
        while status == WH_ETIMEDOUT:
            self.must_be_open()
            slice_ms = slice_of(deadline)
            with nogil:
                status = wh_worker_wait(self.c, slice_ms)
            must(WH_OK if status == WH_ETIMEDOUT else status, "wait")
            drain_without_tasks(self)
            PyErr_CheckSignals()
            if slice_ms == 0:
                break
        return status == WH_OK

    cdef int must_be_open(self) except -1:
        if self.c == NULL or self.destroyed:
            raise failure(WH_ECLOSED, "the worker is closed")
        return 0

    # must_own is for what only the owner does.  A forked child has the same threads, but not the
    # worker: its descriptors are closed there.
    cdef int must_own(self) except -1:
        self.must_be_ours()
        if not self.is_owner():
            raise failure(WH_ETHREAD, "")
        return 0

    def connect(self, host=None, port=None, *, address=None, timeout=None, secret=None,
                data=None):
        """Connects to a listener at `host` and `port`, or to a worker by its ``address``.

        timeout: seconds; default: the setting `connect_timeout`.
        secret: what both sides must know; default: the setting `secret`. Empty: none, whatever the
            setting says.
        data: at most 1,024 bytes that the peer reads as ``Endpoint.peer_data`` once it has the
            endpoint.

        Gives an Endpoint.  Raises RefusedError, AddressError, TimedOutError, AuthError, ...
        """
        return connect(self, host, port, address, timeout, secret, data)

    def listen(self, callback=None, host=None, port=0, *, secret=None, any_user=False,
               data=None):
        """Listens at `host` (default: all addresses) and `port` (0: a free one).

        callback: called with each new Endpoint; a function, or a coroutine function, of which a
            task is made.  Without one, take them with ``Listener.accept``.
        secret: as for ``connect``; an empty one lets everybody in.
        any_user: whether processes of other users of this host may connect.
        data: at most 1,024 bytes that each peer reads as ``Endpoint.peer_data`` once it is
            connected.

        Gives a Listener.  Raises AddressError when the address is taken or not this machine's.
        """
        return listen(self, callback, host, port, secret, any_user, data)

    @property
    def address(self):
        """The worker's address, for ``connect(address=...)`` elsewhere; opens its sockets."""
        cdef char blob[WH_ADDRESS_MAX]
        cdef size_t size = sizeof(blob)
        self.must_be_open()
        listen_in()
        heard(wh_worker_address(self.c, blob, &size), "address")
        self.touch()
        return blob[:size]

    @property
    def uuid(self):
        """The 16 bytes that name the worker."""
        cdef unsigned char uuid[16]
        self.must_be_open()
        wh_worker_uuid(self.c, uuid)
        return (<char *>uuid)[:16]

    def recv(self, buf, tag=0, mask=ALL, *, Type type=None, count=1, origin=0, timeout=None,
             stream=None):
        """Receives the next message from any endpoint; otherwise as ``Endpoint.recv``.

        ``source`` of the Request says from which.
        """
        cdef Request op = self.begin(OP_RECV)
        hold_into(op, seen_as(buf, type, count, origin), True, stream)
        op.tag = bits_of(tag, "tag")
        cdef uint64_t compared = bits_of(mask, "mask")
        cdef int32_t timeout_ms = milliseconds(timeout)
        self.must_be_open()
        if self.cancels():
            return self.withdrawn(op, self)
        return self.started(op, wh_worker_tag_recv(
            self.c, op.view.buf, op.amount(), op.tag, compared, self.options(op, timeout_ms, 0),
            &op.handle), self)

    def recv_obj(self, tag=0, mask=ALL, *, into=None, timeout=None, allocator=None, threshold=0,
                 stream=None):
        """Receives the next object from any endpoint; otherwise as ``Endpoint.recv_obj``."""
        return recv_object(self, None, into, bits_of(tag, "tag"), bits_of(mask, "mask"), timeout,
                           allocator, threshold, stream)

    def objects(self, tag=0, mask=ALL, *, timeout=None):
        """For ``async for``: what ``recv_obj`` gives, until the worker is closed; otherwise as
        ``Endpoint.objects``."""
        return iterate_objects(self.recv_obj, tag, mask, timeout)

    def flush(self, *, timeout=None):
        """``Endpoint.flush`` of all its endpoints, save those that had ended before.  Owner only.

        Gives None, or raises the first error, once all of them have ended.
        """
        return flush_all(self, timeout)

    def fence(self):
        """``Endpoint.fence`` of all its endpoints.  Owner only."""
        fence_all(self)

    def probe(self, tag=0, mask=ALL):
        """The first message that has come, from any endpoint; otherwise as ``Endpoint.probe``."""
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        self.must_be_open()
        self.must_own()
        wh_worker_progress(self.c)
        self.touch()
        return probed(self, wh_worker_tag_probe(self.c, wanted, compared, &self.result))

    def probe_obj(self, tag=0, mask=ALL):
        """The first object that has come, from any endpoint; otherwise as ``Endpoint.probe_obj``."""
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        self.must_be_open()
        self.must_own()
        wh_worker_progress(self.c)
        self.touch()
        return probed_obj(self, wh_worker_object_probe(self.c, wanted, compared, &self.result))

    def take(self, tag=0, mask=ALL):
        """Takes the message that ``probe`` would tell of: a Message, or None.  Owner only."""
        cdef uint64_t wanted = bits_of(tag, "tag"), compared = bits_of(mask, "mask")
        cdef wh_message *message = NULL
        self.must_be_open()
        self.must_own()
        wh_worker_progress(self.c)
        self.touch()
        cdef wh_status status = wh_worker_tag_take(self.c, wanted, compared, &self.result,
                                                   &message)
        return taken(self, status, message)

    def set_am(self, id, handler):
        """Sets the handler of active messages of `id`; None takes it away.

        It is called with the endpoint, the header and the payload, both ``bytes`` or, of a large
        payload, a ``bytearray``; a coroutine function becomes a task.  Messages are handled in the
        order of their sends, except that a large payload arrives later.
        """
        cdef uint16_t number = within(id, "id", 0, UINT16_MAX)
        self.must_be_open()
        if handler is None:
            must(wh_worker_set_am(self.c, number, NULL, NULL), "set_am")
            self.handlers.pop(number, None)
        elif not callable(handler):
            raise TypeError(f"set_am: {handler!r} cannot be called")
        else:
            must(wh_worker_set_am(self.c, number, park_on_am, &self.parked), "set_am")
            self.handlers[number] = handler

    def set_allocator(self, str memory not None, allocator, *, threshold=0):
        """Sets who gives the memory for objects that ``recv_obj`` receives.  Owner only.

        memory: the kind that it was sent from: "host", "cuda", "sim".
        allocator: ``allocator(part)`` returns a writable object of that kind of memory with at
            least ``part.size`` bytes, which ``recv_obj`` then gives as it is.  `part` is an
            Incoming: its ``typestr`` and ``shape`` tell how to make an array.  What it raises ends
            the receive with RejectedError, which has it as its cause.  None: as at first.
        threshold: it is not asked for parts of fewer bytes, which then cost no more than without
            an allocator.

        By default host memory becomes bytes, memoryviews and numpy arrays, and device memory
        a Frame.  ``Endpoint.set_allocator`` and ``recv_obj(allocator=)`` come before this one.
        """
        cdef wh_allocator made
        cdef wh_mem_kind kind = kind_of(memory)
        self.must_be_open()
        if allocator is None:
            must(wh_worker_set_allocator(self.c, kind, NULL), "set_allocator")
            self.allocators.pop(memory, None)
        else:
            fill_allocator(&made, allocator, threshold, "set_allocator")
            must(wh_worker_set_allocator(self.c, kind, &made), "set_allocator")
            self.allocators[memory] = allocator

    def counters(self):
        """What the worker has done so far: name -> number."""
        cdef wh_counters counters
        self.must_be_open()
        counters.size = sizeof(counters)
        must(wh_worker_counters(self.c, &counters), "counters")
        return {name: value for name, value in counters.items() if name != "size"}

    def dump(self):
        """Prints links, lanes, credits and pending operations to standard error."""
        self.must_be_open()
        self.must_own()
        wh_worker_dump(self.c, stderr)

    @property
    def owned(self):
        """Whether the calling thread owns the worker; in a forked child none does."""
        return self.is_owner() and self.pid == getpid()

    @property
    def closed(self):
        """Whether ``close`` has been called."""
        return self.c == NULL or self.destroyed

    def close(self):
        """Ends the worker: endpoints without waiting, pending operations with ClosedError.

        Close endpoints first when what they have sent must arrive.
        """
        if self.c == NULL or self.destroyed:
            return
        self.must_own()
        self.destroyed = True
        loop = self.loop if self.loop is not None and not self.loop.is_closed() else None
        if loop is not None:
            loop.remove_reader(self.reader)
        # The engine knows nothing of those who wait in accept().
        for listener in self.listeners.valuerefs():
            listener = listener()
            if listener is not None:
                listener.close()
        park_close_dropped(&self.parked)
        wh_worker_destroy(self.c)
        self.drop_events()
        self.end_tasks(loop)

    cdef end_tasks(self, loop):
        """Tells those who wait that their operations have ended: in the loop, if there is one."""
        cdef parked_op *ended = park_first(&self.parked)
        cdef Request op
        while ended != NULL:
            op = <Request>ended.request
            op.finish()
            op.leave()
            if op.kind == OP_FLUSH and op.rare is not None and op.rare.then is not None:
                run_then(self, op)  # which ends the flush that it is a part of
            if loop is not None and op.done_fn is not None:
                loop.call_soon(tell_later, op)
            ended = park_first(&self.parked)
        self.c = NULL

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None or self.pid == getpid():  # sys.exit of a forked child shall be just that
            self.close()

    def __repr__(self):
        state = "closed" if self.closed else f"of {self.loop!r}" if self.loop else "without a loop"
        return f"<Worker {state}, {len(self.endpoints)} endpoints>"


def is_cancelled(task):
    """Whether who asked a task to end has not taken it back, as asyncio.timeout does."""
    cancelling = getattr(task, "cancelling", None)  # from Python 3.11 on
    return cancelling is None or cancelling() > 0


def cancel_put_off(Worker worker, task):
    if task in worker.late:
        worker.late.discard(task)
        cancel_again(task)


def tell_later(Request op):
    op.tell()


cdef str place():
    """The line of the program that called into this package."""
    frame = getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__package__") == "wherry":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
