# SPDX-License-Identifier: BSD-3-Clause
"""The MPI part of the demo: programs compiled with mpicc, as processes and as virtual ranks; then mpi4py."""
import pathlib
import statistics
import subprocess
import tempfile
import time

from demo_kit import BUILD, ROOT, demand, expect, heading, say, start
from mpi4py_tests import VERSION, Home

BIN = BUILD / "src" / "mpi" / "bin"
SOURCES = ROOT / "examples" / "mpi"
WORK = ["--grid", "128", "--iterations", "40"]
WAYS = {
    "2 processes": ["-n", "2"],
    "16 ranks in 2 processes": ["-n", "2", "-vp", "16"],
    "16 processes": ["-n", "16"],
}
ROUNDS = 3
PICTURE = BUILD / "demo-mpi.pgm"


def compile_for(folder, name, *options):
    program = folder / "".join([name, *options])
    subprocess.run([BIN / "mpicc", *options, "-O2", SOURCES / f"{name}.c", "-o", program, "-lm"], check=True)
    return program


def run(*words):
    """The lines that a job prints."""
    return expect(start(BIN / "mpiexec", *words), 0)[0].splitlines()


def value(lines, key):
    """The word after `key`: of what a rank 0 has printed."""
    return next(line.partition(key)[2].split()[0] for line in lines if key in line)


def processes_and_ranks(folder):
    heading("MPI: one program as processes and as virtual ranks")
    plain, loadable = compile_for(folder, "jacobi3d"), compile_for(folder, "jacobi3d", "-vp")
    say("mpicc examples/mpi/jacobi3d.c, and mpicc -vp for several ranks in a process")
    seconds, sums = {name: [] for name in WAYS}, set()
    for _ in range(ROUNDS):
        for name, how in WAYS.items():
            lines = run(*how, loadable if "-vp" in how else plain, *WORK)
            sums.add(value(lines, "checksum "))
            seconds[name].append(float(value(lines, "ranks, ")))
    lines = run("-n", "1", plain, *WORK, "--check")
    demand("the same as in a serial run" in lines[-1], lines[-1])
    demand(sums == {value(lines, "checksum ")}, f"the checksums differ: {sums}")
    say(f"128 x 128 x 128 cells: the checksum is {sums.pop()} in each way, as in a serial run")
    for name, took in seconds.items():
        print(f"      {name:38}{statistics.median(took):6.3f} s")
    begin = time.monotonic()
    run("-n", "2", "-vp", "1024", loadable, "--grid", "64", "--iterations", "10")
    say(f"1,024 ranks in 2 processes, from start to end: {time.monotonic() - begin:.1f} s")


def balance(folder):
    program = compile_for(folder, "amr", "-vp")
    work = ["-n", "2", "-vp", "8", program, "--patches", "24", "--steps", "60"]
    moving, fixed = run(*work), run(*work, "--fixed")
    demand(value(moving, "checksum ") == value(fixed, "checksum "), "moved patches are not what they were")
    say(f"an adaptive mesh on 8 ranks: the busiest has {value(moving, 'had ')} times the mean of the work, "
        f"{value(fixed, 'had ')} when patches stay where they were")


def python_programs():
    heading("mpi4py, whose source is compiled with mpicc")
    home = Home(BUILD)
    if not home.ready():
        say(f"fetching mpi4py {VERSION} and compiling it, once; this takes a minute or two")
    try:
        home.make()
    except (OSError, subprocess.SubprocessError):
        say("it could not be fetched or compiled: left out")
        return
    sums = {}
    for ranks in (1, 2, 4):
        lines = run("-n", ranks, home.python, SOURCES / "mandelbrot.py", "--picture", PICTURE)
        sums[ranks] = value(lines, "checksum ")
        print(f"      {ranks} ranks: the Mandelbrot set, {value(lines, 'ranks, ')} s")
    demand(len(set(sums.values())) == 1, f"the pictures differ: {sums}")
    say(f"the same picture each time: {PICTURE}")


def tour():
    with tempfile.TemporaryDirectory(prefix="wherry-demo-mpi-") as folder:
        folder = pathlib.Path(folder)
        processes_and_ranks(folder)
        balance(folder)
    python_programs()
