# SPDX-License-Identifier: BSD-3-Clause
"""Latency and bandwidth over size as a picture, by matplotlib."""
from typing import Any, Dict, List, Tuple

from wherry.perf.figures import Row

PANELS = (("latency", "latency (us), lower is better"),
          ("bandwidth", "bandwidth (GB/s), higher is better"))
MARKS = "osD^v<>*"


def series(rows: List[Row], metric: str) -> Dict[str, List[Tuple[int, float]]]:
    """Name -> points, Wherry's first.  A peer that stands beside two tests is one line."""
    found: Dict[str, Dict[int, float]] = {}
    for row in sorted(rows, key=lambda row: row.peer is not None):
        if row.metric == metric and row.test in ("async", "blocking"):
            name = row.peer if row.peer is not None else f"Wherry, {row.test}"
            found.setdefault(name, {}).setdefault(row.size, row.median)
    return {name: sorted(points.items()) for name, points in found.items()}


def size_text(size: float, _: Any = None) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size / unit:g}{name}"
    return f"{size:g}"


def draw(rows: List[Row], path: str, title: str) -> None:
    """Writes an SVG, PNG or PDF, as the name ends.  Raises ImportError without matplotlib, OSError
    when the file cannot be written."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(11, 5), layout="constrained")
    looks: Dict[str, int] = {}
    for axes, (metric, label) in zip(figure.subplots(1, 2), PANELS):
        for name, points in series(rows, metric).items():
            look = looks.setdefault(name, len(looks))
            ours = name.startswith("Wherry")
            axes.plot(*zip(*points), label=name, color=f"C{look}", marker=MARKS[look % len(MARKS)],
                      linestyle="-" if ours else "--", linewidth=2.2 if ours else 1.2)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(size_text)
        axes.set_xlabel("size (bytes)")
        axes.set_title(label)
        axes.grid(True, which="both", alpha=0.25)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title)
    figure.savefig(path)
