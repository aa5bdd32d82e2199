# SPDX-License-Identifier: BSD-3-Clause
"""What a cluster on this machine takes for some work: tasks.py PROTOCOL WORKERS ROUNDS prints JSON.

Seconds, and seconds of processor of all processes, by task: medians of the rounds but the first, which imports and takes
memory for the first time.  `idle` is the processor's share in per cent while nothing is to be done.
"""
import importlib.util
import json
import os
import statistics
import sys
import time

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, wait

if importlib.util.find_spec("wherry"):
    import wherry.dask  # noqa: F401  takes ucx:// over where nothing else has it

TICK = os.sysconf("SC_CLK_TCK")
IDLE_SECONDS = 5
SIDE, CHUNK = 8_000, 2_000  # of a square of 8-byte numbers: 512 MB


def family():
    """This process and those that have come from it."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(pid)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK
    found = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        if not more:
            return [seconds for pid, (_, seconds) in parents.items() if pid in found]
        found |= more


def processor():
    return sum(family())


def increase(x):
    return x + 1


def tiny(client, _):
    client.gather(client.map(increase, range(2000), pure=False))


def scatter_gather(client, _):
    client.gather(client.scatter(np.ones(25_000_000)))


def rechunk(client, rows):
    """Bound by what moves between the workers: each of its chunks is made of parts of all others."""
    columns = rows.rechunk((SIDE, CHUNK)).persist()
    wait(columns)


def transpose(client, rows):
    (rows + rows.T).sum().compute()


def main():
    protocol, workers, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = {}
    dask.config.set({"array.rechunk.method": "tasks"})  # the other one goes by way of the disk
    with LocalCluster(n_workers=workers, threads_per_worker=1, protocol=protocol,
                      dashboard_address=None) as cluster, Client(cluster) as client:
        for task in (tiny, scatter_gather, rechunk, transpose):
            took = []
            for number in range(rounds):
                # Another number each time, or what is left of the last round would be found.
                rows = da.full((SIDE, SIDE), float(number), chunks=(CHUNK, SIDE)).persist()
                wait(rows)
                spent, begin = processor(), time.monotonic()
                task(client, rows)
                took.append((time.monotonic() - begin, processor() - spent))
            seconds, cpu = zip(*took[1:])
            found[task.__name__] = statistics.median(seconds), statistics.median(cpu)
        time.sleep(1)
        spent = processor()
        time.sleep(IDLE_SECONDS)
        found["idle"] = 100 * (processor() - spent) / IDLE_SECONDS, 0
    print(json.dumps(found))


if __name__ == "__main__":
    main()
