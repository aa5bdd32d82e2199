# SPDX-License-Identifier: BSD-3-Clause
"""What Wherry costs: each function measures once and gives rows."""
import asyncio
import contextlib
import importlib
import time
from functools import partial
from typing import Any, Dict, List, Optional

import wherry
from wherry._core import time_sends
from wherry.perf.figures import Row, counts_of, flow, rounds_of, timed
from wherry.perf.serve import ECHO, END, FLOW, HOST, ONE_WAY, ORDER, ROUNDS, slide, slide_blocking

BURST = 64           # sends of `cost`: few enough that none waits for credit
PENDING = 1000       # receives of `idle`
IDLE_SECONDS = 0.5
TICK = 0.001         # the timer of `tasks`
COPIED = "copied by numpy"
LINE = 4096          # bytes of a row of `columns` that travel


async def latency(ep: wherry.Endpoint, size: int, count: int, test: str = "async") -> List[Row]:
    out, into, times = bytes(size), bytearray(size), []
    await ep.send(ORDER.pack(size, count), ROUNDS)
    for _ in range(count):
        start = time.perf_counter()
        await ep.send(out, ECHO)
        await ep.recv(into, ECHO)
        times.append(time.perf_counter() - start)
    return [timed(test, "latency", size, times)]


def latency_blocking(ep: wherry.Endpoint, size: int, rounds: int) -> List[Row]:
    out, into, times = bytes(size), bytearray(size), []
    count = rounds_of(size, rounds)
    ep.send(ORDER.pack(size, count), ROUNDS).result()
    for _ in range(count):
        start = time.perf_counter()
        ep.send(out, ECHO).result()
        ep.recv(into, ECHO).result()
        times.append(time.perf_counter() - start)
    return [timed("blocking", "latency", size, times)]


async def bandwidth(ep: wherry.Endpoint, size: int, rounds: int) -> List[Row]:
    """A window of messages on the way, and one answer to all."""
    out, answer = bytes(size), bytearray(1)
    for count in counts_of(size, rounds):  # the first is the warm-up
        await ep.send(ORDER.pack(size, count), FLOW)
        start = time.perf_counter()
        await slide(partial(ep.send, out, ONE_WAY), count)
        await ep.recv(answer, END)
    return flow("async", size, count, time.perf_counter() - start)


def bandwidth_blocking(ep: wherry.Endpoint, size: int, rounds: int) -> List[Row]:
    out, answer = bytes(size), bytearray(1)
    for count in counts_of(size, rounds):  # the first is the warm-up
        ep.send(ORDER.pack(size, count), FLOW).result()
        start = time.perf_counter()
        slide_blocking(partial(ep.send, out, ONE_WAY), count)
        ep.recv(answer, END).result()
    return flow("blocking", size, count, time.perf_counter() - start)


async def columns(ep: wherry.Endpoint, size: int, rounds: int) -> List[Row]:
    """Every other column of an array of numpy's, and in turns the same by way of a contiguous copy:
    sent and received into contiguous memory, and received into such columns, too."""
    try:
        np = importlib.import_module("numpy")
    except ImportError:
        return []
    lines = max(1, size // LINE)
    out, into = (np.zeros((lines, size // lines // 4))[:, ::2] for _ in range(2))
    dense, count = np.zeros(out.shape), rounds_of(size, rounds)

    async def whole(to: Any) -> None:
        await ep.send(out, ECHO)
        await ep.recv(to, ECHO)

    async def copied(to: Any) -> None:
        await ep.send(np.ascontiguousarray(out), ECHO)
        await ep.recv(dense, ECHO)
        if to is not dense:
            to[...] = dense
    rows = []
    for test, to in (("columns out", dense), ("columns", into)):
        times: Dict[Optional[str], List[float]] = {None: [], COPIED: []}
        await ep.send(ORDER.pack(out.nbytes, 2 * count), ROUNDS)
        for _ in range(count):
            for peer, trip in ((None, whole), (COPIED, copied)):
                start = time.perf_counter()
                await trip(to)
                times[peer].append(time.perf_counter() - start)
        rows += [timed(test, "latency", size, seconds, peer) for peer, seconds in times.items()]
    return rows


async def burst(ep: wherry.Endpoint, out: Any) -> float:
    """Nanoseconds of a send among many that the peer throws away."""
    start = time.perf_counter_ns()
    for _ in range(BURST):
        await ep.send(out, ONE_WAY)
    return (time.perf_counter_ns() - start) / BURST


async def cost(ep: wherry.Endpoint, bursts: int) -> List[Row]:
    """What ``await ep.send`` of 8 bytes costs, of numpy arrays if there is numpy, contiguous and
    not, and the engine's own call.  Bursts take turns, and the median of each counts."""
    answer = bytearray(1)
    buffers: Dict[str, Any] = {"send": bytes(8)}
    with contextlib.suppress(ImportError):
        zeros = importlib.import_module("numpy").zeros
        buffers["send numpy"], buffers["send strided"] = zeros(8, "u1"), zeros(16, "u1")[::2]
    python: Dict[str, List[float]] = {name: [] for name in buffers}
    engine: List[float] = []
    for _ in range(bursts):
        for name, out in buffers.items():
            python[name].append(await burst(ep, out))
            await ep.send(b"?", END)
            await ep.recv(answer, END)
        engine.append(time_sends(ep, buffers["send"], ONE_WAY, BURST) / BURST)
        await ep.send(b"?", END)
        await ep.recv(answer, END)
    def row(name: str, times: List[float], peer: Optional[str] = None) -> Row:
        return Row(name, "cost", 8, sorted(times)[bursts // 2], min=min(times), peer=peer)
    return ([row(name, times) for name, times in python.items()]
            + [row(name, engine, "C call") for name in buffers])


def of_tasks(counts: List[int], late: List[float], seconds: float, peer: Optional[str] = None,
             ) -> List[Row]:
    """What tasks that ask and get 8 bytes come to: their messages in both directions, Jain's index of
    how evenly they got on (1: all alike), and how late a timer of 1 ms came meanwhile."""
    jain = sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))
    test = f"tasks x{len(counts)}"
    return [Row(test, "rate", 8, 2 * sum(counts) / seconds / 1e6, peer=peer),
            Row(test, "fairness", 8, jain, peer=peer),
            timed(test, "lateness", 8, late, peer, share=1)]


async def timer(until: float) -> List[float]:
    """How many seconds late each tick came."""
    late = []
    while (now := time.perf_counter()) < until:
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - now - TICK)
    return late


async def tasks(worker: wherry.Worker, port: int, number: int, seconds: float) -> List[Row]:
    counts = [0] * number
    eps = [await worker.connect(HOST, port) for _ in range(number)]
    until = time.perf_counter() + seconds

    async def ask(at: int) -> None:
        out, into = bytes(8), bytearray(8)
        while time.perf_counter() < until:
            await eps[at].send(out, ECHO)
            await eps[at].recv(into, ECHO)
            counts[at] += 1
    asking = [asyncio.ensure_future(ask(at)) for at in range(number)]
    late = await timer(until)
    await asyncio.gather(*asking)
    for ep in eps:
        await ep.close()
    return of_tasks(counts, late, seconds)


async def idle(worker: wherry.Worker, port: int) -> List[Row]:
    """Share of a core that receives cost which nobody answers."""
    async with await worker.connect(HOST, port) as ep:
        buffers = [bytearray(8) for _ in range(PENDING)]
        ops = [ep.recv(buf, ECHO) for buf in buffers]
        await asyncio.sleep(0.05)
        start, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        share = (time.process_time() - used) / (time.perf_counter() - start)
        for op in ops:
            op.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await op
    return [Row(f"idle x{PENDING}", "cpu", 0, share * 100)]
