# SPDX-License-Identifier: BSD-3-Clause
"""What bench-charm says of its figures: ratios, goals, tables and a plot."""
import math
import os
import pathlib
import platform
import statistics

# Part, contender, beside whom, and the goals on the ratio by what was measured; None: a ratio without a goal.
RATIOS = [
    ("latency", "entry, C", "engine: active message", {"8 B": 2.0, "65536 B": 2.0, "1048576 B": 1.1}),
    ("latency", "entry, C", "entry, charm4py's runtime, C", {"8 B": 0.6, "65536 B": 0.6, "1048576 B": 0.6}),
    ("latency", "channel, C", "engine: tagged", {"8 B": 1.3, "65536 B": 1.3, "1048576 B": 1.1}),
    ("latency", "channel, C", "mpich", {}),
    ("latency", "channel, C", "openmpi", {}),
    ("latency", "entry, Python", "entry, charm4py", {}),
    ("latency", "channel, Python", "channel, charm4py", {}),
    ("stencil", "C, post, 4^3 blocks", "C, channel, 4^3 blocks", {}),
    ("stencil", "C, staged, 4^3 blocks", "C, channel, 4^3 blocks", {}),
    *[("stencil", f"C, channel, {blocks}^3 blocks", "C, channel, 2^3 blocks", {}) for blocks in (1, 4, 8, 16)],
    ("stencil", "Python, wherry.charm", "Python, charm4py", {}),
    *[(part, ours, theirs, {}) for part in ("start", "memory")
      for ours, theirs in (("C, wherry run", "C, mpich"), ("C, wherry run", "C, openmpi"), ("Python, wherry run", "Python, charm4py"))],
]
# Goals on a figure itself.
FIGURES = {("latency", "entry, Python", "8 B"): 5.0, ("latency", "channel, Python", "8 B"): 2.0}
TITLES = {"latency": "half round trips between two processes", "stencil": "Jacobi's iteration, two processes",
          "start": "jobs from start to end; memory of a process"}


def row(part, contender, what, unit, values):
    """A figure: the median of what the runs have found."""
    return {"part": part, "contender": contender, "what": what, "unit": unit, "median": statistics.median(values), "values": values,
            "ratios": [], "goal": None}


def compare(rows):
    """Adds ratios to each row, and goals where there are some."""
    by_name = {(each["part"], each["contender"], each["what"]): each for each in rows}
    for part, contender, beside, goals in RATIOS:
        for each in rows:
            other = by_name.get((part, beside, each["what"]))
            if (each["part"], each["contender"]) == (part, contender) and other and other["median"] > 0:
                each["ratios"].append({"beside": beside, "ratio": each["median"] / other["median"],
                                       "goal": goals.get(each["what"])})
    for key, bound in FIGURES.items():
        if key in by_name:
            by_name[key]["goal"] = bound


def judged(value, bound, unit=""):
    return f" (goal {bound:g}{unit}: {'met' if value <= bound else 'MISSED'})" if bound else ""


def show(part, rows):
    """A table of one part; less is better in all of it."""
    print(f"\n== {part}: {TITLES[part]}")
    for each in rows:
        said = [f"{one['ratio']:.2f} of {one['beside']}{judged(one['ratio'], one['goal'])}" for one in each["ratios"]]
        figure = f"{each['median']:10.4g} {each['unit']}{judged(each['median'], each['goal'], ' ' + each['unit'])}"
        print(f"{each['contender']:30}{each['what']:>14}{figure}" + "".join(f"\n{'':46}{text}" for text in said), flush=True)


def machine():
    """What the figures were measured on."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "processors": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "load": os.getloadavg()[0]}


COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#66a182", "#8d6a9f", "#555555", "#a0c4e2", "#e8a5ac", "#cccccc")
BAR, LEFT, WIDTH = 12, 300, 600


def plot(rows, path):
    """A bar for each figure, on a logarithmic scale within each part and unit; plain SVG."""
    drawn = [each for each in rows if each["median"] > 0]
    groups = {}
    for each in drawn:
        groups.setdefault((each["part"], each["unit"], each["what"]), []).append(each)
    contenders = list(dict.fromkeys(each["contender"] for each in drawn))
    out, y = [], 4
    for (part, unit, what), group in groups.items():
        same = [each["median"] for each in drawn if (each["part"], each["unit"]) == (part, unit)]
        low, high = min(same) / 2, max(same)
        y += BAR + 8
        out.append(f'<text x="4" y="{y}" font-weight="bold">{part}, {what}, {unit}</text>')
        for each in group:
            y += BAR
            length = WIDTH * math.log(each["median"] / low) / math.log(high / low)
            colour = COLOURS[contenders.index(each["contender"]) % len(COLOURS)]
            out.append(f'<text x="16" y="{y}">{each["contender"]}</text><rect x="{LEFT}" y="{y - BAR + 3}" width="{length:.1f}" '
                       f'height="{BAR - 2}" fill="{colour}"/><text x="{LEFT + length + 4:.1f}" y="{y}">{each["median"]:.3g}</text>')
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{y + 12}" font-family="sans-serif" '
            'font-size="10">')
    path.write_text("\n".join([head, *out, "</svg>"]) + "\n")
