# SPDX-License-Identifier: BSD-3-Clause
"""What was sent before an orderly close arrives, and its end is told behind it."""
import asyncio
import contextlib
import unittest

import wherry
from kit import LoopCase, pair

ROUNDS = 20


@contextlib.asynccontextmanager
async def three(lanes):
    """A sender's worker that can be closed, and two endpoints: its own and ours."""
    context = wherry.Context(lanes=lanes)
    far, near = wherry.Worker(context), wherry.Worker(context)
    try:
        async with pair(far, near) as both:
            yield both
    finally:
        near.close()
        far.close()


async def gone(ep):
    """Waits for the end of the peer, and of the link behind it."""
    while ep.connected:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)


class Objects(LoopCase):
    def setUp(self):
        self.asked = 0

    def give(self, part):
        self.asked += 1
        return bytearray(part.size)

    async def test_asked_for_after_the_close(self):
        for lanes in ("shm", "stream"):
            for size in (0, 100, 3000):
                async with three(lanes) as (a, b):
                    await a.send_obj([bytes(size), b"x" * size])
                    await a.close()
                    await gone(b)
                    b.worker.set_allocator("host", self.give)
                    got = await b.recv_obj()
                    self.assertEqual([bytes(part) for part in got], [bytes(size), b"x" * size])
                    with self.assertRaises(wherry.ClosedError):
                        await b.recv_obj()
        self.assertGreater(self.asked, 0)

    async def test_into_after_the_close(self):
        for lanes in ("shm", "stream"):
            async with three(lanes) as (a, b):
                await a.send_obj(b"x" * 100)
                await a.send_obj(b"y" * 100)
                await a.close()
                await gone(b)
                with self.assertRaises(wherry.TruncatedError):
                    await b.recv_obj(into=bytearray(99))
                room = bytearray(100)
                self.assertIs(await b.recv_obj(into=room), room)
                self.assertEqual(room, b"y" * 100)

    async def test_waited_for_at_the_close(self):
        for lanes in ("shm", "stream"):
            for i in range(ROUNDS):
                async with three(lanes) as (a, b):
                    b.worker.set_allocator("host", self.give)
                    size = (100, 200_000)[i % 2]
                    receive = asyncio.ensure_future(
                        self.any_or_one(b, i % 4 < 2))
                    await asyncio.sleep(0)
                    await a.send_obj(b"x" * size)
                    await a.close()
                    self.assertEqual(bytes(await receive), b"x" * size)

    @staticmethod
    async def any_or_one(ep, any_source):
        return await (ep.worker if any_source else ep).recv_obj()

    async def test_our_close_leaves_what_has_come(self):
        async with three("shm") as (a, b):
            closed = []

            def give(part):
                # Ours, too, is given up before the object has its memory.
                closed.append(b.close())
                return bytearray(part.size)
            b.worker.set_allocator("host", give)
            receive = b.recv_obj()
            await a.send_obj(b"x" * 100)
            await a.close()
            self.assertEqual(bytes(await receive), b"x" * 100)
            await closed[0]


class ActiveMessages(LoopCase):
    async def test_handled_before_the_end_is_told(self):
        for lanes in ("shm", "stream"):
            for size in (10, 20_000, 300_000):
                for waits in (False, True):
                    await self.send_and_close(lanes, size, waits)

    async def send_and_close(self, lanes, size, waits):
        seen, told = [], asyncio.get_running_loop().create_future()
        async with three(lanes) as (a, b):
            def on_am(ep, header, payload):
                self.assertEqual(len(payload), size)
                seen.append(bytes(header))

            def on_lost(error):
                seen.append(error)
                told.set_result(None)
            b.worker.set_am(7, on_am)
            b.on_lost(on_lost)
            names = [b"%d" % i for i in range(30)]
            sends = [a.am_send(7, bytes(size), name) for name in names]
            if waits:
                await asyncio.gather(*sends)
            await a.close()
            await told
            self.assertIsInstance(seen[-1], wherry.ClosedError)
            self.assertEqual(sorted(seen[:-1]), sorted(names))


if __name__ == "__main__":
    unittest.main()
