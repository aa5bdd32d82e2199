#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench-types: Wherry's datatype engine beside MPICH, Open MPI, a C loop and the memory's limit.

    bench/types/run.py --build build [--only TEXT] [--quick] [--cold] [--segments] [--unpack]
                       [--threads N] [--json FILE] [--plot FILE.svg] [--no-peers]
    bench/types/run.py --build build --all    (hot with segments, cold, unpack, calls: what `make
                       bench-types` does; .json and .svg of each in BUILD/bench-types)

MPICH and Open MPI come from PyPI, each into a virtual environment of its own below the build folder
(made once), or else from the distribution's mpicc.  What cannot be had is left out and said.  All
engines run in one process, in turn.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "peers"))
import make as peers  # noqa: E402, beside this folder
ROOT = os.path.dirname(os.path.dirname(HERE))
PEERS = peers.NAMES
LIMITS = ("st", "st+pf", "nt", "nt+pf")


def peer_plugin(name, folder):
    """Compiles the plug-in against an MPI, installed if need be; None when neither is possible."""
    home = os.path.join(folder, name)
    plugin = os.path.join(folder, f"engine_{name}.so")
    if peers.install(name, home):
        compiler, libraries = [os.environ.get("CC", "cc")], peers.compile_options(home)
    elif shutil.which(f"mpicc.{name}"):
        print(f"bench-types: taking the distribution's {name}", file=sys.stderr)
        compiler, libraries = [f"mpicc.{name}"], []
    else:
        print(f"bench-types: {name} cannot be had, so it is left out", file=sys.stderr)
        return None
    compile_it = [
        *compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", f'-DBENCH_ENGINE_NAME="{name}"',
        f"-I{ROOT}", os.path.join(HERE, "engine_mpi.c"), "-o", plugin, *libraries,
    ]
    if subprocess.run(compile_it).returncode != 0:
        print(f"bench-types: {name} does not compile, so it is left out", file=sys.stderr)
        return None
    return plugin


def measure(program, arguments, plugins):
    environment = dict(os.environ)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"):
        environment[name] = environment[name + "_CONFIRM"] = "1"
    rows = []
    with subprocess.Popen([program, *arguments, *plugins], stdout=subprocess.PIPE, text=True,
                          env=environment) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                continue  # an MPI may talk on its way up
            row = judge(json.loads(line))
            rows.append(row)
            print_row(row)
    return rows, process.returncode


def judge(row):
    """Adds the best peer, the limit, and the two ratios."""
    peers = {name: row[name] for name in (*PEERS, "loop") if name in row}
    limits = [row[name] for name in LIMITS if name in row]
    if peers:
        row["vs_peer"] = row["wherry"] / max(peers.values())
    if limits:
        row["limit"] = max(limits)
        row["vs_limit"] = row["wherry"] / row["limit"]
    for segment in ("seg8K", "seg64K"):
        if segment in row:
            row[segment + "_vs_whole"] = row[segment] / row["wherry"]
    return row


COLUMNS = ("wherry", "mpich", "openmpi", "loop", "limit", "memcpy")
RATIOS = ("vs_peer", "vs_limit", "seg8K_vs_whole", "seg64K_vs_whole")


def mark(row, name):
    """The ratio that a layout is meant to reach."""
    simple = row["layout"].startswith(("a.", "b.", "f.interior"))
    return 0.9 if name == "vs_peer" or (name == "vs_limit" and simple) else 0.8


def print_head():
    print(f"{'GB/s':22}{'amp':>5}" + "".join(f"{name:>9}" for name in COLUMNS)
          + "".join(f"{name:>17}" for name in RATIOS))


def print_row(row):
    text = f"{row['layout']:22}{row['amp']:5.1f}"
    for name in COLUMNS:
        text += f"{row[name]:9.4g}" if name in row else f"{'-':>9}"
    for name in RATIOS:
        if name in row:
            text += f"{row[name]:16.2f}{'*' if row[name] < mark(row, name) else ' '}"
    print(text, flush=True)


def plot(rows, path):
    """Horizontal bars on a logarithmic scale, one group per layout; plain SVG."""
    import math
    names = [name for name in COLUMNS if any(name in row for row in rows)]
    colours = dict(zip(COLUMNS, ("#1b6ca8", "#d1495b", "#edae49", "#66a182", "#888888", "#cccccc")))
    bar, left, width = 5, 160, 600
    top = max(row[name] for row in rows for name in names if name in row)
    low = min(row[name] for row in rows for name in names if name in row)
    scale = width / math.log(top / low * 2)
    group = bar * len(names) + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" '
           f'height="{group * len(rows) + 30}" font-family="sans-serif" font-size="10">']
    for i, name in enumerate(names):
        out.append(f'<text x="{left + 90 * i}" y="12" fill="{colours[name]}">{name}</text>')
    for i, row in enumerate(rows):
        y = 20 + group * i
        out.append(f'<text x="4" y="{y + group / 2}">{row["layout"]}</text>')
        for k, name in enumerate(names):
            if name in row:
                length = scale * math.log(row[name] / low * 2)
                out.append(f'<rect x="{left}" y="{y + bar * k}" width="{length:.1f}" '
                           f'height="{bar}" fill="{colours[name]}"/>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n</svg>\n")


def report_calls(program):
    """What single calls cost, from the program beside bench-types."""
    print("\n== calls")
    calls = subprocess.run([os.path.join(os.path.dirname(program), "bench-type-calls")],
                           stdout=subprocess.PIPE, text=True)
    for line in calls.stdout.splitlines():
        row = json.loads(line)
        print(f"{row['call']:32}{row['ns']:8.2f} ns{'*' if row['ns'] > row['mark'] else ' '}")
    return calls.returncode


def report(program, arguments, plugins, json_path, plot_path):
    """One run: its table, and what is asked for beside it."""
    print_head()
    rows, code = measure(program, arguments, plugins)
    if json_path:
        with open(json_path, "w") as file:
            json.dump(rows, file, indent=1)
    if plot_path and rows:
        plot(rows, plot_path)
    misses = [row["layout"] for row in rows
              if any(row.get(name, 1) < mark(row, name) for name in RATIOS)]
    print(f"{len(rows)} layouts, {len(misses)} with a ratio below its mark (*)")
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", default="9")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--no-peers", action="store_true")
    for flag in ("all", "cold", "segments", "unpack", "quick"):
        parser.add_argument("--" + flag, action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    program = os.path.join(build, "bench", "types", "bench-types")
    if not os.path.exists(program):
        sys.exit(f"bench-types: {program} is not there; run make build first")
    folder = os.path.join(build, "peers")
    os.makedirs(folder, exist_ok=True)
    plugins = [] if options.no_peers else [peer_plugin(name, folder) for name in PEERS]
    plugins = [plugin for plugin in plugins if plugin]
    arguments = ["--only", options.only, "--rounds", options.rounds, "--threads", options.threads]
    arguments += ["--" + flag for flag in ("cold", "segments", "unpack", "quick")
                  if getattr(options, flag)]
    if not options.all:
        return report(program, arguments, plugins, options.json, options.plot)
    results = os.path.join(build, "bench-types")
    os.makedirs(results, exist_ok=True)
    code = 0
    for name, flags in (("hot", ["--segments"]), ("cold", ["--cold"]), ("unpack", ["--unpack"])):
        print(f"\n== {name}")
        path = os.path.join(results, name)
        code |= report(program, arguments + flags, plugins, path + ".json", path + ".svg")
    code |= report_calls(program)
    print(f"\nJSON and plots are in {results}")
    return code


if __name__ == "__main__":
    sys.exit(main())
