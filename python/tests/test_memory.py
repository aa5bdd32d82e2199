# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of memory: what tells where it is, device memory (simulated), DLPack, allocators."""
import array
import asyncio
import ctypes
import gc
import unittest

import wherry
from kit import LoopCase, pair
from wherry import DeviceMemory


def on_device(content):
    made = DeviceMemory(len(content), "sim")
    wherry.copy_memory(made, content)
    return made


def bytes_of(memory):
    got = bytearray(len(memory))
    wherry.copy_memory(got, memory)
    return bytes(got)


# DLPack's structures, as its documentation has them.
class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManaged(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


CPU, CUDA, METAL = 1, 2, 8
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p


class Tensor:
    """Memory that only DLPack tells of: numbers of two bytes."""

    def __init__(self, address, shape, strides=None, device=CPU, offset=0, bits=16, lanes=1):
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = DLManaged(DLTensor(
            address, device, 0, len(shape), 1, bits, lanes, self.shape, self.strides, offset))

    def __dlpack__(self):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


class DLPack(LoopCase):
    async def test_contiguous_tensors_are_messages(self):
        async with pair() as (a, b):
            source, there = array.array("H", range(12)), array.array("H", bytes(16))
            await a.send(Tensor(source.buffer_info()[0], (2, 4), (4, 1), offset=8))
            got = Tensor(there.buffer_info()[0], (8,))
            self.assertEqual(await b.recv(got), 16)
            self.assertEqual(there, source[4:])
            await a.send_obj(Tensor(source.buffer_info()[0], (12,)))
            self.assertEqual(await b.recv_obj(), source.tobytes())

    async def test_what_cannot_be(self):
        async with pair() as (a, b):
            here = array.array("H", bytes(16)).buffer_info()[0]
            with self.assertRaisesRegex(ValueError, "elements of 'Tensor' overlap"):
                b.recv(Tensor(here, (2, 2), (1, 1)))
            with self.assertRaisesRegex(TypeError, "device of DLPack's type 8"):
                a.send(Tensor(here, (2,), device=METAL))
            # Two of them may be in a byte: of memory as large as that no more must be touched.
            for shape in ((8,), (4, 2)):
                with self.assertRaisesRegex(ValueError, "elements of 'Tensor' have 4 bits: only bytes can be sent"):
                    b.recv(Tensor(here, shape, bits=4))
            with self.assertRaisesRegex(ValueError, "'Tensor' has its 4 bytes at the address 0"):
                a.send(Tensor(0, (2,), offset=8))
            await a.send(Tensor(here, (8,), bits=4, lanes=2))
            self.assertEqual(await b.recv(bytearray(9)), 8)

    async def test_of_a_device(self):
        async with pair() as (a, b):
            memory = on_device(b"12345678")
            address = memory.__cuda_array_interface__["data"][0]
            got = bytearray(8)
            await asyncio.gather(b.recv(got), a.send(Tensor(address, (4,), device=CUDA)))
            self.assertEqual(got, b"12345678")


class Devices(LoopCase):
    async def test_messages(self):
        for size in (0, 8, 9000, 1_000_000):
            content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
            async with pair(None, wherry.Worker()) as (a, b):
                there = DeviceMemory(size, "sim")
                await asyncio.gather(b.recv(there), a.send(on_device(content)))
                self.assertEqual(bytes_of(there), content)
                got = bytearray(size)
                await asyncio.gather(b.recv(got), a.send(on_device(content)))
                self.assertEqual(got, content)

    async def test_one_sided(self):
        async with pair() as (a, b):
            with wherry.register(on_device(b"12345678")) as memory:
                remote = a.open_key(memory.key)
                await remote.put(on_device(b"ab"), 2)
                await a.flush()
                there = DeviceMemory(4, "sim")
                await remote.get(there, 1)
                self.assertEqual(bytes_of(there), b"2ab5")

    async def test_memory_of_the_cpu_goes_at_once_beside_a_device(self):
        there = DeviceMemory(8, "sim")
        async with pair() as (a, b):
            for op in (a.send(b"1"), a.send_obj(b"2"), a.send_obj([b"3", array.array("B", b"4")])):
                self.assertTrue(op.done())
        del there

    async def test_objects(self):
        async with pair(None, wherry.Worker()) as (a, b):
            _, got = await asyncio.gather(
                a.send_obj([on_device(b"device"), b"host"]), b.recv_obj())
            self.assertIsInstance(got[0], wherry.Frame)
            self.assertEqual((bytes_of(got[0]), got[1]), (b"device", b"host"))
            with self.assertRaisesRegex(BufferError, "on a device"):
                memoryview(got[0])
            told = got[0].__cuda_array_interface__
            self.assertEqual((told["shape"], told["typestr"]), ((6,), "|u1"))
            # What was received is sent on.
            _, again = await asyncio.gather(a.send_obj(got[0]), b.recv_obj())
            self.assertEqual(bytes_of(again), b"device")

    async def test_what_cannot_be(self):
        class Told:
            def __init__(self, **other):
                self.__cuda_array_interface__ = {
                    **on_device(b"1234").__cuda_array_interface__, **other}
        async with pair() as (a, b):
            for told, error, text in (
                    (Told(mask=object()), ValueError, "mask"),
                    (Told(strides=(2, 1)), ValueError, "1 dimensions, but 2 strides"),
                    (Told(shape=None), TypeError, "no 'shape' in its __cuda_array_interface__")):
                with self.assertRaisesRegex(error, text):
                    a.send(told)
            readonly = Told(data=(Told().__cuda_array_interface__["data"][0], True))
            with self.assertRaisesRegex(TypeError, "'Told' is read-only"):
                b.recv(readonly)
            memory = on_device(b"1234")
            below = Told(**{**memory.__cuda_array_interface__, "strides": (-1 << 30,)})
            for call in a.send, b.recv:
                with self.assertRaisesRegex(ValueError, f"elements of 'Told' lie {3 << 30} bytes before its memory"):
                    call(below)
        for call, error, text in (
                (lambda: DeviceMemory(8, "host"), ValueError, "cuda or sim"),
                (lambda: wherry.copy_memory(bytearray(1), b"12"), ValueError, "do not fit"),
                (lambda: wherry.copy_memory(b"12", b"12"), TypeError, "read-only")):
            with self.assertRaisesRegex(error, text):
                call()


class Allocators(LoopCase):
    async def test_of_the_host(self):
        worker, asked = wherry.Worker(), []

        def mine(part):
            asked.append(part)
            return array.array("B", bytes(part.size + 1))
        worker.set_allocator("host", mine)
        async with pair(None, worker) as (a, b):
            for size in (0, 5, 100_000):
                sent = bytes(range(250)) * (size // 250) + b"x" * (size % 250)
                _, got = await asyncio.gather(a.send_obj(sent, 2**64 - 1), b.recv_obj(0, 0))
                self.assertIs(type(got), array.array)
                self.assertEqual(got.tobytes(), sent + b"\0")
                self.assertEqual(asked.pop(), (size, "host", None, None, 2**64 - 1, 0, b))
            # A list, some of it given; and for any source, without a loop's help.
            place = bytearray(3)
            op = worker.recv_obj(into=[place])
            await a.send_obj([b"abc", bytes(20_000), b"d"])
            got = await op
            self.assertIs(got[0], place)
            self.assertEqual([len(part) for part in got], [3, 20_001, 2])
            self.assertEqual([part.size for part in asked], [20_000, 1])
            worker.set_allocator("host", None)
            await a.send_obj(b"as at first")
            self.assertEqual(await b.recv_obj(), b"as at first")
        worker.close()

    async def test_arrays_can_be_made(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        worker = wherry.Worker()
        worker.set_allocator("host", lambda part: numpy.empty(part.shape, part.typestr))
        async with pair(None, worker) as (a, b):
            sent = [numpy.arange(6.0).reshape(2, 3), numpy.ones((300, 300), ">i4")]
            _, got = await asyncio.gather(a.send_obj(sent), b.recv_obj())
            for was, now in zip(sent, got):
                self.assertEqual((was.dtype, was.shape), (now.dtype, now.shape))
                self.assertTrue((was == now).all())
        worker.close()

    async def test_of_a_device(self):
        worker, made = wherry.Worker(), []

        def mine(part):
            made.append(DeviceMemory(part.size, part.memory))
            return made[-1]
        worker.set_allocator("sim", mine)
        async with pair(None, worker) as (a, b):
            _, got = await asyncio.gather(
                a.send_obj([on_device(b"12"), b"host", on_device(bytes(50_000))]), b.recv_obj())
            self.assertEqual(len(made), 2)
            self.assertIs(got[0], made[0])
            self.assertIs(got[2], made[1])
            self.assertEqual((bytes_of(got[0]), got[1], bytes_of(got[2])),
                             (b"12", b"host", bytes(50_000)))
        worker.close()

    async def test_those_that_fail(self):
        def raises(part):
            raise KeyError("no memory of mine")
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            for wrong, cause, text in ((raises, KeyError, "of mine"),
                                       (lambda part: bytearray(1), ValueError, "1 bytes for"),
                                       (lambda part: bytes(99_999), TypeError, "read-only"),
                                       (lambda part: None, TypeError, "no memory")):
                worker.set_allocator("host", wrong)
                sending, op = a.send_obj(bytes(20_000)), b.recv_obj()
                with self.assertRaises(wherry.RejectedError) as caught:
                    await op
                self.assertIsInstance(caught.exception.__cause__, cause)
                self.assertRegex(str(caught.exception.__cause__), text)
                with self.assertRaises(wherry.RejectedError):
                    await sending
            with self.assertRaises(ValueError):
                worker.set_allocator("auto", raises)
            worker.set_allocator("sim", lambda part: bytearray(part.size))
            worker.set_allocator("host", None)
            sending, op = a.send_obj(on_device(b"1234")), b.recv_obj()
            with self.assertRaises(wherry.RejectedError) as caught:
                await op
            self.assertIn("host memory for sim memory", str(caught.exception.__cause__))
        worker.close()

    async def test_one_that_ends_its_endpoint(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            held = []

            def ends(part):
                b.abort()
                worker.progress()
                held.append(bytearray(part.size))
                return held[-1]
            worker.set_allocator("host", ends)
            sending, op = a.send_obj([bytes(20_000), bytes(30_000)]), b.recv_obj()
            with self.assertRaises(wherry.CancelledError):
                await op
            with self.assertRaises(wherry.PeerError):
                await sending
            held[0].append(1)  # let go of
        worker.close()

    async def test_a_sender_that_withdraws(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            def slow(part):
                sending.cancel()
                for _ in range(20):
                    a.worker.progress()
                    worker.progress()
                return bytearray(part.size)
            worker.set_allocator("host", slow)
            op = worker.recv_obj()
            sending = a.send_obj(bytes(20_000))
            results = await asyncio.gather(op, sending, return_exceptions=True)
            # Withdrawn in time or not: both ends agree, and nothing hangs.
            self.assertTrue(all(isinstance(each, BaseException) for each in results)
                            or results[1] is None, results)
        worker.close()

    async def test_the_memory_of_one_that_was_withdrawn_is_not_the_next_ones(self):
        def withdraw(part):
            sent[0].cancel()
            return bytearray(b"\xaa" * part.size)

        ways = {
            "of the receive": lambda b: dict(allocator=withdraw, threshold=4096),
            "of the endpoint": lambda b: b.set_allocator("host", withdraw, threshold=4096) or {},
            "of the worker": lambda b: b.worker.set_allocator("host", withdraw, threshold=4096) or {},
        }
        for way, set_it in ways.items():
            async with pair(None, wherry.Worker()) as (a, b):
                received = b.recv_obj(**set_it(b))
                sent = [a.send_obj([b"large", bytearray(b"l" * 300_000)])]
                while not sent[0].done():
                    await asyncio.sleep(0.001)
                await a.send_obj([b"small", bytearray(b"s" * 100)])
                came = await received
                self.assertEqual([bytes(part) for part in came], [b"small", b"s" * 100], way)


class Lifetimes(unittest.TestCase):
    def test_received_device_memory_outlives_its_worker(self):
        worker = wherry.Worker()
        with worker.listen(None, "127.0.0.1").result() as listener:
            ours = worker.connect("127.0.0.1", listener.port)
            theirs = listener.accept().result(10)
            ours = ours.result(10)
        sending = ours.send_obj(on_device(b"device"))
        got = theirs.recv_obj().result(10)
        sending.result(10)
        ours.abort()
        theirs.abort()
        worker.close()
        del worker, ours, theirs, listener, sending
        gc.collect()
        self.assertEqual(bytes_of(got), b"device")


if __name__ == "__main__":
    unittest.main()
