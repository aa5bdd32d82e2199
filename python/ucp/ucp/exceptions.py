# SPDX-License-Identifier: BSD-3-Clause
"""UCX-Py's exceptions, and which of them an error of Wherry's becomes.

The error of Wherry's, with the peer and what to look at, is the ``__cause__``.
"""
import wherry


class UCXBaseException(Exception):
    """What all of them are."""


class UCXError(UCXBaseException):
    """What has no class of its own."""


class UCXConfigError(UCXError):
    """An option of UCX is unknown, or its value is not valid."""


class UCXCloseError(UCXBaseException):
    """The endpoint or listener was closed before the call."""


class UCXCanceled(UCXBaseException):
    """The operation was under way when its endpoint was closed, on this side or the other."""


class UCXConnectionReset(UCXBaseException):
    """The peer has died or has aborted."""


class UCXMsgTruncated(UCXBaseException):
    """The message has another size than the buffer."""


class UCXNotConnected(UCXBaseException):
    """Nobody listens there."""


class UCXUnreachable(UCXBaseException):
    """There is no way to the peer, or it has not answered in time."""


class UCXWorkerUnreachable(UCXUnreachable, UCXError):
    """The worker whose address an endpoint was made from is not there; UCX-Py has a UCXError then."""


class UCXWarning(UserWarning):
    """What works otherwise than asked for."""


_BECOMES = (
    (wherry.TruncatedError, UCXMsgTruncated),
    (wherry.CancelledError, UCXCanceled),
    (wherry.PeerError, UCXConnectionReset),
    (wherry.RefusedError, UCXNotConnected),
    ((wherry.UnreachableError, wherry.AddressError, wherry.NoLaneError, wherry.TimedOutError),
     UCXUnreachable),
)


def failure(error: wherry.Error, under_way: bool = False) -> Exception:
    """The exception to raise for `error`.

    under_way: whether it has ended an operation that had begun, or refuses the call.
    A bad argument (ValueError) and a lack of memory (MemoryError) stay as they are.
    """
    if isinstance(error, (wherry.InvalidError, wherry.OutOfMemoryError)):
        return error
    if isinstance(error, wherry.ClosedError):
        return UCXCanceled(str(error)) if under_way else UCXCloseError(f"Endpoint closed: {error}")
    for ours, theirs in _BECOMES:
        if isinstance(error, ours):
            return theirs(str(error))
    return UCXError(str(error))
