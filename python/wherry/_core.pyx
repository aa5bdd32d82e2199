# SPDX-License-Identifier: BSD-3-Clause
# cython: language_level=3, embedsignature=True, binding=True, auto_pickle=False
#
# The extension module: everything that calls C.  A method converts its arguments, calls, checks and
# returns; one file per concept, included here in the order in which they need each other.  What can
# be said in Python is in the modules beside it.
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_IsContiguous, PyBuffer_Release,
    PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

from wherry._c cimport *

from array import array
from operator import index

from wherry.errors import CLASS_OF


cdef int check(wh_status status) except -1:
    """Raises what a call of type.h or pack.h has failed with.  Same thread as the call."""
    if status != WH_OK:
        raise CLASS_OF[<int>status](wh_type_error().decode())
    return 0


def version():
    """The version of the engine, such as ``"0.1.0"``."""
    return wh_version().decode()


def statuses():
    """Name -> number of every status that the engine knows."""
    return {status_names[i].decode(): status_numbers[i] for i in range(STATUSES)}


include "_memory.pxi"
include "_type.pxi"
include "_make.pxi"
include "_pack.pxi"
include "_runs.pxi"
include "_reduce.pxi"
include "_segments.pxi"
