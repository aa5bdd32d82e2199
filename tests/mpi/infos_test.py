#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What infos of the library say: MPI_INFO_ENV, mpi_memory_alloc_kinds.  infos_test.py WHERRY PROGRAM [cuda]: there is a device."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

OBJECTS = ("session", "communicator", "window", "file")


class Infos(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/file"

    def ask(self, *words, options=(), **env):
        done = subprocess.run([WHERRY, "mpiexec", "-n", "1", *options, PROGRAM, self.file, *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **env})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split(" ", 1) for line in done.stdout.splitlines())

    def test_the_start_of_the_program(self):
        found = self.ask("a", "b c", "", "d")
        self.assertEqual(pathlib.Path(found["command"]), pathlib.Path(PROGRAM).resolve())
        self.assertEqual(found["argv"], f"{self.file} a b c  d")

    def test_as_many_arguments_as_fit(self):
        for long in (900, 2000, 9000):
            with self.subTest(long=long):
                begin = f"{self.file} a "
                self.assertEqual(self.ask("a", "b" * long, "c")["argv"],
                                 (begin + "b" * long + " c" if long == 900 else begin.strip()))

    def test_no_kinds_of_memory(self):
        found = self.ask()
        self.assertEqual(found["asked"], "-")
        for name in OBJECTS:
            self.assertEqual(found[name], "system,mpi", name)

    def test_kinds_of_memory_that_were_asked_for(self):
        for how in ({"options": ["-memory-alloc-kinds", "system,cuda"]}, {"options": ["--memory-alloc-kinds=system,cuda"]},
                    {"WHERRY_MPI_MEMORY_ALLOC_KINDS": "system,cuda"}):
            with self.subTest(how=how):
                found = self.ask(**how)
                self.assertEqual(found["asked"], "system,cuda")
                for name in OBJECTS:
                    self.assertIn(found[name], ["system,mpi,cuda"] + ["system,mpi"] * (not CUDA), name)
        self.assertEqual(self.ask(WHERRY_MPI_MEMORY_ALLOC_KINDS="")["asked"], "-")

    def test_a_session_asks(self):
        found = self.ask("session")
        self.assertEqual(found["asked"], "-")
        for name in OBJECTS:
            self.assertIn(found[name], ["system,mpi,cuda"] + ["system,mpi"] * (not CUDA), name)


if __name__ == "__main__":
    WHERRY, PROGRAM, *CUDA = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
