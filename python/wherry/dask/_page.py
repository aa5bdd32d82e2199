# SPDX-License-Identifier: BSD-3-Clause
"""The page "Wherry" of the scheduler's dashboard: bandwidth between the workers, and what their links are doing.

It draws what `_measure.read` finds, again and again while somebody looks at it.  Needs bokeh.
"""
import logging
import time
from typing import Any, Dict, List, Sequence

from bokeh.layouts import column
from bokeh.models import (
    BasicTicker, ColorBar, ColumnDataSource, DataTable, Div, HoverTool, LinearColorMapper, NumberFormatter, TableColumn,
)
from bokeh.palettes import Viridis256
from bokeh.plotting import figure
from dask.utils import format_bytes
from distributed.dashboard.components import add_periodic_callback
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from wherry.dask._measure import HOST, KINDS, Measures, read
from wherry.dask.bandwidth import Matrix, Pair

logger = logging.getLogger(__name__)

INTERVAL_MS = 1000
SHARE = 0.02  # of the scheduler's time at most, for each that looks at the page
PAUSE = 30  # seconds, after the page could not be drawn
NUMBERED = 20  # workers; with more of them there is no room for numbers in the cells
WORKERS = 100  # in the matrix, which has the square of that
LINKS = 300  # rows of the table
LABEL = 24  # characters of a worker's name at an axis
TITLES = {"host": "host memory", "cuda": "memory of GPUs", "unknown": "memory of any kind"}
CELL = ("source", "target", "rate", "number", "ink", "quartiles", "transfers", "moved", "lanes")
ROW = {"here": ("worker", 120), "peer": ("connected to", 230), "lanes": ("lanes in use", 370),
       "sent": ("bytes sent", 120), "received": ("bytes received", 120), "losses": ("losses", 60)}
NUMBERS = ("sent", "received", "losses")


def labels(names: Dict[str, str]) -> Dict[str, str]:
    """Of the addresses' names, one for each: short, printable, and no two the same."""
    made: Dict[str, str] = {}
    taken = set()
    for address, name in sorted(names.items(), key=lambda each: (len(each[1]), each[1])):  # 2 before 10
        text = "".join(each if each.isprintable() else "?" for each in name.split("://")[-1])
        text = first = text if 0 < len(text) <= LABEL else "…" + text[1 - LABEL:]
        number = 1
        while text in taken:
            number += 1
            text = f"{first} ({number})"
        taken.add(text)
        made[address] = text
    return made


class Heat:
    """The matrix of one kind of memory: rows send, columns receive."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.source = ColumnDataSource({name: [] for name in CELL})
        self.colours = LinearColorMapper(palette=Viridis256, low=0, high=1)
        self.root = figure(title=f"GB/s from worker to worker, {TITLES[kind]}", tools="",
                           x_range=["-"], y_range=["-"], height=420, sizing_mode="stretch_width",
                           x_axis_label="receives", y_axis_label="sends", visible=kind == HOST,
                           name=f"wherry-{kind}")
        self.root.toolbar_location = None
        self.root.grid.grid_line_color = None
        self.root.xaxis.major_label_orientation = 0.4
        cells = self.root.rect(x="target", y="source", width=1, height=1, source=self.source,
                               line_color="white", fill_color={"field": "rate", "transform": self.colours})
        self.root.text(x="target", y="source", text="number", text_color="ink", source=self.source,
                       text_align="center", text_baseline="middle", text_font_size="9pt")
        self.root.add_layout(ColorBar(color_mapper=self.colours, ticker=BasicTicker(), title="GB/s"), "right")
        # Names are what their owners like: a list of pairs is shown as it is, a text would be HTML.
        self.root.add_tools(HoverTool(renderers=[cells], tooltips=[
            ("from", "@source"), ("to", "@target"), ("GB/s", "@quartiles"), ("transfers", "@transfers"),
            ("bytes", "@moved"), ("lanes", "@lanes")]))

    def show(self, found: Measures, names: Dict[str, str]) -> None:
        pairs = {of: pair for of, pair in found.pairs[self.kind].items() if names.keys() >= set(of)}
        self.root.visible = self.kind == HOST or bool(pairs)
        if not self.root.visible:
            return
        _set(self.root.x_range, "factors", list(names.values()) or ["-"])
        _set(self.root.y_range, "factors", list(names.values())[::-1] or ["-"])
        high = max((pair.median for pair in pairs.values()), default=1e9) / 1e9
        _set(self.colours, "high", high or 1)
        _set(self.source, "data", self._cells(pairs, found, names, high))

    @staticmethod
    def _cells(pairs: Matrix, found: Measures, names: Dict[str, str], high: float) -> Dict[str, List[Any]]:
        rows = []
        for (source, target), pair in pairs.items():
            rate = pair.median / 1e9
            link = found.links.get((target, source))
            rows.append((names[source], names[target], rate, f"{rate:.2f}" if len(names) <= NUMBERED else "",
                         "black" if rate > 0.6 * high else "white", _quartiles(pair), pair.transfers,
                         format_bytes(pair.nbytes), link.lanes if link else ""))
        return _columns(CELL, rows)


class Page:
    """What is shown to one who looks at it."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.heats = [Heat(kind) for kind in KINDS]
        self.summary = Div(text="", sizing_mode="stretch_width")
        self.links = ColumnDataSource({name: [] for name in ROW})
        self.table = DataTable(
            source=self.links, index_position=None, height=320, sizing_mode="stretch_width", reorderable=False,
            columns=[TableColumn(field=name, title=title, width=width, **(
                {"formatter": NumberFormatter(format="0,0", text_align="right")} if name in NUMBERS else {}))
                for name, (title, width) in ROW.items()])
        self.root = column(self.summary, *(heat.root for heat in self.heats), self.table,
                           sizing_mode="stretch_width")
        self._again = 0.0

    def update(self) -> None:
        """Of the periodic callback.  What goes wrong here harms nobody else."""
        began = time.monotonic()
        if began < self._again:
            return
        try:
            self.show(read(self.scheduler))
            took = time.monotonic() - began
            self._again = began + took / SHARE
        except Exception:
            logger.debug("the page of Wherry cannot be drawn", exc_info=True)
            self._again = began + PAUSE
            self.summary.text = "This page cannot be drawn; the scheduler's log says why at level DEBUG."

    def show(self, found: Measures) -> None:
        names = labels(found.names)
        in_matrix = dict(list(names.items())[:WORKERS])
        for heat in self.heats:
            heat.show(found, in_matrix)
        known = {**names, self.scheduler.address: "scheduler"}
        # What went wrong comes first, then who moves most.
        order = sorted(found.links, key=lambda of: (
            -found.links[of].losses, -found.links[of].sent - found.links[of].received, of))
        rows = [(known.get(here, here), known.get(peer, f"{peer} (gone)"), *found.links[here, peer])
                for here, peer in order[:LINKS]]
        _set(self.links, "data", _columns(list(ROW), rows))
        _set(self.summary, "text", _summary(found))


def _summary(found: Measures) -> str:
    """Numbers only: it is HTML."""
    links = found.links.values()
    pairs = [pair for matrix in found.pairs.values() for pair in matrix.values()]
    text = (f"Workers: {len(found.names)}. Transfers of 1 MiB and more: {sum(pair.transfers for pair in pairs)}, "
            f"{format_bytes(sum(pair.nbytes for pair in pairs))}. Links: {len(links)}. "
            f"Losses: {sum(link.losses for link in links)}.")
    if len(found.names) > WORKERS:
        text += f" The matrix has {WORKERS} of the workers."
    if len(links) > LINKS:
        text += f" The table has {LINKS} of the links."
    return text


def _quartiles(pair: Pair) -> str:
    return " / ".join(f"{rate / 1e9:.2f}" for rate in (pair.low, pair.median, pair.high))


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Dict[str, List[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _set(model: Any, name: str, value: Any) -> None:
    """Only what has changed is sent to the browser."""
    if getattr(model, name) != value:
        setattr(model, name, value)


def page(scheduler: Any, extra: Dict[str, Any], doc: Any) -> None:
    """Of bokeh, for each that opens the page."""
    made = Page(scheduler)
    made.update()
    add_periodic_callback(doc, made, INTERVAL_MS)
    doc.title = "Dask: Wherry"
    doc.add_root(made.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
