# SPDX-License-Identifier: BSD-3-Clause
"""Round trips of a comm of distributed between two processes: echo.py PROTOCOL prints JSON, microseconds by message."""
import asyncio
import importlib.util
import json
import multiprocessing
import statistics
import sys
import time

import numpy as np
from distributed.comm import connect, listen
from distributed.protocol import to_serialize

if importlib.util.find_spec("wherry"):
    import wherry.dask  # noqa: F401  takes ucx:// over where nothing else has it

WORDS = 1 << 17  # of 8 bytes: 1 MiB
MESSAGES = {"ping": (0, 1000), "1 MiB": (WORDS, 150), "16 MiB": (16 * WORDS, 20), "200 MB": (25_000_000, 10)}


async def serve(protocol, addresses):
    over = asyncio.Event()

    async def echo(comm):
        message = await comm.read()
        while message["op"] != "stop":
            if "x" in message:
                message["x"] = to_serialize(message["x"])
            await comm.write(message)
            message = await comm.read()
        over.set()
    listener = await listen(f"{protocol}://127.0.0.1:0", echo)
    addresses.put(listener.contact_address)
    await over.wait()
    listener.stop()


def server(protocol, addresses):
    asyncio.run(serve(protocol, addresses))


async def measure(address):
    comm = await connect(address)
    medians = {}
    for name, (words, rounds) in MESSAGES.items():
        message = {"op": "ping"}
        if words:
            message["x"] = to_serialize(np.ones(words))
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            await comm.write(message)
            await comm.read()
            times.append(time.perf_counter() - begin)
        medians[name] = statistics.median(times) * 1e6
    await comm.write({"op": "stop"})
    await comm.close()
    return medians


def main():
    spawn = multiprocessing.get_context("spawn")
    addresses = spawn.Queue()
    process = spawn.Process(target=server, args=(sys.argv[1], addresses), daemon=True)
    process.start()
    print(json.dumps(asyncio.run(measure(addresses.get(timeout=60)))))
    process.join(10)


if __name__ == "__main__":
    main()
