# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in bench-charm: ours, charm4py, MPICH and Open MPI, and how each program of theirs is started."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench" / "peers")]
import make as mpis  # noqa: E402, of bench/peers
from make_venv import says, with_packages  # noqa: E402

PACKAGES = ["charm4py", "numpy"]
MPI_SETTINGS = {f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
OTHERS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # are not for the programs


class Job(typing.NamedTuple):
    """A program to be measured."""

    name: str
    command: list
    more: dict = {}      # of its environment
    timed: bool = False  # from outside: its "seconds" are those from its start to its end
    says: str = ""       # before the "seconds", where it prints no JSON


def note(text):
    print(f"bench-{pathlib.Path(sys.argv[0]).resolve().parent.name}: {text}", file=sys.stderr, flush=True)


def run(job, patience):
    """What a program has found, or None, where it has failed or takes longer than `patience` seconds, which is said."""
    clean = {key: value for key, value in os.environ.items() if key not in OTHERS}
    began = time.perf_counter()
    try:
        process = subprocess.Popen([str(word) for word in job.command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**clean, **job.more},
                                   start_new_session=True)
    except OSError as error:
        note(f"{job.name}: left out: {error}")
        return None
    try:
        out, err = process.communicate(timeout=patience)
    except BaseException as error:  # who interrupts us wants it ended, too
        os.killpg(process.pid, signal.SIGKILL)  # with all that its launcher has started
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        note(f"{job.name}: left out, as it takes more than {patience} s")
        return None
    took, found = time.perf_counter() - began, result(out)
    for line in out.splitlines():
        if job.says and line.startswith(job.says):
            found = {"seconds": float(line[len(job.says):].split()[0])}
    if job.timed:
        found = {**(found or {}), "seconds": took}
    if process.returncode or found is None:
        note(f"{job.name}: left out, with exit code {process.returncode}: {(err or out)[-500:]}")
        return None
    return found


def result(out):
    """The JSON among what a program has printed: all of it, or the last line that is an object."""
    for text in [out, *reversed(out.splitlines())]:
        if text[:1] in ("{", "["):
            try:
                return json.loads(text)
            except ValueError:
                continue
    return None


class Ours:
    def __init__(self, build, pythons):
        """pythons: take the first one that has numpy."""
        self.wherry, self.build, self.python = build / "wherry", build, None
        if (build / "python" / "wherry" / "charm" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").exists():
            self.python = next((python for python in pythons if says(python, "import numpy") is not None), None)
        if not self.python:
            note("no Python here has numpy, or wherry.charm was not built for it, so our programs in Python are left out")

    def perf(self, name, *words):
        return Job(name, [self.wherry, "perf", "--json", *words])

    def job(self, name, count, *command):
        return Job(name, [self.wherry, "run", "-n", count, *command])

    def program(self, name, count, file, *words):
        """A program in Python; None where it cannot run."""
        if not self.python:
            return None
        return Job(name, [self.wherry, "run", "-n", count, self.python, HERE / file, *words],
                   {"PYTHONPATH": str(self.build / "python")})


class Charm4py:
    """charm4py's wheel, in an environment of its own, and its runtime under a program in C."""

    def __init__(self, folder):
        home = folder / "charm4py"
        self.python = self.entry = None
        if not self.install(home):
            return
        self.python = home / "bin" / "python"
        library = pathlib.Path(says(self.python, "from importlib.util import find_spec as find; "
                                    "print(find('charm4py').submodule_search_locations[0])")) / ".libs"
        entry = folder / "entry-charm4py"
        if compiled("charm4py's runtime in C", HERE / "entry_charm4py.c", library / "libcharm.so",
                    f"-Wl,-rpath,{library}", "-o", entry):
            self.entry = entry

    @staticmethod
    def install(home):
        if (home / "complete").exists():
            return True
        note(f"installing {', '.join(PACKAGES)} from PyPI into {home}")
        try:
            # Few tries: without a network whoever asked should hear of it soon.
            with_packages(home, PACKAGES, env={**os.environ, "PIP_RETRIES": "1", "PIP_TIMEOUT": "20"})
        except (OSError, subprocess.CalledProcessError) as error:
            note(f"charm4py cannot be installed from PyPI, so it is left out: {error}")
            return False
        (home / "complete").touch()
        return True

    def job(self, name, count, *command):
        return Job(name, [self.python, "-m", "charmrun.start", f"+p{count}", "++local", *command])

    def program(self, name, count, file, *words):
        return self.job(name, count, HERE / file, *words) if self.python else None

    def runtime(self, name, *words):
        return self.job(name, 2, self.entry, *words) if self.entry else None


class Mpi:
    """MPICH or Open MPI, of PyPI's wheels."""

    def __init__(self, name, folder):
        self.name, self.home, self.hello = name, folder / name, None
        self.measured = mpis.make(name, folder)  # and so has what `wherry perf --peers` starts
        if self.measured:
            hello = self.home / "bin" / "bench-hello"
            if compiled(name, HERE / "hello_mpi.c", HERE / "pss.c", *mpis.compile_options(self.home), "-o", hello):
                self.hello = hello

    def job(self, name, count):
        if not self.hello:
            return None
        more = ["--bind-to", "none", "--oversubscribe"] if self.name == "openmpi" else []
        return Job(name, [self.home / "bin" / ("mpirun" if self.name == "openmpi" else "mpiexec"), *more, "-n", count, self.hello],
                   MPI_SETTINGS)


def compiled(name, *words):
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}", *map(str, words)]
    try:
        good = subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0
    except OSError as error:
        note(error)
        good = False
    if not good:
        note(f"{name}: its program does not compile, so it is left out")
    return good
