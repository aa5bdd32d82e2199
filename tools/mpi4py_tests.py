#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run mpi4py's own tests on the MPI library that was built.

    tools/mpi4py_tests.py BUILD [-n 1,2,4,5] [--limit SECONDS] [--all] [--first] [--verbose] [-k TEXT] [--peer FOLDER] [MODULE]...

Fetches the sources of mpi4py with pip, builds them with BUILD/src/mpi/bin/mpicc into the environment BUILD/mpi4py, and
runs each module of its tests (`p2p_buf`: test_p2p_buf.py; default all of them) as one job for each number of ranks, with
a limit of time.  Prints what failed in which way, and in the end how many tests passed, failed and were skipped, by
reason.  A test has passed when it has on all ranks.  tests/mpi/mpi4py-exclude.txt names those that are left out, with
reasons; --all runs them too.  --peer runs the same compiled module on another library of the ABI instead, and its mpiexec: of
BUILD/peers/mpich, for one (bench/peers/make.py).  Exit code 1 when one failed.  The output of each job is in BUILD/mpi4py/logs.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

VERSION = "4.1.2"
SHOWN = 8  # of the names of tests of a module that have failed
EXCLUDE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "mpi" / "mpi4py-exclude.txt"
BEGAN = re.compile(r"^(test\w+) \((test_[\w.]+)\)", re.M)
SKIPPED = re.compile(r"\.\.\. skipped (['\"])(.*)\1", re.M)
WRONG = re.compile(r"^(?:FAIL|ERROR): (.*)\n-+\n((?:.+\n|\n(?!-|=))*)", re.M)
RAN = re.compile(r"^Ran (\d+) tests? in", re.M)


class Home:
    """The environment that mpi4py is installed into."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.folder = self.build / "mpi4py"
        self.python = self.folder / "bin" / "python"
        self.source = self.folder / "src" / f"mpi4py-{VERSION}"
        self.mpi = self.build / "src" / "mpi" / "bin"
        self.logs = self.folder / "logs"

    def ready(self):
        """Whether there is an mpi4py already."""
        return self.python.exists() and subprocess.run([self.python, "-c", "import numpy, mpi4py"],
                                                       capture_output=True).returncode == 0

    def make(self, **how):
        """Once.  `how`: as subprocess.run takes it; CalledProcessError where something cannot be had."""
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", self.folder], check=True, **how)
        if not self.source.exists():
            self.fetch(**how)
        if not self.ready():
            # Without optimization, which takes five minutes.
            subprocess.run([self.python, "-m", "pip", "install", "-q", "numpy", str(self.source)], check=True, **how,
                           env={**os.environ, "MPI4PY_BUILD_MPICC": str(self.mpi / "mpicc"), "CFLAGS": "-O0"})

    def empty_logs(self):
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()

    def fetch(self, **how):
        where = self.source.parent
        subprocess.run([self.python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "mpi4py", "-d", where,
                        f"mpi4py=={VERSION}"], check=True, **how)
        with tarfile.open(where / f"mpi4py-{VERSION}.tar.gz") as archive:
            # Python 3.11.2, Debian 12's, has no filters yet.
            archive.extractall(where, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))

    def modules(self):
        return sorted(path.stem[len("test_"):] for path in (self.source / "test").glob("test_*.py"))


def exclusions(path, ranks):
    """Patterns of tests that are left out: lines `PATTERN [n=1,2] # reason`."""
    found = []
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and (len(words) == 1 or str(ranks) in words[1].removeprefix("n=").split(",")):
            found.append(words[0])
    return found


def start(home, ranks, options, prefix):
    """The launcher and its options: each rank's output goes to PREFIX.RANK.err."""
    if options.peer:
        return [options.peer / "bin" / "mpiexec", "-n", str(ranks), "-outfile-pattern", f"{prefix}.%r.out", "-errfile-pattern",
                f"{prefix}.%r.err"]
    return [home.mpi / "mpiexec", "-n", str(ranks), "-timeout", str(options.limit), "-output-filename", prefix]


def run_job(home, module, ranks, options, left_out):
    """The output of each rank, and how the job ended: None, or why it is a failure."""
    prefix = home.logs / f"{module}.{ranks}"
    words = [*start(home, ranks, options, prefix), home.python, "-W", "ignore", home.source / "test" / "main.py", "-v",
             "-i", f"^test_{module}\\.py$"]
    for pattern in left_out:
        if not re.fullmatch(r"test_\w+", pattern):  # else it is a module
            words += ["-x", pattern]
    if options.first:
        words.append("-f")
    if options.k:
        words += ["-k", options.k]
    env = {**os.environ, "MPI4PY_TEST_SPAWN": "0", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    if options.peer:  # found before what the module was linked to
        env.update(LD_LIBRARY_PATH=str(options.peer / "lib"), MPIEXEC_TIMEOUT=str(options.limit))
    begin = time.monotonic()
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=home.folder)
    texts = [read(pathlib.Path(f"{prefix}.{rank}.err")) for rank in range(ranks)]
    return texts, done, time.monotonic() - begin


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""  # a job that did not begin


def reason(text):
    """The last line of a traceback, without what differs from test to test."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return re.sub(r"0x[0-9a-f]+|[0-9]{4,}", "N", lines[-1])[:150] if lines else "?"


class Count:
    def __init__(self):
        self.passed = 0
        self.reasons = collections.Counter()
        self.failed = []
        self.skipped = collections.Counter()

    def add(self, module, ranks, texts, done):
        wrong, began, skipped = set(), {}, collections.Counter()
        for rank, text in enumerate(texts):
            for name, why in WRONG.findall(text):
                self.reasons[reason(why)] += self.short(name) not in wrong
                wrong.add(self.short(name))
            names = [found for _, found in BEGAN.findall(text)]
            began.update(dict.fromkeys(names))
            if not RAN.search(text):
                last = names[-1] if names else f"test_{module}"
                wrong.add(f"{last}: rank {rank} did not get further")
            elif not skipped:
                skipped.update(why for _, why in SKIPPED.findall(text))
        if done.returncode and not wrong:
            wrong.add(f"test_{module}: the job ended with {done.returncode}")
        self.failed += [f"n={ranks} {name}" for name in sorted(wrong)]
        self.skipped += skipped
        self.passed += max(len(began) - len(wrong) - sum(skipped.values()), 0)
        return wrong

    @staticmethod
    def short(name):
        return re.sub(r"^\w+ \((.*?)\).*", r"\1", name)

    def text(self):
        return f"{self.passed} passed, {len(self.failed)} failed, {sum(self.skipped.values())} skipped"


def tail(text, lines=3):
    return [line[:200] for line in text.strip().splitlines()[-lines:]]


def run_all(home, modules, ranks, options):
    total, begin = Count(), time.monotonic()
    left_out = [] if options.all else exclusions(EXCLUDE, ranks)
    for module in modules:
        if f"test_{module}" in left_out:
            print(f"n={ranks} {module}: left out", flush=True)
            continue
        count = Count()
        texts, done, seconds = run_job(home, module, ranks, options, left_out)
        wrong = count.add(module, ranks, texts, done)
        total.passed += count.passed
        total.failed += count.failed
        total.skipped += count.skipped
        total.reasons += count.reasons
        print(f"n={ranks} {module}: {count.text()}, {seconds:.1f} s", flush=True)
        for name in sorted(wrong)[:None if options.verbose else SHOWN]:
            print(f"    {name}", flush=True)
        if len(wrong) > SHOWN and not options.verbose:
            print(f"    and {len(wrong) - SHOWN} more")
        for line in tail(done.stderr) if done.returncode and done.stderr else []:
            print(f"    | {line}", flush=True)
    print(f"n={ranks}: {total.text()}, {len(left_out)} patterns left out, {time.monotonic() - begin:.0f} s")
    for why, times in total.skipped.most_common():
        print(f"    {times} skipped: {why}")
    for why, times in total.reasons.most_common():
        print(f"    {times} failed: {why}")
    return total


def main():
    parser = argparse.ArgumentParser(prog="tools/mpi4py_tests.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("module", nargs="*")
    parser.add_argument("-n", default="1,2,4,5", help="numbers of ranks")
    parser.add_argument("-k", help="only tests whose name has this in it")
    parser.add_argument("--first", action="store_true", help="end a job at its first failure, which others may wait for")
    parser.add_argument("--verbose", action="store_true", help="all names of those that have failed")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a module")
    parser.add_argument("--all", action="store_true", help="also those that are left out")
    parser.add_argument("--peer", type=pathlib.Path, help="another library of the ABI: a folder with bin/mpiexec and lib/libmpi_abi.so.1")
    options = parser.parse_intermixed_args()
    options.peer = options.peer and options.peer.resolve()
    home = Home(options.build)
    home.make()
    home.empty_logs()
    failed = []
    for ranks in map(int, options.n.split(",")):
        failed += run_all(home, options.module or home.modules(), ranks, options).failed
    print(f"{len(failed)} failed in all")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
