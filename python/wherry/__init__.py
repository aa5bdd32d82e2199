# SPDX-License-Identifier: BSD-3-Clause
"""Wherry: moves data of any memory and any layout.

In this version: :mod:`wherry.types`, descriptions of layouts, and packing.  Importing needs neither
numpy nor any other package.
"""
from wherry import types
from wherry._core import version as _version
from wherry.errors import Error, Status

__all__ = ["Error", "Status", "types"]
__version__: str = _version()
