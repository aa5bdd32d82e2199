# SPDX-License-Identifier: BSD-3-Clause
#
# How an event loop drives a worker.
#
# The loop sleeps on the engine's descriptor, so before each sleep the worker must be armed, and
# again after any call that may have given it work.  `touch` sees to that: the first call of a turn
# schedules `_turn`, which pumps: progress, step the tasks whose operations have ended, and arm once
# nothing moves.  The reader of the descriptor pumps too.
#
# An await may spin, because a peer that is awake answers sooner than a loop turns.  So that nobody
# starves: it does not while another task waits for us, not again in a turn in which it was in vain,
# only while such waits have lately paid, and not while others want the processor (_crowd.h).  What
# tasks do without a loop turn is limited to a slice of time; beyond it they yield until the loop has
# turned.
#
# Where several tasks wait, or one for several operations, the loop itself lingers: it goes round
# without sleeping for as long as an await would spin, and looks a little while in each turn.

cdef enum:
    SLICE_NS = 300000     # what tasks may do in a turn of the loop without waiting, spins included
    INLINE_NS = 50000     # of that, with operations that are done at once, on end
    PUMP_NS = 100000      # after so much of a turn no more tasks are stepped
    SPIN_NS = 250000      # longest spin: a round of 1 MiB; below a wake-up peers would stay asleep
    LINGER_NS = 5000      # of a turn that lingers; others that are ready have to wait for it
    PASSES = 64           # of progress in one pump
    CLOCK_EVERY = 16      # operations between two looks at the clock
    LUCK_MAX = 8
    LUCK_RETRY = -8       # waits without a spin before one is tried again


@cython.no_gc_clear
cdef class LoopLink:
    """What a loop calls when the descriptor is readable.  Only the loop has it, so it goes with the
    loop's close, and tells the worker."""

    cdef Driven worker
    cdef unsigned number  # of the loops that the worker has had

    def __call__(self):
        self.worker.pump()

    def __dealloc__(self):
        self.worker.lose_loop(self.number)


cdef class Driven:
    """What a worker is to the loop that drives it."""

    cdef wh_worker *c
    cdef park parked
    cdef readonly object loop
    cdef object on_turn
    cdef unsigned long thread
    cdef int pid              # the process that made it
    cdef int reader           # the descriptor that the loop watches; in a forked child it is closed
    cdef bint scheduled, pumping, lingering, due, spin_blocked, debug, destroyed
    cdef int waiting          # tasks that wait for our operations
    cdef int luck
    cdef bint yields_to_others
    cdef crowd others
    cdef unsigned count
    cdef unsigned loops       # that it has had
    cdef uint64_t turn_start, spin_ns
    cdef uint64_t inline_start  # of the turn, or when its last spin ended
    cdef uint64_t linger_until  # 0: something has moved since

    cdef inline bint is_owner(self):
        return PyThread_get_thread_ident() == self.thread

    # must_be_ours is for what must not go unheard in a forked child: its worker moves nothing.
    cdef int must_be_ours(self) except -1:
        if self.pid != getpid():
            raise failure(WH_EFORKED, "")
        return 0

    cdef int join_loop(self) except -1:
        """Joins the running loop, unless it has one that is not closed."""
        if self.loop is not None and not self.loop.is_closed():
            return 0
        if self.c == NULL or not self.is_owner():
            return 0
        loop = get_running_loop()
        if loop is None:
            return 0
        self.must_be_ours()
        self.loop = loop
        self.debug = loop.get_debug()
        cdef LoopLink link = LoopLink.__new__(LoopLink)
        link.worker = self
        self.loops += 1
        link.number = self.loops
        self.reader = wh_worker_fd(self.c)
        loop.add_reader(self.reader, link)
        self.touch()
        return 0

    cdef void lose_loop(self, unsigned number):
        """That loop was closed: what its tasks waited for must not take messages from others."""
        cdef parked_op *op
        if number != self.loops or self.destroyed or self.pid != getpid():
            return
        self.loop = None
        self.scheduled = False
        self.pumping = False
        op = park_first_waiting(&self.parked)
        while op != NULL:
            (<Request>op.request).orphan()
            op = park_first_waiting(&self.parked)

    cdef inline int touch(self) except -1:
        if self.scheduled or self.pumping:
            return 0
        if self.loop is None:
            # Of a worker whose loop was closed this may be the first call in its next one.
            return self.join_loop()
        return self.schedule()

    cdef int schedule(self) except -1:
        # The engine wakes its owner by itself when another thread has given it work.
        if not self.is_owner() or self.c == NULL:
            return 0
        if self.loop.is_closed():
            return 0
        self.loop.call_soon(self.on_turn)
        self.scheduled = True
        self.start_turn()
        return 0

    cdef inline void start_turn(self):
        self.turn_start = self.inline_start = park_clock_ns()

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
        cdef bint task_yields = self.due  # and runs in the same turn of the loop: it will not sleep
        self.pumping = True
        self.due = False
        self.spin_blocked = False
        self.start_turn()
        try:
            for passes in range(PASSES):
                events = wh_worker_progress(self.c)
                if events:
                    self.stop_lingering()
                if not park_empty(&self.parked):
                    self.drain()
                elif events == 0:
                    if task_yields or self.lingers():
                        break
                    status = wh_worker_arm(self.c)
                    if status == WH_OK:
                        return 0
                    if status != WH_EBUSY:
                        self.leave_loop()
                        if status == WH_EFORKED:
                            return 0  # the child's loop goes on without us
                        must(status, "progress")
                if self.c == NULL or park_clock_ns() - self.turn_start > PUMP_NS:
                    break
        except:
            # SystemExit of a task ends the loop; should it run again, the others still wait.
            self.pumping = False
            self.touch()
            raise
        finally:
            self.pumping = False
        self.touch()
        return 0

    cdef int drain(self) except -1:
        """Takes operations and events out of the park and tells whoever waits for them."""
        cdef parked_op *ended
        cdef parked_loss *loss
        cdef Request op
        handle_events(<Worker>self)
        ended = park_first(&self.parked)
        while ended != NULL:
            loss = park_take_loss(ended)
            if loss != NULL:
                handle_loss(<Worker>self, loss)
            else:
                op = <Request>ended.request
                op.finish()
                op.leave()
                if op.rare is not None and op.rare.then is not None:
                    run_then(<Worker>self, op)
                if op.done_fn is not None and not self.loop.is_closed():
                    op.tell()
            self.count += 1
            if (self.count % CLOCK_EVERY == 0
                    and park_clock_ns() - self.turn_start > PUMP_NS):
                break
            ended = park_first(&self.parked)
        return 0

    cdef bint slice_over(self) except -1:
        """Whether tasks have had their time of this turn; they yield until it is over."""
        cdef uint64_t now
        if self.due:
            return True
        if not self.scheduled and not self.pumping:
            self.touch()  # or no turn would ever be under way
            return False
        now = park_clock_ns()
        if now - self.inline_start < INLINE_NS and now - self.turn_start < SLICE_NS:
            return False
        self.due = True
        return True

    cdef inline bint must_yield(self) except -1:
        """The same for an operation that was done at once; the clock is read now and then."""
        self.count += 1
        return self.due or (self.count % CLOCK_EVERY == 0 and self.slice_over())

    cdef bint spin(self, Request op):
        """Progresses for an operation that a task is about to wait for; True when it has ended."""
        cdef uint64_t until, end
        cdef park_news news
        if self.c == NULL or not self.is_owner():
            return False
        if (self.waiting > 0 or self.spin_blocked or self.due or not self.spins()
                or (self.others.wanted and self.crowded(park_clock_ns()))):
            wh_worker_progress(self.c)
            return park_op_done(&op.c)
        if not self.scheduled and not self.pumping:
            self.touch()
        news = park_glance(self.c, &op.c)
        until = end = 0
        while news == PARK_QUIET or news == PARK_ASKED:
            if news == PARK_ASKED:
                # At once, since nothing moves before: the answer starts the data's way here.
                answer_asked(<Worker>self)
                if self.c == NULL or park_op_done(&op.c):
                    break
            if until == 0:
                until = park_clock_ns()
                if self.crowded(until):
                    return False
                until += self.spin_ns
                end = self.turn_start + SLICE_NS
            news = park_spin(self.c, &op.c, until if until < end else end)
            if news == PARK_QUIET:
                break
        if park_op_done(&op.c):
            if until != 0:
                self.inline_start = park_clock_ns()
            self.luck += self.luck < LUCK_MAX
            return True
        if news == PARK_EVENT or self.c == NULL:
            return False  # its handler runs from the loop, which says nothing about the spin
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

    cdef inline bint crowded(self, uint64_t now):
        """Whether others want the processor, and a wait minds them."""
        return self.yields_to_others and crowd_wants(&self.others, now)

    cdef bint lingers(self):
        """Nothing moves: whether to go round again without sleeping.  Looks a while itself."""
        cdef uint64_t now
        if self.linger_until == 0:
            if self.waiting <= 0 or not self.spins():
                return False
            now = park_clock_ns()
            if self.crowded(now):
                return False
            self.linger_until = now + self.spin_ns
        now = park_clock_ns()
        if now >= self.linger_until:
            self.luck -= self.lingering
            self.lingering = False
            return False
        self.lingering = True
        if park_linger(self.c, now + LINGER_NS):
            self.stop_lingering()
        return True

    cdef inline void stop_lingering(self):
        self.luck += self.lingering and self.luck < LUCK_MAX
        self.lingering = False
        self.linger_until = 0

    cdef int leave_loop(self) except -1:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.remove_reader(self.reader)
        self.loop = None
        return 0
