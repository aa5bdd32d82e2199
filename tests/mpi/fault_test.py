#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that end before their time, while the others are inside each kind of call (fault.c).

fault_test.py FOLDER [--sample N] [WORD...]: that of bin/mpicc and bin/mpiexec; N of the cells, of those whose name has all words.  In cells
with `return` the launcher lets the others go on, and errors are returned: each rank that is left says so, and leaves by MPI_Finalize.
"""
import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent / "fault.c"
PATIENCE = 30  # seconds; a job ends within one on a machine that has nothing else to do
# What the launcher says of each fault, and its exit status.
FAULTS = {
    "kill": ("was killed by signal 9 (Killed)", 137),
    "abort": ("was killed by signal 6 (Aborted)", 134),
    "exit": ("exited with status 7", 7),
    "MPI_Abort": ("exited with status 9", 9),
}
# Where a rank that is left may have success, though it has waited: it has nothing of the one that is gone, or had it before.  In `finalize`
# it has to; in `lock-held` one of them has to.
NOT_ALL = {"recv-any", "reduce", "bcast", "bcast-large", "gather", "scan", "scatter", "lock", "iallreduce", "ibarrier", "allreduce", "lock-held", "flush",
           "put-large", "accumulate", "rput", "rget"}
NONE = {"finalize"}
SLOW = 10  # seconds
ENOUGH = 5  # failures, after which it ends: each may have taken all the patience
# Processes, ranks of which each is one of them or virtual, lanes, and who ends.  Those of a shape with hosts are on two.
SHAPES = [
    ("2", 2, 2, "auto", 1), ("2-first", 2, 2, "auto", 0), ("4", 4, 4, "auto", 3), ("4-first", 4, 4, "auto", 0),
    ("2-stream", 2, 2, "stream", 1), ("4-stream", 4, 4, "stream", 2), ("2-vp4", 2, 4, "auto", 3), ("2-vp4-first", 2, 4, "auto", 0),
    ("4-hosts", 4, 4, "auto", 3), ("4-hosts-first", 4, 4, "auto", 0),
]
FAR = SOURCE.parent / "far.sh"


def calls():
    return re.findall(r'^    \{"([a-z-]+)", do_', SOURCE.read_text(), re.M)


def cells():
    """All of them, as (name, call, fault, shape, words of fault.c)."""
    for call, fault, shape, words in itertools.product(calls(), FAULTS, SHAPES, ((), ("cold",), ("return",), ("cold", "return"))):
        if "return" in words and fault == "MPI_Abort":
            continue  # it ends the others, too
        yield " ".join((call, fault, shape[0], *words)), call, fault, shape, words


def is_there(pid):
    """A process that has ended counts as gone before anybody has asked for its status."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_over(out):
    pids, until = re.findall(r"^pid (\d+)$", out, re.M), time.monotonic() + PATIENCE
    while any(map(is_there, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return [pid for pid in pids if is_there(pid)]


def where(shape, processes):
    if "hosts" in shape:
        return ["-launcher-exec", FAR, "-hosts", "a,b", "-ppn", str(processes // 2)]
    return ["-n", str(processes)]


def run(cell):
    """Runs one; what is wrong with it, or an empty text, and its seconds."""
    _, call, fault, (shape, processes, ranks, lanes, victim), words = cell
    virtual = ["-vp", str(ranks)] if ranks > processes else []
    stays = ["-disable-auto-cleanup"] if "return" in words else []
    command = [BIN / "mpiexec", *stays, *where(shape, processes), *virtual, PROGRAM, call, fault, str(victim), *words]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=dict(os.environ, WHERRY_LANES=lanes))
    except subprocess.TimeoutExpired as late:
        return f"it has not ended: {late.stderr}", PATIENCE
    seconds = time.monotonic() - begin
    if seconds > SLOW:
        return f"it has ended late: {done.stderr}", seconds
    said, status = FAULTS[fault]
    process = victim * processes // ranks
    if virtual and fault == "exit":  # of a virtual rank the library says it: the process is that of others, too
        if f"MPI rank {victim}: the program has ended with status 7 without MPI_Finalize" not in done.stderr:
            return f"rank {victim} is not named: {done.stderr}", seconds
    line = re.search(rf"^wherry run: (rank|process) {process} \((ranks? [-0-9]+, )?pid \d+ on [^)]*\) {re.escape(said)}$", done.stderr, re.M)
    if not line:
        return f"the launcher does not name rank {process}: {done.stderr}", seconds
    if done.returncode != status:
        return f"status {done.returncode}, not {status}: {done.stderr}", seconds
    if left_over(done.stdout):
        return f"processes are left: {left_over(done.stdout)}", seconds
    return told(call, done.stdout, ranks - ranks // processes) if stays else "", seconds


def told(call, out, left):
    """What those who are left have printed: what is wrong with it."""
    ends = re.findall(r"^rank \d+: [a-z-]+: (.*)$", out, re.M)
    good = ends.count("success")
    bad = [end for end in ends if end not in ("success", "MPI_ERR_PROC_ABORTED: a process has ended before its time")]
    if len(ends) != left or bad or (good and call not in NOT_ALL | NONE) or (good < left and call in NONE) or (not good and call == "lock-held"):
        return f"of {left} ranks: {ends}"
    return ""


# What the error of a window says that is fatal where a process was lost: the function and the rank.
SAID = {"fence": "MPI_Win_fence", "put": "MPI_(Put|Win_flush)", "start": "MPI_Win_start", "post": "MPI_Win_wait"}


def fatal(call):
    """What is wrong with the sentence of a call, or an empty text."""
    done = subprocess.run([BIN / "mpiexec", "-disable-auto-cleanup", "-n", "2", PROGRAM, call, "kill", "1", "fatal"], capture_output=True, text=True,
                          timeout=PATIENCE)
    sentence = f"MPI rank 0: {SAID[call]}: MPI_ERR_PROC_ABORTED: a process has ended before its time: the process of rank 1 has ended before its time"
    return "" if re.search(sentence, done.stderr) else f"it does not say \"{sentence}\": {done.stderr}"


def main():
    global BIN, PROGRAM
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sample", type=int, default=0)
    args = parser.parse_args()
    BIN = args.folder.resolve() / "bin"
    can_mount = subprocess.run([FAR, "other", "true"], capture_output=True, check=False, timeout=PATIENCE).returncode == 0
    if not can_mount:
        print("no right to mount here: cells with several hosts are left out")
    chosen = [cell for cell in cells() if (can_mount or "hosts" not in cell[0]) and all(word in cell[0].split() for word in args.words)]
    if args.sample:  # spread over all of them: consecutive ones have a call in common
        step = max(1, len(chosen) // args.sample) | 1
        chosen = chosen[::step]
    failed, times = 0, []
    with tempfile.TemporaryDirectory() as folder:
        PROGRAM = pathlib.Path(folder) / "fault"
        subprocess.run([BIN / "mpicc", "-vp", "-O1", "-g", SOURCE, "-o", PROGRAM], check=True, timeout=PATIENCE)
        for cell in chosen:
            wrong, seconds = run(cell)
            times.append(seconds)
            if wrong:
                failed += 1
                print(f"FAILED {cell[0]} ({seconds:.2f} s): {wrong}", flush=True)
            if failed == ENOUGH:
                break
        for call in SAID if not args.words else ():
            wrong = fatal(call)
            if wrong:
                failed += 1
                print(f"FAILED {call} fatal: {wrong}", flush=True)
    times.sort()
    print(f"{len(times)} of {len(chosen)} cells, {failed} failed; seconds of a job: median {times[len(times) // 2]:.2f}, longest {times[-1]:.2f}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
