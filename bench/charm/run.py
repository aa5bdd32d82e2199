#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Chares of Wherry beside charm4py, MPICH and Open MPI: run.py BUILD [--only PART,...] [--reps N] [--no-peers] [--short]

    latency  half round trips between two processes: the engine, entries and channels in C and in Python
    stencil  100 iterations of Jacobi's on 192^3 cells, two processes: ways to move faces, blocks of one process
    start    jobs of 2, 16 and 64 processes: how long from start to end, and memory of a process

The peers come from PyPI, into environments below BUILD/peers that are made the first time; what cannot be had is named and
left out.  All contenders of a part run in turn, as often as --reps says; figures are medians of the runs, ratios of them.
Tables go to standard output, JSON and a plot to BUILD/bench-charm.  A missed goal is a figure, not a failure.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import sys

import report
from contenders import ROOT, Charm4py, Mpi, Ours, mpis, note, run

PARTS = ("latency", "stencil", "start")
FULL = {"sizes": [8, 65536, 1 << 20], "seconds": 0.5, "cells": 192, "iterations": 100, "blocks": [1, 2, 4, 8, 16], "middle": 4,
        "counts": [2, 16, 64]}
SHORT = {"sizes": [8, 65536], "seconds": 0.02, "cells": 24, "iterations": 5, "blocks": [1, 2], "middle": 2, "counts": [2]}
MODES = ("channel", "post", "staged")
HEAT_EQUAL = 1e-9  # relative: sums of the same cells, added in another order


class Peers:
    """Whoever else takes part."""

    def __init__(self, folder, wanted):
        self.charm4py, self.mpi, self.folder = None, [], folder
        if wanted:
            folder.mkdir(parents=True, exist_ok=True)
            made = Charm4py(folder)
            self.charm4py = made if made.python else None
            self.mpi = [peer for peer in (Mpi(name, folder) for name in mpis.NAMES) if peer.measured]


def in_turns(jobs, how):
    """By job: what its runs have found.  Who fails once is not asked again."""
    jobs = [job for job in jobs if job]
    found = {job.name: [] for job in jobs}
    for rep in range(how.reps):
        for job in jobs:
            if len(found[job.name]) < rep:
                continue
            got = run(job, how.patience)
            if got is not None:
                found[job.name].append(got)
    return {name: values for name, values in found.items() if values}


def two_cores():
    """As `wherry perf --pin` has them: two that may be used and are not threads of one core, where there are such."""
    allowed = sorted(os.sched_getaffinity(0))
    for core in allowed[1:]:
        try:
            siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = ""
        if str(allowed[0]) not in siblings.replace("-", ",").strip().split(","):
            return f"{allowed[0]},{core}"
    return f"{allowed[0]},{allowed[-1]}"


# ---- Half round trips.

def perf_figures(rows):
    """(contender, size) -> us, of rows of `wherry perf`."""
    names = {"am": "engine: active message", "tag": "engine: tagged", "entry": "entry, C", "channel": "channel, C"}
    found = {}
    for row in rows:
        if row["metric"] == "latency" and row["lane"] != "self":
            name = row["peer"].split()[0] if row["peer"] else names.get(row["test"])
            if name:
                found[name, row["size"]] = row["median"]
    return found


def measure_latency(ours, peers, how):
    """Rows of the half round trips."""
    sizes, cores = [str(size) for size in how.sizes], two_cores()
    words = ["--sizes", ",".join(sizes), "--reps", "1", "--time", str(how.seconds), "--pin", cores]
    program = [cores, str(how.seconds), *sizes]
    jobs = [ours.perf("C", "--model", "engine,entry,channel", *words),
            ours.program("Python", 2, "pingpong_wherry.py", *program)]
    if peers.mpi:
        jobs.append(ours.perf("MPI", "tag", "--lane", "shm", "--metric", "latency", *words, "--peers", str(peers.folder)))
    if peers.charm4py:
        jobs += [peers.charm4py.program("charm4py", 2, "pingpong_charm4py.py", *program),
                 peers.charm4py.runtime("charm4py's runtime, C", *program)]
    figures = {}
    for name, runs in in_turns(jobs, how).items():
        for got in runs:
            if name in ("C", "MPI"):
                found = perf_figures(got)
            else:
                found = {(f"{kind}, {name}", int(size)): us for kind, by_size in got.items() for size, us in by_size.items()}
            for (contender, size), us in found.items():
                if name == "MPI" and contender.startswith("engine"):
                    continue  # the other run's stand for it
                figures.setdefault((contender, size), []).append(us)
    return [report.row("latency", contender, f"{size} B", "us", figures[contender, size])
            for contender, size in sorted(figures, key=lambda key: key[1])]


# ---- Jacobi's iteration.

SAYS = "all iterations: "  # examples/jacobi3d, and how long they took


def measure_stencil(ours, peers, how):
    """Rows of milliseconds an iteration."""
    def in_c(mode, blocks):
        return ours.job(f"C, {mode}, {blocks}^3 blocks", 2, ours.build / "examples" / "jacobi3d", "--mode", mode, "--grid", how.cells,
                        "--blocks", blocks, "--iterations", how.iterations)._replace(says=SAYS)

    words = [str(word) for word in (how.cells, how.middle, how.iterations)]
    jobs = [in_c(mode, how.middle) for mode in MODES]
    jobs += [in_c(MODES[0], blocks) for blocks in how.blocks if blocks != how.middle]
    jobs.append(ours.program("Python, wherry.charm", 2, "jacobi3d_wherry.py", *words))
    if peers.charm4py:
        jobs.append(peers.charm4py.program("Python, charm4py", 2, "jacobi3d_charm4py.py", *words))
    found = in_turns(jobs, how)
    check_heat(found)
    return [report.row("stencil", name, f"{how.cells}^3", "ms/iteration", [got["seconds"] * 1e3 / how.iterations for got in runs])
            for name, runs in found.items()]


def check_heat(found):
    """The programs in Python must have computed the same."""
    heats = {name: runs[0]["heat"] for name, runs in found.items() if "heat" in runs[0]}
    if heats and max(heats.values()) - min(heats.values()) > HEAT_EQUAL * max(heats.values()):
        raise SystemExit(f"bench-charm: the stencils have different results: {heats}")


# ---- Start-up.

def measure_start(ours, peers, how):
    """Rows of seconds, and of MiB of a process, by how many there are."""
    rows = []
    for count in how.counts:
        jobs = [ours.job("C, wherry run", count, ours.build / "bench" / "charm" / "bench-hello"),
                ours.program("Python, wherry run", count, "hello_wherry.py"),
                *[peer.job(f"C, {peer.name}", count) for peer in peers.mpi]]
        if peers.charm4py:
            jobs.append(peers.charm4py.program("Python, charm4py", count, "hello_charm4py.py"))
        for name, runs in in_turns([job._replace(timed=True) for job in jobs if job], how).items():
            rows.append(report.row("start", name, f"{count} processes", "s", [got["seconds"] for got in runs]))
            rows.append(report.row("memory", name, f"{count} processes", "MiB",
                                   [statistics.median(got["kib"]) / 1024 for got in runs]))
    return rows


def arguments():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between: {', '.join(PARTS)}")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--patience", type=float, default=120, help="seconds for one program")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--peers", type=pathlib.Path, help="where the peers are, or will be; default: BUILD/peers")
    parser.add_argument("--short", action="store_true", help="as small as can be: whether it runs, not how fast")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the JSON and the plot; default: BUILD/bench-charm")
    how = parser.parse_args()
    wrong = [part for part in how.only.split(",") if part not in PARTS]
    if wrong or how.reps < 1:
        parser.error(f"there is no part '{wrong[0]}'" if wrong else "--reps is 1 or more")
    vars(how).update(SHORT if how.short else FULL)
    return how


def main():
    how = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of `run`, which ends what it has started
    build = how.build.resolve()
    out = (how.out or build / "bench-charm").resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPYCACHEPREFIX"] = str(out / "pycache")  # all modules are compiled once, and none into the source tree
    if not (build / "wherry").exists():
        raise SystemExit(f"bench-charm: there is no {build / 'wherry'}: make build makes it")
    peers = Peers((how.peers or build / "peers").resolve(), not how.no_peers)
    # The same interpreter and numpy as charm4py's, where that is.
    pythons = [peers.charm4py.python] if peers.charm4py else [pathlib.Path(sys.executable), ROOT / ".venv" / "bin" / "python"]
    ours = Ours(build, pythons)
    measure = {"latency": measure_latency, "stencil": measure_stencil, "start": measure_start}
    rows = []
    for part in how.only.split(","):
        more = measure[part](ours, peers, how)
        report.compare(more)
        report.show(part, more)
        rows += more
        found = {"machine": report.machine(), "reps": how.reps, "rows": rows}
        (out / "bench-charm.json").write_text(json.dumps(found, indent=1) + "\n")
        report.plot(rows, out / "bench-charm.svg")
    note(f"all figures are in {out}")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
