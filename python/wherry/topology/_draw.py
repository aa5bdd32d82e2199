# SPDX-License-Identifier: BSD-3-Clause
"""A topology as a picture: a box per NUMA node, in it one per PCIe switch, in that the devices.

NVLinks are arcs below, with the number of links.  All sizes are in pixels of the SVG.
"""
import os
from typing import Dict, List, Optional, Tuple, Union
from xml.sax.saxutils import escape

from wherry.topology._model import Device, Gpu, Nic, NumaNode, Topology, cpu_list

BOX, GAP, HIGH = 96, 12, 46  # a device's width, the space around everything, a device's height
HEAD = 44  # two lines of text, above what is in a node
LINE = 22  # one, above what is in a switch
COLOURS = {"node": "#eef2f7", "switch": "#d8e0ea", "gpu": "#cfe8cf", "nic": "#f5e1c4"}
STYLE = ("text{font:12px sans-serif;fill:#222} .small{font-size:10px;fill:#555} "
         "rect{stroke:#8a97a8} path{fill:none;stroke:#3c8d40;opacity:.7}")


def draw(topology: Topology, path: Union[str, "os.PathLike[str]"]) -> None:
    """Writes an SVG file.  Raises OSError where it cannot be written."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(_Picture(topology).svg())


class _Picture:
    """Lays out from left to right; `middles` knows where a device's box is, for the NVLinks."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.parts: List[str] = []
        self.middles: Dict[str, int] = {}
        self.under = GAP + HEAD + GAP + LINE + HIGH  # the devices
        self.bottom = self.under + 2 * GAP  # of the nodes

    def svg(self) -> str:
        x = GAP
        for node in self.topology.nodes:
            here = [device for device in self.topology.devices if device.numa == node.index]
            x = self._node(x, node, here) + GAP
        lost = [device for device in self.topology.devices if device.numa is None]
        if lost:
            x = self._node(x, None, lost) + GAP
        high = self._links()
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{x}" height="{high}" '
                f'viewBox="0 0 {x} {high}">\n<title>{escape(self.topology.source)}</title>\n'
                f"<style>{STYLE}</style>\n" + "\n".join(self.parts) + "\n</svg>\n")

    def _node(self, x: int, node: Optional[NumaNode], devices: List[Device]) -> int:
        """Draws a node and what is in it; where it ends on the right."""
        at = len(self.parts)
        right = x + GAP
        for group in _switches(devices):
            right = self._switch(right, group) + GAP
        right = max(right, x + 2 * BOX)
        self.parts.insert(at, _rect(x, GAP, right - x, self.bottom - GAP, "node"))
        self._text(x + GAP, GAP + 18, f"NUMA node {node.index}" if node else "NUMA node not known")
        if node:
            memory = f", {node.memory / 2**30:.0f} GiB" if node.memory else ""
            self._text(x + GAP, GAP + 34, f"CPUs {cpu_list(node.cpus) or 'none'}{memory}", "small")
        return right

    def _switch(self, x: int, devices: List[Device]) -> int:
        top = GAP + HEAD
        right = x + GAP + len(devices) * (BOX + GAP)
        self.parts.append(_rect(x, top, right - x, self.bottom - GAP - top, "switch"))
        label = "PCIe switch" if len(devices[0].path) > 2 and len(devices) > 1 else "PCIe"
        self._text(x + GAP, top + 16, label, "small")
        for i, device in enumerate(devices):
            self._device(x + GAP + i * (BOX + GAP), top + GAP + LINE, device)
        return right

    def _device(self, x: int, y: int, device: Device) -> None:
        self.middles[device.pci] = x + BOX // 2
        self.parts.append(_rect(x, y, BOX, HIGH, "gpu" if isinstance(device, Gpu) else "nic"))
        self._text(x + 8, y + 19, device.name)
        netdev = device.netdev if isinstance(device, Nic) else None
        below = device.pci if netdev in (None, device.name) else f"{netdev} {device.pci[5:]}"
        self._text(x + 8, y + 36, below, "small")

    def _links(self) -> int:
        """Draws the NVLinks; the height of the whole picture."""
        deepest = self.bottom
        for pair, count in sorted(self.topology.links.items(), key=lambda item: sorted(item[0])):
            ends = sorted(self.middles[pci] for pci in pair if pci in self.middles)
            if len(ends) == 2:
                deepest = max(deepest, self._link(ends[0], ends[1], count))
        return deepest + GAP

    def _link(self, left: int, right: int, count: int) -> int:
        """Draws an arc that is deeper the longer it is; the lowest point of its label."""
        top = self.under
        depth = 40 + (right - left) // 4
        middle = (left + right) // 2
        self.parts.append(f'<path d="M{left} {top} Q{middle} {top + 2 * depth} {right} {top}" '
                          f'stroke-width="{1 + count // 2}"/>')
        self._text(middle - 8, top + depth + 12, f"NV{count}", "small")
        return top + depth + 16

    def _text(self, x: int, y: int, text: str, style: str = "") -> None:
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text x="{x}" y="{y}"{kind}>{escape(text)}</text>')


def _switches(devices: List[Device]) -> List[List[Device]]:
    """The devices in groups, one per switch: below that each has a port, and below a host bridge none."""
    groups: Dict[Tuple[str, ...], List[Device]] = {}
    for device in devices:
        path = device.path
        groups.setdefault(path[:-1] if len(path) > 2 else path, []).append(device)
    return list(groups.values())


def _rect(x: int, y: int, width: int, height: int, kind: str) -> str:
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
            f'fill="{COLOURS[kind]}"/>')
