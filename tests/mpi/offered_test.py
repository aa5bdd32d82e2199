#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""offered.c: memory that the launcher has made, which all ranks use or none.  offered_test.py WHERRY PROGRAM"""
import subprocess
import sys
import unittest

RANKS = 3


class Offered(unittest.TestCase):
    def job(self, before):
        """What ranks print where rank 1 does `before`, words of a shell, with the program behind them."""
        words = ["sh", "-c", f'test $PMI_RANK != 1 || {before} exec {PROGRAM}; exec {PROGRAM}']
        done = subprocess.run([WHERRY, "run", "-n", str(RANKS), "--timeout", "30s", *words], capture_output=True, text=True, timeout=60)
        if "unshare:" in done.stderr or "mount:" in done.stderr or "libraries" in done.stderr:  # the loader may find them by /proc
            self.skipTest("/proc cannot be taken away here: " + done.stderr)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_all_have_it(self):
        self.assertEqual(self.job(""), "memory\n" * RANKS)

    def test_files_may_not_be_that_large(self):
        self.assertEqual(self.job("ulimit -f 16;"), "memory\n" * RANKS)

    def test_one_finds_what_a_program_before_has_left(self):
        self.assertEqual(self.job("printf '\\1' | dd of=$MPI_LOCALMEMORY bs=1 seek=1 conv=notrunc 2>/dev/null &&"), "")

    def test_one_does_not_know_of_it(self):
        self.assertEqual(self.job("unset MPI_LOCALMEMORY ||"), "")

    def test_one_cannot_map_it(self):
        self.assertEqual(self.job("MPI_LOCALMEMORY=${MPI_LOCALMEMORY%/*}/2"), "")  # no file

    def test_one_has_no_proc(self):
        self.assertEqual(self.job(f"exec unshare -m sh -c 'mount -t tmpfs none /proc && exec {PROGRAM}' ||"), "")


if __name__ == "__main__":
    WHERRY, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
