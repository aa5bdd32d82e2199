# SPDX-License-Identifier: BSD-3-Clause
#
# Flush and fence of all endpoints of a worker: those of each.  An endpoint that had ended before has
# nothing left to wait for, and its operations have told why.


cdef class FlushAll:
    """Counts the endpoints' flushes that have not ended; the last one ends that of the worker."""

    cdef Request op
    cdef int left

    def __call__(self, part):
        self.note(part)
        self.left -= 1
        if self.left == 0:
            self.end()

    cdef note(self, Request part):
        if part.error is not None and self.op.rare.failed is None:
            self.op.rare.failed = part.error
            self.op.c.result.status = part.c.result.status

    cdef end(self):
        self.op.rare.parts = []
        self.op.end_here(None, self.op.c.result.status)


cdef list open_endpoints(Worker w):
    w.must_be_open()
    w.must_own()
    return [ep for ep in list(w.endpoints.values())
            if (<Endpoint>ep).c != NULL and wh_endpoint_status((<Endpoint>ep).c) >= 0]


cdef Request flush_all(Worker w, object timeout):
    cdef FlushAll all = FlushAll.__new__(FlushAll)
    cdef Request part
    cdef list endpoints = open_endpoints(w)
    cdef int32_t timeout_ms = milliseconds(timeout)
    cdef Request op = w.begin(OP_FLUSH)
    all.op = op
    op.target = w
    op.yields = True
    op.more().parts = []
    for ep in endpoints:
        part = (<Endpoint>ep).start_flush(timeout_ms)
        if part.finished:
            all.note(part)
            continue
        part.more().then = all
        op.rare.parts.append(part)
        all.left += 1
    if all.left == 0:
        all.end()
    return op


cdef fence_all(Worker w):
    for ep in open_endpoints(w):
        must(wh_endpoint_fence((<Endpoint>ep).c), "fence")
    w.touch()
