# SPDX-License-Identifier: BSD-3-Clause
#
# The PE of this process, and how it and an event loop drive each other.
#
# The loop's own wait for events is `drive`, which runs the PE's turns without the interpreter's lock and comes back only
# when the loop has something to do; so a program that uses nothing of asyncio never leaves it.  In a loop that is somebody
# else's (interactive use) `pump` is called instead, when the worker's descriptor is readable.

cdef enum:
    GLANCE_TURNS = 64      # of the PE that did something, between two looks at the clock and the loop's descriptors
    IDLE_TURNS = 16        # that did nothing, between two looks at the clock, which takes as long as such a turn
    IDLE_GLANCES = 64      # of the clock, between two at the descriptors
    PUMP_TURNS = 256

cdef enum:
    DRIVE_WANTED, DRIVE_ENDED, DRIVE_TIME, DRIVE_SIGNAL, DRIVE_FAILED

cdef const char *CLASS = "wherry.charm"

# With any of them in its environment a process has its own way to keep freed memory.
MALLOC_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


# Of asyncio, when there is a loop.
cdef object current_task = None
cdef object enter_task = None
cdef object leave_task = None


@cython.final
cdef class Runtime:
    """The PE."""

    cdef wh_rt *rt
    cdef wh_pe *pe
    cdef readonly int number, pes
    cdef public object loop        # None: nothing needs one yet
    cdef public object make_loop   # makes one; None: there is one, or none can be made
    cdef Task current              # of the tasks that run now, the innermost
    cdef public object on_touch    # of a foreign loop: has `pump` called
    cdef public object readonlies  # a dict, while PE 0 may still change it
    cdef unsigned long thread
    cdef wh_status arm_status
    cdef int depth                 # entries and tasks within each other
    cdef bint wanted               # the loop has something to do
    cdef bint driving, exited, closing, readying, has_readonlies
    cdef bint restoring, has_saved # a checkpoint is read; what it has beside elements has come
    cdef public object saved       # proxy of the group that has this; None: there is none
    cdef public object saved_data  # what the checkpoint was given along
    cdef Element charged           # whose time it is now
    cdef uint64_t since
    cdef uint64_t spin_ns
    cdef uint32_t next_future
    cdef dict futures              # those that wait, by number
    cdef object ready              # (task, exception or None): what they waited for has come
    cdef object tasks, raised
    cdef list unmade               # elements that wait for the readonlies
    cdef dict landing              # address -> what is being received there, until its call runs
    cdef dict keeping              # elements with calls that wait for their conditions
    cdef dict maps
    cdef dict strategies           # of the program, by name: what asks them
    cdef unsigned long deciding    # the thread, while one of them runs
    cdef dict channels             # ends that are open, or whose last receive has not ended
    cdef uint64_t next_channel
    cdef Element packing           # whose state is being pickled
    cdef dict arriving             # ends of the element whose state is being unpickled, by id; None: the element
    cdef dict held_back            # elements that try again to move
    cdef uint64_t next_retry

    def __cinit__(self):
        self.futures, self.tasks, self.ready = {}, set(), deque()
        self.unmade, self.maps, self.strategies, self.channels = [], {}, {}, {}
        self.landing, self.keeping, self.arriving, self.held_back = {}, {}, {}, {}
        self.readonlies = {}
        self.thread = PyThread_get_thread_ident()

    # ---- Start and end.

    def open(self):
        """Joins the job."""
        global here, over
        cdef wh_rt_opts opts
        cdef wh_status status
        if here is not None:
            raise RuntimeError("charm.start: the program is running already")
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        opts.pes = 1  # there is one interpreter
        if not any(name in environ for name in MALLOC_SETTINGS):
            keep_freed_memory()
        wh_log_hold_errors(True)
        with nogil:
            status = wh_rt_init(&opts, &self.rt)
        heard(status, "charm.start")
        settings = {}
        wh_context_config(wh_rt_context(self.rt), add_setting, <void *>settings)
        if settings["progress"] != "wait":
            self.spin_ns = 1000 * int(settings["spin_us"])
        self.pes = wh_rt_pes(self.rt)
        with nogil:
            status = wh_rt_begin(self.rt, nothing, NULL, &self.pe)
        must(status, "charm.start")
        self.number = wh_pe_number(self.pe)
        here, over = self, False
        self.register()

    cdef int register(self) except -1:
        cdef wh_class cls
        cdef wh_entry entries[ENTRY_COUNT]
        memset(&cls, 0, sizeof(cls))
        memset(entries, 0, sizeof(entries))
        entries[ENTRY_CALL].name = "call"
        entries[ENTRY_CALL].fn = on_call
        entries[ENTRY_REDUCED].name = "reduced"
        entries[ENTRY_REDUCED].fn = on_reduced_entry
        entries[ENTRY_BESIDE].name = "call_beside"
        entries[ENTRY_BESIDE].fn = on_call_beside
        entries[ENTRY_BESIDE].post = on_post
        entries[ENTRY_RESUMED].name = "resumed"
        entries[ENTRY_RESUMED].fn = on_resumed
        entries[ENTRY_CHECKPOINTED].name = "checkpointed"
        entries[ENTRY_CHECKPOINTED].fn = on_checkpointed_entry
        cls.size = sizeof(cls)
        cls.name = CLASS
        cls.state = sizeof(slot)
        cls.construct = on_construct
        cls.destruct = on_destruct
        cls.pack = on_pack
        cls.unpack = on_unpack
        cls.alias = on_alias
        cls.entries = entries
        cls.stays = on_stays
        cls.entry_count = ENTRY_COUNT
        cls.entry_size = sizeof(entries[0])
        must(wh_class_register(self.pe, &cls), "charm.start")
        must(wh_function_register(self.pe, REDUCED, on_reduced, NULL), "charm.start")
        must(wh_function_register(self.pe, CHECKPOINTED, on_checkpointed, NULL), "charm.start")
        must(wh_function_register(self.pe, CAME, on_came, NULL), "charm.start")
        must(wh_pe_set_handler(self.pe, HANDLER_ANSWER, on_answer, NULL), "charm.start")
        must(wh_pe_set_handler(self.pe, HANDLER_READONLIES, on_readonlies, NULL), "charm.start")
        wh_pe_on_dump(self.pe, on_dump, NULL, "charm.exit()")
        return 0

    def register_map(self, str name, map):
        """Makes a map of arrays known under its name; it is called with an index, and the shape."""
        if name in self.maps:
            return
        must(wh_map_register(self.pe, name.encode(), on_map, <void *>map), f"map {name}")
        self.maps[name] = map

    def register_strategy(self, str name, choose):
        """Makes a strategy of load balancing known; `choose` is called with its name, all (load, PE, fixed), and the number of PEs."""
        if name not in self.strategies:
            must(wh_balancer_register(self.pe, name.encode(), on_strategy, <void *>name), f"strategy {name}")
            self.strategies[name] = choose

    @property
    def processes(self):
        return wh_rt_processes(self.rt)

    def run_main(self, main, args):
        """Calls the program's begin, on PE 0."""
        cdef reply to
        to.pe = -1
        self.depth += 1
        try:
            result = main(args)
        except BaseException as error:
            self.failed_main(error)
        else:
            if hasattr(result, "send") and hasattr(result, "throw"):
                start_task(result, None, None, getattr(main, "__name__", "main"), &to)
        finally:
            self.depth -= 1
        self.end_callback()

    cdef void failed_main(self, object error):
        cdef reply to
        to.pe = -1
        self.failed(&to, None, "main", error)

    def exit(self, int status=0):
        """Ends the program on all PEs, when what runs here now has returned; code beyond 0 to 255 is cut."""
        if not self.exited:
            self.exited = True
            wh_pe_exit(self.pe, status & 255)
            self.touch()

    def end(self):
        """The program's exit status, when all PEs have stopped; leaves the job."""
        global over
        cdef int status = 0
        cdef wh_status ended
        over = True
        with nogil:
            ended = wh_rt_end(self.rt, &status)
        self.close()
        must(ended, "charm.start")
        return status

    def close(self):
        """Leaves the job, ended or not."""
        global here, over
        self.closing = over = True
        for task in list(self.tasks):
            drop_task(task)
        # Elements end with the PE: what their destructors do may still ask for it.
        if self.rt != NULL:
            with nogil:
                wh_rt_finish(self.rt)
            self.rt = NULL
            self.pe = NULL
        self.channels.clear()
        if here is self:
            here = None

    # ---- Turns.

    def join(self, loop):
        """Has an event loop from now on, of which what runs now is the current task."""
        global current_task, enter_task, leave_task
        from asyncio import tasks
        current_task, enter_task, leave_task = tasks.current_task, tasks._enter_task, tasks._leave_task
        self.loop = loop
        self.wanted = True
        if self.current is not None:
            enter_task(loop, self.current)

    cdef object event_loop(self):
        """The loop, which is made if need be; None at the end."""
        if self.loop is None and self.make_loop is not None:
            self.make_loop()
        return self.loop

    def want(self):
        """The loop has something to do: has `drive` return."""
        self.wanted = True  # by the loop

    def drive(self, timeout, int fd):
        """Runs the PE until the loop has something to do: `timeout` seconds are over, or its descriptor `fd` is readable.

        False: the program has ended.
        """
        cdef uint64_t until = UINT64_MAX
        cdef int why = DRIVE_WANTED
        if timeout is not None:
            until = clock_ns() + <uint64_t>(max(timeout, 0) * 1e9)
        self.driving = True
        try:
            self.end_callback()  # a signal's handler may have ended a wait since the last turn
            while True:
                with nogil:
                    why = self.run(until, fd)
                if self.raised is not None:
                    error, self.raised = self.raised, None
                    raise error
                if why != DRIVE_SIGNAL:
                    break
                PyErr_CheckSignals()
        finally:
            self.driving = False
            self.wanted = False
        if why == DRIVE_FAILED:
            must(self.arm_status, "the worker cannot wait")
        return why != DRIVE_ENDED

    cdef int run(self, uint64_t until, int fd) noexcept nogil:
        cdef pollfd fds[2]
        cdef uint64_t now, quiet = 0
        cdef unsigned turns = 0, idle = 0
        cdef int timeout_ms
        cdef bint glance
        fds[0].fd = wh_worker_fd(wh_pe_worker(self.pe))
        fds[1].fd = fd
        fds[0].events = fds[1].events = POLLIN
        while True:
            done = wh_pe_turn(self.pe)
            if wh_pe_ended(self.pe):
                return DRIVE_ENDED
            if self.wanted:
                return DRIVE_WANTED
            if done:
                quiet = 0
                turns += 1
                glance = turns % GLANCE_TURNS == 0
                if not glance:
                    continue
            else:
                idle += 1
                if idle % IDLE_TURNS != 0 and self.spin_ns:
                    continue
                glance = idle % (IDLE_TURNS * IDLE_GLANCES) == 0
            now = clock_ns()
            if now >= until:
                return DRIVE_TIME
            if glance and poll(&fds[1], 1, 0) != 0:
                return DRIVE_WANTED  # or a signal, which the loop's descriptors tell of
            if done:
                continue
            if quiet == 0:
                quiet = now
            if now - quiet < self.spin_ns:
                continue
            self.arm_status = wh_pe_arm(self.pe, &timeout_ms)
            if self.arm_status == WH_EBUSY:
                continue
            if self.arm_status != WH_OK:
                return DRIVE_FAILED
            if until != UINT64_MAX and (timeout_ms < 0 or (until - now) // 1000000 < <uint64_t>timeout_ms):
                timeout_ms = <int>min((until - now + 999999) // 1000000, 3600000)
            if poll(fds, 2, timeout_ms) < 0:
                if errno == EINTR:
                    return DRIVE_SIGNAL
                self.arm_status = WH_EINVAL
                return DRIVE_FAILED
            if fds[1].revents != 0:
                return DRIVE_WANTED
            quiet = 0 if fds[0].revents else quiet

    def pump(self):
        """Some turns, within a foreign loop.  None: the program has ended; else the seconds that the PE may sleep, negative for
        no limit."""
        cdef int timeout_ms = 0
        cdef int turn
        cdef wh_status status = WH_OK
        if self.driving:
            return 0.0
        self.driving = True
        try:
            for turn in range(PUMP_TURNS):
                with nogil:
                    wh_pe_turn(self.pe)
                    status = wh_pe_arm(self.pe, &timeout_ms)
                if wh_pe_ended(self.pe) or status != WH_EBUSY:
                    break
        finally:
            self.driving = False
        if self.raised is not None:
            error, self.raised = self.raised, None
            raise error
        if wh_pe_ended(self.pe):
            return None
        if status == WH_EBUSY:
            return 0.0
        must(status, "the worker cannot wait")
        return timeout_ms / 1000 if timeout_ms >= 0 else -1.0

    @property
    def fd(self):
        return wh_worker_fd(wh_pe_worker(self.pe))

    cdef inline int touch(self) except -1:
        """In a foreign loop: what was sent outside of the PE's turns needs one."""
        if self.on_touch is not None and not self.driving:
            self.on_touch()
        return 0

    cdef int run_ready(self) except -1:
        """Steps tasks whose wait is over, unless something runs now that must not be interrupted."""
        cdef Task task
        if self.depth or self.readying:
            return 0
        self.readying = True
        try:
            while self.ready:
                one, error = self.ready.popleft()
                task = <Task>one
                task.step(error)
        finally:
            self.readying = False
        return 0

    def step_ready(self):
        self.end_callback()

    cdef void end_callback(self):
        try:
            self.run_ready()
        except BaseException as error:
            self.fatal("a task", error)

    cdef inline Element charge(self, Element element):
        """Has the time from now on be an element's, if it is of a balanced array, or nobody's; returns whose it was."""
        cdef Element outer = self.charged
        cdef uint64_t now
        if element is not None and not element.balanced:
            element = None
        if element is outer:
            return outer
        now = clock_ns()
        if outer is not None:
            outer.spent += now - self.since
        self.charged, self.since = element, now
        return outer

    # ---- Results.

    cdef int adopt(self, Future future, object count) except -1:
        """Makes a new future one of this PE, and gives it its name."""
        future.pe, future.needed = self.number, count
        future.waiters = []
        return self.name_future(future)

    cdef int name_future(self, Future future) except -1:
        self.next_future += 1
        while self.next_future in self.futures:
            self.next_future += 1
        future.name = self.next_future
        if not future.is_done:
            self.futures[future.name] = future
        return 0

    cdef int answer(self, int pe, uint32_t id, uint8_t kind, object key, object value) except -1:
        cdef writer to
        cdef uint8_t head[8]
        self.must_be_ours()
        if pe < 0 or pe >= self.pes:
            raise ValueError(f"there is no PE {pe}")
        memset(head, 0, sizeof(head))
        memcpy(head, &id, 4)
        head[4] = kind
        writer_init(&to)
        try:
            put_values(&to, (key, value))
            must(wh_pe_send(self.pe, pe, HANDLER_ANSWER, head, sizeof(head), to.data, to.size, 0), "a result")
        finally:
            writer_fini(&to)
        return self.touch()

    cdef int succeed(self, const reply *to, Element element, object value) except -1:
        if to.pe < 0:
            return 0
        key = element.index if to.keyed else None
        try:
            self.answer(to.pe, to.id, ANSWER_VALUE, key, value if to.value else None)
        except Exception as error:
            self.answer(to.pe, to.id, ANSWER_ERROR, key, describe_error(error))
        return 0

    cdef int failed(self, const reply *to, Element element, str what, object error) except -1:
        if isinstance(error, SystemExit):
            code = error.code
            if code is not None and not isinstance(code, int):
                print(code, file=sys_module.stderr)
                code = 1
            self.exit(code or 0)
        elif isinstance(error, KeyboardInterrupt):
            self.raised = error
            self.wanted = True
        elif to.pe >= 0:
            self.answer(to.pe, to.id, ANSWER_ERROR, None, describe_error(error))
        else:
            if element is not None and element.collective:
                what = f"{what} of element {element.index}"
            self.fatal(what, error)
        return 0

    cdef void fatal(self, str what, object error):
        """Ends the program with an exception that nobody waits for."""
        if isinstance(error, KeyboardInterrupt):
            self.raised = error
            self.wanted = True
        elif not self.exited:
            try:
                print(f"wherry.charm: PE {self.number}: {what} has failed:\n"
                      + error_text(error), end="", file=sys_module.stderr, flush=True)
            finally:
                self.exited = True
                wh_pe_exit(self.pe, 1)

    # ---- Readonlies: from PE 0 down a tree; elements are made when they are there.

    cdef inline int must_be_ours(self) except -1:
        if PyThread_get_thread_ident() != self.thread:
            if PyThread_get_thread_ident() == self.deciding:
                raise RuntimeError("a strategy of load balancing must use nothing but its arguments")
            raise RuntimeError("chares belong to the thread that has called charm.start: from another one use "
                               "loop.call_soon_threadsafe, with the loop of asyncio.get_running_loop()")
        return 0

    cdef inline int begin_sends(self) except -1:
        self.must_be_ours()
        if not self.has_readonlies:
            self.publish()
        return 0

    cdef int publish(self, bint restoring=False) except -1:
        """On PE 0, before the first chare can be made: nothing that sees the readonlies runs elsewhere before."""
        if self.number:
            raise RuntimeError("the program begins on PE 0: chares can be made and called when it has made the first one")
        if self.restoring:
            raise RuntimeError("a checkpoint is being read: await charm.restart before chares are made or called")
        data = b""
        if self.readonlies or restoring:
            data = pickle().dumps((self.readonlies, restoring), 5)
        self.pass_readonlies(data)
        return self.have_readonlies(restoring)

    cdef int pass_readonlies(self, bytes data) except -1:
        cdef int child
        for child in range(2 * self.number + 1, min(2 * self.number + 3, self.pes)):
            must(wh_pe_send(self.pe, child, HANDLER_READONLIES, NULL, 0, <const char *>data, len(data), 0), "readonlies")
        return 0

    cdef int take_readonlies(self, bytes data) except -1:
        self.pass_readonlies(data)
        restoring = False
        if data:
            values, restoring = pickle().loads(data)
            self.readonlies.update(values)
        return self.have_readonlies(restoring)

    def take_saved(self, values):
        """Those of a checkpoint, of which the ones that PE 0 has set before are not taken."""
        self.has_saved = True
        for name, value in values.items():
            self.readonlies.setdefault(name, value)
        if self.restoring:
            self.have_readonlies(True)

    cdef int have_readonlies(self, bint restoring) except -1:
        """PE 0's have come, or are its own; of a checkpoint others are to come, or have."""
        self.restoring = restoring
        if restoring and not self.has_saved:
            return 0
        self.restoring, self.has_readonlies = False, True
        unmade, self.unmade = self.unmade, []
        for element in unmade:
            self.construct(<Element>element)
        return 0

    cdef int construct(self, Element element) except -1:
        cdef reply nobody
        nobody.pe = -1
        self.depth += 1
        try:
            element.construct()
        except BaseException as error:
            self.failed(&nobody, element, f"{element.name}.__init__", error)
        finally:
            self.depth -= 1
        return 0

    @property
    def published(self):
        return self.has_readonlies or self.restoring

    # ---- Making.

    def create_chare(self, cls, int where, tuple args):
        """A single chare, on a PE; negative: on one that the library chooses."""
        cdef writer to
        cdef Proxy made = <Proxy>cls._proxy_class.__new__(cls._proxy_class)
        self.begin_sends()
        if where >= self.pes:
            raise ValueError(f"there is no PE {where}: there are {self.pes}")
        writer_init(&to)
        try:
            put_values(&to, ("chare", class_name(cls), cls._methods_sum, 1, False, *args))
            must(wh_chare_create(self.pe, CLASS, where, to.data, to.size, &made.c), f"Chare({cls.__name__})")
        finally:
            writer_fini(&to)
        made.kind, made.count, made.dims = "chare", 1, made.c.dims
        self.touch()
        return made

    def create_group(self, cls, tuple args):
        """One element on each PE."""
        cdef writer to
        cdef Proxy made = <Proxy>cls._proxy_class.__new__(cls._proxy_class)
        self.begin_sends()
        writer_init(&to)
        try:
            put_values(&to, ("group", class_name(cls), cls._methods_sum, self.pes, False, *args))
            must(wh_group_create(self.pe, CLASS, to.data, to.size, &made.c), f"Group({cls.__name__})")
        finally:
            writer_fini(&to)
        made.kind, made.count, made.dims = "group", self.pes, 1
        self.touch()
        return made

    def create_array(self, cls, tuple shape, int ndims, map, balance, tuple args):
        """Elements 0 up to `shape`; without a shape none, they are inserted."""
        cdef writer to
        cdef wh_array_opts opts
        cdef Proxy made = <Proxy>cls._proxy_class.__new__(cls._proxy_class)
        self.begin_sends()
        count = None
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        opts.dims = ndims
        if shape is None:
            opts.flags = WH_ARRAY_INSERTING
        else:
            count = 1
            for i, n in enumerate(shape):
                opts.shape[i] = n
                count *= n
        name = None if map is None else map.encode()
        if name is not None:
            opts.map = name
        strategy = None if balance is None else balance.encode()
        if strategy is not None:
            opts.balance, opts.resume, made.balanced = strategy, ENTRY_RESUMED, True
        writer_init(&to)
        try:
            put_values(&to, ("array", class_name(cls), cls._methods_sum, count, made.balanced, *args))
            must(wh_array_create(self.pe, CLASS, &opts, to.data, to.size, &made.c), f"Array({cls.__name__})")
        finally:
            writer_fini(&to)
        made.kind, made.count, made.dims = "array", count, ndims
        self.touch()
        return made

    # ---- Times.

    def after(self, double seconds):
        """A future that is done when the time is over."""
        cdef Future future = Future()
        future._awaits = "charm.sleep"
        must(wh_pe_after(self.pe, <uint64_t>(max(seconds, 0.0) * 1e6), on_time, <void *><uintptr_t>future.id, NULL),
             "charm.sleep")
        self.touch()
        return future

    def quiescence(self):
        """A future that is done when no message is under way or waits to be handled, anywhere."""
        cdef Future future = Future()
        future._awaits = "charm.quiescence"
        must(wh_pe_on_quiescence(self.pe, on_time, <void *><uintptr_t>future.id), "charm.quiescence")
        self.touch()
        return future


def runtime():
    """The PE of this process.  Raises RuntimeError where none is running."""
    return running()


def current():
    """The same, or None: none is running."""
    try:
        return running()
    except RuntimeError:
        return None


cdef drop_task(Task task):
    task.ended = True
    try:
        task.coro.close()
    except BaseException as error:
        print(error_text(error), end="", file=sys_module.stderr)


cdef void nothing(wh_pe *pe, void *arg) noexcept nogil:
    pass


cdef void add_setting(const wh_config_item *item, void *settings) noexcept:
    (<dict>settings)[item.key.decode()] = item.value.decode()
