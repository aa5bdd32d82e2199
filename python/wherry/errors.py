# SPDX-License-Identifier: BSD-3-Clause
"""Status codes as an enum, and the exceptions they become.

One class per status, so that ``except`` can be as exact as an ``if`` in C; each has the base that
Python programs expect (``ValueError``, ``TimeoutError``, ...) where there is one.  A test compares
names and numbers with the list in wherry/status.h.  Where that is an OSError, ``errno`` is the system's
number of what has failed, or else the one of the class.
"""
from __future__ import annotations

import enum
from errno import (
    EACCES, EADDRNOTAVAIL, EAGAIN, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EIO, EPERM, EPIPE,
    EPROTONOSUPPORT, ETIMEDOUT,
)

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import ClassVar, Dict, Optional, Type


class Status(enum.IntEnum):
    """The result of a call of the engine; numbers never change."""

    OK = 0
    PENDING = 1
    EINVAL = -1
    ENOMEM = -2
    ETRUNCATED = -3
    ECANCELLED = -4
    ETIMEDOUT = -5
    ECLOSED = -6
    EPEER = -7
    EREFUSED = -8
    EUNREACHABLE = -9
    EADDRESS = -10
    EAUTH = -11
    EVERSION = -12
    ENOLANE = -13
    EPROTOCOL = -14
    EBUSY = -15
    EAGAIN = -16
    EFORKED = -17
    ETHREAD = -18
    EPERM = -19
    ELIMIT = -20
    ENOTSUP = -21
    ESYSTEM = -22
    ENOTFOUND = -23
    EREJECTED = -24
    EKEY = -25
    EBOUNDS = -26
    ETYPE = -27


class Error(Exception):
    """What every exception of the engine is; ``status`` says which.

    The text is one sentence with what failed and where.  Of an operation that failed:

    op: its name, such as ``"recv"``.
    peer: who is at the other end, such as ``"4711@node7 (10.0.0.7:40112)"``.
    size: bytes of its buffer; of a truncated message, of the message.
    hint: what to look at first, or None.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    status: ClassVar[Status]
    op: Optional[str] = None
    peer: Optional[str] = None
    size: Optional[int] = None
    hint: Optional[str] = None


class InvalidError(Error, ValueError):
    """An argument is invalid; the text names it."""

    status = Status.EINVAL


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""

    status = Status.ENOMEM


class TruncatedError(Error, ValueError):
    """The destination is too small."""

    status = Status.ETRUNCATED
    hint = "receive with a larger buffer, ask probe() for the size first, or use recv_obj()"


class CancelledError(Error):
    """The operation was cancelled, by ``abort`` or by the other side.

    A cancelled task sees ``asyncio.CancelledError``, as everywhere.
    """

    status = Status.ECANCELLED


class TimedOutError(Error, TimeoutError):
    """The operation did not finish in time."""

    status = Status.ETIMEDOUT
    errno = ETIMEDOUT
    hint = "is the peer alive and receiving?  WHERRY_SIGUSR1_DUMP shows what a worker waits for"


class ClosedError(Error, ConnectionError):
    """The endpoint, listener or worker is closed."""

    status = Status.ECLOSED
    errno = EPIPE


class PeerError(Error, ConnectionResetError):
    """The peer died or the connection to it was lost."""

    status = Status.EPEER
    errno = ECONNRESET
    hint = "look at the peer's own log: it has died, has aborted, or cannot be reached any more"


class RefusedError(Error, ConnectionRefusedError):
    """The peer refused the connection."""

    status = Status.EREFUSED
    errno = ECONNREFUSED
    hint = "is the server running, and is that its port?"


class UnreachableError(Error, ConnectionError):
    """The peer cannot be reached."""

    status = Status.EUNREACHABLE
    errno = EHOSTUNREACH
    hint = "is there a route to that host, and does a firewall let the port through?"


class AddressError(Error, OSError):
    """The address cannot be used or does not resolve."""

    status = Status.EADDRESS
    errno = EADDRNOTAVAIL
    hint = "write a host name or address and a port; does the name resolve here?"


class AuthError(Error, PermissionError):
    """The secret is missing or wrong."""

    status = Status.EAUTH
    errno = EACCES
    hint = "both sides need the same secret (WHERRY_SECRET or secret=)"


class VersionError(Error):
    """The other side, or the data, is of a version that this one does not know."""

    status = Status.EVERSION
    hint = "install the same version of wherry on both sides"


class NoLaneError(Error, ConnectionError):
    """The two sides have no lane in common."""

    status = Status.ENOLANE
    errno = EPROTONOSUPPORT
    hint = "compare the setting `lanes` (WHERRY_LANES) of both sides, and what info()['lanes'] says"


class ProtocolError(Error):
    """The bytes that came break the format."""

    status = Status.EPROTOCOL
    hint = "what listens there may be another program"


class BusyError(Error):
    """Not now: there is work to progress first."""

    status = Status.EBUSY


class AgainError(Error, BlockingIOError):
    """A queue is full, try again later."""

    status = Status.EAGAIN
    errno = EAGAIN
    hint = "let the owning thread progress, or raise the setting `submit_max`"


class ForkedError(Error, RuntimeError):
    """The object belongs to the parent of this forked process."""

    status = Status.EFORKED
    hint = "make a new worker in the child, or start processes with spawn"


class ThreadError(Error, RuntimeError):
    """Only the thread that owns the object may do this."""

    status = Status.ETHREAD
    hint = "call from the thread that made the worker, or make a worker for this thread"


class DeniedError(Error, PermissionError):
    """Permission denied."""

    status = Status.EPERM
    errno = EPERM
    hint = "processes of other users need the listener's any_user=True"


class LimitError(Error):
    """A limit of this process, this system or the format is reached."""

    status = Status.ELIMIT
    hint = "see ulimit -n, and the setting that the text names"


class NotSupportedError(Error, NotImplementedError):
    """Not supported here."""

    status = Status.ENOTSUP


class SystemCallError(Error, OSError):
    """A system call failed."""

    status = Status.ESYSTEM
    errno = EIO


class NotFoundError(Error, LookupError):
    """There is no such thing."""

    status = Status.ENOTFOUND


class RejectedError(Error):
    """The receiver rejected the message."""

    status = Status.EREJECTED


class RemoteKeyError(Error, LookupError):
    """The key is none, or its memory is no longer registered."""

    status = Status.EKEY


class BoundsError(Error, IndexError):
    """Outside of the registered memory."""

    status = Status.EBOUNDS


class ElementsError(Error, TypeError):
    """The message and the receive buffer hold elements of different types."""

    status = Status.ETYPE


# status number -> class
CLASS_OF: Dict[int, Type[Error]] = {int(made.status): made for made in Error.__subclasses__()}
__all__ = [
    "AddressError", "AgainError", "AuthError", "BoundsError", "BusyError", "CancelledError",
    "ClosedError", "DeniedError", "ElementsError", "ForkedError", "InvalidError", "LimitError",
    "NoLaneError", "NotFoundError", "NotSupportedError", "OutOfMemoryError", "PeerError", "ProtocolError",
    "RefusedError", "RejectedError", "RemoteKeyError", "SystemCallError", "ThreadError",
    "TimedOutError", "TruncatedError", "UnreachableError", "VersionError",
]
