#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/mpi: as in a serial run, in processes, over TCP, and as virtual ranks.  examples_test.py FOLDER."""
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "mpi"
PATIENCE = 60
SMALL = {
    "jacobi3d": ["--grid", 17, "--iterations", 10],
    "cg": ["--rows", 3000, "--iterations", 20],
    "samplesort": ["--keys", 20000],
    "matmul": ["--edge", 61],
    "amr": ["--patches", 9, "--steps", 20],
}


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        at = pathlib.Path(cls.folder.name)
        cls.programs = {}
        for path in sorted(SOURCES.glob("*.c")):
            for kind in ([], ["-vp"]):
                program = at / "".join([path.stem, *kind])
                subprocess.run([BIN / "mpicc", *kind, "-O1", "-Wall", "-Wextra", "-Werror", path, "-o", program, "-lm"],
                               check=True, timeout=PATIENCE)
                cls.programs[program.name] = program

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_job(self, *words, **more):
        done = subprocess.run([BIN / "mpiexec", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, **more})
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{words}: {done.stdout}")
        return done.stdout

    def sum_of(self, name, out):
        found = [line for line in out.splitlines() if line.startswith(f"{name}: checksum ")]
        self.assertEqual(len(found), 1, out)
        return found[0]

    def test_all_are_tried(self):
        self.assertEqual(sorted(path.stem for path in SOURCES.glob("*.c")), sorted(SMALL))

    def test_the_same_result_on_any_number_of_ranks(self):
        for name, options in SMALL.items():
            alone = self.run_job("-n", 1, self.programs[name], *options, "--check")
            self.assertIn("the same as in a serial run", alone)
            for start in (["-n", 2], ["-n", 4], ["-n", 5]):
                with self.subTest(name=name, start=start):
                    out = self.run_job(*start, self.programs[name], *options)
                    self.assertEqual(self.sum_of(name, out), self.sum_of(name, alone))
            for processes, ranks in ((1, 1), (1, 2), (1, 3), (2, 8), (1, 16), (3, 16)):
                with self.subTest(name=name, processes=processes, ranks=ranks):
                    out = self.run_job("-n", processes, "-vp", ranks, self.programs[f"{name}-vp"], *options)
                    self.assertEqual(self.sum_of(name, out), self.sum_of(name, alone))

    def test_over_tcp(self):
        for name, options in SMALL.items():
            with self.subTest(name=name):
                out = self.run_job("-n", 3, self.programs[name], *options, "--check", WHERRY_LANES="stream")
                self.assertIn("the same as in a serial run", out)

    def busiest(self, what, out):
        """How many times the mean of the work the busiest rank or process had."""
        found = re.findall(rf"^amr: the busiest {what} had ([0-9.]+) times the mean of the work$", out, re.M)
        self.assertEqual(len(found), 1, out)
        return float(found[0])

    def test_the_mesh_shares_out_its_work(self):
        def busiest(*options):
            return self.busiest("rank", self.run_job("-n", 1, "-vp", 8, self.programs["amr-vp"], "--patches", 16, *options))
        self.assertLess(busiest(), 1.2)
        self.assertGreater(busiest("--fixed"), 1.5)

    def test_ranks_of_the_mesh_move(self):
        program = self.programs["amr"].with_name("amr-movable")
        subprocess.run([BIN / "mpicc", "-movable", "-O1", SOURCES / "amr.c", "-o", program, "-lm"], check=True, timeout=PATIENCE)
        alone = self.run_job("-n", 1, self.programs["amr"], *SMALL["amr"])
        if platform.machine() != "x86_64" or subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode:
            self.skipTest("ranks move on x86-64, where the system call personality is allowed")
        for processes, ranks in ((1, 4), (2, 8), (3, 16)):
            out = self.run_job("-n", processes, "-vp", ranks, "-movable", program, *SMALL["amr"], "--fixed", "--balance")
            self.assertEqual(self.sum_of("amr", out), self.sum_of("amr", alone))
        # The ranks have what they had; with enough of them, which process they are in evens out the work of these.
        for processes, ranks in ((2, 32), (3, 48)):
            job = ("-n", processes, "-vp", ranks, "-movable", program, "--patches", 16, "--fixed")
            stays, moves = self.run_job(*job), self.run_job(*job, "--balance")
            self.assertEqual(self.sum_of("amr", moves), self.sum_of("amr", stays))
            self.assertEqual(self.busiest("rank", moves), self.busiest("rank", stays))
            self.assertGreater(self.busiest("process", stays), 1.5)
            self.assertLess(self.busiest("process", moves), 1.2)

    def test_an_option_that_is_wrong_ends_the_job(self):
        done = subprocess.run([BIN / "mpiexec", "-n", "2", self.programs["cg"], "--rows", "many"], capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rows takes a number from 2 to", done.stderr)

    def test_options(self):
        for name, options in SMALL.items():
            for how in ([name], [f"{name}-vp"]):
                start = ["-n", 2, *(["-vp", 4] if how != [name] else []), self.programs[how[0]]]
                with self.subTest(start=start):
                    self.assertRegex(self.run_job(*start, "--help"), rf"^usage: \S*{name}(-vp)? .*{options[0]} N .*--check\n$")
                    for words, wrong in (([options[0] + "z", 5], options[0] + "z"), ([options[0][:-1], 5], options[0][:-1]), ([*options, "more"], "more"),
                                         (["--"], "--"), (["--check", ""], "")):
                        done = subprocess.run([BIN / "mpiexec", *map(str, start + words)], capture_output=True, text=True, timeout=PATIENCE)
                        self.assertEqual((done.returncode, done.stdout), (2, ""))
                        self.assertEqual(done.stderr.count(f"there is no option '{wrong}'\nusage: "), 1, done.stderr)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve() / "bin"
    unittest.main(verbosity=2)
