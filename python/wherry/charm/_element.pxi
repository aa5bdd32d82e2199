# SPDX-License-Identifier: BSD-3-Clause
#
# Elements: Python objects behind chares of one C class.  A message names the method by its number in the table of its class
# (_chare.py), then come the arguments; messages whose condition (`when`) does not hold yet wait here.
#
# An element's message:      u16 method, u8 CALL_*, u8 0 [, i32 PE, u32 future] , values, count of keywords and their names
# That which makes one:      values: kind of collection, class, sum over its table, number of elements, arguments

cdef enum:  # entries of the class in C
    ENTRY_CALL, ENTRY_REDUCED, ENTRY_BESIDE, ENTRY_RESUMED, ENTRY_CHECKPOINTED, ENTRY_COUNT

cdef enum:
    CALL_ANSWER = 1   # somebody awaits the end
    CALL_VALUE = 2    # and the result
    CALL_ALL = 4      # it goes to all elements: answers carry the index
    CALL_KEYWORDS = 8

cdef enum:
    WAITS, HOLDS, FAILED  # of a condition


# What the library keeps of an element.
cdef struct slot:
    void *element      # NULL: it has ended
    const char *name   # of its class; the element's


cdef class Method:
    """A method of a chare that messages can call."""

    cdef object fn, condition
    cdef str name
    cdef const char *text   # the name's
    cdef bint is_async

    def __init__(self, fn, str name, condition, bint is_async):
        self.fn, self.name, self.condition, self.is_async = fn, name, condition, is_async
        self.text = utf8_of(name, NULL)
        if self.text == NULL:
            PyErr_Clear()


cdef class Kept:
    """A call that waits for its condition, or for the readonlies."""

    cdef Method method
    cdef tuple args
    cdef dict keywords
    cdef reply to


cdef class Element:
    cdef wh_chare *c           # NULL: it has ended
    cdef object chare
    cdef list methods
    cdef list kept
    cdef list channels
    cdef uint32_t next_end     # id of its next channel
    cdef bint retries          # a timer has it leave
    cdef int retry_us
    cdef bint looking, waits   # for the readonlies
    cdef int running           # entries and coroutines of it that have not returned
    cdef int to                # PE that it is to move to; negative: none
    cdef bytes packed          # while it leaves
    cdef str name
    cdef const char *text      # the name's
    cdef bint collective       # one of a group or an array
    cdef object index
    cdef tuple make            # class and arguments, until it has been made
    cdef tuple state           # of one that has come, until the readonlies are there
    cdef bint balanced
    cdef uint64_t spent        # ns that its entries took since its last sync point
    cdef object told           # its load, if it has said one
    cdef bint migrates, saving, unpicklable  # asked to move; asked last for a checkpoint; a step has found so
    cdef bytes why             # it stays

    cdef int take(self, Method method, tuple args, dict keywords, const reply *to) except -1:
        cdef Kept kept
        cdef int state = WAITS
        if not self.waits:
            state = HOLDS if method.condition is None else self.holds(method, args, keywords, to)
        if state == HOLDS:
            return self.run(method, args, keywords, to)
        if state == FAILED:
            return 0
        wh_pe_name_span(here.pe, self.text, "when")
        kept = Kept.__new__(Kept)
        kept.method, kept.args, kept.keywords, kept.to = method, args, keywords, to[0]
        self.kept.append(kept)
        here.keeping[self] = None
        return 0

    cdef int holds(self, Method method, tuple args, dict keywords, const reply *to) except -1:
        """Whether a call need not wait: HOLDS, WAITS, or FAILED, of which has been told."""
        try:
            if keywords:
                return HOLDS if method.condition(self.chare, *args, **keywords) else WAITS
            return HOLDS if method.condition(self.chare, *args) else WAITS
        except Exception as error:
            raised = error
        here.failed(to, self, f"{self.name}.{method.name}: its condition", raised)
        return FAILED

    cdef int run(self, Method method, tuple args, dict keywords, const reply *to) except -1:
        cdef Runtime home = here
        wh_pe_name_span(home.pe, self.text, method.text)
        home.depth += 1
        self.running += 1
        try:
            if keywords:
                result = method.fn(self.chare, *args, **keywords)
            else:
                result = method.fn(self.chare, *args)
        except BaseException as error:
            home.depth -= 1
            home.failed(to, self, f"{self.name}.{method.name}", error)
        else:
            home.depth -= 1
            if method.is_async:
                start_task(result, self, method, f"{self.name}.{method.name}", to)
            elif to.pe >= 0:
                home.succeed(to, self, result)
        self.running -= 1
        self.look_again()  # behind an entry
        return self.leave_if_due()

    cdef int look_again(self) except -1:
        """Runs calls whose condition has become true, in the order in which they have come."""
        cdef Kept kept
        cdef size_t i = 0
        cdef int state
        if self.looking or self.waits or not self.kept:
            return 0
        self.looking = True
        try:
            while i < <size_t>len(self.kept):
                kept = <Kept>self.kept[i]
                state = HOLDS
                if kept.method.condition is not None:
                    state = self.holds(kept.method, kept.args, kept.keywords, &kept.to)
                if state == WAITS:
                    i += 1
                    continue
                del self.kept[i]
                if state == HOLDS:
                    self.run(kept.method, kept.args, kept.keywords, &kept.to)
                    i = 0  # it may have changed what the others wait for
        finally:
            self.looking = False
        self.forget_if_empty()
        return 0

    cdef int forget_if_empty(self) except -1:
        """Nothing is kept any more."""
        if not self.kept and here is not None:
            here.keeping.pop(self, None)
        return 0

    cdef void refuse_kept(self):
        """It has ended: who awaits what still waits here gets an error."""
        cdef Kept kept
        while self.kept:
            kept = <Kept>self.kept.pop(0)
            try:
                if kept.to.pe >= 0:
                    here.failed(&kept.to, self, self.name, RuntimeError(
                        f"{self.name} has ended before {kept.method.name} could run"))
            except BaseException as error:
                here.fatal(self.name, error)

    cdef int construct(self) except -1:
        """Makes the object, and runs what has come for it."""
        self.waits = False
        if self.make is not None:
            cls, args = self.make
            self.make = None
            self.chare.__init__(*args)
        elif self.state is not None:
            state, self.state = self.state, None
            set_state(self.chare, state[0])
        return self.look_again()

    cdef object hindrance(self, bint saved):
        """Why it cannot be packed now; None: it can."""
        self.saving = saved
        if self.running or self.looking:
            return "a coroutine of it has not ended"
        if self.chare.__dict__.get("_results"):
            return "it waits for the result of an allreduce"
        if self.waits:
            return "it has not been made yet"
        if saved and self.kept:
            return f"a call of {(<Kept>self.kept[0]).method.name} waits for its condition"
        if self.unpicklable and not saved:
            return "its state cannot be pickled"
        return end_hindrance(self)

    cdef int leave_if_due(self) except -1:
        """Moves it, as soon as no coroutine of it is suspended."""
        cdef int to = self.to
        if to < 0 or self.running or self.looking or self.c == NULL or self.chare.__dict__.get("_results"):
            return 0
        if to == here.number:
            self.to = -1
            return 0
        if end_hindrance(self) is not None:
            return try_later(self)
        self.migrates, self.unpicklable = True, False
        status = wh_chare_move(self.c, to)
        self.migrates = status == WH_OK
        if status == WH_EBUSY:  # a channel that the other one has not opened yet
            return try_later(self)
        self.to, self.retry_us = -1, 0
        return must(status, "migrate")


cdef Element element_of(wh_chare *chare):
    cdef slot *own = <slot *>chare.state
    return <Element>own.element if own.element != NULL else None


cdef object index_of(const wh_proxy *proxy):
    if proxy.dims == 1:
        return proxy.index[0]
    return tuple([proxy.index[i] for i in range(proxy.dims)])


cdef int make_element(wh_chare *chare, const wh_call *call) except -1:
    cdef reader source
    cdef Element element
    cdef Runtime home = here
    source.at = <const char *>call.args
    source.end = source.at + call.size
    values = take_values(&source)
    if len(values) < 5:
        raise bad_message("it makes a chare of no class")
    kind, name, sum, count, balanced = values[:5]
    element = new_element(chare, kind, name, sum, count, balanced)
    element.make = (type(element.chare), values[5:])
    if not home.has_readonlies:
        home.unmade.append(element)
        return 0
    return home.construct(element)


cdef Element new_element(wh_chare *chare, object kind, object name, object sum, object count, object balanced):
    cdef Element element = Element.__new__(Element)
    fill_element(element, chare, kind, name, sum, count, balanced)
    return element


cdef int fill_element(Element element, wh_chare *chare, object kind, object name, object sum, object count,
                      object balanced) except -1:
    cdef Proxy collection
    cls = find_class(name)
    if sum != cls._methods_sum:
        raise TypeError(f"class {name} has other methods where it was made than here: all processes must run the same program, "
                        "and a checkpoint is read by the one that has written it")
    element.name, element.methods, element.kept = cls.__name__, cls._methods, []
    element.text = utf8_of(element.name, NULL)
    if element.text == NULL:
        PyErr_Clear()
    element.collective = kind != "chare"
    element.channels, element.next_end = [], 1
    element.chare = object.__new__(cls)
    element.index = 0 if kind == "chare" else index_of(&chare.proxy)
    element.c = chare
    element.chare._element = element
    element.chare.thisIndex = element.index
    collection = (<Proxy>cls._proxy_class.__new__(cls._proxy_class))
    collection.kind, collection.balanced = kind, balanced
    collection.count = here.pes if kind == "group" else count
    if kind == "chare":
        collection.c = chare.proxy
    else:
        collection.c = wh_proxy_at(chare.proxy, 0, NULL)
    collection.dims = chare.proxy.dims
    element.chare.thisProxy = collection
    element.waits, element.to, element.balanced = True, -1, balanced
    Py_INCREF(element)
    (<slot *>chare.state).element = <void *>element
    (<slot *>chare.state).name = element.text
    return 0


# ---- Moves: the class, the object's state, and the calls that wait for a condition.

OWN = ("thisIndex", "thisProxy", "_element", "_results")


cdef object state_of(object chare):
    own = getattr(type(chare), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return chare.__getstate__()
    return {name: value for name, value in chare.__dict__.items() if name not in OWN}


cdef int set_state(object chare, object state) except -1:
    if hasattr(type(chare), "__setstate__"):
        chare.__setstate__(state)
    else:
        chare.__dict__.update(state)
    return 0


def move(chare, int pe):
    """Has an object leave for a PE, when nothing of it runs."""
    cdef Element element = chare._element
    cdef Proxy proxy = chare.thisProxy
    if pe < 0 or pe >= running().pes:
        raise ValueError(f"there is no PE {pe}: there are {here.pes}")
    if proxy.kind == "group":
        raise TypeError(f"{proxy!r}: the objects of a group stay on their PEs")
    element.to = pe
    element.leave_if_due()


cdef bytes pack_element(Element element):
    cdef Proxy proxy = element.chare.thisProxy
    cdef Kept kept
    cls = type(element.chare)
    calls = []
    for each in element.kept:
        kept = <Kept>each
        calls.append((element.methods.index(kept.method), kept.args, kept.keywords, kept.to.pe, kept.to.id,
                      bool(kept.to.keyed), bool(kept.to.value)))
    return encode((proxy.kind, class_name(cls), cls._methods_sum, proxy.count, proxy.balanced, element.spent, element.told,
                   state_of(element.chare), calls, element.next_end, packed_ends(element)))


cdef int unpack_element(wh_chare *chare, bytes data) except -1:
    cdef Element element
    cdef Kept kept
    element = Element.__new__(Element)
    here.arriving = {None: element}
    kind, name, sum, count, balanced, spent, told, state, calls, next_end, ends = decode(data)
    fill_element(element, chare, kind, name, sum, count, balanced)
    element.next_end = next_end
    for id, remote, values, begun, outcome in ends:
        take_end(element, id, remote, values, begun, outcome)
    here.arriving = {}
    element.spent, element.told = spent, told
    if here.has_readonlies or hasattr(type(element.chare), "_at_once"):
        set_state(element.chare, state)
    else:
        element.state = (state,)
    for number, args, keywords, pe, id, keyed, value in calls:
        kept = Kept.__new__(Kept)
        kept.method, kept.args, kept.keywords = element.methods[number], args, keywords
        kept.to.pe, kept.to.id, kept.to.keyed, kept.to.value = pe, id, keyed, value
        element.kept.append(kept)
        here.keeping[element] = None
    if not here.has_readonlies:
        here.unmade.append(element)
        return 0
    return here.construct(element)


cdef size_t pack_to(Element element, void *to) except? 0:
    cdef size_t size
    if to == NULL:
        element.running += 1  # whatever __getstate__ does, it is here
        here.packing = element
        try:
            element.packed = pack_element(element)
        except Exception as error:
            refuse_packing(element, error)
            return WH_PACK_FAILED
        finally:
            here.packing = None
            element.running -= 1
        return len(element.packed)
    size = len(element.packed)
    memcpy(to, <const char *>element.packed, size)
    element.kept = []  # they go along
    element.forget_if_empty()
    element.packed = None
    return size


cdef size_t on_pack(wh_chare *chare, void *to) noexcept with gil:
    cdef Element element
    if here is None:
        return WH_PACK_FAILED
    element = element_of(chare)
    try:
        return pack_to(element, to)
    except BaseException as error:
        here.fatal(element.name, error)
    return WH_PACK_FAILED


cdef wh_status on_unpack(wh_chare *chare, const void *data, size_t size) noexcept with gil:
    if here is None:
        return WH_EINVAL
    try:
        unpack_element(chare, (<const char *>data)[:size])
        return WH_OK
    except BaseException as error:
        here.fatal("the making of a chare that has moved here", error)
        return WH_EINVAL


cdef int call_element(wh_chare *chare, reader *source, list beside) except -1:
    cdef Element element = element_of(chare)
    cdef uint16_t number
    cdef uint8_t flags
    cdef reply to
    cdef dict keywords = None
    if element is None:
        return 0  # its making has failed, which has ended the program
    memcpy(&number, take(source, 2), 2)
    flags = take_u8(source)
    take_u8(source)
    to.pe = -1
    to.keyed = flags & CALL_ALL
    to.value = flags & CALL_VALUE
    if flags & CALL_ANSWER:
        to.pe = <int>take_u32(source)
        to.id = take_u32(source)
        if to.pe < 0 or to.pe >= here.pes:
            raise bad_message(f"an answer is for PE {to.pe}")
    if number >= len(element.methods):
        raise bad_message(f"{element.name} has no method {number}")
    try:
        values = take_values(source, beside)
    except Exception as error:  # of a class whose __setstate__ raises, say
        here.failed(&to, element, f"{element.name}.{element.methods[number].name}: its arguments", error)
        return 0
    if flags & CALL_KEYWORDS:
        names = values[len(values) - 1] if values else None
        if type(names) is not tuple or len(names) >= len(values):
            raise bad_message("the names of its arguments are none")
        keywords = dict(zip(names, values[len(values) - 1 - len(names):len(values) - 1]))
        values = values[:len(values) - 1 - len(names)]
    return element.take(<Method>element.methods[number], values, keywords, &to)


# ---- What the C layer calls: the one place where the interpreter's lock is taken.

cdef void on_construct(wh_chare *chare, const wh_call *call) noexcept with gil:
    if here is None:
        return
    try:
        make_element(chare, call)
    except BaseException as error:
        here.fatal("the making of a chare", error)
    here.end_callback()


# Without the lock: it asks for nothing of Python's.
cdef const char *on_alias(const wh_chare *chare) noexcept nogil:
    return (<const slot *>chare.state).name


cdef void on_call(wh_chare *chare, const wh_call *call) noexcept with gil:
    cdef reader source
    if here is None:
        return
    source.at = <const char *>call.args
    source.end = source.at + call.size
    outer = here.charge(element_of(chare))
    try:
        call_element(chare, &source, None)
    except BaseException as error:
        here.fatal("a call", error)
    here.charge(outer)
    here.end_callback()


cdef void on_destruct(wh_chare *chare) noexcept with gil:
    cdef slot *own = <slot *>chare.state
    if own.element == NULL:
        return
    cdef Element element = <Element>own.element
    own.element = own.name = NULL
    element.c = NULL
    element.chare = None  # which refers to it
    for channel in element.channels:
        (<Channel>channel).c = NULL  # closed by the library
        if here is not None and not (<Channel>channel).posted:
            here.channels.pop((<Channel>channel).arrival.number, None)
    element.channels = []
    if here is not None and not here.closing:
        element.refuse_kept()
    if here is not None:
        here.keeping.pop(element, None)
    Py_DECREF(element)
