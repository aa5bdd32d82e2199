#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What people run on mpi4py: its executors, and Dask-MPI with comms of wherry://.  python_test.py BUILD.

mpi4py is that of tools/mpi4py_tests.py, built from its sources by our mpicc; Dask-MPI has an environment of its own beside it.  Both come from
PyPI and are made once.  What cannot be had is skipped: exit code 77 and the reason.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from make_venv import install, with_packages  # noqa: E402
from mpi4py_tests import Home  # noqa: E402

SKIPPED = 77
LIMIT = 120
HOME = Home(BUILD)

EXECUTOR = """
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(pool.num_workers, sum(pool.map(pow, range(20), [2] * 20)), pool.submit(divmod, 17, 5).result())
        try:
            pool.submit(divmod, 1, 0).result()
        except ZeroDivisionError as error:
            print(error)
"""
COMM_EXECUTOR = """
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor
with MPICommExecutor(MPI.COMM_WORLD, root=1) as pool:
    if pool is not None:
        print(MPI.COMM_WORLD.rank, sorted(pool.map(str.upper, ["a", "b", "c"], chunksize=2)))
MPI.COMM_WORLD.barrier()
"""
DIES = """
import os
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(pool.submit(os._exit, 3).result())
"""
CLUSTER = """
import os, signal, sys
import wherry.dask  # the package of a build folder does not tell distributed of it
from dask_mpi import initialize
initialize(interface="lo", protocol="wherry", dashboard=False)
from distributed import Client
with Client() as client:
    client.wait_for_workers(2)
    if sys.argv[1:] == ["killed"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1:] == ["gone"]:
        os._exit(0)
    names = client.run(lambda: __import__("mpi4py.MPI").MPI.COMM_WORLD.rank)
    print(client.scheduler.address.partition("/")[0], sorted(names.values()), sum(client.gather(client.map(pow, range(20), [2] * 20))))
"""


class Python(unittest.TestCase):
    python, more = HOME.python, {}

    def job(self, ranks, text, *words, code=0, before=()):
        """Runs a program on ranks; returns what it has printed, and what was said of it."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(text)
            done = subprocess.run([HOME.mpi / "mpiexec", "-n", str(ranks), self.python, "-W", "ignore", *before, program, *words],
                                  env={**os.environ, **self.more}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=LIMIT, cwd=folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.splitlines(), done.stderr


class Executors(Python):
    def test_a_pool_of_the_other_ranks(self):
        for ranks in (2, 4):
            lines, _ = self.job(ranks, EXECUTOR, before=["-m", "mpi4py.futures"])
            self.assertEqual(lines[0], f"{ranks - 1} 2470 (3, 2)")
            self.assertIn("division", lines[1])

    def test_a_pool_of_a_communicator(self):
        self.assertEqual(self.job(3, COMM_EXECUTOR)[0], ["1 ['A', 'B', 'C']"])

    def test_a_worker_that_is_gone_ends_the_job(self):
        self.assertIn("rank", self.job(3, DIES, before=["-m", "mpi4py.futures"], code=3)[1])


class Dask(Python):
    more = {"PYTHONPATH": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1"}

    @classmethod
    def setUpClass(cls):
        try:
            cls.python = dask_environment()
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest(f"no environment with Dask-MPI: {last_line(error)}") from error
        if subprocess.run([cls.python, "-c", "import wherry.dask"], env={**os.environ, **cls.more}, capture_output=True).returncode:
            raise unittest.SkipTest("the package wherry was built for another Python, or not at all")

    def test_a_cluster(self):
        lines, _ = self.job(4, CLUSTER)
        self.assertEqual(lines, ["wherry: [2, 3] 2470"])

    def test_a_client_that_is_gone_ends_the_job(self):
        """Workers would wait for ever for what it has for them."""
        self.assertIn("rank 1", self.job(4, CLUSTER, "killed", code=137)[1])
        self.assertIn("MPI_Finalize", self.job(4, CLUSTER, "gone", code=1)[1])


def dask_environment():
    home = BUILD / "mpi4py-dask"
    python = home / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", "import dask_mpi, mpi4py.MPI"], capture_output=True).returncode == 0:
        return python
    with_packages(home, ["distributed", "numpy"], base=HOME.python, capture_output=True, text=True)
    install(python, ["--no-deps", "dask-mpi"], capture_output=True, text=True)  # it would bring an mpi4py of another MPI
    packages, = HOME.folder.glob("lib/*/site-packages")
    there, = home.glob("lib/*/site-packages")
    (there / "mpi4py.pth").write_text(f"{packages}\n")
    return python


def last_line(error):
    return ((error.stderr or "").strip().splitlines() or [str(error)])[-1]


def main():
    with open(BUILD / "mpi4py.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            HOME.make(capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            print(f"skipped: no mpi4py: {last_line(error)}")
            return SKIPPED
        return not unittest.main(exit=False, verbosity=2).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
