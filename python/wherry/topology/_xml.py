# SPDX-License-Identifier: BSD-3-Clause
"""Reads a file that hwloc has written: ``lstopo --of xml machine.xml``, of its versions 1 and 2.

The file may come from anywhere: what it is not becomes a ValueError that says where.  No entity is
expanded and nothing outside of the file is read; the DTD that hwloc names is not needed.
"""
import os
import pathlib
import re
import stat
import xml.etree.ElementTree as ElementTree
from typing import Any, Dict, FrozenSet, List, NamedTuple, NoReturn, Optional, Tuple, Union
from xml.parsers import expat

from wherry.topology._machine import GPU_CLASSES, NETWORK_CLASS, NVIDIA
from wherry.topology._model import CPU_LIMIT, Gpu, Nic, NumaNode, Topology

SIZE_LIMIT = 64 << 20  # bytes; the largest machines need a few million
DEPTH_LIMIT = 200  # nested objects; hwloc's own limit is below it
NETWORK, OPENFABRICS = 2, 3  # hwloc's types of devices of the operating system
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NVLINKS = "NVLinkBandwidth"  # hwloc's name for a matrix of MB/s, which it writes where it knows NVML
LINK_SPEEDS = (25000, 20000, 50000)  # MB/s of one NVLink: generations 2 to 4, 1, 5


def from_xml(path: Union[str, "os.PathLike[str]"]) -> Topology:
    """Raises OSError where the file cannot be read, ValueError where it is no topology of hwloc's."""
    file = pathlib.Path(path)
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError(f"{file}: no regular file")
    with file.open("rb") as opened:
        data = opened.read(SIZE_LIMIT + 1)  # whatever its size is said to be
    if len(data) > SIZE_LIMIT:
        raise ValueError(f"{file}: larger than {SIZE_LIMIT >> 20} MiB")
    try:
        return _Reader(_parse(data)).topology(f"hwloc XML {file.name}")
    except (ValueError, LookupError, expat.ExpatError) as error:  # LookupError: of an unknown encoding
        raise ValueError(f"{file}: {error}") from None


def _parse(data: bytes) -> ElementTree.Element:
    """The tree of the file, without entities and not deeper than the limit."""
    builder: ElementTree.TreeBuilder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    depth = 0

    def start(tag: str, attributes: Dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEPTH_LIMIT:
            raise ValueError(f"line {parser.CurrentLineNumber}: more than {DEPTH_LIMIT} nested elements")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def doctype(name: str, system: Any, public: Any, has_subset: int) -> None:
        if has_subset:
            _refuse()

    def _refuse(*declaration: Any) -> NoReturn:
        raise ValueError(f"line {parser.CurrentLineNumber}: declarations in the file are not accepted")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = _refuse
    parser.Parse(data, True)
    return builder.close()


class _Above(NamedTuple):
    """What an object inherits from those around it."""

    numa: Optional[int]
    cpus: Tuple[int, ...]
    path: Tuple[str, ...]


class _Reader:
    """One file.  Devices are collected in the order of the file and sorted at the end."""

    def __init__(self, tree: ElementTree.Element) -> None:
        self.tree = tree
        self.nodes: List[NumaNode] = []
        self.gpus: List[Tuple[ElementTree.Element, str, _Above]] = []
        self.nics: List[Nic] = []
        self.pci_of: Dict[str, str] = {}  # of a device of the operating system, by its gp_index

    def topology(self, source: str) -> Topology:
        machines = self.tree.findall("object")
        if self.tree.tag != "topology" or len(machines) != 1:
            raise ValueError("no topology of hwloc's: it needs one <object> in <topology>")
        version = self.tree.get("version", "1")
        if version.split(".")[0] not in ("1", "2"):
            raise ValueError(f"version {version} of the format is not known, only 1 and 2")
        self._walk(machines[0], _Above(None, (), ()))
        if not self.nodes:  # version 1 leaves the only one out
            self.nodes.append(NumaNode(0, _bits(machines[0], "cpuset")))
        if len({node.index for node in self.nodes}) < len(self.nodes):
            raise ValueError("two NUMA nodes have the same number")
        return Topology(source, tuple(sorted(self.nodes, key=lambda node: node.index)),
                        self._sorted_gpus(), tuple(sorted(self.nics, key=lambda nic: nic.pci)),
                        self._links())

    def _walk(self, item: ElementTree.Element, above: _Above) -> None:
        kind = item.get("type", "")
        if kind == "Bridge":
            above = above._replace(path=(*above.path, _bridge_name(item)))
        elif kind == "PCIDev":
            self._device(item, above)
        elif kind != "OSDev":
            if kind == "NUMANode":
                self.nodes.append(NumaNode(_number(item, "os_index"), _bits(item, "cpuset"),
                                           _number(item, "local_memory", 0) or None))
            above = self._around(item, above)
        for child in item.findall("object"):
            self._walk(child, above)

    def _around(self, item: ElementTree.Element, above: _Above) -> _Above:
        """What a device below a processor, a package or the machine is near to."""
        nodes = _bits(item, "nodeset")
        only = nodes[0] if len(nodes) == 1 else None
        return _Above(only, _bits(item, "cpuset") or above.cpus, above.path)

    def _device(self, item: ElementTree.Element, above: _Above) -> None:
        pci = item.get("pci_busid", "")
        kind, _, rest = item.get("pci_type", "").partition(" ")
        if not PCI.fullmatch(pci):
            raise ValueError(f"'{pci}' is no PCI address")
        for system in item.findall("object"):
            self.pci_of[system.get("gp_index", "")] = pci
        if kind in GPU_CLASSES and rest.startswith(f"[{NVIDIA}:"):
            self.gpus.append((item, pci, above))
        elif kind.startswith(NETWORK_CLASS):
            netdev, ibdev = (_system_name(item, number) for number in (NETWORK, OPENFABRICS))
            name = ibdev or netdev
            if name:
                self.nics.append(Nic(name, pci, above.path, above.numa, above.cpus, netdev, ibdev))

    def _sorted_gpus(self) -> Tuple[Gpu, ...]:
        found = sorted(self.gpus, key=lambda gpu: gpu[1])
        return tuple(Gpu(f"GPU{i}", pci, above.path, above.numa, above.cpus, i,
                         _info(item, "GPUModel") or item.get("name") or _info(item, "PCIDevice"),
                         _info(item, "NVIDIAUUID"))
                     for i, (item, pci, above) in enumerate(found))

    def _links(self) -> Dict[FrozenSet[str], int]:
        """NVLinks, where hwloc has measured its matrix; NVSwitches in it are left out."""
        links: Dict[FrozenSet[str], int] = {}
        for table in self.tree:
            if table.tag in ("distances2", "distances2hetero") and table.get("name") == NVLINKS:
                ids = _words(table, "indexes")
                values = _words(table, "u64values")
                if len(values) != len(ids) ** 2:
                    raise ValueError(f"{NVLINKS}: {len(values)} values for {len(ids)} devices")
                pcis = [self.pci_of.get(text.rpartition(":")[2]) for text in ids]
                for i, one in enumerate(pcis):
                    for j, other in enumerate(pcis[:i]):
                        count = _link_count(values[i * len(ids) + j])
                        if one and other and count:
                            links[frozenset((one, other))] = count
        return links


def _link_count(text: str) -> int:
    """How many NVLinks a bandwidth in MB/s is, of the first generation that divides it."""
    if not text.isdecimal():
        raise ValueError(f"{NVLINKS}: '{text}' is no bandwidth")
    value = int(text)
    return next((value // speed for speed in LINK_SPEEDS if value % speed == 0), 0)


def _words(table: ElementTree.Element, tag: str) -> List[str]:
    """The words in all elements of a tag; hwloc breaks long lists."""
    return [word for part in table.findall(tag) for word in (part.text or "").split()]


def _bridge_name(item: ElementTree.Element) -> str:
    """Of a host bridge the buses that it leads to, of another one its address."""
    return item.get("pci_busid") or item.get("bridge_pci") or "?"


def _system_name(item: ElementTree.Element, number: int) -> Optional[str]:
    names = sorted(system.get("name", "") for system in item.findall("object")
                   if _number(system, "osdev_type", -1) == number)
    return names[0] if names else None


def _info(item: ElementTree.Element, name: str) -> Optional[str]:
    """The first value that the device, or one of the operating system's in it, has of this name."""
    for info in item.iter("info"):
        if info.get("name") == name:
            return info.get("value")
    return None


def _number(item: ElementTree.Element, name: str, default: Optional[int] = None) -> int:
    text = item.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > 20:
        raise ValueError(f"{item.get('type')}: {name}='{text}' is no number")
    return int(text)


def _bits(item: ElementTree.Element, name: str) -> Tuple[int, ...]:
    """The bits of a set: words of 32, the highest first; a word that is zero may be empty."""
    value = 0
    words = (item.get(name) or "0x0").split(",")
    if len(words) * 32 > CPU_LIMIT:
        raise ValueError(f"{name} has more than {CPU_LIMIT} bits")
    for word in words:
        if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|", word):
            raise ValueError(f"{name}='{item.get(name)}' is no set of numbers")
        value = value << 32 | int(word or "0", 16)
    return tuple(bit for bit in range(value.bit_length()) if value >> bit & 1)
