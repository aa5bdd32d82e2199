# SPDX-License-Identifier: BSD-3-Clause
"""Dask over Wherry: ``protocol="wherry"``, and ``protocol="ucx"`` where distributed has nothing behind it.

``wherry://`` is found by itself where the package is installed.  Importing this module, which
``--preload wherry.dask`` does, also takes ``ucx://`` over.  ``LocalCluster`` is that of distributed with
each worker near to a GPU or in a NUMA node, and a secret of its own.  Workers that listen over Wherry, or have
preloaded this module, measure what they fetch from each other, and their scheduler's dashboard shows it.
"""
import importlib.util
import sys
from typing import Any, List

import dask.config
from distributed.comm import registry

from wherry.dask._cluster import DGX, LocalCluster
from wherry.dask._comm import WherryBackend, WherryComm
from wherry.dask._config import module_names

__all__ = ["DGX", "LocalCluster", "WherryBackend", "WherryComm", "take_ucx"]

_ME = "wherry.dask"


def take_ucx() -> None:
    """Serves ``ucx://`` in this process, whatever served it before."""
    registry.backends["ucx"] = WherryBackend("ucx")


def dask_setup(server: Any) -> None:
    """Of distributed, which calls it of a module that a scheduler or worker has preloaded."""
    from wherry.dask._measure import attach  # with all that measuring needs
    attach(server)


def _ucx_is_free() -> bool:
    """Whether nothing works behind ``ucx://``: no backend, or the one that only says why there is none."""
    if importlib.util.find_spec("distributed_ucxx"):
        return False
    there = registry.backends.get("ucx")
    if there is None or type(there).__module__ != "distributed.comm.ucx":
        return there is None
    # After 2025.7 the module is still there and only says that it was removed, whether there is a ucp or not.
    works = hasattr(sys.modules["distributed.comm.ucx"], "init_once")
    return not (works and importlib.util.find_spec("ucp"))


def _preload() -> None:
    """Has the processes that this one starts import the module, too."""
    for who in ("scheduler", "worker", "nanny"):
        key = f"distributed.{who}.preload"
        modules = module_names(dask.config.get(key, None))
        if _ME not in modules:
            argv: List[Any] = list(dask.config.get(key + "-argv", None) or [])
            if argv and not isinstance(argv[0], str):  # one list per module, not one for all
                argv.append([])
            dask.config.set({key: [*modules, _ME], key + "-argv": argv})


registry.backends["wherry"] = WherryBackend()
if _ucx_is_free():
    take_ucx()
_preload()
