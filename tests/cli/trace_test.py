#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry run --trace`: what PEs do is in the file, as JSON that timeline viewers read."""
import collections
import json
import os
import sys
import unittest

import launch
from launch import HERE

RT_JOB = os.path.abspath(os.environ.get("RT_JOB", "build/tests/rt-job"))
PARTICLES = os.path.abspath(os.environ.get("PARTICLES", "build/examples/particles"))
CHARES = os.path.abspath(os.environ.get("CHARES", "build/examples/chares"))
ROUNDS = 3  # of rt-job, in each of which every PE sends to every PE


class Trace(launch.Case):
    def events(self):
        events = json.loads((self.folder / "t.json").read_text())
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
        return events

    def check_arrows(self, events):
        """Each arrow has a begin and an end, once, in this order, and each in a span of its PE."""
        sent = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
        self.assertEqual(len(sent), sum(event["ph"] == "s" for event in events))
        handled = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
        self.assertEqual(len(handled), sum(event["ph"] == "f" for event in events))
        self.assertEqual(sent.keys(), handled.keys())
        for arrow, begin in sent.items():
            self.assertLess(begin, handled[arrow])
        spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X" and event["name"] != "idle":
                spans[event["tid"]].append((event["ts"] - 0.002, event["ts"] + event["dur"] + 0.002))
        for event in events:
            if event["ph"] in "sf":
                self.assertTrue(any(begin <= event["ts"] <= end for begin, end in spans[event["tid"]]), event)
        return len(sent)

    def test_messages(self):
        for kind in HERE:
            for pes in (1, 2):
                with self.subTest(kind=kind, pes=pes):
                    total = 3 * pes
                    self.job(0, "-n", "3", *kind, "--trace", "t.json", "--env", f"WHERRY_PES={pes}", RT_JOB,
                             "--rounds", str(ROUNDS))
                    events = self.events()
                    self.assertEqual(self.check_arrows(events), ROUNDS * total * total + total)
                    spans = collections.Counter((event["pid"], event["tid"]) for event in events
                                                if event["name"] == "handler 1")
                    self.assertEqual(spans, {(pe // pes, pe): ROUNDS * total for pe in range(total)})
                    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
                    self.assertEqual(rows, {pe: f"PE {pe}" for pe in range(total)})
                    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
                    self.assertEqual(names, ["rank 0", "rank 1", "rank 2"])

    def test_entries(self):
        self.job(0, "-n", "2", "--trace", "t.json", CHARES)
        events = self.events()
        self.check_arrows(events)
        names = {event["name"] for event in events if event["ph"] == "X"}
        self.assertLessEqual({"greeter.greet", "main"}, names)

    def test_elements_that_move(self):
        """Calls that follow their element, and what PEs tell each other of it, have both ends, too."""
        self.job(0, "-n", "3", "--trace", "t.json", PARTICLES, "--steps", "12", "--every", "3", "--particles", "500", "--cells", "4")
        events = self.events()
        self.check_arrows(events)
        spans = collections.Counter(event["name"] for event in events if event["ph"] == "X")
        self.assertEqual(spans["cell.construct"], 16)
        self.assertEqual(spans["cell.take"], 16 * 9 * 12)

    def test_idle_time(self):
        self.job(0, "-n", "2", "--trace", "t.json", RT_JOB)
        rows = collections.defaultdict(list)
        for event in self.events():
            if event["ph"] == "X" and event["name"] not in ("thread", "main"):
                rows[event["tid"]].append((event["ts"], event["dur"], event["name"]))
        for spans in rows.values():
            spans.sort()
            self.assertIn("idle", [name for _, _, name in spans])
            for (begin, lasts, _), (following, _, _) in zip(spans, spans[1:]):
                self.assertLessEqual(begin + lasts, following + 0.01)  # microseconds, rounded

    def test_a_killed_process(self):
        """The others' lines are there, and the file is whole."""
        self.job(137, "-n", "3", "--trace", "t.json", RT_JOB, "--die", "1", "kill")
        events = self.events()
        self.assertEqual(sum(event["name"] == "process_name" for event in events), 3)
        self.check_arrows(events)

    def test_what_is_no_event(self):
        """A process that writes something else to the descriptor does not spoil the file."""
        code = ("import os; fd = int(os.environ['WHERRYRUN_TRACE_FD']); "
                "os.write(fd, b'x\\n{\\n}, \\n' + 20000 * b'y' + b'\\n{\"name\":\"mine\",\"ph\":\"X\",\"ts\":1,\"dur\":1},\\n{\"cut')")
        self.job(0, "-n", "2", "--trace", "t.json", sys.executable, "-c", code)
        self.assertEqual([event["name"] for event in self.events()], ["mine", "mine", "process_name", "process_name"])

    def test_an_arrow_with_one_end(self):
        """What nobody handles is not drawn; the two ends may come in any order, and from any process."""
        code = ("import os; rank = int(os.environ['PMI_RANK']); fd = int(os.environ['WHERRYRUN_TRACE_FD']); "
                "begin = '{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"%s\",%s\"id\":\"%s\",\"ts\":%d},\\n'; "
                "s = lambda id: begin % ('s', '', id, 1); f = lambda id: begin % ('f', '\"bp\":\"e\",', id, 2); "
                "os.write(fd, (s('1-2-3') + s('0-1-1') + s('1-0-7') if rank else f('0-1-1') + f('1-2-33') + f('1-0-7')).encode())")
        self.job(0, "-n", "2", "--trace", "t.json", sys.executable, "-c", code)
        arrows = sorted((event["id"], event["ph"]) for event in self.events() if event["name"] == "message")
        self.assertEqual(arrows, [("0-1-1", "f"), ("0-1-1", "s"), ("1-0-7", "f"), ("1-0-7", "s")])

    def test_without_it(self):
        """Nothing is there that a program could see, also if the launcher was traced itself."""
        code = "import os; assert not any(name.startswith('WHERRYRUN_') for name in os.environ); os.fstat(3); " \
               "print(len(os.listdir('/proc/self/fd')))"
        out, _ = self.job(0, sys.executable, "-c", code, WHERRYRUN_TRACE_FD="4", WHERRYRUN_TRACE_START="5")
        self.assertEqual(out, "5\n")  # 0 to 3, and the folder that is read

    def test_mistakes(self):
        _, err = self.job(1, "--trace", "no/such/folder", RT_JOB)
        self.assertRegex(err, r"^wherry run: no/such/folder of --trace cannot be made: No such file or directory\n")
        _, err = self.job(2, "--trace", "", RT_JOB)
        self.assertIn("--trace is empty", err)
        _, err = self.job(1, "--trace", "/dev/full", RT_JOB)
        self.assertRegex(err, r"/dev/full of --trace could not be written")


if __name__ == "__main__":
    unittest.main()
