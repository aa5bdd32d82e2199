# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the demo's Dask part: demo_dask_plot.py FILE, with {name: {task: seconds}} as JSON from stdin."""
import json
import sys

from matplotlib.figure import Figure


def main():
    took = json.load(sys.stdin)
    tasks = list(next(iter(took.values())))
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(took)
    for i, (name, seconds) in enumerate(took.items()):
        at = [place + i * width for place in range(len(tasks))]
        axes.bar_label(axes.bar(at, list(seconds.values()), width, label=name), fmt="%.2f", fontsize=8)
    axes.set_xticks([place + width * (len(took) - 1) / 2 for place in range(len(tasks))], tasks)
    axes.set_ylabel("seconds, less is better")
    axes.legend()
    figure.savefig(sys.argv[1])


if __name__ == "__main__":
    main()
