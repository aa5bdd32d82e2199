# SPDX-License-Identifier: BSD-3-Clause
#
# The worker, and how an event loop drives it.
#
# The loop sleeps on the engine's descriptor, so before each sleep the worker must be armed, and
# again after any call that may have given it work.  `touch` sees to that: the first call of a turn
# schedules `_turn`, which pumps: progress, step the tasks whose operations have ended, and arm once
# nothing moves.  The reader of the descriptor pumps too.
#
# An await may spin, because a peer that is awake answers sooner than a loop turns.  So that nobody
# starves: it does not while another task waits for us, not again in a turn in which it was in vain,
# and only while such waits have lately paid.  What tasks do without a loop turn is limited to a
# slice of time; beyond it they yield until the loop has turned.

cdef enum:
    SLICE_NS = 400000     # what tasks may do in a turn of the loop without waiting
    PUMP_NS = 100000      # after so much of a turn no more tasks are stepped
    SPIN_NS = 250000      # longest spin: a round of 1 MiB; below a wake-up peers would stay asleep
    PASSES = 64           # of progress in one pump
    CLOCK_EVERY = 16      # operations between two looks at the clock
    LUCK_MAX = 8
    LUCK_RETRY = -8       # waits without a spin before one is tried again
    GIL_PASSES = 64       # of a blocking wait, before others get the interpreter's lock
    SIGNALS_MS = 100      # longest sleep of a blocking wait, since Ctrl-C does not end one


@cython.no_gc_clear
cdef class LoopLink:
    """What a loop calls when the descriptor is readable.  Only the loop has it, so it goes with the
    loop's close, and tells the worker."""

    cdef Worker worker

    def __call__(self):
        self.worker.pump()

    def __dealloc__(self):
        self.worker.lose_loop()


cdef class Worker:
    """One progress domain: owned by the thread that makes it, driven by that thread's event loop.

    context: the configuration; default: one made from the environment.
    accept: called with each endpoint that a peer opens through ``address``; a function, or a
        coroutine function, of which a task is made.

    It joins the loop that runs when it is made, or else the first in which one of its operations is
    awaited; when that loop is closed, the next.  Without a loop its operations are waited for by
    ``Request.result``.  Most programs never make one: ``wherry.connect`` and ``wherry.listen`` keep
    one per thread and running loop.
    """

    cdef wh_worker *c
    cdef Context ctx
    cdef park parked
    cdef park_door door
    cdef wh_op_opts opts      # of the operation that is being started
    cdef wh_result result     # of one that was done at once
    cdef Request spare        # the next operation: not made anew for a send that is done at once
    cdef readonly object loop
    cdef object on_turn
    cdef unsigned long thread
    cdef bint scheduled, pumping, due, spin_blocked, debug, destroyed
    cdef int waiting          # tasks that wait for our operations
    cdef int luck
    cdef unsigned count
    cdef uint64_t turn_start, spin_ns
    cdef object endpoints, listeners  # number -> the open ones
    cdef dict handlers                # of active messages: id -> function
    cdef object accept
    cdef object __weakref__

    def __cinit__(self, Context context=None, *, accept=None):
        cdef wh_worker_opts opts
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        self.ctx = context if context is not None else Context()
        park_init(&self.parked)
        self.door.home = &self.parked
        self.accept = accept
        if accept is not None:
            opts.accept = park_on_accept
            opts.accept_arg = &self.door
        must(wh_worker_create(self.ctx.c, &opts, &self.c), "Worker")
        self.thread = PyThread_get_thread_ident()
        self.endpoints = WeakValueDictionary()
        self.listeners = WeakValueDictionary()
        self.handlers = {}
        self.opts.size = sizeof(self.opts)
        self.opts.done = park_on_done
        self.opts.result = &self.result
        self.luck = 1
        config = self.ctx.config
        if config["progress"][0] != "wait" and int(config["spin_us"][0]):
            self.spin_ns = max(<int>SPIN_NS, 1000 * int(config["spin_us"][0]))

    def __init__(self, *args, **kwargs):
        self.on_turn = self._turn
        workers.add(self)
        self.join_loop()

    def __dealloc__(self):
        if self.c == NULL or self.destroyed:
            return
        # No operation is under way, since each of them holds the worker.
        if wh_worker_adopt(self.c) == WH_OK:
            wh_worker_destroy(self.c)
            self.drop_events()

    cdef void drop_events(self):
        cdef parked_event *event = park_pop(&self.parked)
        while event != NULL:
            if event.kind == PARKED_ENDPOINT:
                wh_endpoint_abort(event.ep)
            free(event)
            event = park_pop(&self.parked)

    cdef inline bint is_owner(self):
        return PyThread_get_thread_ident() == self.thread

    # ---- operations

    # begin returns the operation to be started; `opts` and its handle are ready for the engine.
    cdef Request begin(self, int kind):
        cdef Request op = self.spare
        if op is None:
            op = Request.__new__(Request)
            op.worker = self
            park_op_init(&op.c, &self.parked, <void *>op)
        else:
            self.spare = None
        op.kind = kind
        self.opts.arg = &op.c
        self.opts.timeout_ms = 0
        self.opts.flags = 0
        return op

    # started sees to an operation that the engine has been told of; `status` is what it said.
    cdef Request started(self, Request op, wh_status status, object target):
        op.target = target
        if status == WH_PENDING:
            op.in_engine = True
            Py_INCREF(op)  # the engine's; given back when it leaves the park
            op.yields = True
            if self.loop is None:
                self.join_loop()
            if self.debug:
                op.place = place()
            self.touch()
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
        raise error

    # ---- the loop

    cdef int join_loop(self) except -1:
        """Joins the running loop, unless it has one that is not closed."""
        if self.loop is not None and not self.loop.is_closed():
            return 0
        if self.c == NULL or not self.is_owner():
            return 0
        loop = get_running_loop()
        if loop is None:
            return 0
        self.loop = loop
        self.debug = loop.get_debug()
        cdef LoopLink link = LoopLink.__new__(LoopLink)
        link.worker = self
        loop.add_reader(wh_worker_fd(self.c), link)
        self.touch()
        return 0

    cdef void lose_loop(self):
        """The loop was closed: what its tasks waited for must not take messages from others."""
        cdef parked_op *op
        if self.destroyed:
            return
        self.loop = None
        self.scheduled = False
        self.pumping = False
        op = park_first_waiting(&self.parked)
        while op != NULL:
            (<Request>op.request).orphan()
            op = park_first_waiting(&self.parked)

    cdef inline int touch(self) except -1:
        if self.scheduled or self.pumping or self.loop is None:
            return 0
        return self.schedule()

    cdef int schedule(self) except -1:
        # The engine wakes its owner by itself when another thread has given it work.
        if not self.is_owner() or self.c == NULL:
            return 0
        if self.loop.is_closed():
            return 0
        self.loop.call_soon(self.on_turn)
        self.scheduled = True
        self.turn_start = park_clock_ns()
        return 0

    def _turn(self):
        self.scheduled = False
        self.pump()

    cdef int pump(self) except -1:
        """One turn: progress and step tasks within a slice; then arm, or go on in the next turn."""
        cdef int passes
        cdef unsigned events
        cdef wh_status status
        if self.pumping or self.c == NULL:
            return 0
        self.pumping = True
        self.due = False
        self.spin_blocked = False
        self.turn_start = park_clock_ns()
        try:
            for passes in range(PASSES):
                events = wh_worker_progress(self.c)
                if not park_empty(&self.parked):
                    self.drain()
                elif events == 0:
                    status = wh_worker_arm(self.c)
                    if status == WH_OK:
                        return 0
                    if status != WH_EBUSY:
                        self.leave_loop()
                        must(status, "progress")
                if self.c == NULL or park_clock_ns() - self.turn_start > PUMP_NS:
                    break
        finally:
            self.pumping = False
        self.touch()
        return 0

    cdef int drain(self) except -1:
        """Takes operations and events out of the park and tells whoever waits for them."""
        cdef parked_op *ended
        cdef Request op
        self.handle_events()
        ended = park_first(&self.parked)
        while ended != NULL:
            op = <Request>ended.request
            op.finish()
            op.leave()
            if op.then is not None:
                self.run_then(op)
            if op.done_fn is not None and not self.loop.is_closed():
                op.tell()
            self.count += 1
            if (self.count % CLOCK_EVERY == 0
                    and park_clock_ns() - self.turn_start > PUMP_NS):
                break
            ended = park_first(&self.parked)
        return 0

    cdef inline bint slice_over(self):
        """Whether tasks have had their time of this turn; they yield until it is over."""
        if self.due:
            return True
        if not self.scheduled and not self.pumping:
            return False  # no turn is under way
        if park_clock_ns() - self.turn_start < SLICE_NS:
            return False
        self.due = True
        return True

    cdef inline bint must_yield(self):
        """The same for an operation that was done at once; the clock is read now and then."""
        self.count += 1
        return self.due or (self.count % CLOCK_EVERY == 0 and self.slice_over())

    cdef bint spin(self, Request op):
        """Progresses for an operation that a task is about to wait for; True when it has ended."""
        cdef uint64_t until, end
        if self.c == NULL or not self.is_owner():
            return False
        if self.waiting > 0 or self.spin_blocked or self.due or not self.spins():
            wh_worker_progress(self.c)
            return park_op_done(&op.c)
        if not self.scheduled and not self.pumping:
            self.touch()
        until = park_clock_ns() + self.spin_ns
        end = self.turn_start + SLICE_NS
        if park_spin(self.c, &op.c, until if until < end else end):
            self.luck += self.luck < LUCK_MAX
            return True
        self.spin_blocked = True
        if until <= end:  # else it was cut short, which says nothing
            self.luck -= 1
        return False

    cdef bint spins(self):
        if self.luck > 0:
            return self.spin_ns != 0
        self.luck -= 1
        if self.luck <= LUCK_RETRY:
            self.luck = 1
        return False

    cdef int leave_loop(self) except -1:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.remove_reader(wh_worker_fd(self.c))
        self.loop = None
        return 0

    # ---- waiting without a loop

    cdef int wait(self, Request op, object timeout) except -1:
        """Blocks until `op` has ended.  Raises TimedOutError when that takes longer."""
        cdef uint64_t deadline = 0, now
        cdef int slice_ms, i
        cdef wh_status status = WH_OK
        cdef bint owner = self.is_owner()
        if owner and self.loop is not None and get_running_loop() is self.loop:
            raise RuntimeError(f"{op!r}: inside its running event loop, await it instead")
        if not owner and op.handle == NULL:
            raise failure(WH_ETHREAD, "", OP_NAMES[op.kind])
        if timeout is not None:
            deadline = park_clock_ns() + <uint64_t>milliseconds(timeout) * 1000000
        for i in range(GIL_PASSES):
            if owner:
                wh_worker_progress(self.c)
                if park_has_events(&self.parked):
                    self.handle_events()
            if park_op_done(&op.c):
                return 0
        while not park_op_done(&op.c):
            slice_ms = SIGNALS_MS
            if timeout is not None:
                now = park_clock_ns()
                if now >= deadline:
                    raise failure(WH_ETIMEDOUT, f"{OP_NAMES[op.kind]}: not within {timeout} s; it "
                                  "goes on", OP_NAMES[op.kind], op.peer())
                if deadline - now < SIGNALS_MS * <uint64_t>1000000:
                    slice_ms = <int>((deadline - now + 999999) / 1000000)
            if not owner:
                op.sleepers += 1
                with nogil:
                    wh_request_wait(op.handle, slice_ms)
                op.sleepers -= 1
                if op.finished:
                    op.free_handle()
            else:
                with nogil:
                    status = wh_worker_wait(self.c, slice_ms)
                must(WH_OK if status == WH_ETIMEDOUT else status, "wait")
                self.drain_without_tasks()
            PyErr_CheckSignals()
        return 0

    def progress(self):
        """Moves all that can move without waiting; True when something did.  Owner only.

        A loop or a waiting ``result`` do this; only programs that have neither need it.
        """
        cdef unsigned events
        self.must_be_open()
        self.must_own()
        events = wh_worker_progress(self.c)
        self.drain_without_tasks()
        return events != 0

    cdef int drain_without_tasks(self) except -1:
        """As ``drain``, for when no loop runs: what tasks wait for stays until it does."""
        cdef parked_op *ended
        cdef parked_op *following
        cdef Request op
        self.handle_events()
        ended = park_first(&self.parked)
        while ended != NULL:
            following = park_next(&self.parked, ended)
            op = <Request>ended.request
            op.finish()
            if op.done_fn is None:
                op.leave()
                if op.then is not None:
                    # It may start operations and so take others out.
                    self.run_then(op)
                    following = park_first(&self.parked)
            ended = following
        self.touch()
        return 0

    cdef run_then(self, Request op):
        then, op.then = op.then, None
        try:
            then(op)
        except Exception as error:
            self.report("a handler of the worker failed", error)

    # ---- events

    cdef int handle_events(self) except -1:
        cdef parked_event *event = park_pop(&self.parked)
        while event != NULL:
            try:
                self.handle_event(event)
            except Exception as error:
                self.report("a handler of the worker failed", error)
            finally:
                free(event)
            event = park_pop(&self.parked)
        return 0

    cdef handle_event(self, parked_event *event):
        cdef Listener listener
        if event.kind == PARKED_ENDPOINT:
            listener = self.listeners.get(event.number)
            ep = adopt_endpoint(self, event.ep, "" if listener is None else listener.made_at)
            if event.number == 0:
                self._run(self.accept, (ep,))
                return
            if listener is None:
                ep.abort()
            else:
                listener.deliver(ep)
        elif event.kind == PARKED_LOST:
            ep = self.endpoints.get(event.number)
            if ep is not None:
                (<Endpoint>ep).tell_lost(event.why)
        else:
            self.handle_am(event)

    cdef handle_am(self, parked_event *event):
        cdef bytes header = event.bytes[:event.header_size]
        ep = self.endpoints.get(event.number)
        fn = self.handlers.get(event.id)
        if event.kept == NULL:
            if fn is not None:
                self._run(fn, (ep, header,
                              event.bytes[event.header_size:event.header_size + event.size]))
        elif fn is None:
            wh_am_drop(event.kept)
        else:
            receive_am(self, event, ep, header, fn)

    def _run(self, fn, args):
        """Calls a handler; of what a coroutine function returns a task is made."""
        made = fn(*args)
        if not iscoroutine(made):
            return
        if self.loop is None:
            made.close()
            raise RuntimeError(f"{fn!r} is a coroutine function, and the worker has no event loop")
        task = self.loop.create_task(made)
        tasks.add(task)  # the loop has only weak ones
        task.add_done_callback(tasks.discard)

    cdef report(self, str message, error):
        if self.loop is not None:
            self.loop.call_exception_handler({"message": message, "exception": error})
        else:
            print_exception(type(error), error, error.__traceback__)

    # ---- what users ask for

    cdef int must_be_open(self) except -1:
        if self.c == NULL or self.destroyed:
            raise failure(WH_ECLOSED, "the worker is closed")
        return 0

    cdef int must_own(self) except -1:
        if not self.is_owner():
            raise failure(WH_ETHREAD, "")
        return 0

    def connect(self, host=None, port=None, *, address=None, timeout=None, secret=None):
        """Connects to a listener at `host` and `port`, or to a worker by its ``address``.

        timeout: seconds; default: the setting `connect_timeout`.
        secret: what both sides must know; default: the setting `secret`.

        Gives an Endpoint.  Raises RefusedError, AddressError, TimedOutError, AuthError, ...
        """
        return connect(self, host, port, address, timeout, secret)

    def listen(self, callback=None, host=None, port=0, *, secret=None, any_user=False):
        """Listens at `host` (default: all addresses) and `port` (0: a free one).

        callback: called with each new Endpoint; a function, or a coroutine function, of which a
            task is made.  Without one, take them with ``Listener.accept``.
        any_user: whether processes of other users of this host may connect.

        Gives a Listener.  Raises AddressError when the address is taken or not this machine's.
        """
        return listen(self, callback, host, port, secret, any_user)

    @property
    def address(self):
        """The worker's address, for ``connect(address=...)`` elsewhere; opens its sockets."""
        cdef char blob[WH_ADDRESS_MAX]
        cdef size_t size = sizeof(blob)
        self.must_be_open()
        must(wh_worker_address(self.c, blob, &size), "address")
        self.touch()
        return blob[:size]

    @property
    def uuid(self):
        """The 16 bytes that name the worker."""
        cdef unsigned char uuid[16]
        self.must_be_open()
        wh_worker_uuid(self.c, uuid)
        return (<char *>uuid)[:16]

    def recv(self, buf, uint64_t tag=0, uint64_t mask=ALL, *, timeout=None):
        """Receives the next message from any endpoint; otherwise as ``Endpoint.recv``.

        ``source`` of the Request says from which.
        """
        self.must_be_open()
        cdef Request op = self.begin(OP_RECV)
        hold_into(op, buf, True)
        op.tag = tag
        self.opts.timeout_ms = milliseconds(timeout)
        return self.started(op, wh_worker_tag_recv(
            self.c, op.view.buf, op.view.len, tag, mask, &self.opts, &op.handle), self)

    def recv_obj(self, uint64_t tag=0, uint64_t mask=ALL, *, into=None, timeout=None):
        """Receives the next object from any endpoint; otherwise as ``Endpoint.recv_obj``."""
        return recv_object(self, None, into, tag, mask, timeout)

    def probe(self, uint64_t tag=0, uint64_t mask=ALL):
        """The first message that has come, from any endpoint; otherwise as ``Endpoint.probe``."""
        self.must_be_open()
        self.must_own()
        wh_worker_progress(self.c)
        self.touch()
        return probed(self, wh_worker_tag_probe(self.c, tag, mask, &self.result))

    def set_am(self, uint16_t id, handler):
        """Sets the handler of active messages of `id`; None takes it away.

        It is called with the endpoint, the header and the payload, both ``bytes`` or, of a large
        payload, a ``bytearray``; a coroutine function becomes a task.  Messages are handled in the
        order of their sends, except that a large payload arrives later.
        """
        self.must_be_open()
        if handler is None:
            must(wh_worker_set_am(self.c, id, NULL, NULL), "set_am")
            self.handlers.pop(id, None)
        else:
            must(wh_worker_set_am(self.c, id, park_on_am, &self.parked), "set_am")
            self.handlers[id] = handler

    def counters(self):
        """What the worker has done so far: name -> number."""
        cdef wh_counters counters
        self.must_be_open()
        must(wh_worker_counters(self.c, &counters), "counters")
        return counters

    def dump(self):
        """Prints links, lanes, credits and pending operations to standard error."""
        self.must_be_open()
        self.must_own()
        wh_worker_dump(self.c, stderr)

    @property
    def owned(self):
        """Whether the calling thread owns the worker."""
        return self.is_owner()

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
            loop.remove_reader(wh_worker_fd(self.c))
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
            if loop is not None and op.done_fn is not None:
                loop.call_soon(tell_later, op)
            ended = park_first(&self.parked)
        self.c = NULL

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self):
        state = "closed" if self.closed else f"of {self.loop!r}" if self.loop else "without a loop"
        return f"<Worker {state}, {len(self.endpoints)} endpoints>"


def tell_later(Request op):
    op.tell()


cdef str place():
    """The line of the program that called into this package."""
    frame = getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__package__") == "wherry":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
