#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run examples/jacobi3d: jacobi3d_test.py WHERRY JACOBI3D MODE MEMORY [FOLDER OF THE DRIVER]

Its cells are those of a serial run, and its picture has a point for each iteration and a cell for
each of the slice, which is hot where the border is and cold at the other end.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

GRID, ITERATIONS = 24, 20


def check(picture):
    shapes = list(xml.etree.ElementTree.parse(picture).iter())
    [curve] = [shape for shape in shapes if shape.tag.endswith("polyline")]
    heights = [float(point.split(",")[1]) for point in curve.get("points").split()]
    assert len(heights) == ITERATIONS and heights == sorted(heights), heights
    cells = [shape.get("fill") for shape in shapes if shape.get("fill", "").startswith("rgb")]
    assert len(cells) == GRID * GRID, len(cells)
    hot, cold = cells[:GRID], cells[-GRID:]
    assert all(int(cell.split(",")[1]) < 128 for cell in hot[1:-1]), hot
    assert all(cell == "rgb(255,255,255)" for cell in cold), cold


def main():
    wherry, jacobi3d, mode, memory, *driver = sys.argv[1:]
    environment = {**os.environ, **({"LD_LIBRARY_PATH": driver[0]} if driver else {})}
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder) / "jacobi3d.svg"
        command = [wherry, "run", "-n", "2", jacobi3d, "--mode", mode, "--memory", memory,
                   "--grid", str(GRID), "--iterations", str(ITERATIONS), "--check", "--picture", picture]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, env=environment)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert done.stdout.endswith("\nequal to a serial run\n"), done.stdout
        check(picture)


if __name__ == "__main__":
    main()
