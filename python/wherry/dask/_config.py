# SPDX-License-Identifier: BSD-3-Clause
"""What ``distributed.comm.wherry`` says, and the worker that follows it: one per thread and running event loop."""
import asyncio
import threading
from typing import Any, Dict, List, Optional

import dask.config
import wherry
from dask.utils import parse_bytes

_SECTION = "distributed.comm.wherry"

defaults: Dict[str, Any] = {
    "lanes": None,
    "interface": None,
    "progress": None,
    "spin-us": 0,
    "pool-max": None,
    "secret": None,
    "unsent-limit": "64 MiB",
}

# Settings of the engine, by the name that they have here.
_SETTINGS = {"lanes": "lanes", "interface": "interface", "progress": "progress",
             "spin-us": "spin_us", "pool-max": "pool_max"}


def option(name: str) -> Any:
    return dask.config.get(f"{_SECTION}.{name}", defaults[name])


def secret() -> Optional[str]:
    """None: the engine's own setting, which is WHERRY_SECRET or WHERRY_SECRET_FILE, or none."""
    return option("secret")


def unsent_limit() -> int:
    return int(parse_bytes(option("unsent-limit")))


class _Here(threading.local):
    def __init__(self) -> None:
        self.workers: List[wherry.Worker] = []


_here = _Here()


def worker() -> wherry.Worker:
    """The worker of the running loop.  One whose loop is closed goes to the next of its thread."""
    loop = asyncio.get_running_loop()
    mine = _here.workers
    mine[:] = [made for made in mine if not made.closed]
    for made in mine:
        if made.loop is loop:
            return made
    for made in mine:
        if made.loop is None or made.loop.is_closed():
            return made
    settings = {to: option(name) for name, to in _SETTINGS.items() if option(name) is not None}
    mine.append(wherry.Worker(wherry.Context(**settings)))
    return mine[-1]
