# SPDX-License-Identifier: BSD-3-Clause
#
# Channels between two chares, of Python values.
#
# A value is one message of the C channel: the length of its bytes, and as many of these as fit; what does not is a second
# message. The bytes of large arrays, and of those on devices, are messages of their own behind it, received where the arrays then
# have them.
# One receive is posted at a time, ahead of whoever asks; values that nobody has asked for are bounded, and what
# comes behind them stays with its sender, as the C channel's window says.

cdef enum:
    FIRST_MAX = 4096   # bytes of the first message
    AHEAD_MAX = 16     # values that have come before they were asked for

cdef const char *CAME = "wherry.charm.came"

cdef bint over = False  # the PE has ended: nothing is told any more


# A receive, where it ends.
cdef struct landing:
    wh_pe *pe
    uint64_t number   # of its channel
    bint landed       # and the PE's turn has not come to it yet
    wh_status status
    size_t size


cdef void tell_landed(landing *one) noexcept nogil:
    cdef wh_callback callback
    if over:
        return
    memset(&callback, 0, sizeof(callback))
    callback.kind = WH_CALLBACK_FUNCTION
    callback.function = wh_function_id(CAME)
    callback.pe = wh_pe_number(one.pe)
    callback.ref = one.number
    if wh_callback_fire(one.pe, &callback, NULL, 0) != WH_OK:
        wh_pe_exit(one.pe, 1)  # there is no memory, which has been logged


# In progress, where no value can be made: the PE's turn does it, or the packing of an object that leaves before.
cdef void on_landed(wh_request *req, const wh_result *result, void *arg) noexcept nogil:
    cdef landing *one = <landing *>arg
    one.landed = True
    one.status = result.status
    one.size = result.size
    tell_landed(one)


cdef void unlink(part *one) noexcept nogil:
    one.previous.next = one.next
    one.next.previous = one.previous


cdef void on_sent(wh_request *req, const wh_result *result, void *arg) noexcept nogil:
    cdef part *one = <part *>arg
    if one.outcome != NULL and one.outcome[0] == WH_OK:
        one.outcome[0] = result.status
    unlink(one)
    free_part(one)


cdef int put_in_front(writer *to, const char *data, size_t size) except -1:
    """A copy of these bytes goes before what goes apart."""
    cdef part *one = new_part(size)
    memcpy(one.data, data, size)
    one.next = to.parts
    to.parts = one
    return 0


@cython.no_gc_clear
cdef class Channel:
    """One end of a stream of values between two chares: both make one with the other as `remote`.

    chare: this object: ``Channel(self, remote=self.thisProxy[1])``.

    The k-th channel that one makes to the other belongs to the k-th of that one. Values come in the
    order in which they were sent.
    """

    cdef wh_channel *c
    cdef Element element
    cdef uint32_t id         # by which the element finds it again when it has moved
    cdef landing arrival
    cdef char first[FIRST_MAX]
    cdef char *rest
    cdef uint64_t total
    cdef bint posted
    cdef object inbox, waiters, error
    cdef Proxy remote
    cdef wh_status outcome
    cdef part unsent      # a ring of what is under way
    # What has come of a value, its bytes and what they say, of whose arrays the bytes are still to come.
    cdef bytes encoded
    cdef object value
    cdef list landings    # where these go; None: nothing is missing
    cdef int landed_count # of them
    cdef object __weakref__

    def __cinit__(self, *ignored, **also):
        self.unsent.next = self.unsent.previous = &self.unsent
        self.inbox, self.waiters = deque(), deque()

    def __init__(self, chare, remote):
        cdef Proxy proxy
        cdef wh_channel_opts opts
        cdef Element element = getattr(chare, "_element", None)
        if self.element is not None:
            raise TypeError(f"{self!r} has been made already")
        if element is None or element.c == NULL:
            raise TypeError("Channel: the first argument is the chare itself: Channel(self, remote)")
        if not isinstance(remote, Proxy) or (<Proxy>remote).c.dims == 0:
            raise TypeError(f"Channel: remote is {remote!r:.80}: a proxy of one chare is needed, such as self.thisProxy[1]")
        proxy = <Proxy>remote
        self.remote = proxy
        running()
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        opts.id, opts.flags = element.next_end, WH_CHANNEL_WITHDRAW
        wh_log_take_error()
        wh_log_hold_errors(True)  # the exception says it
        heard(wh_channel_open(element.c, proxy.c, &opts, &self.c), "Channel")
        self.id = element.next_end
        element.next_end += 1
        self.attach(element)
        self.post()
        here.touch()

    cdef int attach(self, Element element) except -1:
        """It is an element's, on this PE."""
        self.element = element
        here.next_channel += 1
        self.arrival.pe, self.arrival.number = here.pe, here.next_channel
        here.channels[self.arrival.number] = self
        element.channels.append(self)
        return 0

    def __dealloc__(self):
        cdef part *one = self.unsent.next
        while one != &self.unsent:
            one.outcome = NULL
            one = one.next
        # The others stay in a ring without its head.
        unlink(&self.unsent)
        free(self.rest)

    cdef int post(self) except -1:
        """Posts the next receive, unless enough has come."""
        cdef wh_op_opts opts
        cdef wh_result result
        if self.posted or self.c == NULL or self.error is not None or len(self.inbox) >= AHEAD_MAX:
            return 0
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        opts.done, opts.arg, opts.result = on_landed, &self.arrival, &result
        self.posted = True
        cdef void *to = self.first
        cdef size_t size = FIRST_MAX
        cdef Landing landing
        if self.landings is not None:
            landing = <Landing>self.landings[self.landed_count]
            to, size = landing.data, landing.size
        elif self.rest != NULL:
            to = self.rest + FIRST_MAX - 8
            size = self.total - (FIRST_MAX - 8)
        cdef wh_status status = wh_channel_recv(self.c, to, size, &opts, NULL)
        if status == WH_OK:
            result.status = WH_OK
            on_landed(NULL, &result, &self.arrival)
        elif status != WH_PENDING:
            self.posted = False
            if status == WH_EBUSY:  # its element is about to move: the next one is posted there
                return self.refuse_waiters(status)
            self.end(failure_of(status, "Channel.recv"))
        return 0

    cdef int need_rest(self, const char *first) except -1:
        """The second message of a value is to come, of which the first one has these bytes."""
        self.rest = <char *>malloc(self.total)
        if self.rest == NULL:
            raise MemoryError(f"a channel's value has {self.total} bytes")
        memcpy(self.rest, first, FIRST_MAX - 8)
        return 0

    cdef int arrive(self) except -1:
        """Takes what has landed."""
        cdef wh_result result
        if not self.arrival.landed:
            return 0
        self.arrival.landed = self.posted = False
        result.status, result.size = self.arrival.status, self.arrival.size
        if result.status == WH_ECANCELLED:  # taken back: its element leaves
            if self.c == NULL:
                here.channels.pop(self.arrival.number, None)
            return self.refuse_waiters(WH_EBUSY)  # of others: the element waits for its own, and its futures stay here
        return self.came(&result)

    cdef int came(self, const wh_result *result) except -1:
        cdef reader source
        cdef uint64_t total
        if result.status != WH_OK:
            return self.end(failure_of(result.status, "Channel.recv"))
        if self.landings is not None:
            return self.landed(result.size)
        if self.rest == NULL:
            if result.size < 8:
                raise bad_message("a channel's value has no length")
            memcpy(&total, self.first, 8)
            source.at = self.first + 8
            source.end = self.first + result.size
            if total > FIRST_MAX - 8:
                if result.size != FIRST_MAX:
                    raise bad_message("a channel's value is too short")
                self.total = total
                self.need_rest(self.first + 8)
                return self.post()
            if total != result.size - 8:
                raise bad_message("a channel's value has another length")
        else:
            source.at = self.rest
            source.end = self.rest + self.total
            if result.size != self.total - (FIRST_MAX - 8):
                raise bad_message("a channel's value has another length")
        try:
            self.decode(&source)
        finally:
            free(self.rest)
            self.rest = NULL
        if self.landings is not None:
            return self.post()
        return self.give()

    cdef int decode(self, reader *source) except -1:
        """All bytes of a value but those of large arrays have come."""
        cdef list landings = []
        cdef const char *begin = source.at
        cdef const char *end = source.end
        values = take_values(source, None, landings)
        self.value = values[0] if len(values) == 1 else values
        if landings:
            self.encoded = begin[:end - begin]
            self.landings, self.landed_count = landings, 0
        return 0

    cdef int landed(self, uint64_t size) except -1:
        """The bytes of an array have come."""
        cdef Landing landing = <Landing>self.landings[self.landed_count]
        if size != <uint64_t>landing.size:
            raise bad_message("an array in a channel has another length")
        self.landed_count += 1
        if self.landed_count < len(self.landings):
            return self.post()
        self.encoded = self.landings = None
        return self.give()

    cdef int give(self) except -1:
        """A value is whole."""
        value, self.value = self.value, None
        while self.waiters:
            future = <Future>self.waiters.popleft()
            if not (<Future>future).is_done:
                (<Future>future).take(None, value)  # whoever waits goes on first: an answer need not wait for the next receive
                return self.post()
        self.inbox.append(value)
        return self.post()

    cdef int end(self, object error) except -1:
        """No more will come."""
        if self.error is None:
            self.error = error
        if here is not None and not self.posted:  # else its memory is the receive's still
            here.channels.pop(self.arrival.number, None)
        while self.waiters:
            (<Future>self.waiters.popleft()).fail(self.error)
        return 0

    def __reduce__(self):
        return reduced_end(self)

    cdef int refuse_waiters(self, wh_status status) except -1:
        while self.waiters:
            (<Future>self.waiters.popleft()).fail(failure_of(status, "Channel.recv"))
        return 0

    def send(self, *values):
        """Sends values, which are copied; returns at once.

        Raises what an earlier send has failed with: ClosedError or PeerError, when the other end has gone.
        """
        cdef writer to
        cdef uint64_t size
        cdef part *one
        running()
        if self.c == NULL:
            raise ClosedError("Channel.send: the channel was closed, or its chare has ended")
        if self.outcome != WH_OK:
            raise failure_of(self.outcome, "Channel.send")
        writer_init(&to)
        to.apart = True
        try:
            put_u64(&to, 0)
            put_values(&to, values)
            size = to.size - 8
            memcpy(to.data, &size, 8)
            # All memory is there before the first part of the value goes, without which the others would be no value.
            if to.size > FIRST_MAX:
                put_in_front(&to, to.data + FIRST_MAX, to.size - FIRST_MAX)
            put_in_front(&to, to.data, min(to.size, <size_t>FIRST_MAX))
            while to.parts != NULL:
                one = to.parts
                to.parts = one.next
                self.send_part(one)
        finally:
            writer_fini(&to)
        here.touch()

    cdef int send_part(self, part *one) except -1:
        """Sends it, and frees it then."""
        cdef wh_op_opts opts
        cdef wh_status status
        one.outcome = &self.outcome
        one.previous = &self.unsent
        one.next = self.unsent.next
        one.next.previous = one
        self.unsent.next = one
        memset(&opts, 0, sizeof(opts))
        opts.size = sizeof(opts)
        opts.mem = WH_MEM_HOST if one.memory == NULL else WH_MEM_AUTO
        opts.done = on_sent
        opts.arg = one
        status = wh_channel_send(self.c, one.data, one.size, &opts, NULL)
        if status == WH_PENDING:
            return 0
        unlink(one)
        free_part(one)
        if status != WH_OK:
            raise failure_of(status, "Channel.send")
        return 0

    def recv(self):
        """``await`` it: the next value, of several that were sent as one their tuple.

        Raises ClosedError when the other end was closed and all was received, PeerError when the other
        chare has ended or never was.
        """
        cdef Future future = Future.__new__(Future)
        cdef Runtime home = running()
        future.pe, future.needed, future.waiters = home.number, 1, []
        if self.inbox:
            value = self.inbox.popleft()
            self.post()
            future.take(None, value)
        elif self.error is not None:
            future.fail(self.error)
        elif self.c == NULL:
            future.fail(ClosedError("Channel.recv: the channel was closed, or its chare has ended"))
        else:
            self.waiters.append(future)
            future._awaits = self
            self.post()
        home.touch()
        return future

    def close(self):
        """Ends this end: what was sent before still arrives, then the other end gets ClosedError."""
        if self.c == NULL:
            return
        running()
        wh_channel_close(self.c)
        self.c = NULL
        self.element.channels.remove(self)
        self.end(ClosedError("Channel.recv: the channel was closed here"))
        here.touch()

    def __repr__(self):
        if self.element is None:
            return "<Channel of nothing>"
        return f"<Channel of {self.element.name}{'' if self.c != NULL else ', closed'}>"


cdef object failure_of(wh_status status, str op):
    if status == WH_EPEER:
        return CLASS_OF[<int>status](f"{op}: the object at the other end has ended, was never made, or is lost with its process")
    return CLASS_OF[<int>status](f"{op}: {wh_status_text(status).decode()}")


cdef void on_came(wh_pe *pe, const wh_call *call, void *arg) noexcept with gil:
    if here is None:
        return
    try:
        found = here.channels.get(call.ref)
        if found is not None:
            (<Channel>found).arrive()
            if (<Channel>found).element.to >= 0:
                (<Channel>found).element.leave_if_due()
    except BaseException as error:
        here.fatal("a channel", error)
    here.end_callback()
