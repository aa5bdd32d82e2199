#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the tests of Dask with one release of distributed: dask_env.py BUILD VERSION RUN_PY MODULE.

VERSION is one from PyPI, put with numpy into an environment below BUILD the first time; "newest", which has bokeh for
the dashboard, too; or "system", what Debian's python3-distributed has installed.  Exits 77, which means skipped, with
the reason where it cannot be had.
"""
import fcntl
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from make_venv import with_packages  # noqa: E402

SKIPPED = 77
SYSTEM = "/usr/bin/python3"
BESIDE = {"newest": ["bokeh"]}


def imports(python, *modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True,
                          env=dict(os.environ)).returncode == 0


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def system():
    for python in (sys.executable, SYSTEM):
        if os.path.exists(python) and imports(python, "distributed", "numpy", "wherry"):
            return python
    skip("no interpreter here has distributed and is of the release that the package was built for")


def environment(build, version):
    home = build / f"dask-{version}"
    python = home / "bin" / "python"
    beside = ["numpy", *BESIDE.get(version, [])]
    exact = "" if version == "newest" else f"=={version}"
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first of several tests makes it, the others wait
        if python.exists() and imports(python, "distributed", "wherry", *beside):
            return python
        try:
            return with_packages(home, [f"distributed{exact}", f"dask{exact}", *beside], capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            skip("no environment with distributed: " + (error.stderr.strip().splitlines() or ["?"])[-1])


def main():
    build, version, run_py, module = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    python = system() if version == "system" else environment(build, version)
    print(subprocess.run([python, "-c", "import distributed as d; print('distributed', d.__version__)"],
                         capture_output=True, text=True).stdout.strip(), flush=True)
    os.execv(python, [python, "-W", "ignore", run_py, module])


if __name__ == "__main__":
    main()
