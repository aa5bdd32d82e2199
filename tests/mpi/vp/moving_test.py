#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Virtual ranks that move: mpicc -movable, mpiexec -movable.  moving_test.py FOLDER: that of bin/mpicc and bin/mpiexec."""
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import uuid

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 120
SKIPPED = 77


def summed(data):
    """A rank's file with such contents: its sum is right (save.c)."""
    total = len(data)
    for word, in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        total = (total ^ word) * 0x9e3779b97f4a7c15 % 2**64
        total ^= total >> 32
    return data + struct.pack("<Q", total)


class Moving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.moving = cls.compile("mpicxx", "-movable", "-fstack-protector-all", HERE / "moving.cc")
        cls.saved = cls.compile("mpicxx", "-movable", "-fstack-protector-all", HERE / "saved.cc")
        cls.kept = cls.compile("mpicxx", "-movable", "-pthread", HERE / "kept.cc")
        cls.globals = cls.compile("mpicxx", "-movable", HERE / "globals.cc")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, compiler, *words):
        program = pathlib.Path(cls.folder.name) / f"program{len(os.listdir(cls.folder.name))}"
        subprocess.run([BIN / compiler, "-O1", *words, "-o", program], check=True, timeout=PATIENCE)
        return program

    def job(self, *words, **environment):
        done = subprocess.run([BIN / "mpiexec", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def good(self, *words, ranks, **environment):
        code, out, err = self.job(*words, **environment)
        self.assertEqual((code, err), (0, ""), words)
        lines = [line for line in out.splitlines() if line != "begins"]
        self.assertEqual(sorted(lines), sorted(f"rank {i} is good" for i in range(ranks)))

    def test_messages_under_seeds(self):
        for seed in range(1, 13):
            processes = 1 + seed % 4
            ranks = processes + seed * 5 % 13
            with self.subTest(seed=seed, processes=processes, ranks=ranks):
                self.good("-n", processes, "-vp", ranks, "-movable", self.moving, 5, seed, ranks=ranks)

    def test_balancing_evens_out_loads(self):
        program = self.compile("mpicxx", "-movable", HERE / "balanced.cc")
        for processes, ranks, seed in ((1, 5, 1), (2, 8, 2), (2, 24, 3), (3, 16, 4), (4, 9, 5)):
            with self.subTest(processes=processes, ranks=ranks, seed=seed):
                self.good("-n", processes, "-vp", ranks, "-movable", program, 6, seed, ranks=ranks)

    def test_each_rank_knows_its_process(self):
        program = self.compile("mpicc", "-movable", HERE / "process.c")
        self.good("-n", 2, "-vp", 6, "-movable", program, ranks=6)
        self.good("-n", 2, "-vp", 6, program, ranks=6)

    def test_errno_goes_with_a_rank(self):
        program = self.compile("mpicc", "-movable", HERE / "errno.c")
        for processes, ranks in ((1, 3), (2, 5), (3, 7)):
            self.good("-n", processes, "-vp", ranks, "-movable", program, "move", ranks=ranks)

    def test_constructors_of_libraries(self):
        library = self.compile("mpicxx", "-shared", "-fPIC", "-DLIBRARY", HERE / "library.cc")
        program = self.compile("mpicxx", "-movable", HERE / "library.cc", library)
        for words in (("-n", 2, "-vp", 5, "-movable"), ("-n", 1, "-vp", 3, "-movable")):
            self.good(*words, program, ranks=words[3])

    def test_a_line_that_has_begun_goes_with_a_rank(self):
        program = self.compile("mpicxx", "-movable", HERE / "streams.cc")
        with tempfile.TemporaryDirectory() as folder:
            self.good("-n", 3, "-vp", 7, "-movable", program, "moved", folder, ranks=7)
            for i in range(7):
                self.assertEqual((pathlib.Path(folder) / str(i)).read_text(), f"rank {i} prints here\n")

    def test_over_tcp(self):
        self.good("-n", 3, "-vp", 7, "-movable", self.moving, 4, 1, ranks=7, WHERRY_LANES="stream")

    def ip(self, *words):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            self.skipTest("no network namespaces here: " + done.stderr)

    def hosts(self):
        """The words for mpiexec to use two network namespaces, joined by a cable, for the time of the test; each has a boot id as a host has."""
        if not shutil.which("ip"):
            self.skipTest("there is no program ip")
        names = [f"wherry-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        for name in names:
            self.ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", name], check=False)
        self.ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for i, name in enumerate(names):
            self.ip("-n", name, "addr", "add", f"10.99.1.{1 + i}/24", "dev", "cable")
            self.ip("-n", name, "link", "set", "cable", "up")
            self.ip("-n", name, "link", "set", "lo", "up")
            (pathlib.Path(self.folder.name) / name).write_text(f"{uuid.uuid4()}\n")
        shell = pathlib.Path(self.folder.name) / "shell"
        shell.write_text('#!/bin/sh\nhost=$1\nshift\nexec ip netns exec $host sh -c '
                         f'"mount --bind {self.folder.name}/$host /proc/sys/kernel/random/boot_id && $*"\n')
        shell.chmod(0o755)
        return "-launcher-exec", shell, "-hosts", ",".join(names)

    def test_over_two_hosts(self):
        hosts = self.hosts()
        self.good(*hosts, "-n", 3, "-vp", 7, "-movable", self.moving, 3, 1, ranks=7)
        folder = pathlib.Path(self.folder.name) / "of-hosts"
        code, _, err = self.job(*hosts, "-n", 2, "-vp", 5, "-movable", self.saved, 12, folder, 7)
        self.assertEqual(code, 137, err)
        code, out, err = self.job(*hosts, "-n", 4, "-vp", 5, "-movable", "-restart", folder, self.saved)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("starts 1", self.result(out)[1])

    def test_a_message_that_nothing_can_keep_ends_the_job(self):
        full = self.compile("mpicxx", "-movable", HERE / "full.cc")
        code, _, err = self.job("-n", 2, "-vp", 2, "-movable", "-timeout", 60, full)
        self.assertEqual(code, 1)
        self.assertIn("MPI rank 1: there is no memory to keep a message of 4 bytes from rank 0 until its receive: the job ends\n", err)

    def test_many_ranks(self):
        self.good("-n", 2, "-vp", 100, "-movable", self.moving, 1, 5, ranks=100)

    def test_a_program_that_is_moved_runs_without_moving(self):
        self.good("-n", 2, "-vp", 5, self.globals, ranks=5)
        self.good("-n", 3, self.globals, ranks=3)

    def test_each_rank_has_globals_of_its_own(self):
        for processes, ranks in ((1, 1), (1, 16), (2, 5), (3, 64)):
            with self.subTest(processes=processes, ranks=ranks):
                self.good("-n", processes, "-vp", ranks, "-movable", self.globals, ranks=ranks)

    def test_what_ends_a_rank(self):
        code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.globals, "return")
        self.assertEqual(code, 6, err)
        code, _, err = self.job("-n", 1, "-vp", 4, "-movable", self.globals, "exit")
        self.assertEqual(code, 4, err)
        code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.globals, "early")
        self.assertEqual(code, 9)
        self.assertIn("MPI rank 5: the program has ended with status 9 without MPI_Finalize", err)
        code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.globals, "abort")
        self.assertEqual(code, 17)

    def test_exit_before_init_ends_the_job(self):
        code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.globals, "never")
        self.assertEqual(code, 5)
        self.assertIn("the program has ended with status 5 before MPI_Init", err)

    def test_other_programs(self):
        tests = HERE.parent
        for source in ("comm/communicators.c", "comm/intercommunicators.c", "collectives.c", "io/files.c"):
            with self.subTest(source=source):
                code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.compile("mpicc", "-movable", tests / source))
                self.assertEqual((code, err), (0, ""))

    def test_ranks_that_cannot_move_stay(self):
        code, out, err = self.job("-n", 2, "-vp", 5, "-movable", self.moving, 1, 1, "refused")
        self.assertEqual((code, out.count("is good")), (0, 5), err)
        self.assertEqual(err.count("as it has files of the C library open"), 5)
        self.assertEqual(err.count("as it has windows"), 5)
        self.assertIn("there is no process 2: this job has 2", err)

    def test_what_libraries_keep_does_not_go_with_a_rank(self):
        for processes, ranks in ((2, 5), (3, 4)):
            # Threads of a rank run at once only where the process has several cores.
            code, out, err = self.job("-bind-to", "none", "-n", processes, "-vp", ranks, "-movable", self.kept)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual((out.count("is good\n"), out.count("...\nbehind it\n")), (ranks, 4 * ranks))

    def test_what_keeps_a_rank(self):
        for word, why, ranks in (("stream", "it has files of the C library open", 5), ("signal", "it handles signals", 2), ("locale", "it has locales", 5),
                                 ("global", "its process has another locale of C++", 5), ("wide", "its process reads or writes wide characters", 5)):
            with self.subTest(word=word):
                code, out, err = self.job("-n", 2, "-vp", 5, "-movable", self.kept, word)
                self.assertEqual((code, out.count("is good"), err.count(why)), (0, 5, ranks), err)
        self.assertEqual(self.job("-n", 2, "-vp", 5, "-movable", self.kept, "own")[2].count("it has files of the C library open"), 5)
        for word in ("reopened", "often", "load"):
            code, _, err = self.job("-n", 2, "-vp", 6, "-movable", self.kept, word)
            self.assertEqual((code, err), (0, ""), word)

    def test_a_dump_tells_who_waits_to_move(self):
        _, _, err = self.job("-timeout", 2, "-n", 2, "-vp", 5, "-movable", self.kept, "waits")
        self.assertIn("ranks 1-4 wait in MPIX_Migrate", err)
        self.assertIn("rank 0 waits in MPI_Barrier", err)

    def test_what_cannot_be_moved_is_refused(self):
        code, _, err = self.job("-n", 1, "-vp", 2, "-movable", self.compile("mpicxx", "-vp", HERE / "globals.cc"))
        self.assertEqual(code, 1)
        self.assertIn("link it with mpicc -movable", err)
        program = self.compile("mpicxx", "-movable", "-ftls-model=initial-exec", HERE / "globals.cc")
        code, _, err = self.job("-n", 1, "-vp", 2, "-movable", program)
        self.assertEqual(code, 1)
        self.assertIn("thread-local variables that are not addressed through", err)
        refused = subprocess.run([BIN / "mpicxx", "-movable", "-static-libgcc", HERE / "globals.cc", "-o", os.devnull], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (1, "mpicxx: ranks cannot move with -static or -static-libgcc\n"))

    def result(self, out):
        found = [line for line in out.splitlines() if line.startswith("result ")]
        self.assertEqual(len(found), 1, out)
        return found[0].split(",")

    def test_a_job_that_was_killed_starts_again(self):
        folder = pathlib.Path(self.folder.name) / "saved"
        code, out, err = self.job("-n", 2, "-vp", 5, "-movable", self.saved, 12, folder)
        self.assertEqual(code, 0, err)
        whole = self.result(out)
        for processes in (1, 2, 4):
            shutil.rmtree(folder)
            code, _, err = self.job("-n", 2, "-vp", 5, "-movable", self.saved, 12, folder, 7)
            self.assertEqual(code, 137, err)
            code, out, err = self.job("-n", processes, "-vp", 5, "-movable", "-restart", folder, self.saved)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(self.result(out), [whole[0], " starts 1"])
        self.assertEqual(len(os.listdir(folder)), 2, "older checkpoints are gone")

    def test_checkpoints_that_are_none_are_refused(self):
        folder = pathlib.Path(self.folder.name) / "wrong"
        again = ("-vp", 5, "-movable", "-restart", folder)

        def refused(*words, why):
            code, _, err = self.job(*words, self.saved)
            self.assertEqual(code, 1)
            self.assertIn(why, err)
        refused("-n", 1, *again, why="there is no whole checkpoint in")
        self.job("-n", 2, "-vp", 5, "-movable", self.saved, 12, folder, 7)
        refused("-n", 1, "-vp", 6, *again[2:], why="is of 5 ranks: start it with -vp 5")
        code, _, err = self.job("-n", 1, *again, self.moving)
        self.assertEqual(code, 1)
        self.assertIn("was written by another program", err)
        file = folder / "2" / "rank-3"
        whole = file.read_bytes()
        for cut in (0, 3, 100, len(whole) - 1):
            file.write_bytes(whole[:cut])
            refused("-n", 1, *again, why="rank-3 is not whole")
        file.write_bytes(b"\xff" * len(whole))
        refused("-n", 1, *again, why="rank-3 is not whole")
        for at in (len(whole) - 9, len(whole) // 2, 30):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
            refused("-n", 1, *again, why="rank-3 is not whole")
        file.write_bytes(whole + bytes(8))
        refused("-n", 1, *again, why="rank-3 is not whole")
        file.write_bytes(summed(struct.pack("<QQQ", 1, 2**64 - 4096, 4096) + bytes(4096)))  # a page before the rank's place
        refused("-n", 1, *again, why="rank-3 is not whole")
        file.write_bytes(whole)
        last = (folder / "latest").read_text()
        (folder / "latest").write_text(last.replace("ranks 5 of ", "ranks 5 of 1"))
        refused("-n", 1, *again, why="there is no whole checkpoint in")
        (folder / "latest").write_text(last)
        file.unlink()
        refused("-n", 1, *again, why="the checkpoint lacks")

    def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(self):
        folder = pathlib.Path(self.folder.name) / "kept"
        self.job("-n", 2, "-vp", 5, "-movable", self.saved, 4, folder)
        before = (folder / "latest").read_text()
        (folder / "2").write_text("no folder")
        code, _, err = self.job("-n", 2, "-vp", 5, "-movable", self.saved, 4, folder)
        self.assertNotEqual(code, 0)
        self.assertIn("MPIX_Checkpoint: ", err)
        self.assertIn("the job is not saved", err)
        self.assertEqual((folder / "latest").read_text(), before)

    def test_who_was_killed_is_named(self):
        for victim in (0, 1, 2):
            code, _, err = self.job("-n", 3, "-vp", 7, "-movable", self.kept, "killed", victim)
            self.assertEqual(code, 137, err)
            self.assertIn(f"process {victim} ", err)
            self.assertIn("was killed by signal 9", err)

    def test_restart_is_for_ranks_that_move(self):
        code, _, err = self.job("-n", 1, "-vp", 2, "-restart", "nowhere", self.globals)
        self.assertEqual(code, 2)
        self.assertIn("-restart is for ranks that move", err)

    def test_it_needs_virtual_ranks(self):
        code, _, err = self.job("-n", 2, "-movable", self.globals)
        self.assertEqual(code, 2)
        self.assertIn("-movable is for virtual ranks", err)

    def library(self, name, *words, order):
        """A folder with a library libown.so, whose functions stand in that order: all else of it is the same."""
        folder = pathlib.Path(self.folder.name) / name
        folder.mkdir()
        (folder / "own.c").write_text("".join(f"int own_{n}(int x) {{ return x * {n}; }}\n" for n in order))
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", *words, folder / "own.c", "-o", folder / "libown.so"], check=True, timeout=PATIENCE)
        return folder

    def test_processes_that_differ_are_refused(self):
        first, second = self.library("first", order="345"), self.library("second", order="534")
        bare = [self.library(f"bare-{order}", "-Wl,--build-id=none", order=order) for order in ("345", "534")]
        program = self.compile("mpicxx", "-movable", HERE / "globals.cc", f"-L{first}", "-Wl,--no-as-needed", "-lown")
        copy = shutil.copy(program, f"{program}-copy")

        def differ(*others, libraries=first):
            code, _, err = self.job("-n", 1, "-vp", 2, "-movable", "-env", "LD_LIBRARY_PATH", libraries, program, ":", "-n", 1, "-env", *others)
            self.assertTrue(code == 0 or "ranks cannot move between processes 0 and 1" in err, err)
            return code != 0
        self.assertFalse(differ("LD_LIBRARY_PATH", first, program))
        self.assertFalse(differ("LD_LIBRARY_PATH", first, copy), "a copy of the program is the same program")
        self.assertTrue(differ("LD_LIBRARY_PATH", second, program))
        self.assertFalse(differ("LD_LIBRARY_PATH", bare[0], program, libraries=bare[0]))
        self.assertTrue(differ("LD_LIBRARY_PATH", bare[1], program, libraries=bare[0]))
        if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text():
            tunables = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-ERMS"
            self.assertTrue(differ("LD_LIBRARY_PATH", first, "-env", "GLIBC_TUNABLES", tunables, program), "as on an older processor")

    def test_a_process_with_another_stack_is_refused(self):
        code, _, err = self.job("-n", 1, "-vp", 2, "-movable", "-env", "WHERRY_MPI_STACK", "512", self.globals, ":", "-n", 1, self.globals)
        self.assertEqual(code, 1)
        self.assertIn("ranks cannot move between processes 0 and 1", err)


def randomized_always():
    """Whether the system does not let a program turn address randomization off, as some containers do not."""
    return subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode != 0


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve() / "bin"
    if platform.machine() != "x86_64" or randomized_always():
        print("ranks move on x86-64, where the system call personality is allowed")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
