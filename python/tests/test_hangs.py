# SPDX-License-Identifier: BSD-3-Clause
"""No hang: every kind of pending operation, ended in every way, on every kind of loop."""
import asyncio
import contextlib
import os
import signal
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


async def one_end(end, name):
    """All kinds of operations on one connection with a stopped peer; all end soon."""
    # An operation whose buffer the peer may be touching waits for him so long, and no longer.
    worker = wherry.Worker(wherry.Context(grace="300ms", close_timeout="300ms"))
    with Child(PEER) as child:
        port, key = child.line().split()
        ep = await worker.connect(HOST, int(port))
        other = await worker.connect(HOST, int(port))
        remote = ep.open_key(bytes.fromhex(key))
        for each in (ep, other):
            await each.send(b"x", 77)
        assert child.line() == "here"
        os.kill(child.process.pid, signal.SIGSTOP)
        ops = {what: call(ep, remote) for what, call in PENDING.items()}
        await asyncio.sleep(0.01)
        start = time.monotonic()
        for op in ops.values():
            if not op.done():
                await end(op, child, worker, ep)
        if name in ("kill", "abort", "close"):
            for what in NOT_WITH_THE_PEER:
                ops[what].cancel()
        _, pending = await asyncio.wait(ops.values(), timeout=LIMIT / 3)
        left = [what for what, op in ops.items() if op in pending]
        for each in (ep, other):
            each.abort()
        worker.close()
        if left:
            raise AssertionError(f"{left} never end after {name}")
        well = [what for what, op in ops.items() if not op.cancelled() and op.exception() is None]
        return well, time.monotonic() - start


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
        worker = wherry.Worker()
        with Child(PEER) as child:
            port, key = child.line().split()
            ep = worker.connect(HOST, int(port)).result(LIMIT)
            remote = ep.open_key(bytes.fromhex(key))
            os.kill(child.process.pid, signal.SIGSTOP)
            ops = {what: call(ep, remote) for what, call in PENDING.items()
                   if what not in NOT_WITH_THE_PEER}
            for op in ops.values():
                with self.assertRaises(TimeoutError):
                    if not op.done():
                        op.result(0.001)
                    else:
                        raise TimeoutError
            child.process.kill()
            for what, op in ops.items():
                with self.subTest(what=what), contextlib.suppress(wherry.PeerError):
                    op.result(LIMIT)
            ep.abort()
        worker.close()

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
