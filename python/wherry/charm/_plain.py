# SPDX-License-Identifier: BSD-3-Clause
"""A program as long as nothing of it uses asyncio, whose import takes longer than all else of a start: the PE runs alone.

Once something imports asyncio, the program has an event loop, already in the entry that imports it.  Another thread that
imports it has the PE look up; an entry that runs at that very moment has no loop yet.
"""
from __future__ import annotations

import os
import sys
from _thread import get_ident
from signal import set_wakeup_fd

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable

    from wherry.charm._core import Runtime


class Alone:
    """The PE without an event loop; a finder of modules, in front of all others, that hears of asyncio's import."""

    def __init__(self, here: Runtime) -> None:
        self.here, self.thread, self.pid = here, get_ident(), os.getpid()

    def __enter__(self) -> Alone:
        self.fd, self.wake_fd = os.pipe()  # signals end a sleep, so that Ctrl-C is never late
        os.set_blocking(self.fd, False)
        os.set_blocking(self.wake_fd, False)
        self.in_main_thread = True
        try:
            self.fd_before = set_wakeup_fd(self.wake_fd, warn_on_full_buffer=False)
        except ValueError:
            self.in_main_thread = False
        self.hooks_before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self.first_iteration, self.last_reference)
        sys.meta_path.insert(0, self)
        self.here.make_loop = self.make_loop
        return self

    def __exit__(self, *_: Any) -> None:
        self.here.make_loop = None
        self.stop_finding()
        sys.set_asyncgen_hooks(*self.hooks_before)
        if self.in_main_thread:
            set_wakeup_fd(self.fd_before)
        if self.here.loop is not None:
            import asyncio

            asyncio._set_running_loop(None)
        os.close(self.fd)
        os.close(self.wake_fd)

    def run(self) -> bool:
        """Until the program has ended, or False: until it has an event loop."""
        while self.here.loop is None:
            if not self.here.drive(None, self.fd):
                return True
            try:
                os.read(self.fd, 4096)
            except BlockingIOError:
                pass
            if "asyncio" in sys.modules:
                self.make_loop()
        return False

    def make_loop(self) -> Any:
        """The event loop of the program, which runs as far as asyncio can tell."""
        if self.here.loop is None:
            self.stop_finding()
            import asyncio

            from wherry.charm._loop import Loop

            loop = Loop(self.here)
            asyncio._set_running_loop(loop)
            self.here.join(loop)
        return self.here.loop

    # ---- Who needs one.

    def stop_finding(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What others find for asyncio, and what to do when it has been loaded."""
        if name != "asyncio" or os.getpid() != self.pid:
            return None
        self.stop_finding()
        import importlib.util

        spec: Any = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader.exec_module = self.then_loaded(spec.loader.exec_module)
        return spec

    def then_loaded(self, load: Callable[[Any], None]) -> Callable[[Any], None]:
        def load_and_tell(module: Any) -> None:
            load(module)
            if get_ident() == self.thread:
                self.make_loop()
            else:
                os.write(self.wake_fd, b"\0")
        return load_and_tell

    def first_iteration(self, generator: Any) -> None:
        self.make_loop()._asyncgen_firstiter_hook(generator)

    def last_reference(self, generator: Any) -> None:
        self.here.loop._asyncgen_finalizer_hook(generator)
