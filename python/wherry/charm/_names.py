# SPDX-License-Identifier: BSD-3-Clause
"""Classes of chares by their names, as messages name them: ``module:class``, the same on all PEs."""
from __future__ import annotations

import importlib

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Dict

classes: Dict[str, Any] = {}


def class_name(cls: Any) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(name: Any) -> Any:
    """The class of a name; imports its module, as pickle does."""
    found = classes.get(name)
    if found is None and isinstance(name, str):
        module, _, path = name.partition(":")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise TypeError(f"class {path} of module {module!r} is not known here: {error}") from None
        found = classes.get(name)
    if found is None:
        raise TypeError(f"there is no class of chares {name!r} here: define it where every process does, in a module and not in "
                        "a function or under a condition")
    return found
