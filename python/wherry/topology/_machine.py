# SPDX-License-Identifier: BSD-3-Clause
"""Reads the machine: /sys, what NVIDIA's driver says in /proc, and NVML.

All paths are below a root folder, so that a test can be given another machine's.
"""
import os
import pathlib
import re
from dataclasses import replace
from typing import Dict, List, Optional, Tuple, Union

from wherry.topology import _nvml
from wherry.topology._model import Gpu, Nic, NumaNode, Topology, parse_cpu_list

NVIDIA = "10de"
GPU_CLASSES = ("0300", "0302")  # with a display and without
NETWORK_CLASS = "02"


def from_machine(root: Union[str, "os.PathLike[str]"] = "/") -> Topology:
    """The machine whose root folder this is.  NVML is asked about "/" only.

    GPUs that this process may not use, in a container for example, are left out.
    """
    reader = _Reader(pathlib.Path(root))
    found = reader.topology()
    return _with_nvml(found) if reader.root == pathlib.Path("/") else found


def _with_nvml(found: Topology) -> Topology:
    """NVML knows best which GPUs are there; without it the topology stays as it is."""
    told = _nvml.read()
    if told is None:
        return found
    seen = [gpu for gpu in found.gpus if gpu.pci in told.gpus]
    gpus = [replace(gpu, index=i, name=f"GPU{i}", model=told.gpus[gpu.pci][0],
                    uuid=told.gpus[gpu.pci][1]) for i, gpu in enumerate(seen)]
    return replace(found, source=found.source + ", NVML", gpus=tuple(gpus), links=told.links)


class _Reader:
    """One reading of one root folder."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.nodes = self._nodes()

    def topology(self) -> Topology:
        gpus: List[Gpu] = []
        nics: List[Nic] = []
        folder = self.root / "sys/bus/pci/devices"
        for device in sorted(folder.iterdir()) if folder.is_dir() else []:
            kind = _text(device / "class")[2:6]
            if kind in GPU_CLASSES and _text(device / "vendor")[2:] == NVIDIA:
                gpu = self._gpu(device, len(gpus))
                gpus += [gpu] if gpu else []
            elif kind.startswith(NETWORK_CLASS):
                nic = self._nic(device)
                nics += [nic] if nic else []
        return Topology("sysfs", self.nodes, tuple(gpus), tuple(nics))

    def _nodes(self) -> Tuple[NumaNode, ...]:
        nodes = []
        for folder in (self.root / "sys/devices/system/node").glob("node[0-9]*"):
            memory = re.search(r"MemTotal:\s*(\d+) kB", _text(folder / "meminfo"))
            nodes.append(NumaNode(int(folder.name[4:]), parse_cpu_list(_text(folder / "cpulist")),
                                  int(memory[1]) * 1024 if memory else None))
        if not nodes:  # a kernel without NUMA
            online = parse_cpu_list(_text(self.root / "sys/devices/system/cpu/online"))
            nodes = [NumaNode(0, online or tuple(sorted(os.sched_getaffinity(0))))]
        return tuple(sorted(nodes, key=lambda node: node.index))

    def _gpu(self, device: pathlib.Path, index: int) -> Optional[Gpu]:
        """None: the driver has it, but its file is not here, so that this process may not use it."""
        told = self._driver(device.name)
        minor = told.get("Device Minor")
        if minor is not None and not (self.root / f"dev/nvidia{minor}").exists():
            return None
        path, numa, cpus = self._where(device)
        return Gpu(f"GPU{index}", device.name, path, numa, cpus, index, told.get("Model"),
                   told.get("GPU UUID"))

    def _driver(self, pci: str) -> Dict[str, str]:
        text = _text(self.root / "proc/driver/nvidia/gpus" / pci / "information")
        pairs = (line.partition(":") for line in text.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _nic(self, device: pathlib.Path) -> Optional[Nic]:
        """None: the kernel has no name for it, since its driver is missing or in another process."""
        netdev = _first(device, "net")
        ibdev = _first(device, "infiniband")
        name = ibdev or netdev
        if name is None:
            return None
        path, numa, cpus = self._where(device)
        return Nic(name, device.name, path, numa, cpus, netdev, ibdev)

    def _where(self, device: pathlib.Path) -> Tuple[Tuple[str, ...], Optional[int], Tuple[int, ...]]:
        """The bridges above it, its NUMA node, and the processors next to it."""
        parts = list(device.resolve().parts[:-1])
        roots = [i for i, part in enumerate(parts) if part.startswith("pci")]
        path = tuple(parts[roots[0]:]) if roots else ()
        number = int(_text(device / "numa_node") or -1)
        if number < 0 and len(self.nodes) == 1:
            number = self.nodes[0].index
        cpus = parse_cpu_list(_text(device / "local_cpulist"))
        return path, number if number >= 0 else None, cpus


def _text(path: pathlib.Path) -> str:
    """What stands in a file; "" where there is none, or it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _first(device: pathlib.Path, kind: str) -> Optional[str]:
    """The first name of a kind; virtio's stand one folder lower."""
    for pattern in (f"{kind}/*", f"virtio*/{kind}/*"):
        names = sorted(entry.name for entry in device.glob(pattern))
        if names:
            return names[0]
    return None
