# SPDX-License-Identifier: BSD-3-Clause
#
# What the C library calls beside elements: results that have come, readonlies, timers, maps.

cdef void on_answer(wh_pe *pe, wh_pe_msg *msg, void *arg) noexcept with gil:
    if here is None:
        return
    try:
        take_answer(msg)
    except BaseException as error:
        here.fatal("a result", error)
    here.end_callback()
    wh_pe_name_span(pe, "charm", "result")  # unless a coroutine went on with it


cdef int take_answer(wh_pe_msg *msg) except -1:
    cdef uint32_t id
    cdef uint8_t kind
    cdef reader source
    if msg.head_size != 8:
        raise bad_message("a result has no head")
    memcpy(&id, msg.head, 4)
    kind = (<const uint8_t *>msg.head)[4]
    found = here.futures.get(id)
    if found is None:
        return 0  # it was cancelled, or has had its values
    cdef Future future = <Future>found
    source.at = <const char *>msg.data
    source.end = source.at + msg.size
    try:
        values = take_values(&source)
    except Exception as error:  # of a class that cannot be made here
        return future.fail(error)
    if len(values) != 2:
        raise bad_message("a result has no value")
    if kind == ANSWER_VALUE:
        return future.take(values[0], values[1])
    return future.fail(error_from(values[1], msg.source))


cdef void on_readonlies(wh_pe *pe, wh_pe_msg *msg, void *arg) noexcept with gil:
    if here is None:
        return
    try:
        wh_pe_name_span(pe, "charm", "readonlies")
        here.take_readonlies((<const char *>msg.data)[:msg.size])
    except BaseException as error:
        here.fatal("what PE 0 has set in readonlies", error)
    here.end_callback()


cdef void on_time(wh_pe *pe, void *id) noexcept with gil:
    if here is None:
        return
    future = here.futures.get(<uintptr_t>id)
    try:
        if future is not None:
            (<Future>future).take(None, None)
    except BaseException as error:
        here.fatal("a timer", error)
    here.end_callback()


cdef int on_map(const int32_t *index, int dims, const int32_t *shape, int pes, void *map) noexcept with gil:
    cdef int i
    try:
        return (<object>map)(tuple([index[i] for i in range(dims)])) % pes
    except BaseException as error:
        if here is not None:
            here.fatal("a map", error)
        return 0
