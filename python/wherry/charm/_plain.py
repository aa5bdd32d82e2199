# SPDX-License-Identifier: BSD-3-Clause
"""A program as long as nothing of it uses asyncio, whose import takes longer than all else of a start: the PE runs alone.

Once something imports asyncio, the program has an event loop, already in the entry that imports it.  Another thread that
imports it has the PE look up; an entry that runs at that very moment has no loop yet.
"""
from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident
from signal import set_wakeup_fd

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable

    from wherry.charm._core import Runtime


class Alone:
    """The PE without an event loop; a finder of modules, in front of all others, that hears of asyncio's import."""

    def __init__(self, here: Runtime) -> None:
        self.here, self.thread, self.pid = here, get_ident(), os.getpid()
        self.lock, self.ended = allocate_lock(), False

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
        with self.lock:
            self.ended = True
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
        """What others find for asyncio, and what to do when it has been loaded, which need not be now or at all."""
        if name != "asyncio" or os.getpid() != self.pid:
            return None
        for finder in sys.meta_path:
            spec: Any = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                spec.loader.exec_module = self.then_loaded(spec.loader)
                return spec
        return None

    def then_loaded(self, loader: Any) -> Callable[[Any], None]:
        load = loader.exec_module

        def load_and_tell(module: Any) -> None:
            vars(loader).pop("exec_module", None)  # the loader stays, and would keep all this
            load(module)
            self.stop_finding()
            if os.getpid() != self.pid:
                return
            if get_ident() != self.thread:
                self.wake()
            elif not self.ended:
                self.make_loop()
        return load_and_tell

    def wake(self) -> None:
        """From another thread, which may be later than the end of the program."""
        with self.lock:
            if self.ended:
                return
            try:
                os.write(self.wake_fd, b"\0")
            except BlockingIOError:
                pass  # it is full, and so the PE is about to look

    def first_iteration(self, generator: Any) -> None:
        self.make_loop()._asyncgen_firstiter_hook(generator)

    def last_reference(self, generator: Any) -> None:
        self.here.loop._asyncgen_finalizer_hook(generator)
