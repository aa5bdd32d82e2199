# SPDX-License-Identifier: BSD-3-Clause
"""What ``distributed.comm.wherry`` says, and the worker that follows it: one per thread and running event loop."""
import logging
import os
import pathlib
from typing import Any, Dict, List, Optional

import dask.config
import wherry
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT
from wherry._default import per_thread

SECTION = "distributed.comm.wherry"
logger = logging.getLogger(__name__)

with open(pathlib.Path(__file__).with_name("wherry.yaml")) as file:
    _shipped = yaml.safe_load(file)
dask.config.update_defaults(_shipped)
_defaults: Dict[str, Any] = _shipped["distributed"]["comm"]["wherry"]

_here = per_thread()


def option(name: str) -> Any:
    # Who empties the configuration, as distributed does around its tests, takes the defaults away, too.
    return dask.config.get(f"{SECTION}.{name}", _defaults[name])


def module_names(modules: Any) -> List[str]:
    """Of a setting of modules to preload: distributed takes one name for a list of one."""
    return [modules] if isinstance(modules, str) else list(modules or [])


def secret() -> Optional[str]:
    """None: the engine's own setting, which is WHERRY_SECRET or WHERRY_SECRET_FILE, or none."""
    return option("secret")


def unsent_limit() -> int:
    return int(parse_bytes(option("unsent-limit")))


def _pool_max() -> int:
    """Frames as large as Dask's come again and again: an eighth of a processor's share of the memory, within bounds."""
    return int(min(max(MEMORY_LIMIT // (8 * CPU_COUNT), 256 << 20), 1 << 30))


def _warn_of_unknown() -> None:
    """A setting that nobody reads is a slip of whoever made it."""
    names = {name.replace("_", "-") for name in dask.config.get(SECTION, None) or {}}
    for name in sorted(names - _defaults.keys()):
        logger.warning("%s.%s: there is no such setting; there are %s", SECTION, name, ", ".join(_defaults))


def _make() -> wherry.Worker:
    _warn_of_unknown()
    # They have the engine's names, with the hyphens that Dask writes; None: the engine's own default.
    settings = {name.replace("-", "_"): option(name)
                for name in ("lanes", "interface", "progress", "spin-us", "pool-max")}
    if settings["pool_max"] is None and "WHERRY_POOL_MAX" not in os.environ:
        settings["pool_max"] = _pool_max()
    return wherry.Worker(wherry.Context(
        **{name: value for name, value in settings.items() if value is not None}))


def worker() -> wherry.Worker:
    """The worker of the running loop."""
    return _here.get(_make)
