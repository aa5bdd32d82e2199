# SPDX-License-Identifier: BSD-3-Clause
"""Rows of results, and what everybody who measures has to do alike.

Imports nothing but the standard library: programs of other environments use it as well.
"""
import dataclasses
import json
import statistics
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

SIZES = (8, 1024, 65536, 1 << 20)
WARM_UP = 10            # a tenth of the rounds is not counted
WINDOW = 32             # messages on the way when bandwidth is measured, as `wherry perf` has them
FLOW = 4                # so many times more messages than rounds
SMALL = 64              # bytes up to which a rate is told
LEAST = 20              # rounds of a large message
LINE = "rows: "         # begins the line that a peer's program tells them in
UNITS = {"latency": "us", "bandwidth": "GB/s", "rate": "M/s", "cost": "ns", "lateness": "us",
         "fairness": "Jain", "cpu": "%"}


@dataclasses.dataclass
class Row:
    """One figure.  `peer` None is Wherry; `ratio`, of a peer's row, is Wherry's figure to this."""

    test: str
    metric: str
    size: int
    median: float
    p99: Optional[float] = None
    min: Optional[float] = None
    peer: Optional[str] = None
    lane: Optional[str] = None
    mode: Optional[str] = None
    unit: str = ""
    ratio: Optional[float] = None

    def __post_init__(self) -> None:
        self.unit = UNITS[self.metric]

    @property
    def key(self) -> Tuple[str, str, int, Optional[str]]:
        return self.test, self.metric, self.size, self.peer


def rounds_of(size: int, rounds: int) -> int:
    """How many rounds of a size take about as long as `rounds` of small messages."""
    return max(LEAST, min(rounds, rounds * 8192 // size))


def counts_of(size: int, rounds: int) -> Tuple[int, int]:
    """Messages of the warm-up of a bandwidth, and of what counts."""
    count = FLOW * rounds_of(size, rounds)
    return count // WARM_UP, count


def timed(test: str, metric: str, size: int, seconds: Sequence[float], peer: Optional[str] = None,
          *, share: float = 0.5) -> Row:
    """What was timed, in microseconds and without the warm-up.  `share` of each is one way."""
    counted = [share * 1e6 * each for each in sorted(seconds[len(seconds) // WARM_UP:])]
    return Row(test, metric, size, counted[len(counted) // 2],
               p99=counted[min(len(counted) - 1, len(counted) * 99 // 100)], min=counted[0], peer=peer)


def flow(test: str, size: int, messages: int, seconds: float, peer: Optional[str] = None,
         ) -> List[Row]:
    """What messages in one direction come to: a bandwidth, and of small ones a rate."""
    rows = [Row(test, "bandwidth", size, size * messages / seconds / 1e9, peer=peer)]
    if size <= SMALL:
        rows.append(Row(test, "rate", size, messages / seconds / 1e6, peer=peer))
    return rows


def middle(repetitions: Iterable[List[Row]]) -> List[Row]:
    """The medians of repetitions, row by row; of minima the least."""
    found: Dict[Tuple[str, str, int, Optional[str]], List[Row]] = {}
    for rows in repetitions:
        for row in rows:
            found.setdefault(row.key, []).append(row)
    merged = []
    for same in found.values():
        p99 = [row.p99 for row in same if row.p99 is not None]
        least = [row.min for row in same if row.min is not None]
        merged.append(dataclasses.replace(
            same[0], median=statistics.median(row.median for row in same),
            p99=statistics.median(p99) if p99 else None, min=min(least) if least else None))
    return merged


def compare(rows: List[Row]) -> None:
    """Sets `ratio` of the peers' rows.  A peer stands beside Wherry's test of the same name."""
    ours = {row.key: row.median for row in rows if row.peer is None}
    for row in rows:
        mine = ours.get((row.test, row.metric, row.size, None))
        if row.peer is not None and mine is not None and row.median > 0:
            row.ratio = mine / row.median


def to_json(rows: List[Row], indent: Optional[int] = 1) -> str:
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=indent)


def from_json(text: str) -> List[Row]:
    return [Row(**row) for row in json.loads(text)]


def tell(rows: List[Row]) -> None:
    """How a peer's program says what it has measured: in a line of its own."""
    print(LINE + to_json(rows, None), flush=True)


def hear(text: str) -> List[Row]:
    """What `tell` has said, among whatever else a peer prints.  ValueError when it is not there."""
    for line in text.splitlines():
        if line.startswith(LINE):
            return from_json(line[len(LINE):])
    raise ValueError("no rows")
