# SPDX-License-Identifier: BSD-3-Clause
#
# Streams of devices: what an operation is to be behind, by `stream=` or as an array tells of itself.
#
# In the engine a stream is a handle, and NULL is none at all.  Libraries write the handle 0 for CUDA's
# legacy default stream, whose own number is 1.

cdef uintptr_t LEGACY_STREAM = 1


cdef object handle_of_stream(object stream):
    """What an object says is its handle; None: it says nothing."""
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        told = told() if callable(told) else told
        return told[1] if isinstance(told, tuple) and len(told) == 2 else stream  # (version, handle)
    for name in ("ptr", "cuda_stream", "handle"):
        told = getattr(stream, name, None)
        if told is not None:
            told = getattr(told, "value", told)  # of ctypes
            return 0 if told is None else told
    return stream


cdef void *stream_of(object stream) except? NULL:
    """The engine's stream of what was given as `stream`; None: none."""
    if stream is None:
        return NULL
    try:
        number = index(handle_of_stream(stream))
    except TypeError:
        number = -1
    if isinstance(stream, bool) or not 0 <= number <= UINT64_MAX:
        raise TypeError(f"stream is {stream!r:.60}: give a stream of cupy, torch or numba, an object with "
                        "__cuda_stream__, or its handle as an integer")
    return <void *><uintptr_t>(number or LEGACY_STREAM)
