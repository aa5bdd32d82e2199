# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of conversations share: a pair of endpoints, other processes, loops."""
import asyncio
import contextlib
import functools
import os
import re
import subprocess
import sys
import threading
import unittest

import wherry

HOST = "127.0.0.1"
LIMIT = 30.0  # seconds after which a test counts as hung
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
if "PEER_UCX_DIR" in ENV:
    ENV["WHERRY_UCX_DIR"] = ENV.pop("PEER_UCX_DIR")  # of other processes; see run.py


def loops():
    """Name -> maker of each kind of event loop that is there."""
    found = {"asyncio": asyncio.new_event_loop}
    with contextlib.suppress(ImportError):
        import uvloop
        found["uvloop"] = uvloop.new_event_loop
    return found


class LoopCase(unittest.TestCase):
    """Runs ``async def test_...`` on each kind of loop, none longer than LIMIT."""

    def __init_subclass__(cls, **rest):
        super().__init_subclass__(**rest)
        for name, fn in list(vars(cls).items()):
            if name.startswith("test") and asyncio.iscoroutinefunction(fn):
                setattr(cls, name, cls._on_loops(fn))

    @staticmethod
    def _on_loops(fn):
        def run(self):
            for name, make in loops().items():
                with self.subTest(loop=name):
                    run_on(make, asyncio.wait_for(fn(self), LIMIT))
        return run


def run_on(make, awaitable):
    """As asyncio.run, on a loop of one kind; an exception nobody looked at fails it, too."""
    loop = make()
    wrong = []
    loop.set_exception_handler(lambda _, what: wrong.append(what))

    async def main():
        return await awaitable
    try:
        result = loop.run_until_complete(main())
        loop.run_until_complete(end_tasks())
    finally:
        loop.close()
    if wrong:
        raise AssertionError(f"the loop reports {wrong}")
    return result


def run_for(seconds):
    """Makes a test of a coroutine function, on asyncio's own loop."""
    def wrap(test):
        @functools.wraps(test)
        def wrapped(self):
            asyncio.run(asyncio.wait_for(test(self), seconds))
        return wrapped
    return wrap


async def end_tasks():
    """Cancels what is left, as asyncio.run does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextlib.asynccontextmanager
async def pair(worker_a=None, worker_b=None):
    """Two connected endpoints in this process, of one worker or of two."""
    a = worker_a or wherry.worker()
    b = worker_b or a
    async with await b.listen(None, HOST) as listener:
        ours = await a.connect(HOST, listener.port)
        theirs = await listener.accept()
    try:
        yield ours, theirs
    finally:
        ours.abort()
        theirs.abort()


class ArrayOnDevice:
    """A view of a DeviceMemory, two bytes an element, as libraries for GPUs tell of theirs."""

    def __init__(self, memory, shape, strides, offset=0):
        self.memory = memory
        address = memory.__cuda_array_interface__["data"][0] + offset
        self.__cuda_array_interface__ = {"version": 3, "data": (address, False), "shape": shape,
                                         "strides": strides, "typestr": "<u2", "stream": None}


class Child:
    """Another interpreter that runs a program; its lines can be read one by one."""

    def __init__(self, program, *args, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", program,
             *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**ENV, **env})

    def __enter__(self):
        return self

    def line(self):
        text = self.process.stdout.readline().strip()
        if not text:
            raise AssertionError(f"the other process said nothing but: {self.end()[1]}")
        return text

    def end(self):
        """Waits for its end; what it has said on both streams, but for what asyncio says of a busy machine in its debug mode."""
        out, err = self.process.communicate(timeout=LIMIT)
        return out, re.sub(r"^Executing <.* took [0-9.]+ seconds\n", "", err, flags=re.MULTILINE)

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def run_child(program, *args, **env):
    """Runs a program in another interpreter to its end; its return code, output and errors."""
    with Child(program, *args, **env) as child:
        out, err = child.end()
        return child.process.returncode, out, err


def in_thread(fn):
    """What fn returns or raises in another thread."""
    ended = []

    def run():
        try:
            ended.append((fn(), None))
        except BaseException as error:
            ended.append((None, error))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if ended[0][1] is not None:
        raise ended[0][1]
    return ended[0][0]
