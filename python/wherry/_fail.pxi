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
    if isinstance(error, OSError):
        number = number_in(text)
        if number is not None:
            error.errno = number
    error.op = op
    error.peer = peer
    error.size = size
    return error


# What the engine says instead of the system's sentence, for that it says what to do, too.
ERRORS_SAID = (("the port is in use", EADDRINUSE), ("not an address of this machine", EADDRNOTAVAIL),
               ("needs a privilege", EACCES))
ERRORS_NAMED = {strerror(number): number for number in errorcode}


cdef object number_in(str text):
    """The system's number for what a text ends with; None: its class says it as well as can be."""
    number = ERRORS_NAMED.get(text.rpartition(": ")[2])
    if number is not None:
        return number
    for said, number in ERRORS_SAID:
        if said in text:
            return number
    return None


cdef int must(wh_status status, str op, object text=None) except -1:
    """Raises what a call of the engine that has no request and no endpoint has failed with."""
    if status != WH_OK:
        raise failure(status, text, op)
    return 0


# listen_in comes before, and heard after a call that may fail with a bare status and log why: the
# exception says that then, and the log does not.
cdef void listen_in():
    wh_log_take_error()
    wh_log_hold_errors(True)


cdef int heard(wh_status status, str op, str where="") except -1:
    said = b"" if status == WH_OK else wh_log_take_error()
    wh_log_hold_errors(False)
    if status == WH_OK:
        return 0
    why = said.decode("utf-8", "replace") if said else wh_status_text(status).decode()
    raise failure(status, f"{op}{'' if said else where}: {why}", op)


cdef int32_t milliseconds(object seconds) except? 0:
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
    return 0x7fffffff if ms >= 0x7fffffff else <int32_t>ms if ms >= 1 else 1
