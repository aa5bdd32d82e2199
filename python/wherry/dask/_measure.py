# SPDX-License-Identifier: BSD-3-Clause
"""The measure "wherry" of Dask's workers: what each has fetched from each other one, how fast, over which lanes.

A worker that listens over Wherry sends it to the scheduler with every heartbeat; `read` takes it there from what
all have sent.  What a worker sends is checked: no sense in it is as if it had sent nothing.
"""
import contextlib
import logging
import math
from collections import deque
from typing import Any, Deque, Dict, Iterable, List, NamedTuple, Tuple

from wherry.dask._traffic import Link, links
from wherry.dask.bandwidth import LEAST, Matrix, Pair, log_of, quartiles

logger = logging.getLogger(__name__)

NAME = "wherry"
HOST, CUDA, UNKNOWN = "host", "cuda", "unknown"
KINDS = (HOST, CUDA, UNKNOWN)
RECENT = 100  # transfers of a pair whose bandwidth is looked at
KEPT = 1000  # pairs of a worker: others come and go for as long as it is there, and all is sent each time


class Measures(NamedTuple):
    """What the scheduler knows: the workers' names, bandwidth by kind of memory, and links by (here, peer)."""

    names: Dict[str, str]
    pairs: Dict[str, Matrix]
    links: Dict[Tuple[str, str], Link]


def attach(server: Any) -> None:
    """A server of Dask begins to listen, or has preloaded us: a worker measures from now on, a scheduler shows it.

    Raises nothing: whatever has changed in distributed, it goes on without.
    """
    from distributed import Scheduler, Worker
    try:
        if isinstance(server, Worker) and NAME not in server.metrics:
            server.metrics[NAME] = Transfers(server)
        elif isinstance(server, Scheduler):
            from wherry.dask import _dashboard
            _dashboard.attach(server)
    except Exception as error:
        logger.debug("the %s measures and shows nothing of Wherry: %s: %s",
                     type(server).__name__, type(error).__name__, error)


def memory_of(values: Iterable[Any]) -> str:
    """The kind of memory that values live in, whatever way they have taken: on a device, if one of them does."""
    from distributed.protocol.cuda import cuda_serialize
    for value in values:
        try:
            cuda_serialize.dispatch(type(value))
        except TypeError:  # Dask knows no way to send it from a device
            if not hasattr(value, "__cuda_array_interface__"):
                continue
        return CUDA
    return HOST


class _Fetched:
    """What has come from one worker in one kind of memory."""

    def __init__(self) -> None:
        self.transfers = self.nbytes = 0
        self.rates: Deque[float] = deque(maxlen=RECENT)

    def add(self, nbytes: int, seconds: float) -> None:
        self.transfers += 1
        self.nbytes += nbytes
        self.rates.append(nbytes / seconds)

    def pair(self) -> Pair:
        return Pair(self.transfers, self.nbytes, *quartiles(self.rates))


class Transfers:
    """The measure of one worker, which calls it before each heartbeat."""

    def __init__(self, worker: Any) -> None:
        self._log = log_of(worker)
        self._seen: Any = None  # the last entry of the log that was looked at
        self._fetched: Dict[Tuple[str, str], _Fetched] = {}
        _note_kinds(worker, self._log)

    def __call__(self, worker: Any) -> Dict[str, Any]:
        self._look()
        pairs: Dict[str, Dict[str, List[Any]]] = {}
        for (who, kind), fetched in self._fetched.items():
            pairs.setdefault(who, {})[kind] = list(fetched.pair())
        return {"pairs": pairs, "links": {address: list(link) for address, link in links().items()}}

    def _look(self) -> None:
        new = []
        for entry in reversed(self._log):
            if entry is self._seen:
                break
            new.append(entry)
        for entry in reversed(new):
            self._seen = entry
            if entry["total"] >= LEAST and entry["duration"] > 0:
                key = entry["who"], entry.get("memory", UNKNOWN)
                fetched = self._fetched.pop(key, None) or _Fetched()
                fetched.add(entry["total"], entry["duration"])
                self._fetched[key] = fetched  # the last ones are the latest
        for key in list(self._fetched)[:-KEPT]:
            del self._fetched[key]


def _note_kinds(worker: Any, log: Any) -> None:
    """Has the worker write the kind of memory into the log, where only it has the values at hand."""
    try:
        update = worker._update_metrics_received_data
    except AttributeError:
        logger.debug("this release of distributed does not say what has been received: kinds of memory "
                     "are not told apart")
        return

    def noting(*args: Any, **kwargs: Any) -> None:
        update(*args, **kwargs)
        with contextlib.suppress(Exception):  # the values may be of any type
            if log[-1]["total"] >= LEAST:
                log[-1]["memory"] = memory_of(kwargs["data"].values())

    worker._update_metrics_received_data = noting


def read(scheduler: Any) -> Measures:
    """From the last heartbeat of every worker that is there."""
    workers = dict(scheduler.workers)
    pairs: Dict[str, Matrix] = {kind: {} for kind in KINDS}
    found: Dict[Tuple[str, str], Link] = {}
    for here, state in workers.items():
        sent = _dict(_dict(getattr(state, "metrics", None)).get(NAME))
        for peer, by_kind in _dict(sent.get("pairs")).items():
            for kind, numbers in _dict(by_kind).items():
                if peer in workers and kind in pairs and _are_numbers(numbers, len(Pair._fields)):
                    pairs[kind][peer, here] = Pair(*numbers)
        for peer, link in _dict(sent.get("links")).items():
            if (isinstance(peer, str) and isinstance(link, (list, tuple)) and len(link) == len(Link._fields)
                    and isinstance(link[0], str) and _are_numbers(link[1:], len(link) - 1)):
                found[here, peer] = Link(*link)
    names = {address: address if state.name is None else str(state.name)
             for address, state in workers.items()}
    return Measures(names, pairs, found)


def _dict(of: Any) -> Dict[Any, Any]:
    return of if isinstance(of, dict) else {}


def _are_numbers(values: Any, count: int) -> bool:
    return (isinstance(values, (list, tuple)) and len(values) == count
            and all(type(each) in (int, float) and 0 <= each < math.inf for each in values))
