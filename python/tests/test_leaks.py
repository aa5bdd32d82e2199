# SPDX-License-Identifier: BSD-3-Clause
"""Flat memory: many messages and many endpoints leave nothing behind."""
import asyncio
import gc
import pathlib
import sys
import time
import tracemalloc
import unittest

import wherry
from kit import HOST, LIMIT, pair

MESSAGES = 1_000_000
ENDPOINTS = 10_000
TOGETHER = 100  # endpoints that are open at a time
BLOCKS = 200  # of Python's allocator that may come and go by themselves
PAGES_KB = 4096  # of the process: what malloc keeps for later


def resident_kb():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


class Flat(unittest.TestCase):
    def grows_by(self, rounds, step):
        """Runs ``await step()`` so often; what has grown since the first tenth, as a sentence."""
        async def main():
            async with pair() as (a, b):
                for _ in range(rounds // 10):
                    await step(a, b)
                before = blocks(), resident_kb()
                references = getattr(sys, "gettotalrefcount", int)()
                for _ in range(rounds - rounds // 10):
                    await step(a, b)
                after = blocks(), resident_kb()
                self.assertLess(after[0] - before[0], BLOCKS, "blocks of memory")
                self.assertLess(after[1] - before[1], PAGES_KB, "resident KiB")
                # Of a debugging interpreter only; elsewhere both are 0.
                self.assertLess(getattr(sys, "gettotalrefcount", int)() - references, 1000)
        asyncio.run(main())

    def test_a_million_messages(self):
        sent, got = b"12345678", bytearray(8)

        async def thousand(a, b):
            for _ in range(1000):
                await a.send(sent)
                await b.recv(got)
        self.grows_by(MESSAGES // 1000, thousand)

    def test_operations_of_all_kinds(self):
        big, place = bytes(20_000), bytearray(20_000)

        async def each(a, b):
            memory = wherry.alloc(64)
            remote = a.open_key(memory.key)
            cancelled = b.recv(place, 9)
            cancelled.cancel()
            await asyncio.gather(
                a.send(big, 1), b.recv(place, 1), a.send(b"x", 2, sync=True), b.recv(place, 2),
                a.send_obj([big, b"small"], 3), b.recv_obj(3), remote.put(b"12345678"),
                remote.atomic("add", 8, 1), remote.get(bytearray(8)), cancelled, a.flush(),
                return_exceptions=True)
            try:
                await asyncio.wait_for(b.recv(place, 4), 0.0001)
            except asyncio.TimeoutError:
                pass
            remote.close()
            memory.close()
        self.grows_by(500, each)

    def test_allocators(self):
        wherry.worker().set_allocator("host", lambda part: bytearray(part.size))
        self.addCleanup(lambda: wherry.worker().set_allocator("host", None))

        async def each(a, b):
            await asyncio.gather(a.send_obj([bytes(20_000), b"x"]), b.recv_obj())
        self.grows_by(500, each)

    def test_ten_thousand_endpoints(self):
        async def serve(ep):
            got = bytearray(1)
            async with ep:
                await ep.send(got[:await ep.recv(got)])

        async def one(port):
            async with await wherry.connect(HOST, port, timeout=LIMIT) as ep:
                await ep.send(b"x")
                await ep.recv(bytearray(1))

        async def main():
            async with await wherry.listen(serve, HOST) as listener:
                for done in range(0, ENDPOINTS, TOGETHER):
                    if done == ENDPOINTS // 10:
                        before = blocks(), resident_kb()
                    await asyncio.gather(*[one(listener.port) for _ in range(TOGETHER)])
                # The tasks of the last ones end when they end, on a busy machine a little later.
                patience = time.monotonic() + LIMIT
                while (wherry.worker().counters()["endpoints"] or blocks() - before[0] >= BLOCKS) \
                        and time.monotonic() < patience:
                    await asyncio.sleep(0.001)
                after = blocks(), resident_kb()
            self.assertLess(after[0] - before[0], BLOCKS, "blocks of memory")
            self.assertLess(after[1] - before[1], PAGES_KB, "resident KiB")
        asyncio.run(main())

    def test_nothing_of_a_message_stays(self):
        async def main():
            async with pair() as (a, b):
                got = bytearray(8)
                for count in (200, 2000):
                    tracemalloc.start()
                    for i in range(count):
                        op = b.recv(got, i)
                        await a.send(b"12345678", i)
                        await op
                    del op
                    gc.collect()
                    sizes.append(tracemalloc.get_traced_memory()[0])
                    tracemalloc.stop()
        sizes = []
        asyncio.run(main())
        self.assertLess(sizes[1], sizes[0] + 4096)


if __name__ == "__main__":
    unittest.main()
