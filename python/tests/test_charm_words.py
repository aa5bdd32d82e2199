# SPDX-License-Identifier: BSD-3-Clause
"""What is said about programs of wherry.charm is in their words: timelines and dumps name classes, methods and elements."""
import collections
import json
import pathlib
import subprocess
import sys
import textwrap
import unittest

from kit import ENV, LIMIT
from test_charm import HEAD, RUN, Jobs


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


if __name__ == "__main__":
    unittest.main()
