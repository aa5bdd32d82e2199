# SPDX-License-Identifier: BSD-3-Clause
"""How fast data moves between each two workers of a cluster: ``python -m wherry.dask.bandwidth``.

Every worker of Dask keeps a log of what it has fetched from others, over whatever protocol.  `matrix` reads these
logs; `exercise` first has each worker fetch from each other one.  Bandwidth is in bytes per second.
"""
import argparse
import asyncio
import contextlib
import importlib.util
import statistics
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from dask.utils import format_bytes, parse_bytes
from distributed import Client
from distributed.comm import registry
from wherry.dask._cluster import LocalCluster

LEAST = 1 << 20  # smaller transfers say more about latency than about bandwidth


class Pair(NamedTuple):
    """What one worker has fetched from another: transfers, bytes, and quartiles of their bandwidth."""

    transfers: int
    nbytes: int
    low: float
    median: float
    high: float


Matrix = Dict[Tuple[str, str], Pair]


def log_of(dask_worker: Any) -> Any:
    """What a worker has logged of each transfer to it, the latest last."""
    log = getattr(dask_worker, "transfer_incoming_log", None)  # from 2023 on
    return dask_worker.incoming_transfer_log if log is None else log


def _transfers(dask_worker: Any) -> List[Tuple[str, int, float]]:
    """On a worker: from whom, how many bytes, in how many seconds."""
    return [(entry["who"], entry["total"], entry["duration"]) for entry in log_of(dask_worker)]


def quartiles(rates: Sequence[float]) -> Tuple[float, float, float]:
    if len(rates) == 1:
        return rates[0], rates[0], rates[0]
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return low, median, high


def matrix(client: Client, least: int = LEAST) -> Matrix:
    """The pairs (from, to) of addresses that have moved something of at least so many bytes."""
    moved: Dict[Tuple[str, str], List[Tuple[int, float]]] = {}
    for there, log in client.run(_transfers).items():
        for who, nbytes, seconds in log:
            if nbytes >= least and seconds > 0:
                moved.setdefault((who, there), []).append((nbytes, nbytes / seconds))
    return {pair: Pair(len(each), sum(nbytes for nbytes, _ in each),
                       *quartiles([rate for _, rate in each]))
            for pair, each in sorted(moved.items())}


def _make(nbytes: int) -> Any:
    import numpy as np
    return np.ones(nbytes, np.uint8)


def exercise(client: Client, nbytes: int = 64 << 20, repeats: int = 5, timeout: float = 60) -> None:
    """Has each worker fetch arrays of `nbytes` from each other one, one at a time.

    Raises asyncio.TimeoutError where one transfer takes longer than `timeout` seconds.
    """
    workers = sorted(client.run(lambda: None))
    for source in workers:
        for target in workers:
            for _ in range(repeats if source != target else 0):
                made = client.submit(_make, nbytes, workers=[source], pure=False)
                fetched = client.submit(len, made, workers=[target], pure=False)
                fetched.result(timeout)
                del made, fetched  # so that neither worker keeps it


def _names(pairs: Matrix) -> List[str]:
    return sorted({address for pair in pairs for address in pair})


def _cell(pair: Optional[Pair]) -> str:
    if pair is None:
        return "-"
    return "/".join(f"{rate / 1e9:.2f}" for rate in (pair.low, pair.median, pair.high))


def text(pairs: Matrix) -> str:
    """The matrix to read: rows send, columns receive, cells are quartiles in GB/s."""
    names = _names(pairs)
    if not names:
        return ("no transfers large enough have been logged: it takes two workers, one of which has fetched 1 MiB "
                "or more from the other (leave out --log-only, or raise --size)")
    rows = [["from \\ to", *(f"W{i}" for i in range(len(names)))]]
    rows += [[f"W{i}", *(_cell(pairs.get((name, other))) for other in names)]
             for i, name in enumerate(names)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["GB/s, quartiles (25 % / 50 % / 75 %)", ""]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    lines += ["", *(f"W{i}  {name}" for i, name in enumerate(names))]
    transfers, total = (sum(getattr(pair, of) for pair in pairs.values())
                        for of in ("transfers", "nbytes"))
    lines.append(f"{transfers} transfers, {format_bytes(total)}")
    return "\n".join(lines)


def draw(pairs: Matrix, path: str) -> None:
    """A heat map of the medians, as SVG, PNG or PDF by the name.  Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure
    names = _names(pairs)
    rates = [[pairs[a, b].median / 1e9 if (a, b) in pairs else float("nan") for b in names]
             for a in names]
    figure = Figure(figsize=(2 + 0.6 * len(names), 1.5 + 0.6 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(rates, cmap="viridis", vmin=0)
    ticks = [f"W{i}" for i in range(len(names))]
    axes.set_xticks(range(len(names)), ticks)
    axes.set_yticks(range(len(names)), ticks)
    axes.set_xlabel("receives")
    axes.set_ylabel("sends")
    figure.colorbar(image, label="GB/s, median")
    figure.savefig(path)


def _parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m wherry.dask.bandwidth", description=__doc__)
    parser.add_argument("scheduler", nargs="?", help="its address; without one: a cluster on this machine")
    parser.add_argument("--protocol", default="wherry", help="of the cluster on this machine (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of the cluster on this machine (%(default)s)")
    parser.add_argument("--size", type=parse_bytes, default=64 << 20, help="of an array (64 MiB)")
    parser.add_argument("--repeats", type=int, default=5, help="arrays for each pair (%(default)s)")
    parser.add_argument("--log-only", action="store_true", help="only what was moved before")
    parser.add_argument("--plot", metavar="FILE", help="a heat map, as SVG, PNG or PDF")
    how = parser.parse_args(arguments)
    if how.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install matplotlib")
    if not how.scheduler:
        _check_cluster(parser, how)
    return how


def _check_cluster(parser: argparse.ArgumentParser, how: argparse.Namespace) -> None:
    """Whether the cluster that is to be made on this machine can be, and has anything to measure."""
    if how.workers < 2:
        parser.error(f"--workers {how.workers}: there is something to measure between two of them and more")
    try:
        registry.get_backend(how.protocol)
    except ValueError as error:
        parser.error(f"--protocol {how.protocol}: {error}")


def _measure(client: Client, how: argparse.Namespace) -> None:
    if not how.log_only:
        exercise(client, how.size, how.repeats)
    pairs = matrix(client)
    print(text(pairs))
    if how.plot:
        draw(pairs, how.plot)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    how = _parse(arguments)
    try:
        with contextlib.ExitStack() as ends:
            where = how.scheduler or ends.enter_context(LocalCluster(
                n_workers=how.workers, threads_per_worker=1, protocol=how.protocol, dashboard_address=None))
            _measure(ends.enter_context(Client(where)), how)
    except (OSError, asyncio.TimeoutError, ValueError, RuntimeError) as error:
        print(f"bandwidth: {error or 'a transfer takes too long'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
