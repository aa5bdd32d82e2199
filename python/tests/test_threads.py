# SPDX-License-Identifier: BSD-3-Clause
"""What other threads than the owner may do with a worker's objects, and what they are refused."""
import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import time
import unittest

import wherry
from kit import HOST, LIMIT, LoopCase, in_thread, pair, run_child

# A listener that another thread closes or drops, and then a peer that connects.
LISTENER = """
import gc, sys, threading, warnings, wherry
warnings.simplefilter("ignore")
worker = wherry.Worker()
box = [worker.listen(lambda ep: print("accepted"), "127.0.0.1").result()]
port = box[0].port
def elsewhere():
    if sys.argv[1] == "close":
        try:
            box[0].close()
        except wherry.ThreadError:
            print("refused", box[0].closed)
    box.clear()
    gc.collect()
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
junk = [bytearray(b"\\xff" * size) for size in range(16, 400) for _ in range(500)]
def connects():
    other = wherry.Worker()
    try:
        other.connect("127.0.0.1", port).result(5)
    except (wherry.RefusedError, wherry.PeerError):  # when the listener closes meanwhile
        print("nobody listens")
    other.close()
thread = threading.Thread(target=connects)
thread.start()
while thread.is_alive():
    worker.progress()
    thread.join(0.001)
worker.progress()
worker.close()
"""


class Listeners(unittest.TestCase):
    def test_another_thread_lets_one_go(self):
        for how, said in (("close", ["refused False", "nobody listens"]),
                          ("drop", ["nobody listens"])):
            with self.subTest(how=how):
                code, out, err = run_child(LISTENER, how)
                self.assertEqual((code, out.split("\n")[:-1]), (0, said), err)

    def test_dropped_elsewhere_and_never_progressed(self):
        with self.assertWarns(ResourceWarning):
            worker = wherry.Worker()
            box = [worker.listen(None, HOST).result()]
            port = box[0].port
            in_thread(lambda: (box.clear(), gc.collect()))
            worker.close()
        with wherry.listen(None, HOST, port).result():
            pass

    def test_one_that_goes_cannot_be_found(self):
        code, out, err = run_child(GOING)
        self.assertEqual((code, out), (0, "None\n"), err)


# What the warning of an endpoint that goes finds where messages look for their source.
GOING = """
import warnings, wherry
worker = wherry.Worker()
listener = worker.listen(None, "127.0.0.1").result()
ours = worker.connect("127.0.0.1", listener.port)
theirs = listener.accept().result(5)
ours = ours.result(5)
ours.send(b"x").result(5)
op = worker.recv(bytearray(1))
op.result(5)
warnings.simplefilter("always")
found = []
def look(*what, **rest):
    found.append(op.source)
warnings.showwarning = look
del theirs
print(found[0], flush=True)
del look
warnings.simplefilter("ignore")
ours.abort()
listener.close()
worker.close()
"""


class Elsewhere(LoopCase):
    async def test_what_only_the_owner_may_ask(self):
        async with pair() as (a, b):
            self.assertTrue(a.connected)
            self.assertEqual(a.lanes, "loop (loop)")
            for ask in (lambda: a.connected, lambda: a.lanes):
                with self.assertRaises(wherry.ThreadError):
                    in_thread(ask)
            self.assertNotIn("not connected", in_thread(lambda: repr(a)))
            async with await wherry.listen(None, HOST) as listener:
                with self.assertRaises(wherry.ThreadError):
                    in_thread(listener.accept)
                op = listener.accept()
                with self.assertRaises(wherry.ThreadError):
                    in_thread(op.cancel)
                ours = await wherry.connect(HOST, listener.port)
                (await op).abort()
                ours.abort()
                self.assertFalse(ours.connected)


class FromAnotherThread(LoopCase):
    async def test_small_messages_are_done_without_a_receive(self):
        loop = asyncio.get_running_loop()
        async with pair(None, wherry.Worker()) as (a, b):
            for call, arg in ((a.send, bytes(8000)), (a.send_obj, bytes(8000)),
                              (a.send_obj, [bytes(5000), bytes(2000)]), (a.am_send, 1)):
                with self.subTest(call=call.__name__):
                    await loop.run_in_executor(None, lambda: call(arg).result(LIMIT))
            self.assertEqual(await b.recv(bytearray(8000)), 8000)
            self.assertEqual(await b.recv_obj(), bytes(8000))
            self.assertEqual(await b.recv_obj(), [bytes(5000), bytes(2000)])

    async def test_large_messages_wait_for_one_and_the_owner_for_nobody(self):
        loop = asyncio.get_running_loop()
        async with pair(None, wherry.Worker()) as (a, b):
            began = threading.Event()

            def send():
                op = a.send_obj([bytes(100_000), b"x"])
                began.set()
                return op.result(LIMIT)
            sending = loop.run_in_executor(None, send)
            began.wait(LIMIT)  # the loop is blocked, and the operation has not begun
            self.assertEqual(a.counters()["sent_messages"], 0)
            done, _ = await asyncio.wait([sending], timeout=0.05)
            self.assertEqual((len(done), a.counters()["sent_messages"]), (0, 1))
            self.assertEqual((await b.recv_obj())[1], b"x")
            await sending


# Endpoints that are still open when the interpreter ends, of the main thread or of one that goes on.
EXITS = """
import asyncio, sys, threading, time, wherry
async def main():
    listener = await wherry.listen(None, "127.0.0.1")
    ours = await wherry.connect("127.0.0.1", listener.port)
    theirs = await listener.accept()
    listener.close()
    if sys.argv[1] == "global":
        globals()["left"] = ours, theirs
        wherry.worker().set_am(1, lambda *what: theirs)
    else:
        print("there", flush=True)
        await asyncio.sleep(100)
if sys.argv[1] == "global":
    asyncio.run(main())
else:
    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    time.sleep(0.5)
"""


class Waiting(unittest.TestCase):
    """An owner without a loop waits for what others need."""

    def test_a_pool_shares_a_worker(self):
        with contextlib.closing(wherry.Worker()) as worker:
            listener = worker.listen(None, HOST).result(LIMIT)
            ours = worker.connect(HOST, listener.port).result(LIMIT)
            theirs = listener.accept().result(LIMIT)

            def talk(tag):
                for _ in range(20):
                    got = bytearray(8)
                    op = theirs.recv(got, tag)
                    ours.send(tag.to_bytes(8, "big"), tag).result(LIMIT)
                    op.result(LIMIT)
                    if int.from_bytes(got, "big") != tag:
                        return False
                return True
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                futures = [pool.submit(talk, tag) for tag in range(4)]
                while not all(future.done() for future in futures):
                    worker.wait(0.1)
                self.assertEqual([future.result() for future in futures], [True] * 4)
            ours.abort()
            theirs.abort()
            listener.close()

    def test_how_long(self):
        with contextlib.closing(wherry.Worker()) as worker:
            worker.wait(0.01)
            self.assertIs(worker.wait(0), False)
            start = time.monotonic()
            self.assertIs(worker.wait(0.25), False)  # longer than one sleep between signals
            self.assertGreater(time.monotonic() - start, 0.24)
            self.assertRaises(wherry.ThreadError, in_thread, lambda: worker.wait(0))

            async def inside():
                worker.wait(0)
            with self.assertRaisesRegex(RuntimeError, "Worker.wait: inside its running event loop"):
                asyncio.run(inside())
        self.assertRaises(wherry.ClosedError, worker.wait, 0)


class Exits(unittest.TestCase):
    def test_nothing_fails_at_the_end_of_the_interpreter(self):
        for how in ("global", "daemon"):
            with self.subTest(how=how):
                code, out, err = run_child(EXITS, how, PYTHONWARNINGS="ignore")
                self.assertEqual(code, 0, err)
                for wrong in ("excepthook", "ThreadError", "Exception ignored", "Traceback"):
                    self.assertNotIn(wrong, err)


if __name__ == "__main__":
    unittest.main()
