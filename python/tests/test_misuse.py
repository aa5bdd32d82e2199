# SPDX-License-Identifier: BSD-3-Clause
"""What must not be: it raises, and does not crash or go wrong later."""
import array
import asyncio
import ctypes
import pathlib
import unittest

import wherry
from kit import HOST, LoopCase, pair, run_child

# Every class of the module, made in all ways that Python has; then every method of what was made.
MAKES = """
import copy, wherry._core as core
for name, made in sorted(vars(core).items()):
    if not isinstance(made, type) or made.__module__ != "wherry._core":
        continue
    if name in ("Context", "Worker", "DeviceMemory", "Cursor", "Accumulator", "View"):
        continue
    if issubclass(made, tuple) or "__dict__" in dir(made) or issubclass(made, Exception):
        continue
    for how in (made, lambda: made.__new__(made), lambda: type("Sub", (made,), {})()):
        try:
            how()
        except TypeError:
            continue
        raise SystemExit(f"a {name} was made")
    print(name)
"""


class Making(unittest.TestCase):
    def test_classes_that_only_functions_make(self):
        code, out, err = run_child(MAKES)
        self.assertEqual(code, 0, err)
        names = out.split()
        for name in ("Endpoint", "Frame", "Listener", "Message", "Request", "Type"):
            self.assertIn(name, names)


class Arguments(LoopCase):
    async def test_handlers_that_cannot_be_called(self):
        with self.assertRaisesRegex(TypeError, "accept: 5"):
            wherry.Worker(accept=5)
        async with pair() as (a, b):
            with self.assertRaisesRegex(TypeError, "set_am: 5"):
                a.worker.set_am(1, 5)
            with self.assertRaisesRegex(TypeError, "on_lost: 5"):
                a.on_lost(5)

    async def test_zero_bytes(self):
        for name, call in {
                "host": lambda: wherry.listen(None, HOST + "\0.example"),
                "host ": lambda: wherry.connect(HOST + "\0.example", 1),
                "secret": lambda: wherry.connect(HOST, 1, secret=b"a\0b"),
                "option credit": lambda: wherry.Context(credit="1M\0junk"),
                "an option's name": lambda: wherry.Context(**{"credit\0": "1M"}),
                "level": lambda: wherry.set_log_level("warn\0"),
                "memory": lambda: wherry.DeviceMemory(1, "sim\0"),
                "memory ": lambda: wherry.worker().set_allocator("host\0", bytearray)}.items():
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, "zero byte") as caught:
                call()
            self.assertIn(name.strip(), str(caught.exception))

    async def test_options_that_are_bytes(self):
        context = wherry.Context(secret=b"abc", ucx_dir=pathlib.Path("/there is/none"))
        self.assertEqual(context.config["ucx_dir"], ("/there is/none", "option"))
        ours, theirs = wherry.Worker(context), wherry.Worker()
        async with await ours.listen(None, HOST) as listener:
            await (await theirs.connect(HOST, listener.port, secret="abc")).close()
        ours.close()
        theirs.close()

    async def test_numbers(self):
        async with pair() as (a, b):
            memory = wherry.alloc(16)
            remote = a.open_key(memory.key)
            got = bytearray(8)
            tags = [lambda tag: a.send(b"x", tag), lambda tag: a.send(b"x", tag=tag),
                    lambda tag: b.recv(got, tag), lambda tag: b.recv(got, 0, tag),
                    lambda tag: a.send_obj(b"x", tag), lambda tag: b.recv_obj(tag),
                    lambda tag: b.recv_obj(0, tag), lambda tag: b.worker.recv(got, tag),
                    lambda tag: b.worker.recv(got, 0, tag), lambda tag: b.worker.recv_obj(tag),
                    b.probe, lambda tag: b.probe(0, tag), b.take, lambda tag: b.take(0, tag),
                    b.probe_obj, lambda tag: b.probe_obj(0, tag), b.worker.probe_obj,
                    b.worker.probe, b.worker.take, lambda tag: b.worker.take(0, tag)]
            sizes = [lambda at: remote.put(b"x", at), lambda at: remote.get(got, at),
                     lambda at: remote.atomic("add", at, 1), lambda n: wherry.DeviceMemory(n, "sim"),
                     wherry.alloc, lambda n: wherry.types.contig(n, wherry.types.BYTE),
                     lambda n: wherry.types.pack(b"x", offset=n)]
            others = [(2**16, lambda id: a.am_send(id, b"x")),
                      (2**16, lambda id: b.worker.set_am(id, print)),
                      (2**16, lambda port: wherry.connect(HOST, port)),
                      (2**16, lambda port: wherry.listen(None, HOST, port)),
                      (2**31, lambda device: wherry.DeviceMemory(1, "sim", device)),
                      (2**64, lambda word: remote.atomic("add", 0, word)),
                      (2**32, lambda word: remote.atomic("add", 0, word, size=4)),
                      (2**31, lambda size: remote.atomic("add", 0, 1, size=size))]
            limits = [(2**64, call) for call in tags] + [(2**63, call) for call in sizes] + others
            for number, (limit, call) in enumerate(limits):
                with self.subTest(number=number):
                    for wrong in (1.5, 1.0, "1", b"x"):
                        with self.assertRaisesRegex(TypeError, "an integer is needed"):
                            call(wrong)
                    for wrong in (limit, -2**63 - 1):
                        with self.assertRaisesRegex(ValueError, rf" to {limit - 1}$"):
                            call(wrong)
            for wrong in (0, 3, 9):
                with self.assertRaisesRegex(ValueError, f"size is {wrong}: 4 or 8"):
                    remote.atomic("add", 0, 1, size=wrong)
            with self.assertRaisesRegex(ValueError, "offset is 4: a multiple of 8"):
                remote.atomic("add", 4, 1)
            self.assertIsNone(b.probe(0, 0))
            for tag in (2**64 - 1, True, Index()):
                await a.send(b"x", tag)
                self.assertEqual(await b.recv(got, int(tag)), 1)
            remote.close()
            memory.close()

    async def test_times_and_hosts(self):
        async with pair() as (a, b):
            for wrong in ("1", b"1", [], {}):
                with self.assertRaisesRegex(TypeError, "timeout is .* seconds is needed"):
                    a.send(b"x", timeout=wrong)
            for wrong in (-1, float("nan")):
                with self.assertRaisesRegex(ValueError, "timeout is .*: give seconds"):
                    b.recv(bytearray(1), timeout=wrong)
            with self.assertRaisesRegex(ValueError, "timeout: more seconds"):
                b.recv(bytearray(1), timeout=10**400)
        for wrong in (b"127.0.0.1", 5, ("127.0.0.1",)):
            for call in wherry.connect, lambda host, port: wherry.listen(None, host, port):
                with self.assertRaisesRegex(TypeError, "host is .* as text"):
                    call(wrong, 1)
        for wrong in (pathlib.Path("/etc/secret"), 5):
            for call in wherry.connect, lambda host, port, **rest: wherry.listen(None, host, port, **rest):
                with self.assertRaisesRegex(TypeError, "secret: str or bytes is needed, not"):
                    call(HOST, 1, secret=wrong)


class Index(int):
    """An integer of another class."""


class Elements(LoopCase):
    async def refused(self, obj, what):
        async with pair() as (a, b):
            memory = wherry.alloc(64)
            remote = a.open_key(memory.key)
            for name, call in {
                    "send": a.send, "sync": lambda obj: a.send(obj, sync=True), "recv": b.recv,
                    "worker": b.worker.recv, "send_obj": a.send_obj,
                    "list": lambda obj: a.send_obj([b"x", obj]),
                    "into": lambda obj: b.recv_obj(into=obj), "put": remote.put, "get": remote.get,
                    "am_send": lambda obj: a.am_send(1, obj), "register": wherry.register,
                    "copy": lambda obj: wherry.copy_memory(bytearray(64), obj)}.items():
                with self.subTest(name=name), self.assertRaisesRegex(TypeError, what):
                    call(obj)
            remote.close()
            memory.close()

    async def test_packing(self):
        with self.assertRaisesRegex(TypeError, "buf: .* Python objects"):
            wherry.types.pack((ctypes.py_object * 2)(1, 2))
        with self.assertRaisesRegex(TypeError, "buf: .* Python objects"):
            wherry.types.unpack(bytes(16), (ctypes.py_object * 2)(1, 2))

    async def test_python_objects(self):
        await self.refused((ctypes.py_object * 2)(1, 2), "Python objects")
        await self.refused(memoryview((ctypes.py_object * 2)(1, 2)), "Python objects")

    async def test_python_objects_in_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        fields = numpy.zeros(2, [("number", "i4"), ("object", "O")])
        for obj in (numpy.array([{}]), fields, memoryview(fields), numpy.zeros(0, "O"),
                    numpy.recarray(2, fields.dtype)):
            await self.refused(obj, "Python objects")
        named = numpy.array([(1, 2)], [("O", "i8"), ("x", "i4")])  # none in it
        async with pair() as (a, b):
            for obj in (named, memoryview(named), numpy.zeros(2, "M8[s]"), numpy.zeros(3, "c16")):
                await a.send(obj)
                self.assertEqual(await b.recv(bytearray(64)), obj.nbytes)

    async def test_masks(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        masked = numpy.ma.masked_array([1, 2, 3], mask=[0, 1, 0])
        await self.refused(masked, "has a mask.* give its .data and its .mask, or .filled")
        async with pair() as (a, b):
            await a.send(masked.filled(0))
            await b.recv(bytearray(24))

    async def test_interfaces(self):
        class Told:
            def __init__(self, typestr, descr):
                self.__array_interface__ = {
                    "version": 3, "data": (memory.buffer_info()[0], False), "shape": (1,),
                    "typestr": typestr, "descr": descr}

        memory = array.array("q", [0, 0])
        for typestr, descr in (("|O8", [("", "|O")]),
                               ("|V16", [("a", "<i8"), ("b", [("c", "|O", (1,))])])):
            await self.refused(Told(typestr, descr), "Python objects")
        async with pair() as (a, b):
            await a.send(Told("|V16", [("O", "<i8"), ("b", [("c", "<f8")])]))
            await b.recv(bytearray(16))

    async def test_what_interfaces_say(self):
        class Told:
            pass

        memory = array.array("q", [7, 8])
        good = {"version": 3, "data": (memory.buffer_info()[0], False), "shape": (2,), "typestr": "<i8"}
        wrong = [("data", value, "'data' of 'Told' is .*: the address and whether it is read-only are needed")
                 for value in (5, ("x", False), (-5, False), (1 << 64, False), memory.tobytes())]
        wrong += [("shape", 2, "'shape' of 'Told' is 2: a sequence of integers is needed"),
                  ("shape", (2.5,), "'shape' of 'Told' is 2.5: an integer is needed"),
                  ("strides", ("a",), "'strides' of 'Told' is 'a': an integer is needed"),
                  ("strides", (1 << 70,), "'strides' of 'Told' is 1180591620717411303424: -9223372036854775808 to"),
                  ("data", (0, False), "'Told' has its 16 bytes at the address 0")]
        wrong += [("typestr", value, "'typestr' of 'Told' is .*: a text such as '<f8' is needed")
                  for value in (8, "f", "<f", "<f-8", "<fx")]
        told = Told()
        async with pair() as (a, b):
            for key, value, words in wrong:
                told.__array_interface__ = {**good, key: value}
                with self.assertRaisesRegex((TypeError, ValueError), f"^buf: {words}"):
                    a.send(told)
            for nothing in ("x", None, [1]):
                told.__array_interface__ = nothing
                with self.assertRaisesRegex(TypeError, "^buf: __array_interface__ of 'Told' is .*: a dict is needed"):
                    a.send(told)
            # As numpy writes them: dates with their unit, and texts with the number of their characters.
            for shape, typestr in (((2,), "<M8[ns]"), ((1,), "<U4"), ((2,), "<U2")):
                told.__array_interface__ = {**good, "shape": shape, "typestr": typestr}
                got = bytearray(16)
                self.assertEqual((await asyncio.gather(b.recv(got), a.send(told)))[0], 16)
                self.assertEqual(got, memory.tobytes())


if __name__ == "__main__":
    unittest.main()
