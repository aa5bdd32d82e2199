# SPDX-License-Identifier: BSD-3-Clause
"""Refuses subinterpreters, when it is imported: before the extension module, which serves one
interpreter only.  That one alone would take the first that comes, also when that is a
subinterpreter, and refuse the main one from then on.
"""
import importlib


def in_subinterpreter() -> bool:
    """Whether this is one.  Where Python cannot make any that it knows of: no."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from 3.13 on, and before
        try:
            known = importlib.import_module(name)
        except ImportError:
            continue
        return bool(known.get_current() != known.get_main())
    return False


if in_subinterpreter():
    raise ImportError("wherry cannot be imported in a subinterpreter; use it in the main one, or "
                      "in another process")
