#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run a test program over two UCX, which may be of different releases.

    ucx_pair.py BUILD UCX,UCX PROGRAM [ARGUMENT...]

Each UCX is "system" or "wheel" (the newest libucx-cu12, fetched into BUILD the first time); the first is that of
the program's role 0.  The program, a Python one too, gets `--ucx DIR,DIR`.  Without a network the test is skipped.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ucx_wheel  # noqa: E402

SKIPPED = 77


def main():
    build, pair, program, *arguments = sys.argv[1:]
    try:
        folders = ["" if name == "system" else str(ucx_wheel.fetch(build))
                   for name in pair.split(",")]
    except OSError as error:
        print(f"skipped: {error}")
        return SKIPPED
    sys.stdout.flush()
    words = [sys.executable, program] if program.endswith(".py") else [program]
    return os.execv(words[0], [*words, "--ucx", ",".join(folders), *arguments])


if __name__ == "__main__":
    sys.exit(main())
