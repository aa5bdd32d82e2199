# SPDX-License-Identifier: BSD-3-Clause
"""What messages cost from Python, between two processes of this machine, each on a core of its own.

Beside Wherry it measures asyncio's streams, bare eventfds, Wherry's engine by the command `wherry` if it
is there, and what --peers names.  All take turns in each repetition; medians of the repetitions are
reported, p99 and the least of each beside them.  A ratio is Wherry's figure to that row's.
"""
import argparse
import asyncio
import os
import pathlib
import platform
import sys
import time
from functools import partial
from typing import Any, Callable, Coroutine, Iterator, List, Optional, Tuple

import wherry
from wherry.perf import ours, peers, plain, plot
from wherry.perf.figures import SIZES, Row, compare, middle, rounds_of, to_json
from wherry.perf.serve import HOST, Server, new_loop

Step = Tuple[str, Callable[[], List[Row]]]  # what is measured, and how


class Session:
    """Both ends of everything that is measured again and again."""

    def __init__(self, args: argparse.Namespace) -> None:
        allowed = os.sched_getaffinity(0)
        first = sorted(allowed)[:2]
        self.cores = (first[0], first[1]) if len(first) == 2 and not args.no_pin else (-1, -1)
        self.args = args
        self.beside = peers.Beside(self.cores, allowed, args.rounds, args.sizes, args.peers_folder)
        core = self.cores[1] if self.cores[1] >= 0 else None
        make = partial(Server, core=core, room=max(*args.sizes, *SIZES), uvloop=args.uvloop)
        self.servers = [make(how) for how in ("adaptive", "wait", "blocking")]
        self.bells = plain.Bells(core, args.uvloop)
        if self.cores[0] >= 0:
            os.sched_setaffinity(0, [self.cores[0]])
        self.loop = new_loop(args.uvloop)
        asyncio.set_event_loop(self.loop)
        self.workers = [wherry.Worker(wherry.Context(progress=progress))
                        for progress in ("adaptive", "wait", "adaptive")]
        self.eps = [self.run(self.connect, at) for at in range(2)]
        self.eps.append(self.workers[2].connect(HOST, self.servers[2].port).result())

    def run(self, fn: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        return self.loop.run_until_complete(fn(*args))

    async def connect(self, at: int) -> wherry.Endpoint:
        return await self.workers[at].connect(HOST, self.servers[at].port)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.loop.close()
        self.bells.end()
        for server in self.servers:
            server.end()

    def of_sizes(self) -> Iterator[Step]:
        rounds, stream_port = self.args.rounds, self.servers[0].stream_port
        for size in self.args.sizes:
            count = rounds_of(size, rounds)
            of = f"of {plot.size_text(size)}"
            yield f"latency {of}", partial(self.run, ours.latency, self.eps[0], size, count)
            yield f"streams, {of}", partial(self.run, plain.latency, stream_port, size,
                                            max(20, count // 10))
            yield f"blocking {of}", partial(ours.latency_blocking, self.eps[2], size, rounds)
            yield f"bandwidth {of}", partial(self.run, ours.bandwidth, self.eps[0], size, rounds)
            yield f"streams, {of}", partial(self.run, plain.bandwidth, stream_port, size, rounds)
            yield f"blocking {of}", partial(ours.bandwidth_blocking, self.eps[2], size, rounds)
            if size >= 1024:
                yield f"columns {of}", partial(self.run, ours.columns, self.eps[0], size, rounds)

    def of_one_size(self) -> Iterator[Step]:
        args, adaptive, wait = self.args, *self.servers[:2]
        asleep = max(20, args.rounds // 10)
        yield "asleep", partial(self.run, ours.latency, self.eps[1], 8, asleep, "asleep")
        yield "eventfd", partial(self.run, self.bells.latency, asleep)
        yield "streams asleep", partial(self.run, plain.latency, wait.stream_port, 8, asleep, "asleep")
        yield "cost of a send", partial(self.run, ours.cost, self.eps[0], max(20, args.rounds // 20))
        yield f"{args.tasks} tasks", partial(self.run, ours.tasks, self.workers[0], adaptive.port,
                                             args.tasks, args.seconds)
        yield f"{args.tasks} streams", partial(self.run, plain.tasks, adaptive.stream_port, args.tasks,
                                               args.seconds)
        yield "idle", partial(self.run, ours.idle, self.workers[0], adaptive.port)

    def of_others(self) -> Iterator[Step]:
        command = peers.find_command()
        if command:
            yield peers.ENGINE, partial(self.beside.engine, command)
            yield peers.C_BELLS, partial(self.beside.bells, command)
        for name in self.args.peers:
            self.beside.install(name)
            yield name, getattr(self.beside, name)


def measure(args: argparse.Namespace) -> List[Row]:
    """All of it, `args.repeat` times; what is not to be had is said and left out."""
    session = Session(args)
    try:
        steps = [*session.of_sizes(), *session.of_one_size()]
        try:
            steps += session.of_others()
        except peers.Unavailable as error:
            complain(error)
        repetitions: List[List[Row]] = []
        for repetition in range(args.repeat):
            rows: List[Row] = []
            for at, (name, step) in enumerate(list(steps)):
                progress(repetition * len(steps) + at, args.repeat * len(steps), name)
                try:
                    rows += step()
                except peers.Unavailable as error:
                    complain(error)
                    steps = [other for other in steps if other[1] is not step]
            repetitions.append(rows)
        progress(1, 1, "")
    finally:
        session.close()
    merged = middle(repetitions)
    for row in merged:
        if row.peer is None:
            row.lane, row.mode = "shm", "wait" if row.test == "asleep" else "adaptive"
    compare(merged)
    return merged


def complain(error: Exception) -> None:
    print(f"\r{' ' * WIDTH}\rleft out: {error}", file=sys.stderr)


WIDTH, BAR = 60, 24  # of the line of progress, and of the bar in it


def progress(done: int, of: int, name: str) -> None:
    if sys.stderr.isatty():
        bar = ("#" * (BAR * done // of)).ljust(BAR)
        text = f"[{bar}] {100 * done // of:3}%  {name}" if done < of else ""
        print(f"\r{text:{WIDTH}}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


def show(rows: List[Row]) -> None:
    def number(value: Optional[float]) -> str:
        return f"{value:10.3f}" if value is not None else " " * 10
    print(f"{'test':12} {'metric':9} {'size':>5} {'':18} {'median':>10} {'unit':5} {'p99':>10} "
          f"{'min':>10} {'ratio':>8}")
    for row in sorted(rows, key=lambda row: (row.test, row.metric, row.size, row.peer is not None)):
        ratio = f"{row.ratio:7.3g}x" if row.ratio is not None else ""
        print(f"{row.test:12} {row.metric:9} {plot.size_text(row.size):>5} {row.peer or 'Wherry':18} "
              f"{number(row.median)} {row.unit:5} {number(row.p99)} {number(row.min)} {ratio}".rstrip())


def machine() -> str:
    """Versions and the processor, since figures are of one machine."""
    cpu = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            cpu = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"wherry {wherry.__version__}, Python {platform.python_version()}, {cpu}"


def names_of_peers(text: str) -> List[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in peers.KINDS:
            raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(peers.KINDS)}")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m wherry.perf", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=list(SIZES), metavar="BYTES")
    add("--rounds", type=int, default=3000, help="of small messages; fewer of large ones (%(default)s)")
    add("--repeat", type=int, default=5, help="repetitions (%(default)s)")
    add("--tasks", type=int, default=100, help="that talk at the same time (%(default)s)")
    add("--seconds", type=float, default=0.5, help="that they do (%(default)s)")
    add("--peers", type=names_of_peers, default=[], metavar="NAME,...", help="fetch and measure: "
        + "; ".join(f"{name}, {kind.size}" for name, kind in peers.KINDS.items()))
    add("--peers-folder", type=pathlib.Path, default=peers.default_folder(), metavar="FOLDER",
        help="where their environments are kept (%(default)s)")
    add("--uvloop", action="store_true", help="uvloop's event loop on both sides")
    add("--no-pin", action="store_true", help="do not give each process a core")
    add("--json", action="store_true", help="rows as JSON, as `wherry perf --json` has them")
    add("--plot", metavar="FILE", help="draw latency and bandwidth: FILE.svg, .png or .pdf")
    return parser.parse_args()


def main() -> None:
    args = parse()
    start = time.perf_counter()
    rows = measure(args)
    if args.json:
        print(to_json(rows))
    else:
        print(f"{machine()}: {args.repeat} repetitions in {time.perf_counter() - start:.0f} s")
        show(rows)
    if args.plot:
        try:
            plot.draw(rows, args.plot, machine())
        except ImportError:
            sys.exit("--plot needs matplotlib: pip install matplotlib")


if __name__ == "__main__":
    main()
