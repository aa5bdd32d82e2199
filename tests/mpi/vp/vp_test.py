#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Virtual ranks, as users start them: mpicc -vp, mpiexec -vp.  vp_test.py FOLDER: that of bin/mpicc and bin/mpiexec."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 60


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.globals = cls.compile("mpicxx", "-vp", HERE / "globals.cc")
        cls.plain = cls.compile("mpicxx", HERE / "globals.cc")
        cls.streams = cls.compile("mpicxx", "-vp", HERE / "streams.cc", "-lwherry_mpix")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, compiler, *words):
        program = pathlib.Path(cls.folder.name) / f"program{len(os.listdir(cls.folder.name))}"
        subprocess.run([BIN / compiler, "-O1", *words, "-o", program], check=True, timeout=PATIENCE)
        return program

    def job(self, *words):
        done = subprocess.run([BIN / "mpiexec", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def good(self, *words, ranks):
        code, out, err = self.job(*words)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), sorted(f"rank {i} is good" for i in range(ranks)))

    def test_each_rank_has_globals_of_its_own(self):
        for processes, ranks in ((1, 1), (1, 2), (1, 16), (2, 5), (3, 64)):
            with self.subTest(processes=processes, ranks=ranks):
                self.good("-n", processes, "-vp", ranks, self.globals, ranks=ranks)

    def test_each_rank_knows_its_process(self):
        program = self.compile("mpicc", "-vp", HERE / "process.c", "-lwherry_mpix")
        for processes, ranks in ((1, 1), (1, 3), (2, 6), (3, 7)):
            with self.subTest(processes=processes, ranks=ranks):
                self.good("-n", processes, "-vp", ranks, program, ranks=ranks)
        self.good("-n", 3, program, ranks=3)

    def test_each_rank_has_its_errno(self):
        program = self.compile("mpicc", "-vp", HERE / "errno.c", "-lwherry_mpix")
        for processes, ranks in ((1, 4), (2, 4), (3, 7)):
            with self.subTest(processes=processes, ranks=ranks):
                self.good("-n", processes, "-vp", ranks, program, ranks=ranks)

    def test_a_line_that_a_rank_prints_in_pieces_stays_whole(self):
        for processes, ranks in ((1, 1), (1, 4), (2, 7)):
            with self.subTest(processes=processes, ranks=ranks):
                code, out, err = self.job("-n", processes, "-vp", ranks, self.streams, "lines")
                self.assertEqual((code, err), (0, ""))
                lines = [f"rank {rank}, line {i:0200d} and its end" for i in range(400) for rank in range(ranks)]
                ends = [f"the end of {rank}" for rank in range(0, ranks, 2)]
                self.assertEqual(sorted(out.splitlines()), sorted([f"rank {rank} is good" for rank in range(ranks)] + lines + ends))
                self.assertEqual(out.endswith("\n"), processes > 1)  # of one process all comes as it is
        self.assertEqual(self.job("-n", 1, "-vp", 4, self.streams, "bytes"), (0, "\1\2\0\3", ""))

    def test_each_rank_reopens_its_stdout(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.good("-n", 2, "-vp", 6, self.streams, "files", folder, ranks=6)
            for i in range(6):
                self.assertEqual((folder / str(i)).read_text(), f"rank {i} prints here\n")
            for rank in (0, 1):
                (folder / str(rank)).write_text(f"{rank + 40}\n")
            self.assertEqual(self.job("-n", 2, "-vp", 2, self.streams, "alone", folder), (0, "", ""))
            self.assertEqual([(folder / f"{rank}.out").read_text() for rank in (0, 1)], ["read 40\n", "read 41\n"])

    def test_what_ranks_have_printed_is_there_after_an_abort(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = self.job("-n", 1, "-vp", 4, self.streams, "abort", folder)
            self.assertEqual((code, out.splitlines()[-1]), (3, "a line has begun"))
            self.assertEqual(sorted(out.splitlines()[:-1]), [f"rank {rank} is good" for rank in range(4)])
            self.assertEqual((pathlib.Path(folder) / "file").read_text(), "a file has begun")

    def test_a_program_without_this_library_has_no_ranks(self):
        code, out, err = self.job("-n", 2, "-vp", 4, "/bin/echo", "hi")
        self.assertEqual((code, out), (0, "hi\nhi\n"))
        self.assertEqual(err, "wherry run: -vp 4 was asked for, but no program of this job has used Wherry's MPI library: "
                              "2 processes have run, not 4 ranks\n")
        self.assertEqual(self.job("-n", 2, "-vp", 4, "/bin/false")[2].count("\n"), 1)
        self.assertEqual(self.job("-n", 2, "/bin/echo", "hi"), (0, "hi\nhi\n", ""))

    def told(self, *words):
        """What the launcher says at the timeout, beside that processes were still there."""
        code, _, err = self.job("-timeout", 2, *words)
        self.assertEqual(code, 124)
        return [line for line in err.splitlines() if line.startswith("wherry run: rank") and "still there" not in line]

    def test_who_has_not_answered(self):
        """At the timeout the launcher names who computes outside of MPI; of virtual ranks, all those of the process."""
        program = self.compile("mpicc", "-vp", HERE / "odd.c")
        for words, silent, others in ((("-n", 3), "rank 1 has", "ranks 0, 2"), (("-n", 2, "-vp", 5), "ranks 0-2 have", "ranks 3-4")):
            self.assertEqual(self.told(*words, program), [f"wherry run: {silent} not answered: outside of MPI, or stopped",
                                                          f"wherry run: {others} wait in MPI_Wait: on MPI_COMM_WORLD"])
        self.assertEqual(self.told("-n", 3, program, "late"), ["wherry run: rank 1 has not joined the job (PMI), as MPI_Init does",
                                                               "wherry run: ranks 0, 2 wait for all processes (PMI), as in MPI_Init"])

    def test_what_is_not_received(self):
        """Whatever call waits for it, it is told to whom a message goes: to another process, and within one."""
        program = self.compile("mpicc", "-vp", HERE / "odd.c")
        apart, together = ("-n", 3), ("-n", 1, "-vp", 3)
        large, to = "send of 1048576 bytes", "rank {}, tag 7, on MPI_COMM_WORLD"
        cases = [(apart, "send", f"MPI_Send: {large} to {to}"), (together, "send", f"MPI_Send: {large} to {to}"),
                 (apart, "wait", f"MPI_Wait: {large} to {to}"), (together, "wait", f"MPI_Wait: {large} to {to}"),
                 (apart, "waitall", f"MPI_Waitall: {large} to {to}"), (apart, "waitany", f"MPI_Waitany: {large} to {to}"),
                 (apart, "waitsome", f"MPI_Waitsome: {large} to {to}"), (apart, "isendrecv", f"MPI_Waitall: {large} to {to}"),
                 (apart, "ssend", f"MPI_Ssend: synchronous send to {to}"), (together, "ssend", f"MPI_Ssend: send of 5 bytes to {to}"),
                 (apart, "issend", f"MPI_Waitall: synchronous send to {to}"), (together, "issend", f"MPI_Waitall: send of 5 bytes to {to}"),
                 (apart, "threads", f"MPI_Wait: {large} to {to}"),
                 (apart, "psend", f"MPI_Waitall: partitioned send to {to}: 3 of 4 partitions are not ready")]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = pool.map(lambda case: self.told(*case[0], program, case[1]), cases)
        for (words, call, what), lines in zip(cases, told):
            with self.subTest(call=call, words=words):
                self.assertEqual(lines, [f"wherry run: rank {rank} waits in {what}".format((rank + 1) % 3) for rank in range(3)])

    def test_the_same_program_runs_with_a_process_for_each_rank(self):
        self.good("-n", 3, self.globals, ranks=3)

    def test_a_thousand_ranks(self):
        self.good("-n", 2, "-vp", 1000, self.globals, ranks=1000)

    def test_messages_and_reductions_of_1024_ranks(self):
        program = self.compile("mpicc", "-vp", HERE / "many.c")
        for processes, ranks in ((1, 33), (2, 1024)):
            code, _, err = self.job("-n", processes, "-vp", ranks, program, ranks)
            self.assertEqual((code, err), (0, ""))

    def test_communicators(self):
        for name in ("communicators", "intercommunicators"):
            program = self.compile("mpicc", "-vp", HERE.parent / "comm" / f"{name}.c")
            code, _, err = self.job("-n", 2, "-vp", 6, program)
            self.assertEqual((code, err), (0, ""))

    def test_collectives(self):
        program = self.compile("mpicc", "-vp", HERE.parent / "collectives.c")
        code, _, err = self.job("-n", 2, "-vp", 6, program)
        self.assertEqual((code, err), (0, ""))

    def test_files(self):
        program = self.compile("mpicc", "-vp", HERE.parent / "io" / "files.c")
        code, _, err = self.job("-n", 2, "-vp", 6, program)
        self.assertEqual((code, err), (0, ""))

    def test_random_messages(self):
        program = self.compile("mpicc", "-vp", HERE.parent / "walk.c")
        for processes, ranks in ((1, 1), (1, 7), (2, 8), (3, 16)):
            code, _, err = self.job("-n", processes, "-vp", ranks, program, 20, ranks)
            self.assertEqual((code, err), (0, ""))

    def test_the_status_is_that_of_a_rank_that_fails(self):
        code, out, err = self.job("-n", 2, "-vp", 6, self.globals, "return")
        self.assertEqual(len(out.splitlines()), 6)
        self.assertEqual(code, 6, err)

    def test_exit_ends_a_rank(self):
        code, out, err = self.job("-n", 1, "-vp", 4, self.globals, "exit")
        self.assertEqual((code, len(out.splitlines())), (4, 4), err)

    def test_exit_of_a_program_whose_tables_are_read_only(self):
        program = self.compile("mpicxx", "-vp", "-fno-plt", "-Wl,-z,now,-z,relro", HERE / "globals.cc")
        code, out, err = self.job("-n", 1, "-vp", 4, program, "exit")
        self.assertEqual((code, len(out.splitlines())), (4, 4), err)

    def test_a_rank_may_go_on_after_the_others(self):
        for last in (0, 3):
            code, out, err = self.job("-n", 2, "-vp", 4, self.globals, "late", last)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(len(out.splitlines()), 4)

    def test_processes_whose_ranks_have_ended_wait_for_the_others(self):
        program = self.compile("mpicc", "-vp", HERE / "half.c")
        code, out, err = self.job("-n", 2, "-vp", 4, program)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), ["rank 2 of 2: 5", "rank 3 of 2: 5"])

    def test_stacks_that_cannot_be_are_refused(self):
        for none in ("abc", "1", "1024k", "-1"):
            code, _, err = self.job("-n", 1, "-vp", 2, "-env", "WHERRY_MPI_STACK", none, self.globals)
            self.assertEqual((code, err.splitlines()[0]),
                             (1, f"mpiexec --vp: WHERRY_MPI_STACK is the size of a rank's stack in KiB, 16 at least, not '{none}'"))
        code, _, err = self.job("-n", 1, "-vp", 2, "-env", "WHERRY_MPI_STACK", 1 << 40, self.globals)
        self.assertEqual(code, 1)
        self.assertIn("there is no memory for the stack of rank 0", err)

    def test_exit_without_finalize_ends_the_job(self):
        code, _, err = self.job("-n", 2, "-vp", 6, self.globals, "early")
        self.assertEqual(code, 9)
        self.assertIn("MPI rank 5: the program has ended with status 9 without MPI_Finalize", err)

    def test_exit_before_init_ends_the_job(self):
        code, _, err = self.job("-n", 2, "-vp", 6, self.globals, "never")
        self.assertEqual(code, 5)
        self.assertIn("the program has ended with status 5 before MPI_Init", err)

    def test_abort_ends_the_job(self):
        code, _, err = self.job("-n", 2, "-vp", 6, self.globals, "abort")
        self.assertEqual(code, 17)
        self.assertIn("MPI rank 5", err)

    def test_a_program_that_cannot_be_loaded_is_refused(self):
        code, _, err = self.job("-n", 1, "-vp", 2, self.plain)
        self.assertEqual(code, 1)
        self.assertIn("link it with mpicc -vp", err)
        self.assertNotIn("/proc/", err)

    def test_python_has_a_rank_in_each_process(self):
        library = BIN.parent / "lib" / "libmpi_abi.so.1"
        for movable in ((), ("-movable",)):
            code, _, err = self.job("-n", 1, "-vp", 2, *movable, sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r})")
            self.assertEqual(code, 1)
            self.assertIn("mpiexec --vp: Python has one rank in each process: start it with mpiexec -n N, N the number of ranks, and without --vp\n", err)
            self.assertNotIn("mpicc", err)

    def test_fewer_ranks_than_processes_are_refused(self):
        code, _, err = self.job("-n", 4, "-vp", 3, self.globals)
        self.assertEqual(code, 2)
        self.assertEqual(err.count("3 ranks cannot be dealt out to 4 processes: ask for more"), 1, err)

    def test_a_number_that_is_none_is_refused(self):
        code, _, err = self.job("-n", 1, "-vp", "x", self.globals)
        self.assertEqual(code, 2)
        self.assertIn("-vp takes a number of ranks", err)

    def test_what_a_debugger_finds(self):
        program = self.compile("mpicc", "-vp", "-g", HERE / "debugged.c")
        for ranks in (1, 3, 40):
            self.assertEqual(self.job("-n", 1, "-vp", ranks, program), (0, f"{ranks - 1} named, 1 kept, 1 libraries, 100 200\n", ""))
        self.assertEqual(self.job("-n", 1, program), (0, "0 named, 0 kept, 1 libraries, 100 200\n", ""))

    @unittest.skipUnless(shutil.which("gdb"), "there is no gdb")
    def test_a_rank_under_a_debugger(self):
        (pathlib.Path(self.folder.name) / "own.map").write_text("{ global: main; local: *; };\n")
        program = self.compile("mpicc", "-vp", "-g", f"-Wl,--version-script={self.folder.name}/own.map", HERE / "debugged.c")
        for rank in (1, 3):
            commands = (f"break stop_here if rank == {rank}", "run", "bt", "finish", "print mine + shown", "kill")
            words = [word for command in commands for word in ("-ex", command)]
            _, out, err = self.job("-n", 1, "-vp", 4, "gdb", "-nx", "-batch", *words, program)
            self.assertRegex(out, rf"(?s)stop_here \(rank={rank}\).*in main .*debugged\.c.*\$1 = {2 * rank + 300}\n", err)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve() / "bin"
    unittest.main(verbosity=2)
