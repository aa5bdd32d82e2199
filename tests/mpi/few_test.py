#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""few.c: what a process cannot do that may open no more files, or have none with anything in it.  few_test.py WHERRY PROGRAM"""
import subprocess
import sys
import unittest


class Few(unittest.TestCase):
    def errors(self, ranks, *words, program=None):
        program = program or [PROGRAM]
        done = subprocess.run([WHERRY, "run", "-n", str(ranks), "--timeout", "30s", *program, *words], capture_output=True, text=True, timeout=60)
        self.assertNotIn(done.returncode, (0, 124), done.stderr)
        return done.stderr

    def test_windows(self):
        self.assertIn("MPI_Win_allocate_shared on MPI_COMM_WORLD: MPI_ERR_NO_MEM: there is not enough memory: "
                      "rank 1 cannot get 4096 bytes of shared memory: Too many open files (ulimit -n)", self.errors(2, "window"))

    def test_size_of_files(self):
        self.assertIn("rank 0 cannot get 4096 bytes of shared memory: File too large (ulimit -f)",
                      self.errors(2, "window", program=["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', PROGRAM]))

    def test_messages(self):
        self.assertIn("MPI_Send on MPI_COMM_WORLD: MPI_ERR_OTHER: an error that has no class of its own: "
                      "a message was not sent: a limit of this process or system is reached, most often that of open files (ulimit -n)",
                      self.errors(2, "message"))

    def test_accesses(self):
        limit = "a limit of this process or system is reached"
        for words, text in ((("fence", "100000"), f"MPI_Win_fence: MPI_ERR_OTHER: an error that has no class of its own: an access to rank 4 was not carried out: {limit}, "
                                                  "most often that of open files (ulimit -n)"),
                            (("wait", "100000"), f"an access to rank 4 was not carried out: {limit}, most often that of open files (ulimit -n)"),
                            (("fence", "8"), "E-RT-03: processing element 1: PE 4 is lost: connecting to ")):
            with self.subTest(words=words):
                errors = self.errors(8, *words)
                self.assertIn(text, errors)
                self.assertIn("ulimit -n", errors)


if __name__ == "__main__":
    WHERRY, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
