# SPDX-License-Identifier: BSD-3-Clause
"""wherry.charm: objects that move with the channels that they have."""
from test_charm import Jobs

# Pairs of objects that send each other numbers, of which some are too large for one message, or have arrays that are messages of
# their own, some of them on a device.
PAIRS = """
    import random
    try:
        import numpy
    except ImportError:
        numpy = None
    import wherry

    def content_of(number):
        return bytes([number % 251]) * (40 + number % 7 * 1000)

    def on_device(number):
        memory = wherry.DeviceMemory(len(content_of(number)), "sim")
        wherry.copy_memory(memory, content_of(number))
        return memory

    def read_back(array):
        content = bytearray(len(array.memory))
        wherry.copy_memory(content, array)
        return content

    def value_of(number):
        value = number, bytes([number % 256]) * [3, 3000, 5000, 60000][number % 4]
        if number % 5 == 0:
            return value + (on_device(number), on_device(number + 1))
        if numpy is None or number % 3:
            return value
        return value + (numpy.full(1000, number), numpy.full((3, 1000), number))

    def same(value, expected):
        if len(value) != len(expected) or value[:2] != expected[:2]:
            return False
        if value[0] % 5 == 0:
            return [read_back(each) for each in value[2:]] == [content_of(value[0] + i) for i in range(2)]
        return all(a.shape == b.shape and (a == b).all() for a, b in zip(value[2:], expected[2:]))

    class Pair(Chare):
        def __init__(self):
            self.sent = self.got = 0
            self.places = set()
            self.other = self.thisProxy[self.thisIndex ^ 1]
        def open(self, count=1):
            self.channels = [Channel(self, self.other) for _ in range(count)]
        def give(self, count):
            for _ in range(count):
                for channel in self.channels:
                    channel.send(*value_of(self.sent))
                self.sent += 1
        async def take(self, count):
            self.places.add(charm.myPe())
            for _ in range(count):
                for channel in self.channels:
                    value = await channel.recv()
                    assert same(value, value_of(self.got)), (value[0], self.got)
                self.got += 1
            return self.got
        def go(self, pe):
            self.migrate(pe)
        def where(self):
            return charm.myPe()
        def seen(self):
            return self.sent, self.got, len(self.places)

    async def opened(n, count=1, **options):
        pairs = Array(Pair, n, **options)
        await pairs.open(count, awaitable=True)
        await charm.quiescence()
        return pairs

    async def at(element, pe):
        while await element.where(ret=True) != pe:
            pass
"""


class Ends(Jobs):
    def program(self, text, out="", n=(2, 3)):
        self.good(PAIRS + text, out, n=n)

    def test_values_come_once_and_in_order(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                self.program(f"""
    async def main(args):
        dice, pairs = random.Random({seed}), await opened(4, 2)
        given, moves = [0] * 4, 0
        taken = [0] * 4
        for round in range(40):
            i = dice.randrange(4)
            count = dice.randrange(1, 6)
            pairs[i].give(count)
            given[i] += count
            waits = []
            if dice.random() < 0.5:
                j = dice.randrange(4)
                count = given[j ^ 1] - taken[j]
                taken[j] += count
                if count:
                    waits.append(pairs[j].take(count, ret=True))
            for k in dice.sample(range(4), 2):
                pairs[k].go(dice.randrange(charm.numPes()))
            if dice.random() < 0.3:
                await charm.quiescence()
            await charm.wait(waits)
        for j in range(4):
            assert await pairs[j].take(given[j ^ 1] - taken[j], ret=True) == given[j ^ 1]
        seen = await pairs.seen(ret=True)
        assert [each[0] for each in seen] == given, (seen, given)
        charm.exit()
    """, n=(3,))

    def test_what_nobody_has_asked_for_goes_along(self):
        self.program("""
    async def main(args):
        pairs = await opened(2)
        pairs[1].give(30)
        await charm.quiescence()
        last = charm.numPes() - 1
        for pe in (last, 0, last):
            pairs[0].go(pe)
            await at(pairs[0], pe)
        pairs[1].give(5)
        assert await pairs[0].take(35, ret=True) == 35
        pairs[0].give(7)
        pairs[0].go(0)
        pairs[1].go(0)
        assert await pairs[1].take(7, ret=True) == 7
        charm.exit()
    """)

    def test_a_receive_holds_it_back(self):
        self.program("""
    class Waits(Pair):
        def listen(self, end):
            self.future = self.channels[0].recv()
            self.future.add_done_callback(lambda done: end.send(done.result()[0]))
        async def listens(self):
            return (await self.channels[0].recv())[0]

    async def main(args):
        pairs = Array(Waits, 2, map=On0)
        await pairs.open(awaitable=True)
        await charm.quiescence()
        end = Future()
        pairs[0].listen(end)
        later = pairs[0].listens(ret=True)
        pairs[0].go(1)
        await charm.sleep(0.05)
        assert await pairs[0].where(ret=True) == 0
        pairs[1].give(2)
        print(await end, await later)
        await at(pairs[0], 1)
        charm.exit()

    class On0(ArrayMap):
        def procNum(self, index):
            return 0
    """, "0 1\n")

    def test_a_receive_of_somebody_else_while_it_leaves(self):
        """It is told, since the object does not wait for it and takes no future along."""
        self.program("""
    ENDS = []

    class Shows(Pair):
        def show(self):
            ENDS.extend(self.channels)

    class Other(Chare):
        async def listen(self):
            try:
                return await ENDS[0].recv()
            except Exception as error:
                return type(error).__name__

    async def main(args):
        pairs, other = Array(Shows, 2, map=On0), Chare(Other, onPE=0)
        await pairs.open(awaitable=True)
        await pairs.show(awaitable=True)
        await charm.quiescence()
        pairs[0].go(1)
        print(await other.listen(ret=True))
        await at(pairs[0], 1)
        charm.exit()

    class On0(ArrayMap):
        def procNum(self, index):
            return 0
    """, "BusyError\n", n=(2,))

    def test_a_value_for_which_there_is_no_memory(self):
        """Nothing of it goes, so that the next one comes whole."""
        self.program("""
    import pathlib, resource

    class Large(Pair):
        def try_it(self, size):
            value = bytes(size)
            before = resource.getrlimit(resource.RLIMIT_AS)
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size + size // 2, before[1]))
            try:
                self.channels[0].send(value)
            except MemoryError:
                return "refused"
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
                self.channels[0].send("next")
        async def listens(self):
            return await self.channels[0].recv()

    async def main(args):
        pairs = Array(Large, 2)
        await pairs.open(awaitable=True)
        print(await pairs[0].try_it((128 << 20) - 65536, ret=True), await pairs[1].listens(ret=True))
        charm.exit()
    """, "refused next\n", n=(1,))

    def test_a_send_holds_it_back(self):
        self.program("""
    async def main(args):
        pairs = await opened(2)
        pairs[0].give(150)      # more than the other one's window
        pairs[0].go(1)
        await charm.sleep(0.05)
        first = await pairs[0].where(ret=True)
        assert await pairs[1].take(150, ret=True) == 150
        await at(pairs[0], 1)
        print(first)
        charm.exit()
    """, "0\n", n=(2,))

    def test_one_that_the_other_has_not_opened_holds_it_back(self):
        code, out, err = self.job(PAIRS + """
    async def main(args):
        pairs = Array(Pair, 2)
        pairs[0].open()
        pairs[0].go(1)
        await charm.sleep(0.05)
        print(await pairs[0].where(ret=True))
        pairs[1].open()
        await at(pairs[0], 1)
        pairs[1].give(3)
        print(await pairs[0].take(3, ret=True))
        charm.exit()
    """, 2)
        self.assertEqual((code, out), (0, "0\n3\n"), err)
        self.assertRegex(err, "W-CHARE-10.*a channel of it has not been opened by both elements yet")

    def test_balancing_moves_them(self):
        self.program("""
    class Cell(Pair):
        def begin(self, rounds, end):
            self.rounds, self.end = rounds, end
            self.thisProxy[self.thisIndex].step()
        async def step(self):
            self.give(3)
            await self.take(3)
            self.rounds -= 1
            self.setLoad(1 + self.thisIndex + 5 * (self.rounds % 3 == self.thisIndex % 3))
            self.AtSync()
        def resumeFromSync(self):
            if self.rounds:
                return self.thisProxy[self.thisIndex].step()
            self.end.send(charm.lastBalance(self.thisProxy).fixed)

    async def main(args):
        for strategy in ("greedy", "refine", "distributed"):
            cells = Array(Cell, 8, balance=strategy)
            await cells.open(2, awaitable=True)
            await charm.quiescence()
            end = Future(8)
            cells.begin(12, end)
            await end
            seen = await cells.seen(ret=True)
            assert all(each[:2] == (36, 36) for each in seen), seen
            assert strategy != "greedy" or any(each[2] > 1 for each in seen), seen
        charm.exit()
    """)

    def test_ends_that_were_closed(self):
        self.program("""
    class Closes(Pair):
        def close(self):
            for channel in self.channels:
                channel.close()
        async def rest(self):
            got = []
            try:
                while True:
                    got.append((await self.channels[0].recv())[0])
            except (wherry.errors.ClosedError, wherry.errors.PeerError) as error:
                return got, type(error).__name__
        def send(self):
            try:
                self.channels[0].send(1)
            except wherry.errors.ClosedError as error:
                return type(error).__name__

    import wherry

    async def main(args):
        pairs = Array(Closes, 4)
        await pairs.open(awaitable=True)
        await charm.quiescence()
        last = charm.numPes() - 1
        pairs[1].give(3)
        await charm.quiescence()
        pairs[1].close()
        pairs[0].go(last)
        pairs[1].go(0)
        await at(pairs[0], last)
        await at(pairs[1], 0)
        print(*await pairs[0].rest(ret=True), *await pairs[1].rest(ret=True), await pairs[1].send(ret=True))
        pairs[3].give(2)
        await charm.quiescence()
        pairs[3].ckDestroy()
        await charm.quiescence()
        pairs[2].go(0)
        await at(pairs[2], 0)
        print(*await pairs[2].rest(ret=True))
        charm.exit()
    """, "[0, 1, 2] ClosedError [] ClosedError ClosedError\n[0, 1] PeerError\n")

    def test_new_ones_get_new_ids(self):
        self.program("""
    class More(Pair):
        def another(self):
            self.channels.append(Channel(self, self.other))
        def without_first(self):
            self.channels.pop(0).close()

    async def main(args):
        pairs = Array(More, 2)
        await pairs.open(2, awaitable=True)
        await charm.quiescence()
        for round in range(4):
            pairs[0].go(round % charm.numPes())
            await at(pairs[0], round % charm.numPes())
            await pairs.without_first(awaitable=True)
            await pairs.another(awaitable=True)
            await charm.quiescence()
            pairs.give(2)
            assert await pairs.take(2, ret=True) == [2 * round + 2] * 2
        charm.exit()
    """)

    def test_it_is_no_argument(self):
        self.program("""
    import copy
    class Tries(Pair):
        def tries(self):
            said = []
            for call in (lambda: self.other.take(self.channels[0]), lambda: copy.copy(self.channels[0]),
                         lambda: self.channels[0].__init__(self, self.other)):
                try:
                    call()
                except TypeError as error:
                    said.append(str(error))
            return said, repr(Channel.__new__(Channel))
    async def main(args):
        pairs = Array(Tries, 2)
        await pairs.open(awaitable=True)
        said, text = await pairs[0].tries(ret=True)
        print(*said, text, sep="\\n")
        charm.exit()
    """, """\
        a Channel stays with its chare, and goes along when that moves: pass what it has received
        a Channel stays with its chare, and goes along when that moves: pass what it has received
        <Channel of Tries> has been made already
        <Channel of nothing>
        """)
