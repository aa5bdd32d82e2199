#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program that was linked to version 0.1 runs with that, and with a library that has changed what
it rests on it ends before it begins, with a sentence that says why.

  old_program_test.py PROGRAM ITS_LIBRARY LIBRARY_OF_TODAY
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, OLD, NEW = sys.argv[1:4]
SONAME = "libwherry.so.0"


def run(library, name):
    """The old program where `library` is found under `name`."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / name).symlink_to(pathlib.Path(library).resolve())
        env = dict(os.environ, LD_LIBRARY_PATH=folder, LC_ALL="C")
        return subprocess.run([PROGRAM], env=env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


class OldProgram(unittest.TestCase):
    def test_runs_with_its_own_library(self):
        done = run(OLD, SONAME)
        self.assertEqual((done.returncode, done.stdout), (0, "runs with 0.1.0\n"), done.stderr)

    def test_does_not_find_todays(self):
        done = run(NEW, "libwherry.so.0.2")
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertRegex(done.stderr, "libwherry.so.0: cannot open shared object file")

    def test_is_refused_by_todays_under_the_old_name(self):
        done = run(NEW, SONAME)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"version `WHERRY_0\.1' not found")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
