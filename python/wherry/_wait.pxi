# SPDX-License-Identifier: BSD-3-Clause
#
# Waiting without a loop: the owner of a worker progresses it until an operation has ended; another
# thread sleeps meanwhile, and the owner must progress.

cdef enum:
    GIL_PASSES = 64       # of a blocking wait, before others get the interpreter's lock
    SIGNALS_MS = 100      # longest sleep of a blocking wait, since Ctrl-C does not end one


cdef uint64_t deadline_of(object timeout) except? 0:
    """When a wait is over; 0: never."""
    return 0 if timeout is None else park_clock_ns() + <uint64_t>milliseconds(timeout) * 1000000


cdef int slice_of(uint64_t deadline):
    """Milliseconds to sleep; 0: the deadline has come."""
    cdef uint64_t now
    if deadline == 0:
        return SIGNALS_MS
    now = park_clock_ns()
    if now >= deadline:
        return 0
    return <int>min((deadline - now + 999999) // 1000000, <uint64_t>SIGNALS_MS)


cdef bint in_loop_of(Worker w):
    return w.loop is not None and w.is_owner() and get_running_loop() is w.loop


cdef int must_be_outside_loop(Worker w, object what) except -1:
    if in_loop_of(w):
        raise RuntimeError(f"{what}: inside its running event loop, await it instead")
    return 0


cdef int wait_for(Worker w, Request op, object timeout) except -1:
    """Blocks until `op` has ended.  Raises TimedOutError when that takes longer."""
    cdef uint64_t deadline
    cdef int slice_ms, i
    cdef wh_status status = WH_OK
    cdef bint owner = w.is_owner()
    if owner:
        must_be_outside_loop(w, op)
    if not owner and op.handle == NULL:
        raise failure(WH_ETHREAD, "", OP_NAMES[op.kind])
    deadline = deadline_of(timeout)
    for i in range(GIL_PASSES):
        if owner:
            wh_worker_progress(w.c)
            if park_has_events(&w.parked):
                drain_without_tasks(w)
        if park_op_done(&op.c):
            return 0
    if owner and op.handle == NULL:
        drain_without_tasks(w)  # what this one is made of may have ended
    while not park_op_done(&op.c):
        slice_ms = slice_of(deadline)
        if slice_ms == 0:
            raise failure(WH_ETIMEDOUT, f"{OP_NAMES[op.kind]}: not within {timeout} s; it goes on",
                          OP_NAMES[op.kind], op.peer())
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
    cdef parked_loss *loss
    cdef Request op
    handle_events(w)
    ended = park_first(&w.parked)
    while ended != NULL:
        following = park_next(&w.parked, ended)
        loss = park_take_loss(ended)
        if loss != NULL:
            handle_loss(w, loss)
            ended = park_first(&w.parked)  # the handler may have taken others out
            continue
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
