# SPDX-License-Identifier: BSD-3-Clause
"""Memory of CUDA devices: of a library that comes after the worker, Wherry's own.

The driver is that of tests/cuda, where LD_LIBRARY_PATH leads to it, and otherwise the machine's.
"""
import asyncio
import ctypes
import unittest

import wherry
from kit import ArrayOnDevice, LoopCase, pair
from test_charm import ON_DEVICES, Jobs
from wherry import DeviceMemory

SIZE = 100_000


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise unittest.SkipTest(str(error))


class Array:
    """An array of another library, which has allocated it through the driver."""

    def __init__(self, cuda, size):
        self.cuda, self.address = cuda, ctypes.c_ulonglong()
        self.call(cuda.cuMemAlloc_v2, ctypes.byref(self.address), ctypes.c_size_t(size))
        self.__cuda_array_interface__ = {"version": 3, "data": (self.address.value, False),
                                         "strides": None, "typestr": "|u1", "shape": (size,)}

    def call(self, entry, *arguments):
        if (result := entry(*arguments)) != 0:
            raise RuntimeError(f"{entry.__name__}: {result}")

    def free(self):
        self.call(self.cuda.cuMemFree_v2, self.address)


class Foreign(LoopCase):
    # The first test here: nothing has asked for CUDA before.
    async def test_a_library_that_comes_later(self):
        content = bytes(range(256)) * (SIZE // 256)
        async with pair() as (a, b):
            _, got = await asyncio.gather(a.send_obj(content), b.recv_obj())
            self.assertEqual(got, content)
            cuda, context = driver(), ctypes.c_void_p()
            for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                           cuda.cuCtxPushCurrent_v2(context)):
                self.assertEqual(result, 0)
            array, back = Array(cuda, len(content)), bytearray(len(content))
            await asyncio.gather(a.send(content), b.recv(array))
            await asyncio.gather(a.send(array), b.recv(back))
            self.assertEqual(back, content)
            array.free()


class Own(LoopCase):
    async def test_frames_stay_on_a_device(self):
        driver()
        source = DeviceMemory(SIZE, "cuda", 0)
        wherry.copy_memory(source, bytes(SIZE - 1) + b"x")
        async with pair() as (a, b):
            _, got = await asyncio.gather(a.send_obj([b"head", source]), b.recv_obj())
            self.assertIn("__cuda_array_interface__", dir(got[1]))
            back = bytearray(SIZE)
            self.assertEqual(wherry.copy_memory(back, got[1]), SIZE)
            self.assertEqual(back[-2:], b"\0x")

    async def test_strides(self):
        driver()
        memory = DeviceMemory(4000, "cuda", 0)
        wherry.copy_memory(memory, bytes(4000))
        columns = ArrayOnDevice(memory, (250, 3), (16, 4), 2)  # of eight, the second, the fourth and the sixth
        content = bytes(range(1, 251)) * 6
        async with pair() as (a, b):
            await asyncio.gather(a.send(content), b.recv(columns))
            there, back = bytearray(4000), bytearray(1500)
            wherry.copy_memory(there, memory)
            self.assertEqual(b"".join(there[16 * i + at:16 * i + at + 2] for i in range(250) for at in (2, 6, 10)),
                             content)
            self.assertEqual(there.count(0), 2500)
            await asyncio.gather(a.send(columns), b.recv(back))
            self.assertEqual(back, content)

    def test_what_cannot_be(self):
        driver()
        with self.assertRaisesRegex(wherry.NotFoundError, "no device 1000"):
            DeviceMemory(1, "cuda", 1000)


class Channels(Jobs):
    def test_arrays_stay_on_devices(self):
        driver()
        self.good(ON_DEVICES.replace("KIND", "'cuda'"), "True\n[0, 0]\n", n=(1, 2))
