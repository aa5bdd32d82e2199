# SPDX-License-Identifier: BSD-3-Clause
#
# An operation: what every call that may take time returns.
#
# It is the awaited object itself.  A task that awaits it gets the operation as if it were a future
# (_asyncio_future_blocking, add_done_callback, cancel, result), and is stepped by whoever takes the
# operation out of the park: no Future, no coroutine, no loop turn in between.
#
# The engine holds a reference from the call until the operation leaves the park, and the buffer is
# held as long; so nothing that Python drops is written to later.

cdef enum:
    OP_SEND
    OP_RECV
    OP_SEND_OBJ
    OP_RECV_OBJ
    OP_AM_SEND
    OP_AM_RECV
    OP_FLUSH
    OP_CLOSE
    OP_CONNECT
    OP_ACCEPT
    OP_PUT
    OP_GET
    OP_ATOMIC

cdef enum:  # which failures of an operation are told
    TELL_ALL
    TELL_OTHERS   # all but that the peer has gone
    TELL_NOTHING

OP_NAMES = ("send", "recv", "send_obj", "recv_obj", "am_send", "am_recv", "flush", "close",
            "connect", "accept", "put", "get", "atomic")

cdef extern from *:
    """
    /* The awaited object answers without raising StopIteration: half the price of __next__. */
    static int wherry_send_slot(PyObject *type, void *slot) {
    #if PY_VERSION_HEX >= 0x030a0000
        PyTypeObject *t = (PyTypeObject *)type;
        t->tp_as_async->am_send = (sendfunc)slot;
        PyType_Modified(t);
    #endif
        return 0;
    }

    /* What is called by name, and not through the type's slot. */
    static int wherry_set_method(PyObject *type, const char *name, PyObject *fn) {
        int rc = PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, name, fn);
        PyType_Modified((PyTypeObject *)type);
        return rc;
    }

    static int wherry_new_slot(PyObject *type, void *slot) {
        ((PyTypeObject *)type)->tp_new = (newfunc)slot;
        ((PyTypeObject *)type)->tp_vectorcall = NULL;  /* of Cython 3.3; it would go first */
        PyType_Modified((PyTypeObject *)type);
        return 0;
    }
    """
    int wherry_send_slot(object type, void *slot)
    int wherry_set_method(object type, const char *name, object fn) except -1
    int wherry_new_slot(object type, void *slot)

cdef extern from "Python.h":
    int PyContext_Enter(object context)
    int PyContext_Exit(object context) except -1
    unsigned long PyThread_get_thread_ident() nogil


cdef class Rare:
    """What few operations need: kept apart, so that all others are made quickly."""

    cdef object then            # called once it has ended, with or without a loop
    cdef dict given             # of recv_obj: part -> Hold, from allocators
    cdef object allocator       # of this one alone
    cdef object reason          # what an allocator has raised
    cdef object cancel_message
    cdef list parts             # of a flush of several endpoints: those of each
    cdef object failed          # and the first error of these
    cdef uint64_t word          # that an atomic has found, of `fetches` bytes; 0: not asked for
    cdef int fetches


@cython.no_gc_clear
cdef class Request:
    """An operation under way, or done: ``await`` it, or ask for its ``result(timeout)``.

    Awaiting gives what the operation is for: None for sends, the bytes of the message for receives,
    the object for ``recv_obj``, the endpoint for ``connect``.  Inside a coroutine it can be given
    to ``asyncio.gather``, ``wait``, ``wait_for`` and ``shield`` like a future.

    Cancelling, by ``cancel`` or by cancelling the task that awaits it, is a request: an operation
    that has not begun to move data is withdrawn, and then ``asyncio.CancelledError`` is raised; one
    that has, completes.  A message is then delivered as if nothing had been, and the task sees its
    cancellation at its next receive or once it has to wait.  In both cases the buffer is free when ``await`` returns.
    """

    cdef parked_op c
    cdef wh_request *handle
    cdef Worker worker
    cdef object target        # the endpoint or worker that it was started on
    cdef Py_buffer view       # of a plain buffer; `held` says whether there is one
    cdef wh_type *layout      # of it; NULL: its bytes lie one behind the other
    cdef size_t elements      # of the layout
    cdef void *stream         # of a device, that the operation is behind; NULL: none
    cdef object keep          # whatever else must live until the end
    cdef object value, error  # how it ended
    cdef object done_fn, done_context, more_done  # callbacks, usually one
    cdef Rare rare            # what few operations need
    cdef object place         # where it was started, in debug mode
    cdef uint64_t size, tag
    cdef int kind, sleepers   # other threads that wait for it
    cdef int quiet            # which of its failures are told
    cdef bint held, in_engine, finished, cancel_asked, waited, yields
    cdef public bint _asyncio_future_blocking

    def __dealloc__(self):
        if self.handle != NULL:
            wh_request_free(self.handle)
        self.let_go()

    # amount is the size that goes to the engine: bytes, or elements of the layout.
    @cython.final
    cdef inline size_t amount(self):
        return self.view.len if self.layout == NULL else self.elements

    # let_go gives back the buffer and its layout.
    @cython.final
    cdef inline void let_go(self):
        if not self.held:
            return
        self.held = False
        PyBuffer_Release(&self.view)
        if self.layout != NULL:
            wh_type_release(self.layout)
            self.layout = NULL

    def __await__(self):
        return self

    def __iter__(self):
        text = f"{self!r} is not iterable: await it"
        raise TypeError(text + self.withdraw())

    def __next__(self):
        cdef PyObject *out = NULL
        cdef int going = self.advance(&out)
        result = <object>out
        Py_DECREF(result)
        if going:
            return result
        if result is None:
            raise StopIteration
        raise StopIteration(result)

    def throw(self, kind, value=None, trace=None):
        """For ``await``: what is thrown into a task while it waits here."""
        self.abandon()
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        if self.gives() and get_running_loop() is not None:
            from asyncio import CancelledError as CancelledTask, current_task
            task = current_task()
            if task is not None and isinstance(value, CancelledTask):
                # It had ended, and its task was only yielding: the message would be lost.
                self.worker.put_off(task)
                raise StopIteration(self.outcome(True))
        raise value

    cdef bint gives(self):
        """Whether it has ended with something that is lost unless somebody gets it."""
        return (self.finished and self.error is None
                and (self.kind == OP_RECV or self.value is not None))

    def close(self):
        """For ``await``: the coroutine that waits here goes away."""
        self.abandon()

    cdef abandon(self):
        # Nobody will look at the buffer any more; a receive must not take a message with it.
        if not self.ended() and self.worker.pid == getpid():
            self.cancel()

    # advance is one step of an await: 0 with the result, 1 with what to yield, -1: an exception.
    cdef int advance(self, PyObject **out) except -1:
        cdef Worker w = self.worker
        cdef bint done = self.finished
        if not done:
            done = park_op_done(&self.c)
            if not done and self.handle != NULL:
                done = w.spin(self)
            if not done:
                w.must_be_ours()
                w.join_loop()
                w.touch()
                self._asyncio_future_blocking = True
                Py_INCREF(self)
                out[0] = <PyObject *>self
                return 1
            self.settle()
        if self.yields and w.must_yield():
            self.yields = False
            w.touch()
            Py_INCREF(None)
            out[0] = <PyObject *>None
            return 1
        result = self.outcome(True)
        if w is not None:
            self.yields = True  # again, should somebody await it without end
        Py_INCREF(result)
        out[0] = <PyObject *>result
        return 0

    # settle finishes an operation that has ended.  It leaves the park, unless somebody else waits
    # for it, who is told from there.
    cdef int settle(self) except -1:
        self.finish()
        if self.done_fn is None and self.worker.is_owner():
            self.leave()
        return 0

    cdef void leave(self):
        park_op_leave(&self.c)
        if self.in_engine:
            self.in_engine = False
            Py_DECREF(self)

    # finish gives back what the operation held, and works out what came of it.
    cdef int finish(self) except -1:
        if self.finished:
            return 0
        self.finished = True
        self.size = self.c.result.size
        self.tag = self.c.result.tag
        if self.waited:
            self.waited = False
            self.worker.waiting -= self.kind != OP_ACCEPT
        if self.kind > OP_RECV or self.c.result.status != WH_OK:
            self.conclude()
        self.keep = None
        if self.rare is not None:
            self.rare.given = None
            self.rare.allocator = None
        self.free_handle()
        self.let_go()
        return 0

    # conclude works out what came of it; nothing but its size, of a message that was sent or received.
    cdef int conclude(self) except -1:
        keep, self.keep = self.keep, None
        try:
            if self.c.result.status != WH_OK:
                self.error = self.make_error()
                if self.kind == OP_CONNECT:
                    (<Endpoint>self.target).drop()
            elif self.kind == OP_RECV_OBJ:
                self.value = unpack_object(take_object(self.c.result.object), keep,
                                           None if self.rare is None else self.rare.given)
            elif self.kind == OP_CONNECT:
                (<Endpoint>self.target).introduce()
                self.value = self.target
            elif self.kind == OP_AM_RECV:
                self.value = keep
            elif self.kind == OP_ATOMIC:
                self.value = fetched(self.rare)
        except Exception as error:
            self.error = error
        return 0

    # give_memory asks the allocators for the memory of an object that has come.  They may do
    # anything meanwhile, also end this very receive, and with it the object.
    cdef int give_memory(self) except -1:
        cdef wh_object *object = park_asks(&self.c)
        cdef Worker w = self.worker
        cdef Hold hold
        cdef Rare rare = self.more()
        rare.given = {}
        cdef Endpoint ep = endpoint_of(w, object)
        try:
            incoming = incoming_parts(object, ep)
        except Error as error:
            rare.reason = error
            incoming = {next_without_memory(object): None}
        for i, part in incoming.items():
            try:
                hold = self.memory_of(part, ep) if part is not None else None
            except:
                # SystemExit and the like: the receive shall not wait for ever.
                if park_asks(&self.c) == object and wh_object_accept(object, i, NULL) == WH_OK:
                    park_end_ask(&self.c)
                raise
            if park_asks(&self.c) != object:
                return 0  # it has ended meanwhile
            rare.given[i] = hold
            if (wh_object_accept(object, i, hold.data if hold is not None else NULL) != WH_OK
                    or hold is None):
                break
        park_end_ask(&self.c)
        w.touch()
        return 0

    cdef object allocator_of(self, str memory, Endpoint ep):
        """The nearest one; None: it was taken away since the engine has looked."""
        if self.rare.allocator is not None:
            return self.rare.allocator
        if ep is not None and ep.allocators is not None and memory in ep.allocators:
            return ep.allocators[memory]
        return self.worker.allocators.get(memory)

    cdef Hold memory_of(self, object part, Endpoint ep):
        """The memory that an allocator gives for a part; None: it has failed, see `reason`."""
        cdef Hold hold
        try:
            allocator = self.allocator_of(part.memory, ep)
            if allocator is None:
                return hold_frame(part)
            made = allocator(part)
            hold = hold_dense_message(made, True)
            check_memory(hold, part)
        except Exception as error:
            self.rare.reason = error
            return None
        hold.made = made
        return hold

    cdef Rare more(self):
        if self.rare is None:
            self.rare = Rare.__new__(Rare)
        return self.rare

    cdef void free_handle(self):
        # Not under a thread that sleeps on it; the last of them does it.
        if self.handle != NULL and self.sleepers == 0:
            wh_request_free(self.handle)
            self.handle = NULL

    cdef make_error(self):
        cdef str text = ""
        if self.handle != NULL:
            text = wh_request_error(self.handle).decode()
        elif isinstance(self.target, Endpoint):
            text = (<Endpoint>self.target).sentence()
        if self.quiet == TELL_NOTHING or (self.quiet == TELL_OTHERS and self.c.result.status
                                          in (WH_ECLOSED, WH_EPEER)):
            return None
        if self.rare is not None and self.rare.failed is not None:
            return self.rare.failed
        size = self.c.result.size or (self.view.len if self.held else 0)
        error = failure(self.c.result.status, text, OP_NAMES[self.kind], self.peer(), size or None)
        if self.rare is not None:
            error.__cause__ = self.rare.reason
        return error

    cdef str peer(self):
        return (<Endpoint>self.target).peer_name if isinstance(self.target, Endpoint) else None

    cdef bint was_cancelled(self):
        return (self.cancel_asked and self.error is not None
                and self.c.result.status == WH_ECANCELLED)

    # outcome returns or raises how it ended; each time with a traceback of its own.
    cdef object outcome(self, bint in_task):
        if self.error is not None:
            if in_task and self.was_cancelled():
                if self.worker.late:
                    from asyncio import current_task
                    self.worker.late.discard(current_task())
                raise self._make_cancelled_error()
            raise self.error.with_traceback(None)
        if self.kind == OP_RECV:
            return self.size
        return self.value

    # end_here ends an operation that the engine knows nothing of (accept), from Python.
    cdef end_here(self, value, wh_status status):
        self.value = value
        self.c.result.status = status
        Py_INCREF(self)
        self.in_engine = True
        park_op_end(&self.c)
        self.worker.touch()

    # withdraw takes a receive back that nobody waits for, so that it takes no message with it: for what is done by mistake
    # instead of awaiting it.  Returns what to say about that.
    cdef str withdraw(self):
        if (self.kind not in (OP_RECV, OP_RECV_OBJ, OP_ACCEPT) or self.done_fn is not None
                or self.ended() or not self.worker.owned):
            return ""
        if self.kind == OP_ACCEPT:
            (<Listener>self.target).waiters.remove(self)
            self.end_here(None, WH_ECANCELLED)
        elif self.handle != NULL:
            wh_request_cancel(self.handle)
            self.worker.touch()
        return "; it was withdrawn"

    def result(self, timeout=None):
        """How it ended: returns or raises what ``await`` would.  Waits for it, `timeout` seconds.

        TimedOutError: not within `timeout`; the operation goes on.  The thread that owns the worker
        progresses it meanwhile; another thread sleeps, and the owner must progress.  Inside the
        running event loop of that worker it raises RuntimeError if there is something to wait for;
        a receive that nothing else waits for is withdrawn then, and takes no message.
        """
        if not self.ended() and in_loop_of(self.worker):
            text = f"{self!r}: inside its running event loop, await it instead"
            raise RuntimeError(text + self.withdraw())
        self.wait(timeout)
        return self.outcome(get_running_loop() is not None)

    cdef int wait(self, object timeout) except -1:
        if not self.finished:
            if not park_op_done(&self.c):
                wait_for(self.worker, self, timeout)
            self.settle()
        return 0

    def exception(self):
        """The exception that it ended with, or None.  Waits for its end as ``result`` does."""
        self.wait(None)
        try:
            self.outcome(get_running_loop() is not None)
        except Exception as error:
            return error
        return None

    def set_result(self, result):
        """Raises RuntimeError: only the operation itself ends it."""
        raise RuntimeError("a Request does not support set_result: its operation ends it")

    def set_exception(self, exception):
        """Raises RuntimeError: only the operation itself ends it."""
        raise RuntimeError("a Request does not support set_exception: its operation ends it")

    cdef bint ended(self):
        return self.finished or park_op_done(&self.c)

    def done(self):
        """Whether it has ended."""
        if self.ended():
            return True
        self.worker.must_be_ours()
        return False

    def cancelled(self):
        """Whether it has ended by ``cancel``."""
        if not self.done():
            return False
        self.finish()
        return self.was_cancelled()

    def cancel(self, msg=None):
        """Asks it to end.  False when it has ended already.  See the class for what comes of it."""
        if self.finished and self.done_fn is None:
            return False
        if self.kind == OP_ACCEPT:
            self.worker.must_own()
        self.worker.must_be_ours()
        if self.ended():
            # It has ended, and whoever waits has not been told yet: he gets the result first.
            self.cancel_asked = self.done_fn is not None
            return bool(self.cancel_asked)
        self.cancel_asked = True
        if msg is not None:
            self.more().cancel_message = msg
        if self.handle != NULL:
            wh_request_cancel(self.handle)
        elif self.kind == OP_CONNECT:
            (<Endpoint>self.target).drop()
        elif self.kind == OP_FLUSH:
            for part in self.rare.parts:
                (<Request>part).cancel()
        elif self.kind == OP_ACCEPT:
            (<Listener>self.target).waiters.remove(self)
            self.end_here(None, WH_ECANCELLED)
        self.worker.touch()
        return True

    # gather asks a cancelled future for these two.
    @property
    def _cancel_message(self):
        return None if self.rare is None else self.rare.cancel_message

    def _make_cancelled_error(self):
        from asyncio import CancelledError as CancelledTask
        message = self._cancel_message
        return CancelledTask() if message is None else CancelledTask(message)

    def add_done_callback(self, fn, *, context=None):
        """Calls ``fn(self)`` in the loop once it has ended, as a future would."""
        if context is None:
            context = copy_context()
        if self.worker is None:
            get_running_loop().call_soon(fn, self, context=context)
            return
        if not self.ended():
            self.worker.must_be_ours()
        self.worker.join_loop()
        if self.done_fn is None and not (self.finished and not self.in_engine):
            self.done_fn = fn
            self.done_context = context
            if not self.finished and not self.waited and self.worker.is_owner():
                self.waited = True
                self.worker.waiting += self.kind != OP_ACCEPT
                if not park_op_done(&self.c):
                    park_op_wait(&self.c)
        elif self.done_fn is None:
            self.worker.loop.call_soon(fn, self, context=context)
        else:
            self.more_done = (self.more_done or []) + [(fn, context)]

    def remove_done_callback(self, fn):
        """Takes such a callback back; returns how many there were."""
        left = [pair for pair in self.all_callbacks() if pair[0] != fn]
        removed = len(self.all_callbacks()) - len(left)
        self.done_fn, self.done_context = left[0] if left else (None, None)
        self.more_done = left[1:] or None
        return removed

    cdef list all_callbacks(self):
        if self.done_fn is None:
            return []
        return [(self.done_fn, self.done_context)] + (self.more_done or [])

    # orphan withdraws an operation whose waiter will never run again.
    cdef orphan(self):
        park_op_leave(&self.c)
        self.done_fn = None
        self.more_done = None
        self.cancel()

    # tell runs the callbacks, which step the waiting task.  Only from the loop, outside of tasks.
    cdef int tell(self) except -1:
        if self.done_fn is None:
            return 0
        fn, context, more = self.done_fn, self.done_context, self.more_done
        self.done_fn = None
        self.more_done = None
        run_in(self.worker, context, fn, self)
        if more is not None:
            for fn_too, context_too in more:
                run_in(self.worker, context_too, fn_too, self)
        if self.cancel_asked and self.error is None:
            cancel_late(fn)
        return 0

    def get_loop(self):
        """The event loop of its worker, or None."""
        if self.worker is None:
            return get_running_loop()
        self.worker.join_loop()
        return self.worker.loop

    @property
    def _loop(self):
        return self.get_loop()

    @property
    def size(self):
        """Bytes of the message once it has ended, also of one that was truncated."""
        self.must_have_ended("size")
        return self.size

    @property
    def tag(self):
        """The tag of the message that was received."""
        self.must_have_ended("tag")
        return self.tag

    @property
    def source(self):
        """The endpoint that the message came from; None when it is not open any more."""
        self.must_have_ended("source")
        if self.worker is None or not self.c.source:
            return None
        return self.worker.endpoints.get(self.c.source)

    cdef int must_have_ended(self, str what) except -1:
        if not self.finished:
            if not self.done():
                raise BusyError(f"{OP_NAMES[self.kind]}: no {what} while it is under way")
            self.finish()
        return 0

    def __repr__(self):
        cdef str text = f"<Request {OP_NAMES[self.kind]}"
        peer = self.peer()
        if self.kind in (OP_SEND, OP_RECV, OP_SEND_OBJ, OP_RECV_OBJ):
            text += f" tag=0x{self.tag:x}"
        if self.held:
            text += f" of {self.view.len} bytes"
        if peer:
            text += f" with {peer}"
        if not self.ended():
            text += " pending" + (" (cancel asked)" if self.cancel_asked else "")
        else:
            self.finish()
            text += " done" if self.error is None else f" failed: {self.error}"
        if self.place:
            text += f" started at {self.place}"
        return text + ">"


cdef object fetched(Rare rare):
    """The word that an atomic has found."""
    if not rare.fetches:
        return None
    return rare.word if rare.fetches == 8 else (<uint32_t *>&rare.word)[0]


cdef int run_in(Worker worker, object context, object fn, Request op) except -1:
    """Calls a callback of an operation in the context that it came with."""
    if PyContext_Enter(context) < 0:
        # Whoever runs in this very context is below us: from the loop, then.
        PyErr_Clear()
        worker.loop.call_soon(fn, op, context=context)
        return 0
    try:
        fn(op)
    except Exception as error:
        worker.loop.call_exception_handler(
            {"message": f"callback {fn!r} of {op!r} failed", "exception": error})
    finally:
        PyContext_Exit(context)
    return 0


cdef cancel_late(object fn):
    """Tells a task of a cancellation that came when its operation could not be withdrawn."""
    from asyncio import Task
    task = getattr(fn, "__self__", None)
    if isinstance(task, Task):
        cancel_again(task)


def cancel_again(task):
    """Has a task see a cancellation that was held back while it was given a result."""
    if task.done():
        return
    cancelling = getattr(task, "cancelling", None)  # from Python 3.11 on
    if cancelling is None:
        task.cancel()
    elif cancelling():
        # It was counted when it was asked for; who asked may have taken it back (asyncio.timeout).
        task.cancel()
        task.uncancel()


cdef int send_slot(object self, object value, PyObject **out) except -1:
    return (<Request>self).advance(out)


wherry_send_slot(Request, <void *>send_slot)


cdef class Steps:
    """The steps of an await for who calls ``__await__`` by name, to ``yield from`` them: only an iterator
    can be, and a Request is none, so that a forgotten await does not go unnoticed."""

    cdef Request op

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.op)

    def send(self, value):
        return next(self.op)

    def throw(self, kind, value=None, trace=None):
        return self.op.throw(kind, value, trace)

    def close(self):
        self.op.close()


def steps_of(self):
    """What ``await`` goes through, for ``yield from op.__await__()``."""
    cdef Steps made = Steps.__new__(Steps)
    made.op = self
    return made


wherry_set_method(Request, b"__await__", steps_of)


cdef Request settled(Worker worker, int kind, object value):
    """An operation that was done at once."""
    cdef Request op = Request.__new__(Request)
    op.worker = worker
    op.kind = kind
    op.value = value
    op.finished = True
    op.yields = True
    return op
