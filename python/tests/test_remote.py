# SPDX-License-Identifier: BSD-3-Clause
"""One-sided operations: registered memory, keys, put, get, atomics, fence, flush."""
import asyncio
import gc
import threading
import unittest
import warnings

import wherry
from kit import HOST, LIMIT, Child, LoopCase, in_thread, pair

OWNER = """
import sys, wherry
memory = wherry.alloc(1 << 20)
view = memoryview(memory)
view[:5] = b"hello"
listener = wherry.listen(None, "127.0.0.1").result()
print(listener.port, memory.key.hex())
ep = listener.accept().result()
told = bytearray(8)
for _ in range(2):
    ep.recv(told).result()
    at = int.from_bytes(told, "little")
    print(bytes(view[at:at + 5]))
"""


class Remote(LoopCase):
    async def test_put_and_get(self):
        for make in (lambda c: c.alloc(100_000), lambda c: c.register(bytearray(100_000))):
            owner = wherry.Worker()
            async with pair(None, owner) as (a, b):
                with make(owner.context) as memory, a.open_key(memory.key) as remote:
                    self.assertEqual((memory.size, len(memory), remote.size), (100_000,) * 3)
                    sent = bytes(range(256)) * 200
                    await remote.put(sent, 1000)
                    await a.flush()
                    got = bytearray(len(sent))
                    await remote.get(got, 1000)
                    self.assertEqual(got, sent)
                    await remote.get(got)
                    self.assertEqual(got, bytes(1000) + sent[:-1000])
            owner.close()

    async def test_memory_is_a_buffer(self):
        worker = wherry.worker()
        mine = bytearray(b"12345678")
        async with pair() as (a, b):
            with worker.context.alloc(8) as memory, wherry.register(mine) as registered:
                view = memoryview(memory)
                self.assertEqual((bytes(view), view.readonly), (bytes(8), False))
                with self.assertRaises(KeyError), memory:
                    raise KeyError("and not that there are views")
                view[:3] = b"abc"
                got = bytearray(3)
                await a.open_key(memory.key).get(got)
                self.assertEqual(got, b"abc")
                with self.assertRaisesRegex(BufferError, "1 views"):
                    memory.close()
                del view
                with self.assertRaisesRegex(BufferError, "was registered"):
                    memoryview(registered)
                await a.open_key(registered.key).put(b"xy", 2)
                await a.flush()
                self.assertEqual(mine, b"12xy5678")
                with self.assertRaises(BufferError):
                    mine.append(1)
            mine.append(1)

    async def test_atomics(self):
        async with pair() as (a, b):
            with wherry.alloc(16) as memory, a.open_key(memory.key) as remote:
                view = memoryview(memory).cast("Q")
                self.assertEqual(await remote.atomic("add", 8, 5), 0)
                self.assertEqual(await remote.atomic("add", 8, -2), 5)
                self.assertEqual(await remote.atomic("or", 8, 0x10), 3)
                self.assertEqual(await remote.atomic("xor", 8, 0x01), 0x13)
                self.assertEqual(await remote.atomic("and", 8, 0x1f), 0x12)
                self.assertEqual(await remote.atomic("swap", 8, -1), 0x12)
                self.assertEqual(await remote.atomic("cswap", 8, 7, compare=3), 2**64 - 1)
                self.assertEqual(await remote.atomic("cswap", 8, 7, compare=-1), 2**64 - 1)
                self.assertIsNone(await remote.atomic("add", 8, 1, fetch=False))
                await a.flush()
                self.assertEqual(view.tolist(), [0, 8])
                self.assertEqual(await remote.atomic("add", 4, 2**32 - 1, size=4), 0)
                self.assertEqual(await remote.atomic("add", 4, 1, size=4), 2**32 - 1)
                self.assertEqual(view.tolist(), [0, 8])
                for wrong in (dict(kind="mul"), dict(size=2), dict(operand=2**64),
                              dict(operand=-2**63 - 1), dict(offset=4)):
                    with self.assertRaises(ValueError):
                        await remote.atomic(**{"kind": "add", "offset": 8, "operand": 1, **wrong})
                del view

    async def test_what_is_refused(self):
        owner = wherry.Worker()
        async with pair(None, owner) as (a, b):
            memory = owner.context.register(b"read only", "r")
            remote, got = a.open_key(memory.key), bytearray(9)
            await remote.get(got)
            self.assertEqual(got, b"read only")
            with self.assertRaises(wherry.DeniedError) as caught:
                await remote.put(b"x")
                await a.flush()
            self.assertIsInstance(caught.exception, PermissionError)
            with self.assertRaises(wherry.BoundsError) as caught:
                await remote.get(got, 1)
            error = caught.exception
            self.assertIsInstance(error, IndexError)
            self.assertEqual((error.op, error.size, error.peer), ("get", 9, a.peer))
            memory.close()
            with self.assertRaises(wherry.RemoteKeyError):
                await remote.get(got)
            with self.assertRaises(wherry.RemoteKeyError):
                a.open_key(b"no key")
            for call, error, text in (
                    (lambda: owner.context.register(b"1", "rw"), TypeError, "read-only"),
                    (lambda: owner.context.alloc(0), wherry.InvalidError, "0 bytes"),
                    (lambda: owner.context.alloc(8, "x"), ValueError, "'rwa'"),
                    (lambda: owner.context.alloc(8, ""), ValueError, "'rwa'"),
                    (lambda: memory.key, wherry.ClosedError, "closed")):
                with self.assertRaisesRegex(error, text):
                    call()
            remote.close()
            remote.close()
            with self.assertRaises(wherry.ClosedError):
                remote.get(got)
        owner.close()

    async def test_a_fence_orders_a_message_behind_a_put(self):
        owner = wherry.Worker()
        async with pair(None, owner) as (a, b):
            with owner.context.alloc(1 << 20) as memory, a.open_key(memory.key) as remote:
                view, got = memoryview(memory), bytearray(1)
                for i in range(1, 20):
                    putting = remote.put(bytes([i]) * (1 << 20))
                    a.fence()
                    await asyncio.gather(putting, a.send(bytes([i])), b.recv(got))
                    self.assertEqual((view[0], view[-1]), (i, i))
                del view
        owner.close()

    async def test_another_process(self):
        with Child(OWNER) as child:
            port, key = child.line().split()
            ep = await wherry.connect(HOST, int(port))
            remote = ep.open_key(bytes.fromhex(key))
            got = bytearray(5)
            await remote.get(got)
            self.assertEqual(got, b"hello")
            for at in (0, 1_000_000):
                await remote.put(b"put %d" % (at % 7), at)
                await ep.flush()
                await ep.send(at.to_bytes(8, "little"))
                self.assertEqual(child.line(), repr(b"put %d" % (at % 7)))
            # Nobody to serve it, or to tell of it, any more.
            with self.assertRaises(wherry.Error):
                while True:
                    await remote.get(got, timeout=LIMIT)
                    await asyncio.sleep(0.001)
            ep.abort()  # a close might be told that the other process has gone, or not


class Handles(unittest.TestCase):
    def test_leaks_warn_and_other_threads_may_drop_them(self):
        worker = wherry.Worker()
        with worker.listen(None, HOST).result() as listener:
            ours = worker.connect(HOST, listener.port)
            theirs = listener.accept().result(LIMIT)
            ours = ours.result(LIMIT)
        memory = worker.context.alloc(100)
        held = [ours.open_key(memory.key)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join(LIMIT)
        held.append(ours.open_key(memory.key))
        with self.assertRaises(wherry.ThreadError):
            in_thread(held[0].close)
        worker.progress()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del memory
            gc.collect()
        self.assertIn("unclosed registered memory, made at " + __file__, str(caught[0].message))
        with self.assertRaises(wherry.RemoteKeyError):
            held[0].get(bytearray(1)).result(LIMIT)
        ours.abort()
        theirs.abort()
        worker.close()
        held.clear()  # a worker that has ended is no hindrance


if __name__ == "__main__":
    unittest.main()
