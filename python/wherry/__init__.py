# SPDX-License-Identifier: BSD-3-Clause
"""Wherry: moves data of any memory and any layout between any two processes.

``listen`` and ``connect`` make endpoints; everything that takes time can be awaited, or waited for
with ``.result(timeout)``.  :mod:`wherry.types` describes and packs layouts.  Importing needs
neither numpy nor any other package.
"""
from wherry import _interpreter  # noqa: F401  # before all that needs _core
from wherry import errors, types
from wherry._core import (
    ALL,
    Context,
    DeviceMemory,
    Endpoint,
    Frame,
    Incoming,
    Listener,
    Message,
    PeerInfo,
    Probed,
    RegisteredMemory,
    RemoteMemory,
    Request,
    Worker,
    copy_memory,
    set_log_level,
)
from wherry._core import version as _version
from wherry._default import alloc, connect, listen, register, worker
from wherry._info import get_include, get_library_dir, info
from wherry.errors import *  # noqa: F403
from wherry.errors import Error, Status

__all__ = [
    "ALL", "Context", "DeviceMemory", "Endpoint", "Error", "Frame", "Incoming", "Listener",
    "Message", "PeerInfo", "Probed", "RegisteredMemory", "RemoteMemory", "Request", "Status",
    "Worker", "alloc", "connect", "copy_memory", "errors", "get_include", "get_library_dir",
    "info", "listen", "register", "set_log_level", "types", "worker",
]
__all__ += errors.__all__
__version__: str = _version()
