# SPDX-License-Identifier: BSD-3-Clause
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
"""UCXX measured as Wherry is: ``peer_ucxx.py serve CORE``, which prints its port, and
``peer_ucxx.py PORT CORE ROUNDS SIZE...``, which prints rows.

Runs in an environment of its own, where Wherry is not.  UCXX progresses in its mode "blocking", which
Dask's backend uses; of its modes it is among the fastest.
"""
import asyncio
import collections
import os
import sys
import time
from typing import Any, Deque, List

import numpy as np
import ucxx
from figures import WINDOW, Row, counts_of, flow, rounds_of, tell, timed

PEER = "UCXX"
HOST = "127.0.0.1"
WARM_UP = 5  # rounds before the first: connections are made with the first message
# What the client asks for next: [kind, size, count]; kind 2 is the end.
LATENCY, BANDWIDTH, END = range(3)


async def flow_through(call: Any, buf: Any, count: int) -> None:
    """A window of sends or receives under way."""
    ops: Deque[Any] = collections.deque()
    for _ in range(count):
        if len(ops) == WINDOW:
            await ops.popleft()
        ops.append(asyncio.ensure_future(call(buf)))
    await asyncio.gather(*ops)


async def answer(ep: Any) -> None:
    order = np.empty(3, dtype=np.int64)
    while True:
        await ep.recv(order)
        kind, size, count = map(int, order)
        if kind == END:
            break
        buf, tiny = np.zeros(size, dtype=np.uint8), np.zeros(1, dtype=np.uint8)
        if kind == LATENCY:
            for _ in range(count):
                await ep.recv(buf)
                await ep.send(buf)
            continue
        await flow_through(ep.recv, buf, count)
        await ep.send(tiny)
    await ep.close()


async def serve() -> None:
    listener = ucxx.create_listener(answer)
    print(listener.port, flush=True)
    await asyncio.Event().wait()


async def latency(ep: Any, size: int, count: int) -> List[Row]:
    await ep.send(np.array([LATENCY, size, count + WARM_UP], dtype=np.int64))
    out, into, times = np.zeros(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8), []
    for _ in range(count + WARM_UP):
        start = time.perf_counter()
        await ep.send(out)
        await ep.recv(into)
        times.append(time.perf_counter() - start)
    return [timed("async", "latency", size, times[WARM_UP:], PEER)]


async def bandwidth(ep: Any, size: int, rounds: int) -> List[Row]:
    out, tiny = np.zeros(size, dtype=np.uint8), np.zeros(1, dtype=np.uint8)
    for count in counts_of(size, rounds):  # the first is the warm-up
        await ep.send(np.array([BANDWIDTH, size, count], dtype=np.int64))
        start = time.perf_counter()
        await flow_through(ep.send, out, count)
        await ep.recv(tiny)
    return flow("async", size, count, time.perf_counter() - start, PEER)


async def measure(port: int, rounds: int, sizes: List[int]) -> None:
    ep = await ucxx.create_endpoint(HOST, port)
    rows: List[Row] = []
    for size in sizes:
        rows += await latency(ep, size, rounds_of(size, rounds))
        rows += await bandwidth(ep, size, rounds)
    await ep.send(np.array([END, 0, 0], dtype=np.int64))
    tell(rows)


def main() -> None:
    core = int(sys.argv[2])
    if core >= 0:
        os.sched_setaffinity(0, [core])
    ucxx.init(progress_mode="blocking")
    if sys.argv[1] == "serve":
        asyncio.run(serve())
    else:
        asyncio.run(measure(int(sys.argv[1]), int(sys.argv[3]), list(map(int, sys.argv[4:]))))


main()
