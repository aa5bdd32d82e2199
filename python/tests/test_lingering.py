# SPDX-License-Identifier: BSD-3-Clause
"""A loop whose tasks wait for operations goes round without sleeping while answers come soon."""
import asyncio
import selectors
import time
import unittest

import wherry
from kit import HOST, LIMIT, Child, run_on

ECHO = f"""
import asyncio, wherry

async def main():
    async with await wherry.listen(None, "{HOST}") as listener:
        print(listener.port, flush=True)
        async with await listener.accept() as ep:
            buf = bytearray(8)
            while True:
                await ep.recv(buf)
                await ep.send(buf)
try:
    asyncio.run(main())
except wherry.Error:
    pass
"""
LARGE, MANY = 4 << 20, 16
SENDER = f"""
import asyncio, wherry

async def main():
    async with await wherry.listen(None, "{HOST}") as listener:
        print(listener.port, flush=True)
        async with await listener.accept() as ep:
            await ep.recv(bytearray(2), 2)
            await asyncio.gather(*[ep.send(bytes([i]) * {LARGE}, 1) for i in range({MANY})])
            await ep.recv(bytearray(2), 2)
asyncio.run(main())
"""
ROUNDS = 200
LONGEST = 1000000  # microseconds: no machine is so slow
# Adaptive, but for what else the machine has to do.
SPINS = {"progress": "spin", "spin_us": LONGEST}


class Counting(selectors.DefaultSelector):
    """Counts how often the loop may sleep."""

    sleeps = 0

    def select(self, timeout=None):
        self.sleeps += timeout is None or timeout > 0
        return super().select(timeout)


def run(test, child_runs=ECHO, **config):
    """Runs a test on a loop that counts, with an endpoint to a child and two tasks that wait."""
    selector = Counting()

    async def main(port):
        worker = wherry.Worker(wherry.Context(**config))
        ep = await worker.connect(HOST, port)
        waiting = asyncio.gather(*[ep.recv(bytearray(8), 7) for _ in range(2)])
        await asyncio.sleep(0)
        await test(ep, selector)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await ep.close()
    with Child(child_runs) as child:
        run_on(lambda: asyncio.SelectorEventLoop(selector),
               asyncio.wait_for(main(int(child.line())), LIMIT))


class Lingering(unittest.TestCase):
    def test_waits_for_several_do_not_put_the_loop_to_sleep(self):
        async def talk(ep, selector):
            before = selector.sleeps
            for _ in range(ROUNDS):
                await ep.send(b"8 bytes.")
                await ep.recv(bytearray(8), 0)
            self.assertLess(selector.sleeps - before, ROUNDS // 2)
        run(talk, **SPINS)

    def test_others_go_on_meanwhile(self):
        async def tick(ep, selector):
            before, clock = selector.sleeps, asyncio.get_running_loop().time
            start, ticks = clock(), 0
            while ticks < 10:
                await asyncio.sleep(0.001)
                ticks += 1
            self.assertLess(clock() - start, LONGEST / 1e6)
            self.assertLess(selector.sleeps - before, ticks)
        run(tick, **SPINS)

    def test_large_messages_leave_the_loop_its_turns(self):
        async def receive(ep, selector):
            into = [bytearray(LARGE) for _ in range(MANY)]
            received = [asyncio.ensure_future(ep.recv(buf, 1)) for buf in into]
            await asyncio.sleep(0)
            await ep.send(b"go", 2)
            time.sleep(0.5)  # until all have been announced
            most = before = 0
            while before < MANY:
                await asyncio.sleep(0)
                done = sum(one.done() for one in received)
                most, before = max(most, done - before), done
            self.assertEqual([buf[-1] for buf in into], list(range(MANY)))
            if "reads" in ep.lanes:  # else chunks of all come in turn, and they end together
                self.assertLessEqual(most, 2)  # in one turn of the loop
            await ep.send(b"ok", 2)
        run(receive, child_runs=SENDER, lanes="shm", shm_read="always")

    def test_who_shall_sleep_does(self):
        async def wait(ep, selector):
            before = selector.sleeps
            await asyncio.sleep(0.02)
            self.assertGreater(selector.sleeps, before)
        run(wait, progress="wait")


if __name__ == "__main__":
    unittest.main()
