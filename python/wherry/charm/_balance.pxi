# SPDX-License-Identifier: BSD-3-Clause
#
# Load balancing: sync points of elements, their loads, and what keeps one where it is.
#
# The time of an element is measured here and told to the C layer at its sync point: coroutines go on in whatever callback has
# woken them, which to the C layer is another element's, or nobody's.


def at_sync(chare):
    """The element has reached its sync point."""
    cdef Element element = chare._element
    cdef wh_status status
    running()
    if element.c == NULL:
        raise RuntimeError(f"{element.name} has ended")
    if not element.balanced:
        raise TypeError(f"{chare.thisProxy!r} is not balanced: Array({element.name}, ..., balance=\"greedy\") makes an array that is")
    wh_log_hold_errors(True)  # the exception says it
    status = wh_chare_sync(element.c)
    if status != WH_OK:
        wh_log_take_error()
    wh_log_hold_errors(False)
    if status == WH_EBUSY:
        raise RuntimeError(f"{element.name} {element.index} waits at its sync point already, until resumeFromSync is called")
    if status == WH_ENOTSUP:
        raise TypeError(f"{element.name} {element.index} has no sync points: it was inserted after the array had been made")
    must(status, "AtSync")
    here.charge(here.charge(None))  # up to now
    must(wh_chare_set_load(element.c, element.spent * 1e-9 if element.told is None else element.told), "AtSync")
    element.spent, element.told = 0, None
    here.touch()


def set_load(chare, load):
    """What the element tells in place of what is measured."""
    cdef Element element = chare._element
    cdef double value = load
    if not element.balanced:
        raise TypeError(f"{chare.thisProxy!r} is not balanced: it has no loads")
    if not 0 <= value < float("inf"):
        raise ValueError(f"a load is a number of 0 or more, not {load!r}")
    element.told = value


def last_step(Proxy array not None):
    """What the last step of an array did, as the fields of BalanceStep; None: there was none."""
    cdef wh_balance_step step
    cdef wh_status status
    memset(&step, 0, sizeof(step))
    step.size = sizeof(step)
    status = wh_balance_last(running().pe, array.c, &step)
    if status == WH_ENOTFOUND:
        return None
    must(status, "charm.lastBalance")
    return (step.number, step.elements, step.fixed, step.moved, step.max_before, step.mean_before, step.max_after,
            step.mean_after, step.seconds)


cdef void on_resumed(wh_chare *chare, const wh_call *call) noexcept with gil:
    cdef Element element
    cdef reply nobody
    if here is None:
        return
    try:
        element = element_of(chare)
        if element is not None:
            nobody.pe = -1
            outer = here.charge(element)
            element.take(<Method>element.methods[type(element.chare)._resume], (), None, &nobody)
            here.charge(outer)
    except BaseException as error:
        here.fatal("resumeFromSync", error)
    here.end_callback()


# ---- Strategies of the program.

cdef wh_status on_strategy(const wh_balance_element *elements, size_t count, int pes, int32_t *to, void *name) noexcept with gil:
    cdef Runtime home = here
    cdef size_t i
    if home is None:
        return WH_OK
    outer = home.charge(None)
    home.thread, home.deciding = 0, home.thread  # what would send, or wait, is refused
    try:
        chosen = home.strategies[<str>name](
            <str>name, [(elements[i].load, elements[i].pe, elements[i].fixed != 0) for i in range(count)], pes)
        for i in range(count):
            to[i] = chosen[i]
    except BaseException as error:  # nothing moves, and the program ends
        home.fatal(f"the strategy {<str>name}", error)
    home.thread, home.deciding = home.deciding, 0
    home.charge(outer)
    return WH_OK


# ---- What cannot move now.

cdef const char *on_stays(wh_chare *chare, cbool saved) noexcept with gil:
    cdef Element element
    if here is None:
        return NULL
    element = element_of(chare)
    if element is None:
        return "it could not be made"
    try:
        why = element.hindrance(saved)
        if why is None:
            return NULL
        element.why = f"{element.name} {element.index}: {why}".encode()
        return element.why
    except BaseException as error:
        here.fatal(element.name, error)
        return "an exception was raised"


cdef object unpicklable(Element element, object error):
    """The error of an element that cannot be pickled: which one it is, and which attribute, if it is one."""
    what = "its state"
    try:
        state = state_of(element.chare)
    except Exception:
        state = None  # which is the error
        what = "__getstate__"
    if type(state) is dict:
        for name, value in state.items():
            try:
                encode((value,))
            except Exception as wrong:
                what, error = f"attribute {name!r}", wrong
                break
    made = TypeError(f"{element.name} {element.index}: {what} cannot be pickled: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


cdef int refuse_packing(Element element, object error) except -1:
    """Tells why an element cannot be packed: it stays where it is."""
    made = unpicklable(element, error)
    if element.migrates and not element.saving:
        element.migrates = False
        here.fatal(f"the move of {element.name}", made)
        return 0
    if not element.saving:
        element.unpicklable = True
    print(f"wherry.charm: PE {here.number}: {'no checkpoint is written' if element.saving else 'it stays where it is'}: {made}",
          file=sys_module.stderr, flush=True)
    return 0
