#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of bench-charm: run_test.py BUILD.  That it measures, what it writes, and what it says of peers that cannot be had."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import contenders
import report
import run as bench

HERE = pathlib.Path(__file__).resolve().parent
BUILD = None
LIMIT = 100  # seconds; the test's own is longer


class Short(unittest.TestCase):
    """A run that is as small as can be, without peers."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.done = subprocess.run([sys.executable, HERE / "run.py", BUILD, "--short", "--no-peers", "--reps", "2", "--patience", "30",
                                   "--out", cls.folder.name], text=True, capture_output=True, timeout=LIMIT)
        cls.found = json.loads(pathlib.Path(cls.folder.name, "bench-charm.json").read_text())

    def row(self, part, contender, what):
        rows = [row for row in self.found["rows"] if (row["part"], row["contender"], row["what"]) == (part, contender, what)]
        self.assertEqual(len(rows), 1, (part, contender, what, self.done.stderr))
        return rows[0]

    def test_all_parts_have_figures(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        expected = [("latency", name, f"{size} B") for size in (8, 65536)
                    for name in ("engine: active message", "engine: tagged", "entry, C", "channel, C")]
        expected += [("stencil", f"C, {mode}, 2^3 blocks", "24^3") for mode in ("channel", "post", "staged")]
        expected += [("stencil", "C, channel, 1^3 blocks", "24^3")]
        expected += [(part, "C, wherry run", "2 processes") for part in ("start", "memory")]
        if "in Python are left out" not in self.done.stderr:
            expected += [("latency", f"{kind}, Python", f"{size} B") for size in (8, 65536) for kind in ("entry", "channel")]
            expected += [("stencil", "Python, wherry.charm", "24^3")]
            expected += [(part, "Python, wherry run", "2 processes") for part in ("start", "memory")]
        for each in expected:
            row = self.row(*each)
            self.assertEqual(len(row["values"]), 2, row)
            self.assertGreater(min(row["values"]), 0, row)
        self.assertEqual(len(self.found["rows"]), len(expected))

    def test_ratios_and_goals(self):
        for size in (8, 65536):
            entry, am = self.row("latency", "entry, C", f"{size} B"), self.row("latency", "engine: active message", f"{size} B")
            self.assertEqual(entry["ratios"], [{"beside": "engine: active message", "ratio": entry["median"] / am["median"],
                                                "goal": 2.0}])
        self.assertIn("of engine: active message (goal 2: ", self.done.stdout)

    def test_picture(self):
        root = xml.etree.ElementTree.parse(pathlib.Path(self.folder.name, "bench-charm.svg")).getroot()
        bars = root.findall("{http://www.w3.org/2000/svg}rect")
        self.assertEqual(len(bars), len(self.found["rows"]))


class Peers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def said(self, function, *words):
        """What a function answers, and what it says on standard error."""
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            found = function(*words)
        return found, err.getvalue()

    def test_peers_that_cannot_be_installed(self):
        def refuse(*_, **__):
            raise subprocess.CalledProcessError(1, "pip")
        for name in ("with_packages", "mpis"):
            self.addCleanup(setattr, contenders, name, getattr(contenders, name))
        contenders.with_packages = refuse
        contenders.mpis = type("Mpis", (), {"make": staticmethod(lambda *_: False), "NAMES": ("mpich",)})
        peers, err = self.said(bench.Peers, self.folder / "peers", True)
        self.assertEqual((peers.charm4py, peers.mpi), (None, []))
        self.assertIn("charm4py cannot be installed from PyPI, so it is left out", err)
        self.assertNotIn("Traceback", err)

    def job(self, program):
        return contenders.Job("one", [sys.executable, "-c", program])

    def test_programs_that_fail_or_hang(self):
        for program, patience, why in (("import sys; sys.exit('no luck')", 30, "exit code 1: no luck"),
                                       ("print('no figures')", 30, "exit code 0: no figures"),
                                       ("import time; time.sleep(5)", 0.2, "more than 0.2 s")):
            found, err = self.said(contenders.run, self.job(program), patience)
            self.assertIsNone(found)
            self.assertIn("one: left out", err)
            self.assertIn(why, err)

    def test_an_interrupted_run_leaves_nothing_behind(self):
        file = self.folder / "pid"
        program = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        code = ("import contenders, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
                f"contenders.run(contenders.Job('one', [sys.executable, '-c', {program!r}]), 60)")
        process = subprocess.Popen([sys.executable, "-c", code], cwd=HERE)
        while process.poll() is None and not (file.exists() and file.read_text()):
            time.sleep(0.01)
        process.terminate()
        self.assertEqual(process.wait(LIMIT), 3)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)

    def test_result_among_other_lines(self):
        found = contenders.run(self.job("print('hello\\n{\"us\": 2}\\n[bye]')"), 30)
        self.assertEqual(found, {"us": 2})

    def test_who_fails_is_not_asked_again(self):
        count = self.folder / "count"
        program = f"open({str(count)!r}, 'a').write('x'); raise SystemExit(1)"
        how = type("How", (), {"reps": 3, "patience": 30})
        found, _ = self.said(bench.in_turns, [self.job(program), None], how)
        self.assertEqual((found, count.read_text()), ({}, "x"))


class Judging(unittest.TestCase):
    def test_a_missed_goal_is_said(self):
        rows = [report.row("latency", "entry, C", "8 B", "us", [3.0, 1.0, 2.0]),
                report.row("latency", "engine: active message", "8 B", "us", [0.5]),
                report.row("latency", "entry, Python", "8 B", "us", [4.0])]
        report.compare(rows)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            report.show("latency", rows)
        self.assertIn("4.00 of engine: active message (goal 2: MISSED)", out.getvalue())
        self.assertIn("4 us (goal 5 us: met)", out.getvalue())

    def test_stencils_that_differ(self):
        bench.check_heat({"one": [{"heat": 1.0}], "other": [{"heat": 1.0 + 1e-12}], "in C": [{"seconds": 1}]})
        with self.assertRaises(SystemExit):
            bench.check_heat({"one": [{"heat": 1.0}], "other": [{"heat": 1.001}]})


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
