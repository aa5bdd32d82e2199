# SPDX-License-Identifier: BSD-3-Clause
"""What stands beside Wherry in the standard library: asyncio's streams, and bare eventfds."""
import asyncio
import os
import time
from typing import List, Optional

from wherry.perf.figures import Row, counts_of, flow, timed
from wherry.perf.ours import of_tasks, timer
from wherry.perf.serve import ECHO, END, HEAD, HOST, ONE_WAY, Server

STREAMS = "asyncio streams"
BELLS = "eventfd + asyncio"


def framed(size: int, tag: int) -> bytes:
    return size.to_bytes(4, "little") + tag.to_bytes(HEAD - 4, "little") + bytes(size)


class Stream:
    """A connection; `ask` is a round trip of a message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, room: int = 1 << 16) -> "Stream":
        return cls(*await asyncio.open_connection(HOST, port, limit=max(room, 1 << 16)))

    async def ask(self, out: bytes, answer: int) -> None:
        self.writer.write(out)
        await self.writer.drain()
        await self.reader.readexactly(answer)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def latency(port: int, size: int, count: int, test: str = "async") -> List[Row]:
    stream = await Stream.open(port, size)
    out, times = framed(size, ECHO), []
    for _ in range(count):
        start = time.perf_counter()
        await stream.ask(out, size + HEAD)
        times.append(time.perf_counter() - start)
    await stream.close()
    return [timed(test, "latency", size, times, STREAMS)]


async def bandwidth(port: int, size: int, rounds: int) -> List[Row]:
    stream = await Stream.open(port)
    out, end = framed(size, ONE_WAY), framed(0, END)
    for count in counts_of(size, rounds):  # the first is the warm-up
        start = time.perf_counter()
        for _ in range(count):
            stream.writer.write(out)
            await stream.writer.drain()
        await stream.ask(end, 1)
    seconds = time.perf_counter() - start
    await stream.close()
    return flow("async", size, count, seconds, STREAMS)


async def tasks(port: int, number: int, seconds: float) -> List[Row]:
    counts = [0] * number
    streams = [await Stream.open(port) for _ in range(number)]
    until = time.perf_counter() + seconds
    out = framed(8, ECHO)

    async def ask(at: int) -> None:
        while time.perf_counter() < until:
            await streams[at].ask(out, len(out))
            counts[at] += 1
    asking = [asyncio.ensure_future(ask(at)) for at in range(number)]
    late = await timer(until)
    await asyncio.gather(*asking)
    for stream in streams:
        await stream.close()
    return of_tasks(counts, late, seconds, STREAMS)


class Bells:
    """Two event loops that wake each other and do nothing else: the floor of `asleep`."""

    def __init__(self, core: Optional[int], uvloop: bool) -> None:
        self.ours, self.theirs = os.eventfd(0), os.eventfd(0)
        self.server = Server("bells", core, uvloop=uvloop, fds=(self.theirs, self.ours))

    async def latency(self, count: int) -> List[Row]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        times = [time.perf_counter()]

        def rung() -> None:
            os.eventfd_read(self.ours)
            times.append(time.perf_counter())
            if len(times) <= count:
                os.eventfd_write(self.theirs, 1)
            else:
                done.set_result(None)
        loop.add_reader(self.ours, rung)
        os.eventfd_write(self.theirs, 1)
        await done
        loop.remove_reader(self.ours)
        seconds = [after - before for before, after in zip(times, times[1:])]
        return [timed("asleep", "latency", 8, seconds, BELLS)]

    def end(self) -> None:
        self.server.end()
        os.close(self.ours)
        os.close(self.theirs)
