# SPDX-License-Identifier: BSD-3-Clause
"""Memory of received objects: whose it is, how long it stays, who is asked for it and when."""
import asyncio
import gc
import pathlib
import unittest

import wherry
from kit import HOST, LIMIT, LoopCase, in_thread, pair

MB = 1 << 20


def resident():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) << 10


def worker_of(**options):
    return wherry.Worker(wherry.Context(**options))


class Parts(LoopCase):
    async def test_one_does_not_keep_the_others(self):
        worker, sent = worker_of(pool_max="0"), [bytearray(b"x" * 16 * MB) for _ in range(4)]
        async with pair(None, worker) as (a, b):
            _, got = await asyncio.gather(a.send_obj(sent), b.recv_obj())
            del sent
            await asyncio.sleep(0)  # whoever steps this task has the operation in its hands
            before = resident()
            kept = got[1]
            del got
            gc.collect()
            self.assertGreater(before - resident(), 40 * MB)
            self.assertEqual(bytes(kept[-3:]), b"xxx")
        worker.close()

    async def test_they_outlive_their_worker(self):
        worker, content = worker_of(), bytes(range(256)) * (3 * MB // 256)
        async with pair(None, worker) as (a, b):
            _, got = await asyncio.gather(
                a.send_obj([bytearray(content), b"small", bytearray(b"inside")]), b.recv_obj())
        worker.close()
        del worker, a, b
        gc.collect()
        self.assertEqual(bytes(got[0]), content)
        self.assertEqual((got[1], bytes(got[2])), (b"small", b"inside"))
        got[0][0] = 1
        in_thread(got.clear)  # and it is freed by whoever has it

    async def test_memory_is_used_again(self):
        worker = worker_of(pool_max="64M", pool_idle="1h")
        async with pair(None, worker) as (a, b):
            places = set()
            for _ in range(5):
                _, got = await asyncio.gather(a.send_obj(bytearray(8 * MB)), b.recv_obj())
                places.add(address_of(got))
                del got
            self.assertEqual(len(places), 1)
        worker.close()

    async def test_what_is_idle_is_given_back(self):
        worker = worker_of(pool_idle="20ms")
        async with pair(None, worker) as (a, b):
            _, got = await asyncio.gather(a.send_obj(bytearray(64 * MB)), b.recv_obj())
            before = resident()
            del got
            while before - resident() < 40 * MB:
                await asyncio.sleep(0.01)
        worker.close()


def address_of(memory):
    import ctypes
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Allocators(LoopCase):
    async def test_the_nearest_is_asked(self):
        worker, asked = wherry.Worker(), []

        def of(name):
            def allocate(part):
                asked.append((name, part.index, part.size, part.tag, part.endpoint))
                return bytearray(part.size)
            return allocate
        worker.set_allocator("host", of("worker"))
        async with pair(None, worker) as (a, b):
            async def exchange(ep=b, **options):
                asked.clear()
                sent = [b"x" * 10, b"y" * 20_000]
                _, got = await asyncio.gather(a.send_obj(sent, 5), ep.recv_obj(5, **options))
                self.assertEqual([bytes(part) for part in got], sent)
                return [each[:2] for each in asked]
            self.assertEqual(await exchange(), [("worker", 0), ("worker", 1)])
            self.assertEqual(asked[1][2:], (20_000, 5, b))
            b.set_allocator("host", of("endpoint"), threshold=100)
            self.assertEqual(await exchange(), [("endpoint", 1)])
            own = of("receive")
            self.assertEqual(await exchange(allocator=own), [("receive", 0), ("receive", 1)])
            self.assertEqual(await exchange(worker, allocator=own, threshold=20_001), [])
            self.assertEqual(await exchange(worker, allocator=own, threshold=20_000),
                             [("receive", 1)])
            self.assertEqual(await exchange(worker), [("endpoint", 1)])
            self.assertEqual(await exchange(into=[None, bytearray(20_000)]), [])
            b.set_allocator("host", None)
            self.assertEqual(await exchange(), [("worker", 0), ("worker", 1)])
            worker.set_allocator("host", None)
            self.assertEqual(await exchange(), [])
            for wrong, error in (({"allocator": 5}, TypeError),
                                 ({"allocator": own, "threshold": -1}, ValueError),
                                 ({"allocator": own, "threshold": 0.5}, TypeError)):
                with self.assertRaises(error):
                    b.recv_obj(**wrong)
            with self.assertRaises(TypeError):
                b.set_allocator("host", "no function")
            with self.assertRaises(ValueError):
                b.set_allocator("auto", own)
        with self.assertRaises(wherry.ClosedError):
            b.set_allocator("host", own)
        worker.close()

    async def test_a_spin_hands_the_question_over(self):
        worker = worker_of(progress="spin", spin_us="2000")
        worker.set_allocator("host", lambda part: bytearray(part.size))
        at_once = 0
        async with pair(None, worker) as (a, b):
            for _ in range(100):
                await asyncio.sleep(0.001)
                turns = []  # noted before any step that the loop takes from here on
                asyncio.get_running_loop().call_soon(turns.append, 1)
                await a.send_obj(b"x" * 100)
                self.assertEqual(await b.recv_obj(), b"x" * 100)
                at_once += not turns
        worker.close()
        self.assertGreater(at_once, 5)

    async def test_one_that_is_taken_away_while_it_is_asked(self):
        worker, asked = wherry.Worker(), []

        def only_once(part):
            asked.append(part)
            worker.set_allocator("host", None)
            worker.set_allocator("sim", None)
            return bytearray(part.size)
        worker.set_allocator("host", only_once)
        worker.set_allocator("sim", only_once)
        there = wherry.DeviceMemory(4, "sim")
        wherry.copy_memory(there, b"data")
        async with pair(None, worker) as (a, b):
            sent = [b"one", bytearray(b"two"), b"x" * 20_000, bytearray(b"y" * 20_000), there]
            _, got = await asyncio.gather(a.send_obj(sent), b.recv_obj())
            self.assertEqual([bytes(part) for part in got[:4]], [bytes(part) for part in sent[:4]])
            self.assertEqual([type(part) for part in got],
                             [bytearray, memoryview, bytes, memoryview, wherry.Frame])
            copy = bytearray(4)
            wherry.copy_memory(copy, got[4])
            self.assertEqual(copy, b"data")
        self.assertEqual(len(asked), 1)
        worker.close()


class WithoutALoop(unittest.TestCase):
    def test_an_allocator_that_ends_the_program(self):
        def leave(part):
            raise SystemExit(3)
        with wherry.Worker() as worker:
            listener = worker.listen(None, HOST).result(LIMIT)
            with listener:
                a = worker.connect(HOST, listener.port).result(LIMIT)
                b = listener.accept().result(LIMIT)
                worker.set_allocator("host", leave)
                sending, op = a.send_obj(bytes(20_000)), b.recv_obj()
                with self.assertRaises(SystemExit):
                    op.result(LIMIT)
                # Nobody will answer any more.
                with self.assertRaises(wherry.RejectedError):
                    op.result(LIMIT)
                with self.assertRaises(wherry.RejectedError):
                    sending.result(LIMIT)
                a.abort()
                b.abort()
