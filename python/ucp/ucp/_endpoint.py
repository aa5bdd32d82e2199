# SPDX-License-Identifier: BSD-3-Clause
"""UCX-Py's endpoint: a conversation with one peer, in tags that both have agreed upon.

Each side sends with a tag of 64 bits that only the other one knows.  Both follow from a seed that the
connecting side gives with its connect data.  A user's tag is hashed together with it; with
``force_tag`` it goes as it is, and then it matches whatever the worker receives with that tag, from
any peer, as UCX does.

A receive that is cancelled takes no message with it.  ``send_obj`` is two messages, the size and the
object, and never one without the other: what cannot be sent is refused before the size is, and a
``send_obj`` that is cancelled goes on behind its caller.  A ``recv_obj`` that is cancelled between them
keeps the size for the next.
"""
import asyncio
import ctypes
import logging
import struct
import weakref
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Set

import wherry
from ucp._libs.arr import checked, sent_of, size_of
from ucp._libs.ucx_api import EMPTY, UCXEndpoint
from ucp.exceptions import (
    UCXBaseException, UCXCanceled, UCXCloseError, UCXError, UCXMsgTruncated, failure,
)
from ucp.utils import hash64bits, tag_number

if TYPE_CHECKING:
    from ucp._talk import Message, Pending
    from ucp.core import ApplicationContext

logger = logging.getLogger("ucx")
# Of the loop, after a close: then a peer in this process has heard of it, and received what came before.
_TURNS = 4
_TAGS = ("msg_send", "ctrl_send", "msg_recv", "ctrl_recv")


def tags_of(seed: bytes, connects: bool) -> Dict[str, int]:
    """The tags of one side: "msg_send", "msg_recv" and the same with "ctrl"."""
    numbers = [hash64bits(seed, number) for number in range(4)]
    return dict(zip(_TAGS, numbers if connects else numbers[2:] + numbers[:2]))


def size_differs(got: int, expected: int) -> UCXMsgTruncated:
    return UCXMsgTruncated(f"length mismatch: {got} (got) != {expected} (expected)")


class _Objects:
    """What ``recv_obj`` of one tag knows: whose turn it is, and a size that has no object yet."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.users = 0
        self.size: Optional[int] = None


class WorkerReceives:
    """Receives from any peer of a worker, for an endpoint: they are withdrawn when it is closed."""

    def __init__(self) -> None:
        self._under_way: Set["wherry.Request[Any]"] = set()
        self._withdrawn: Set["wherry.Request[Any]"] = set()

    async def outcome(self, op: "wherry.Request[Any]") -> Any:
        """What the receive gives.  Raises UCXCanceled when it was withdrawn."""
        self._under_way.add(op)
        try:
            return await op
        except asyncio.CancelledError:
            if op in self._withdrawn:
                raise UCXCanceled("the endpoint was closed") from None
            raise
        finally:
            self._under_way.discard(op)
            self._withdrawn.discard(op)

    def withdraw(self) -> None:
        for op in list(self._under_way):
            if not op.done() and op.cancel():
                self._withdrawn.add(op)


async def finished(op: Awaitable[Any]) -> Any:
    """What an operation gives; its error as UCX-Py's."""
    try:
        return await op
    except wherry.Error as error:
        raise failure(error, under_way=True) from error


async def finished_behind(ops: "List[wherry.Request[None]]") -> None:
    """Waits for sends, in order; whoever is cancelled here leaves them under way."""
    pending = {op for op in ops if not op.done()}
    for op in pending:
        op.add_done_callback(lambda op: op.cancelled() or op.exception())  # nobody else may look
    if pending:
        await asyncio.wait(pending)
    for op in ops:
        await finished(op)


async def receive(posted: Awaitable[int], expected: int) -> None:
    """Ends a receive of a message that has to have `expected` bytes."""
    try:
        got = await posted
    except wherry.TruncatedError as error:
        raise size_differs(error.size or 0, expected) from error
    except wherry.Error as error:
        raise failure(error, under_way=True) from error
    if got != expected:
        raise size_differs(got, expected)


class Endpoint:
    """A connection to a peer, from ``create_endpoint``, ``create_listener`` and the like.

    It is closed in order when nobody refers to it any more: what was sent arrives.
    """

    def __init__(self, endpoint: UCXEndpoint, ctx: "ApplicationContext",
                 tags: Optional[Dict[str, int]] = None) -> None:
        self._ep: Optional[UCXEndpoint] = endpoint
        self._ctx: Optional["ApplicationContext"] = ctx
        self._tags = tags
        self._uid = endpoint.handle
        self._send_count = 0           # calls of send
        self._recv_count = 0           # calls of recv, and of am_recv
        self._finished_recv_count = 0  # of those, that have received
        self._close_after_n_recv: Optional[int] = None
        self._shutting_down_peer = False
        self._close_callback: Optional[Callable[[], Any]] = None
        self._anybodys = WorkerReceives()
        self._objects: Dict[Any, _Objects] = {}
        # Not the context's method: a receive that has ended may live longer than the context.
        endpoint.am_allocator = ctx.allocators.allocate
        me = weakref.ref(self)
        endpoint.on_end = lambda error: Endpoint._lost(me(), error)
        ctx.endpoints.add(self)

    @staticmethod
    def _lost(this: Optional["Endpoint"], error: Exception) -> None:
        if this is None:
            return
        logger.debug("endpoint %#x has lost its peer: %s", this._uid, error)
        this._anybodys.withdraw()
        this._call_back()

    def _call_back(self) -> None:
        called, self._close_callback = self._close_callback, None
        if called is None:
            return
        try:
            called()
        except Exception:
            logger.exception("the close callback of endpoint %#x has failed", self._uid)

    # ---- what it is

    @property
    def uid(self) -> int:
        """A number that no other endpoint of this process has."""
        return self._uid

    def get_ucp_endpoint(self) -> int:
        """The same number: there is no ``ucp_ep_h`` that somebody could use."""
        return self._open().handle

    def get_ucp_worker(self) -> int:
        """The number of its worker."""
        return self._open().worker.handle

    def ucx_info(self) -> str:
        """A text about the connection, for people."""
        return self._open().info()

    def cuda_support(self) -> bool:
        """Whether memory of CUDA devices can be sent."""
        return cuda_is_there()

    def closed(self) -> bool:
        """Whether it was closed on either side.  What had come before can still be received."""
        return self._ep is None or not self._ep.is_alive()

    def closed_by_peer(self) -> bool:
        """Whether the peer has closed it in order."""
        return self._ep is not None and isinstance(self._ep.error, wherry.ClosedError)

    def _open(self) -> UCXEndpoint:
        if self._ep is None:
            raise UCXCloseError("Endpoint closed")
        return self._ep

    # ---- messages

    def _tag(self, direction: str, tag: Any, force_tag: bool) -> int:
        """The tag on the wire."""
        if force_tag:
            if not isinstance(tag, int):
                raise ValueError(f"force_tag: the tag is {tag!r} and has to be a number of 64 bits")
            return tag
        if self._tags is None:
            raise UCXError("an endpoint that was made from a worker address has agreed on no tags "
                           "with its peer: use force_tag=True")
        base = self._tags[direction]
        return base if tag is None else hash64bits(base, tag_number(tag))

    async def send(self, buffer: Any, tag: Any = None, force_tag: bool = False) -> bool:
        """Sends a buffer, or an array with a ``__cuda_array_interface__``.

        tag: anything hashable; the receiver must give the same.
        force_tag: `tag` is the number on the wire, which ``ucp.recv`` can name, too.

        Gives True when the buffer may be used again.  Raises UCXCloseError, UCXConnectionReset, ...
        """
        number = self._tag("msg_send", tag, force_tag)
        for op in await self._post([sent_of(buffer)], number):
            await finished(op)
        return True

    async def _post(self, buffers: List[Any], tag: int) -> "List[wherry.Request[None]]":
        """The sends of all of them, one behind the other, with no other message in between."""
        c = await self._open().ready()
        self._send_count += len(buffers)
        try:
            return [c.send(buffer, tag) for buffer in buffers]
        except wherry.Error as error:
            raise failure(error) from error

    async def recv(self, buffer: Any, tag: Any = None, force_tag: bool = False) -> bool:
        """Receives the next message of `tag` into a buffer, which it has to fill.

        tag, force_tag: as the sender's.  There is no tag that matches all.

        Gives True.  Raises UCXMsgTruncated when the message has another size, and UCXCanceled when the
        endpoint is closed meanwhile.
        """
        number = self._tag("msg_recv", tag, force_tag)
        # Whatever is wrong with the buffer is found before a message can be taken for it.
        room, size = sent_of(buffer), size_of(buffer)
        self._recv_count += 1
        if force_tag:
            await self._recv_anybodys(room, size, number)
        else:
            c = await self._open().ready()
            try:
                op = c.recv(room, number)
            except wherry.TruncatedError as error:
                raise size_differs(error.size or 0, size) from error
            except wherry.Error as error:
                raise failure(error) from error
            await receive(op, size)
        self._count_received()
        return True

    async def _recv_anybodys(self, room: Any, size: int, tag: int) -> None:
        """Receives by the worker, as long as the endpoint is open."""
        ep = self._open()
        worker = ep.worker.c
        if not ep.is_alive() and worker.probe(tag) is None:
            ep.raise_on_error()
        try:
            op = worker.recv(room, tag)
        except wherry.TruncatedError as error:
            raise size_differs(error.size or 0, size) from error
        await receive(self._anybodys.outcome(op), size)

    def _count_received(self) -> None:
        self._finished_recv_count += 1
        limit = self._close_after_n_recv
        if limit is not None and self._finished_recv_count >= limit:
            self.abort()

    async def send_obj(self, obj: Any, tag: Any = None) -> None:
        """Sends a buffer or an array whose size the receiver, who calls ``recv_obj``, need not know.

        Once begun it is sent, exactly once and in order, even if this call is cancelled: then the
        memory is read until the peer has received it or the endpoint is closed, and must not change.

        Raises TypeError or ValueError for what cannot be sent; then nothing is.
        """
        size = struct.pack("=Q", size_of(obj))
        both = [size, checked(obj)]
        await finished_behind(await self._post(both, self._tag("msg_send", tag, False)))

    async def recv_obj(self, tag: Any = None, allocator: Callable[[int], Any] = bytearray) -> Any:
        """Receives what ``send_obj`` has sent.

        allocator: called with the size in bytes; gives what is received into and returned.
        """
        known = self._objects.setdefault(tag, _Objects())
        known.users += 1
        try:
            async with known.turn:
                return await self._recv_obj(known, tag, allocator)
        finally:
            known.users -= 1
            if known.users == 0 and known.size is None:
                del self._objects[tag]

    async def _recv_obj(self, known: _Objects, tag: Any, allocator: Callable[[int], Any]) -> Any:
        if known.size is None:
            word = bytearray(8)
            await self.recv(word, tag=tag)
            known.size = struct.unpack("=Q", word)[0]
        made = allocator(known.size)
        try:
            await self.recv(made, tag=tag)
        except asyncio.CancelledError:
            raise  # the object is still to come, and its size is known
        except BaseException:
            known.size = None
            raise
        known.size = None
        return made

    def recv_future(self) -> "Pending":
        """Receives what ``send_obj`` has sent: await it, or ask for its ``result()``; see _talk."""
        from ucp._talk import Message, Pending

        async def received() -> "Message":
            return Message(await self.recv_obj())
        return Pending(received())

    async def am_send(self, buffer: Any) -> None:
        """Sends a buffer or an array, for the peer's ``am_recv``."""
        ep = self._open()
        c = await ep.ready()
        try:
            op = c.send_obj(sent_of(buffer), ep.am_tag)
        except wherry.Error as error:
            raise failure(error) from error
        await finished(op)

    async def am_recv(self) -> Any:
        """The next message of ``am_send``, in memory of the allocator for the kind it was sent from."""
        ep = self._open()
        if self._tags is not None:
            await ep.ready()
        self._recv_count += 1
        try:
            op = ep.am_post()
        except wherry.Error as error:
            raise failure(error) from error
        made = await finished(op if self._tags is not None else self._anybodys.outcome(op))
        self._count_received()
        if size_of(made) or hasattr(made, "__cuda_array_interface__"):
            return made
        # An object of no bytes needs no memory, so nobody was asked for any.
        return ep.am_allocator(EMPTY)

    async def flush(self) -> None:
        """Gives None once the peer's side has all small messages that were sent before."""
        c = await self._open().ready()
        try:
            await c.flush()
        except wherry.Error as error:
            raise failure(error) from error

    # ---- the end

    def set_close_callback(self, callback_func: Callable[[], Any]) -> None:
        """Calls ``callback_func()`` once when either side has closed, at once if that was before.

        What had come before can still be received then.
        """
        self._close_callback = callback_func
        if self.closed():
            self._call_back()

    def close_after_n_recv(self, n: int, count_from_ep_creation: bool = False) -> None:
        """Closes the endpoint when `n` messages have been received, by ``recv`` or ``am_recv``.

        An object of ``recv_obj`` is two.
        count_from_ep_creation: whether those count that were received before.
        Raises UCXError when it was called before, or more than `n` were received already.
        """
        if not count_from_ep_creation:
            n += self._finished_recv_count
        if self._close_after_n_recv is not None:
            raise UCXError("close_after_n_recv has already been set to: "
                           f"{self._close_after_n_recv} (abs)")
        if n < self._finished_recv_count:
            raise UCXError(f"`n` cannot be less than current recv_count: {n} (abs) < "
                           f"{self._finished_recv_count} (abs)")
        if n == self._finished_recv_count:
            self.abort()
        else:
            self._close_after_n_recv = n

    def _take(self) -> Optional[wherry.Endpoint]:
        """Closed from here on; the caller ends the connection."""
        ep, self._ep, self._ctx = self._ep, None, None
        if ep is None:
            return None
        c = ep.take()
        if ep.inherited:  # with all that is under way
            return None
        self._anybodys.withdraw()
        self._call_back()
        return c

    def abort(self) -> None:
        """Closes at once: what is under way ends with UCXCanceled, the peer sees a reset."""
        c = self._take()
        if c is not None:
            c.abort()

    async def close(self) -> None:
        """Closes in order: what was sent arrives, then the peer's endpoint is closed, too.

        A large message that the peer does not receive is waited for 5 s (the setting `close_timeout`).
        """
        if self._ep is None or self._shutting_down_peer:
            return
        if self._ep.inherited:
            self.abort()
            return
        self._shutting_down_peer = True
        try:
            # Sends that were called before wait for the connection, too, and go first.
            c = await self._ep.ready()
            self._take()
            await c.close()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        except (wherry.Error, UCXBaseException) as error:
            logger.warning("closing endpoint %#x: %s", self._uid, error)
        except BaseException:
            self.abort()
            raise
        self.abort()

    def __del__(self) -> None:
        if getattr(self, "_ep", None) is None:
            return
        c = self._take()
        if c is not None and c.worker.owned and not c.worker.closed:
            c.close()


def cuda_is_there() -> bool:
    """Whether this machine has a CUDA device that Wherry can use."""
    try:
        ctypes.CDLL("libcuda.so.1")
        wherry.DeviceMemory(1)
    except (OSError, wherry.Error, ValueError):
        return False
    return True
