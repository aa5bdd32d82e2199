#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the folder of the newest libucx-cu12 wheel, fetched from PyPI into BUILD the first time.

    ucx_wheel.py BUILD

For the tests and the benchmark that want another UCX than the distribution's; nothing else needs it.
"""
import fcntl
import pathlib
import subprocess
import sys


def fetch(build):
    """Return the wheel's folder; the first call in a build folder installs it there."""
    home = pathlib.Path(build).resolve() / "ucx-wheel"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first of several tests fetches, the others wait
        if not (home / "done").exists():
            python = home / "venv" / "bin" / "python3"
            run(sys.executable, "-m", "venv", home / "venv")
            # Few tries: without a network whoever asked should hear of it soon.
            run(python, "-m", "pip", "install", "--no-deps", "--retries", "1", "--timeout", "20",
                "--target", home, "libucx-cu12")
            for program in home.glob("libucx/bin/*"):
                program.chmod(0o755)
            (home / "done").touch()
    return home / "libucx"


def run(*words):
    done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise OSError("the libucx-cu12 wheel cannot be fetched: "
                      + (done.stdout.strip() or "no reason given").splitlines()[-1])


if __name__ == "__main__":
    try:
        print(fetch(sys.argv[1]))
    except OSError as error:
        sys.exit(str(error))
