#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run examples/particles with each strategy: particles_test.py WHERRY PARTICLES

Particles and momentum are those of a serial run, the load comes out more even where something moves,
and the picture has a bar for each PE before and after each balancing.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PES = 4
LINE = re.compile(r"step (\d+): pairs, max/mean ([\d.]+), balanced ([\d.]+); .*; (\d+) of 64 cells moved")


def run(wherry, particles, strategy, picture):
    command = [wherry, "run", "-n", str(PES), particles, "--told", "--check", "--every", "10",
               "--steps", "40", "--balance", strategy, "--plot", picture]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (strategy, done.stdout, done.stderr)
    assert "equal to a serial run" in done.stdout and "not equal" not in done.stdout, done.stdout
    steps = [(int(step), float(before), float(after), int(moved))
             for step, before, after, moved in LINE.findall(done.stdout)]
    assert [step for step, *_ in steps] == [10, 20, 30], done.stdout
    return steps


def check(strategy, steps):
    step, before, after, moved = steps[0]
    assert before > 2, steps  # the particles begin crowded
    if strategy == "none":
        assert moved == 0 and after == before, steps
    else:
        assert moved > 0 and after < before, steps
    if strategy == "greedy":
        assert after < 1.6, steps
    if strategy == "refine":
        assert all(after <= before for _, before, after, _ in steps), steps


def main():
    wherry, particles = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for strategy in ["none", "greedy", "refine", "distributed"]:
            picture = pathlib.Path(folder) / f"{strategy}.svg"
            steps = run(wherry, particles, strategy, str(picture))
            check(strategy, steps)
            bars = [shape for shape in xml.etree.ElementTree.parse(picture).iter()
                    if shape.tag.endswith("rect") and shape.get("fill") != "white"]
            assert len(bars) == len(steps) * 2 * PES, len(bars)
            print(strategy, steps)


if __name__ == "__main__":
    main()
