# SPDX-License-Identifier: BSD-3-Clause
"""wherry.charm: programs of chares, in one process and under `wherry run`."""
import importlib.util
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import wherry
from kit import ENV

LIMIT = 120  # seconds after which a job counts as hung; three interpreters need 5 to begin on a busy machine
RUN = pathlib.Path(wherry.__file__).resolve().parents[2] / "wherry"
HEAD = "from wherry.charm import *\nfrom wherry.charm import charm\n"


class Jobs(unittest.TestCase):
    def job(self, program, n=1, args=(), begin=True):
        """Runs a program; its return code, output and errors."""
        file = pathlib.Path(self.folder, f"program{len(list(pathlib.Path(self.folder).iterdir()))}.py")
        file.write_text(HEAD + textwrap.dedent(program) + ("\ncharm.start(main)\n" if begin else ""))
        launcher = [RUN, "run", "--dump", "-n", str(n)] if n > 1 else []
        process = subprocess.Popen([*launcher, sys.executable, "-X", "dev", file, *map(str, args)], env=ENV, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            if launcher:
                process.send_signal(signal.SIGUSR1)  # all say what they wait for
                time.sleep(1)
            process.kill()
            self.fail(f"it hangs: {process.communicate()}")
        # With -X dev asyncio says so of what took longer than 0.1 s, as anything may on a busy machine.
        err = re.sub(r"^Executing <.*> took [0-9.]+ seconds\n", "", err, flags=re.M)
        return process.returncode, out, err

    def good(self, program, out, n=(1, 3), args=()):
        """It must print this, with each number of processes; `{n}` is that."""
        for processes in n:
            with self.subTest(n=processes):
                self.assertEqual(self.job(program, processes, args), (0, textwrap.dedent(out).format(n=processes), ""))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Calls(Jobs):
    def test_results_of_a_group(self):
        self.good("""
            class Here(Chare):
                def __init__(self, factor):
                    self.factor = factor
                def place(self, plus, *, minus=0):
                    return self.factor * charm.myPe() + plus - minus == 10 * self.thisIndex + 4
                async def later(self):
                    await charm.sleep(0.01 * (charm.numPes() - self.thisIndex))
                    return self.thisIndex

            async def main(args):
                group = Group(Here, args=[10])
                print(len(set(await group.place(5, minus=1, ret=True))), await group[0].place(4, ret=True))
                print(await group.later(ret=True) == list(range(charm.numPes())), await group.later(awaitable=True))
                print(group.place(1), group[0].place(1))
                charm.exit()
            """, "1 True\nTrue None\nNone None\n")

    def test_arrays_of_several_dimensions(self):
        self.good("""
            class Cell(Chare):
                def whoami(self, scale):
                    i, j = self.thisIndex
                    return scale * i + j
                def pass_on(self, future):
                    i, j = self.thisIndex
                    if (i, j) == (3, 4):
                        return future.send(sum(self.thisIndex))
                    self.thisProxy[i + (j == 4), (j + 1) % 5].pass_on(future)

            async def main(args):
                cells = Array(Cell, (4, 5))
                print(await cells.whoami(10, ret=True) == [10 * i + j for i in range(4) for j in range(5)])
                end = Future()
                cells[0, 0].pass_on(end)
                print(await end)
                for wrong in (3, (1, 2, 3)):
                    try:
                        cells[wrong]
                    except IndexError as error:
                        print(error)
                charm.exit()
            """, """\
            True
            7
            <array of Cell> has indices of 2 dimensions, not 1
            <array of Cell> has indices of 2 dimensions, not 3
            """)

    def test_values_come_as_they_were(self):
        self.good("""
            import datetime
            try:
                import numpy
            except ImportError:
                numpy = None

            class Echo(Chare):
                def same(self, *values):
                    return values
                def one(self, value):
                    return value
                def twice(self, a, b):
                    return a is b

            async def main(args):
                far = Chare(Echo, onPE=charm.numPes() - 1)
                values = [1, -1, 2 ** 63 - 1, 2 ** 63, -2 ** 80, 1.5, float("inf"), None, True, False, "text", "", "\\udc80",
                          b"bytes", b"", bytearray(b"more"), {"a": [1, (2,)]}, datetime.date(2020, 1, 1), far, "x" * 100_000]
                back = await far.same(*values, ret=True)
                assert list(back) == values, back
                assert [type(each) for each in back] == [type(each) for each in values], back
                view = await far.one(memoryview(b"abcdef")[::2], ret=True)
                assert view == b"ace" and type(view) is memoryview, view
                shared = ["one"]
                assert await far.twice(shared, shared, ret=True)
                assert back[18] is not far and back[18] == far and hash(back[18]) == hash(far)
                if numpy:
                    for array in (numpy.arange(10.0), numpy.zeros((3, 0, 2)), numpy.array(5), numpy.arange(60).reshape(3, 4, 5),
                                  numpy.arange(60).reshape(3, 4, 5)[:, ::2], numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
                                  numpy.array(["a", "bc"]), numpy.array([1, "x", None], object), numpy.array([1], ">i4"),
                                  numpy.array([(1, 2.0)], "i4,f8"), numpy.array(["2020-01-01"], "M8[D]"),
                                  numpy.arange(300_000), numpy.float32(2)):
                        came = await far.one(array, ret=True)
                        assert type(came) is type(array) and came.dtype == array.dtype and came.shape == array.shape, came
                        assert (came == array).all()
                        if type(array) is numpy.ndarray and array.dtype.kind == "f":
                            came[...] = 1  # it is ours to write
                charm.exit()
            """, "")

    def test_arrays_on_devices(self):
        self.good("""
            import wherry
            from wherry.charm import _core as core
            class Echo(Chare):
                def same(self, array):
                    return array
                def check_last(self, *arrays):
                    back = bytearray(b"x" * 24)
                    wherry.copy_memory(back, arrays[-1])
                    return len(arrays), back == bytes(24)
                def check(self, array):
                    told, back = array.__cuda_array_interface__, bytearray(24)
                    wherry.copy_memory(back, array)
                    return told["typestr"], told["shape"], back == bytes(range(24)), array.memory.memory

            class Floats:
                def __init__(self, memory, typestr="<f4"):
                    self.memory = memory.memory
                    self.keep = memory
                    self.__cuda_array_interface__ = {**memory.__cuda_array_interface__, "typestr": typestr, "shape": (2, 3)}

            async def main(args):
                far = Chare(Echo, onPE=charm.numPes() - 1)
                memory = wherry.DeviceMemory(24, "sim")
                wherry.copy_memory(memory, bytes(range(24)))
                print(*await far.check(Floats(memory), ret=True))
                print(*await far.check(await far.same(memory, ret=True), ret=True))
                core.to_host = None  # a call of one object needs it for none of its first sixteen arrays
                print(*await far.check(Floats(memory), ret=True))
                wherry.copy_memory(memory, bytes(24))  # it has been copied
                print(*await far.check_last(*[memory] * 15, ret=True))
                try:
                    far.check(Floats(memory, [("a", "<f4")]))
                except ValueError as error:
                    print("is needed" in str(error))
                charm.exit()
            """, "<f4 (2, 3) True sim\n|u1 (24,) True sim\n<f4 (2, 3) True sim\n15 True\nTrue\n", n=(1, 2))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not here")
    def test_large_arguments(self):
        """In order with other calls, and as they were when the call was made."""
        self.good("""
            import numpy
            class Keeper(Chare):
                def keep(self, array):
                    self.kept = array
                def change(self):
                    self.kept += 1  # it is ours to write
                def same(self, *values):
                    return values
                def seen(self):
                    return int(self.kept.sum())

            async def main(args):
                keepers = Array(Keeper, charm.numPes())
                far = keepers[charm.numPes() - 1]
                for size in (2047, 2048, 500_000):
                    array = numpy.arange(size)
                    far.keep(array)
                    array[:] = 0
                    far.change()
                    assert await far.seen(ret=True) == sum(range(size)) + size
                    keepers.keep(array)
                    assert await keepers.seen(ret=True) == [0] * charm.numPes()
                block = bytes(range(256)) * 1000
                values = [block, array.reshape(500, 1000)[:, ::2], bytearray(block), block[:16384], block[:16383], "text",
                          numpy.asfortranarray(numpy.ones((200, 300))), numpy.zeros((0, 7)), numpy.arange(5000.0, dtype=">f8")]
                values += [numpy.full((50, 50), i) for i in range(30)]
                back = await far.same(*values, ret=True)
                assert len(back) == len(values)
                for value, came in zip(values, back):
                    assert type(value) is type(came)
                    if type(value) is numpy.ndarray:
                        assert value.dtype == came.dtype and value.shape == came.shape and (value == came).all()
                    else:
                        assert value == came
                charm.exit()
            """, "", n=(1, 2))

    def test_what_cannot_be_sent_is_an_error_of_the_call(self):
        self.good("""
            import pickle
            class Echo(Chare):
                def same(self, value):
                    return value
                def bad(self):
                    return lambda: 1

            async def main(args):
                far = Chare(Echo, onPE=charm.numPes() - 1)
                try:
                    far.same(lambda: 1)
                except (AttributeError, pickle.PicklingError) as error:
                    print("lambda" in str(error))
                try:
                    await far.bad(ret=True)
                except Exception as error:
                    print("lambda" in str(error))
                try:
                    Echo()
                except TypeError as error:
                    print(str(error)[:60])
                try:
                    far.nothing()
                except AttributeError as error:
                    print("nothing" in str(error))
                print(await far.same(1, ret=True))
                charm.exit()
            """, """\
            True
            True
            Echo objects are made by Chare(Echo), Group(Echo) or Array(E
            True
            1
            """)

    def test_order_of_each_pair(self):
        self.good("""
            class Sink(Chare):
                def __init__(self):
                    self.last = {}
                def take(self, source, number):
                    assert self.last.get(source, -1) + 1 == number
                    self.last[source] = number
                def ends(self):
                    return sorted(self.last.values())

            class Source(Chare):
                def flood(self, sink, n):
                    for i in range(n):
                        sink.take(self.thisIndex, i)

            async def main(args):
                sink, sources = Chare(Sink, onPE=charm.numPes() - 1), Group(Source)
                sources.flood(sink, 2000)
                await charm.quiescence()
                print(await sink.ends(ret=True) == [1999] * charm.numPes())
                charm.exit()
            """, "True\n")


class Waits(Jobs):
    def test_when(self):
        self.good("""
            class Stepper(Chare):
                def __init__(self):
                    self.step, self.seen = 0, []
                @when("self.step == step and len(self.seen) < most")
                def data(self, step, what, most=100):
                    self.seen.append((step, what))
                @when(lambda self, step: self.step + 1 == step)
                def next(self, step):
                    self.step = step
                @when("self.step == 3")
                def all(self):
                    return self.seen

            async def main(args):
                one = Chare(Stepper, onPE=charm.numPes() - 1)
                seen = one.all(ret=True)
                for step in (2, 0, 1):
                    one.data(step, "a")
                    one.data(step, "b")
                for step in (3, 2, 1):
                    one.next(step)
                print(*[f"{step}{what}" for step, what in await seen])
                charm.exit()
            """, "0a 0b 1a 1b 2a 2b\n")

    def test_asyncio_is_a_guest(self):
        self.good("""
            import asyncio, contextvars, threading
            name = contextvars.ContextVar("name", default="none")

            class Guest(Chare):
                async def use(self, future):
                    name.set("set in an entry")
                    await asyncio.sleep(0.01)
                    await asyncio.sleep(0)
                    if hasattr(asyncio, "timeout"):
                        try:
                            async with asyncio.timeout(0.02):
                                await Future()
                        except TimeoutError:
                            pass
                    try:
                        await asyncio.wait_for(Future(), 0.02)
                    except asyncio.TimeoutError:
                        pass
                    found = await asyncio.get_running_loop().run_in_executor(None, threading.get_ident)
                    assert found != threading.get_ident()
                    both = await asyncio.gather(charm.sleep(0.01), asyncio.sleep(0.01, 5), self.thisProxy[0].one(ret=True))
                    assert name.get() == "set in an entry"
                    future.send(both)
                def one(self):
                    assert name.get() == "none"
                    return 1

            async def helper():
                assert asyncio.current_task().get_name() == "helper"
                return await other.one(ret=True)

            async def main(args):
                global other
                guests = other = Group(Guest)
                other = guests[0]
                end = Future(charm.numPes())
                guests.use(end)
                for each in (await end if charm.numPes() > 1 else [await end]):
                    assert each == [None, 5, 1], each
                print(await asyncio.create_task(helper(), name="helper"))
                server = await serve()
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"line\\n")
                print(await reader.readline())
                writer.close()
                await writer.wait_closed()
                server.close()
                charm.exit()

            async def serve():
                async def on_client(reader, writer):
                    writer.write(await reader.readline())
                    await writer.drain()
                    writer.close()
                return await asyncio.start_server(on_client, "127.0.0.1", 0)
            """, "1\nb'line\\n'\n")

    def test_futures(self):
        self.good("""
            import asyncio
            class Far(Chare):
                def send(self, futures):
                    for n, future in enumerate(futures):
                        future.send(n)
                def await_there(self, future):
                    try:
                        future.__await__()
                    except RuntimeError as error:
                        return str(error)
                async def sleep(self, seconds):
                    await charm.sleep(seconds)
                    return seconds

            async def main(args):
                far = Chare(Far, onPE=charm.numPes() - 1)
                futures = [Future() for _ in range(3)]
                far.send(futures)
                print(await charm.wait(futures), await charm.wait([]), [f.done() for f in futures])
                three = Future(3)
                far.send([three, three, three, three])
                print(sorted(await three))
                local = Future()
                local.send("here")
                local.send("again")
                print(local.done(), await local, await local)
                slow, fast = far.sleep(0.2, ret=True), far.sleep(0.01, ret=True)
                print([f.result() async for f in charm.iwait([slow, fast])])
                gone = Future()
                gone.cancel()
                try:
                    await gone
                except asyncio.CancelledError:
                    print("cancelled")
                if charm.numPes() > 1:
                    print("this future is awaited on PE 0, which has made it" in await far.await_there(Future(), ret=True))
                else:
                    print(True)
                charm.exit()
            """, """\
            [0, 1, 2] [] [True, True, True]
            [0, 1, 2]
            False here here
            [0.01, 0.2]
            cancelled
            True
            """)

    def test_sleep_and_quiescence(self):
        self.good("""
            import time
            class Hopper(Chare):
                hops = 0
                def hop(self, left):
                    Hopper.hops += 1
                    if left:
                        self.thisProxy[(self.thisIndex + 1) % charm.numPes()].hop(left - 1)
                def count(self):
                    return Hopper.hops

            async def main(args):
                begin = time.monotonic()
                await charm.sleep(0.1)
                print(0.1 <= time.monotonic() - begin < 5)
                group = Group(Hopper)
                group.hop(200)
                await charm.quiescence()
                print(sum(await group.count(ret=True)) == 201 * charm.numPes())
                charm.exit()
            """, "True\nTrue\n")


class Collections(Jobs):
    def test_readonlies_are_there_before_the_first_chare(self):
        self.good("""
            class Reader(Chare):
                def __init__(self):
                    self.n = readonlies.n
                def read(self):
                    return self.n, readonlies.text

            def main(args):
                readonlies.n = 5
                readonlies.text = "x" * 3000
                begin()

            def begin():
                async def rest():
                    pass
                group, array = Group(Reader), Array(Reader, 7)
                Chare(Main, args=[group, array])

            class Main(Chare):
                def __init__(self, group, array):
                    self.group, self.array = group, array
                    self.thisProxy.rest()
                async def rest(self):
                    assert set(await self.group.read(ret=True) + await self.array.read(ret=True)) == {(5, "x" * 3000)}
                    for name in ("n", "other"):
                        try:
                            setattr(readonlies, name, 1)
                        except AttributeError as error:
                            print(error)
                    try:
                        readonlies.other
                    except AttributeError:
                        print("none")
                    charm.exit()
            """, """\
            readonlies.n can be set on PE 0 only, before the first chare is made
            readonlies.other can be set on PE 0 only, before the first chare is made
            none
            """, n=(1, 4))

    def test_maps_and_insertion(self):
        self.good("""
            class Last(ArrayMap):
                def procNum(self, index):
                    return charm.numPes() - 1 - index[0] % charm.numPes()

            class Cell(Chare):
                def __init__(self, *args):
                    self.args = args
                def where(self):
                    return charm.myPe()
                def given(self):
                    return self.args

            async def main(args):
                pes = charm.numPes()
                print(await Array(Cell, 2 * pes, map=Last).where(ret=True) == [pes - 1 - i % pes for i in range(2 * pes)])
                print(await Array(Cell, 6, map="round-robin").where(ret=True) == [i % pes for i in range(6)])
                some = Array(Cell, ndims=2)
                late = some[100, -5].given(ret=True)
                some.ckInsert((100, -5), args=[1, 2])
                some.ckInsert((0, 0))
                print(await late, await some[0, 0].given(ret=True))
                try:
                    some.given(ret=True)
                except ValueError as error:
                    print(str(error)[:50])
                await charm.quiescence()
                some.ckDoneInserting()
                await charm.awaitCreation(Group(Cell), Array(Cell, 3), Chare(Cell))
                print(await some[0, 0].given(ret=True))
                charm.exit()
            """, """\
            True
            True
            (1, 2) ()
            <entry given of <array of Cell>> cannot be awaited
            ()
            """)

    def test_destruction(self):
        self.good("""
            class Mortal(Chare):
                def __del__(self):
                    end.send(self.thisIndex) if charm.myPe() == 0 else None
                def work(self):
                    return 1

            async def main(args):
                global end
                end = Future()
                one = Chare(Mortal, onPE=0)
                print(await one.work(ret=True))
                one.ckDestroy()
                print(await end)
                charm.exit()
            """, "1\n0\n")

    def test_main_chare_and_arguments(self):
        self.good("""
            class Main(Chare):
                def __init__(self, args):
                    print(args[1:])
                    self.thisProxy.end(3)
                def end(self, code):
                    charm.exit(code - 3)
            main = Main
            """, "['a', '-b']\n", args=("a", "-b"))


class Reductions(Jobs):
    def test_results(self):
        self.good("""
            import operator
            @Reducer.addReducer
            def widest(values):
                return max(values, key=len)

            class Cell(Chare):
                def give(self, target, how, value):
                    self.reduce(target, value[self.thisIndex] if value else None, how)
                def done(self, value):
                    print("an entry has", value)
                async def everywhere(self):
                    both = self.allreduce(self.thisIndex, Reducer.max), self.allreduce(1, Reducer.sum)
                    await self.barrier()
                    return [await both[0], await both[1]]
                def told(self, value):
                    self.value = value
                @when("hasattr(self, 'value')")
                def read(self):
                    return self.value

            async def main(args):
                n = 7
                cells = Array(Cell, n)
                async def result(how, value=None):
                    end = Future()
                    cells.give(end, how, value)
                    return await end
                ints, floats = list(range(1, n + 1)), [i / 2 for i in range(n)]
                for how in (Reducer.sum, Reducer.product, Reducer.max, Reducer.min, Reducer.bitwise_or, Reducer.bitwise_xor):
                    print(await result(how, ints), end=" ")
                print(await result(Reducer.sum, floats), await result(Reducer.max, floats), await result(Reducer.sum, [True] * n))
                print(await result(Reducer.logical_and, [True] * n), await result(Reducer.logical_and, [True, False] * n),
                      await result(Reducer.logical_xor, [True] * n), await result(None))
                print(await result(Reducer.gather, ["abcdefg"[:i] for i in range(n)]), await result(widest, ["abcdefg"[:i] for i in range(n)]))
                cells.give(cells[3].done, Reducer.sum, ints)
                await charm.quiescence()
                print(set(map(tuple, await cells.everywhere(ret=True))))
                cells.give(cells.told, Reducer.sum, ints)
                print(set(await cells.read(ret=True)))
                group = Group(Cell)
                print(await group.everywhere(ret=True) == [[charm.numPes() - 1, charm.numPes()]] * charm.numPes())
                charm.exit()
            """, """\
            28 5040 7 1 7 0 10.5 3.0 7
            True False True None
            ['', 'a', 'ab', 'abc', 'abcd', 'abcde', 'abcdef'] abcdef
            an entry has 28
            {{(6, 7)}}
            {{28}}
            True
            """)

    def test_arrays(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.good("""
            import numpy
            class Cell(Chare):
                def give(self, target, kind, how):
                    self.reduce(target, (numpy.arange(6).reshape(2, 3) * (self.thisIndex + 1)).astype(kind), how)
                def give_one(self, target):
                    self.reduce(target, numpy.float32(1.5), Reducer.sum)

            async def main(args):
                cells = Array(Cell, 4)
                for kind in ("i1", "u2", "i4", "f4", "f8", "c16"):
                    end = Future()
                    cells.give(end, kind, Reducer.sum)
                    came = await end
                    assert came.dtype == kind and (came == numpy.arange(6).reshape(2, 3) * 10).all(), came
                    came[0] = 1  # it is ours to write
                end = Future()
                cells.give_one(end)
                came = await end
                assert came == 6.0 and came.dtype == "f4" and came.shape == (), came
                charm.exit()
            """, "")

    def test_what_cannot_be_reduced(self):
        self.good("""
            def tell(call, *args):
                try:
                    call(*args)
                except Exception as error:
                    return f"{type(error).__name__}: {error}"
            class Cell(Chare):
                def all(self):
                    future = Future()
                    return [tell(self.reduce, future, "text", Reducer.sum), tell(self.reduce, future, 2 ** 63, Reducer.sum),
                            tell(self.reduce, future, 1.5, Reducer.bitwise_or), tell(self.reduce, future, 1, "mean"),
                            tell(self.reduce, 5), tell(Reducer.addReducer, max)]
                def single(self):
                    return tell(self.reduce, Future())

            async def main(args):
                for line in await Group(Cell)[0].all(ret=True):
                    print(line[:70])
                print((await Chare(Cell).single(ret=True))[:60])
                charm.exit()
            """, """\
            TypeError: a 'str' cannot be reduced by sum: a number, or a numpy arra
            OverflowError: 9223372036854775808 does not fit into 64 bits, in which
            TypeError: bitwise_or of numbers of type <f8 is not defined
            ValueError: 'mean' is no reducer: one of Reducer's is needed, or a fun
            TypeError: the result of a reduction goes to an entry, such as self.th
            ValueError: there is a reducer 'max': take another name
            TypeError: <chare of Cell> has no reductions: it is a single
            """)


class Sections(Jobs):
    def test_calls_and_reductions(self):
        self.good("""
            class Cell(Chare):
                called = 0
                def mark(self, by):
                    self.called += by
                def where(self):
                    return self.thisIndex
                def read(self):
                    return self.called
                def give(self, target, section):
                    self.reduce(target, self.thisIndex, Reducer.sum, section=section)
                def wrong(self, section, other):
                    for given in (self.thisProxy, 5):
                        try:
                            self.reduce(Future(), section=given)
                        except TypeError:
                            pass
                        else:
                            return given
                    try:
                        self.reduce(section.mark)
                    except TypeError as error:
                        return "goes to an entry" in str(error)

            async def main(args):
                cells = Array(Cell, 10)
                even = cells.ckSection([0, 2, 4, 6, 8, 2])
                for _ in range(20):
                    even.mark(1)
                await even.mark(2, awaitable=True)
                print(await cells.read(ret=True), await even.where(ret=True))
                end = Future()
                even.give(end, even)
                print(await end, await cells[0].wrong(even, cells, ret=True), even)
                grid = Array(Cell, (3, 3))
                diagonal = grid.ckSection([(i, i) for i in range(3)])
                print(await diagonal.where(ret=True))
                for wrong in ([], [(0, 0, 0)]):
                    try:
                        grid.ckSection(wrong)
                    except (ValueError, IndexError) as error:
                        print(type(error).__name__)
                try:
                    even[0]
                except TypeError as error:
                    print(error)
                even.ckDestroy()
                print(await cells[2].read(ret=True))
                charm.exit()
            """, """\
            [22, 0, 22, 0, 22, 0, 22, 0, 22, 0] [0, 2, 4, 6, 8]
            20 True <section of 5 of array Cell>
            [(0, 0), (1, 1), (2, 2)]
            ValueError
            IndexError
            <section of 5 of array Cell> has no elements by index: use the proxy of the whole
            22
            """)


class Moves(Jobs):
    def test_state_order_and_what_waits_go_along(self):
        self.good("""
            class Nomad(Chare):
                def __init__(self, text):
                    self.text, self.seen, self.step, self.places = text, [], 0, []
                def take(self, number, away=None):
                    self.seen.append(number)
                    self.places.append(charm.myPe())
                    if away is not None:
                        self.migrate(away % charm.numPes())
                async def slow(self, away):
                    self.migrate(away % charm.numPes())
                    before = charm.myPe()
                    await charm.sleep(0.02)
                    self.text = "changed"
                    return before == charm.myPe()
                @when("self.step == 3")
                def at_three(self, value):
                    return value
                def next(self):
                    self.step += 1
                def place(self):
                    return charm.myPe()
                def read(self):
                    return self.text, self.seen, len(set(self.places)), self.thisIndex

            class Far(Chare):
                def send(self, nomad, n):
                    for i in range(n):
                        nomad.take(-1)

            async def main(args):
                n = charm.numPes()
                array = Array(Nomad, 3, args=["text"])
                nomad = array[1]
                waiting = nomad.at_three("kept", ret=True)
                Group(Far).send(nomad, 50)
                for i in range(100):
                    nomad.take(i, i + 1 if i % 5 == 0 else None)
                    nomad.next() if i in (20, 40, 60) else None
                await charm.quiescence()
                print(await nomad.slow(await nomad.place(ret=True) + 1, ret=True))
                print(await waiting)
                text, seen, places, index = await nomad.read(ret=True)
                assert [i for i in seen if i >= 0] == list(range(100)) and seen.count(-1) == 50 * n, seen
                print(text, places == n, index)
                print([each[0] for each in await array.read(ret=True)])
                charm.exit()
            """, """\
            True
            kept
            changed True 1
            ['text', 'changed', 'text']
            """)

    def test_own_state(self):
        self.good("""
            class Nomad(Chare):
                def __init__(self):
                    self.lock = lambda: 1
                    self.value = 7
                def go(self):
                    self.migrate(charm.numPes() - 1)
                def __getstate__(self):
                    return self.value
                def __setstate__(self, value):
                    self.value = value + (charm.myPe() == charm.numPes() - 1)
                def read(self):
                    return self.value, charm.myPe() == charm.numPes() - 1
            async def main(args):
                one = Chare(Nomad, onPE=0)
                one.go()
                await charm.quiescence()
                print(await one.read(ret=True))
                charm.exit()
            """, "(8, True)\n", n=(2, 3))

    def test_what_cannot_move(self):
        self.good("""
            class Nomad(Chare):
                def all(self):
                    said = []
                    for pe in (-1, charm.numPes(), 0):
                        try:
                            self.migrate(pe)
                        except (ValueError, TypeError, RuntimeError) as error:
                            said.append(f"{type(error).__name__}: {error}")
                    return said
            async def main(args):
                print(*await Group(Nomad)[0].all(ret=True), sep="\\n")
                charm.exit()
            """, """\
            ValueError: there is no PE -1: there are {n}
            ValueError: there is no PE {n}: there are {n}
            TypeError: <group of Nomad>: the objects of a group stay on their PEs
            """)
        code, out, err = self.job("""
            class Nomad(Chare):
                def go(self):
                    self.bad = lambda: 1
                    self.migrate(1)
            async def main(args):
                Array(Nomad, 2)[0].go()
            """, 2)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("the move of Nomad has failed", err)


# Arrays on devices by a channel.  KIND is that of their memory.
ON_DEVICES = """
    import wherry, weakref
    from wherry.charm import _core as core
    SIZES = [8, 800, 4096, 5008, 1 << 20]
    copies, to_host, to_device, duplicate = [], core.to_host, core.to_device, core.duplicate

    def noted(array):
        told, memory = duplicate(array)
        copies.append(weakref.ref(memory))
        return told, memory

    class Array64:
        memory = KIND
        def __init__(self, size, first):
            self.keep, self.content = wherry.DeviceMemory(size, KIND), bytes([first % 256]) * size
            wherry.copy_memory(self.keep, self.content)
            self.__cuda_array_interface__ = {**self.keep.__cuda_array_interface__, "typestr": "<f8", "shape": (2, size // 16)
                                             if size > 8 else ()}

    def bytes_of(array):
        content = bytearray(array.memory.size)
        wherry.copy_memory(content, array)
        return bytes(content)

    class End(Chare):
        def __init__(self):
            self.channel = Channel(self, remote=self.thisProxy[1 - self.thisIndex])
        async def values(self):
            core.to_host = core.to_device = None  # none of them goes through the host's memory
            core.duplicate = noted
            for size in SIZES:
                first, second = Array64(size, size + 1), Array64(size, size + 2)
                self.channel.send(first, "between", b"x" * 5000, second, *[second] * 20)
                wherry.copy_memory(first.keep, bytes(size))  # what was sent is a copy
                wherry.copy_memory(second.keep, bytes(size))
            for size in SIZES:
                first, second = Array64(size, size + 1), Array64(size, size + 2)
                got = await self.channel.recv()
                assert len(got) == 24 and got[1:3] == ("between", b"x" * 5000), got[1:3]
                for one, other in zip([got[0], *got[3:]], [first] + [second] * 21):
                    assert type(one) is DeviceArray and bytes_of(one) == other.content, (size, one)
                    assert one.shape == other.__cuda_array_interface__["shape"] and one.typestr == "<f8"
            return len(copies)
        def kept(self):
            return sum(copy() is not None for copy in copies)
        async def others(self):
            core.to_host, core.to_device = to_host, to_device
            self.channel.send(wherry.DeviceMemory(0, KIND), Array64(16, 1))
            empty, one = await self.channel.recv()
            assert empty.shape == (0,) and bytes_of(one) == b"\\1" * 16
            self.channel.send({"in": [one]})
            got = await self.channel.recv()
            assert type(got["in"][0]) is DeviceArray and bytes_of(got["in"][0]) == b"\\1" * 16

    async def main(args):
        ends = Array(End, 2, map="round-robin")
        print(min(await ends.values(ret=True)) >= 110)
        await charm.quiescence()
        print(await ends.kept(ret=True))
        await ends.others(awaitable=True)
        charm.exit()
"""


class Channels(Jobs):
    def test_values_of_all_sizes_in_order(self):
        self.good("""
            class End(Chare):
                def __init__(self, n):
                    self.channel = Channel(self, remote=self.thisProxy[1 - self.thisIndex])
                async def stream(self, n):
                    sizes = [0, 1, 4000, 4072, 4073, 4074, 4075, 4076, 4077, 4078, 4079, 4080, 5000, 1_000_000]
                    for i in range(n):
                        self.channel.send(self.thisIndex, i, b"x" * sizes[i % len(sizes)])
                    for i in range(n):
                        who, number, data = await self.channel.recv()
                        assert (who, number, len(data)) == (1 - self.thisIndex, i, sizes[i % len(sizes)]), (who, number, len(data))
                    return n
                async def ping(self, n):
                    for i in range(n):
                        if self.thisIndex == 0:
                            self.channel.send(i)
                        assert await self.channel.recv() == i
                        if self.thisIndex == 1:
                            self.channel.send(i)
                async def later(self):
                    waiting = [self.channel.recv() for _ in range(5)]
                    assert len({each.id for each in waiting}) == 5
                    waiting[1].cancel()
                    for i in range(4):
                        self.channel.send(i)
                    return [await waiting[i] for i in (0, 2, 3, 4)]

            async def main(args):
                ends = Array(End, 2, args=[0], map="round-robin")
                print(await ends.stream(200, ret=True))
                await ends.ping(100, awaitable=True)
                print(await ends.later(ret=True))
                charm.exit()
            """, "[200, 200]\n[[0, 1, 2, 3], [0, 1, 2, 3]]\n", n=(1, 2))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    def test_large_arrays_come_where_they_stay(self):
        self.good("""
            import numpy, resource
            STILL = numpy.arange(1 << 17) * 1.0  # 1 MiB

            class End(Chare):
                def __init__(self):
                    self.channel = Channel(self, remote=self.thisProxy[1 - self.thisIndex])
                async def values(self):
                    shapes = [(511,), (512,), (513,), (3, 700), (1000, 0), (2, 3, 4, 50)]
                    for shape in shapes:
                        a = numpy.arange(numpy.prod(shape)).reshape(shape) + 1.5
                        self.channel.send(a, "between", a[..., ::2], b"x" * 5000, {1: a}, a.T)
                        a[...] = 0  # what was sent is a copy
                    for shape in shapes:
                        a = numpy.arange(numpy.prod(shape)).reshape(shape) + 1.5
                        got = await self.channel.recv()
                        assert got[1] == "between" and got[3] == b"x" * 5000 and list(got[4]) == [1]
                        for one, all in zip((got[0], got[2], got[4][1], got[5]), (a, a[..., ::2], a, a.T)):
                            assert one.dtype == all.dtype and one.shape == all.shape and (one == all).all()
                        got[0][...] = 0  # it is the receiver's
                        assert got[0].nbytes < 4096 or got[0].ctypes.data % 4096 == 0, "it was copied"
                async def faults(self):
                    counts = []
                    for i in range(121):
                        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                        self.channel.send(STILL)
                        assert (await self.channel.recv())[i] == i
                        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
                    return counts

            async def main(args):
                ends = Array(End, 2, map="round-robin")
                await ends.values(awaitable=True)
                for counts in await ends.faults(ret=True):
                    # A MiB of fresh memory has 256, and two copies more.  How many rounds take fresh memory until there is enough
                    # of it depends on how far the ends run ahead of each other: what most rounds take does not.
                    print(True if sorted(counts)[60] < 64 else counts)
                charm.exit()
            """, "True\nTrue\n", n=(1, 2))

    def test_arrays_on_devices_stay_on_devices(self):
        self.good(ON_DEVICES.replace("KIND", "'sim'"), "True\n[0, 0]\n", n=(1, 2))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    def test_freed_memory_serves_the_next_array(self):
        self.good("""
            import numpy, resource
            class Far(Chare):
                def entry(self, array):
                    return array
            async def main(args):
                far, array = Chare(Far, onPE=charm.numPes() - 1), numpy.ones(1 << 17)
                counts = []
                for i in range(121):
                    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                    await far.entry(array, ret=True)
                    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
                print(True if sorted(counts)[60] < 64 else counts)  # most rounds take no fresh memory
                charm.exit()
            """, "True\n", n=(1, 2))

    def test_several_channels_of_one_pair_and_of_one_chare(self):
        self.good("""
            class Node(Chare):
                async def talk(self, n):
                    others = [self.thisProxy[i] for i in range(n) if i != self.thisIndex]
                    twice = [(Channel(self, other), Channel(self, other)) for other in others]
                    for first, second in twice:
                        second.send("second", self.thisIndex)
                        first.send("first", self.thisIndex)
                    return [await each.recv() for pair in twice for each in pair]
            async def main(args):
                n = 5
                for i, came in enumerate(await Array(Node, n).talk(n, ret=True)):
                    assert came == [(which, j) for j in range(n) if j != i for which in ("first", "second")], came
                charm.exit()
            """, "")

    def test_ends(self):
        self.good("""
            from wherry import errors
            class End(Chare):
                async def close(self, other):
                    channel = Channel(self, other)
                    for i in range(40):
                        channel.send(i)
                    channel.close()
                    channel.close()
                    for call in (channel.send, channel.recv):
                        try:
                            await call()
                        except errors.ClosedError:
                            pass
                async def read(self, other):
                    channel, came = Channel(self, other), []
                    try:
                        while True:
                            came.append(await channel.recv())
                    except errors.ClosedError:
                        assert came == list(range(40)), came
                    try:
                        while True:
                            channel.send("nobody")
                            await charm.sleep(0.001)
                    except errors.ClosedError:
                        return "closed"
                async def orphan(self, other):
                    channel = Channel(self, other)
                    waiting = channel.recv()
                    other.ckDestroy()
                    try:
                        await waiting
                    except errors.PeerError:
                        return "peer"
                def wrong(self):
                    for args in ((1, self.thisProxy), (self, self.thisProxy), (self, 5)):
                        try:
                            Channel(*args)
                        except TypeError:
                            pass
                        else:
                            return "taken"

            async def main(args):
                ends = Array(End, 2, map="round-robin")
                closing = ends[0].close(ends[1], awaitable=True)
                print(await ends[1].read(ends[0], ret=True), await closing)
                print(await ends[0].wrong(ret=True))
                print(await ends[0].orphan(ends[1], ret=True))
                charm.exit()
            """, "closed None\nNone\npeer\n", n=(1, 2))


class Failures(Jobs):
    def test_exceptions_come_back_to_the_caller(self):
        self.good("""
            class Odd(Exception):
                def __init__(self, one, two):
                    super().__init__(f"{one} and {two}")

            class Bad(Chare):
                def fail(self):
                    raise ValueError("on purpose")
                async def fail_later(self):
                    await charm.sleep(0.01)
                    return {}["missing"]
                def odd(self):
                    raise Odd(1, 2)
                def fine(self):
                    return "fine"

            async def main(args):
                bad = Group(Bad)
                last = bad[charm.numPes() - 1]
                everywhere = bad.fail
                for call, kind in ((last.fail, ValueError), (last.fail_later, KeyError), (last.odd, RemoteError),
                                   (everywhere, ValueError)):
                    try:
                        await call(ret=True)
                    except kind as error:
                        text = str(error.__cause__)
                        print(error, f"on PE {charm.numPes() - 1}" in text or call is everywhere,
                              "program" in text and "Traceback" in text)
                print(await last.fine(ret=True))
                charm.exit()
            """, """\
            on purpose True True
            'missing' True True
            Odd: 1 and 2 True True
            on purpose True True
            fine
            """)

    def ends_with(self, program, status, *words):
        for n in (1, 3):
            with self.subTest(n=n):
                code, out, err = self.job(program, n)
                self.assertEqual((code, out), (status, ""), err)
                for word in words:
                    self.assertIn(word, err)

    def test_a_condition_that_raises(self):
        self.good("""
            class Odd(Chare):
                ready = False
                @when("self.ready")
                def plain(self):
                    return 1
                @when("self.ready and 1 / x > 0")
                def divide(self, x):
                    return x
                def go(self):
                    self.ready = True
            async def main(args):
                odd = Chare(Odd, onPE=charm.numPes() - 1)
                for call in (lambda: odd.plain(1, 2, ret=True), lambda: odd.divide(ret=True)):
                    try:
                        await call()
                    except TypeError as error:
                        print("argument" in str(error))
                waiting = [odd.divide(0, ret=True), odd.plain(ret=True), odd.divide(2, ret=True)]
                odd.go()
                print(await waiting[1], await waiting[2])
                try:
                    await waiting[0]
                except ZeroDivisionError as error:
                    print("its condition" in str(error.__cause__) or "when of Odd.divide" in str(error.__cause__))
                charm.exit()
            """, "True\nTrue\n1 2\nTrue\n")

    def test_a_destroyed_chare_answers_what_it_has_kept(self):
        self.good("""
            class Mortal(Chare):
                @when("False")
                def never(self):
                    pass
            async def main(args):
                one = Chare(Mortal, onPE=charm.numPes() - 1)
                result = one.never(ret=True)
                one.ckDestroy()
                try:
                    await result
                except RuntimeError as error:
                    print(error)
                charm.exit()
            """, "Mortal has ended before never could run\n")

    def test_others_end_the_program_with_their_traceback(self):
        self.ends_with("""
            class Bad(Chare):
                def fail(self):
                    raise ValueError("on purpose")
            def main(args):
                Array(Bad, 4)[3].fail()
            """, 1, "Bad.fail of element 3 has failed", "ValueError: on purpose", "in fail")
        self.ends_with("""
            class Bad(Chare):
                def __init__(self):
                    raise ValueError("on purpose")
            def main(args):
                Group(Bad)
            """, 1, "Bad.__init__", "ValueError: on purpose")
        self.ends_with("""
            class Bad(Chare):
                async def fail(self):
                    await charm.sleep(0.01)
                    raise ValueError("on purpose")
            async def main(args):
                Group(Bad).fail()
                await Future()
            """, 1, "Bad.fail", "ValueError: on purpose")
        self.ends_with("""
            async def main(args):
                raise ValueError("on purpose")
            """, 1, "PE 0: main has failed", "ValueError: on purpose")
        self.ends_with("""
            class Fine(Chare):
                pass
            async def main(args):
                Array(Fine, 4)[7]._created(awaitable=True)
                await Future()
            """, 1, "does not exist")

    def test_processes_of_another_program(self):
        code, out, err = self.job("""
            import os
            class Other(Chare):
                def one(self):
                    pass
                if os.environ["PMI_RANK"] != "0":
                    def two(self):
                        pass
            def main(args):
                Group(Other)
            """, 2)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("class __main__:Other has other methods where it was made than here", err)
        code, out, err = self.job("""
            import os
            def main(args):
                class Inside(Chare):
                    pass
                Group(Inside)
            """, 2)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("there is no class of chares '__main__:main.<locals>.Inside' here", err)

    def test_exit_status(self):
        self.ends_with("""
            import sys
            def main(args):
                charm.exit(7)
            """, 7)
        self.ends_with("""
            import sys
            class Far(Chare):
                def end(self):
                    sys.exit(5)
            def main(args):
                Chare(Far, onPE=charm.numPes() - 1).end()
            """, 5)

    def test_another_thread_is_refused(self):
        self.good("""
            import asyncio
            class Cell(Chare):
                def one(self):
                    return 1
            async def main(args):
                cell, future, loop = Array(Cell, 2)[1], Future(), asyncio.get_running_loop()
                def there():
                    for call in (cell.one, future.send, Future, charm.myPe, charm.exit, lambda: Group(Cell)):
                        try:
                            call()
                        except RuntimeError as error:
                            assert "belong to the thread that has called charm.start" in str(error), error
                        else:
                            print("taken", call)
                    loop.call_soon_threadsafe(future.send, 5)
                await loop.run_in_executor(None, there)
                print(await future, await cell.one(ret=True))
                charm.exit()
            """, "5 1\n", n=(1, 2))

    def test_a_lost_process(self):
        code, out, err = self.job("""
            import os, signal
            class Far(Chare):
                def end(self):
                    os.kill(os.getpid(), signal.SIGKILL)
            async def main(args):
                Chare(Far, onPE=charm.numPes() - 1).end()
                await Future()
            """, 3)
        self.assertEqual((code, out), (137, ""), err)
        self.assertIn("rank 2", err)

    def test_ctrl_c(self):
        for wait in ("await Future()", "while True: pass", "await asyncio.sleep(100)"):
            with self.subTest(wait), subprocess.Popen(
                    [sys.executable, "-c", f"{HEAD}import asyncio\nasync def main(args):\n print('runs', flush=True)\n {wait}\n"
                     "charm.start(main)"], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                process.stdout.readline()
                time.sleep(0.1)
                process.send_signal(signal.SIGINT)
                try:
                    _, err = process.communicate(timeout=LIMIT)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
                self.assertEqual(process.returncode, -signal.SIGINT, err)
                self.assertIn("KeyboardInterrupt", err)
                self.assertNotIn("Error:", err)

    def test_an_exception_that_nobody_awaits_is_shown(self):
        code, out, err = self.job("""
            class Bad(Chare):
                def fail(self):
                    raise ValueError("on purpose")
            async def main(args):
                Chare(Bad).fail(awaitable=True)
                await charm.quiescence()
                charm.exit()
            """)
        self.assertEqual((code, out), (0, ""))
        self.assertIn("ValueError: on purpose", err)

    def test_misuse(self):
        code, out, err = self.job("""
            import asyncio
            def main(args):
                pass
            def tell(call, *args, **keywords):
                try:
                    call(*args, **keywords)
                except Exception as error:
                    print(type(error).__name__, str(error).split(":")[0][:70])
            tell(charm.myPe)
            tell(charm.start)
            tell(charm.start, main, interactive=True)
            async def inside():
                tell(charm.start, main)
            asyncio.run(inside())
            tell(coro, main)
            tell(Future)
            class Fine(Chare):
                pass
            def main(args):
                tell(Group, int)
                tell(Group, Chare)
                tell(Array, Fine)
                tell(Array, Fine, 0)
                tell(Array, Fine, (2,) * 7)
                tell(Array, Fine, 2, map=int)
                tell(Array, Fine, 2, map="mine")
                tell(Future, 0)
                tell(Chare, Fine, onPE=9)
                group = Group(Fine)
                tell(lambda: group[9])
                tell(lambda: Chare(Fine)[1])
                tell(charm.start, main)
                charm.exit()
            """)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, textwrap.dedent("""\
            RuntimeError no program is running here
            TypeError charm.start
            RuntimeError charm.start(interactive=True) needs an event loop that runs
            RuntimeError charm.start runs an event loop, and one runs here already
            TypeError main awaits nothing
            RuntimeError no program is running here
            TypeError a class that is derived from Chare is needed, not <class 'int'>
            TypeError a class that is derived from Chare is needed, not <class 'wherry.charm
            ValueError an array has 1 to 6 dimensions, not 0
            ValueError dims is 0
            ValueError an array has 1 to 6 dimensions, not 7
            TypeError map is <class 'int'>
            ValueError map is 'mine'
            ValueError count is 0
            ValueError there is no PE 9
            IndexError <group of Fine> has elements 0 to 0, not 9
            TypeError <chare of Fine> is one chare
            RuntimeError charm.start runs an event loop, and one runs here already
            """))


class Interactive(Jobs):
    def test_in_a_loop_that_runs(self):
        code, out, err = self.job("""
            import asyncio
            class Cell(Chare):
                def square(self):
                    return self.thisIndex ** 2
                async def slow(self):
                    await charm.sleep(0.02)
                    return await self.thisProxy[2].square(ret=True)

            async def shell():
                charm.start(interactive=True)
                cells = Array(Cell, 4)
                print(await cells.square(ret=True))
                await asyncio.sleep(0.05)
                print(await cells[1].slow(ret=True), await asyncio.gather(cells[3].square(ret=True), charm.sleep(0.01)))
                charm.exit()
                await asyncio.sleep(0.1)
                try:
                    charm.myPe()
                except RuntimeError:
                    print("ended")
                charm.start(interactive=True)
                print(await Array(Cell, 2).square(ret=True))
                charm.exit()
                await asyncio.sleep(0.1)
            asyncio.run(shell())
            """, begin=False)
        self.assertEqual((code, out, err), (0, "[0, 1, 4, 9]\n4 [9, None]\nended\n[0, 1]\n", ""))

    def test_one_program_after_the_other(self):
        code, out, err = self.job("""
            def main(args):
                print(charm.numPes())
                charm.exit()
            charm.start(main)
            charm.start(main)
            """, begin=False)
        self.assertEqual((code, out, err), (0, "1\n1\n", ""))


class Examples(Jobs):
    def test_examples(self):
        folder = pathlib.Path(__file__).parents[2] / "examples" / "charm"
        said = {"hello": "hello world, from PE 0 of {n}\n", "ring": "30 hops over {n} PEs\n", "pingpong": " 65536 bytes: ",
                "heat": "after 200 steps 1079.7870 degrees in all\n", "jacobi3d": "equal to a serial run: True\n",
                "steal": "200 tasks on {n} PEs\n", "particles": "equal to a serial run: True\n"}
        self.assertEqual({path.stem for path in folder.glob("*.py")}, set(said))
        try:
            import numpy  # noqa: F401
        except ImportError:
            del said["jacobi3d"]
        for name, text in said.items():
            for n in (1, 2):
                with self.subTest(name, n=n):
                    code, out, err = self.job((folder / f"{name}.py").read_text(), n, begin=False)
                    self.assertEqual((code, err), (0, ""))
                    self.assertIn(text.format(n=n), out)


class Stubs(unittest.TestCase):
    def test_all_public_members_are_there(self):
        import ast
        import wherry.charm
        path = pathlib.Path(wherry.charm.__file__).with_name("_core.pyi")
        told = {node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
        for cls in (wherry.charm.Future, wherry.charm.Channel, wherry.charm.Proxy):
            public = {name for name in vars(cls) if not name.startswith("_")} - {"pe", "id"}
            self.assertEqual(public ^ {name for name in told[cls.__name__] if not name.startswith("_")}, set(), cls)
            for name in public:
                self.assertTrue(getattr(cls, name).__doc__, (cls, name))
        for name in wherry.charm.__all__:
            self.assertTrue(getattr(wherry.charm, name).__doc__, name)


class Decoding(unittest.TestCase):
    def test_damaged_messages_are_refused(self):
        from wherry.charm import _core
        values = (1, 2.0, None, "text", b"bytes", bytearray(b"more"), {"a": 1}, [b"x" * 100])
        whole = _core.encode(values)
        self.assertEqual(_core.decode(whole), values)
        for size in range(len(whole)):
            with self.assertRaises((ValueError, EOFError, pickle.UnpicklingError)):
                _core.decode(whole[:size])
        with self.assertRaisesRegex(ValueError, "too many bytes"):
            _core.decode(whole + b"x")
        with self.assertRaisesRegex(ValueError, "of kind 120"):
            _core.decode(b"\1\0\0\0x")

    def test_what_comes_apart_comes_by_channels_only(self):
        from wherry.charm import _core
        told = b"sim <f8 2"
        data = b"\1\0\0\0D" + len(told).to_bytes(8, "little") + told + (16).to_bytes(8, "little")
        with self.assertRaisesRegex(ValueError, "cannot come apart"):
            _core.decode(data)

    def test_arrays_in_strides_go_without_pickle(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        from wherry.charm import _core
        whole = numpy.arange(60.0).reshape(3, 4, 5)
        for face in (whole[1], whole[:, 1], whole[:, :, 1], whole[::-1], whole[:, ::2, 1:], whole.astype(">i4")[:, :, 1]):
            data = _core.encode((face,))
            self.assertEqual(data[4:5], b"a", face.strides)
            came = _core.decode(data)[0]
            self.assertEqual((came.dtype, came.shape, came.tolist()), (face.dtype, face.shape, face.tolist()))
            self.assertTrue(came.flags.c_contiguous and came.flags.writeable)
        turned = numpy.asfortranarray(whole)
        came = _core.decode(_core.encode((turned,)))[0]
        self.assertTrue((came == turned).all() and came.flags.f_contiguous)  # its order is kept

    def test_damaged_arrays_are_refused(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        from wherry.charm import _core
        whole = _core.encode((numpy.arange(6.0).reshape(2, 3),))
        for size in range(len(whole)):
            with self.assertRaises(ValueError):
                _core.decode(whole[:size])
        for wrong in (whole.replace(b"<f8", b"|O8"), whole.replace(b"<f8", b"<f7"), whole.replace(b"<f8", b"\xff\xff\xff"),
                      whole.replace(b"\2\0\0\0\0\0\0\0", b"\2\0\0\0\0\0\0\x80"),
                      whole.replace(b"\2\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\xff"),
                      whole.replace(b"\2\0\0\0\0\0\0\0", b"\0\0\0\0\0\x20\0\0")):
            with self.assertRaises(ValueError):
                _core.decode(wrong)


if __name__ == "__main__":
    unittest.main()
