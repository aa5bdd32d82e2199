#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""few.c: what a process cannot do that may open no more files.  few_test.py WHERRY PROGRAM"""
import subprocess
import sys
import unittest


class Few(unittest.TestCase):
    def errors(self, what):
        done = subprocess.run([WHERRY, "run", "-n", "2", "--timeout", "30s", PROGRAM, what], capture_output=True, text=True, timeout=60)
        self.assertNotIn(done.returncode, (0, 124), done.stderr)
        return done.stderr

    def test_windows(self):
        self.assertIn("MPI_Win_allocate_shared on MPI_COMM_WORLD: MPI_ERR_NO_MEM: there is not enough memory: "
                      "rank 1 cannot get 4096 bytes of shared memory: Too many open files (ulimit -n)", self.errors("window"))

    def test_messages(self):
        self.assertIn("MPI_Send on MPI_COMM_WORLD: MPI_ERR_OTHER: an error that has no class of its own: "
                      "a message was not sent: a limit of this process or system is reached, most often that of open files (ulimit -n)",
                      self.errors("message"))


if __name__ == "__main__":
    WHERRY, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
