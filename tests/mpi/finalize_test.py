#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The end of a job, whichever rank is first and whichever last.  finalize_test.py FOLDER: that of bin/mpicc and bin/mpiexec."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent / "finalize.c"
PATIENCE = 60
TIMES = 60  # of 100 jobs of five processes seven had a rank that the others left behind, when a barrier was all there was


class Finalize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = pathlib.Path(cls.folder.name) / "finalize"
        subprocess.run([BIN / "mpicc", "-vp", "-O1", SOURCE, "-o", cls.program], check=True, timeout=PATIENCE)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def good(self, *words):
        done = subprocess.run([BIN / "mpiexec", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_rank_0_waits_for_messages_of_others(self):
        for processes, ranks in ((3, 3), (5, 5), (2, 6), (4, 8)):
            with self.subTest(processes=processes, ranks=ranks):
                how = ["-vp", ranks] if ranks > processes else []
                self.good("-n", processes, *how, self.program, 3000, -1)

    def test_all_at_once(self):
        for turn in range(TIMES):
            with self.subTest(turn=turn):
                self.good("-n", 5, self.program, 0, turn % 5)
        for turn in range(TIMES // 6):
            with self.subTest(turn=turn):
                self.good("-n", 4, "-vp", 8, self.program, 0, turn % 9)

    def test_memory_of_another_job_is_left_alone(self):
        with tempfile.NamedTemporaryFile() as file:
            self.good("-n", 2, "env", f"MPI_LOCALMEMORY={file.name}", self.program, 0, -1)
            self.assertEqual(pathlib.Path(file.name).stat().st_size, 0)

    def test_a_collective_that_one_rank_has_left_out(self):
        wrong = "has called another collective"
        for without, how, text in (
                (0, ["-vp", 2], "MPI rank 0: MPI_Finalize: MPI_ERR_OTHER: .*: rank 1 is in a collective on MPI_COMM_WORLD"),
                (1, ["-vp", 2], "MPI rank 0: MPI_Barrier on MPI_COMM_WORLD: MPI_ERR_TRUNCATE: .*: rank 1 has sent"),
                (0, ["-n", 2], f"MPI rank 1: MPI_Barrier on MPI_COMM_WORLD: MPI_ERR_OTHER: .*: rank 0 {wrong}"),
                (1, ["-n", 2], f"MPI rank 0: MPI_Barrier on MPI_COMM_WORLD: MPI_ERR_OTHER: .*: rank 1 {wrong}"),
                ("1 other", ["-n", 2], f"MPI rank 0: MPI_Barrier on MPI_COMM_WORLD: MPI_ERR_OTHER: .*: rank 1 {wrong}"),
                (3, ["-n", 8], f"MPI rank .: MPI_Barrier on MPI_COMM_WORLD: MPI_ERR_OTHER: .*: rank 3 {wrong}")):
            with self.subTest(without=without, how=how):
                done = subprocess.run([BIN / "mpiexec", *map(str, how), self.program, "0", "-1", *str(without).split()], capture_output=True, text=True,
                                      timeout=PATIENCE)
                self.assertRegex(done.stderr, text)
                self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve() / "bin"
    unittest.main(verbosity=2)
