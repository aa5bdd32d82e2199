# SPDX-License-Identifier: BSD-3-Clause
"""Where the files of Wherry's MPI lie.  Its programs: ``python -m wherry_mpi mpicc ...``; ``wherry mpiexec`` starts jobs."""
import os

_HERE = os.path.dirname(os.path.abspath(__file__))


def get_bin_dir() -> str:
    """The folder of mpicc, mpicxx and mpiexec, for the PATH."""
    return os.path.join(_HERE, "bin")


def get_include() -> str:
    """The folder of mpi.h."""
    return os.path.join(_HERE, "include")


def get_library_dir() -> str:
    """The folder of libmpi_abi.so.1."""
    return os.path.join(_HERE, "lib")
