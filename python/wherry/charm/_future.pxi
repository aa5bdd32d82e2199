# SPDX-License-Identifier: BSD-3-Clause
#
# Futures: a value, or several, that come later, from any PE.  It is awaited where it was made; elsewhere it is a name to
# send to.
#
# It is its own iterator, and speaks asyncio's protocol (_asyncio_future_blocking, add_done_callback, cancel, result), so
# that tasks of asyncio can await it, too.

cdef enum:
    ANSWER_VALUE, ANSWER_ERROR
    HANDLER_ANSWER = 0x4341  # of wh_pe_send
    HANDLER_READONLIES


@cython.no_gc_clear
cdef class Future:
    """A value that comes later; ``await`` it on the PE that has made it.

    count: how many values come; with more than one the result is their list, in the order in which they have come.

    It can be an argument of a call: whoever has it calls ``send``.
    """

    cdef readonly int pe
    cdef object name               # None: nobody has asked for it yet
    cdef Py_ssize_t needed
    cdef bint is_done, is_cancelled, sorted_by_key, dropped, looked_at
    cdef bint only_done            # nobody asked for the values
    cdef public object _awaits     # what comes, for dumps: an entry that was called, a channel, futures, a text; None: nobody has said
    cdef list values               # (key, value), as they come, of several; None: there is none yet
    cdef object outcome, error
    cdef list waiters              # tasks of ours, and (callback, context) of others
    cdef public bint _asyncio_future_blocking
    cdef object __weakref__

    def __init__(self, count=1):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"count is {count!r}: a future has 1 value or more")
        running().adopt(self, count)

    @property
    def id(self):
        """Its number on its PE, by which messages name it."""
        if self.name is None:
            running().name_future(self)
        return self.name

    def send(self, value=None):
        """Gives it its value, or one of them.  From any PE; more values than it waits for are dropped."""
        running().answer(self.pe, self.id, ANSWER_VALUE, None, value)

    def __call__(self, value=None):
        """As ``send``, so that a future can stand where a callback is wanted."""
        self.send(value)

    cdef int take(self, object key, object value) except -1:
        if self.is_done:
            return 0
        if self.needed == 1 and not self.sorted_by_key:
            self.outcome = None if self.only_done else value
            return self.finish()
        if self.values is None:
            self.values = []
        self.values.append((key, value))
        if len(self.values) < self.needed:
            return 0
        if self.sorted_by_key:
            self.values.sort(key=first_of)
        if self.only_done:
            self.outcome = None
        else:
            self.outcome = [each for _, each in self.values]
        self.values = None
        return self.finish()

    cdef int fail(self, object error) except -1:
        if self.is_done:
            return 0
        self.error = error
        return self.finish()

    cdef int finish(self) except -1:
        self.is_done = True
        self._awaits = None
        cdef Runtime home = here
        if home is not None and self.name is not None:
            home.futures.pop(self.name, None)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if type(waiter) is Task:
                (<Task>waiter).waits_for = None
                home.ready.append((waiter, None))
            else:
                loop = home.event_loop()
                if loop is not None and not loop.is_closed():
                    loop.call_soon(waiter[0], self, context=waiter[1])
        if home is None or not home.ready:
            return 0
        if home.driving:
            return home.run_ready()
        if home.loop is not None:
            home.loop.call_soon(home.step_ready)
        return 0  # without a loop it is the program's begin that runs, after which they are stepped

    def take_value(self, value):
        """Its value, on its own PE, without a message."""
        self.take(None, value)

    def settle(self, futures):
        """The results of others, all of which are done: charm.wait's."""
        if self.is_done:
            return
        try:
            self.outcome = [each.result() for each in futures]
        except BaseException as error:
            self.error = error
        self.finish()

    cdef int must_be_here(self) except -1:
        cdef Runtime home = running()
        if self.pe != home.number:
            raise RuntimeError(f"this future is awaited on PE {self.pe}, which has made it; here, on PE {home.number}, "
                               "it can only be sent a value")
        return 0

    def __await__(self):
        self.must_be_here()
        return self

    def __iter__(self):
        self.must_be_here()
        return self

    def __next__(self):
        if not self.is_done:
            self._asyncio_future_blocking = True
            return self
        raise StopIteration(self.result())

    def done(self):
        """Whether it has its result, or was cancelled."""
        return self.is_done

    def cancelled(self):
        """Whether it was cancelled."""
        return self.is_cancelled

    def result(self):
        """The value; raises what the call has raised."""
        if not self.is_done:
            raise no_value_yet()
        self.looked_at = True
        if self.error is not None:
            raise self.error
        return self.outcome

    def exception(self):
        """What it will raise; None: nothing."""
        if not self.is_done:
            raise no_value_yet()
        self.looked_at = True
        if self.is_cancelled:
            raise self.error
        return self.error

    def cancel(self, msg=None):
        """Ends it: who waits gets CancelledError, and values that come are dropped.  False: it was done."""
        if self.is_done:
            return False
        self.is_cancelled = True
        self.looked_at = True
        self.fail(cancelled(msg))
        return True

    def get_loop(self):
        """The event loop of the program."""
        return running().event_loop()

    def add_done_callback(self, fn, *, context=None):
        """Has fn(future) called when it is done, by the event loop."""
        self.must_be_here()
        if self.is_done:
            running().event_loop().call_soon(fn, self, context=context)
        else:
            self.waiters.append((fn, context))

    def remove_done_callback(self, fn):
        """Forgets callbacks; returns how many."""
        before = len(self.waiters)
        self.waiters = [each for each in self.waiters if type(each) is Task or each[0] != fn]
        return before - len(self.waiters)

    def __reduce__(self):
        return future_at, (self.pe, self.id)

    def __repr__(self):
        state = "done" if self.is_done else "waits"
        return f"<Future {self.id} of PE {self.pe}, {state}>"

    def __dealloc__(self):
        if self.is_done and self.error is not None and not self.looked_at and not Py_IsFinalizing():
            unseen(self.error)


cdef int send_to_future(PyObject *self, PyObject *arg, PyObject **result) noexcept:
    """What `await` calls from Python 3.10 on (am_send): __next__ without an exception that carries the value."""
    cdef Future future = <Future>self
    error = None
    if not future.is_done:
        future._asyncio_future_blocking = True
        Py_INCREF(future)
        result[0] = self
        return SEND_NEXT
    try:
        found = future.result()
    except BaseException as raised:
        error = raised
    if error is not None:
        set_error(type(error), error)
        return SEND_ERROR
    Py_INCREF(found)
    result[0] = <PyObject *>found
    return SEND_RETURN


set_am_send(Future, send_to_future)


def first_of(pair):
    return pair[0]


def unseen(error):
    print("wherry.charm: an exception came back to a future that nobody has awaited:", file=sys_module.stderr)
    print(error_text(error), end="", file=sys_module.stderr)


def future_at(pe, id):
    """A future by its name; where it was made and still waits, the object itself."""
    cdef Future made
    cdef Runtime home = running()
    if pe == home.number:
        found = home.futures.get(id)
        if found is not None:
            return found
    made = Future.__new__(Future)
    made.pe, made.name, made.waiters = pe, id, []
    made.looked_at = True
    if pe == home.number:
        made.is_done = True  # it has had its values
    return made


class RemoteError(Exception):
    """What an entry method has raised, as text, where the exception itself could not be sent; and the cause of those that
    could, with the traceback of the PE where it was raised."""


cdef tuple describe_error(object error):
    """An exception for another PE: pickled, or None; its last line; its traceback."""
    from traceback import format_exception_only
    text = error_text(error)
    try:
        pickled = pickle().dumps(error, 5)
    except Exception:
        pickled = None
    return pickled, "".join(format_exception_only(type(error), error)).strip(), text


cdef object error_from(object told, int source):
    pickled, last, text = told
    error = None
    if pickled is not None:
        try:
            error = pickle().loads(pickled)
        except Exception:
            pass  # its class cannot be made of its arguments alone: the text says all
    if not isinstance(error, BaseException):
        error = RemoteError(last)
    error.__cause__ = RemoteError(f"on PE {source}:\n\n{text}")
    return error
