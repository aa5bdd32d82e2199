#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compared.c: all ranks hear the same of a collective that they do not agree about.  compared_test.py WHERRY PROGRAM"""
import os
import subprocess
import sys
import unittest

WHERRY, PROGRAM = sys.argv[1:3]
ERRORS = {  # MPI error class, and what the sentence says
    "kind": (16, "rank 1 has called MPI_Reduce, rank 0 MPI_Bcast"),
    "root": (8, "rank 2 has called MPI_Bcast with root 1, rank 0 with root 0"),
    "op": (10, "rank 1 has called MPI_Allreduce with another operation than rank 0"),
    "bytes": (2, "rank 2 has called MPI_Allgather with 8 bytes, rank 0 with 4"),
    "types": (3, "rank 1 has called MPI_Bcast with elements of other types than rank 0"),
    "first": (16, "rank 0 has called MPI_Bcast, rank 1 MPI_Barrier"),
}


def run(*words):
    return subprocess.run([WHERRY, "run", *words], capture_output=True, text=True, env={**os.environ, "WHERRY_MPI_CHECK": "1"})


class Compared(unittest.TestCase):
    def classes(self, ranks, case):
        done = run("-n", str(ranks), PROGRAM, case)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return sorted(done.stdout.splitlines())

    def test_each_rank_gets_the_error(self):
        for case, (number, _) in ERRORS.items():
            with self.subTest(case=case):
                self.assertEqual(self.classes(4, case), [f"{rank}: {number}" for rank in range(4)])

    def test_both_sides_are_named(self):
        for case, (_, text) in ERRORS.items():
            with self.subTest(case=case):
                done = run("-n", "4", PROGRAM, case, "fatal")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)

    def test_calls_that_agree(self):
        for ranks in (1, 3, 4):
            self.assertEqual(self.classes(ranks, "right"), [f"{rank}: 0" for rank in range(ranks)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
