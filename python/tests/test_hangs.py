# SPDX-License-Identifier: BSD-3-Clause
"""No hang: every kind of pending operation, ended in every way, on every kind of loop."""
import asyncio
import contextlib
import gc
import os
import signal
import threading
import time
import unittest

import wherry
from kit import HOST, LIMIT, Child, loops, run_child, run_on

# A peer that has said what there is, and never progresses again.
PEER = """
import sys, wherry
memory = wherry.register(bytearray(1 << 20))
listener = wherry.listen(None, "127.0.0.1").result()
print(listener.port, memory.key.hex())
eps = [listener.accept().result() for _ in range(2)]
for ep in eps:
    ep.recv(bytearray(1), 77).result()
print("here")
sys.stdin.read()
"""

LARGE = bytes(4 << 20)

# What stays pending while the peer does nothing: name -> the call.
PENDING = {
    "recv": lambda ep, remote: ep.recv(bytearray(8)),
    "large recv": lambda ep, remote: ep.recv(bytearray(1 << 20)),
    "worker recv": lambda ep, remote: ep.worker.recv(bytearray(8)),
    "recv_obj": lambda ep, remote: ep.recv_obj(),
    "large send": lambda ep, remote: ep.send(LARGE, 1),
    "sync send": lambda ep, remote: ep.send(b"x", 2, sync=True),
    "send_obj": lambda ep, remote: ep.send_obj([LARGE, b"x"], 3),
    "am_send": lambda ep, remote: ep.am_send(1, LARGE),
    "get": lambda ep, remote: remote.get(bytearray(1 << 19)),
    "put": lambda ep, remote: remote.put(LARGE[:1 << 20]),
    "atomic": lambda ep, remote: remote.atomic("add", 0, 1),
    "flush": lambda ep, remote: flush_behind(ep),
}
# A receive from any source goes on when a peer dies: these end it by other means.
NOT_WITH_THE_PEER = ("worker recv",)


def flush_behind(ep):
    ep.send(b"x", 4)
    return ep.flush()


async def by_cancel(op, child, worker, ep):
    op.cancel()


async def by_task(op, child, worker, ep):
    task = asyncio.ensure_future(waits(op))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def by_wait_for(op, child, worker, ep):
    with contextlib.suppress(asyncio.TimeoutError, wherry.Error):
        await asyncio.wait_for(op, 0.01)


async def by_kill(op, child, worker, ep):
    child.process.kill()


async def by_abort(op, child, worker, ep):
    ep.abort()


async def by_worker(op, child, worker, ep):
    worker.close()


async def by_close(op, child, worker, ep):
    await asyncio.wait([ep.close(timeout=0.05)])


ENDS = {"cancel": by_cancel, "task": by_task, "wait_for": by_wait_for, "kill": by_kill,
        "abort": by_abort, "worker": by_worker, "close": by_close}


async def waits(op):
    return await op


class Stopped:
    """All kinds of operations on one connection, with a peer that is stopped."""

    def __init__(self):
        # An operation whose buffer the peer may be touching waits for him so long, and no longer.
        self.worker = wherry.Worker(wherry.Context(grace="300ms", close_timeout="300ms"))
        self.child = Child(PEER)

    def __enter__(self):
        return self

    def begin(self):
        """Awaited in a loop: starts them, and then nobody progresses until the caller does."""
        port, key = self.child.line().split()
        self.ep = yield from self.worker.connect(HOST, int(port)).__await__()
        self.other = yield from self.worker.connect(HOST, int(port)).__await__()
        self.remote = self.ep.open_key(bytes.fromhex(key))
        for each in (self.ep, self.other):
            yield from each.send(b"x", 77).__await__()
        if self.child.line() != "here":
            raise AssertionError("the peer has not come")
        if os.environ.get("WHERRY_LANES") == "ucx" and not self.ep.lanes.startswith("ucx"):
            raise AssertionError(f"not over UCX but {self.ep.lanes}")
        os.kill(self.child.process.pid, signal.SIGSTOP)
        self.ops = {what: call(self.ep, self.remote) for what, call in PENDING.items()}

    def __exit__(self, *error):
        for each in (self.ep, self.other):
            each.abort()
        self.worker.close()
        self.child.__exit__()

    def end_with_the_peer(self):
        """Kills it, and ends what goes on without it."""
        self.child.process.kill()
        for what in NOT_WITH_THE_PEER:
            self.ops[what].cancel()

    def __await__(self):
        return self.begin()


def ended_well(ops):
    """Those that have had what they wanted."""
    return {what for what, op in ops.items() if not op.cancelled() and op.exception() is None}


async def all_end(ops):
    _, pending = await asyncio.wait(ops.values(), timeout=LIMIT / 3)
    left = [what for what, op in ops.items() if op in pending]
    if left:
        raise AssertionError(f"{left} never end")


async def one_end(end, name):
    with Stopped() as stopped:
        await stopped
        await asyncio.sleep(0.01)
        start = time.monotonic()
        for op in stopped.ops.values():
            if not op.done():
                await end(op, stopped.child, stopped.worker, stopped.ep)
        if name in ("kill", "abort", "close"):
            for what in NOT_WITH_THE_PEER:
                stopped.ops[what].cancel()
        await all_end(stopped.ops)
        return ended_well(stopped.ops), time.monotonic() - start


def run_without_loop(steps):
    """Runs what awaits operations, by waiting for each."""
    try:
        while True:
            op = next(steps)
            if op is not None:  # it only lets others run
                op.result(LIMIT)
    except StopIteration:
        pass


def in_a_fork(ops):
    """A child that ends all operations, in each way; then what its exit code says, 0: all raise."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    wrong = 0
    try:
        for op in ops.values():
            for way in (op.cancel, op.done, op.result, lambda: waits(op).send(None)):
                try:
                    way()
                    wrong += not op.done()
                except wherry.ForkedError:
                    pass
    except BaseException:
        wrong += 100
    os._exit(wrong)


class NoHang(unittest.TestCase):
    def test_every_operation_ends_in_every_way(self):
        for loop, make in loops().items():
            for name, end in ENDS.items():
                with self.subTest(loop=loop, end=name):
                    well, seconds = run_on(make, asyncio.wait_for(one_end(end, name), LIMIT))
                    self.assertLess(seconds, LIMIT / 3)
                    # What the peer had to do something for cannot have gone well.
                    self.assertEqual(set(well) - {"put"}, set())

    def test_blocking_calls_end_when_the_peer_is_killed(self):
        with Stopped() as stopped:
            run_without_loop(stopped.begin())
            for what in NOT_WITH_THE_PEER:
                stopped.ops.pop(what).cancel()
            for op in stopped.ops.values():
                with self.assertRaises(TimeoutError):
                    if not op.done():
                        op.result(0.001)
                    else:
                        raise TimeoutError
            stopped.child.process.kill()
            for what, op in stopped.ops.items():
                with self.subTest(what=what), contextlib.suppress(wherry.PeerError):
                    op.result(LIMIT)

    def test_threads_that_wait(self):
        for make in loops().values():
            for how in ("kill", "close"):
                with self.subTest(loop=make, how=how), Stopped() as stopped:
                    run_on(make, asyncio.wait_for(self.threads_wait(stopped, how), LIMIT))

    async def threads_wait(self, stopped, how):
        await stopped
        loop, ended = asyncio.get_running_loop(), {}

        def wait(what, op):
            try:
                ended[what] = op.result(LIMIT)
            except wherry.Error as error:
                ended[what] = error
        threads = {what: threading.Thread(target=wait, args=(what, op))
                   for what, op in stopped.ops.items() if not op.done()}
        for thread in threads.values():
            thread.start()
        await asyncio.sleep(0.05)
        self.assertEqual(ended, {})
        if how == "kill":
            stopped.end_with_the_peer()
        else:
            stopped.worker.close()
        for what, thread in threads.items():
            await loop.run_in_executor(None, thread.join, LIMIT / 3)
            self.assertFalse(thread.is_alive(), what)
        self.assertEqual({what for what, how in ended.items() if how is None} - {"put"}, set())

    def test_a_loop_that_is_closed_meanwhile(self):
        for make in loops().values():
            with self.subTest(loop=make), Stopped() as stopped:
                loop = make()

                async def leave():
                    await stopped
                    tasks = [asyncio.ensure_future(waits(op))
                             for op in list(stopped.ops.values())[::2]]
                    await asyncio.sleep(0.01)
                    return tasks
                tasks = loop.run_until_complete(leave())
                loop.close()
                for task in tasks:
                    task._log_destroy_pending = False
                del task, tasks, loop
                gc.collect()

                async def another():
                    stopped.end_with_the_peer()
                    await all_end(stopped.ops)
                run_on(make, asyncio.wait_for(another(), LIMIT))
                self.assertEqual(ended_well(stopped.ops) - {"put"}, set())

    def test_a_fork_meanwhile(self):
        for make in loops().values():
            with self.subTest(loop=make), Stopped() as stopped:
                async def forks():
                    await stopped
                    pending = {what: op for what, op in stopped.ops.items() if not op.done()}
                    code = in_a_fork(pending)
                    # The parent goes on as if nothing had been.
                    self.assertEqual([what for what, op in pending.items() if op.done()], [])
                    stopped.end_with_the_peer()
                    await all_end(stopped.ops)
                    return code
                self.assertEqual(run_on(make, asyncio.wait_for(forks(), LIMIT)), 0)
                self.assertEqual(ended_well(stopped.ops) - {"put"}, set())

    def test_the_interpreter_exits_with_everything_pending(self):
        for loop in loops():
            for how, code in (("return", 0), ("raise", 1), ("thread", 0), ("collected", 0)):
                with self.subTest(loop=loop, how=how):
                    start = time.monotonic()
                    returned, out, err = run_child(EXITS, loop, how)
                    self.assertEqual((returned, out), (code, "pending\n"), err)
                    self.assertLess(time.monotonic() - start, LIMIT / 2)


EXITS = """
import asyncio, gc, sys, threading, warnings, wherry
warnings.simplefilter("ignore")
if sys.argv[1] == "uvloop":
    from uvloop import new_event_loop
else:
    from asyncio import new_event_loop
async def main():
    listener = await wherry.listen(None, "127.0.0.1")
    a = await wherry.connect("127.0.0.1", listener.port)
    b = await listener.accept()
    memory = wherry.alloc(100)
    remote = a.open_key(memory.key)
    ops = [b.recv(bytearray(100), 1), b.recv_obj(2), wherry.worker().recv(bytearray(9), 3),
           a.send(bytes(1 << 20), 5), a.send_obj([bytes(1 << 20)], 6), listener.accept(),
           a.send(b"x", 7, sync=True), wherry.connect("127.0.0.1", listener.port)]
    async def waits(op):
        await op
    tasks = [asyncio.ensure_future(waits(op)) for op in ops[::2]]
    await asyncio.sleep(0)
    if sys.argv[2] != "collected":
        sys.modules["keep"] = (listener, a, b, memory, remote, ops, tasks)
    print("pending", flush=True)
    for task in tasks:
        task._log_destroy_pending = False
    if sys.argv[2] == "raise":
        raise ValueError("mine")
def run():
    new_event_loop().run_until_complete(main())
if sys.argv[2] == "thread":
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
else:
    run()
"""


if __name__ == "__main__":
    unittest.main()
