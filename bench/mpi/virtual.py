# SPDX-License-Identifier: BSD-3-Clause
"""What virtual ranks cost: vp.c, in jobs of `mpiexec -vp`."""
import os
import shlex
import subprocess

import report
from contenders import Job, note, run

PART, OURS = "vp", "wherry"
# What is said, the part of vp.c, processes, ranks, the unit, and how many of it are one of the program's.
FIGURES = [
    ("call alone", "call", 1, 2, "ns", 1000),
    ("call with a switch, 2 ranks", "yield", 1, 2, "ns", 1000),
    ("call with a switch, 64 ranks", "yield", 1, 64, "ns", 1000),
    ("8 B to a rank of the process", "hop", 1, 2, "ns", 1000),
    ("8 B around 1,024 ranks", "ring", 2, 1024, "us", 1),
    ("allreduce, 8 B, 64 ranks", "allreduce", 2, 64, "us", 1),
    ("allreduce, 8 B, 1,024 ranks", "allreduce", 2, 1024, "us", 1),
]
FEW, MANY = 64, 512  # ranks of a process whose memory is compared


def compiled(build, source, program):
    command = [build / "src" / "mpi" / "bin" / "mpicc", "-vp", "-std=gnu11", "-O2", source, "-o", program]
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0:
        return True
    note(f"left out, as it does not compile: {shlex.join(map(str, command))}")
    return False


def measure(build, source, how):
    """Rows of the part."""
    program = build / "bench-mpi" / "vp"
    if not compiled(build, source, program):
        return []

    def runs(processes, ranks, part, timed=False):
        job = Job(f"{part}, {ranks} ranks", [build / "src" / "mpi" / "bin" / "mpiexec", "-n", processes, "-vp", ranks, program, part, how.seconds],
                  timed=timed)
        return [got for got in (run(job, how.patience) for _ in range(how.reps)) if got]

    rows = []
    for what, part, processes, ranks, unit, scale in FIGURES[:4] if how.short else FIGURES:
        got = [each["figure"] * scale for each in runs(processes, ranks, part)]
        rows += [report.row(PART, OURS, what, unit, got)] if got else []
    few, many = ([each["figure"] for each in runs(1, ranks, "memory")] for ranks in (FEW, MANY))
    if few and many:
        rows.append(report.row(PART, OURS, "resident for a rank", "KiB", [(b - a) / (MANY - FEW) for a, b in zip(few, many)]))
        rows.append(report.row(PART, OURS, "its copy of the program", "KiB", [os.stat(program).st_size / 1024]))
    for ranks in (2, 64, 1024):
        got = [each["seconds"] * 1e3 for each in runs(2, ranks, "start", timed=True)]
        rows += [report.row(PART, OURS, f"job of {ranks:,} ranks", "ms", got)] if got else []
    return rows
