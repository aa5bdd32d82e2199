# SPDX-License-Identifier: BSD-3-Clause
"""The command ``wherry`` of a wheel: becomes the program that lies in the package.

It is installed by the wheel alone; `meson install` puts the program itself into the prefix.
"""
import os
import sys
from typing import NoReturn

FAILED = 1


def main() -> NoReturn:
    """Runs with the words of the command line; does not return."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "wherry")
    if sys.argv[1:2] == ["topo"]:  # of this very package, whatever PATH leads to
        from wherry.topology.__main__ import main as topo
        sys.exit(topo(sys.argv[2:]))
    try:
        os.execv(program, ["wherry", *sys.argv[1:]])
    except OSError as error:
        print(f"wherry: {program} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(FAILED)
