# SPDX-License-Identifier: BSD-3-Clause
"""``python -m wherry.perf``: its rows, its picture, and what it says about peers that it cannot have."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from kit import ENV
from wherry.perf import figures, plot
from wherry.perf.figures import Row

try:
    import numpy as np
except ImportError:
    np = None

LIMIT = 120
QUICK = ("--sizes", "8", "65536", "--rounds", "100", "--repeat", "2", "--tasks", "3", "--seconds", "0.1")


def perf(*words, **env):
    return subprocess.run([sys.executable, "-m", "wherry.perf", *map(str, words)], text=True,
                          capture_output=True, env={**ENV, **env}, timeout=LIMIT)


class Running(unittest.TestCase):
    def test_rows(self):
        done = perf(*QUICK, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {(row["test"], row["metric"], row["size"], row["peer"]): row
                for row in json.loads(done.stdout)}
        for size in (8, 65536):
            for test in ("async", "blocking"):
                ours = rows[test, "latency", size, None]
                self.assertTrue(0 < ours["min"] <= ours["median"] <= ours["p99"], ours)
                self.assertGreater(rows[test, "bandwidth", size, None]["median"], 0)
            beside = rows["async", "latency", size, "asyncio streams"]
            self.assertAlmostEqual(beside["ratio"],
                                   rows["async", "latency", size, None]["median"] / beside["median"])
        for peer in (None, "asyncio streams", "eventfd + asyncio"):
            self.assertGreater(rows["asleep", "latency", 8, peer]["median"], 0)
        for peer in (None, "asyncio streams"):
            self.assertGreater(rows["tasks x3", "fairness", 8, peer]["median"], 0.3)
            self.assertGreater(rows["tasks x3", "rate", 8, peer]["median"], 0)
        self.assertGreater(rows["send", "cost", 8, None]["min"],
                           rows["send", "cost", 8, "C call"]["min"])
        if np:
            for peer in (None, "copied by numpy"):
                for test in ("columns out", "columns"):
                    self.assertGreater(rows[test, "latency", 65536, peer]["median"], 0)
            self.assertGreater(rows["send strided", "cost", 8, None]["min"], 0)
        self.assertLess(rows["idle x1000", "cpu", 0, None]["median"], 20)

    def test_unknown_peer(self):
        done = perf("--peers", "nobody")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'nobody' is not one of mpi4py, ucxx", done.stderr)

    def test_peer_that_cannot_be_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            done = perf(*QUICK, "--json", "--peers", "mpi4py", "--peers-folder", folder,
                        PIP_NO_INDEX="1", PIP_FIND_LINKS=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out: mpi4py cannot be installed", done.stderr)
        self.assertTrue(json.loads(done.stdout))

    def test_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "out.svg")
            done = perf(*QUICK, "--plot", picture)
            self.assertIn("asyncio streams", done.stdout)
            try:
                import matplotlib  # noqa: F401
            except ImportError:
                self.assertEqual(done.returncode, 1)
                self.assertIn("pip install matplotlib", done.stderr)
                return
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<svg", picture.read_text())


class Figures(unittest.TestCase):
    def test_medians_and_ratios(self):
        rows = figures.middle([[Row("async", "latency", 8, 1.0 * i, p99=2.0 * i, min=0.5 * i),
                                Row("async", "latency", 8, 4.0 * i, peer="other")]
                               for i in (3, 1, 2)])
        figures.compare(rows)
        self.assertEqual([(row.peer, row.median, row.p99, row.min, row.ratio) for row in rows],
                         [(None, 2.0, 4.0, 0.5, None), ("other", 8.0, None, None, 0.25)])
        self.assertEqual(figures.from_json(figures.to_json(rows)), rows)

    def test_warm_up_is_left_out(self):
        times = [9.0] * 10 + [2e-6] * 89 + [4e-6]
        row = figures.timed("async", "latency", 8, times)
        self.assertEqual((row.median, row.p99, row.min, row.unit), (1.0, 2.0, 1.0, "us"))

    def test_lines(self):
        rows = [Row("async", "latency", 8, 2.0, peer="C engine"), Row("async", "latency", 1024, 3.0),
                Row("async", "latency", 8, 1.0), Row("blocking", "latency", 8, 5.0, peer="C engine"),
                Row("asleep", "latency", 8, 7.0)]
        self.assertEqual(plot.series(rows, "latency"),
                         {"Wherry, async": [(8, 1.0), (1024, 3.0)], "C engine": [(8, 2.0)]})
        self.assertEqual([plot.size_text(size) for size in (8, 1024, 65536, 1 << 20)],
                         ["8", "1K", "64K", "1M"])


if __name__ == "__main__":
    unittest.main()
