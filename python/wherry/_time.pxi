# SPDX-License-Identifier: BSD-3-Clause
#
# What the engine's call costs without Python, for wherry.perf: only here can it be timed on the very
# endpoint that Python sends on.

from time import perf_counter_ns

cdef list still_read = []  # by the engine, should a send not have been done at once


def time_sends(Endpoint ep not None, bytes data not None, tag, count):
    """Nanoseconds that `count` calls of ``wh_tag_send`` of `data` take.

    All must be done at once, as small ones are while there is credit: RuntimeError otherwise.
    """
    cdef wh_endpoint *c = ep.open()
    cdef uint64_t number = bits_of(tag, "tag")
    cdef int64_t times = size_of(count, "count")
    cdef const char *bytes_of = data
    cdef size_t size = len(data)
    cdef wh_status status = WH_OK
    cdef int64_t i
    start = perf_counter_ns()
    with nogil:
        for i in range(times):
            status = wh_tag_send(c, bytes_of, size, number, NULL, NULL)
            if status != WH_OK:
                break
    taken = perf_counter_ns() - start
    ep.worker.touch()
    if status != WH_OK:
        still_read.append(data)
        raise RuntimeError(f"send {i} of {count} was not done at once: {<int>status}")
    return taken
