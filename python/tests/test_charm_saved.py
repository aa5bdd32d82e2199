# SPDX-License-Identifier: BSD-3-Clause
"""wherry.charm: checkpoints that a job of another number of processes reads."""
import pathlib

from test_charm import Jobs as Programs
from test_charm_balance import CELLS

# A program that counts its rounds, and is begun again from its last checkpoint.
COUNTS = """
    import sys
    import wherry

    class Count(Chare):
        def __init__(self):
            self.value, self.friend = 0, None
        def know(self, group):
            self.friend = group
        def add(self, n):
            self.value += n
            return self.value
        async def ask(self):
            return await self.friend[charm.numPes() - 1].add(0, ret=True), len(await self.friend.add(0, ret=True))
        async def all_of_them(self):
            return len(await self.thisProxy.add(0, ret=True))
        def wander(self):
            self.migrate((self.thisIndex[0] if type(self.thisIndex) is tuple else self.thisIndex) % charm.numPes())
        def total(self, end):
            self.reduce(end, self.value, Reducer.sum)

    async def total(counts):
        end = Future()
        counts.total(end)
        return await end
"""


class Checkpoints(Programs):
    def rounds(self, n, text):
        return self.job(COUNTS + text, n, args=[pathlib.Path(self.folder, "saved")])

    def test_another_number_of_processes_goes_on(self):
        text = """
    async def main(args):
        folder = args[1]
        readonlies.job = charm.numPes()
        try:
            counts, grid, group, round = await charm.restart(folder)
        except wherry.errors.NotFoundError:
            readonlies.first = "set by the first"
            counts, grid, group, round = Array(Count, 10), Array(Count, (2, 3)), Group(Count), 0
            counts.know(group)
            for i in range(charm.numPes()):
                group[i].add(100 * i)
        await counts.add(1, awaitable=True)
        await grid.add(2, awaitable=True)
        counts.wander()
        print(round, await total(counts), await total(grid), readonlies.first, readonlies.job == charm.numPes())
        print(*await counts[9].ask(ret=True), await group[0].all_of_them(ret=True))
        print(*await Group(Reader).read(ret=True))
        await charm.checkpoint(folder, (counts, grid, group, round + 1))
        await counts.add(1000, awaitable=True)   # after it, so not in it
        charm.exit()

    class Reader(Chare):
        def read(self):
            return readonlies.first == "set by the first" and readonlies.job == charm.numPes()
    """
        # The last PE's element of the group has the state of that PE modulo those of the job before.
        for round, (n, last) in enumerate([(3, 200), (2, 100), (4, 100), (1, 0), (3, 0)]):
            with self.subTest(round=round):
                code, out, err = self.rounds(n, text)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(out.splitlines(), [
                    f"{round} {10 * (round + 1)} {12 * (round + 1)} set by the first True", f"{last} {n} {n}",
                    " ".join(["True"] * n)])

    def test_a_callback_in_place_of_an_await(self):
        text = """
    class Driver(Chare):
        def __init__(self):
            self.step = 0
        def go(self, folder, end):
            self.end = end
            self.step += 1
            if self.thisIndex == 0:
                charm.checkpoint(folder, self.thisProxy, callback=self.thisProxy[1].saved)
        def saved(self, error):
            self.end.send((self.thisIndex, error, self.step))
        async def wrong(self, folder):
            try:
                await charm.checkpoint(folder)
            except wherry.errors.BusyError as error:
                return str(error)

    async def main(args):
        drivers = Array(Driver, 2)
        end = Future()
        drivers.go(args[1], end)
        print(*await end)
        end = Future()
        charm.checkpoint(args[1], callback=end)
        print(await end)
        print(await drivers[0].wrong(args[1], ret=True))
        charm.exit()
    """
        code, out, err = self.rounds(2, text)
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("1 None 1\nNone\na checkpoint failed: "), out)
        self.assertIn("Driver 0: a coroutine of it has not ended", err)

    def test_what_cannot_be_saved(self):
        text = """
    class Odd(Chare):
        def spoil(self, value):
            self.handle = value
        def spoil_badly(self):
            self.handle = lambda: 1
        @when("self.handle == 3")
        def late(self):
            pass

    async def main(args):
        folder, odd = args[1], Array(Odd, 4)
        odd.spoil(1)
        await charm.checkpoint(folder, odd)
        odd[2].spoil_badly()
        await tried(folder)
        odd.spoil(2)
        odd[1].late()
        await tried(folder)
        odd.spoil(3)
        await charm.checkpoint(folder, odd)
        one = Chare(Odd)
        await tried(folder)
        charm.exit()

    async def tried(folder):
        try:
            await charm.checkpoint(folder)
            print("saved")
        except (wherry.errors.NotSupportedError, wherry.errors.BusyError) as error:
            print(type(error).__name__)
    """
        code, out, err = self.rounds(2, text)
        self.assertEqual((code, out), (0, "NotSupportedError\nBusyError\nNotSupportedError\n"), err)
        self.assertRegex(err, "no checkpoint is written: Odd 2: attribute 'handle' cannot be pickled")
        self.assertIn("Odd 1: a call of late waits for its condition", err)
        self.assertIn("it is a single chare", err)

    def test_mistakes_are_told(self):
        text = """
    async def main(args):
        for folder in (args[1], __file__):
            try:
                await charm.restart(folder)
            except wherry.errors.Error as error:
                print(type(error).__name__)
        try:
            charm.checkpoint(args[1], callback=5)
        except TypeError as error:
            print(error)
        await charm.checkpoint(args[1])
        try:
            await charm.restart(args[1])
        except RuntimeError as error:
            print(error)
        charm.exit()
    """
        code, out, err = self.rounds(2, text)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines()[2:], [
            "what is to be told of a checkpoint goes to an entry, such as self.thisProxy[0].method, or to a Future, not to 5",
            "a checkpoint is read once, on PE 0, before the first chare is made"])
        self.assertEqual(out.splitlines()[0], "NotFoundError")

    def test_a_file_that_was_changed(self):
        write = """
    async def main(args):
        await charm.checkpoint(args[1], Array(Count, 30))
        charm.exit()
    """
        read = """
    async def main(args):
        try:
            await charm.restart(args[1])
        except wherry.errors.ProtocolError as error:
            print(type(error).__name__)
        charm.exit()
    """
        self.assertEqual(self.rounds(2, write), (0, "", ""))
        folder = pathlib.Path(self.folder, "saved")
        self.assertEqual(len(list(folder.glob("*.pe-1"))), 1)
        for name in ("*.pe-1", "index"):
            file, = folder.glob(name)
            whole = file.read_bytes()
            for wrong in (whole[:-1], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]):
                file.write_bytes(wrong)
                code, out, err = self.rounds(3, read)
                self.assertEqual((code, out), (0, "ProtocolError\n"), err)
            file.write_bytes(whole)

    def test_nothing_is_made_while_one_is_read(self):
        first = """
    async def main(args):
        await charm.checkpoint(args[1], Array(Count, 3))
        charm.exit()
    """
        then = """
    import asyncio
    async def main(args):
        reading = asyncio.ensure_future(charm.restart(args[1]))
        await asyncio.sleep(0)
        try:
            Array(Count, 3)
        except RuntimeError as error:
            print(error)
        counts = await reading
        print(await counts.add(1, ret=True))
        charm.exit()
    """
        self.assertEqual(self.rounds(2, first), (0, "", ""))
        self.assertEqual(self.rounds(2, then), (
            0, "a checkpoint is being read: await charm.restart before chares are made or called\n[1, 1, 1]\n", ""))

    def test_setstate_sees_the_readonlies(self):
        code = """
    class Reads(Chare):
        def __init__(self):
            self.n = readonlies.n
        def __getstate__(self):
            return None
        def __setstate__(self, state):
            self.n = readonlies.n + 1
        def read(self):
            return self.n

    async def main(args):
        try:
            reads = await charm.restart(args[1])
        except wherry.errors.NotFoundError:
            readonlies.n = 5
            reads = Array(Reads, 6)
        print(*await reads.read(ret=True))
        await charm.checkpoint(args[1], reads)
        charm.exit()
    """
        self.assertEqual(self.rounds(3, code), (0, "5 5 5 5 5 5\n", ""))
        self.assertEqual(self.rounds(2, code), (0, "6 6 6 6 6 6\n", ""))

    def test_balanced_arrays_come_back_balanced(self):
        text = """
    async def main(args):
        try:
            cells = await charm.restart(args[1])
        except LookupError:
            cells = Array(Cell, 12, map=AllOn0, balance="greedy")
        last = await step(cells, 12, 1)
        print(last.number, last.max_before, (await cells.read(ret=True))[0][0])
        await charm.checkpoint(args[1], cells)
        charm.exit()
    """
        folder = pathlib.Path(self.folder, "saved")
        self.assertEqual(self.job(CELLS + text, 2, args=[folder]), (0, "1 12.0 1\n", ""))
        self.assertEqual(self.job(CELLS + text, 3, args=[folder]), (0, "1 12.0 2\n", ""))
