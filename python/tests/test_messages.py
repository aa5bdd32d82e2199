# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two endpoints: sizes, tags, kinds of buffers, objects, active messages."""
import array
import asyncio
import unittest

import wherry
from kit import LIMIT, LoopCase, in_thread, pair

SIZES = (0, 1, 8, 1000, 8192, 8193, 65536, 1 << 20, 5_000_001)


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


class Tagged(LoopCase):
    async def test_sizes(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for size in SIZES:
                sent, got = pattern(size), bytearray(size + 3)
                count, _ = await asyncio.gather(b.recv(got), a.send(sent))
                self.assertEqual(count, size)
                self.assertEqual(got, sent + bytes(3))
            self.assertEqual(a.counters()["sent_messages"], len(SIZES))

    async def test_order_and_write_before_read(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for i in range(300):
                await a.send(i.to_bytes(4, "little"))
            got = bytearray(4)
            for i in range(300):
                self.assertEqual(await b.recv(got), 4)
                self.assertEqual(int.from_bytes(got, "little"), i)

    async def test_tags_and_masks(self):
        async with pair() as (a, b):
            for tag in (1, 2, 0x102, 2**64 - 1):
                await a.send(b"%d" % tag, tag)
            got = bytearray(32)
            op = b.recv(got, 0x02, 0xff)
            self.assertEqual(got[:await op], b"2")
            self.assertEqual(op.tag, 2)
            self.assertIs(op.source, b)
            for tag in (2**64 - 1, 0x102, 1):
                self.assertEqual(got[:await b.recv(got, tag)], b"%d" % tag)
            with self.assertRaises(ValueError):
                b.recv(got, -1)
            with self.assertRaises(ValueError):
                a.send(got, 2**64)

    async def test_any_source(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b), pair(None, worker) as (c, d):
            got = bytearray(8)
            op = worker.recv(got, 7)
            await c.send(b"from c", 7)
            self.assertEqual(got[:await op], b"from c")
            self.assertIs(op.source, d)
            await a.send(b"from a", 7)
            op = worker.recv(got, 0, 0)
            await op
            self.assertIs(op.source, b)

    async def test_truncation_harms_nobody(self):
        async with pair() as (a, b):
            await a.send(b"too long", 5)
            await a.send(b"next", 5)
            got = bytearray(4)
            with self.assertRaises(wherry.TruncatedError) as caught:
                await b.recv(got, 5)
            error = caught.exception
            self.assertEqual((error.status, error.op, error.size),
                             (wherry.Status.ETRUNCATED, "recv", 8))
            self.assertIsNotNone(error.peer)
            self.assertIn("buffer", error.hint)
            self.assertEqual(got, b"too ")
            self.assertEqual(await b.recv(got, 5), 4)
            self.assertEqual(got, b"next")

    async def test_probe(self):
        async with pair() as (a, b):
            self.assertIsNone(b.probe(3))
            await a.send(b"12345", 3)
            while (found := b.probe(3)) is None:
                await asyncio.sleep(0)
            self.assertEqual(found, (5, 3, b))
            self.assertEqual(b.worker.probe(0, 0).size, 5)
            await b.recv(bytearray(5), 3)
            self.assertIsNone(b.probe(3))

    async def test_probe_obj(self):
        for size in (5, 3_000_000):
            with self.subTest(size):
                async with pair() as (a, b):
                    self.assertIsNone(b.probe_obj(3))
                    sending = a.send_obj([bytes(size)], 3)
                    while (found := b.probe_obj(3)) is None:
                        await asyncio.sleep(0)
                    self.assertEqual(found, (3, b))
                    self.assertEqual(b.worker.probe_obj(0, 0), (3, b))
                    self.assertIsNone(b.probe_obj(4))
                    self.assertIsNone(b.probe(3))
                    self.assertEqual(bytes((await b.recv_obj(3))[0]), bytes(size))
                    await sending
                    self.assertIsNone(b.worker.probe_obj(0, 0))

    async def test_take(self):
        async with pair(None, wherry.Worker()) as (a, b):
            self.assertIsNone(b.take(3))
            for i in range(4):
                await a.send(b"%d" % i * 5, 3)
            await a.flush()
            first, second = b.take(3), b.worker.take(0, 0)
            self.assertEqual((first.size, first.tag, first.source), (5, 3, b))
            got = bytearray(5)
            await b.recv(got, 3)  # what was taken is no other receive's
            self.assertEqual(got, b"22222")
            self.assertEqual(await second.recv(got), 5)
            self.assertEqual(got, b"11111")
            first.drop()
            for gone in (first, second):
                gone.drop()
                with self.assertRaises(wherry.ClosedError):
                    gone.recv(got)
            with self.assertRaises(wherry.TruncatedError):
                await b.take(3).recv(bytearray(1))
            # A large one is still with its sender, who hears that it was dropped with the object.
            sending = a.send(bytes(100_000), 4)
            while (large := b.take(4)) is None:
                await asyncio.sleep(0)
            self.assertFalse(sending.done())
            held = [large]
            del large
            with self.assertRaises(wherry.ThreadError):
                in_thread(held[0].drop)
            in_thread(held.clear)
            await sending

    async def test_sync_send_waits_for_the_match(self):
        async with pair() as (a, b):
            op = a.send(b"x", sync=True)
            await asyncio.sleep(0.02)
            self.assertFalse(op.done())
            await b.recv(bytearray(1))
            await op

    async def test_flush(self):
        async with pair(None, wherry.Worker()) as (a, b):
            await a.send(b"x")
            await a.flush()
            self.assertIsNotNone(b.probe())

    async def test_timeout_of_an_operation(self):
        async with pair() as (a, b):
            with self.assertRaises(TimeoutError) as caught:
                await b.recv(bytearray(1), timeout=0.01)
            self.assertIsInstance(caught.exception, wherry.TimedOutError)
            await a.send(b"x")
            await b.recv(bytearray(1))
            with self.assertRaises(ValueError):
                b.recv(bytearray(1), timeout=-1)


class Buffers(LoopCase):
    async def test_kinds(self):
        async with pair() as (a, b):
            for sent in (b"12345678", bytearray(b"12345678"), memoryview(b"12345678"),
                         array.array("i", [1, 2]), memoryview(b"0123456789")[1:9]):
                got = array.array("q", [0])
                await a.send(sent)
                self.assertEqual(await b.recv(got), 8)
                self.assertEqual(got.tobytes(), bytes(sent))

    async def test_what_cannot_be(self):
        released = memoryview(bytearray(4))
        released.release()
        async with pair() as (a, b):
            for call, error, text in (
                    (lambda: b.recv(b"1"), TypeError, "read-only"),
                    (lambda: a.send(released), ValueError, "released memoryview"),
                    (lambda: b.recv(released), ValueError, "released memoryview"),
                    (lambda: a.send(None), TypeError, "'NoneType'"),
                    (lambda: a.send("text"), TypeError, "'str'"),
                    (lambda: a.send_obj([b"", 3]), TypeError, "'int'")):
                with self.assertRaisesRegex(error, text):
                    call()

    async def test_interfaces(self):
        class Told:
            def __init__(self, memory, strides=None, readonly=False):
                self.memory = memory
                address = array.array("B", memory) if readonly else memory
                self.__array_interface__ = {
                    "version": 3, "data": (address.buffer_info()[0], readonly),
                    "shape": (len(address),), "typestr": "|u1", "strides": strides}
                self.address = address

        async with pair() as (a, b):
            there = array.array("B", b"........")
            await a.send(Told(array.array("B", b"12345678")))
            await b.recv(Told(there))
            self.assertEqual(there.tobytes(), b"12345678")
            every_other = Told(there, strides=(2,))
            every_other.__array_interface__["shape"] = (4,)
            await a.send(every_other)
            got = bytearray(4)
            await b.recv(got)
            self.assertEqual(got, b"1357")
            with self.assertRaisesRegex(TypeError, "read-only"):
                b.recv(Told(there, readonly=True))
            for shape in ((-1,), (-1, -8), (1 << 62, 4), (1 << 64,)):
                lying = Told(there)
                lying.__array_interface__["shape"] = shape
                with self.assertRaisesRegex(ValueError, "Told' is .*: 0 to "):
                    b.recv(lying)

    async def test_the_buffer_is_held_until_the_end(self):
        async with pair() as (a, b):
            got = bytearray(4)
            op = b.recv(got)
            with self.assertRaises(BufferError):
                got.append(1)
            await a.send(b"1234")
            await op
            got.append(1)
            self.assertEqual(got, b"1234\1")


    async def test_a_buffer_that_starts_operations_when_it_is_asked(self):
        class Nosy:
            @property
            def __array_interface__(self):
                other.append(a.send(b"other", 2, timeout=LIMIT))
                return {"version": 3, "data": (own.buffer_info()[0], False), "shape": (3,),
                        "typestr": "|u1"}

        async with pair(None, wherry.Worker()) as (a, b):
            own, other, got = array.array("B", b"own"), [], bytearray(8)
            own_op = a.send(Nosy(), 1, sync=True)
            self.assertEqual(got[:await b.recv(got, 2)], b"other")
            await other[0]
            self.assertFalse(own_op.done())
            self.assertEqual(got[:await b.recv(got, 1)], b"own")
            await own_op


class Objects(LoopCase):
    async def test_what_arrives_is_what_was_sent(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for size in SIZES:
                sent = pattern(size)
                for obj in (sent, bytearray(sent)):
                    _, got = await asyncio.gather(a.send_obj(obj, 9), b.recv_obj(9))
                    self.assertEqual(bytes(got), sent)
                    self.assertIs(type(got), bytes if type(obj) is bytes else memoryview)
            _, got = await asyncio.gather(
                a.send_obj([b"a", bytearray(100_000), b""]), b.recv_obj())
            self.assertEqual(got, [b"a", memoryview(bytes(100_000)), b""])
            _, got = await asyncio.gather(a.send_obj([]), b.recv_obj())
            self.assertEqual(got, [])

    async def test_received_memory_can_be_written(self):
        async with pair() as (a, b):
            await a.send_obj(bytearray(10))
            got = await b.recv_obj()
            got[0] = 1
            self.assertEqual(got.tobytes(), b"\1" + bytes(9))

    async def test_into(self):
        async with pair() as (a, b):
            place = bytearray(6)
            await a.send_obj([b"123456", b"rest"])
            got = await b.recv_obj(into=[place])
            self.assertIs(got[0], place)
            self.assertEqual((bytes(place), got[1]), (b"123456", b"rest"))
            await a.send_obj(bytes(7))
            with self.assertRaises(wherry.TruncatedError):
                await b.recv_obj(into=place)

    async def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        sent = [numpy.arange(6.0).reshape(2, 3), numpy.array(["2020-01-01"], "M8[D]"),
                numpy.zeros(2, [("x", "i4"), ("y", "f8", (2,))]), numpy.array(3, "i8"),
                numpy.ones(100_000, "f4"), numpy.zeros((0, 4))]
        async with pair(None, wherry.Worker()) as (a, b):
            _, got = await asyncio.gather(a.send_obj(sent), b.recv_obj())
            for was, now in zip(sent, got):
                self.assertEqual((was.dtype, was.shape), (now.dtype, now.shape))
                self.assertTrue((was == now).all())
            with self.assertRaisesRegex(TypeError, "Python objects"):
                a.send_obj(numpy.array([{}]))
            whole = numpy.zeros((2, 3))
            await a.send_obj(sent[0])
            self.assertIs(await b.recv_obj(into=whole), whole)
            self.assertTrue((whole == sent[0]).all())

    async def test_numpy_keeps_padding(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("numpy is not installed")
        part = np.dtype({"names": ["p", "q"], "formats": ["u1", "i4"], "offsets": [2, 4],
                         "itemsize": 10})
        kinds = [np.dtype([("a", "u1"), ("b", "f8")], align=True), part,
                 np.dtype([("a", part, (2,)), ("b", "S3")])]
        async with pair(None, wherry.Worker()) as (a, b):
            for kind in kinds:
                await a.send_obj(np.zeros(3, kind))
                made = await b.recv_obj()
                self.assertEqual((made.dtype, made.shape), (kind, (3,)))

    async def test_numpy_types_that_a_peer_must_not_choose(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("numpy is not installed")
        # Sizes that wrap as C ints, pointers, and more elements than can be gone through.
        hostile = [("[('a','S2147483600'),('b','i8'),('c','V2147483600')]", (1,)),
                   ("[('a',[('b','S2147483600'),('c','i8'),('d','V2147483600')])]", (1,)),
                   ("[('a','O')]", (1,)), ("O", (1,)),
                   ("[('a',())]", (1,)), ("[1]", (1,)), ("[('a','f8'),('a','f8')]", (1,)),
                   ("V0", (2**62,)), ("[('a','V0')]", (2**40,)), ("S0", (2**31, 2**31))]

        class Foe:
            def __init__(self, kind, shape):
                self.__array_interface__ = {
                    **self.memory.__array_interface__, "typestr": Told(kind), "shape": shape,
                    "strides": None}
            memory = np.zeros(16, "u1")

        class Told(str):
            """A type whose size is told as that of the memory, so that it can be sent."""
            def __getitem__(self, at):
                size = "0" if self in ("V0", "S0", "[('a','V0')]") else "16"
                return size if at == slice(2, None) else str.__getitem__(self, at)
        async with pair(None, wherry.Worker()) as (a, b):
            for kind, shape in hostile:
                with self.subTest(kind=kind):
                    await a.send_obj(Foe(kind, shape))
                    with self.assertRaises(wherry.ProtocolError):
                        await b.recv_obj()

    async def test_objects_and_messages_are_apart(self):
        async with pair() as (a, b):
            await a.send_obj(b"object")
            self.assertIsNone(b.probe())
            self.assertIsNone(b.take())
            got = bytearray(8)
            op = b.recv(got)
            await a.send(b"message")
            self.assertEqual(got[:await op], b"message")
            await a.send(b"message")
            self.assertEqual(await b.recv_obj(), b"object")
            op = b.recv_obj()
            await asyncio.sleep(0.01)
            self.assertFalse(op.done())
            op.cancel()

    async def test_a_list_is_one_message(self):
        async with pair() as (a, b):
            await a.send_obj([b"x"] * 50)
            self.assertEqual(a.counters()["sent_messages"], 1)
            self.assertEqual(len(await b.recv_obj()), 50)


class ActiveMessages(LoopCase):
    async def test_handlers(self):
        server = wherry.Worker()
        async with pair(None, server) as (a, b):
            came, all_here = [], asyncio.Event()

            def plain(ep, header, payload):
                came.append((ep, header, bytes(payload)))

            async def slow(ep, header, payload):
                await asyncio.sleep(0)
                plain(ep, header, payload)
                all_here.set()
            server.set_am(1, plain)
            server.set_am(2, slow)
            big = pattern(100_000)
            await a.am_send(1, b"data", b"head")
            await a.am_send(1)
            await a.am_send(3, b"nobody wants it")
            await a.am_send(2, big, b"big")
            await all_here.wait()
            self.assertEqual(came, [(b, b"head", b"data"), (b, b"", b""), (b, b"big", big)])
            server.set_am(1, None)
            with self.assertRaises(wherry.InvalidError):
                a.am_send(1, b"", bytes(1025))


if __name__ == "__main__":
    unittest.main()
