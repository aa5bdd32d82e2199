# SPDX-License-Identifier: BSD-3-Clause
"""The ratios of collectives as a plot: a panel for each, a line for each number of ranks; plain SVG."""
import math

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#444444")
WIDTH, HEIGHT, LEFT, TOP, ACROSS = 250, 190, 44, 56, 3
LOW, HIGH = 1 / 8, 4  # what is beyond stands at the edge
TICKS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)


def parts_of(rows):
    """{part: {ranks: [(size, ratio), ...]}} of ours."""
    parts = {}
    for row in rows:
        part, _, ranks = row["part"].partition(", ")
        if row["ratios"] and ranks:
            size = int(row["what"].split()[0])
            parts.setdefault(part, {}).setdefault(ranks, []).append((size, row["ratios"][0]["ratio"]))
    return {part: {ranks: sorted(points) for ranks, points in lines.items()} for part, lines in parts.items()}


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def text(x, y, what, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{what}</text>'


class Panel:
    def __init__(self, index, part, lines):
        self.part, self.lines = part, lines
        self.left = LEFT + index % ACROSS * (WIDTH + LEFT)
        self.top = TOP + index // ACROSS * (HEIGHT + TOP)
        self.sizes = sorted({size for points in lines.values() for size, _ in points})

    def x(self, size):
        return self.left + WIDTH * (self.sizes.index(size) + 0.5) / len(self.sizes)

    def y(self, ratio):
        within = min(max(ratio, LOW), HIGH)
        return self.top + HEIGHT * math.log(HIGH / within) / math.log(HIGH / LOW)

    def axes(self):
        yield text(self.left, self.top - 6, self.part, ' font-weight="bold"')
        for tick in TICKS:
            colour = "#000" if tick == 1 else "#ddd"
            yield (f'<line x1="{self.left}" x2="{self.left + WIDTH}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}" '
                   f'stroke="{colour}"/>')
            yield text(self.left - 4, self.y(tick) + 3, f"{tick:g}", ' text-anchor="end"')
        for size in self.sizes:
            yield text(self.x(size), self.top + HEIGHT + 14, size_name(size), ' text-anchor="middle"')

    def drawn(self, colours):
        yield from self.axes()
        for ranks, points in self.lines.items():
            path = " ".join(f"{self.x(size):.1f},{self.y(ratio):.1f}" for size, ratio in points)
            yield f'<polyline points="{path}" fill="none" stroke="{colours[ranks]}" stroke-width="1.5"/>'
            for size, ratio in points:
                yield f'<circle cx="{self.x(size):.1f}" cy="{self.y(ratio):.1f}" r="3" fill="{colours[ranks]}"/>'


def plot(rows, cpu, path):
    """Whether there was something to draw."""
    parts = parts_of(rows)
    if not parts:
        return False
    panels = [Panel(index, part, lines) for index, (part, lines) in enumerate(parts.items())]
    names = sorted({ranks for each in panels for ranks in each.lines}, key=lambda ranks: int(ranks.split()[0]))
    colours = {ranks: COLOURS[index % len(COLOURS)] for index, ranks in enumerate(names)}
    width = LEFT + min(len(panels), ACROSS) * (WIDTH + LEFT)
    height = TOP + (len(panels) + ACROSS - 1) // ACROSS * (HEIGHT + TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="10">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(LEFT, 16, f"Time of ours to that of the better of MPICH and Open MPI (less is better); {cpu}", ' font-size="12"')]
    for index, ranks in enumerate(names):
        out.append(text(LEFT + index * 80, 32, f"&#9679; {ranks}", f' fill="{colours[ranks]}"'))
    for each in panels:
        out += each.drawn(colours)
    path.write_text("\n".join([*out, "</svg>"]) + "\n")
    return True
