# SPDX-License-Identifier: BSD-3-Clause
"""The event loop of a program: asyncio's, whose wait for events is the PE.

So asyncio is a guest: as long as nothing is scheduled in its loop, no turn of it is made.  In a loop that is somebody
else's, as of an interactive shell, the PE is the guest (Guest).
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import threading
from typing import Any, Callable, Iterator, Optional

from wherry.charm._core import Runtime


class Selector(selectors.EpollSelector):
    """Waits for descriptors, and runs the PE meanwhile."""

    def __init__(self, runtime: Runtime, ended: Callable[[], None]) -> None:
        super().__init__()
        self.runtime, self.ended, self.running = runtime, ended, True

    def select(self, timeout: Optional[float] = None) -> Any:
        if not self.running:
            return super().select(timeout)
        if not self.runtime.drive(timeout, self.fileno()):
            self.running = False
            self.ended()
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """Has the PE come back when something was scheduled."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.selector = Selector(runtime, self.stop)
        super().__init__(self.selector)

    def call_soon(self, *args: Any, **keywords: Any) -> asyncio.Handle:  # type: ignore[override]
        self.runtime.want()
        return super().call_soon(*args, **keywords)

    def call_at(self, *args: Any, **keywords: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.runtime.want()
        return super().call_at(*args, **keywords)

    def leave(self) -> None:
        """From now on it waits for descriptors alone."""
        self.selector.running = False


@contextlib.contextmanager
def signals_heard(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Has signals end the loop's sleep, so that Ctrl-C is never late."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    there, here = os.pipe()
    os.set_blocking(there, False)
    os.set_blocking(here, False)

    def drain() -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(there, 4096)
    before = signal.set_wakeup_fd(here, warn_on_full_buffer=False)
    loop.add_reader(there, drain)
    try:
        yield
    finally:
        loop.remove_reader(there)
        signal.set_wakeup_fd(before)
        os.close(there)
        os.close(here)


def end_guests(loop: asyncio.AbstractEventLoop) -> None:
    """Ends the tasks that asyncio has, as asyncio.run does."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())


def end_loop(here: Runtime) -> None:
    """Ends the event loop that a program has had, and leaves the job."""
    loop = here.loop
    loop.leave()
    try:
        end_guests(loop)
    finally:
        here.close()
        loop.close()


class Guest:
    """The PE in a loop that runs already."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self.runtime, self.loop, self.ended = runtime, loop, ended
        self.timer: Optional[asyncio.Handle] = None
        self.scheduled = False
        runtime.on_touch = self.touch
        loop.add_reader(runtime.fd, self.pump)
        self.touch()

    def touch(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.turn)

    def turn(self) -> None:
        self.scheduled = False
        self.pump()

    def pump(self) -> None:
        if self.runtime.on_touch is None:
            return
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        seconds = self.runtime.pump()
        if seconds is None:
            self.loop.remove_reader(self.runtime.fd)
            self.runtime.on_touch = None
            self.ended()
        elif seconds == 0:
            self.touch()
        elif seconds > 0:
            self.timer = self.loop.call_later(seconds, self.turn)
