# SPDX-License-Identifier: BSD-3-Clause
#
# ``async for`` over what comes: each step is a receive or an accept of its own, so nothing is taken
# ahead of the loop's body, and leaving the loop loses nothing.


cdef class Iteration:
    """What comes, one after the other, until the other side or this one has closed: for ``async for``."""

    cdef object start  # begins the operation of the next step

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.start()
        except ClosedError:
            pass
        raise StopAsyncIteration


cdef Iteration iterate(object start):
    cdef Iteration made = Iteration.__new__(Iteration)
    made.start = start
    return made


cdef Iteration iterate_objects(object recv_obj, object tag, object mask, object timeout):
    # What is wrong is said here, and not by the first step.
    bits_of(tag, "tag")
    bits_of(mask, "mask")
    milliseconds(timeout)
    return iterate(partial(recv_obj, tag, mask, timeout=timeout))
