# SPDX-License-Identifier: BSD-3-Clause
"""A topology as text and as JSON."""
import json
from dataclasses import asdict
from typing import Any, Dict, List, Sequence

from wherry.topology._model import WORDS, Gpu, Nic, Topology, cpu_list

UNKNOWN = "-"


def matrix(topology: Topology) -> str:
    """The table that ``nvidia-smi topo -m`` prints, then the NUMA nodes and the devices; ends a line."""
    parts = [_nodes(topology)]
    if topology.devices:
        parts = [_relations(topology), *parts, _devices(topology), _legend(topology)]
    return "\n".join(parts)


def as_json(topology: Topology) -> str:
    """Everything that is known, as one JSON object."""
    devices = topology.devices
    links = [[*sorted(pair), count] for pair, count in topology.links.items()]
    value: Dict[str, Any] = {
        "source": topology.source,
        "nodes": [asdict(node) for node in topology.nodes],
        "gpus": [asdict(gpu) for gpu in topology.gpus],
        "nics": [asdict(nic) for nic in topology.nics],
        "links": sorted(links),
        "matrix": {one.name: {other.name: topology.relation(one, other) for other in devices}
                   for one in devices},
    }
    return json.dumps(value, indent=2)


def _relations(topology: Topology) -> str:
    devices = topology.devices
    rows = [["", *(device.name for device in devices), "CPU affinity", "NUMA"]]
    for one in devices:
        numa = UNKNOWN if one.numa is None else str(one.numa)
        rows.append([one.name, *(topology.relation(one, other) for other in devices),
                     cpu_list(one.cpus) or UNKNOWN, numa])
    return _table(rows)


def _nodes(topology: Topology) -> str:
    rows = [["NUMA", "CPUs", "memory", "devices"]]
    for node in topology.nodes:
        memory = UNKNOWN if node.memory is None else f"{node.memory / 2**30:.1f} GiB"
        names = [device.name for device in topology.devices if device.numa == node.index]
        rows.append([str(node.index), cpu_list(node.cpus) or UNKNOWN, memory,
                     " ".join(names) or UNKNOWN])
    return _table(rows)


def _devices(topology: Topology) -> str:
    rows = [["device", "PCI", "what"]]
    for device in topology.devices:
        what = []
        if isinstance(device, Gpu):
            what = [device.model, device.uuid]
        elif isinstance(device, Nic):
            what = [device.netdev]
        rows.append([device.name, device.pci, " ".join(word for word in what if word) or UNKNOWN])
    return _table(rows)


def _legend(topology: Topology) -> str:
    devices = topology.devices
    used = {topology.relation(one, other) for one in devices for other in devices}
    rows = [[word, meaning] for word, meaning in WORDS.items() if word in used]
    if any(word.startswith("NV") for word in used):
        rows.append(["NV#", "that many NVLinks"])
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines: List[str] = []
    for row in rows:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return "\n".join(lines) + "\n"
