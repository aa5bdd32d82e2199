# SPDX-License-Identifier: BSD-3-Clause
#
# What the program waits for, in dumps: coroutines, and calls that wait for their conditions.
#
# A dump is printed in a worker's progress: nothing of the program's runs here, nor the collector of garbage, whose finalizers might.

cdef enum:
    DUMP_LINES = 8  # of a kind


cdef str index_text(Proxy proxy):
    if proxy.kind == "chare" or proxy.c.dims == 0:
        return ""
    return f"[{','.join([str(proxy.c.index[i]) for i in range(proxy.c.dims)])}]"


cdef str element_text(Element element):
    if not element.collective:
        return element.name
    index = element.index if type(element.index) is tuple else (element.index,)
    return f"{element.name}[{','.join([str(at) for at in index])}]"


cdef str awaited_text(object waited):
    """What a coroutine waits for."""
    cdef BoundEntry entry
    cdef Channel channel
    if type(waited) is not Future:
        return "its turn" if waited is None else "something of asyncio's"
    what = (<Future>waited)._awaits
    if type(what) is BoundEntry:
        entry = <BoundEntry>what
        return f"the result of {entry.proxy._chare.__name__}{index_text(entry.proxy)}.{entry.entry.name}"
    if type(what) is Channel:
        channel = <Channel>what
        return f"a value on its channel to {channel.remote._chare.__name__}{index_text(channel.remote)}"
    if type(what) is list:
        left = [each for each in what if type(each) is Future and not (<Future>each).is_done]
        return f"{len(left)} of {len(what)} futures" + (f", the first: {awaited_text(left[0])}" if left else "")
    if type(what) is str:
        return what
    return f"future {(<Future>waited).id}, which nobody has sent {'a value' if (<Future>waited).needed == 1 else 'all values'}"


cdef list coroutine_lines(Runtime home):
    cdef Task task
    cdef list lines = []
    cdef str name
    for each in home.tasks:
        if len(lines) == DUMP_LINES:
            lines.append(f"  and {len(home.tasks) - DUMP_LINES} more coroutines")
            break
        task = <Task>each
        name = task.what if task.element is None else f"{element_text(task.element)}.{task.method.name}"
        lines.append(f"    {name} waits for {awaited_text(task.waits_for)}")
    return [f"  coroutines that wait: {len(home.tasks)}", *lines]


cdef list kept_lines(Runtime home):
    cdef Element element
    cdef list lines = []
    cdef dict counts
    cdef Py_ssize_t more = 0
    for each in home.keeping:
        element = <Element>each
        counts = {}
        for kept in element.kept:
            name = (<Kept>kept).method.name
            counts[name] = counts.get(name, 0) + 1
        why = "the readonlies of PE 0 have come" if element.waits else "their condition holds"
        for name, count in counts.items():
            if len(lines) < DUMP_LINES:
                lines.append(f"  {element_text(element)} keeps {count} calls of {name} until {why}")
            else:
                more += 1
    if more:
        lines.append(f"  and {more} more kinds of calls that are kept")
    return lines


cdef bint goes_on(Runtime home):
    """Whether asyncio has something to do, or a coroutine waits for it."""
    cdef Task task
    if home.ready or getattr(home.loop, "_ready", None) or getattr(home.loop, "_scheduled", None):
        return True
    for each in home.tasks:
        task = <Task>each
        if type(task.waits_for) is not Future:
            return True
    return False


cdef wh_dump_found dump_program(Runtime home, FILE *file) except *:
    lines = coroutine_lines(home) + kept_lines(home)
    text = "\n".join(lines).encode("utf-8", "replace") + b"\n"
    fputs(text, file)
    if goes_on(home):
        return WH_DUMP_GOES_ON
    return WH_DUMP_WAITS if home.tasks or home.keeping else WH_DUMP_NOTHING


cdef wh_dump_found on_dump(const wh_pe *pe, FILE *file, void *arg) noexcept with gil:
    cdef wh_dump_found found = WH_DUMP_GOES_ON
    cdef bint collects
    if here is None:
        return WH_DUMP_NOTHING
    collects = PyGC_Disable()
    try:
        found = dump_program(here, file)
    except BaseException:
        fputs("  what coroutines wait for cannot be told\n", file)
    if collects:
        PyGC_Enable()
    return found
