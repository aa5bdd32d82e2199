# SPDX-License-Identifier: BSD-3-Clause
#
# Waiting without a loop: the owner of a worker progresses it until an operation has ended; another
# thread sleeps meanwhile, and the owner must progress.

cdef enum:
    GIL_PASSES = 64       # of a blocking wait, before others get the interpreter's lock
    SIGNALS_MS = 100      # longest sleep of a blocking wait, since Ctrl-C does not end one


cdef int wait_for(Worker w, Request op, object timeout) except -1:
    """Blocks until `op` has ended.  Raises TimedOutError when that takes longer."""
    cdef uint64_t deadline = 0, now
    cdef int slice_ms, i
    cdef wh_status status = WH_OK
    cdef bint owner = w.is_owner()
    if owner and w.loop is not None and get_running_loop() is w.loop:
        raise RuntimeError(f"{op!r}: inside its running event loop, await it instead")
    if not owner and op.handle == NULL:
        raise failure(WH_ETHREAD, "", OP_NAMES[op.kind])
    if timeout is not None:
        deadline = park_clock_ns() + <uint64_t>milliseconds(timeout) * 1000000
    for i in range(GIL_PASSES):
        if owner:
            wh_worker_progress(w.c)
            if park_has_events(&w.parked):
                handle_events(w)
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
                status = wh_worker_wait(w.c, slice_ms)
            must(WH_OK if status == WH_ETIMEDOUT else status, "wait")
            drain_without_tasks(w)
        PyErr_CheckSignals()
    return 0


cdef int drain_without_tasks(Worker w) except -1:
    """As ``drain``, for when no loop runs: what tasks wait for stays until it does."""
    cdef parked_op *ended
    cdef parked_op *following
    cdef Request op
    handle_events(w)
    ended = park_first(&w.parked)
    while ended != NULL:
        following = park_next(&w.parked, ended)
        op = <Request>ended.request
        op.finish()
        if op.done_fn is None:
            op.leave()
            if op.rare is not None and op.rare.then is not None:
                # It may start operations and so take others out.
                run_then(w, op)
                following = park_first(&w.parked)
        ended = following
    w.touch()
    return 0
