#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kill a job that writes checkpoints, and begin it again: checkpoint_test.py WHERRY CHECKPOINT_JOB

Whenever a process is killed, the job that follows, of another number of processes, finds a whole
checkpoint: at least the one that the job before it was begun with, all elements of one round.
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

KILLS = 12


def run(wherry, job, folder, processes, rounds, kill_us=0):
    """The rounds that a job says it began and ended with; None: it did not say."""
    command = [wherry, "run", "-n", str(processes), job, "checkpoint", str(rounds), str(kill_us)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    begin, end = (re.search(word + r" (\d+)", done.stdout) for word in ("from", "to"))
    assert (done.returncode == 0) == bool(end), (command, done.returncode, done.stdout, done.stderr)
    assert end or kill_us, (command, done.stdout, done.stderr)
    return int(begin[1]) if begin else None, int(end[1]) if end else None


def main():
    wherry, job = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        first = run(wherry, job, folder, 3, 2)
        assert first == (0, 2), first
        least, killed = 2, 0
        for _ in range(KILLS):
            begin, end = run(wherry, job, folder, draw.randint(2, 5), 10**6, draw.randint(30000, 400000))
            assert end is None
            killed += 1
            if begin is not None:
                assert begin >= least, (begin, least)
                least = begin
        begin, end = run(wherry, job, folder, 1, 3)
        assert begin >= least and end == begin + 3, (begin, end, least)
        assert begin > 2, "no job came as far as a checkpoint"
        print(f"{killed} jobs killed, {begin} rounds whole")


if __name__ == "__main__":
    main()
