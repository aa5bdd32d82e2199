# SPDX-License-Identifier: BSD-3-Clause
#
# A message that was taken from the queue before its buffer is known.

ctypedef void (*handle_fn)(void *handle) noexcept nogil


cdef void let_go(Worker w, handle_fn fn, void *handle):
    """Ends a handle that only the owner of a worker may end, whichever thread has dropped it."""
    if w.is_owner() or w.c == NULL:
        fn(handle)
    elif wh_worker_call(w.c, fn, handle) != WH_OK:
        pass  # the owner's queue is full: it stays until the worker's end


cdef void drop_message(void *message) noexcept nogil:
    wh_message_drop(<wh_message *>message)


@cython.no_gc_clear
cdef class Message:
    """A message that ``take`` has taken: no other receive gets it.

    Receive it into a buffer of its ``size``, or drop it; it is dropped with the object, too.  Only
    the thread that owns the worker may use it.
    """

    cdef wh_message *c
    cdef Worker worker
    cdef object ep
    cdef uint64_t bytes, number
    cdef object __weakref__

    def __dealloc__(self):
        if self.c != NULL:
            let_go(self.worker, drop_message, self.c)

    @property
    def size(self):
        """Its bytes."""
        return self.bytes

    @property
    def tag(self):
        """Its tag."""
        return self.number

    @property
    def source(self):
        """The endpoint that it came from; None when that is not open any more."""
        return self.ep

    def recv(self, buf, *, Type type=None, count=1, origin=0, timeout=None, stream=None):
        """Receives it into `buf`; otherwise as ``Endpoint.recv``.  Gives its bytes.

        Raises ClosedError when it was received or dropped before.
        """
        cdef Worker w = self.worker
        cdef int32_t timeout_ms = milliseconds(timeout)
        cdef Request op = w.begin(OP_RECV)
        cdef wh_status status
        hold_into(op, seen_as(buf, type, count, origin), True, stream)
        if self.c == NULL:
            raise failure(WH_ECLOSED, "recv: the message was received or dropped before", "recv")
        w.must_be_open()
        op.tag = self.number
        if w.cancels():
            return w.withdrawn(op, w)
        status = wh_message_recv(self.c, op.view.buf, op.amount(),
                                 w.options(op, timeout_ms, 0), &op.handle)
        if status >= 0:
            self.c = NULL
        return w.started(op, status, w if self.ep is None else self.ep)

    def drop(self):
        """Throws it away; its sender sees a completed send."""
        if self.c == NULL:
            return
        self.worker.must_own()
        wh_message_drop(self.c)
        self.c = NULL
        self.worker.touch()

    def __repr__(self):
        return f"<Message of {self.bytes} bytes, tag=0x{self.number:x}>"


cdef Message taken(Worker w, wh_status status, wh_message *c):
    if status == WH_ENOTFOUND:
        return None
    must(status, "take")
    cdef Message made = Message.__new__(Message)
    made.c, made.worker = c, w
    made.bytes, made.number = w.result.size, w.result.tag
    made.ep = source_of(w)
    return made
