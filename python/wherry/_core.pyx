# SPDX-License-Identifier: BSD-3-Clause
# cython: language_level=3, embedsignature=True, binding=True, auto_pickle=False
#
# The extension module: everything that calls C.  A method converts its arguments, calls, checks and
# returns; one file per concept, included here in the order in which they need each other.  What can
# be said in Python is in the modules beside it.
cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_IsContiguous,
    PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_Clear, PyErr_WarnEx
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.limits cimport INT_MAX, UINT_MAX
from libc.stdint cimport (
    INT64_MAX, INT64_MIN, UINT16_MAX, UINT64_MAX, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t)
from libc.stdio cimport stderr
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset, strchr
from posix.unistd cimport getpid

from wherry._c cimport *

from array import array
from collections import deque, namedtuple
from contextvars import copy_context
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL, errorcode
from functools import partial
from math import prod
from operator import index
from os import PathLike, environ, fsdecode, fsencode, strerror
from struct import calcsize, pack as struct_pack, unpack as struct_unpack
from sys import _getframe as getframe, modules
from types import CoroutineType
from weakref import WeakSet, WeakValueDictionary

from wherry._ucx import ucx_package
from wherry.errors import CLASS_OF, BusyError, ClosedError, Error, ForkedError


cdef extern from "<sys/socket.h>":
    enum:
        AF_UNIX


cdef int check(wh_status status) except -1:
    """Raises what a call of type.h or pack.h has failed with.  Same thread as the call."""
    if status != WH_OK:
        raise CLASS_OF[<int>status](wh_type_error().decode())
    return 0


cdef object ask_running_loop = None  # asyncio's, once the program has imported it


cpdef object get_running_loop():
    """The running event loop of this thread, or None.

    asyncio takes longer to import than all of this package, and where nobody has imported it no loop runs.  So modules that
    are needed seldom are imported where they are needed, here and everywhere in the package.
    """
    global ask_running_loop
    if ask_running_loop is None:
        ask_running_loop = getattr(modules.get("asyncio"), "_get_running_loop", None)
        if ask_running_loop is None:
            return None
    return ask_running_loop()


# Workers of this process, for its end; and tasks of handlers, which a loop holds weakly.
workers = WeakSet()
tasks = set()

ALL = UINT64_MAX  # the mask that compares whole tags

Probed = namedtuple("Probed", "size tag source")
Probed.__doc__ = "A message that has come: its bytes, its tag, and the endpoint that it came from."

PeerInfo = namedtuple("PeerInfo", "uuid local remote same_host vouched uid pid host")
PeerInfo.__doc__ = """Who is at the other end of an endpoint.

The 16 bytes that name its worker; both addresses of the connection, see ``Endpoint.local_address``;
whether it runs on this host; whether the kernel vouches for user and process id, or only the peer
says them; user id, process id, host name.
"""

Incoming = namedtuple("Incoming", "size memory typestr shape tag index endpoint")
Incoming.__doc__ = """A part of an object that has come, for an allocator.

Its bytes, the kind of memory that it was sent from ("host", "cuda", "sim"), and of an array its
type, such as "<f8" (or a list of fields, as ``numpy.dtype`` takes it), and shape; else None.
And the tag of the object, the number of the part, and the Endpoint that it comes from (None: that
has been closed).
"""


cdef warn_unclosed(str text):
    # By C: when the interpreter ends, this module's names are gone before the last endpoint.
    PyErr_WarnEx(<object>PyExc_ResourceWarning, text.encode(), 2)


cdef bytes c_text(object text, str name):
    """Text for C, where a zero byte would end it: str, bytes or a path."""
    made = fsencode(text)
    if b"\0" in made:
        raise ValueError(f"{name}: it has a zero byte")
    return made


cdef bytes c_secret(object secret):
    """A path would be taken for what its file contains."""
    if secret is None:
        return None
    if not isinstance(secret, (str, bytes)):
        raise TypeError(f"secret: str or bytes is needed, not {type(secret).__name__}; of a file, what it contains")
    return c_text(secret, "secret")


cdef tuple c_data(object data, str name):
    """Connect data for C: what must live during the call, as bytes."""
    if data is None:
        return (b"", 0)
    if isinstance(data, str):
        raise TypeError(f"{name}: bytes are needed, not str: encode it")
    made = bytes(memoryview(data))
    if len(made) > WH_CONNECT_DATA_MAX:
        raise ValueError(f"{name}: {len(made)} bytes; at most {WH_CONNECT_DATA_MAX} can be given, "
                         "more belongs into a message")
    return (made, len(made))


cdef object address_of(const wh_address *address):
    """As the socket module has them: (host, port), or the name alone of a local socket."""
    if address.family == 0:
        return None
    host = address.host.decode(errors="replace")
    return host if address.family == AF_UNIX else (host, address.port)


def version():
    """The version of the engine, such as ``"0.2.0"``."""
    return wh_version().decode()


def library():
    """The file that the engine was loaded from."""
    cdef Dl_info found
    if dladdr(<void *>wh_version, &found) == 0 or found.dli_fname == NULL:
        raise OSError("the loader does not say where libwherry was loaded from")
    return fsdecode(found.dli_fname)


def same_minor(str ours, str theirs):
    """Before 1.0 a minor version may change the interface."""
    return ours.split(".")[:2] == theirs.split(".")[:2]


# A process has one libwherry: whoever was first has decided which.
if not same_minor(WH_VERSION_STRING.decode(), version()):
    raise ImportError(
        f"this package was built for libwherry {WH_VERSION_STRING.decode()}, but this process has "
        f"loaded version {version()} from {library()}: a process has one engine, so link whatever "
        "loaded that to this package's library")


def set_log_level(str level not None):
    """Shows messages of `level` and above: error, warn, info, debug, trace; off: none."""
    if wh_log_set_level(c_text(level, "level")) != WH_OK:
        raise ValueError(f"level is {level!r}: error, warn, info, debug, trace or off")


def statuses():
    """Name -> number of every status that the engine knows."""
    return {status_names[i].decode(): status_numbers[i] for i in range(STATUSES)}


include "_memory.pxi"
include "_type.pxi"
include "_make.pxi"
include "_strided.pxi"
include "_pack.pxi"
include "_runs.pxi"
include "_reduce.pxi"
include "_segments.pxi"
include "_fail.pxi"
include "_stream.pxi"
include "_buffer.pxi"
include "_view.pxi"
include "_request.pxi"
include "_context.pxi"
include "_loop.pxi"
include "_wait.pxi"
include "_worker.pxi"
include "_endpoint.pxi"
include "_listener.pxi"
include "_events.pxi"
include "_message.pxi"
include "_iterate.pxi"
include "_flush.pxi"
include "_rma.pxi"
include "_device.pxi"
include "_signature.pxi"
include "_fast.pxi"
include "_frames.pxi"
include "_time.pxi"

# Who makes what Python programs cannot: made by them, it would lack what its methods rely on.
MADE_BY = {
    Endpoint: "endpoints come from connect() or a listener",
    Frame: "frames come from recv_obj()",
    Iteration: "iterations come from objects() or a listener",
    Listener: "listeners are made by listen()",
    Message: "messages come from take()",
    RegisteredMemory: "registered memory is made by alloc() or register()",
    RemoteMemory: "remote memory comes from Endpoint.open_key()",
    Request: "requests are made by operations, such as Endpoint.send()",
    Type: "types are made by the functions of wherry.types, such as contig()",
    **{kind: "it is made by this package only" for kind in (
        AmCall, Driven, FlushAll, Hold, Layout, LoopLink, Memory, ObjectHold, Rare, Segments, Steps)},
}


cdef object refuse_new(object kind, PyObject *args, PyObject *names):
    raise TypeError(next(MADE_BY[base] for base in kind.__mro__ if base in MADE_BY))


for kind in MADE_BY:
    wherry_new_slot(kind, <void *>refuse_new)
