# SPDX-License-Identifier: BSD-3-Clause
"""The worker that a program gets without making one: one per thread and running event loop.

A worker whose loop is closed goes to the next loop of its thread, with its endpoints: programs that
call ``asyncio.run`` again and again have one worker.
"""
from __future__ import annotations

import atexit
import os
import threading

from wherry._core import Endpoint, Listener, RegisteredMemory, Request, Worker, get_running_loop, workers

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Union


class _Workers:
    """Those of one thread.  They end with it."""

    def __init__(self) -> None:
        self.all: List[Worker] = []

    def __del__(self) -> None:
        for worker in self.all:
            # At the end of the interpreter another thread may do this.
            if worker.owned:
                worker.close()


class PerThread(threading.local):
    """The workers of each thread, one per event loop; in a child of fork there are none yet."""

    all: "List[PerThread]" = []

    def __init__(self) -> None:
        self.workers = _Workers()

    def get(self, make: Callable[[], Worker]) -> Worker:
        """The one of the running event loop, or of this thread when none runs; a new one if need be."""
        loop = get_running_loop()
        mine = self.workers.all
        for made in mine:
            if not made.closed and (made.loop is loop or loop is None):
                return made
        for made in mine:
            if not made.closed and (made.loop is None or made.loop.is_closed()):
                return made
        mine[:] = [made for made in mine if not made.closed]
        mine.append(make())
        return mine[-1]


def per_thread() -> PerThread:
    """Room for workers of one kind."""
    PerThread.all.append(PerThread())
    return PerThread.all[-1]


_here = per_thread()


def worker() -> Worker:
    """The default worker: of the running event loop, or of this thread when none runs."""
    return _here.get(Worker)


def connect(
    host: Optional[str] = None, port: Optional[int] = None, *, address: Any = None,
    timeout: Optional[float] = None, secret: Union[str, bytes, None] = None, data: Any = None,
) -> "Request[Endpoint]":
    """``Worker.connect`` of the default worker."""
    return worker().connect(host, port, address=address, timeout=timeout, secret=secret,
                            data=data)


def listen(
    callback: Optional[Callable[[Endpoint], Any]] = None, host: Optional[str] = None,
    port: int = 0, *, secret: Union[str, bytes, None] = None, any_user: bool = False,
    data: Any = None,
) -> "Request[Listener]":
    """``Worker.listen`` of the default worker."""
    return worker().listen(callback, host, port, secret=secret, any_user=any_user, data=data)


def alloc(size: int, access: str = "rwa") -> RegisteredMemory:
    """``Context.alloc`` of the default worker's context."""
    return worker().context.alloc(size, access)


def register(buf: Any, access: str = "rwa") -> RegisteredMemory:
    """``Context.register`` of the default worker's context."""
    return worker().context.register(buf, access)


@atexit.register
def _close_all() -> None:
    # Before the interpreter takes the memory away that operations under way may still write to.
    for made in list(workers):
        if made.owned:
            made.close()


def _in_child() -> None:
    # The workers are the parent's.  They are kept: ending them here would mean to end them.
    for home in PerThread.all:
        _inherited.append(home.workers)
        home.workers = _Workers()
    for made in list(workers):
        workers.discard(made)


_inherited: List[_Workers] = []
os.register_at_fork(after_in_child=_in_child)
