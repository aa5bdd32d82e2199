# SPDX-License-Identifier: BSD-3-Clause
"""The chares' part of the demo: the heat equation in 64 blocks on two processes, three ways to pass their faces on."""
import statistics
import time

from demo_kit import BUILD, demand, expect, heading, say, start

PROGRAM = BUILD / "examples" / "jacobi3d"
PICTURE = BUILD / "demo-chares.svg"
WAYS = {
    "channel": "channels between neighbours",
    "post": "entries that name where a face goes",
    "staged": "copies into messages",
}
WORK = ["--grid", "96", "--blocks", "4", "--iterations", "50"]
ROUNDS = 3


def run(way, *options):
    process = start(BUILD / "wherry", "run", "-n", "2", PROGRAM, "--mode", way, *options)
    out, _ = expect(process, 0)
    return out.splitlines()


def tour():
    heading("the heat equation in 4 x 4 x 4 blocks, chares on two processes")
    seconds = {way: [] for way in WAYS}
    for way in WAYS:
        lines = run(way, "--grid", "32", "--blocks", "4", "--iterations", "20", "--check")
        demand(lines[-1] == "equal to a serial run", f"{way}: {lines[-1]}")
    say("a small grid: all three are equal to a serial run")
    last = set()
    for _ in range(ROUNDS):
        for way, took in seconds.items():
            begin = time.monotonic()
            last.add(run(way, *WORK)[-2])  # before the time of all iterations
            took.append(time.monotonic() - begin)
    demand(len(last) == 1, f"the ways end with different residuals: {last}")
    say(f"96 x 96 x 96 cells: {last.pop()}")
    run("channel", *WORK, "--picture", PICTURE)
    demand(PICTURE.read_text().endswith("</svg>\n"), f"{PICTURE} is not whole")
    say(f"the residual and a slice: {PICTURE}")
    for way, name in WAYS.items():
        say(f"   {name:38}{statistics.median(seconds[way]):6.2f} s")
