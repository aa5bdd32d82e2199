# SPDX-License-Identifier: BSD-3-Clause
"""The comm of distributed over an endpoint: one message is one object.

The frames of a message go as they are, as memoryviews, and come in memory of their own or, the small ones, together.  All
comms between two processes share one link.
"""
import asyncio
import contextlib
import logging
import os
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Tuple

import wherry
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import Comm, CommClosedError, Connector, FatalCommClosedError
from distributed.comm.registry import Backend
from distributed.comm.utils import ensure_concrete_host, from_frames, to_frames
from distributed.utils import ensure_ip, ensure_memoryview, get_ip, get_ipv6

try:
    from distributed.comm.core import BaseListener
except ImportError:  # before 2023.6.1
    from distributed.comm.core import Listener as BaseListener

from wherry.dask import _offload, _traffic
from wherry.dask._config import secret, unsent_limit, worker
from wherry.dask._secret import ARGUMENT

logger = logging.getLogger(__name__)

# A frame is cut nowhere: each has memory of its own, in which it is used.
_WHOLE = 2**62


def _text(address: Any) -> str:
    return unparse_host_port(*address[:2]) if isinstance(address, tuple) else str(address or "")


class WherryComm(Comm):
    """A comm over a connected endpoint, which belongs to it."""

    def __init__(self, ep: "wherry.Endpoint", prefix: str, local: str, peer: str,
                 deserialize: bool = True, line: Optional[_traffic.Line] = None) -> None:
        super().__init__(deserialize=deserialize)
        self._ep: Optional[wherry.Endpoint] = ep
        self._line = line  # of one that was connected here
        self._pid = os.getpid()
        # Of distributed.comm.core.connect, too, which knows them by these names.
        self._local_addr = prefix + local
        self._peer_addr = prefix + peer
        self._same_host = bool(ep.peer_info and ep.peer_info.same_host)
        # What has been written and is not with the peer yet, with the bytes: the engine works on it without us.
        self._unsent: Deque[Tuple[Any, int]] = deque()
        self._unsent_bytes = 0

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    @property
    def same_host(self) -> bool:
        return self._same_host

    @property
    def extra_info(self) -> Dict[str, Any]:
        ep = self._ep
        return {"lane": ep.lanes if ep and not ep.closed else None}

    def _open(self) -> "wherry.Endpoint":
        if self._ep is None:
            raise CommClosedError(f"in {self}: closed on this side")
        return self._ep

    def _failed(self, error: Exception) -> CommClosedError:
        if self._line:
            self._line.told(error)
        self.abort()
        return CommClosedError(f"in {self}: {error}")

    async def read(self, deserializers: Any = None) -> Any:
        try:
            parts = await self._open().recv_obj()
        except wherry.Error as error:
            raise self._failed(error) from error
        except asyncio.CancelledError:
            # As over TCP: who gives up waiting closes the comm next, which must not wait for the peer either.
            self.abort()
            raise
        try:
            return await from_frames(
                parts, deserialize=self.deserialize, deserializers=deserializers,
                allow_offload=self.allow_offload and not _offload.reads_at_once(parts),
            )
        except EOFError as error:
            raise self._failed(error) from error

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        self._open()
        context = {"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options}
        at_once = _offload.writes_at_once(msg, context, serializers)
        frames: List[Any] = await to_frames(
            msg, allow_offload=self.allow_offload and not at_once, serializers=serializers,
            on_error=on_error, context=context, frame_split_size=_WHOLE,
        )
        views = [ensure_memoryview(frame) for frame in frames]
        size = sum(view.nbytes for view in views)
        try:
            await self._make_room()
            sent = self._open().send_obj(views)
            # Not awaited: a large one ends when the peer reads it, and who writes may be who reads.
            if not sent.done():
                self._unsent.append((sent, size))
                self._unsent_bytes += size
            else:
                sent.result()
        except wherry.Error as error:
            raise self._failed(error) from error
        except asyncio.CancelledError:
            self.abort()
            raise
        return size

    async def _make_room(self) -> None:
        """Waits until no more is on its way than the limit allows, whatever the next message's size."""
        while self._unsent:
            sent, size = self._unsent[0]
            if not sent.done():
                if self._unsent_bytes <= unsent_limit():
                    return
                await asyncio.wait([sent])
                continue
            self._unsent.popleft()
            self._unsent_bytes -= size
            sent.result()

    def _take(self, closed: bool) -> "Optional[wherry.Endpoint]":
        """The endpoint that is to be closed or aborted; None where that was done before."""
        ep, self._ep = self._ep, None
        if ep is None or ep.closed:
            return None
        if self._line:
            self._line.ending(closed)
        return ep

    async def close(self) -> None:
        ep = self._take(closed=True)
        if ep is not None:
            try:
                await ep.close()
            except wherry.Error as error:
                if self._line:
                    self._line.told(error)
                logger.debug("close of %s: %s", self, error)

    def abort(self) -> None:
        ep = self._take(closed=False)
        if ep is not None:
            with contextlib.suppress(wherry.ForkedError):  # it is the parent's, and stays with it
                ep.abort()

    def closed(self) -> bool:
        ep = self._ep
        return ep is None or ep.closed or ep.lost or self._pid != os.getpid()


def _refuse_encryption(what: str, args: Dict[str, Any]) -> None:
    if args.get("require_encryption"):
        raise RuntimeError(
            f"encryption is required by Dask's configuration, and {what} is not encrypted: Wherry has "
            "no TLS yet. Use tls://, or set distributed.comm.require-encryption to false and keep the "
            "network to yourself"
        )


class WherryConnector(Connector):
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def connect(self, address: str, deserialize: bool = True, **args: Any) -> WherryComm:
        _refuse_encryption(self.prefix + address, args)
        host, port = parse_host_port(address)
        try:
            mine, known = worker(), args.get(ARGUMENT) or secret()
        except (wherry.Error, ValueError) as error:
            # A mistake in the settings stays one, however often distributed would try.
            raise FatalCommClosedError(f"{self.prefix}{address}: {error}") from error
        try:
            ep = await mine.connect(host, port, secret=known)
            line = _traffic.opened(ep, self.prefix + address)
        except (wherry.errors.AuthError, wherry.errors.VersionError) as error:
            raise FatalCommClosedError(f"{self.prefix}{address}: {error}") from error
        except wherry.Error as error:
            raise CommClosedError(f"{self.prefix}{address}: {error}") from error
        return WherryComm(ep, self.prefix, _text(ep.local_address), address, deserialize, line)


class WherryListener(BaseListener):
    def __init__(self, prefix: str, address: str, comm_handler: Any, deserialize: bool = True,
                 allow_offload: bool = True, default_host: Optional[str] = None,
                 default_port: int = 0, **args: Any) -> None:
        super().__init__()
        self.prefix = prefix
        _refuse_encryption(prefix + address, args)
        self.secret: Optional[str] = args.get(ARGUMENT)
        self.ip, self.port = parse_host_port(address, default_port)
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self.default_host = default_host
        self._listener: Optional[wherry.Listener] = None

    async def start(self) -> None:
        from wherry.dask._measure import attach  # which imports what imports this module
        attach(getattr(self.comm_handler, "__self__", None))
        try:
            self._listener = await worker().listen(self._accepted, self.ip or None, int(self.port),
                                                   secret=self.secret or secret())
        except wherry.Error as error:
            if isinstance(error, OSError):
                raise
            raise OSError(str(error)) from error

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    async def _accepted(self, ep: "wherry.Endpoint") -> None:
        if self._listener is None:
            ep.abort()
            return
        local = ep.local_address
        if isinstance(local, tuple):  # that of the link, which may be older than this listener
            local = (local[0], self.get_host_port()[1])
        comm = WherryComm(ep, self.prefix, _text(local), _text(ep.remote_address), self.deserialize)
        comm.allow_offload = self.allow_offload
        try:
            await self.on_connection(comm)
        except CommClosedError:
            logger.info("connection from %s closed before the handshake was complete",
                        comm.peer_address)
            return
        await self.comm_handler(comm)

    def get_host_port(self) -> Tuple[str, int]:
        """Where it listens."""
        if self._listener is None:
            raise ValueError("the listener has not been started")
        addresses = self._listener.addresses
        return next((found for found in addresses if ":" not in found[0]), addresses[0])

    @property
    def listen_address(self) -> str:
        return self.prefix + unparse_host_port(*self.get_host_port())

    @property
    def contact_address(self) -> str:
        host, port = self.get_host_port()
        return self.prefix + unparse_host_port(
            ensure_concrete_host(host, default_host=self.default_host), port)


class WherryBackend(Backend):
    """What distributed asks for a scheme; it serves ``wherry://`` and, taken over, ``ucx://``."""

    def __init__(self, scheme: str = "wherry") -> None:
        self.prefix = scheme + "://"

    def get_connector(self) -> WherryConnector:
        return WherryConnector(self.prefix)

    def get_listener(self, loc: str, handle_comm: Any, deserialize: bool,
                     **args: Any) -> WherryListener:
        return WherryListener(self.prefix, loc, handle_comm, deserialize, **args)

    def get_address_host(self, loc: str) -> str:
        return str(parse_host_port(loc)[0])

    def get_address_host_port(self, loc: str) -> Tuple[str, int]:
        return parse_host_port(loc)

    def resolve_address(self, loc: str) -> str:
        host, port = parse_host_port(loc)
        return str(unparse_host_port(ensure_ip(host), port))

    def get_local_address_for(self, loc: str) -> str:
        host = ensure_ip(parse_host_port(loc)[0])
        return str(unparse_host_port(get_ipv6(host) if ":" in host else get_ip(host), None))
