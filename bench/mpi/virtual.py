# SPDX-License-Identifier: BSD-3-Clause
"""What virtual ranks cost: switch.c, and vp.c in jobs of `mpiexec -vp`; and what it is worth that they move."""
import os
import re
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
SWITCHING = (2, 64, 256)  # threads
FEW, MANY = 64, 512  # ranks of a process whose memory is compared


MESH = "--patches 48 --steps 40 --sweeps 20 --fixed".split()  # the example amr's, on 64 ranks in 2 processes


def compiled(build, source, program, kind="-vp"):
    command = [build / "src" / "mpi" / "bin" / "mpicc", kind, "-std=gnu11", "-O2", source, "-o", program, "-lm"]
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0:
        return True
    note(f"left out, as it does not compile: {shlex.join(map(str, command))}")
    return False


def measure_mesh(build, source, how):
    """Rows of an adaptive mesh whose work shifts: its ranks stay where they are, or move, in turns."""
    program = build / "bench-mpi" / "amr"
    if not compiled(build, source, program, "-movable"):
        return []
    found = {"adaptive mesh, ranks stay": ([], []), "adaptive mesh, ranks move": (["--balance"], [])}
    for _ in range(how.reps):
        for more, seconds in found.values():
            done = subprocess.run([build / "src" / "mpi" / "bin" / "mpiexec", "-n", "2", "-vp", "64", "-movable", program, *MESH, *more],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            took = re.search(r"ranks, ([0-9.]+) s", done.stdout)
            if took:
                seconds.append(float(took.group(1)) * 1e3)
            else:
                note(f"amr has failed: {done.stderr.strip()}")
    return [report.row(PART, OURS, what, "ms", got) for what, (_, got) in found.items() if got]


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
    for threads in SWITCHING:
        job = Job(f"switch of {threads} threads", [build / "bench" / "mpi" / "switch", threads, how.seconds])
        got = [each["figure"] * 1000 for each in (run(job, how.patience) for _ in range(how.reps)) if each]
        rows += [report.row(PART, OURS, f"switch with its scheduler, {threads} threads", "ns", got)] if got else []
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
    return rows + ([] if how.short else measure_mesh(build, source.parent.parent.parent / "examples" / "mpi" / "amr.c", how))
