# SPDX-License-Identifier: BSD-3-Clause
#
# Coroutines of entry methods.  They are stepped by us, as soon as what they wait for has come, without a turn of the event
# loop; what asyncio asks of its current task they have, so that asyncio's timeouts and task groups work in them.

cdef struct reply:
    int pe        # negative: nobody waits
    uint32_t id
    bint keyed    # one of many: by the element's index
    bint value    # the result is wanted, too


cdef class Task:
    """An entry method that is under way."""

    cdef object coro, context
    cdef Element element
    cdef str what
    cdef Method method           # None: it is the program's begin
    cdef reply to
    cdef bint ended
    cdef int cancels
    cdef object pending_cancel   # an exception for the next step
    cdef object waits_for
    cdef object __weakref__

    cdef int step(self, object error) except -1:
        cdef Runtime home = here
        if self.ended or home is None:
            return 0
        if error is None and self.pending_cancel is not None:
            error, self.pending_cancel = self.pending_cancel, None
        if self.element is not None:
            wh_pe_name_span(home.pe, self.element.text, self.method.text)
        else:
            wh_pe_name_span(home.pe, utf8_of(self.what, NULL), NULL)
        home.depth += 1
        outer, before, home.current = None, home.current, self
        if home.loop is not None:
            outer = current_task(home.loop)
            if outer is not None:
                leave_task(home.loop, outer)
            enter_task(home.loop, self)
        PyContext_Enter(self.context)
        charged = home.charge(self.element)
        try:
            if error is None:
                waited = self.coro.send(None)
            else:
                waited = self.coro.throw(error)
        except StopIteration as stop:
            self.leave()
            home.succeed(&self.to, self.element, stop.value)
        except BaseException as raised:
            self.leave()
            home.failed(&self.to, self.element, self.what, raised)
        else:
            self.wait(waited)
        finally:
            home.charge(charged)
            PyContext_Exit(self.context)
            home.current = before
            if home.loop is not None:
                leave_task(home.loop, self)
                if outer is None:
                    outer = before  # the loop has come meanwhile, or there is none
                if outer is not None:
                    enter_task(home.loop, outer)
            home.depth -= 1
        if self.element is not None:
            self.element.running -= self.ended
            self.element.look_again()
            self.element.leave_if_due()
        home.run_ready()
        return 0

    cdef void leave(self):
        self.ended = True
        if here is not None:
            here.tasks.discard(self)

    cdef int wait(self, object waited) except -1:
        cdef Runtime home = here
        cdef Future future
        if type(waited) is Future:
            future = <Future>waited
            future._asyncio_future_blocking = False
            self.waits_for = future
            if future.is_done:
                home.ready.append((self, None))
            else:
                future.waiters.append(self)
        elif waited is None:
            home.event_loop().call_soon(self.wake)
        elif getattr(waited, "_asyncio_future_blocking", None):
            waited._asyncio_future_blocking = False
            self.waits_for = waited
            waited.add_done_callback(self.wake)
        else:
            home.ready.append((self, RuntimeError(
                f"an entry method awaits a '{type(waited).__name__}', which cannot be awaited here")))
            return 0
        if self.pending_cancel is not None:
            self.cancel_wait()
        return 0

    def wake(self, waited=None):
        self.waits_for = None
        try:
            self.step(None)
        except BaseException as error:
            here.fatal(self.what, error)

    cdef int cancel_wait(self) except -1:
        """Ends what it waits for with the cancellation."""
        cdef Future future
        waited = self.waits_for
        if type(waited) is Future:
            future = <Future>waited
            if self in future.waiters:
                future.waiters.remove(self)
                here.event_loop().call_soon(self.wake)  # not at once: who cancels goes on first
        elif waited is not None and waited.cancel():
            self.pending_cancel = None  # comes back as that future's
        return 0

    # ---- What asyncio asks of a task.

    def cancel(self, msg=None):
        """Has CancelledError raised in it, where it waits."""
        if self.ended:
            return False
        self.cancels += 1
        self.pending_cancel = cancelled(msg)
        self.cancel_wait()
        return True

    def cancelling(self):
        return self.cancels

    def uncancel(self):
        if self.cancels:
            self.cancels -= 1
        if not self.cancels:
            self.pending_cancel = None
        return self.cancels

    def done(self):
        return self.ended

    def cancelled(self):
        return False

    def get_loop(self):
        return here.event_loop()

    def get_coro(self):
        return self.coro

    def get_name(self):
        return self.what

    def get_context(self):
        return self.context

    def __repr__(self):
        return f"<{self.what}>"


cdef Task start_task(object coro, Element element, Method method, str what, const reply *to):
    cdef Task task = Task.__new__(Task)
    task.coro, task.element, task.method, task.what = coro, element, method, what
    task.context = copy_context()
    task.to = to[0]
    if element is not None:
        element.running += 1
    here.tasks.add(task)
    task.step(None)
    return task
