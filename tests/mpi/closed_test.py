#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""closed.c: a job with a rank that can reach nobody ends, with a reason.  closed_test.py FOLDER: that of bin/mpicc and bin/mpiexec."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent / "closed.c"
PATIENCE = 20


class Closed(unittest.TestCase):
    def test_the_job_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "closed"
            subprocess.run([BIN / "mpicc", "-vp", "-O1", SOURCE, "-o", program], check=True, timeout=PATIENCE)
            for size in (["-n", "2"], ["-n", "5"], ["-n", "3", "-vp", "6"]):
                for rank in ("0", "1", "-1"):
                    for how in ("fatal", "return"):
                        with self.subTest(size=size, rank=rank, how=how):
                            done = subprocess.run([BIN / "mpiexec", *size, program, rank, how], capture_output=True, text=True, timeout=PATIENCE)
                            self.assertEqual(done.stdout, "")
                            self.assertNotEqual(done.returncode, 0)
                            self.assertRegex(done.stderr, "E-BOOT-02: the connection to the launcher .* is closed|a process has ended before its time|E-RT-03")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]) / "bin"
    del sys.argv[1]
    unittest.main(verbosity=2)
