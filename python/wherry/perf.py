# SPDX-License-Identifier: BSD-3-Clause
"""``python -m wherry.perf``: what messages cost from Python, between two processes of this machine.

Beside Wherry, asynchronous and blocking, it measures asyncio's streams in the same run.  Times are
half round trips in microseconds; repetitions are interleaved, and their median is reported.
"""
import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import Any, Callable, Coroutine, Dict, List, Optional, Tuple

import wherry

SIZES = (8, 1024, 65536, 1 << 20)
WARM_UP = 0.1          # of the rounds are not counted
PAUSE = 0.0005         # between rounds of `asleep`: after it, both sides sleep
WINDOW = 64            # messages on the way in `rate` and `bandwidth`
Times = Tuple[float, float]  # median and 99th percentile, in microseconds


def percentiles(times: List[float], share: float = 0.5) -> Times:
    """Of one-way times, without the warm-up; `share`: of a round trip that is one way."""
    counted = sorted(times[int(len(times) * WARM_UP):])
    return (counted[len(counted) // 2] * share * 1e6,
            counted[min(len(counted) - 1, len(counted) * 99 // 100)] * share * 1e6)


# ---- the other process

async def echo(ep: wherry.Endpoint) -> None:
    """Answers: a message of tag 0 by the same, one of tag 1 by nothing, of tag 2 by one byte."""
    buf = bytearray(max(SIZES) + 1)
    view = memoryview(buf)
    async with ep:
        try:
            while True:
                op = ep.recv(buf, 0, 0)
                size = await op
                if op.tag != 1:
                    await ep.send(view[:size] if op.tag != 2 else b"!", op.tag)
        except wherry.ClosedError:
            pass


async def echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.read(4):
        while len(head) < 4:
            head += await reader.read(4 - len(head))
        data = await reader.readexactly(int.from_bytes(head, "little"))
        writer.write(head + data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    streams = await asyncio.start_server(echo_stream, "127.0.0.1")
    async with await wherry.listen(echo, "127.0.0.1") as listener:
        print(listener.port, streams.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def serve_blocking() -> None:
    with wherry.listen(None, "127.0.0.1").result() as listener:
        print(listener.port, 0, flush=True)
        with listener.accept().result() as ep:
            buf = bytearray(max(SIZES))
            view = memoryview(buf)
            try:
                while True:
                    size = ep.recv(buf).result()
                    ep.send(view[:size]).result()
            except wherry.ClosedError:
                pass


# ---- what is measured

async def rounds(ep: wherry.Endpoint, size: int, count: int, pause: float) -> Times:
    out, into, times = bytes(size), bytearray(size), []
    for _ in range(count):
        if pause:
            await asyncio.sleep(pause)
        start = time.perf_counter()
        await ep.send(out)
        await ep.recv(into)
        times.append(time.perf_counter() - start)
    return percentiles(times)


def rounds_blocking(ep: wherry.Endpoint, size: int, count: int) -> Times:
    out, into, times = bytes(size), bytearray(size), []
    for _ in range(count):
        start = time.perf_counter()
        ep.send(out).result()
        ep.recv(into).result()
        times.append(time.perf_counter() - start)
    return percentiles(times)


async def rounds_stream(port: int, size: int, count: int, pause: float) -> Times:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    out, times = size.to_bytes(4, "little") + bytes(size), []
    for _ in range(count):
        if pause:
            await asyncio.sleep(pause)
        start = time.perf_counter()
        writer.write(out)
        await writer.drain()
        await reader.readexactly(size + 4)
        times.append(time.perf_counter() - start)
    writer.close()
    return percentiles(times)


async def one_way(ep: wherry.Endpoint, size: int, count: int) -> float:
    """Messages per second, with WINDOW of them on the way."""
    out, answer = bytes(size), bytearray(1)
    start = time.perf_counter()
    for first in range(0, count, WINDOW):
        await asyncio.gather(*[ep.send(out, 1) for _ in range(WINDOW)])
        # One answer per window: the sender does not run away from the receiver.
        await ep.send(b"?", 2)
        await ep.recv(answer, 2)
    return count / (time.perf_counter() - start)


async def tasks(port: int, number: int, seconds: float) -> Dict[str, float]:
    """`number` endpoints, each with a task that asks and gets 8 bytes: rate, fairness, a timer."""
    counts, late, stop = [0] * number, [], False
    eps = [await wherry.connect("127.0.0.1", port) for _ in range(number)]

    async def ask(i: int) -> None:
        out, into = bytes(8), bytearray(8)
        while not stop:
            await eps[i].send(out)
            await eps[i].recv(into)
            counts[i] += 1
    everyone = [asyncio.ensure_future(ask(i)) for i in range(number)]
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - now - 0.001)
    stop = True
    await asyncio.gather(*everyone)
    for ep in eps:
        await ep.close()
    return {"messages_per_s": 2 * sum(counts) / seconds,
            "jain": sum(counts) ** 2 / (number * sum(c * c for c in counts)),
            "timer_late_p99_us": percentiles(late, 1)[1]}


async def call_ns(ep: wherry.Endpoint, count: int) -> float:
    """What ``await ep.send`` of 8 bytes costs, with a peer that throws them away."""
    out, answer, best = bytes(8), bytearray(1), 1.0
    for _ in range(count // WINDOW):
        start = time.perf_counter()
        for _ in range(WINDOW):
            await ep.send(out, 1)
        best = min(best, time.perf_counter() - start)
        await ep.send(b"?", 2)
        await ep.recv(answer, 2)
    return best / WINDOW * 1e9


class Peer:
    """The other process."""

    def __init__(self, how: str, core: Optional[int]) -> None:
        command = [sys.executable, "-m", "wherry.perf", "--serve", how]
        if core is not None:
            command += ["--core", str(core)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        assert self.process.stdout is not None
        self.port, self.stream_port = map(int, self.process.stdout.readline().split())

    def end(self) -> None:
        self.process.communicate()


Measurement = Tuple[str, Callable[[], Any]]


def plan(args: argparse.Namespace, loop: asyncio.AbstractEventLoop, peer: Peer, blocking: Peer,
         ) -> List[Measurement]:
    """All that is measured: (name, what measures it once)."""
    ep = loop.run_until_complete(connected(peer))
    mine = wherry.Worker()
    bep = mine.connect("127.0.0.1", blocking.port).result()

    def run(fn: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        return loop.run_until_complete(fn(*args))
    found: List[Measurement] = []
    for size in args.sizes:
        count = max(20, min(args.rounds, args.rounds * 8192 // size))
        found += [
            (f"async {size} B", partial(run, rounds, ep, size, count, 0)),
            (f"blocking {size} B", partial(rounds_blocking, bep, size, count)),
            (f"streams {size} B",
             partial(run, rounds_stream, peer.stream_port, size, max(20, count // 20), 0)),
            (f"messages/s {size} B",
             partial(run, one_way, ep, size, count // WINDOW * WINDOW or WINDOW)),
        ]
    found += [
        ("asleep async 8 B", partial(run, rounds, ep, 8, 300, PAUSE)),
        ("asleep streams 8 B", partial(run, rounds_stream, peer.stream_port, 8, 300, PAUSE)),
        ("call ns", partial(run, call_ns, ep, 20000)),
        (f"{args.tasks} tasks", partial(run, tasks, peer.port, args.tasks, 1.0)),
    ]
    return found


async def connected(peer: Peer) -> wherry.Endpoint:
    return await wherry.connect("127.0.0.1", peer.port)


def middle(values: List[Any]) -> Any:
    """The median of the repetitions, part by part."""
    if isinstance(values[0], dict):
        return {key: middle([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(middle(list(parts)) for parts in zip(*values))
    return statistics.median(values)


def measure(args: argparse.Namespace) -> Dict[str, Any]:
    loop: asyncio.AbstractEventLoop
    if args.uvloop:
        import uvloop
        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    cores = sorted(os.sched_getaffinity(0))
    pinned = len(cores) > 1 and not args.no_pin
    peers = [Peer(how, cores[1] if pinned else None) for how in ("async", "blocking")]
    if pinned:
        os.sched_setaffinity(0, cores[:1])
    steps = plan(args, loop, *peers)
    results: Dict[str, List[Any]] = {name: [] for name, _ in steps}
    for repetition in range(args.repeat):
        for at, (name, step) in enumerate(steps):
            if sys.stderr.isatty():
                done = (repetition * len(steps) + at) / (args.repeat * len(steps))
                print(f"\r{done:4.0%}  {name:24}", end="", file=sys.stderr, flush=True)
            results[name].append(step())
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    for peer in peers:
        peer.process.kill()
        peer.end()
    return {name: middle(values) for name, values in results.items()}


def show(results: Dict[str, Any]) -> None:
    for name, value in results.items():
        if isinstance(value, tuple):
            print(f"{name:24} {value[0]:10.2f} us   p99 {value[1]:10.2f} us")
        elif isinstance(value, dict):
            print(f"{name:24} " + "  ".join(f"{key} {each:.3f}" for key, each in value.items()))
        else:
            print(f"{name:24} {value:10.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m wherry.perf", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=5000, help="of 8 bytes; fewer of large ones")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--no-pin", action="store_true", help="do not give each process a core")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", choices=("async", "blocking"), help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, [args.core])
    if args.serve == "async":
        asyncio.run(serve())
    elif args.serve == "blocking":
        serve_blocking()
    else:
        results = measure(args)
        if args.json:
            print(json.dumps({"version": wherry.__version__, "python": platform.python_version(),
                              "machine": platform.machine(), "results": results}, indent=2))
        else:
            show(results)


if __name__ == "__main__":
    main()
