# SPDX-License-Identifier: BSD-3-Clause
"""How an event loop progresses a worker: asleep until something comes, or going round without pause."""
import asyncio
import weakref

from ucp._libs.ucx_api import UCXWorker


class BlockingMode:
    """The loop sleeps until there is something to do: Wherry's worker joins it by itself."""

    def __init__(self, worker: UCXWorker, event_loop: asyncio.AbstractEventLoop) -> None:
        self.event_loop = event_loop


class NonBlockingMode:
    """Progresses in each turn of the loop, which therefore never sleeps: a core is busy."""

    def __init__(self, worker: UCXWorker, event_loop: asyncio.AbstractEventLoop) -> None:
        self.event_loop = event_loop
        self._worker = weakref.ref(worker)
        event_loop.call_soon(self._turn)

    def _turn(self) -> None:
        worker = self._worker()
        if worker is None or worker.c.closed or self.event_loop.is_closed():
            return
        worker.progress()
        self.event_loop.call_soon(self._turn)
