# SPDX-License-Identifier: BSD-3-Clause
"""What a topology is: NUMA nodes, GPUs, network devices, and the relation between two devices.

Nothing here is changed once it is made.  The words of a relation are those of ``nvidia-smi topo -m``.
"""
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

# From near to far.  Between two GPUs that NVLink joins the word is NV and the number of links instead.
WORDS: Dict[str, str] = {
    "X": "the device itself",
    "PIX": "at most one PCIe switch between them",
    "PXB": "several PCIe switches, but no host bridge",
    "PHB": "one PCIe host bridge, which is commonly the processor's",
    "NODE": "two host bridges of one NUMA node",
    "SYS": "the interconnect between NUMA nodes",
}
_FAR: List[str] = list(WORDS)


@dataclass(frozen=True)
class NumaNode:
    """Memory and the processors next to it; one without processors is memory alone."""

    index: int
    cpus: Tuple[int, ...]
    memory: Optional[int] = None  # bytes


@dataclass(frozen=True)
class Device:
    """A PCI device: ``path`` names the host bridge and the bridges from there down to it."""

    name: str
    pci: str  # 0000:06:00.0
    path: Tuple[str, ...] = ()
    numa: Optional[int] = None  # None: the machine does not say
    cpus: Tuple[int, ...] = ()  # the nearest; none: the machine does not say


@dataclass(frozen=True)
class Gpu(Device):
    """A GPU of NVIDIA's.  ``index`` counts them by PCI address, as ``nvidia-smi`` does."""

    index: int = 0
    model: Optional[str] = None
    uuid: Optional[str] = None


@dataclass(frozen=True)
class Nic(Device):
    """A network device that the kernel has a name for."""

    netdev: Optional[str] = None
    ibdev: Optional[str] = None


@dataclass(frozen=True)
class Topology:
    """A machine.  ``links``: the number of NVLinks by the PCI addresses of both GPUs."""

    source: str
    nodes: Tuple[NumaNode, ...]
    gpus: Tuple[Gpu, ...] = ()
    nics: Tuple[Nic, ...] = ()
    links: Mapping[FrozenSet[str], int] = field(default_factory=dict)

    @property
    def devices(self) -> Tuple[Device, ...]:
        """GPUs, then network devices."""
        return (*self.gpus, *self.nics)

    def relation(self, one: Device, other: Device) -> str:
        """X, NV and a number, PIX, PXB, PHB, NODE or SYS."""
        if one.pci == other.pci:
            return "X"
        links = self.links.get(frozenset((one.pci, other.pci)), 0)
        return f"NV{links}" if links else self._over_pci(one, other)

    def _over_pci(self, one: Device, other: Device) -> str:
        common = _common(one.path, other.path)
        if common == 0:
            same = one.numa is not None and one.numa == other.numa
            return "NODE" if same else "SYS"
        if common == 1:
            return "PHB"
        # Below the switch that they share, each has one port of it, or none where they are one card.
        below = max(len(one.path), len(other.path)) - common
        return "PIX" if below <= 1 else "PXB"

    def nearest(self, device: Device, among: Sequence[Nic]) -> List[Nic]:
        """Those that no other of them is nearer to the device than, over PCI."""
        far = [_FAR.index(self._over_pci(device, nic)) for nic in among]
        return [nic for nic, steps in zip(among, far) if steps == min(far)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of leading items that are equal."""
    count = 0
    for left, right in zip(one, other):
        if left != right:
            break
        count += 1
    return count


def cpu_list(cpus: Iterable[int]) -> str:
    """As the kernel writes it: 0-3,8."""
    runs: List[List[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_cpu_list(text: str) -> Tuple[int, ...]:
    """The opposite of cpu_list.  Raises ValueError for what is none."""
    cpus: List[int] = []
    for run in text.strip().split(",") if text.strip() else []:
        low, _, high = run.partition("-")
        first, last = int(low), int(high or low)
        if not 0 <= first <= last < CPU_LIMIT:
            raise ValueError(f"'{run}' is no range of processors")
        cpus.extend(range(first, last + 1))
    return tuple(cpus)


CPU_LIMIT = 1 << 16  # more processors than a kernel can be built for; bounds what a broken file costs


def normal_pci(address: str) -> str:
    """0000:06:00.0 for any way to write it; NVML writes eight digits of the domain."""
    domain, rest = address.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"
