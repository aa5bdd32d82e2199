#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""poor.c: messages that come to a process without memory.  poor_test.py WHERRY PROGRAM"""
import subprocess
import sys
import unittest


class Poor(unittest.TestCase):
    def job(self, *words):
        done = subprocess.run([WHERRY, "run", "-n", "2", "--timeout", "30s", PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_the_receive_fails(self):
        for size in (12000, 100000):  # what is kept, and what stays with its sender
            with self.subTest(size=size):
                code, err = self.job(size)
                self.assertEqual(code, 0, err)

    def test_it_says_why(self):
        code, err = self.job(12000, "fatal")
        self.assertNotEqual(code, 0)
        self.assertIn("MPI_Recv on MPI_COMM_WORLD: MPI_ERR_NO_MEM: there is not enough memory: "
                      "there was no memory for a message of 12000 bytes from rank 0, tag 2: it is lost", err)


if __name__ == "__main__":
    WHERRY, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
