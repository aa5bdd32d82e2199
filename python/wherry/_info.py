# SPDX-License-Identifier: BSD-3-Clause
"""What this installation is and has."""
import platform
from typing import Any, Dict, Optional

from wherry import _core


def info(context: Optional[_core.Context] = None) -> Dict[str, Any]:
    """What Wherry is and has here, of `context` or of a new one.

    Keys: ``version`` of the engine; ``python``, the interpreter's; ``lanes``, name -> (whether it is
    used, why or why not: that of ``ucx`` names the UCX that was found and its file); ``settings``
    that are not at their default, name -> (value, where it comes from).
    Raises InvalidError when the environment holds a setting that is not valid.
    """
    context = context or _core.Context()
    return {
        "version": _core.version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lanes": context.lanes,
        "settings": {key: setting for key, setting in context.config.items()
                     if setting[1] != "default"},
    }
