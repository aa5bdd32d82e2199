#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the MPI library against the standard's ABI: abi_test.py LIBRARY BUILD

Its symbols, its name, that mpi.h compiles as C and C++, and that a profiler can take the place of functions.  MPICH's own header for the
ABI, of the wheel that is fetched into PEERS, says the same numbers and prototypes; without a network that one is skipped.
"""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench" / "peers")]
import make  # noqa: E402
import mpi_table  # noqa: E402

LIBRARY, BUILD = map(os.path.abspath, sys.argv[1:3])
INCLUDE, PEERS = f"{BUILD}/src/mpi/include", f"{BUILD}/peers"
CC = os.environ.get("CC", "cc").split()
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{INCLUDE}"]
SOURCES = pathlib.Path(__file__).resolve().parent


def names():
    """Of all functions in all forms, without MPI_."""
    functions, _ = mpi_table.read(ROOT / "src" / "mpi" / "table.txt")
    return {name for function in functions for name, _ in function.forms}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpi-abi-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def compiled(self, *arguments):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr[:3000])


class Symbols(unittest.TestCase):
    def test_all_and_no_others(self):
        symbols = {}
        for line in run("nm", "-D", "--defined-only", LIBRARY, check=True).stdout.splitlines():
            _, kind, symbol = line.split()
            symbols[symbol] = kind
        weak = {f"MPI_{name}": "W" for name in names()}
        strong = {f"PMPI_{name}": "T" for name in names()}
        self.assertEqual(len(weak), 664)
        self.assertEqual(symbols, {**weak, **strong})

    def test_both_names_of_the_library(self):
        self.assertIn("soname: [libmpi_abi.so.1]", run("readelf", "-d", LIBRARY, check=True).stdout)
        for version in (0, 1):
            name = pathlib.Path(LIBRARY).with_name(f"libmpi_abi.so.{version}")
            ctypes.CDLL(str(name)).PMPI_Send


class Header(Folder):
    def test_every_prototype_compiles(self):
        for language, compiler in (("c", [*CC, "-std=c99"]), ("c++", ["c++", "-std=c++11"])):
            if not shutil.which(compiler[0]):
                continue
            uses = "\n".join(f"    (generic)P{name}, (generic){name}," for name in (f"MPI_{n}" for n in sorted(names())))
            source = self.folder / "use.c"
            source.write_text(f"#include <mpi.h>\n#include <mpi.h>\ntypedef void (*generic)(void);\ngeneric all[] = {{\n{uses}\n}};\n")
            with self.subTest(language):
                self.compiled(*compiler, *STRICT, "-Wno-cast-function-type", "-x", language, "-fsyntax-only", source)


class Standard(Folder):
    """Beside the header of MPICH's ABI library."""

    def setUp(self):
        super().setUp()
        home = pathlib.Path(PEERS) / "mpich"
        self.header = home / "include" / "mpi_abi.h"
        if not make.install("mpich", home) or not self.header.exists():
            self.skipTest("no MPICH with an ABI header")
        self.text = self.header.read_text()

    def constants(self):
        found = re.findall(r"^\s*#\s*define\s+(MPI_\w+)\s+\S", self.text, re.M) + re.findall(r"^\s*(MPI_\w+)\s*=", self.text, re.M)
        return sorted(name for name in set(found) if not re.match(r"MPI_(ABI_(Aint|Offset|Count)|H_ABI)$", name))

    def values(self, header, constants):
        source = self.folder / "values.c"
        lines = "".join(f'    printf("{name} %lld\\n", (long long)({name}));\n' for name in constants)
        source.write_text(f'#include <stdio.h>\n#include <stddef.h>\n#include {header}\nint main(void) {{\n{lines}'
                          '    printf("status %zu %zu %zu %zu\\n", sizeof(MPI_Status), offsetof(MPI_Status, MPI_SOURCE), '
                          'offsetof(MPI_Status, MPI_TAG), offsetof(MPI_Status, MPI_ERROR));\n}\n')
        self.compiled(*CC, "-w", f"-I{INCLUDE}", source, "-o", self.folder / "values")
        return run(self.folder / "values", check=True).stdout.splitlines()

    def test_constants(self):
        constants = self.constants()
        self.assertGreater(len(constants), 350)
        self.assertEqual(self.values("<mpi.h>", constants), self.values(f'"{self.header}"', constants))

    def test_prototypes(self):
        prototypes = re.findall(r"^(?:int|double|MPI_\w+) \**P?MPI_\w+\([^;]*;", self.text, re.M)
        self.assertGreater(len(prototypes), 1300)
        source = self.folder / "again.c"
        source.write_text("#include <mpi.h>\n" + "\n".join(prototypes))
        self.compiled(*CC, f"-I{INCLUDE}", "-Werror", "-fsyntax-only", source)


class Profiling(Folder):
    """The program's own calls go to a library that was loaded before, and on from there."""

    def test_a_tracer_that_is_preloaded(self):
        library = pathlib.Path(LIBRARY)
        self.compiled(*CC, *STRICT, SOURCES / "traced.c", "-o", self.folder / "traced", LIBRARY,
                      f"-Wl,-rpath,{library.parent}", f"-Wl,-rpath-link,{BUILD}")
        self.compiled(*CC, *STRICT, "-shared", "-fPIC", SOURCES / "tracer.c", "-o", self.folder / "tracer.so")
        plain = run(self.folder / "traced")
        self.assertEqual((plain.returncode, plain.stdout), (0, "program ends\n"), plain.stderr)
        traced = run(self.folder / "traced", env={**os.environ, "LD_PRELOAD": str(self.folder / "tracer.so")})
        self.assertEqual((traced.returncode, traced.stdout), (0, "MPI_Comm_toint\nMPI_Wtime\nprogram ends\n"), traced.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
