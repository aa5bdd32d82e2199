# SPDX-License-Identifier: BSD-3-Clause
"""What the programs over wherry.charm and over charm4py share, so that only the library differs."""
import json
import os
import time

clock = time.perf_counter
FIRST_ROUNDS = 8  # then twice as many, until they take the seconds asked for


def pin(cores, rank):
    """Keeps this process on its core of "A,B", of which there may be fewer than processes; "none": anywhere."""
    if cores != "none":
        cores = [int(core) for core in cores.split(",")]
        os.sched_setaffinity(0, {cores[rank % len(cores)]})


def half_round(stamps):
    """Of the clock before the first round and after each: seconds that all took, and the median of half a round in us."""
    rounds = sorted(after - before for before, after in zip(stamps, stamps[1:]))
    return stamps[-1] - stamps[0], rounds[len(rounds) // 2] / 2 * 1e6


def proportional_kib():
    """Memory of this process in KiB, of which it counts what others share by its part."""
    with open("/proc/self/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1])
    raise OSError("/proc/self/smaps_rollup has no Pss")


def tell(found):
    """The program's result, as run.py reads it: the last line that is an object."""
    print(json.dumps(found), flush=True)
