# SPDX-License-Identifier: BSD-3-Clause
#
# What happens to a worker without having been asked for: new endpoints, lost peers, active
# messages, objects that need memory.  The engine's callbacks have parked it (_park.h); here the
# handlers are called.


cdef int handle_events(Worker w) except -1:
    park_close_dropped(&w.parked)
    cdef parked_event *event = park_pop(&w.parked)
    while event != NULL:
        try:
            handle_event(w, event)
        except Exception as error:
            report(w, "a handler of the worker failed", error)
        finally:
            free(event)
        event = park_pop(&w.parked)
    return answer_asked(w)


cdef int answer_asked(Worker w) except -1:
    """Asks the allocators that objects wait for."""
    cdef parked_op *asking = park_first_asking(&w.parked)
    while asking != NULL:
        (<Request>asking.request).give_memory()
        asking = park_first_asking(&w.parked)
    return 0


cdef handle_event(Worker w, parked_event *event):
    cdef Listener listener
    if event.kind == PARKED_ENDPOINT:
        listener = w.listeners.get(event.number)
        ep = adopt_endpoint(w, event.ep, "" if listener is None else listener.made_at)
        if event.number == 0:
            run_handler(w, w.accept, (ep,))
            return
        if listener is None:
            ep.abort()
        else:
            listener.deliver(ep)
    else:
        handle_am(w, event)


cdef handle_loss(Worker w, parked_loss *loss):
    """Tells of the end of a peer.  What ended before has been told, and handlers have been called."""
    cdef uint64_t number = loss.number
    cdef wh_status why = loss.why
    free(loss)
    ep = w.endpoints.get(number)
    if ep is None:
        return
    try:
        (<Endpoint>ep).tell_lost(why)
    except Exception as error:
        report(w, "a handler of the worker failed", error)


cdef handle_am(Worker w, parked_event *event):
    cdef bytes header = event.bytes[:event.header_size]
    ep = w.endpoints.get(event.number)
    fn = w.handlers.get(event.id)
    if event.kept == NULL:
        if fn is not None:
            run_handler(w, fn, (ep, header,
                          event.bytes[event.header_size:event.header_size + event.size]))
    elif fn is None:
        wh_am_drop(event.kept)
    else:
        receive_am(w, event, ep, header, fn)


cdef run_handler(Worker w, fn, args):
    """Calls a handler; of what a coroutine function returns a task is made."""
    made = fn(*args)
    if not isinstance(made, CoroutineType):
        return
    if w.loop is None:
        made.close()
        raise RuntimeError(f"{fn!r} is a coroutine function, and the worker has no event loop")
    task = w.loop.create_task(made)
    tasks.add(task)  # the loop has only weak ones
    task.add_done_callback(tasks.discard)


cdef report(Worker w, str message, error):
    if w.loop is not None:
        w.loop.call_exception_handler({"message": message, "exception": error})
    else:
        from traceback import print_exception
        print_exception(type(error), error, error.__traceback__)


cdef run_then(Worker w, Request op):
    then, op.rare.then = op.rare.then, None
    try:
        then(op)
    except Exception as error:
        report(w, "a handler of the worker failed", error)


cdef class AmCall:
    """The call of an active message's handler once its payload is here."""

    cdef Worker worker
    cdef object fn, args

    def __call__(self, op):
        if op.exception() is None:
            run_handler(self.worker, self.fn, self.args)


cdef int receive_am(Worker w, parked_event *event, object ep, bytes header, object fn) except -1:
    """Receives the payload of a large active message, then calls the handler."""
    payload = PyByteArray_FromStringAndSize(NULL, event.size)
    cdef Request op = w.begin(OP_AM_RECV)
    hold_into(op, payload, True)
    cdef wh_status status = wh_am_recv(event.kept, op.view.buf, op.view.len,
                                       w.options(op, 0, 0), &op.handle)
    if status < 0:
        wh_am_drop(event.kept)
    cdef AmCall then = AmCall.__new__(AmCall)
    then.worker, then.fn, then.args = w, fn, (ep, header, payload)
    w.started(op, status, w)
    if op.finished:
        then(op)
    else:
        op.more().then = then
    return 0
