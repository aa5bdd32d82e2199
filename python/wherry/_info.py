# SPDX-License-Identifier: BSD-3-Clause
"""What this installation is and has."""
from __future__ import annotations

import os

from wherry import _core

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Dict, Optional


def info(context: Optional[_core.Context] = None) -> Dict[str, Any]:
    """What Wherry is and has here, of `context` or of a new one.

    Keys: ``version`` of the engine; ``python``, the interpreter's; ``lanes``, name -> (whether it is
    used, why or why not: that of ``ucx`` names the UCX that was found and its file); ``settings``
    that are not at their default, name -> (value, where it comes from).
    Raises InvalidError when the environment holds a setting that is not valid.
    """
    import platform

    context = context or _core.Context()
    return {
        "version": _core.version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lanes": context.lanes,
        "settings": {key: setting for key, setting in context.config.items()
                     if setting[1] != "default"},
    }


def get_include() -> str:
    """The folder of the C headers: ``#include <wherry/wherry.h>`` with ``-I`` this."""
    return os.path.realpath(os.path.join(os.path.dirname(_core.__file__), "include"))


def get_library_dir() -> str:
    """The folder of the ``libwherry.so`` that this process uses: ``-L`` this, ``-lwherry``.

    A program that is linked to it finds it at run time with ``-Wl,-rpath,`` this.  In a wheel
    ``pkgconfig/wherry.pc`` lies in it.  A module that is imported into a process with Wherry, or a
    library that it opens, gets the same engine.
    """
    return os.path.dirname(os.path.realpath(_core.library()))
