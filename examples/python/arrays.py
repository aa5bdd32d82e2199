# SPDX-License-Identifier: BSD-3-Clause
"""Files as numpy arrays: clients send them, the server answers each by its complement.

`arrays.py serve CLIENTS` prints its port and ends after that many clients; `arrays.py send PORT FILE...`.
A client maps its files and compares each answer with what it has sent; the server adds up how often
each byte occurs, and tells the client at the end how many bytes of all it has seen.
"""
import asyncio
import sys
import time
from typing import Any

import numpy as np

import wherry

HOST = "127.0.0.1"
END = b"end"


async def send(port: int, names: "list[str]") -> None:
    total = 0
    start = time.perf_counter()
    async with await wherry.connect(HOST, port) as ep:
        for name in names:
            data = np.memmap(name, dtype=np.uint8, mode="r")
            await ep.send_obj([b"file", data])  # one message, straight from the mapped file
            answer = await ep.recv_obj()
            if not np.array_equal(~answer, data):
                sys.exit(f"{name}: the answer is not its complement")
            total += data.nbytes
        await ep.send_obj([END])
        seen = int((await ep.recv_obj())[0])
    seconds = time.perf_counter() - start
    print(f"{len(names)} arrays, {total / 1e6:.0f} MB there and back in {seconds:.2f} s; the server has "
          f"seen {seen / 1e6:.0f} MB so far")


class Server:
    def __init__(self, clients: int) -> None:
        self.left = clients
        self.counts: Any = np.zeros(256, dtype=np.int64)
        self.done = asyncio.Event()

    async def answer(self, ep: wherry.Endpoint) -> None:
        async with ep:
            while (message := await ep.recv_obj())[0] != END:
                data = message[1]
                self.counts += np.bincount(data, minlength=256)
                await ep.send_obj(~data)
            await ep.send_obj(np.array([self.counts.sum()]))
        self.left -= 1
        if self.left == 0:
            self.done.set()


async def serve(clients: int) -> None:
    server = Server(clients)
    async with await wherry.listen(server.answer, HOST) as listener:
        print(listener.port, flush=True)
        await server.done.wait()
    print(f"{server.counts.sum()} bytes, most often {server.counts.argmax()}")


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(send(int(sys.argv[2]), sys.argv[3:]))
