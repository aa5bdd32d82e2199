# SPDX-License-Identifier: BSD-3-Clause
"""Where UCX comes from when it is a Python package.

Wherry opens UCX at run time.  The packages ``libucx-cu12`` and ``libucx-cu13`` bring one into an
environment; it goes before the system's, because who has put it there wants it used, and because
other packages of that environment use it as well.
"""
from __future__ import annotations

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Optional


def ucx_package() -> Optional[str]:
    """The folder of an installed libucx package, or None.  Does not import it."""
    import importlib.util
    import os

    try:
        spec = importlib.util.find_spec("libucx")
    except ValueError:  # something without a spec calls itself so
        return None
    for folder in spec.submodule_search_locations or () if spec else ():
        if os.path.exists(os.path.join(folder, "lib", "libucp.so.0")):
            return folder
    return None
