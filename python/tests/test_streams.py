# SPDX-License-Identifier: BSD-3-Clause
"""Operations behind the streams of a program's GPU library, by stream=, __cuda_array_interface__ and DLPack.

The driver is that of tests/cuda, where LD_LIBRARY_PATH leads to it, and otherwise the machine's.
"""
import asyncio
import ctypes
import unittest

import wherry
from kit import LoopCase, pair
from wherry import DeviceMemory


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise unittest.SkipTest(str(error))


class Program:
    """What a library for GPUs does: memory and a stream, in the primary context of device 0.

    What it submits happens later than a call that does not wait for it: behind some other copies.
    """

    SIZE = 50_000

    def __init__(self):
        self.cuda, self.context = driver(), ctypes.c_void_p()
        if hasattr(self.cuda, "cutest_delay"):
            self.cuda.cutest_delay(ctypes.c_uint64(1), 300)
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.stream = ctypes.c_void_p()
        self.within("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.kept = []  # freeing memory would wait for the device

    def call(self, entry, *arguments):
        if (result := getattr(self.cuda, entry)(*arguments)) != 0:
            raise RuntimeError(f"{entry}: {result}")

    def within(self, entry, *arguments):
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call(entry, *arguments)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def memory(self, byte):
        made = DeviceMemory(self.SIZE, "cuda", 0)
        wherry.copy_memory(made, bytes([byte]) * self.SIZE)
        self.kept.append(made)
        return made

    def copy(self, to, source, stream=None):
        """Submits a copy, and before it others that take their time."""
        stream, spare = ctypes.c_void_p(self.stream.value if stream is None else stream), self.memory(0)
        for each in (spare, spare, spare, to):
            self.within("cuMemcpyAsync", address(each), address(source), ctypes.c_size_t(self.SIZE), stream)

    def wait(self, stream=None):
        self.within("cuStreamSynchronize", ctypes.c_void_p(self.stream.value if stream is None else stream))

    def end(self):
        self.wait()
        if hasattr(self.cuda, "cutest_delay"):
            self.cuda.cutest_delay(ctypes.c_uint64(1), 0)


def address(memory):
    return ctypes.c_ulonglong(memory.__cuda_array_interface__["data"][0])


class Told:
    """An array that tells of itself by ``__cuda_array_interface__``, its stream too."""

    def __init__(self, memory, stream, **other):
        self.memory = memory
        self.__cuda_array_interface__ = {**memory.__cuda_array_interface__, "stream": stream, **other}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


class Packed:
    """An array by DLPack: the stream that is asked for waits for what the program has submitted, as the protocol has it."""

    def __init__(self, memory, program=None, device=2, strides=None):
        self.memory, self.program, self.device, self.asked = memory, program, device, []
        count = memory.size // 2 if strides else memory.size
        self.shape = (ctypes.c_int64 * 1)(count)
        self.strides = strides and (ctypes.c_int64 * 1)(strides)
        self.tensor = Tensor(address(memory).value, device, 0, 1, 1, 8, 1, ctypes.addressof(self.shape),
                             self.strides and ctypes.addressof(self.strides))

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        if self.program:
            event = ctypes.c_void_p()
            self.program.within("cuEventCreate", ctypes.byref(event), 2)
            self.program.within("cuEventRecord", event, self.program.stream)
            self.program.within("cuStreamWaitEvent", ctypes.c_void_p(stream or 1), event, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Of:
    """A stream of a library, under the name by which that library has its handle."""

    def __init__(self, **names):
        vars(self).update(names)


class Streams(LoopCase):
    def setUp(self):
        self.program = Program()
        self.addCleanup(self.program.end)

    async def send_behind(self, as_sent, **given):
        """Sends what the program's stream writes later, by `as_sent(memory)`."""
        program, back = self.program, bytearray(Program.SIZE)
        memory, new = program.memory(1), program.memory(2)
        async with pair() as (a, b):
            program.copy(memory, new)
            await asyncio.gather(a.send(as_sent(memory), **given), b.recv(back))
        self.assertEqual(set(back), {2})

    async def receive_behind(self, as_received, **given):
        """Receives into what the program's stream reads later."""
        program = self.program
        memory, seen, last = program.memory(1), program.memory(0), program.memory(0)
        async with pair() as (a, b):
            program.copy(seen, memory)
            await asyncio.gather(a.send(b"2" * Program.SIZE), b.recv(as_received(memory), **given))
        program.copy(last, memory)
        program.wait()
        for memory, content in (seen, 1), (last, ord("2")):
            there = bytearray(Program.SIZE)
            wherry.copy_memory(there, memory)
            self.assertEqual(set(there), {content})

    async def test_of_every_library(self):
        handle = self.program.stream.value
        for stream in (handle, self.program.stream, Of(ptr=handle), Of(cuda_stream=handle), Of(handle=self.program.stream),
                       Of(handle=handle), Of(__cuda_stream__=lambda: (0, handle)), Of(__cuda_stream__=(0, handle))):
            if stream is self.program.stream:
                stream = Of(handle=stream)
            with self.subTest(stream):
                await self.send_behind(lambda memory: memory, stream=stream)
                await self.receive_behind(lambda memory: memory, stream=stream)

    async def test_that_an_array_tells(self):
        handle = self.program.stream.value
        await self.send_behind(lambda memory: Told(memory, handle))
        await self.receive_behind(lambda memory: Told(memory, handle))
        # What is given says more than what the array does.
        await self.send_behind(lambda memory: Told(memory, 1), stream=handle)

    async def test_of_dlpack(self):
        handle = self.program.stream.value
        packed = []

        def pack(memory, **other):
            packed.append(Packed(memory, self.program, **other))
            return packed[-1]

        await self.send_behind(pack)
        await self.receive_behind(pack)
        await self.send_behind(lambda memory: pack(memory, device=13))
        await self.send_behind(pack, stream=handle)
        self.assertEqual([each.asked for each in packed], [[1], [1], [1], [handle]])
        # Half of the elements, by their strides.
        memory, back = self.program.memory(0), bytearray(Program.SIZE // 2)
        wherry.copy_memory(memory, b"xy" * (Program.SIZE // 2))
        async with pair() as (a, b):
            await asyncio.gather(a.send(Packed(memory, self.program, strides=2)), b.recv(back))
        self.assertEqual(set(back), {ord("x")})

    async def test_default_streams(self):
        program, back = self.program, bytearray(Program.SIZE)
        for number, told in (1, 1), (1, 0), (2, 2):
            memory, new = program.memory(1), program.memory(2)
            async with pair() as (a, b):
                program.copy(memory, new, number)
                await asyncio.gather(a.send(memory, stream=told), b.recv(back))
                self.assertEqual(set(back), {2}, (number, told))
                program.copy(memory, program.memory(3), number)
                await asyncio.gather(a.send(Told(memory, told)), b.recv(back))
                self.assertEqual(set(back), {3}, (number, told))
            program.wait(number)

    async def test_objects(self):
        program, handle = self.program, self.program.stream.value
        for given, how in (handle, lambda memory: memory), (None, lambda memory: Told(memory, handle)):
            memory, new = program.memory(1), program.memory(2)
            into, seen = program.memory(3), program.memory(0)
            async with pair() as (a, b):
                program.copy(memory, new)
                program.copy(seen, into)
                _, got = await asyncio.gather(a.send_obj([b"head", how(memory)], stream=given),
                                              b.recv_obj(into=[None, how(into)], stream=given))
            program.wait()
            for each, content in (into, 2), (seen, 3):
                there = bytearray(Program.SIZE)
                wherry.copy_memory(there, each)
                self.assertEqual(set(there), {content})
            self.assertEqual(got[0], b"head")

    async def test_put_get_am(self):
        program, stream = self.program, self.program.stream.value
        got = asyncio.Queue()
        async with pair() as (a, b):
            b.worker.set_am(7, lambda ep, header, payload: got.put_nowait(bytes(payload)))
            memory, new = program.memory(1), program.memory(2)
            program.copy(memory, new)
            await a.am_send(7, memory, stream=stream)
            self.assertEqual(set(await asyncio.wait_for(got.get(), 20)), {2})
            with b.worker.context.alloc(Program.SIZE) as target, a.open_key(target.key) as remote:
                program.copy(memory, program.memory(4))
                await remote.put(memory, stream=stream)
                await a.flush()
                self.assertEqual(set(bytes(target)), {4})
                seen = program.memory(0)
                wherry.copy_memory(memory, b"5" * Program.SIZE)
                program.copy(seen, memory)
                await remote.get(memory, stream=stream)
                program.wait()
                for each, content in (memory, 4), (seen, ord("5")):
                    there = bytearray(Program.SIZE)
                    wherry.copy_memory(there, each)
                    self.assertEqual(set(there), {content})

    async def test_what_is_refused(self):
        memory, handle = self.program.memory(1), self.program.stream.value
        async with pair() as (a, b):
            for wrong in ("1", 1.5, True, -1, object(), 1 << 64, Of(ptr=-1), Of(ptr=""), Of(handle=[]),
                          *(Of(__cuda_stream__=told) for told in ((), (0,), {}, 5, (0, -1), lambda: (0,)))):
                for buf in memory, b"bytes":
                    with self.subTest(wrong), self.assertRaisesRegex(TypeError, "stream is .*: give a stream of cupy"):
                        a.send(buf, stream=wrong)
            with self.assertRaisesRegex(ValueError, "several streams .* give it as stream="):
                a.send_obj([Told(memory, 1), Told(memory, handle)])
            await asyncio.gather(a.send_obj([Told(memory, 1), Told(memory, handle)], stream=1), b.recv_obj())
            with self.assertRaisesRegex(TypeError, "device of DLPack's type 10"):
                a.send(Packed(memory, device=10))
            # Nothing is left of what was refused.
            await asyncio.gather(a.send(b"end"), b.recv(bytearray(3)))
