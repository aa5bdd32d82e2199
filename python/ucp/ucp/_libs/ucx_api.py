# SPDX-License-Identifier: BSD-3-Clause
"""What programs ask of the objects below an endpoint: a worker, a connection, an address.

They are Wherry's, under the names and with the questions that UCX-Py had: is the peer alive, has a
message come.
"""
import asyncio
import itertools
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import wherry
from ucp import _ucx_config
from ucp.exceptions import (
    UCXCloseError, UCXConnectionReset, UCXNotConnected, UCXUnreachable, UCXWorkerUnreachable,
    failure,
)

AM_TAG = 0  # of objects, which match nothing else; from endpoints with tags
AM_STRAY_TAG = 1  # the same from endpoints that were made from a worker address
EMPTY = wherry.Incoming(0, "host", None, None, AM_TAG, 0, None)
HELLO = b"ucp1"  # begins the connect data, so that both sides know whom they talk to

_handles = itertools.count(0x1000, 0x10)


def get_ucx_version() -> Tuple[int, int, int]:
    """UCX's release; (0, 0, 0): UCX is not installed, and Wherry does without."""
    return _ucx_config.version()


def get_current_options() -> Dict[str, str]:
    """The options that UCX would have if it was initialised now."""
    return _ucx_config.options({})


class UCXAddress(bytes):
    """A worker's address: bytes, so that it can be sent, pickled and put into a buffer."""

    @classmethod
    def from_buffer(cls, buffer: Any) -> "UCXAddress":
        return cls(memoryview(buffer))

    @classmethod
    def from_worker(cls, worker: "UCXWorker") -> "UCXAddress":
        return worker.get_address()

    @property
    def length(self) -> int:
        """Bytes."""
        return len(self)


class _Strays:
    """The other ends of endpoints that peers made from our address.

    Nobody has them, but what came through them is received from the worker: they stay until the peer has
    closed and nothing is left in them.
    """

    def __init__(self) -> None:
        self.all: List[wherry.Endpoint] = []

    def add(self, ep: wherry.Endpoint) -> None:
        self.all = [old for old in self.all if not self._is_empty(old)]
        self.all.append(ep)

    def _is_empty(self, ep: wherry.Endpoint) -> bool:
        if not ep.lost or ep.probe(0, 0) is not None or ep.probe_obj(0, 0) is not None:
            return False
        ep.abort()
        return True


class Allocators:
    """Who gives the memory for active messages: kind of memory -> function of the size in bytes."""

    def __init__(self) -> None:
        self.of: Dict[str, Callable[[int], Any]] = {"host": bytearray}

    def allocate(self, part: wherry.Incoming) -> Any:
        """Memory for an active message that comes."""
        allocator = self.of.get(part.memory)
        if allocator is not None:
            return allocator(part.size)
        return wherry.DeviceMemory(part.size, part.memory)  # type: ignore[arg-type]


class UCXWorker:
    """The worker of one thread; ends with the last reference to it."""

    def __init__(self, context: wherry.Context) -> None:
        self.strays = strays = _Strays()
        self.c = wherry.Worker(context, accept=strays.add, data=HELLO)
        self.handle = next(_handles)
        self._end = weakref.finalize(self, self._close, self.c, strays)

    @staticmethod
    def _close(c: wherry.Worker, strays: _Strays) -> None:
        if not c.closed and c.owned:
            for ep in strays.all:
                ep.abort()
            c.close()

    def progress(self) -> bool:
        """Moves what can move without waiting; whether anything did."""
        return self.c.progress()

    def tag_probe(self, tag: int) -> bool:
        """Whether a message of this tag, as it is on the wire, waits to be received."""
        return self.c.probe(tag) is not None

    def get_address(self) -> UCXAddress:
        return UCXAddress(self.c.address)

    def fence(self) -> None:
        self.c.fence()

    def info(self) -> str:
        """A text about the worker, for people."""
        lines = [f"Wherry worker {self.c.uuid.hex()}"]
        lines += [f"  {name}: {value}" for name, value in self.c.counters().items()]
        return "\n".join(lines)


class UCXEndpoint:
    """A connection: there, or about to be (then `connecting` is what gives it).

    on_end: called once with the reason when the connection is lost or could not be made.
    """

    def __init__(self, worker: UCXWorker, c: Optional[wherry.Endpoint] = None,
                 connecting: Optional["wherry.Request[wherry.Endpoint]"] = None) -> None:
        self.worker = worker
        self.handle = next(_handles)
        self.am_tag = AM_TAG
        self.am_allocator = Allocators().allocate
        self.on_end: Optional[Callable[[Exception], Any]] = None
        self.c = c
        self.error: Optional[Exception] = None
        self._connecting = connecting
        self._closed = False
        self._pid = os.getpid()
        if c is not None:
            self._watch(c)

    def _watch(self, c: wherry.Endpoint) -> None:
        me = weakref.ref(self)

        def lost(error: Exception) -> None:
            this = me()
            if this is not None:
                this._ended(error)
        c.on_lost(lost)

    def _ended(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
            if self.on_end is not None:
                self.on_end(error)

    def _settle(self) -> None:
        """Takes the outcome of connecting, once it is known."""
        connecting = self._connecting
        if connecting is None or not connecting.done():
            return
        self._connecting = None
        try:
            c = connecting.result()
        except (wherry.Error, asyncio.CancelledError) as error:
            self._ended(error if isinstance(error, wherry.Error)
                        else UCXCloseError("Endpoint closed"))
            return
        if self._closed:
            c.abort()
            return
        self.c = c
        self._watch(c)

    async def ready(self) -> wherry.Endpoint:
        """The connected endpoint; raises why there is none."""
        while self._connecting is not None:
            # Whoever is cancelled here must not take the connection with him.
            await asyncio.wait([self._connecting])
            self._settle()
        return self.must_have()

    def must_have(self) -> wherry.Endpoint:
        if self._closed:
            raise UCXCloseError("Endpoint closed")
        if self.c is None:
            raise self._failure()
        return self.c

    def _failure(self) -> Exception:
        if not isinstance(self.error, wherry.Error):
            return UCXCloseError("Endpoint closed")
        made = failure(self.error)
        if self.am_tag == AM_STRAY_TAG and isinstance(made, (UCXUnreachable, UCXNotConnected)):
            made = UCXWorkerUnreachable(f"Destination is unreachable: {self.error}")
        made.__cause__ = self.error
        return made

    @property
    def initialized(self) -> bool:
        """Whether it was not closed on this side."""
        return not self._closed

    @property
    def connecting(self) -> bool:
        self._settle()
        return self._connecting is not None

    @property
    def inherited(self) -> bool:
        """Whether this is a child of fork, and the connection is its parent's."""
        return self._pid != os.getpid()

    def is_alive(self) -> bool:
        """Whether the peer is there, as far as is known."""
        if self.inherited:
            return False
        self._settle()
        if self._closed or self.error is not None:
            return False
        return self.c is None or not (self.c.lost or self.c.closed)

    def raise_on_error(self) -> None:
        """Raises what has happened to the peer, if anything has."""
        if self.is_alive():
            return
        if isinstance(self.error, wherry.ClosedError):
            raise UCXConnectionReset(f"Connection reset by remote peer: {self.error}")
        raise self._failure()

    # ---- active messages, which are objects: those tell of what kind their memory is

    def am_post(self) -> "wherry.Request[Any]":
        """The receive of the next active message."""
        source = self.worker.c if self.am_tag == AM_STRAY_TAG else self.must_have()
        return source.recv_obj(self.am_tag, allocator=self.am_allocator)

    def am_probe(self) -> bool:
        """Whether an active message has come that nobody receives yet; ``am_recv`` fetches a large one."""
        self._settle()
        source = self.worker.c if self.am_tag == AM_STRAY_TAG else self.c
        return not self._closed and source is not None and source.probe_obj(self.am_tag) is not None

    # ---- the end

    def info(self) -> str:
        """A text about the connection, for people."""
        if self.c is None:
            return f"endpoint {self.handle:#x}: {'connecting' if self.connecting else self.error}"
        return (f"endpoint {self.handle:#x} with {self.c.peer} over {self.c.lanes}\n"
                + "\n".join(f"  {name}: {value}" for name, value in self.c.counters().items()))

    def take(self) -> Optional[wherry.Endpoint]:
        """Closed from here on; the caller ends the connection that it is given."""
        if self.inherited:
            self._closed = True
            return None
        self._settle()
        self._closed = True
        self.on_end = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        return self.c

    def close(self) -> None:
        """Ends it at once."""
        c = self.take()
        if c is not None:
            c.abort()
