#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpicc, mpicxx and mpiexec: wrappers_test.py FOLDER, which has bin, include and lib."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
HELLO = pathlib.Path(__file__).resolve().parent / "hello.c"
LIMIT = 120
RANKS = ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]


class Wrappers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mpi = FOLDER

    def call(self, name, *words, code=0, **env):
        done = subprocess.run([self.mpi / "bin" / name, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=LIMIT, cwd=self.folder, env={**os.environ, **env})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def check_runs(self, program):
        self.assertEqual(sorted(self.call("mpiexec", "-n", "3", program).splitlines()), RANKS)

    def test_programs_are_built_and_run(self):
        shutil.copy(HELLO, self.folder / "hello.cc")
        for compiler, source in (("mpicc", HELLO), ("mpicc_abi", HELLO)):
            with self.subTest(compiler):
                self.call(compiler, "-Wall", "-Werror", source, "-o", "hello")
                self.check_runs(self.folder / "hello")
        (self.folder / "plus.cc").write_text("#include <mpi.h>\nint main() { return MPI_Init(nullptr, nullptr) || MPI_Finalize(); }\n")
        for compiler in ("mpicxx", "mpicxx_abi", "mpic++"):
            with self.subTest(compiler):
                self.call(compiler, "-Wall", "-Werror", "plus.cc", "-o", "plus")
                self.call("mpiexec", "-n", "2", self.folder / "plus")

    def test_in_steps(self):
        self.call("mpicc", "-c", HELLO, "-o", "hello.o")
        self.call("mpicc", "hello.o", "-o", "hello")
        self.check_runs(self.folder / "hello")

    def test_what_it_shows_can_be_typed(self):
        for show in ("-show", "--showme"):
            line = self.call("mpicc", show, HELLO, "-o", "shown here")
            subprocess.run(["sh", "-c", line], check=True, cwd=self.folder)
            self.check_runs(self.folder / "shown here")
        compile, link = (shlex.split(self.call("mpicc", f"-{step}-info")) for step in ("compile", "link"))
        self.assertEqual(compile[1:], [f"-I{self.mpi}/include"])
        self.assertIn("-lmpi_abi", link)
        self.assertEqual(self.call("mpicc", "-showme:compile").split(), compile[1:])
        self.assertEqual(self.call("mpicc", "-showme:link").split(), link[1:])
        self.assertNotIn("-l", self.call("mpicc", "-show", "-c", "x.c").replace(str(self.mpi), ""))

    def test_what_is_added_for_ranks_of_a_process_is_shown(self):
        for how, libs in ((["-vp"], ["mpi_vp", "mpi_abi"]), (["-movable"], ["mpi_vp", "wherry_mpix", "mpi_abi"])):
            for words in ([*how], [*how, "x.c"]):
                with self.subTest(words=words):
                    compile, link = (shlex.split(self.call("mpicc", *words, f"-showme:{step}")) for step in ("compile", "link"))
                    self.assertEqual(compile, shlex.split(self.call("mpicc", *how, "-compile-info"))[1:])
                    self.assertEqual(link, shlex.split(self.call("mpicc", "-link-info", *how))[1:])
                    self.assertIn("-fPIC", compile)
                    self.assertIn("-shared", link)
                    self.assertEqual(self.call("mpicc", *words, "-showme:libs").split(), libs)
            compile, link = (shlex.split(self.call("mpicc", f"-showme:{step}", *how)) for step in ("compile", "link"))
            subprocess.run(["cc", *compile, "-c", HELLO, "-o", "hello.o"], check=True, cwd=self.folder)
            subprocess.run(["cc", "hello.o", *link, "-o", "hello"], check=True, cwd=self.folder)
            self.assertEqual(sorted(self.call("mpiexec", "-n", "1", "-vp", "3", "./hello").splitlines()), RANKS)
        self.assertEqual(self.call("mpicc", "-showme:libs").split(), ["mpi_abi"])

    def test_help(self):
        for compiler in ("mpicc", "mpicxx"):
            usage = self.call(compiler, "-help")
            self.assertTrue(usage.startswith(f"usage: {compiler} "), usage)
            for option in ("-vp", "-movable", "-show", "-compile-info", "-link-info", "-cc=", "-showme:"):
                self.assertIn(f"{option}", usage)
        for words in (["--version"], ["-v"], ["-v", "-c", HELLO]):
            self.assertNotIn("usage: mpicc", self.call("mpicc", *words))

    def test_another_compiler(self):
        self.assertTrue(self.call("mpicc", "-show", MPICH_CC="ccache clang").startswith("ccache clang -I"))
        self.assertTrue(self.call("mpicxx", "-cc=other", "-show").startswith("other -I"))

    def test_in_another_place_and_through_a_link(self):
        moved = self.folder / "moved here" / "src" / "mpi"
        for part in ("bin", "include", "lib"):
            shutil.copytree(FOLDER / part, moved / part, symlinks=True, ignore=shutil.ignore_patterns("*.p"))
        for library in FOLDER.parents[1].glob("libwherry.so*"):
            (moved.parents[1] / library.name).symlink_to(library)
        link = self.folder / "mycc"
        link.symlink_to(moved / "bin" / "mpicc")
        done = subprocess.run([link, HELLO, "-o", "hello"], cwd=self.folder, timeout=LIMIT)
        self.assertEqual(done.returncode, 0)
        self.check_runs(self.folder / "hello")
        self.assertIn(f"{moved}/lib", subprocess.run([link, "-showme:libdirs"], capture_output=True, text=True).stdout)

    def test_a_launcher_that_tells_nothing_is_named_in_one_line(self):
        """Else there would be as many jobs of one rank as there were to be ranks."""
        self.call("mpicc", HELLO, "-o", "hello")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "SLURM", "OMPI", "FLUX", "JSM", "PALS"))}
        for sign, advice in (("SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"), ("PMI_PORT", "-pmi-port"), ("PMI_SIZE", "mpiexec of Wherry"),
                             ("OMPI_COMM_WORLD_SIZE", "PMIx"), ("FLUX_JOB_SIZE", "-o pmi=simple")):
            done = subprocess.run(["./hello"], cwd=self.folder, env={**env, sign: "4"}, capture_output=True, text=True, timeout=LIMIT)
            self.assertNotEqual(done.returncode, 0)
            line, = done.stderr.splitlines()
            self.assertTrue(line.startswith("MPI: MPI_Init: "), line)
            self.assertIn(advice, line)
            self.assertEqual(done.stdout, "")

    def test_what_the_compiler_says_is_its(self):
        (self.folder / "bad.c").write_text("int main(void) { return nothing; }\n")
        self.call("mpicc", "bad.c", code=1)


if __name__ == "__main__":
    unittest.main()
