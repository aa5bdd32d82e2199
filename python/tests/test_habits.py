# SPDX-License-Identifier: BSD-3-Clause
"""What programs expect that are used to asyncio and to sockets, and what a forgotten await must not do."""
import asyncio
import errno
import inspect
import pickle
import time
import unittest

import wherry
from kit import HOST, LIMIT, LoopCase, in_thread, loops, pair, run_child, run_on
from wherry import _core


class Forgotten(LoopCase):
    async def test_a_request_is_not_a_sequence(self):
        async with pair() as (a, b):
            ways = {"for": lambda op: [part for part in op], "list": list, "in": lambda op: b"x" in op,
                    "unpack": lambda op: (lambda x, y: None)(*op)}
            for name, use in ways.items():
                for make in (b.recv_obj, lambda: b.recv(bytearray(1)), b.worker.recv_obj):
                    with self.subTest(way=name), self.assertRaisesRegex(TypeError, "iterable"):
                        use(make())
            with self.assertRaisesRegex(TypeError, "await it"):
                list(a.send_obj(b"1"))
            # None of the receives has stayed to take a message; the send is under way.
            self.assertEqual(await b.recv_obj(), b"1")
            await a.send(b"2")
            self.assertEqual(await b.recv(bytearray(1)), 1)

    async def test_result_inside_the_loop_takes_no_message(self):
        async with pair() as (a, b):
            async with await wherry.listen(None, HOST) as listener:
                for make in (b.recv_obj, lambda: b.recv(bytearray(1)), b.worker.recv_obj,
                             listener.accept):
                    with self.assertRaisesRegex(RuntimeError, "await it instead.*withdrawn"):
                        make().result()
                await a.send_obj(b"1")
                self.assertEqual(await b.recv_obj(), b"1")
                await a.send(b"2")
                self.assertEqual(await b.recv(bytearray(1)), 1)
                ours = await wherry.connect(HOST, listener.port)
                theirs = await listener.accept()
                await asyncio.gather(ours.close(), theirs.close())

    async def test_what_was_withdrawn_says_so(self):
        async with pair() as (a, b):
            op = b.recv_obj()
            with self.assertRaisesRegex(RuntimeError, "withdrawn"):
                op.result()
            with self.assertRaises(wherry.CancelledError):  # not that of a task
                await op
            self.assertFalse(op.cancelled())

    async def test_a_receive_that_a_task_waits_for_stays(self):
        async with pair() as (a, b):
            op = b.recv_obj()
            waits = asyncio.gather(op)
            with self.assertRaisesRegex(RuntimeError, "await it instead$"):
                op.result()
            with self.assertRaisesRegex(TypeError, "await it"):
                list(op)
            await a.send_obj(b"1")
            self.assertEqual(await waits, [b"1"])

    async def test_exception_of_one_under_way(self):
        async with pair() as (a, b):
            op = b.recv_obj()
            with self.assertRaisesRegex(RuntimeError, "await it instead"):
                op.exception()
            await a.send_obj(b"1")
            self.assertEqual(await op, b"1")
            self.assertIsNone(op.exception())


class Futures(LoopCase):
    async def test_functions_of_asyncio(self):
        async with pair() as (a, b):
            op = b.recv_obj()
            done, pending = await asyncio.wait({op}, timeout=0.01)
            self.assertEqual((done, pending), (set(), {op}))
            await a.send_obj(b"1")
            self.assertEqual(await asyncio.wait({op}), ({op}, set()))
            self.assertTrue(asyncio.isfuture(op))
            self.assertIs(asyncio.ensure_future(op), op)
            self.assertEqual(await asyncio.gather(op, a.send(b"x"), op), [b"1", None, b"1"])
            self.assertEqual(await asyncio.wait_for(op, 1), b"1")
            self.assertEqual(await asyncio.shield(op), b"1")
            for first in asyncio.as_completed([op]):
                self.assertEqual(await first, b"1")

    async def test_an_await_by_name(self):
        class Waits:
            def __init__(self, op):
                self.op = op

            def __await__(self):
                return (yield from self.op.__await__())
        async with pair() as (a, b):
            await Waits(a.send_obj(b"1"))
            self.assertEqual(await Waits(b.recv_obj()), b"1")
            waits = asyncio.create_task(collect_one(Waits(b.recv_obj())))
            await asyncio.sleep(0.01)
            await a.send_obj(b"2")
            self.assertEqual(await waits, b"2")
            cancelled = asyncio.create_task(collect_one(Waits(b.recv_obj())))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await cancelled
            await a.send_obj(b"3")
            self.assertEqual(await b.recv_obj(), b"3")

    async def test_only_the_engine_ends_it(self):
        async with pair() as (a, b):
            op = b.recv_obj()
            with self.assertRaisesRegex(RuntimeError, "set_result"):
                op.set_result(1)
            with self.assertRaisesRegex(RuntimeError, "set_exception"):
                op.set_exception(ValueError())
            op.cancel()


class Iterating(LoopCase):
    async def test_objects_until_the_peer_closes(self):
        async with pair(None, wherry.Worker()) as (a, b):
            async def send():
                for i in range(200):
                    await a.send_obj(str(i).encode(), 3)
                await a.close()
            sends = asyncio.create_task(send())
            self.assertEqual([obj async for obj in b.objects(3)], [str(i).encode() for i in range(200)])
            self.assertEqual([obj async for obj in b.objects(3)], [])
            await sends

    async def test_objects_of_a_lost_peer(self):
        async with pair(None, wherry.Worker()) as (a, b):
            a.abort()
            with self.assertRaises(wherry.PeerError):
                async for _ in b.objects():
                    self.fail("nothing was sent")

    async def test_objects_in_time(self):
        async with pair() as (a, b):
            objects = b.objects(timeout=0.01)
            with self.assertRaises(wherry.TimedOutError):
                await objects.__anext__()
            await a.send_obj(b"later")
            async for obj in objects:
                self.assertEqual(obj, b"later")
                break

    async def test_arguments_are_checked_at_once(self):
        async with pair() as (a, b):
            for each in (b, b.worker):
                for wrong in ({"tag": "1"}, {"mask": 1.5}, {"timeout": "1"}):
                    with self.assertRaises(TypeError):
                        each.objects(**wrong)
            with self.assertRaises(TypeError):
                iter(b.objects())

    async def test_objects_of_any_endpoint(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b), pair(None, worker) as (c, d):
            await asyncio.gather(a.send_obj(b"1"), c.send_obj(b"2"))
            got = set()
            async for obj in worker.objects():
                got.add(obj)
                if len(got) == 2:
                    break
            self.assertEqual(got, {b"1", b"2"})
        waits = asyncio.create_task(collect(worker.objects()))
        await asyncio.sleep(0.01)
        worker.close()
        self.assertEqual(await waits, [])

    async def test_endpoints_of_a_listener(self):
        async with await wherry.listen(None, HOST) as listener:
            ours = [await wherry.connect(HOST, listener.port) for _ in range(3)]
            theirs = []
            async for ep in listener:
                theirs.append(ep)
                if len(theirs) == 3:
                    break
            rest = asyncio.create_task(collect(listener))
            await asyncio.sleep(0.01)
        self.assertEqual(await rest, [])
        await asyncio.gather(*[ep.close() for ep in ours + theirs])

    async def test_a_listener_with_a_callback(self):
        async with await wherry.listen(print, HOST) as listener:
            with self.assertRaisesRegex(ValueError, "callback"):
                await collect(listener)


class Ends(LoopCase):
    async def test_leaving_an_endpoint_whose_peer_has_gone(self):
        for gone in ("abort", "close"):
            async with pair(None, wherry.Worker()) as (a, b):
                async with b:
                    lost = asyncio.Event()
                    b.on_lost(lambda _: lost.set())
                    getattr(a, gone)()
                    await lost.wait()
                self.assertTrue(b.closed)

    async def test_leaving_while_the_peer_goes(self):
        async with pair(None, wherry.Worker()) as (a, b):
            async with b:
                await b.send(b"x")
                a.abort()

    async def test_leaving_after_the_worker_is_closed(self):
        worker = wherry.Worker()
        async with pair(worker, worker) as (a, b):
            for ep in (a, b):
                async with ep:
                    worker.close()

    async def test_a_close_says_it(self):
        async with pair(None, wherry.Worker()) as (a, b):
            await b.send(b"x")
            a.abort()
            with self.assertRaises(wherry.PeerError):
                await b.close()

    async def test_a_close_that_takes_too_long_is_told(self):
        silent = wherry.Worker(wherry.Context(close_timeout="20ms"))
        async with pair(silent, wherry.Worker()) as (a, b):
            a.send(bytes(1 << 20))
            with self.assertRaises(wherry.TimedOutError):
                async with a:
                    pass

    async def test_our_own_close_is_the_reason(self):
        async with pair(None, wherry.Worker()) as (a, b):
            ops = [b.recv_obj(), b.recv(bytearray(1)), b.recv(bytearray(1), 5)]
            closes = b.close()
            for op in ops:
                with self.assertRaisesRegex(wherry.ClosedError, "receive: the endpoint was closed$"):
                    await op
            await closes

    async def test_the_peers_close_is_the_reason_later_too(self):
        async with pair() as (a, b):
            await a.close()
            for _ in range(20):
                await asyncio.sleep(0.001)  # meanwhile the link goes, which nothing uses any more
            for call in (lambda: b.recv(bytearray(1)), b.recv_obj, lambda: b.send(b"x")):
                with self.assertRaisesRegex(wherry.ClosedError, "the peer has closed the endpoint"):
                    await call()

    def test_without_a_loop(self):
        with wherry.Worker() as worker, worker.listen(None, HOST).result() as listener:
            connecting = worker.connect(HOST, listener.port)
            theirs = listener.accept().result(LIMIT)
            ours = connecting.result(LIMIT)
            with ours:
                theirs.abort()
            self.assertTrue(ours.closed)


class Errors(LoopCase):
    async def test_numbers_of_errors(self):
        async with await wherry.listen(None, HOST) as listener:
            for number, call in {
                    errno.EADDRINUSE: lambda: wherry.listen(None, HOST, listener.port),
                    errno.EADDRNOTAVAIL: lambda: wherry.listen(None, "192.0.2.1"),
                    errno.ENODEV: lambda: wherry.Worker(wherry.Context(interface="nosuch")).listen(
                        None, HOST)}.items():
                with self.assertRaises(wherry.AddressError) as caught:
                    await call()
                self.assertEqual(caught.exception.errno, number, caught.exception)
            port = listener.port
        with self.assertRaises(wherry.RefusedError) as caught:
            await wherry.connect(HOST, port)
        self.assertEqual(caught.exception.errno, errno.ECONNREFUSED)
        async with pair(None, wherry.Worker()) as (a, b):
            with self.assertRaises(wherry.TimedOutError) as caught:
                await b.recv(bytearray(1), timeout=0.01)
            self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
            a.abort()
            with self.assertRaises(wherry.PeerError) as caught:
                await b.recv(bytearray(1))
            self.assertEqual(caught.exception.errno, errno.ECONNRESET)

    def test_every_os_error_has_a_number(self):
        for name in wherry.errors.__all__:
            kind = getattr(wherry, name)
            error = kind("what failed")
            if isinstance(error, OSError):
                self.assertIn(error.errno, errno.errorcode, name)
                self.assertEqual(str(error), "what failed")
                # Python's own classes say what their numbers are.
                base = type(OSError(error.errno, ""))
                if base not in (OSError, BrokenPipeError):
                    self.assertTrue(issubclass(kind, base), name)
                error.errno = errno.ENODEV
                self.assertEqual(pickle.loads(pickle.dumps(error)).errno, errno.ENODEV)

    def test_what_is_raised_is_not_logged(self):
        code, out, err = run_child(LOUD)
        self.assertEqual((code, out, err), (0, "", ""))

    def test_what_is_not_raised_is(self):
        code, out, err = run_child("""
import wherry
from wherry import _core
for name in "alloc", "DeviceMemory":
    wherry.DeviceMemory(1, "sim")
wherry.Worker(wherry.Context(secret="a")).listen(None, "127.0.0.1", secret="").result().close()
""")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("W-LST-05", err)


LOUD = """
import wherry
listener = wherry.listen(None, "127.0.0.1").result()
calls = [lambda: wherry.listen(None, "127.0.0.1", listener.port),
         lambda: wherry.listen(None, "192.0.2.1"), lambda: wherry.connect("127.0.0.1", 0),
         lambda: wherry.Context(lanes="none"), lambda: wherry.Context(credit="zz"),
         lambda: wherry.connect(address=b"xxx"), lambda: wherry.DeviceMemory(1, "sim", 99),
         lambda: wherry.Context(secret_file="/nosuch"), lambda: wherry.alloc(1 << 60),
         lambda: wherry.register(wherry.DeviceMemory(8, "sim"), "q")]
for call in calls:
    try:
        call()
    except (wherry.Error, ValueError):
        continue
    raise SystemExit("nothing was raised")
listener.close()
"""


class Signatures(unittest.TestCase):
    def test_all_that_is_public_has_one(self):
        owners = [wherry, wherry.types, _core.Type, _core.Cursor, _core.Accumulator]
        owners += [each for each in vars(wherry).values()
                   if isinstance(each, type) and each.__module__ == "wherry._core"]
        for owner in owners:
            for name in getattr(owner, "__all__", dir(owner)):
                member = getattr(owner, name)
                if name.startswith("_") or not callable(member):
                    continue
                with self.subTest(owner=owner, name=name):
                    inspect.signature(member)

    def test_what_they_say(self):
        for what, text in {
                wherry.Worker: "(context=None, *, accept=None)", wherry.Context: "(**options)",
                wherry.DeviceMemory: "(size, memory='cuda', device=0)",
                wherry.Endpoint.send: "(self, buf, tag=0, *, sync=False, type=None, count=1, origin=0, timeout=None, stream=None)",
                wherry.Endpoint.recv: "(self, buf, tag=0, mask=18446744073709551615, *, type=None, count=1, origin=0, "
                                      "timeout=None, stream=None)",
                wherry.Endpoint.send_obj: "(self, obj, tag=0, *, timeout=None, stream=None)",
                wherry.Context.alloc: "(self, size, access='rwa')", wherry.types.dup: "(old)",
                _core.View: "(buf, type, count=1, *, origin=0)",
                _core.Cursor: "(buf, type=None, count=1, *, origin=0, hint=None, writable=False)",
        }.items():
            # What stands for self in a method of C can only be given by position.
            self.assertEqual(str(inspect.signature(what)).replace("self, /", "self"), text)
        for kind in (wherry.Worker, wherry.Endpoint, wherry.Request, wherry.Endpoint.send):
            self.assertRegex(kind.__doc__, "^[A-Z][a-z]+ ")  # no line of a signature

    def test_subclasses_have_their_own(self):
        class Mine(wherry.Worker):
            def __init__(self, name):
                super().__init__()
        self.assertEqual(str(inspect.signature(Mine.__init__)), "(self, name)")


class Advice(LoopCase):
    async def test_what_to_do_with_what_cannot_be_sent(self):
        async with pair() as (a, b):
            holed = memoryview(bytearray(8))[::2]
            for call, kind, text in (
                    (lambda: a.send("text"), TypeError, r"'str' .*\.encode\(\)"),
                    (lambda: a.send_obj("text"), TypeError, r"'str' .*\.encode\(\)"),
                    (lambda: a.send({}), TypeError, r"'dict' .*pickle\.dumps\(\)"),
                    (lambda: a.send_obj([1, 2]), TypeError, r"'int' .*pickle\.dumps\(\)"),
                    (lambda: a.send([b"1"]), TypeError, r"'list' .*send_obj"),
                    (lambda: b.recv("text"), TypeError, "'str' .*bytearray"),
                    (lambda: wherry.copy_memory(bytearray(4), holed), ValueError,
                     r"bytes\(\).*numpy\.ascontiguousarray\(\)"),
                    (lambda: wherry.copy_memory(holed, b"1"), ValueError, "contiguous memory.*copy"),
                    (lambda: a.am_send(1, b"", bytes(1025)), ValueError, "header.* 1025 .*1024"),
            ):
                with self.subTest(text=text), self.assertRaisesRegex(kind, text):
                    call()
            await a.am_send(1, b"", bytes(1024))
            # What is advised works.
            await a.send(bytes(holed))
            self.assertEqual(await b.recv(bytearray(4)), 4)


class AllEndpoints(LoopCase):
    async def test_flush(self):
        worker = wherry.Worker()
        memory = [worker.context.alloc(8) for _ in range(3)]
        async with pair(worker) as (a, b), pair(worker) as (c, d), pair(worker) as (e, f):
            with a.open_key(memory[0].key) as one, c.open_key(memory[1].key) as two:
                one.put(b"1")
                two.put(b"2")
                f.abort()  # no peer that has gone holds up the others
                e.abort()
                self.assertIsNone(await worker.flush())
                self.assertEqual([bytes(each)[:1] for each in memory], [b"1", b"2", b"\0"])
                worker.fence()
                self.assertIsNone(await asyncio.wait_for(worker.flush(timeout=5), LIMIT))
            self.assertIsNone(await wherry.Worker().flush())
        for each in memory:
            each.close()

    async def test_a_flush_that_fails_tells_the_first_error(self):
        worker = wherry.Worker()
        async with pair(worker, wherry.Worker()) as (a, b), pair(worker) as (c, d):
            sends = a.send(bytes(1 << 20))
            flushes = worker.flush()
            b.abort()
            with self.assertRaises(wherry.PeerError):
                await flushes
            with self.assertRaises(wherry.PeerError):
                await sends

    async def test_a_flush_ends_with_its_worker(self):
        worker = wherry.Worker()
        async with pair(worker, wherry.Worker()) as (a, b):
            waits = asyncio.ensure_future(worker.flush())
            worker.close()
            with self.assertRaises(wherry.ClosedError):
                await waits

    def test_without_a_loop(self):
        with wherry.Worker() as worker, wherry.Worker() as other:
            listener = other.listen(None, HOST).result()
            connecting = worker.connect(HOST, listener.port)
            while not connecting.done():
                worker.progress()
                other.progress()
            theirs, ours = listener.accept().result(LIMIT), connecting.result()
            start = time.monotonic()
            for _ in range(5):
                ours.send(b"x")
                flushes = worker.flush()
                while not flushes.done():
                    worker.progress()
                    other.progress()
                flushes.result()
            self.assertLess(time.monotonic() - start, LIMIT)
            with self.assertRaises(wherry.ThreadError):
                in_thread(worker.flush)
            with self.assertRaises(wherry.ThreadError):
                in_thread(worker.fence)
            for each in (ours, theirs):
                each.abort()
            listener.close()
        for call in (worker.flush, worker.fence):
            with self.assertRaises(wherry.ClosedError):
                call()


class Fairness(LoopCase):
    async def test_operations_that_are_done_at_once_let_others_run(self):
        worker = wherry.Worker()
        worker.set_am(1, lambda *_: None)
        async with pair(worker) as (a, b):
            old = b.recv(bytearray(1), 9)
            await a.send(b"x", 9)
            await old
            memory = worker.context.alloc(64)
            remote = a.open_key(memory.key)

            async def tagged():
                await a.send(b"12345678")
                await b.recv(bytearray(8))

            async def objects():
                await a.send_obj(b"1")
                await b.recv_obj()
            ways = {"tagged": tagged, "objects": objects, "am": lambda: a.am_send(1, b"x"),
                    "put": lambda: remote.put(b"x"), "atomic": lambda: remote.atomic("add", 0, 1),
                    "flush": a.flush, "flush of all": worker.flush, "done before": lambda: old}
            for name, step in ways.items():
                await asyncio.sleep(0.005)  # no turn is under way any more
                with self.subTest(way=name):
                    self.assertTrue(await let_others_run(step))
            remote.close()
            memory.close()

    def test_a_worker_that_no_loop_has_joined(self):
        for make in loops().values():
            with wherry.Worker() as worker, worker.listen(None, HOST).result() as listener:
                connecting = worker.connect(HOST, listener.port)
                theirs = listener.accept().result(LIMIT)
                ours = connecting.result(LIMIT)

                async def send():
                    await ours.send(b"x")
                    worker.progress()
                    theirs.take().drop()

                self.assertTrue(run_on(make, let_others_run(send)))
                for each in (ours, theirs):
                    each.abort()

    async def test_others_run_soon(self):
        async with pair() as (a, b):
            waits, slices = [], 0

            async def other():
                while True:
                    start = time.perf_counter()
                    await asyncio.sleep(0)
                    waits.append(time.perf_counter() - start)
            task = asyncio.create_task(other())
            buf = bytearray(8)
            end = time.monotonic() + LIMIT / 2
            while len(waits) < 400 and time.monotonic() < end:
                await a.send(b"12345678")
                await b.recv(buf)
            task.cancel()
            # The budget is 50 us; on a busy machine many are longer, but not half of them six times.
            self.assertLess(sorted(waits)[len(waits) // 2], 300e-6)


async def collect_one(awaitable):
    return await awaitable


async def collect(iterator):
    return [each async for each in iterator]


async def let_others_run(step):
    """Whether a second task and a timer get on while a task awaits `step` without end."""
    turns, fired = 0, []

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)
    task = asyncio.create_task(other())
    timer = asyncio.get_running_loop().call_later(0.002, fired.append, True)
    end = time.monotonic() + LIMIT / 6
    while not (turns > 20 and fired) and time.monotonic() < end:
        await step()
    task.cancel()
    timer.cancel()
    return turns > 20 and bool(fired)


if __name__ == "__main__":
    unittest.main()
