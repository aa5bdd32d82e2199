#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the ucx lane's own test with a UCX that is older than the headers it was built with.

    ucx_headers.py BUILD COMPILER...

The headers are those of the newest libucx-cu12 wheel, the library is the system's: what is built on a machine with
the one must run on a machine with the other.  Skipped without a network, or without a UCX on this system.
"""
import ctypes
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import ucx_wheel  # noqa: E402

SKIPPED = 77
LANE = ROOT / "src" / "net" / "ucx"
FLAGS = ["-std=gnu11", "-O1", "-D_GNU_SOURCE", "-Wall", "-Werror", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]


def compile_test(build, compiler, include, program):
    """Link the lane, compiled anew, before the library that has it, too."""
    sources = [path for path in sorted(LANE.glob("*.c")) if path.name != "none.c"]
    kit = [ROOT / "src" / "net" / name for name in ("lane_kit.c", "lane_kit_tests.c")]
    subprocess.run([*compiler, *FLAGS, "-isystem", include, "-o", program, *sources, *kit,
                    build / "libwherry_internal.a", "-lpthread", "-lcrypto", "-ldl"], check=True)


def main():
    build, *compiler = sys.argv[1:]
    try:
        ctypes.CDLL("libucp.so.0")
        include = ucx_wheel.fetch(build) / "include"
    except OSError as error:
        print(f"skipped: {error}")
        return SKIPPED
    program = pathlib.Path(build) / "net-ucx-headers-test"
    compile_test(pathlib.Path(build), compiler, include, program)
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    # A library that is there and is not used is what this is about.
    return done.returncode or "skipped:" in done.stdout


if __name__ == "__main__":
    sys.exit(main())
