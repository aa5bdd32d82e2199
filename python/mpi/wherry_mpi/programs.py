# SPDX-License-Identifier: BSD-3-Clause
"""The programs of the package as functions; wherry-mpi-names installs them as commands of the environment."""
import functools
import os
import sys
from typing import NoReturn, Optional

from wherry_mpi import get_bin_dir

NAMES = ("mpicc", "mpicxx", "mpic++", "mpicc_abi", "mpicxx_abi", "mpiexec", "mpirun")
FAILED = 1


def become(name: str, words: Optional[list[str]] = None) -> NoReturn:
    """Is the program from now on; does not return."""
    program = os.path.join(get_bin_dir(), name)
    try:
        os.execv(program, [program, *(sys.argv[1:] if words is None else words)])
    except OSError as error:
        print(f"{name}: {program} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(FAILED)


mpicc, mpicxx, mpicplusplus, mpicc_abi, mpicxx_abi, mpiexec, mpirun = (functools.partial(become, name) for name in NAMES)
