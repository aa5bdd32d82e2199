# SPDX-License-Identifier: BSD-3-Clause
"""wherry.charm: elements that are balanced."""
from test_charm import Jobs as Programs

# An array all of which is on PE 0 at first.
CELLS = """
    class AllOn0(ArrayMap):
        def procNum(self, index):
            return 0

    class Cell(Chare):
        def __init__(self, load=1.0):
            self.load, self.steps, self.places, self.missing = load, 0, [], 0
        def reach(self, load=None):
            if load is not None:
                self.setLoad(load)
            self.AtSync()
        def resumeFromSync(self):
            self.steps += 1
            self.places.append(charm.myPe())
            self.thisProxy[0].resumed()
        def resumed(self):
            self.missing -= 1
            if self.missing == 0:
                self.end.send()
        def tell(self, end, count):
            self.end, self.missing = end, count
        def read(self):
            return self.steps, self.places[-1], self.load

    async def step(cells, count, *load):
        end = Future()
        await cells[0].tell(end, count, awaitable=True)
        cells.reach(*load)
        await end
        return charm.lastBalance(cells)
"""


class Cells(Programs):
    def program(self, text, out, n=(3,)):
        self.good(CELLS + text, out, n=n)


class Balance(Cells):
    def test_elements_go_where_there_is_less_to_do(self):
        self.program("""
    async def main(args):
        n = charm.numPes()
        for options in (dict(balance="greedy"), dict(balance="refine"), dict(balance="distributed"), dict(useAtSync=True)):
            cells = Array(Cell, 24, map=AllOn0, **options)
            assert charm.lastBalance(cells) is None
            first = await step(cells, 24, 2.0)
            assert first[:3] == (1, 24, 0) and first.max_before == 48.0 and first.mean_before == 48 / n, first
            assert first.moved > 0 and first.max_after < 48, first
            told = await cells.read(ret=True)
            assert all(steps == 1 for steps, place, load in told), told
            assert sum(place != 0 for steps, place, load in told) == first.moved, (told, first)
            assert [load for steps, place, load in told] == [1.0] * 24, told
            second = await step(cells, 24, 1)
            assert second[:2] == (2, 24) and second.max_before == first.max_after / 2, (first, second)
        cells = Array(Cell, 24, map=AllOn0, balance="none")
        last = await step(cells, 24, 1)
        assert last.moved == 0 and last.max_after == 24.0, last
        charm.exit()
    """, "", n=(2, 3))

    def test_time_is_measured_where_it_is_spent(self):
        self.program("""
    import time
    def spin(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    class Worker(Cell):
        async def work(self, seconds):
            await charm.sleep(0.02 * (self.thisIndex + 1))
            spin(seconds)            # in the turn of a timer
        def plain(self, other, seconds):
            spin(seconds)
    class Other(Chare):
        def work(self):
            spin(0.3)

    async def main(args):
        cells = Array(Worker, 3, map=AllOn0, balance="none")
        other = Chare(Other, onPE=0)
        cells[1].plain(other, 0.2)
        await other.work(awaitable=True)    # of no balanced array: nobody's
        await cells[2].work(0.4, awaitable=True)
        first = await step(cells, 3)
        assert 0.6 <= first.max_before, first
        wall = time.perf_counter()
        second = await step(cells, 3)
        assert second.max_before < 0.1 + time.perf_counter() - wall, second  # measured anew
        cells.work(0.1)
        await charm.sleep(0.5)
        cells[0].reach()
        cells[1].reach(5)
        third = await step_rest(cells)
        assert 5.2 <= third.max_before, third  # what is told is in place of what was measured
        charm.exit()

    async def step_rest(cells):
        end = Future()
        await cells[0].tell(end, 3, awaitable=True)
        cells[2].reach()
        await end
        return charm.lastBalance(cells)
    """, "", n=(2,))

    def test_other_elements_are_not_charged(self):
        self.program("""
    import time
    class Other(Chare):
        def work(self, end):
            time.sleep(0.5)
            end.send()
        async def wake(self, end):
            await end
            time.sleep(0.5)

    class Waker(Cell):
        def go(self, end):
            end.send()

    async def main(args):
        cells = Array(Waker, 2, map=AllOn0, balance="none")
        other = Chare(Other, onPE=0)
        end = Future()
        done = other.wake(end, awaitable=True)
        cells[0].go(end)
        await done
        cells[0].go(Future())
        await charm.sleep(0.5)  # in which nobody has anything to do
        last = await step(cells, 2)
        assert last.max_before < 0.4, last
        charm.exit()
    """, "", n=(1,))

    def test_who_is_in_the_middle_of_something_stays(self):
        self.program("""
    class Sleeper(Cell):
        async def sleep(self, future):
            await future
            return charm.myPe()
        async def resumeFromSync(self):
            await charm.sleep(0)
            super().resumeFromSync()
        def ask_all(self, end):
            self.allreduce(1, Reducer.sum).add_done_callback(lambda done: end.send((done.result(), charm.myPe())))

    class Bell(Chare):
        async def ring(self):
            self.future = Future()
            return self.future

    async def main(args):
        cells = Array(Sleeper, 12, map=AllOn0, balance="greedy")
        bell = Chare(Bell, onPE=0)
        future = await bell.ring(ret=True)
        waits = [cells[i].sleep(future, ret=True) for i in (3, 4)]
        asked = Future(12)
        cells[5].ask_all(asked)
        await charm.quiescence()
        last = await step(cells, 12, 1)
        assert last.fixed == 3 and 0 < last.moved <= 9, last
        future.send()
        for each in waits:
            assert await each == 0
        for i in range(12):
            if i != 5:
                cells[i].ask_all(asked)
        told = await asked
        assert [result for result, pe in told] == [12] * 12, told
        last = await step(cells, 12, 1)
        assert last.fixed == 0, last
        charm.exit()
    """, "", n=(2, 3))

    def test_state_goes_along(self):
        self.program("""
    class Own(Cell):
        def __init__(self):
            super().__init__()
            self.lock = lambda: 1
            self.gone = 0
        def __getstate__(self):
            return {name: value for name, value in vars(self).items() if type(value) in (int, float, list, Future)}
        def __setstate__(self, state):
            vars(self).update(state)
            self.gone += 1
        @when("self.steps == 2")
        def late(self, value):
            return value, self.gone

    async def main(args):
        cells = Array(Own, 8, map=AllOn0, balance="greedy")
        late = [cells[i].late(i, ret=True) for i in range(8)]
        last = await step(cells, 8, 1)
        assert last.moved >= 4, last
        await step(cells, 8, 1)
        told = await charm.wait(late)
        assert [value for value, gone in told] == list(range(8)), told
        assert sum(gone >= 1 for value, gone in told) >= 4, told
        charm.exit()
    """, "", n=(2, 3))

    def test_an_element_that_cannot_be_pickled_stays_and_is_named(self):
        for strategy in ("greedy", "distributed"):
            code, out, err = self.job(CELLS + f"""
    class Odd(Cell):
        def spoil(self):
            if self.thisIndex % 2:
                self.handle = lambda: 1
        def mend(self, to):
            self.handle = None
            self.migrate(to)

    async def main(args):
        cells = Array(Odd, 16, map=AllOn0, balance="{strategy}")
        cells.spoil()
        for number in (1, 2, 3):
            last = await step(cells, 16, 1)
            assert last.elements == 16 and last.number == number, last
        told = await cells.read(ret=True)
        assert all(steps == 3 for steps, place, load in told), told
        assert all(told[i][1] == 0 for i in range(1, 16, 2)), told
        assert any(told[i][1] == 1 for i in range(0, 16, 2)), told
        assert last.fixed > 0, last
        for i in range(1, 16, 2):
            cells[i].mend(1)
        print((await step(cells, 16, 1)).fixed)
        charm.exit()
    """, 2)
            with self.subTest(strategy):
                self.assertEqual((code, out), (0, "0\n"), err)
                self.assertRegex(err, r"wherry.charm: PE 0: it stays where it is: Odd \d+: attribute 'handle' cannot be pickled: "
                                      r"\w+: Can't (get|pickle)")
                self.assertNotIn("Traceback", err)
                stays = [line for line in err.splitlines() if "stays where it is" in line]
                self.assertEqual(len(stays), len(set(stays)), err)  # each is told of once

    def test_who_ends_is_not_waited_for(self):
        self.program("""
    async def main(args):
        cells = Array(Cell, 6, balance="refine")
        end = Future()
        await cells[0].tell(end, 5, awaitable=True)
        for i in range(5):
            cells[i].reach(1)
        await charm.quiescence()
        assert charm.lastBalance(cells) is None
        cells[5].ckDestroy()
        await end
        assert charm.lastBalance(cells).elements == 5
        charm.exit()
    """, "", n=(1, 3))

    def test_elements_that_are_inserted_take_part(self):
        self.program("""
    async def main(args):
        cells = Array(Cell, ndims=1, balance="greedy")
        for i in range(6):
            cells.ckInsert(i)
        cells.ckDoneInserting()
        await charm.quiescence()
        assert (await step(cells, 6, 1)).elements == 6
        charm.exit()
    """, "", n=(1, 3))

    def test_mistakes_are_told(self):
        self.program("""
    class Plain(Chare):
        def all(self):
            said = []
            for call in (self.AtSync, lambda: self.setLoad(1)):
                try:
                    call()
                except TypeError as error:
                    said.append(str(error))
            return said
    class Twice(Cell):
        def both(self):
            said = []
            for load in (-1, float("nan"), float("inf")):
                try:
                    self.setLoad(load)
                except ValueError as error:
                    said.append(str(error))
            self.AtSync()
            try:
                self.AtSync()
            except RuntimeError as error:
                said.append(str(error))
            return said

    async def main(args):
        print(*await Array(Plain, 1)[0].all(ret=True), sep="\\n")
        print(*await Array(Twice, 2, balance="none")[1].both(ret=True), sep="\\n")
        for wrong in (dict(balance="best"), dict(balance="greedy")):
            try:
                Array(Plain, 1, **wrong)
            except (TypeError, ValueError) as error:
                print(error)
        charm.exit()
    """, """\
        <array of Plain> is not balanced: Array(Plain, ..., balance="greedy") makes an array that is
        <array of Plain> is not balanced: it has no loads
        a load is a number of 0 or more, not -1
        a load is a number of 0 or more, not nan
        a load is a number of 0 or more, not inf
        Twice 1 waits at its sync point already, until resumeFromSync is called
        balance is 'best': one of greedy, refine, distributed, none is needed
        Plain has no method resumeFromSync, in which objects go on when they were balanced
        """)


# Added before the program begins, as modules do.
TURNED = """
    seen = []

    @charm.addStrategy
    def turned(elements, pes):
        seen.append((elements, pes))
        return [(pes - 1 - i) % pes for i in range(len(elements))]
"""


class Strategies(Cells):
    """Functions of the program."""

    def test_it_says_where_they_go(self):
        self.program(TURNED + """
    async def main(args):
        n = charm.numPes()
        for k, strategy in enumerate((turned, "turned")):
            cells = Array(Cell, 6, map=AllOn0, balance=strategy)
            last = await step(cells, 6, 2)
            places = [place for steps, place, load in await cells.read(ret=True)]
            assert last.elements == 6 and last.moved == sum(place != 0 for place in places), (last, places)
            assert sorted(places) == sorted((n - 1 - i) % n for i in range(6)), places
            elements, pes = seen[k]
            assert pes == n and elements == [(2.0, 0, False)] * 6, (elements, pes)
            assert (elements[0].load, elements[0].pe, elements[0].fixed) == (2.0, 0, False) and len(seen) == k + 1
        await step(cells, 6, 1)
        loads, pes, fixed = zip(*seen[2][0])
        assert list(pes) == sorted(places) and set(loads) == {1.0}, seen[2]
        charm.exit()
    """, "", n=(1, 3))

    def test_who_cannot_move_stays(self):
        self.program(TURNED + """
    class Sleeper(Cell):
        async def sleep(self, future):
            await future
    async def main(args):
        cells, end = Array(Sleeper, 4, map=AllOn0, balance=turned), Future()
        slept = cells[1].sleep(end, awaitable=True)
        cells[1].sleep(end)
        last = await step(cells, 4, 1)
        places = [place for steps, place, load in await cells.read(ret=True)]
        assert places[1] == 0 and last.fixed == 1, (places, last)
        assert sum(element.fixed for element in seen[0][0]) == 1, seen
        end.send()
        await slept
        charm.exit()
    """, "", n=(3,))

    def test_added_while_the_program_runs(self):
        self.program("""
    class Adder(Chare):
        def add(self, to):
            def late(elements, pes):
                return [to] * len(elements)
            charm.addStrategy(late)
    async def main(args):
        adders = Group(Adder)
        await adders.add(0, awaitable=True)
        cells = Array(Cell, 4, balance="late")
        await step(cells, 4, 1)
        await adders.add(1, awaitable=True)  # in place of the first one
        last = await step(cells, 4, 1)
        assert last.moved == 4 and last.max_before == last.max_after == 4, last
        charm.exit()
    """, "", n=(2,))

    def test_mistakes_end_the_program(self):
        for answer, said in (
                ("[0] * (len(elements) - 1)", "ValueError: wrong has returned 5 PEs for 6 elements"),
                ("[0, 0, pes] + [0] * 3", "ValueError: wrong has returned PE 3 for element 2: there are PEs 0 to 2"),
                ("[0, -1] + [0] * 4", "ValueError: wrong has returned PE -1 for element 1: there are PEs 0 to 2"),
                ("None", "TypeError: wrong has returned None: a list of 6 PEs is needed"),
                ("[0.5] * 6", "TypeError: 'float' object cannot be interpreted as an integer"),
                ("[1 // 0]", "ZeroDivisionError: integer division or modulo by zero"),
                ("Group(Cell)", "RuntimeError: a strategy of load balancing must use nothing but its arguments")):
            with self.subTest(answer):
                code, out, err = self.job(CELLS + f"""
    @charm.addStrategy
    def wrong(elements, pes):
        return {answer}

    async def main(args):
        await step(Array(Cell, 6, balance=wrong), 6, 1)
        charm.exit()
    """, 3)
                self.assertEqual((code, out), (1, ""), err)
                self.assertIn("wherry.charm: PE 0: the strategy wrong has failed:\nTraceback (most recent call last):\n", err)
                self.assertIn(f"\n{said}\n", err)

    def test_what_is_no_strategy(self):
        self.program("""
    def unknown(elements, pes):
        return [0] * len(elements)
    def greedy(elements, pes):
        return [0] * len(elements)
    @charm.addStrategy
    def known(elements, pes):
        return [0] * len(elements)

    async def main(args):
        for wrong in (lambda: Array(Cell, 1, balance=unknown), lambda: Array(Cell, 1, balance=greedy),
                      lambda: Array(Cell, 1, balance="unknown"), lambda: charm.addStrategy(greedy), lambda: charm.addStrategy(3)):
            try:
                wrong()
            except (TypeError, ValueError) as error:
                print(str(error).split(" at 0x")[0])
        charm.exit()
    """, """\
        balance is <function unknown
        balance is <function greedy
        balance is 'unknown': one of greedy, refine, distributed, none, known is needed
        there is a strategy 'greedy': take another name
        a function with a name is needed, not 3
        """)
