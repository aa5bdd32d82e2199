# SPDX-License-Identifier: BSD-3-Clause
"""Waiting and not waiting for ever: cancels, timeouts, closes, deaths, threads, forks, exits."""
import asyncio
import gc
import os
import re
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref

import wherry
from kit import ENV, HOST, LIMIT, Child, LoopCase, end_tasks, in_thread, loops, pair, run_child, run_on

SERVER = """
import asyncio, sys, wherry
async def serve(ep):
    buf = bytearray(1 << 20)
    async with ep:
        try:
            while True:
                n = await ep.recv(buf, 0, 0)
                await ep.send(buf[:n])
        except wherry.ClosedError:
            pass
async def main():
    async with await wherry.listen(serve, "127.0.0.1") as listener:
        print(listener.port)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""


SILENT = """
import time, wherry
listener = wherry.listen(None, "127.0.0.1").result()
print(listener.port)
ep = listener.accept().result()
ep.recv(bytearray(1), 99).result()
"""


LATER = """
import sys, wherry
listener = wherry.listen(None, "127.0.0.1").result()
print(listener.port)
ep = listener.accept().result()
for line in sys.stdin:
    ep.send(b"x", int(line)).result()
ep.abort()
"""


class Awaiting(LoopCase):
    async def test_what_future_functions_expect(self):
        async with pair() as (a, b):
            ops = [b.recv(bytearray(1), i) for i in range(4)]
            for i in reversed(range(4)):
                await a.send(b"x", i)
            self.assertEqual(await asyncio.gather(*ops), [1] * 4)
            op = b.recv(bytearray(1))
            done, pending = await asyncio.wait([op], timeout=0.01)
            self.assertEqual((len(done), len(pending)), (0, 1))
            await a.send(b"x")
            self.assertEqual(await asyncio.shield(op), 1)
            self.assertEqual((op.done(), op.cancelled(), op.exception()), (True, False, None))
            self.assertEqual(await op, 1)  # as often as one likes
            called = []
            op.add_done_callback(called.append)
            self.assertEqual(called, [])
            await asyncio.sleep(0)
            self.assertEqual(called, [op])

    async def test_gather_with_one_that_is_cancelled(self):
        async with pair() as (a, b):
            for tolerant in (True, False):
                ops = [b.recv(bytearray(1), 1), b.recv(bytearray(1), 2)]
                both = asyncio.gather(*ops, return_exceptions=tolerant)
                ops[0].cancel("no more")
                await a.send(b"x", 2)
                if tolerant:
                    error, size = await both
                    self.assertIsInstance(error, asyncio.CancelledError)
                    self.assertEqual((error.args, size), (("no more",), 1))
                else:
                    with self.assertRaises(asyncio.CancelledError):
                        await both
                    await ops[1]

    async def test_callbacks_can_be_taken_back(self):
        async with pair() as (a, b):
            op, called = b.recv(bytearray(1)), []
            op.add_done_callback(called.append)
            op.add_done_callback(called.append)
            self.assertEqual(op.remove_done_callback(called.append), 2)
            await a.send(b"x")
            await op
            await asyncio.sleep(0.01)
            self.assertEqual(called, [])

    async def test_contexts(self):
        import contextvars
        name = contextvars.ContextVar("name")

        async def waits(value):
            name.set(value)
            await b.recv(bytearray(1), value)
            return name.get()
        async with pair() as (a, b):
            waiting = [asyncio.create_task(waits(i)) for i in range(3)]
            await asyncio.sleep(0)
            for i in range(3):
                await a.send(b"x", i)
            self.assertEqual(await asyncio.gather(*waiting), [0, 1, 2])

    async def test_a_thousand_pending(self):
        async with pair() as (a, b):
            got = [bytearray(1) for _ in range(1000)]
            waiting = [asyncio.ensure_future(b.recv(got[i], i)) for i in range(1000)]
            before = time.process_time()
            await asyncio.sleep(0.5)
            # 0.1 % of a core is the goal, and a machine that does other things is looked at.
            self.assertLess(time.process_time() - before, 0.02)
            for i in range(1000):
                await a.send(b"x", i)
            self.assertEqual(await asyncio.gather(*waiting), [1] * 1000)

    async def test_tasks_that_never_wait_yield(self):
        async with pair() as (a, b):
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)
            task = asyncio.create_task(other())
            end = time.monotonic() + LIMIT / 2
            got = bytearray(8)
            while turns <= 20 and time.monotonic() < end:
                await a.send(b"12345678")
                await b.recv(got)
            task.cancel()
            self.assertGreater(turns, 20)

    async def test_many_tasks_are_served_alike(self):
        async with pair(None, wherry.Worker()) as (a, b):
            counts = [0] * 20

            async def echo(i):
                got = bytearray(8)
                while True:
                    await b.recv(got, i)
                    await b.send(got, i)

            async def ask(i):
                got = bytearray(8)
                while True:
                    await a.send(got, i)
                    await a.recv(got, i)
                    counts[i] += 1
            everyone = [asyncio.create_task(fn(i)) for i in range(20) for fn in (echo, ask)]
            end = time.monotonic() + LIMIT / 2
            while sum(counts) < 4000 and time.monotonic() < end:
                await asyncio.sleep(0.01)
            for task in everyone:
                task.cancel()
            await asyncio.wait(everyone)
            # Jain's index: 1 when all have had the same.
            self.assertGreater(sum(counts) ** 2 / (20 * sum(c * c for c in counts)), 0.9)


class Cancelling(LoopCase):
    async def test_a_cancelled_receive_takes_no_message(self):
        async with pair() as (a, b):
            first, second = bytearray(1), bytearray(1)
            task = asyncio.ensure_future(waits_for(b.recv(first)))
            await asyncio.sleep(0.01)
            task.cancel("enough")
            with self.assertRaises(asyncio.CancelledError):
                await task
            await a.send(b"x")
            self.assertEqual(await b.recv(second), 1)
            self.assertEqual((first, second), (b"\0", b"x"))
            first.append(1)  # let go of

    async def test_wait_for(self):
        async with pair() as (a, b):
            for wrapped in (False, True):
                got = bytearray(1)
                op = b.recv(got)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(waits_for(op) if wrapped else op, 0.01)
                self.assertTrue(op.cancelled())
            await a.send(b"1")
            self.assertEqual(await asyncio.wait_for(b.recv(got), 5), 1)

    async def test_no_message_is_lost_in_a_race_with_timeouts(self):
        async with pair(None, wherry.Worker()) as (a, b):
            count, came, got = 300, [], bytearray(4)

            async def send():
                for i in range(count):
                    await a.send(i.to_bytes(4, "little"))
                    await asyncio.sleep(0.0003 * (i % 4))
            task = asyncio.create_task(send())
            while len(came) < count:
                try:
                    await asyncio.wait_for(b.recv(got), 0.0003)
                except asyncio.TimeoutError:
                    continue
                came.append(int.from_bytes(got, "little"))
            self.assertEqual(came, list(range(count)))
            await task

    async def test_a_cancel_that_comes_late_is_not_forgotten(self):
        async with pair() as (a, b):
            steps = []

            async def receives():
                steps.append(await b.recv(bytearray(1)))
                steps.append("cancelled next")
                await asyncio.sleep(10)
            task = asyncio.create_task(receives())
            await asyncio.sleep(0.01)
            await a.send(b"x")
            b.worker.progress()  # the message is there, and the task does not know it yet
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(steps, [1, "cancelled next"])

    async def test_no_message_is_lost_while_a_task_only_yields(self):
        count, cancels, got, part = 200, 0, [], bytearray(4)

        async def receive():
            while len(got) < count:
                await b.recv(part)
                got.append(int.from_bytes(part, "little"))
                time.sleep(0.0001)
        async with pair() as (a, b):
            for i in range(count):
                await a.send(i.to_bytes(4, "little"))
            # All is there, so the task never waits, but now and then it lets others run.
            while b.probe() is not None:
                task = asyncio.create_task(receive())
                await asyncio.sleep(0)
                cancels += task.cancel()
                await asyncio.wait([task])
            self.assertEqual(got, list(range(count)))
            self.assertGreater(cancels, 1)

    async def test_a_coroutine_that_goes_away_withdraws(self):
        async with pair() as (a, b):
            first = bytearray(1)
            coroutine = waits_for(b.recv(first))
            coroutine.send(None)
            coroutine.close()
            await a.send(b"x")
            self.assertEqual(await b.recv(bytearray(1)), 1)
            self.assertEqual(first, b"\0")

    async def test_sends_accepts_and_connects_too(self):
        async with pair() as (a, b):
            big = bytearray(4 << 20)
            op = a.send(big)
            self.assertTrue(op.cancel())
            with self.assertRaises(asyncio.CancelledError):
                await op
            self.assertFalse(op.cancel())
            big.append(1)
            await a.send(b"x")
            self.assertEqual(await b.recv(bytearray(1)), 1)
        async with await wherry.listen(None, HOST) as listener:
            op = listener.accept()
            op.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await op
            op = wherry.connect(HOST, listener.port)
            op.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await op
            ep = await wherry.connect(HOST, listener.port)
            await ep.close()

    async def test_pending_with_a_stopped_peer(self):
        with Child(SERVER) as child:
            ep = await wherry.connect(HOST, int(child.line()))
            os.kill(child.process.pid, signal.SIGSTOP)
            got = bytearray(8)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(ep.recv(got), 0.05)
            big = bytearray(8 << 20)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(ep.send(big), 0.05)
            big.append(1)
            os.kill(child.process.pid, signal.SIGCONT)
            await ep.send(b"12345678", 1)
            await ep.recv(got, 0, 0)
            await ep.close()


async def waits_for(op):
    return await op


class Ends(LoopCase):
    async def test_close_is_orderly(self):
        async with pair() as (a, b):
            await a.send(b"last words")
            closing = a.close()
            got = bytearray(32)
            self.assertEqual(await b.recv(got), 10)
            with self.assertRaises(wherry.ClosedError) as caught:
                await b.recv(got)
            self.assertIsInstance(caught.exception, ConnectionError)
            self.assertIn("the peer has closed the endpoint", str(caught.exception))
            await b.close()
            await closing
            await a.close()
            self.assertTrue(a.closed)
            for call in (lambda: a.send(b""), lambda: a.recv(got), a.flush, lambda: a.lanes):
                with self.assertRaises(wherry.ClosedError):
                    call()

    async def test_abort(self):
        async with pair() as (a, b):
            op, theirs = a.recv(bytearray(1)), b.recv(bytearray(1))
            a.abort()
            with self.assertRaises(wherry.CancelledError):
                await op
            with self.assertRaises(wherry.PeerError) as caught:
                await theirs
            self.assertIsInstance(caught.exception, ConnectionResetError)

    async def test_on_lost(self):
        async with pair() as (a, b):
            lost = asyncio.get_running_loop().create_future()
            b.on_lost(lost.set_result)
            await a.close()
            self.assertIsInstance(await lost, wherry.ClosedError)

    async def test_refusals(self):
        with self.assertRaises(wherry.RefusedError) as caught:
            async with await wherry.listen(None, HOST) as listener:
                port = listener.port
            await wherry.connect(HOST, port)
        self.assertIsInstance(caught.exception, ConnectionRefusedError)
        self.assertIn("connect", str(caught.exception))
        with self.assertRaises(wherry.AddressError):
            await wherry.connect("no.such.host.invalid", 1)
        other = wherry.Worker()
        async with await wherry.listen(None, HOST, secret="abc") as listener:
            with self.assertRaises(wherry.AuthError):
                await other.connect(HOST, listener.port, secret="xyz")
            with self.assertRaisesRegex(wherry.AddressError, f"{listener.port}: the port is in use"):
                wherry.listen(None, HOST, listener.port)
            await (await other.connect(HOST, listener.port, secret="abc")).close()
            # Its own worker is asked for it, too.
            with self.assertRaises(wherry.AuthError):
                await wherry.connect(HOST, listener.port, secret="xyz")
            await (await wherry.connect(HOST, listener.port, secret="abc")).close()

    async def test_a_killed_peer_ends_all(self):
        with Child(SILENT) as child:
            ep = await wherry.connect(HOST, int(child.line()))
            ops = [ep.recv(bytearray(1)), ep.recv_obj(3), ep.send(bytes(4 << 20), 1, sync=True)]
            await asyncio.sleep(0.05)
            child.process.kill()
            start = time.monotonic()
            for op in ops:
                with self.assertRaises(wherry.PeerError):
                    await op
            self.assertLess(time.monotonic() - start, 5)
            with self.assertRaises(wherry.Error):
                await ep.send(b"x")
            await ep.close()

    async def test_worker_close_ends_what_is_pending(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            tasks = [asyncio.create_task(waits_for(b.recv(bytearray(1), i))) for i in range(3)]
            await asyncio.sleep(0.01)
            worker.close()
            for task in tasks:
                with self.assertRaises(wherry.ClosedError):
                    await task
            with self.assertRaises(wherry.ClosedError):
                b.recv(bytearray(1))
            with self.assertRaises(wherry.ClosedError):
                worker.listen()

    async def test_worker_close_ends_accepts(self):
        worker = wherry.Worker()
        listener = await worker.listen(None, HOST)
        task = asyncio.create_task(waits_for(listener.accept()))
        await asyncio.sleep(0.01)
        worker.close()
        with self.assertRaisesRegex(wherry.ClosedError, "accept"):
            await asyncio.wait_for(task, LIMIT / 2)
        self.assertTrue(listener.closed)

    async def test_worker_addresses(self):
        came = asyncio.Queue()
        worker = wherry.Worker(accept=came.put_nowait)
        ours = await wherry.connect(address=worker.address)
        theirs = await came.get()
        await ours.send(b"x")
        self.assertEqual(await theirs.recv(bytearray(1)), 1)
        ours.abort()
        theirs.abort()
        with self.assertRaisesRegex(wherry.AddressError, "10 bytes are not the address"):
            await wherry.connect(address=b"no address")
        worker.close()

    async def test_a_handler_that_fails_is_reported(self):
        loop, told = asyncio.get_running_loop(), []

        def fails(ep):
            ep.abort()
            raise KeyError("of the handler")
        loop.set_exception_handler(lambda _, what: told.append(what["exception"]))
        async with await wherry.listen(fails, HOST) as listener:
            async with await wherry.connect(HOST, listener.port):
                while not told:
                    await asyncio.sleep(0.001)
        self.assertIsInstance(told[0], KeyError)


class Debugging(unittest.TestCase):
    def test_a_task_shows_what_it_waits_for(self):
        async def main():
            asyncio.get_running_loop().set_debug(True)
            async with pair(wherry.Worker()) as (a, b):
                task = asyncio.create_task(waits_for(b.recv(bytearray(64), 0xabc)))
                await asyncio.sleep(0.01)
                text = repr(task)
                task.cancel()
            return text
        text = asyncio.run(main())
        self.assertIn("<Request recv tag=0xabc of 64 bytes with", text)
        self.assertIn(f"started at {__file__}:", text)

    def test_leaks_warn(self):
        async def main():
            listener = await wherry.listen(None, HOST)
            ours = await wherry.connect(HOST, listener.port)
            theirs = await listener.accept()
            del ours, theirs, listener
            gc.collect()
            await asyncio.sleep(0.01)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asyncio.run(main())
        texts = sorted(str(each.message) for each in caught
                       if issubclass(each.category, ResourceWarning))
        self.assertEqual(len(texts), 3, texts)
        self.assertIn("unclosed endpoint with ", texts[0])
        self.assertIn("unclosed listener, made at ", texts[2])
        for text in texts:
            self.assertIn(__file__, text)


class NextLoop(unittest.TestCase):
    """A worker whose loop was closed goes to the next one that its thread runs."""

    def test_it_listens_there_without_waiting_for_anything(self):
        async def serve():
            came = asyncio.get_running_loop().create_future()
            listener = await wherry.listen(lambda ep: came.done() or came.set_result(ep), HOST)
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CONNECT, str(listener.port), env=ENV)
            ep = await asyncio.wait_for(came, LIMIT)
            self.assertEqual(await child.wait(), 0)
            ep.abort()
            listener.close()

        for _ in range(3):
            asyncio.run(serve())

    def test_a_loop_that_goes_late_takes_nothing_from_the_next(self):
        async def use():
            async with pair(wherry.worker()) as (a, b):
                await a.send(b"x")
                await b.recv(bytearray(1))
            return asyncio.get_running_loop()

        async def next_one():
            async with pair(wherry.worker()) as (a, b):
                receive = asyncio.ensure_future(waits_for(b.recv(bytearray(1))))
                await asyncio.sleep(0.01)
                old.clear()
                gc.collect()
                self.assertIs(wherry.worker().loop, asyncio.get_running_loop())
                await a.send(b"x")
                await asyncio.wait_for(receive, LIMIT)

        old = [asyncio.run(use())]
        asyncio.run(next_one())


CONNECT = """
import sys, wherry
with wherry.Worker() as worker:
    worker.connect("127.0.0.1", int(sys.argv[1])).result(20).abort()
"""


class LeaksAtTheEnd(unittest.TestCase):
    """What was never closed is named with its place when the interpreter ends, too."""

    def test_all_that_warns(self):
        code, out, err = run_child("""
import asyncio, wherry
async def main():
    global all
    listener = await wherry.listen(None, "127.0.0.1")
    worker = wherry.Worker(accept=lambda ep: all.append(ep))
    all = [listener, await wherry.connect("127.0.0.1", listener.port), await listener.accept(),
           wherry.connect("127.0.0.1", listener.port), wherry.alloc(10), worker]
    all += [await wherry.connect(address=worker.address)]
    while len(all) < 8:
        await asyncio.sleep(0)
asyncio.run(main())
""")
        self.assertEqual(code, 0, err)
        warned = sorted(line.split(": ", 1)[1] for line in err.splitlines()
                        if line.startswith("ResourceWarning"))
        said = re.sub("with .*,", "with peer,", "\n".join(warned))
        for what, line in (("memory, made at", 8), ("peer, made at", 7), ("peer, made at", 8),
                           ("peer, made at", 9), ("accepted by the listener made at", 5),
                           ("accepted by the worker made at", 6)):
            self.assertRegex(said, rf"unclosed .*{what} <string>:{line}\b")


class Blocking(unittest.TestCase):
    def setUp(self):
        self.worker = wherry.Worker()
        self.addCleanup(self.worker.close)

    def test_without_a_loop(self):
        with self.worker.listen(None, HOST).result() as listener:
            connecting = self.worker.connect(HOST, listener.port)
            theirs = listener.accept().result(LIMIT)
            with connecting.result(LIMIT) as ours, theirs:
                for size in (8, 100_000):
                    got = bytearray(size)
                    op = theirs.recv(got)
                    self.assertFalse(op.done())
                    ours.send(bytes(size)).result(LIMIT)
                    self.assertEqual(op.result(LIMIT), size)
                ours.send_obj([b"a", bytearray(20_000)])
                self.assertEqual(theirs.recv_obj().result(LIMIT)[0], b"a")
                start = time.monotonic()
                op = theirs.recv(got)
                with self.assertRaises(wherry.TimedOutError):
                    op.result(0.05)
                self.assertGreater(time.monotonic() - start, 0.04)
                op.cancel()
                with self.assertRaises(wherry.CancelledError):
                    op.result(LIMIT)
                theirs.close()

    def test_functions_as_callbacks(self):
        came, calls = [], []
        self.worker.set_am(1, lambda ep, header, data: calls.append(len(data)))
        with self.worker.listen(came.append, HOST).result() as listener:
            with self.worker.connect(HOST, listener.port).result(LIMIT) as ours:
                ours.am_send(1, b"x")
                ours.am_send(1, bytes(50_000)).result(LIMIT)
                end = time.monotonic() + LIMIT
                while len(calls) < 2 and time.monotonic() < end:
                    self.worker.progress()
                came[0].close()
        self.assertEqual(calls, [1, 50_000])

    def test_not_inside_the_running_loop(self):
        async def main():
            async with pair(wherry.Worker()) as (a, b):
                with self.assertRaisesRegex(RuntimeError, "await it instead"):
                    b.recv(bytearray(1)).result(1)
        asyncio.run(main())

    def test_ctrl_c(self):
        with self.worker.listen(None, HOST).result() as listener:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                listener.accept().result(LIMIT)
            timer.join()

    def test_other_threads_may_start_and_wait(self):
        with self.worker.listen(None, HOST).result() as listener:
            ours = self.worker.connect(HOST, listener.port)
            theirs = listener.accept().result(LIMIT)
            ours = ours.result(LIMIT)
        sums = []

        def asks(i):
            got = bytearray(8)
            for n in range(50):
                ours.send((n * i).to_bytes(8, "little"), i).result(LIMIT)
                ours.recv(got, i).result(LIMIT)
                sums.append(int.from_bytes(got, "little") == n * i + 1)
        threads = [threading.Thread(target=asks, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        got = bytearray(8)
        for _ in range(200):
            op = theirs.recv(got, 0, 0)
            op.result(LIMIT)
            answer = int.from_bytes(got, "little") + 1
            theirs.send(answer.to_bytes(8, "little"), op.tag).result(LIMIT)
        end = time.monotonic() + LIMIT
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            self.worker.progress()
            time.sleep(0)
        self.assertEqual(sums, [True] * 200)
        with self.assertRaises(wherry.ThreadError):
            in_thread(ours.probe)
        ours.abort()
        theirs.abort()


# The child goes on inside the coroutine, and what it leaves behind is its parent's.
FORKED = """
import asyncio, os, sys, wherry
def refused(name, call):
    try:
        what = call()
    except wherry.ForkedError:
        return
    print(f"{name} does not raise, but gives {what!r}", flush=True)
async def waits(op):
    await op
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is none of our errors
    worker = wherry.Worker()
    listener = await worker.listen(None, "127.0.0.1")
    a = await worker.connect("127.0.0.1", listener.port)
    b = await listener.accept()
    memory = worker.context.alloc(64)
    remote = a.open_key(memory.key)
    await a.send(b"x", 5)
    while not (message := b.take(5)):
        await asyncio.sleep(0)
    accepting, receiving = listener.accept(), b.recv(bytearray(4), 9)
    others = [b.recv_obj(3), a.send(bytes(4 << 20), 7), worker.recv(bytearray(9), 8),
              worker.connect("127.0.0.1", listener.port)]
    buf = bytearray(1)
    child = os.fork()
    if child == 0:
        for op in [accepting, receiving] + others:
            for name in ("cancel", "done", "cancelled", "result"):
                refused(f"{name} of {op!r}", getattr(op, name))
            refused("add_done_callback", lambda: op.add_done_callback(print))
            refused(f"await {op!r}", lambda: waits(op).send(None))
        for op in [receiving] + others[:3]:
            refused("size", lambda: op.size)
        calls = {
            a: "send(buf) send(buf,1) send_obj(buf) recv(buf) recv_obj() am_send(1) probe() take() probe_obj() "
               "open_key(buf) fence() flush() on_lost(print) connected lanes counters() abort() close()",
            worker: "recv(buf) recv_obj() probe() probe_obj() take() set_am(1,print) set_am(1,None) address "
                    "set_allocator('host',bytearray) counters() dump() progress() connect('::1',1) "
                    "listen() close()",
            message: "recv(buf) drop()",
            remote: "put(buf) get(buf) atomic('add',0,1) close()",
            memory: "key size close()",
            listener: "accept() close()"}
        for obj, names in calls.items():
            repr(obj)
            for name in names.split():
                refused(f"{type(obj).__name__}.{name}",
                        lambda: eval("obj." + name, {"obj": obj, "buf": buf}))
        refused("memoryview", lambda: memoryview(memory))
        sys.stdout.flush()
        os._exit(0)
    print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    await a.send(b"x", 9)
    print("parent:", await receiving)
    message.drop()
    for each in (remote, memory, listener, worker):
        each.close()
    a.abort()
    b.abort()
asyncio.run(main())
"""


class Lives(unittest.TestCase):
    """Loops that come and go, threads, forks, ends of the interpreter."""

    def test_one_worker_for_loop_after_loop(self):
        async def once():
            async with pair() as (a, b):
                await a.send(b"x")
                await b.recv(bytearray(1))
            return wherry.worker()
        for make in loops().values():
            self.assertIs(run_on(make, once()), run_on(make, once()))

    def test_loops_in_threads(self):
        async def talk():
            async with pair() as (a, b):
                for _ in range(100):
                    await asyncio.gather(a.send(b"12345678"), b.recv(bytearray(8)))
            return id(wherry.worker())
        found = []
        threads = [threading.Thread(target=lambda make=make: found.append(run_on(make, talk())))
                   for _ in range(2) for make in loops().values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(len(found), len(threads))

    def test_a_loop_closed_with_operations_pending(self):
        for make in loops().values():
            with self.subTest(loop=make):
                buffers = []

                async def leave():
                    listener = await wherry.listen(None, HOST)
                    ours = await wherry.connect(HOST, listener.port)
                    theirs = await listener.accept()
                    listener.close()
                    buffers.extend(bytearray(1) for _ in range(3))
                    ops = [theirs.recv(buffer) for buffer in buffers]
                    tasks = [asyncio.ensure_future(waits_for(op)) for op in ops[1:]]
                    await asyncio.sleep(0.01)
                    return ours, theirs, ops[0], tasks
                loop = make()
                ours, theirs, op, tasks = loop.run_until_complete(leave())
                loop.close()
                for task in tasks:
                    task._log_destroy_pending = False
                del task, tasks, loop
                gc.collect()

                # Another loop takes over; what nobody waits for any more was withdrawn.
                async def go_on():
                    await ours.send(b"1")
                    self.assertEqual(await op, 1)
                    await ours.send(b"2")
                    got = bytearray(1)
                    self.assertEqual(await theirs.recv(got), 1)
                    self.assertEqual(got, b"2")
                    await asyncio.gather(ours.close(), theirs.close())
                run_on(make, go_on())
                self.assertEqual(buffers, [b"1", b"\0", b"\0"])

    def test_a_loop_that_a_task_has_ended_may_run_again(self):
        async def leave(ep):
            await ep.recv(bytearray(1), 1)
            raise SystemExit

        for make in loops().values():
            with self.subTest(loop=make), Child(LATER) as child:
                loop = make()

                async def begin(port):
                    ep = await wherry.connect(HOST, port)
                    return ep, asyncio.create_task(leave(ep)), asyncio.create_task(
                        waits_for(ep.recv(bytearray(1), 2)))
                ep, leaves, waits = loop.run_until_complete(begin(int(child.line())))
                child.process.stdin.write("1\n")
                child.process.stdin.flush()
                with self.assertRaises(SystemExit):
                    loop.run_forever()
                self.assertIsInstance(leaves.exception(), SystemExit)
                child.process.stdin.write("2\n")
                child.process.stdin.flush()
                loop.run_until_complete(asyncio.wait([waits], timeout=LIMIT))
                self.assertTrue(waits.done())
                ep.abort()
                loop.run_until_complete(end_tasks())
                loop.close()

    def test_workers_end(self):
        def one():
            worker = wherry.Worker()
            with worker.listen(None, HOST).result() as listener:
                ours = worker.connect(HOST, listener.port)
                theirs = listener.accept().result(LIMIT)
                ours.result(LIMIT).abort()
                theirs.abort()
            return weakref.ref(worker)
        refs = [one() for _ in range(3)]
        gc.collect()
        self.assertEqual([ref() for ref in refs], [None] * 3)

    def test_fork(self):
        worker = wherry.Worker()
        with worker.listen(None, HOST).result() as listener, \
                worker.context.alloc(100) as memory:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    try:
                        worker.listen(None, HOST)
                    except wherry.ForkedError:
                        with self.assertRaises(wherry.ForkedError):
                            memory.key
                        with self.assertRaises(wherry.ForkedError):
                            memoryview(memory)
                        with self.assertRaises(wherry.ForkedError):
                            memory.close()
                        for call in (listener.accept, listener.close, worker.progress, worker.dump,
                                     worker.close):
                            with self.assertRaises(wherry.ForkedError):
                                call()
                        with wherry.listen(None, HOST).result():  # one of its own
                            code = 0
                finally:
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        worker.close()

    def test_a_forked_child_ends_quietly(self):
        for way in ("del", "with"):
            code, out, err = run_child("""
import os, sys, wherry
worker = wherry.Worker()
listener = worker.listen(None, "127.0.0.1").result()
connecting = worker.connect("127.0.0.1", listener.port)
theirs = listener.accept().result()
ours = connecting.result()
memory = worker.context.alloc(10)
remote = ours.open_key(memory.key)
op = theirs.recv(bytearray(1))
child = os.fork()
if child == 0:
    if sys.argv[1] == "with":
        with worker, listener, memory, ours, remote:
            sys.exit(3)
    del worker, listener, connecting, ours, theirs, memory, remote, op
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ours.send(b"x").result()
print(op.result())
for each in remote, memory, ours, theirs, listener, worker:
    each.close()
""", way)
            self.assertEqual((code, out, err), (0, "3\n1\n", ""))

    def test_everything_that_a_forked_child_may_not_do(self):
        code, out, err = run_child(FORKED)
        self.assertEqual((code, out, err), (0, "child: 0\nparent: 1\n", ""))

    def test_exit_with_operations_pending(self):
        program = """
import asyncio, sys, threading, wherry
async def main():
    listener = await wherry.listen(None, "127.0.0.1")
    ours = await wherry.connect("127.0.0.1", listener.port)
    theirs = await listener.accept()
    kept = [theirs.recv(bytearray(100)) for _ in range(10)] + [ours.send(bytes(1 << 20), 5)]
    sys.modules["keep"] = (listener, ours, theirs, kept)
    if sys.argv[1] == "raise":
        raise ValueError("mine")
    if sys.argv[1] == "exit":
        sys.exit(3)
    if sys.argv[1] == "thread":
        other = wherry.Worker.__new__(wherry.Worker)
loop = asyncio.new_event_loop()
if sys.argv[1] == "thread":
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
else:
    loop.run_until_complete(main())
"""
        for how, code in (("return", 0), ("raise", 1), ("exit", 3), ("thread", 0)):
            with self.subTest(how=how):
                returned, out, err = run_child(program, how)
                self.assertEqual(returned, code, err)

    def test_subinterpreters_are_refused(self):
        for first in ("main", "sub"):
            with self.subTest(first=first):
                code, out, err = run_child(SUBINTERPRETERS, first)
                if out == "none\n":
                    self.skipTest("no way to make a subinterpreter here")
                self.assertEqual((code, out), (0, "refused\nrefused\nrefused\nmain\n"), err)


# Of each kind that this Python makes, and twice of one.
SUBINTERPRETERS = """
import sys
try:
    import _interpreters as known
    kinds = "legacy", "isolated", "isolated"
except ImportError:
    kinds = {"isolated": False}, {}, {}
    try:
        import _xxsubinterpreters as known
    except ImportError:
        print("none")
        sys.exit()
if sys.argv[1] == "main":
    import wherry
for kind in kinds:
    made = known.create(**kind) if isinstance(kind, dict) else known.create(kind)
    known.run_string(made, '''
import sys
sys.path[:] = %r
try:
    import wherry
except ImportError as error:
    print("refused" if "in a subinterpreter" in str(error) else error, flush=True)
''' % (sys.path,))
import wherry
wherry.worker().close()
print("main")
"""


if __name__ == "__main__":
    unittest.main()
