# SPDX-License-Identifier: BSD-3-Clause
"""python -m wherry_mpi PROGRAM [WORD]...: one of the programs of the package, or what it prints where they lie."""
import sys

from wherry_mpi import get_bin_dir, get_include, get_library_dir
from wherry_mpi.programs import NAMES, become

FOLDERS = {"--bin": get_bin_dir, "--include": get_include, "--lib": get_library_dir}


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in FOLDERS:
        print(FOLDERS[word]())
    elif word in NAMES:
        become(word, sys.argv[2:])
    else:
        print(f"usage: python -m wherry_mpi {' | '.join(NAMES)} [WORD]...\n"
              f"       python -m wherry_mpi {' | '.join(FOLDERS)}    prints a folder", file=sys.stderr)
        sys.exit(0 if word in ("-h", "--help") else 2)


if __name__ == "__main__":
    main()
