# SPDX-License-Identifier: BSD-3-Clause
"""Dask over Wherry beside Dask's tcp, and beside distributed-ucxx: run.py BUILD [--ucxx] [--rounds N] [--workers N] [--out FILE]

Each contender runs in turn, as often as --rounds says; the table has medians and the ratio to tcp.  The environments are made below
BUILD the first time, from PyPI; the one of --ucxx takes 463 MB of CUDA packages, and needs no GPU.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from make_venv import with_packages  # noqa: E402

PACKAGES = {"wherry": ["dask[array]", "distributed"], "ucxx": ["dask[array]", "distributed-ucxx-cu13"]}
ROUNDS_OF_TASK = "5"
PATIENCE = 600  # seconds for one program


def environment(build, name):
    """A Python with what the contender needs."""
    home = build / f"bench-dask-{name}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        print(f"fetching Dask from PyPI into {home}", file=sys.stderr)
        with_packages(home, PACKAGES[name])
        (home / "complete").touch()
    return python


def contenders(build, ucxx):
    """Name, Python, protocol, and what the environment has more."""
    ours = environment(build, "wherry")
    found = [("tcp", ours, "tcp", {}),
             ("wherry", ours, "wherry", {"PYTHONPATH": str(build / "python")})]
    if ucxx:
        theirs = environment(build, "ucxx")
        found += [("tcp of ucxx", theirs, "tcp", {}), ("distributed-ucxx", theirs, "ucxx", {})]
    return found


def run(program, contender, workers):
    name, python, protocol, more = contender
    arguments = [protocol] if program == "echo" else [protocol, str(workers), ROUNDS_OF_TASK]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run([python, "-W", "ignore", HERE / f"{program}.py", *arguments], capture_output=True,
                              text=True, timeout=PATIENCE, env={**clean, **more})
    except subprocess.TimeoutExpired:
        print(f"{program} over {name}: left out, it takes more than {PATIENCE} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{program} over {name}: left out: {done.stderr[-500:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def medians(runs):
    """By measure, of what the runs found: a number, or a pair of them."""
    def middle(values):
        return [statistics.median(each) for each in zip(*values)]
    pairs = [{key: value if isinstance(value, list) else [value] for key, value in each.items()} for each in runs]
    return {key: middle([each[key] for each in pairs]) for key in pairs[0]} if pairs else {}


def table(program, found):
    names = list(found)
    print(f"\n{program:16}" + "".join(f"{name:>26}" for name in names))
    for key in found["tcp"]:
        cells = []
        for name in names:
            values, base = found[name].get(key), found["tcp"][key]
            if not values:
                cells.append("-")
                continue
            cpu = f" cpu {values[1]:.2f}" if len(values) > 1 and values[1] else ""
            cells.append(f"{values[0]:.4g}{cpu} ({values[0] / base[0]:.2f}x)")
        print(f"{key:16}" + "".join(f"{cell:>26}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ucxx", action="store_true", help="beside distributed-ucxx, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", type=pathlib.Path, help="all figures, as JSON")
    how = parser.parse_args()
    build = how.build.resolve()
    everybody = contenders(build, how.ucxx)
    every = {}
    for program in ("echo", "tasks"):
        runs = {contender[0]: [] for contender in everybody}
        for _ in range(how.rounds):
            for contender in everybody:
                got = run(program, contender, how.workers)
                if got:
                    runs[contender[0]].append(got)
        every[program] = runs
        table(program + (", us" if program == "echo" else ", s"),
              {name: medians(got) for name, got in runs.items()})
    if how.out:
        how.out.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
