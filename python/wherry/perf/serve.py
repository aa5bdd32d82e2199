# SPDX-License-Identifier: BSD-3-Clause
"""The other process of what is measured: ``python -m wherry.perf.serve HOW CORE [FD FD]``.

It prints the ports that it listens on and ends when its standard input does.  A message of tag ECHO is
answered by the same, of tag ONE_WAY by nothing, of tag END by one byte.  Others are orders of what
comes next, a size and a count: FLOW, messages one way, received ahead, then one byte that answers all;
ROUNDS, messages to be answered one by one.
"""
import asyncio
import collections
import importlib
import os
import struct
import subprocess
import sys
from functools import partial
from typing import Any, Callable, Deque, List, Optional, Sequence

import wherry
from wherry.perf.figures import SIZES, WINDOW

ECHO, ONE_WAY, END, FLOW, ROUNDS = range(5)
ORDER = struct.Struct("<QQ")  # size and count
HOST = "127.0.0.1"
Start = Callable[[], "wherry.Request[Any]"]
HEAD = 8  # bytes before a stream's message: its length, and its tag as with Wherry


def new_loop(uvloop: bool) -> asyncio.AbstractEventLoop:
    if not uvloop:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


async def slide(start: Start, count: int) -> None:
    """So many operations, a window of them under way."""
    ops: Deque[wherry.Request[Any]] = collections.deque()
    for _ in range(count):
        if len(ops) == WINDOW:
            await ops.popleft()
        ops.append(start())
    for op in ops:
        await op


def slide_blocking(start: Start, count: int) -> None:
    ops: Deque[wherry.Request[Any]] = collections.deque()
    for _ in range(count):
        if len(ops) == WINDOW:
            ops.popleft().result()
        ops.append(start())
    for op in ops:
        op.result()


async def flow(ep: wherry.Endpoint, buf: memoryview, count: int) -> None:
    await slide(partial(ep.recv, buf, ONE_WAY), count)
    await ep.send(b"!", END)


def flow_blocking(ep: wherry.Endpoint, buf: memoryview, count: int) -> None:
    slide_blocking(partial(ep.recv, buf, ONE_WAY), count)
    ep.send(b"!", END).result()


async def rounds(ep: wherry.Endpoint, buf: memoryview, count: int) -> None:
    for _ in range(count):
        await ep.recv(buf, ECHO)
        await ep.send(buf, ECHO)


def rounds_blocking(ep: wherry.Endpoint, buf: memoryview, count: int) -> None:
    for _ in range(count):
        ep.recv(buf, ECHO).result()
        ep.send(buf, ECHO).result()


async def echo(ep: wherry.Endpoint, room: int) -> None:
    view = memoryview(bytearray(room))
    async with ep:
        try:
            while True:
                op = ep.recv(view, 0, 0)
                size = await op
                if op.tag >= FLOW:
                    size, count = ORDER.unpack(view[:size])
                    await (flow if op.tag == FLOW else rounds)(ep, view[:size], count)
                elif op.tag != ONE_WAY:
                    await ep.send(view[:size] if op.tag == ECHO else b"!", op.tag)
        except (wherry.ClosedError, wherry.PeerError):
            pass


def echo_blocking(ep: wherry.Endpoint, room: int) -> None:
    view = memoryview(bytearray(room))
    try:
        while True:
            op = ep.recv(view, 0, 0)
            size, count = ORDER.unpack(view[:op.result()])
            (flow_blocking if op.tag == FLOW else rounds_blocking)(ep, view[:size], count)
    except (wherry.ClosedError, wherry.PeerError):
        pass


async def echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readexactly(HEAD)
            data = await reader.readexactly(int.from_bytes(head[:4], "little"))
            if head[4] != ONE_WAY:
                writer.write(head + data if head[4] == ECHO else b"!")
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(room: int, progress: str) -> None:
    """Endpoints and streams, for programs with an event loop."""
    # The buffer of a stream's reader is twice its limit.
    streams = await asyncio.start_server(echo_stream, HOST, limit=max(room, 1 << 16))
    worker = wherry.Worker(wherry.Context(progress=progress))
    async with await worker.listen(lambda ep: echo(ep, room), HOST) as listener:
        print(listener.port, streams.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def serve_blocking(room: int) -> None:
    with wherry.listen(None, HOST).result() as listener:
        print(listener.port, 0, flush=True)
        with listener.accept().result() as ep:
            echo_blocking(ep, room)


async def serve_bells(ours: int, theirs: int) -> None:
    """Answers each ring of one eventfd by one of the other: all that two sleeping loops must do."""
    def answer() -> None:
        os.eventfd_read(ours)
        os.eventfd_write(theirs, 1)
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, answer)
    print(0, 0, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


class Server:
    """Such a process, from outside: its ports; `end` ends it."""

    def __init__(self, how: str, core: Optional[int], room: int = max(SIZES), *,
                 uvloop: bool = False, fds: Sequence[int] = ()) -> None:
        words = [how, core if core is not None else -1, room, int(uvloop), *fds]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wherry.perf.serve", *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=fds)
        assert self.process.stdout is not None
        ports = self.process.stdout.readline().split()
        if len(ports) != 2:
            raise RuntimeError("the other process did not come up")
        self.port, self.stream_port = map(int, ports)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def main(words: List[str]) -> None:
    how, (core, room, uvloop, *fds) = words[0], map(int, words[1:])
    if core >= 0:
        os.sched_setaffinity(0, [core])
    if how == "blocking":
        serve_blocking(room)
    else:
        loop = new_loop(bool(uvloop))
        loop.run_until_complete(serve_bells(*fds) if how == "bells" else serve(room, how))


if __name__ == "__main__":
    main(sys.argv[1:])
