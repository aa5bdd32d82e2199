# SPDX-License-Identifier: BSD-3-Clause
"""The first preload of a placed worker: its import pins the process, before the worker listens.

All threads that are there are pinned, and by that those that they will make.
"""
import contextlib
import os
from typing import AbstractSet, Set

from wherry.dask._config import option
from wherry.topology._model import parse_cpu_list


def pin(cpus: AbstractSet[int]) -> None:
    """Raises OSError where none of these processors may be used."""
    done: Set[int] = set()
    while True:
        # A thread that is not pinned yet may have made others meanwhile.
        threads = {int(name) for name in os.listdir("/proc/self/task")} - done
        if not threads:
            return
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(thread, cpus)
        done |= threads


_cpus = option("cpus")
if _cpus:
    pin(set(parse_cpu_list(_cpus)))
