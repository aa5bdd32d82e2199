# SPDX-License-Identifier: BSD-3-Clause
"""What ``distributed.comm.wherry`` says, and the worker that follows it: one per thread and running event loop."""
import logging
import os
import pathlib
from typing import Any, Callable, Dict, List, Optional, Union

import dask.config
import wherry
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT
from wherry._default import per_thread
from wherry.topology._model import cpu_list, parse_cpu_list

SECTION = "distributed.comm.wherry"
logger = logging.getLogger(__name__)

with open(pathlib.Path(__file__).with_name("wherry.yaml")) as file:
    _shipped = yaml.safe_load(file)
dask.config.update_defaults(_shipped)
_defaults: Dict[str, Any] = _shipped["distributed"]["comm"]["wherry"]

_here = per_thread()


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"a {type(value).__name__}, where a text is wanted, in quotes if it reads like another thing")
    return str(value)


def _texts(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)


def _cpus(value: Any) -> str:
    return cpu_list(parse_cpu_list(_texts(value)))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or int(value) < 0:
        raise ValueError("a number from 0 on is wanted")
    return int(value)


def _bytes(value: Any) -> int:
    return _number(parse_bytes(value) if isinstance(value, str) else value)


def _size(value: Any) -> Union[str, int]:
    return value if isinstance(value, str) else _number(value)  # a text is the engine's to read


# What makes each setting one of its type.  Of a variable DASK_... Dask reads 0 as a number and 0,1 as a tuple.
_FORMS: Dict[str, Callable[[Any], Any]] = {
    "lanes": _texts, "interface": _text, "progress": _text, "spin-us": _number, "pool-max": _size,
    "secret": _text, "unsent-limit": _bytes, "cpus": _cpus,
}


def option(name: str) -> Any:
    """A setting as what it is to be.  Raises ValueError, which names it, where it cannot be that."""
    # Who empties the configuration, as distributed does around its tests, takes the defaults away, too.
    value = dask.config.get(f"{SECTION}.{name}", _defaults[name])
    if value is None:
        value = _defaults[name]
    try:
        return None if value is None else _FORMS[name](value)
    except (ValueError, OverflowError) as error:
        shown = "" if name == "secret" else f" {value!r}:"
        raise ValueError(f"{SECTION}.{name}:{shown} {error}") from None


def module_names(modules: Any) -> List[str]:
    """Of a setting of modules to preload: distributed takes one name for a list of one."""
    return [modules] if isinstance(modules, str) else list(modules or [])


def secret() -> Optional[str]:
    """None: the engine's own setting, which is WHERRY_SECRET or WHERRY_SECRET_FILE, or none."""
    text: Optional[str] = option("secret")
    return text


def unsent_limit() -> int:
    return int(option("unsent-limit"))


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
    found = {name: option(name) for name in _defaults}  # all, so that a slip in any of them is told now
    # They have the engine's names, with the hyphens that Dask writes; None: the engine's own default.
    settings = {name.replace("-", "_"): found[name]
                for name in ("lanes", "interface", "progress", "spin-us", "pool-max")}
    if settings["pool_max"] is None and "WHERRY_POOL_MAX" not in os.environ:
        settings["pool_max"] = _pool_max()
    return wherry.Worker(wherry.Context(
        **{name: value for name, value in settings.items() if value is not None}))


def worker() -> wherry.Worker:
    """The worker of the running loop."""
    return _here.get(_make)
