#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random programs of MPI, whose sums must be the same however their ranks are spread.

    random_test.py MPI PROGRAM [--seeds N] [--first S] [--operations N] [--ranks 1,3] [--ways plain,far]
                   [--peer FOLDER] [--record]

MPI is the folder of bin/mpicc and bin/mpiexec, PROGRAM was linked to it; the forms for virtual ranks are compiled here.  --peer is another MPI, a folder
with bin/mpicc_abi or bin/mpicc and bin/mpiexec (BUILD/peers/mpich, which `make bench-mpi` installs): it must know MPI 4.1.  Where it dies, that is
said, and the ways are compared with each other.

What all ways do wrong alike is found by a peer, or by sums.txt: sums on which MPICH 5.0.2 has agreed.  A change of the program changes them: --record
writes those on which the peer agrees in this run.

On a difference it says the seed, the command that repeats it, and the first operation that differs.  Exit code 1 then.
"""
import argparse
import hashlib
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUMS = HERE / "sums.txt"
FAR = HERE.parent / "far.sh"
PATIENCE = 60
WAYS = ("plain", "unread", "far", "vp1", "vp2", "movable")


def works(*command):
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE).returncode == 0


def sources(roam):
    return [path for path in sorted(HERE.glob("*.c")) if not path.name.startswith("roam_")] + [HERE / f"roam_{roam}.c"]


class Ways:
    """How the program can be run: the words before SEED and OPERATIONS, and what the environment has besides."""

    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.mpiexec = options.mpi / "bin" / "mpiexec"
        names = options.ways.split(",")
        if "far" in names and not works(FAR, "other", "true"):
            names.remove("far")
            print("far: no right to mount here")
        if "movable" in names and (platform.machine() != "x86_64" or not works("setarch", "-R", "true")):
            names.remove("movable")
            print("movable: ranks move on x86-64, where the system call personality is allowed")
        self.names = names
        self.programs = self.compile()

    def compile(self):
        """The forms of the program, all at once."""
        mpicc = self.options.mpi / "bin" / "mpicc"
        commands = {}
        if {"vp1", "vp2"} & set(self.names):
            commands["vp"] = [mpicc, "-vp", *sources("still")]
        if "movable" in self.names:
            commands["movable"] = [mpicc, "-movable", *sources("moving")]
        if self.options.peer:
            own = self.options.peer / "bin" / "mpicc_abi"
            commands["peer"] = [own if own.exists() else own.with_name("mpicc"), "-D_GNU_SOURCE", *sources("still")]
        programs = {name: self.folder / name for name in commands}
        running = [subprocess.Popen([*command, "-O1", "-o", programs[name]]) for name, command in commands.items()]
        if any([compiler.wait() for compiler in running]):
            sys.exit("it does not compile")
        return programs

    def words(self, name, ranks):
        """The command, without the program's arguments."""
        spread = {"plain": ["-n", ranks], "unread": ["-n", ranks], "vp1": ["-n", 1, "-vp", ranks], "vp2": ["-n", min(2, ranks), "-vp", ranks],
                  "far": ["-launcher-exec", FAR, "-hosts", "one,two", "-ppn", (ranks + 1) // 2, "-n", ranks],
                  "movable": ["-n", min(2, ranks), "-vp", ranks, "-movable"]}
        if name == "peer":
            return [self.options.peer / "bin" / "mpiexec", "-outfile-pattern", self.folder / "out.%r", "-n", ranks, self.programs["peer"]]
        program = self.programs[name.rstrip("12")] if name[:2] == "vp" or name == "movable" else self.options.program
        return [self.mpiexec, "-timeout", PATIENCE, *spread[name], program]

    @staticmethod
    def environment(name):
        return {"WHERRY_SHM_READ": "never", "WHERRY_MPI_CHECK": "1"} if name == "unread" else {}

    def run(self, name, ranks, seed, *more):
        """Whether it ended well, and what it said."""
        words = [*self.words(name, ranks), seed, self.options.operations, *more, *(["spare"] if name == "peer" else [])]
        try:
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=2 * PATIENCE,
                                  env={**os.environ, **self.environment(name), "TMPDIR": str(self.folder)})
        except subprocess.TimeoutExpired:
            return False, f"it did not end in {2 * PATIENCE} s"
        for path in sorted(self.folder.glob("out.*")):  # of a peer's ranks, whose lines its launcher would mix
            done.stdout += path.read_text()
            path.unlink()
        return done.returncode == 0 and (name == "peer" or not done.stderr), done.stdout + done.stderr

    def again(self, name, ranks, seed):
        """The command that repeats it, of this script, as compiled programs do not outlast it."""
        o = self.options
        words = [HERE / "random_test.py", o.mpi, o.program, "--first", seed, "--seeds", 1, "--operations", o.operations, "--ranks", ranks]
        peer = ["--peer", o.peer] if o.peer else []
        ways = ",".join(dict.fromkeys([self.names[0], name])) if name != "peer" else self.names[0]
        return shlex.join(map(str, [*words, "--ways", ways, *peer]))


def operations(text):
    """What each operation of each rank adds, in the order of ranks and operations; those that are pending have the number that they began with."""
    lines = [line.split() for line in text.splitlines() if line.startswith("rank ")]
    return sorted((int(words[3]), int(words[1]), i, " ".join(words[4:])) for i, words in enumerate(lines))


def first_difference(one, other):
    def plain(found):
        return [(step, rank, what) for step, rank, _, what in found]
    for a, b in zip(plain(operations(one)), plain(operations(other))):
        if a != b:
            return f"operation {min(a[0], b[0])}, rank {min(a[:2], b[:2])[1]}: {a[2]} and {b[2]}"
    return "none while each operation is printed"


def sum_of(text):
    lines = [line for line in text.splitlines() if line.startswith("sum of rank ")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def recorded():
    """The sums of sums.txt: lines SEED RANKS OPERATIONS SUM."""
    lines = [line.split() for line in SUMS.read_text().splitlines() if not line.startswith("#")]
    return {tuple(map(int, words[:3])): words[3] for words in lines}


def complain(ways, name, first, ranks, seed, text):
    """Say what was wrong with a way that has ended well, if there is another to compare it with, or badly, if there is none."""
    print(f"seed {seed}, {ranks} ranks: {name} {f'differs from {first}' if first else 'fails'}\n    {ways.again(name, ranks, seed)}")
    if not first:
        print("   ", "\n    ".join(text.splitlines()[-20:]))
    elif first != "sums.txt":
        print("    first in", first_difference(ways.run(first, ranks, seed, "verbose")[1], ways.run(name, ranks, seed, "verbose")[1]))
    sys.stdout.flush()


def compare(ways, ranks, seed, known):
    """How many ways fail or differ: from what is known, or from the first, which is the peer where it lives.  And the sum, if the peer agrees."""
    bad, peer = 0, None
    wanted, first = known.get((seed, ranks, ways.options.operations)), "sums.txt"
    for name in [*(["peer"] if ways.options.peer else []), *ways.names]:
        good, text = ways.run(name, ranks, seed)
        if not good and name == "peer":
            print(f"seed {seed}, {ranks} ranks: the peer fails: {' '.join(text.split())[:200]}", flush=True)
            continue
        if good and not wanted:
            wanted, first = sum_of(text), name
        if not good or sum_of(text) != wanted:
            bad += 1
            complain(ways, name, first if good else None, ranks, seed, text)
        elif name == "peer":
            peer = wanted
    return bad, peer if not bad else None


def record(found):
    head = [line for line in SUMS.read_text().splitlines() if line.startswith("#")] if SUMS.exists() else []
    SUMS.write_text("\n".join([*head, *(" ".join(map(str, [*key, value])) for key, value in sorted(found.items()))]) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="random_test.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mpi", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("program", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--operations", type=int, default=60)
    parser.add_argument("--ranks", default="3")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--peer", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    numbers, bad, found = list(map(int, options.ranks.split(","))), 0, {}
    known = {} if options.record else recorded()
    with tempfile.TemporaryDirectory() as folder:
        ways = Ways(options, folder)
        for seed in range(options.first, options.first + options.seeds):
            ranks = numbers[seed % len(numbers)]
            wrong, agreed = compare(ways, ranks, seed, known)
            bad += wrong
            if agreed:
                found[seed, ranks, options.operations] = agreed
    if options.record:
        record(found)
    print(f"{options.seeds} seeds, {bad} differ or fail")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
