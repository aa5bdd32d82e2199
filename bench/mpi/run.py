#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI on Wherry beside MPICH and Open MPI: run.py BUILD [--only PART,...] [--reps N] [--ranks N,...] [--sizes N,...] [--add] [--tcp]
                                                 [--short]

    latency, wildcards, posted, unexpected, strided   half round trips between two ranks; the third and fourth behind 1,000
                                                      receives, or messages, that wait; the last in blocks of 8 bytes
    one-way, both-ways                                a message of 64 under way, in one direction or in both; of large ones fewer, 64 MiB
    threads-2, threads-4                              half round trips of as many pairs of threads at a time, with MPI_THREAD_MULTIPLE
    rate                                              a message of 64 under way in each of --ranks / 2 pairs, which work at the same time
    barrier, bcast, reduce, allreduce, allgather, alltoall   on --ranks ranks
    start                                             jobs of 2, 16 and 64 ranks that do nothing, from the launcher's start to its end,
                                                      and what rank 0 spends in MPI_Init
    vp                                                virtual ranks, which the peers do not have (vp.c): a switch, a message, memory, collectives
                                                      of 1,024 ranks in two processes, jobs that do nothing; a mesh whose ranks move

With --tcp nobody uses shared memory: all messages go over TCP of this host.

One program (measure.c), compiled against each.  The peers come from PyPI, into environments below BUILD/peers that are made the
first time; what cannot be had is named and left out.  All contenders of a part run in turn, as often as --reps says; figures
are medians of the runs, with --add of those of earlier calls, too.  Tables go to standard output, JSON and plots to BUILD/bench-mpi: all
figures, and the ratios of collectives.  A missed goal is a figure, not a failure.
"""
import argparse
import json
import pathlib
import signal
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "charm"), str(HERE.parent / "peers")]
import collectives  # noqa: E402
import make as mpis  # noqa: E402, of bench/peers
import report  # noqa: E402
import virtual  # noqa: E402
from contenders import MPI_SETTINGS, Job, compiled, note, run  # noqa: E402
from run import two_cores  # noqa: E402

PAIRS = ("latency", "wildcards", "posted", "unexpected", "strided", "one-way", "both-ways", "threads-2", "threads-4")
TEAMS = ("rate", "barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall")
LONG = [8, 64, 512, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
SIZES = {"latency": LONG, "wildcards": [8], "posted": [8], "unexpected": [8], "strided": [64, 4096, 65536, 1 << 20], "one-way": LONG,
         "both-ways": LONG, "threads-2": [8, 4096, 65536], "threads-4": [8, 4096, 65536], "rate": [8, 64, 512], "barrier": [0],
         **{part: [8, 512, 8192, 131072, 1 << 20, 4 << 20] for part in TEAMS[2:]}}
START = "start"
COUNTS = (2, 16, 64)  # of ranks that start
OURS = "wherry"
# What has each library send over TCP alone: variables, and options of its launcher.
TCP = {OURS: ({"WHERRY_LANES": "stream"}, []),
       "mpich": ({"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}, []),
       "openmpi": ({}, ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"])}


class Contender:
    """An MPI library, its launcher, and measure.c compiled against it."""

    def __init__(self, name, launcher, program, more=()):
        self.name, self.launcher, self.program, self.more, self.settings = name, launcher, program, list(more), dict(MPI_SETTINGS)

    def over_tcp(self):
        settings, options = TCP[self.name]
        self.settings.update(settings)
        self.more += options

    def job(self, ranks, *words):
        return Job(self.name, [*self.launcher, *self.more, "-n", ranks, self.program, *words], self.settings)


def peer(name, folder):
    """MPICH or Open MPI; None where it cannot be had."""
    home = folder / name
    program = home / "bin" / "bench-mpi"
    if not mpis.install(name, home) or not compiled(name, HERE / "measure.c", *mpis.compile_options(home), "-o", program):
        return None
    more = ["--bind-to", "none", "--oversubscribe"] if name == "openmpi" else []
    return Contender(name, [home / "bin" / ("mpirun" if name == "openmpi" else "mpiexec")], program, more)


def in_turns(contenders, job, how):
    """What each has found, as often as there are repetitions."""
    found = {each.name: [] for each in contenders}
    for rep in range(how.reps):
        for each in contenders:
            if len(found[each.name]) == rep:  # who fails once is not asked again
                got = run(job(each), how.patience)
                found[each.name] += [got] if got else []
    return found


def measure_start(ranks, contenders, how):
    found = in_turns(contenders, lambda each: each.job(ranks, START)._replace(timed=True), how)
    title = f"{START}, {ranks} ranks"
    return [report.row(title, name, what, "us", values)
            for name, runs in found.items() if runs
            for what, values in (("whole job", [each["seconds"] * 1e6 for each in runs]),
                                 ("MPI_Init", [each["figures"]["init"] for each in runs]))]


def measure(part, ranks, contenders, how):
    """Rows of one part: us by contender and size."""
    if part == START:
        return measure_start(ranks, contenders, how)
    if part == virtual.PART:
        return virtual.measure(how.build.resolve(), HERE / "vp.c", how)
    cores = two_cores() if ranks == 2 else "none"
    sizes = how.sizes or (SIZES[part][:2] if how.short else SIZES[part])
    runs = in_turns(contenders, lambda each: each.job(ranks, part, cores, how.seconds, *sizes), how)
    found = {name: [each["figures"] for each in gots] for name, gots in runs.items()}
    title = part if part in PAIRS else f"{part}, {ranks} ranks"
    return [report.row(title, name, f"{size} B", "us", [figures[str(size)] for figures in runs])
            for size in sizes for name, runs in found.items() if runs]


def joined(earlier, rows):
    """The figures of all rows of the same name."""
    found = {}
    for each in [*earlier, *rows]:
        key = (each["part"], each["contender"], each["what"], each["unit"])
        found.setdefault(key, []).extend(each["values"])
    return [report.row(*key, values) for key, values in found.items()]


def compare(rows):
    """Adds to each row of ours its ratio to the better of the others."""
    ratios = []
    for row in rows:
        others = [each["median"] for each in rows if (each["part"], each["what"]) == (row["part"], row["what"]) and each is not row]
        if row["contender"] == OURS and others:
            row["ratios"] = [{"beside": "the better of the others", "ratio": row["median"] / min(others), "goal": 1.0}]
            ratios.append(row["median"] / min(others))
    return ratios


def arguments():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PAIRS + TEAMS + (START, virtual.PART)), help="parts, with commas between")
    parser.add_argument("--ranks", default="2,4,8", help="of the collectives")
    parser.add_argument("--add", action="store_true", help="to the figures in BUILD/bench-mpi; with --only '' show those")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each size")
    parser.add_argument("--patience", type=float, default=120, help="seconds for one program")
    parser.add_argument("--peers", type=pathlib.Path, help="where the peers are, or will be; default: BUILD/peers")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], help="in bytes, of all parts; default: by part")
    parser.add_argument("--tcp", action="store_true", help="over TCP instead of shared memory")
    parser.add_argument("--short", action="store_true", help="as small as can be: whether it runs, not how fast")
    how = parser.parse_args()
    how.only = [part for part in how.only.split(",") if part]
    wrong = [part for part in how.only if part not in (*PAIRS, *TEAMS, START, virtual.PART)]
    if wrong or how.reps < 1:
        parser.error(f"there is no part '{wrong[0]}'" if wrong else "--reps is 1 or more")
    return how


def ranks_of(part, how):
    if part == START:
        return COUNTS[:1] if how.short else COUNTS
    return [2] if part in (*PAIRS, virtual.PART) else map(int, how.ranks.split(","))


def show(part, rows):
    of_part = [each for each in rows if each["part"] == part]
    of_part.sort(key=lambda each: each["what"].endswith(" B") and int(each["what"][:-2]))
    report.TITLES.setdefault(part, "")
    report.show(part, of_part)


def main():
    how = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of `run`, which ends what it has started
    build = how.build.resolve()
    out, folder = build / "bench-mpi", (how.peers or build / "peers").resolve()
    out.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    contenders = [Contender(OURS, [build / "wherry", "run"], build / "bench" / "mpi" / "measure")]
    if not how.no_peers:
        contenders += filter(None, (peer(name, folder) for name in mpis.NAMES))
    for each in contenders if how.tcp else ():
        each.over_tcp()
    store = out / "bench-mpi.json"
    rows = json.loads(store.read_text())["rows"] if how.add and store.exists() else []
    ratios = compare(rows)
    for part in how.only:
        for ranks in ranks_of(part, how):
            more = measure(part, ranks, contenders, how)
            rows = joined(rows, more)
            ratios = compare(rows)
            if more:
                show(more[0]["part"], rows)
            store.write_text(json.dumps({"machine": report.machine(), "reps": how.reps, "rows": rows}, indent=1) + "\n")
    for part in () if how.only else dict.fromkeys(each["part"] for each in rows):
        show(part, rows)
    if ratios:
        print(f"\nours beside the better of the others, {len(ratios)} figures: median {statistics.median(ratios):.2f}, "
              f"worst {max(ratios):.2f}")
    report.plot(rows, out / "bench-mpi.svg")
    collectives.plot([each for each in rows if each["part"].split(",")[0] in TEAMS[1:]], report.machine()["cpu"], out / "collectives.svg")
    note(f"all figures are in {out}")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
