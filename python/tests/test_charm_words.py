# SPDX-License-Identifier: BSD-3-Clause
"""What is said about programs of wherry.charm is in their words: timelines and dumps name classes, methods and elements."""
import collections
import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from kit import ENV
from test_charm import HEAD, LIMIT, RUN, Jobs


class Words(Jobs):
    def launch(self, program, *options, begin=True):
        """Has `wherry run` start a program; its return code, output and errors."""
        file = pathlib.Path(self.folder, "program.py")
        file.write_text(HEAD + textwrap.dedent(program) + ("\ncharm.start(main)\n" if begin else ""))
        done = subprocess.run([RUN, "run", *options, sys.executable, file], env=ENV, text=True, timeout=LIMIT, capture_output=True)
        return done.returncode, done.stdout, done.stderr


class Timelines(Words):
    def test_names_and_arrows(self):
        """Spans are methods, also those of coroutines that go on; each arrow has both ends, though elements move."""
        path = pathlib.Path(self.folder, "t.json")
        code, _, err = self.launch("""
            class Nomad(Chare):
                def __init__(self):
                    self.step = 0
                def hop(self, pe):
                    self.migrate(pe)
                def take(self, value):
                    pass
                @when("self.step == step")
                def later(self, step):
                    self.step += 1
                async def twice(self, other):
                    await other.take(1, ret=True)
                    await other.take(2, ret=True)

            class Alone(Chare):
                def look(self):
                    pass

            async def main(args):
                nomads = Array(Nomad, 6)
                await Chare(Alone).look(ret=True)
                for turn in range(12):
                    for i in range(6):
                        nomads[i].hop((i + turn) % charm.numPes())
                        nomads[(i + 1) % 6].take(turn)
                nomads.later(1)
                await nomads.later(0, ret=True)
                await nomads[2].twice(nomads[4], ret=True)
                await charm.quiescence()
                charm.exit()
            """, "-n", "3", "--trace", str(path))
        self.assertEqual((code, err), (0, ""))
        events = json.loads(path.read_text())
        spans = collections.Counter(event["name"] for event in events if event["ph"] == "X")
        self.assertEqual({name: spans[name] for name in ("Nomad.construct", "Alone.construct", "Nomad.hop", "Nomad.take", "Alone.look")},
                         {"Nomad.construct": 6, "Alone.construct": 1, "Nomad.hop": 72, "Nomad.take": 74, "Alone.look": 1})
        self.assertEqual(spans["Nomad.later"] + spans["Nomad.when"], 12)
        self.assertEqual(spans["Nomad.when"], 6)
        self.assertEqual(spans["Nomad.twice"], 3)  # it has begun, and gone on twice
        self.assertFalse([name for name in spans if "wherry" in name or "call" in name or "17217" in name])
        ends = collections.defaultdict(list)
        for event in events:
            if event["ph"] in "sf":
                ends[event["id"]].append(event["ph"])
        self.assertGreater(len(ends), 100)
        self.assertEqual({tuple(sorted(kinds)) for kinds in ends.values()}, {("f", "s")})


class Dumps(Words):
    def dump(self, program, last):
        """What two PEs print when they are asked to, once the program has printed "there", up to a line with `last` in it."""
        file = pathlib.Path(self.folder, "program.py")
        file.write_text(HEAD + textwrap.dedent(program) + "\ncharm.start(main)\n")
        process = subprocess.Popen([RUN, "run", "-n", "2", "--dump", sys.executable, file], env=ENV, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        killer = threading.Timer(LIMIT, process.kill)
        killer.start()
        try:
            self.assertEqual(process.stdout.readline(), "there\n")
            process.send_signal(signal.SIGUSR1)
            lines = []
            while sum(last in line for line in lines) < 2:
                lines.append(process.stderr.readline())
                self.assertTrue(lines[-1], f"it hangs: {lines}")
            time.sleep(0.1)  # what belongs to it comes behind
            process.send_signal(signal.SIGTERM)
            found, pe = {}, None
            for line in lines + process.communicate()[1].splitlines(True):
                if line.startswith("PE "):
                    pe = int(line[3])
                    found[pe] = ""
                elif line.startswith("worker "):
                    pe = None
                elif pe is not None:
                    found[pe] += line
            return found
        finally:
            killer.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def test_what_is_waited_for(self):
        found = self.dump("""
            class Cell(Chare):
                def __init__(self):
                    self.step = 0
                @when("self.step == step")
                def edge(self, step):
                    pass
                async def ask(self, other):
                    await other.never(ret=True)
                async def never(self):
                    await Future()
                async def listen(self, other):
                    await Channel(self, other).recv()
                async def add(self):
                    await self.allreduce(1, Reducer.sum)
                async def both(self, other):
                    await charm.wait([self.thisProxy[0].edge(0, awaitable=True), other.never(ret=True)])

            class Alone(Chare):
                async def rest(self):
                    await Future(2)

            async def main(args):
                cells = Array(Cell, 4)
                Chare(Alone, onPE=1).rest()
                for i in range(2):
                    cells[3].edge(1)
                cells[3].edge(7)
                cells[0].ask(cells[2])
                cells[1].listen(cells[2])
                cells[0].both(cells[3])
                for i in (0, 2, 3):
                    cells[i].add()
                await charm.quiescence()
                print("there", flush=True)
                await Future()
            """, "nothing to do")
        for pe, lines in {
                0: ["Cell[0].ask waits for the result of Cell[2].never", "Cell[1].listen waits for a value on its channel to Cell[2]",
                    "Cell[0].both waits for 1 of 2 futures, the first: the result of Cell[3].never",
                    "Cell[0].add waits for all Cell objects to contribute to a reduction",
                    "Cell[1] waits for 1 channels: Cell[2] has not opened its end", "3 of 4 contributions are here",
                    "1 of its 2 elements here have contributed; not yet: Cell[1]", "elements: 2 of Cell (array ",
                    "coroutines that wait: 5", "nothing is under way here: what waits above waits for other PEs"],
                1: ["Cell[3] keeps 3 calls of edge until their condition holds", "Alone.rest waits for future ",
                    ", which nobody has sent all values", "Cell[2].never waits for future ", ", which nobody has sent a value",
                    "single chares: 1 of Alone", "Cell[2] has not opened its end of 1 channels, which Cell[1] has opened"]}.items():
            for line in lines:
                self.assertIn(line, found[pe])
        self.assertNotIn("wherry.charm", found[0] + found[1])

    def test_an_end_that_was_forgotten(self):
        found = self.dump("""
            class Here(Chare):
                def hello(self):
                    pass
            async def main(args):
                await Group(Here).hello(awaitable=True)
                print("there", flush=True)
            """, "nothing to do")
        for pe in found:
            self.assertIn("and nothing waits: if all PEs say so, was charm.exit() forgotten, which ends the job?\n", found[pe])
            self.assertIn("elements: 1 of Here (group ", found[pe])

    def test_lines_are_bounded_and_asyncio_goes_on(self):
        found = self.dump("""
            import asyncio
            class Cell(Chare):
                async def rest(self):
                    await Future()
                @when("False")
                def kept(self):
                    pass
            async def main(args):
                cells = Array(Cell, 100)
                cells.rest()
                cells.kept()
                await charm.quiescence()
                print("there", flush=True)
                await asyncio.get_running_loop().create_future()
            """, "more kinds of calls that are kept")
        self.assertNotIn("nothing to do", found[0])
        self.assertIn("main waits for something of asyncio's" if "main waits" in found[0] else "more coroutines", found[0])
        for pe in (0, 1):
            self.assertEqual(found[pe].count(".rest waits for") + found[pe].count("main waits for"), 8)
            self.assertEqual(found[pe].count(" keeps 1 calls of kept"), 8)
            self.assertIn(f"  and {43 - pe} more coroutines\n", found[pe])
            self.assertIn("  and 42 more kinds of calls that are kept\n", found[pe])

    def test_a_timer_of_asyncio_goes_on(self):
        found = self.dump("""
            import asyncio
            def main(args):
                asyncio.get_running_loop().call_later(1000, print)
                print("there", flush=True)
            """, "coroutines that wait: 0")
        self.assertNotIn("nothing to do", found[0])


class Sentences(Words):
    def test_element_0_is_named_and_single_chares_have_no_index(self):
        bad = """
            class Bad(Chare):
                def fail(self):
                    raise ValueError("on purpose")
            def main(args):
                {}
            """
        for call, sentence in (("Array(Bad, 4)[0].fail()", "Bad.fail of element 0 has failed"),
                               ("Array(Bad, (2, 2))[0, 0].fail()", "Bad.fail of element (0, 0) has failed"),
                               ("Group(Bad)[0].fail()", "Bad.fail of element 0 has failed"),
                               ("Chare(Bad).fail()", "Bad.fail has failed")):
            with self.subTest(call=call):
                code, _, err = self.job(bad.format(call))
                self.assertEqual(code, 1)
                self.assertIn(sentence, err)

    def test_mistakes_say_what_is_wrong(self):
        program = """
            class Open(Chare):
                def __init__(self):
                    Channel(self, remote=self.thisProxy[self.thisIndex])
            class Plain(Chare):
                def look(self):
                    pass
                async def hear(self):
                    channel = Channel(self, remote=self.thisProxy[1])
                    self.thisProxy[1].ckDestroy()
                    await channel.recv()
            async def main(args):
                plain = Array(Plain, 4)
                plain.ckDestroy()
                await charm.quiescence()
                {}
            """
        for call, sentence in (("Array(Open, 2)", "Open.__init__ of element 0 has failed"),
                               ("Array(Open, 2)", "element (0) of the array of class Open opens a channel to itself: name another"),
                               ("Array(Plain, 4)['x']", "TypeError: <array of Plain> has integers as indices, not 'x'"),
                               ("Array(Plain, 2)[0].hear()", "PeerError: Channel.recv: the object at the other end has ended"),
                               ("plain.look()", "NotFoundError: look: <array of Plain> has been destroyed"),
                               ("plain[2].look()", "NotFoundError: look: <array of Plain[2]> has been destroyed")):
            with self.subTest(call=call):
                code, _, err = self.job(program.format(call))
                self.assertEqual(code, 1)
                self.assertIn(sentence, err)

    def test_a_class_that_another_process_lacks(self):
        code, _, err = self.job("""
            async def main(args):
                class Local(Chare):
                    pass
                Array(Local, 4)
            """, 2)
        self.assertEqual(code, 1)
        self.assertIn("PE 1: the making of a chare has failed", err)
        self.assertIn("there is no class of chares '__main__:main.<locals>.Local' here", err)


if __name__ == "__main__":
    unittest.main()
