# SPDX-License-Identifier: BSD-3-Clause
#
# From a status to the exception that says what failed, on which peer, and what to look at.

cdef object failure(wh_status status, str text, str op=None, str peer=None, object size=None):
    """The exception for a status.  Without a text of the engine's: what the status means."""
    if not text:
        text = wh_status_text(status).decode()
        if op is not None:
            text = f"{op}: {text}"
    error = CLASS_OF[<int>status](text)
    error.op = op
    error.peer = peer
    error.size = size
    return error


cdef int must(wh_status status, str op, object text=None) except -1:
    """Raises what a call of the engine that has no request and no endpoint has failed with."""
    if status != WH_OK:
        raise failure(status, text, op)
    return 0


cdef object explained(wh_status status, str op, str where=""):
    """The exception for a call that has failed with a bare status, and has logged why.

    Before the call, ``wh_log_take_error`` has to forget what was logged earlier.
    """
    said = wh_log_take_error().decode("utf-8", "replace")
    if said:
        return failure(status, f"{op}: {said}", op)
    return failure(status, f"{op}{where}: {wh_status_text(status).decode()}", op)


cdef uint32_t milliseconds(object seconds) except? 0:
    """A time of Python's, in the engine's unit.  None: 0, which is the engine's default."""
    if seconds is None:
        return 0
    cdef double ms
    try:
        ms = seconds * 1000.0
    except TypeError:
        raise TypeError(f"timeout is {seconds!r:.60}: a number of seconds is needed") from None
    except OverflowError:
        raise ValueError("timeout: more seconds than a float can count") from None
    if not ms >= 0:
        raise ValueError(f"timeout is {seconds!r}: give seconds, 0 or more")
    # A timeout of 0 is one that is over at once, not none.
    return 0xffffffff if ms >= 0xffffffff else <uint32_t>ms if ms >= 1 else 1
