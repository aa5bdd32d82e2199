# SPDX-License-Identifier: BSD-3-Clause
# cython: language_level=3, embedsignature=True, binding=True, auto_pickle=False
#
# The native half of wherry.charm: the PE of this process, and what goes to and from chares.  What can be said in Python is
# in the modules beside it.  docs/design/charm-python.md says why it is as it is.
cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_Clear
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINTR, errno
from libc.stdio cimport FILE, fputs
from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from wherry.charm._rt cimport *

import sys as sys_module
from collections import deque
from contextvars import copy_context
from os import environ
from struct import error as StructError, pack as struct_pack, unpack as struct_unpack
from sys import modules

import wherry  # the engine, with its check of versions
from wherry.charm._device import duplicate, fill, make, to_device, to_host
from wherry.charm._names import class_name, find_class
from wherry.charm._reducer import reducer_of
from wherry.errors import CLASS_OF, ClosedError


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    # Without an exception's propagation: what they raise is looked at where they are called.
    const char *utf8_of "PyUnicode_AsUTF8AndSize"(object text, Py_ssize_t *size)
    int get_buffer "PyObject_GetBuffer"(object obj, Py_buffer *view, int flags)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    unsigned long PyThread_get_thread_ident()
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1
    int PyGC_Disable()
    int PyGC_Enable()

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030d0000
    #define Py_IsFinalizing _Py_IsFinalizing
    #endif
    """
    bint Py_IsFinalizing()

cdef extern from *:
    """
    enum { SEND_ERROR = -1, SEND_RETURN, SEND_NEXT };  /* PySendResult */
    typedef int (*send_fn)(PyObject *, PyObject *, PyObject **);

    static void set_am_send(PyObject *type, send_fn fn) {
    #if PY_VERSION_HEX >= 0x030a0000
        if (((PyTypeObject *)type)->tp_as_async)
            ((PyTypeObject *)type)->tp_as_async->am_send = (sendfunc)fn;
    #else
        (void)type, (void)fn;
    #endif
    }
    """
    enum:
        SEND_ERROR, SEND_RETURN, SEND_NEXT
    ctypedef int (*send_fn)(PyObject *self, PyObject *arg, PyObject **result) noexcept
    void set_am_send(object type, send_fn fn)
    void set_error "PyErr_SetObject"(object type, object value)

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void **memory, size_t alignment, size_t size)

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    enum:
        POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout_ms)

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum:
        CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *now)


# Arrays come and go with each message and each step of a computation.  The C library gives the memory of one of more than 128 KiB
# back to the system when it is freed, and each page of the next one is a page fault: twenty times what a message costs.  Once a
# program has freed an array of 32 MiB, glibc keeps as much as this by itself.
cdef extern from *:
    """
    #include <malloc.h>
    static void keep_freed_memory(void) {
    #ifdef __GLIBC__
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
    #endif
    }
    """
    void keep_freed_memory()


cdef inline uint64_t clock_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <uint64_t>now.tv_sec * 1000000000 + <uint64_t>now.tv_nsec


cdef int must(wh_status status, str op) except -1:
    """Raises what a call has failed with."""
    if status != WH_OK:
        raise CLASS_OF[<int>status](f"{op}: {wh_status_text(status).decode()}")
    return 0


cdef int heard(wh_status status, str op) except -1:
    """The same for what says why in the log, which the exception says then (wh_log_hold_errors is on)."""
    said = b"" if status == WH_OK else wh_log_take_error()
    wh_log_hold_errors(False)
    if status != WH_OK:
        raise CLASS_OF[<int>status](said.decode("utf-8", "replace") or f"{op}: {wh_status_text(status).decode()}")
    return 0


cdef Runtime here = None  # the PE of this process, from charm.start on to the end


cdef object pickle_module = None


cdef object pickle():
    """The module, which many programs do without: nothing is imported before it is needed that takes long."""
    global pickle_module
    if pickle_module is None:
        import pickle as found
        pickle_module = found
    return pickle_module


cdef str error_text(object error):
    """An exception with its traceback."""
    from traceback import format_exception
    return "".join(format_exception(type(error), error, error.__traceback__))


cdef object cancelled(object message):
    """The exception of what was cancelled."""
    from asyncio import CancelledError
    return CancelledError() if message is None else CancelledError(message)


cdef object no_value_yet():
    from asyncio import InvalidStateError
    return InvalidStateError("the future has no value yet: await it")


cdef Runtime running():
    if here is None:
        raise RuntimeError("no program is running here: charm.start(main) starts it")
    here.must_be_ours()
    return here


include "_bytes.pxi"
include "_values.pxi"
include "_buffers.pxi"
include "_future.pxi"
include "_task.pxi"
include "_element.pxi"
include "_proxy.pxi"
include "_reduce.pxi"
include "_channel.pxi"
include "_ends.pxi"
include "_balance.pxi"
include "_checkpoint.pxi"
include "_callbacks.pxi"
include "_dump.pxi"
include "_pe.pxi"
