# SPDX-License-Identifier: BSD-3-Clause
"""The functions of 2018, from before UCX-Py had ``create_listener`` and ``create_endpoint``.

There messages had no size that the receiver knew: ``recv_future`` receives what ``send_obj`` has
sent, and ``get_obj_from_msg`` takes it out.  ``result()`` of what they give waits where no event loop
runs.
"""
import asyncio
import inspect
import os
from typing import Any, Callable, Generator, Optional

from ucp import core
from ucp._endpoint import Endpoint, tags_of
from ucp._libs.ucx_api import HELLO, UCXEndpoint
from ucp.utils import get_event_loop


class Message:
    """A message that ``recv_future`` has received."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj


class Pending:
    """Something under way: await it in an event loop, or outside of one ask for its ``result()``."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine
        running = asyncio._get_running_loop()
        self._task: Optional["asyncio.Future[Any]"] = (
            None if running is None else asyncio.ensure_future(coroutine))

    def __await__(self) -> Generator[Any, None, Any]:
        if self._task is None:
            self._task = asyncio.ensure_future(self._coroutine)
        return self._task.__await__()

    def done(self) -> bool:
        """Whether it has ended."""
        return self._task is not None and self._task.done()

    def result(self) -> Any:
        """What it gives.  Inside an event loop only once it is done."""
        if self._task is None:
            self._task = _loop().create_task(self._coroutine)
        if not self._task.done() and asyncio._get_running_loop() is None:
            self._task.get_loop().run_until_complete(self._task)
        return self._task.result()


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of a program that has none running."""
    ctx = core._get_ctx()
    loop = ctx.worker.c.loop
    if loop is None or loop.is_closed():
        loop = get_event_loop()
    return loop


class TalkListener(core.Listener):
    """A listener with ``coroutine``: what to await for as long as it listens."""

    _ended: Optional["asyncio.Future[None]"] = None

    @property
    def coroutine(self) -> Any:
        return self._until_closed()

    async def _until_closed(self) -> None:
        if self.closed():
            return
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ended)

    def close(self) -> None:
        super().close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def start_listener(py_func: Callable[[Endpoint, TalkListener], Any],
                   listener_port: int = -1, is_coroutine: bool = False) -> TalkListener:
    """Listens; calls ``py_func(ep, listener)`` with each connection.

    listener_port: default: a free one, see ``Listener.port``.
    is_coroutine: whether `py_func` is a coroutine function.
    """
    made: Any = None

    def accepted(ep: Endpoint) -> Any:
        result = py_func(ep, made)
        if is_coroutine and not inspect.isawaitable(result):
            raise TypeError(f"is_coroutine: {py_func!r} is no coroutine function")
        return result
    ctx = core._get_ctx()
    plain = ctx.create_listener(accepted, max(listener_port, 0))
    backend, plain._b = plain._b, None  # handed over
    assert backend is not None
    made = TalkListener(backend, ctx)
    return made


def stop_listener(listener: core.Listener) -> None:
    """Ends listening."""
    listener.close()


def get_endpoint(peer_ip: Any, peer_port: int) -> Endpoint:
    """An endpoint to a listener, at once: what is sent waits until it is connected."""
    ctx = core._get_ctx()
    ctx.continuous_ucx_progress()
    seed = os.urandom(core._SEED_SIZE)
    op = ctx._connect(peer_ip, peer_port, seed)
    below = UCXEndpoint(ctx.worker, connecting=op)
    return Endpoint(below, ctx, tags_of(seed, True))


def destroy_ep(ep: Endpoint) -> None:
    """Closes an endpoint; what was sent arrives."""
    c = ep._take()
    if c is not None:
        c.close()


def get_obj_from_msg(msg: Message) -> Any:
    """What a message of ``recv_future`` holds."""
    return msg.obj


def fin() -> None:
    """``reset``."""
    core.reset()
