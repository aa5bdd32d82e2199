# SPDX-License-Identifier: BSD-3-Clause
"""Where workers go: a place per GPU or per NUMA node of a topology."""
import os
from dataclasses import dataclass, field
from typing import AbstractSet, Dict, List, Optional, Sequence, Tuple

import psutil
from wherry.topology import Gpu, Nic, Topology

PER = ("auto", "gpu", "numa")


@dataclass(frozen=True)
class Place:
    """What a worker gets.  ``netdev``: the nearest network interface; None: there is no choice."""

    name: str
    cpus: Tuple[int, ...]
    nthreads: int
    env: Dict[str, str] = field(default_factory=dict)
    netdev: Optional[str] = None


def places(topology: Topology, per: str, allowed: AbstractSet[int]) -> List[Place]:
    """One place per GPU or NUMA node; none where "auto" finds nothing to choose between.

    Only the `allowed` processors are given out.  Raises ValueError where there is nothing of what
    `per` names.
    """
    if per not in PER:
        raise ValueError(f"per={per!r}: it is one of {', '.join(PER)}")
    if per != "numa":
        found = _per_gpu(topology, allowed)
        if found:
            return found
        if per == "gpu":
            raise ValueError(f"there is no GPU of NVIDIA's that this process may use ({topology.source}"
                             f"{_visible_note()}); `wherry topo` shows what is there")
    found = _per_node(topology, allowed)
    if not found and per == "numa":
        raise ValueError("this process may use no processor of any NUMA node of the topology "
                         f"({topology.source})")
    return found if per == "numa" or len(found) > 1 else []


def _per_gpu(topology: Topology, allowed: AbstractSet[int]) -> List[Place]:
    visible = _visible(topology.gpus)
    tokens = [token for token, _ in visible]
    nics = _reachable(topology.nics)
    found = []
    for i, (_, gpu) in enumerate(visible):
        # Its own GPU comes first and is the default; all are visible, so that they can copy to each other.
        env = {"CUDA_VISIBLE_DEVICES": ",".join(tokens[i:] + tokens[:i]),
               "CUDA_DEVICE_ORDER": os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")}
        near = topology.nearest(gpu, nics) if nics else []
        cpus = _near_gpu(topology, gpu, allowed)
        found.append(Place(gpu.name, cpus, 1, env, _choose(near, nics, i)))
    return found


def _near_gpu(topology: Topology, gpu: Gpu, allowed: AbstractSet[int]) -> Tuple[int, ...]:
    """All that are allowed, where none of those is near."""
    node = [cpu for node in topology.nodes if node.index == gpu.numa for cpu in node.cpus]
    return tuple(sorted(allowed & set(gpu.cpus or node) or allowed))


def _per_node(topology: Topology, allowed: AbstractSet[int]) -> List[Place]:
    nics = _reachable(topology.nics)
    found = []
    for node in topology.nodes:
        cpus = tuple(sorted(allowed & set(node.cpus)))
        if cpus:  # one without is memory alone
            near = [nic for nic in nics if nic.numa == node.index]
            found.append(Place(f"NUMA node {node.index}", cpus, len(cpus), {}, _choose(near, nics, 0)))
    return found


def _visible(gpus: Sequence[Gpu]) -> List[Tuple[str, Gpu]]:
    """Those that CUDA_VISIBLE_DEVICES leaves, in its order, each with the word for it."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return [(str(gpu.index), gpu) for gpu in gpus]
    found = []
    for word in text.replace(" ", "").split(","):
        if word in ("", "-1"):  # for CUDA the list ends here
            break
        found.append((word, _named(word, gpus)))
    return found


def _named(word: str, gpus: Sequence[Gpu]) -> Gpu:
    for gpu in gpus:
        if word == str(gpu.index) or (word.startswith("GPU-") and (gpu.uuid or "").startswith(word)):
            return gpu
    raise ValueError(f"CUDA_VISIBLE_DEVICES names '{word}', which is no GPU of this machine; "
                     "parts of a GPU (MIG) are not placed")


def _visible_note() -> str:
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if text is None else f", CUDA_VISIBLE_DEVICES='{text}'"


def _reachable(nics: Sequence[Nic]) -> List[Nic]:
    """Those with a network interface that has an address of its own."""
    names = {name for name, addresses in psutil.net_if_addrs().items()
             if any(address.family.name == "AF_INET" for address in addresses)}
    return [nic for nic in nics if nic.netdev in names]


def _choose(near: Sequence[Nic], among: Sequence[Nic], turn: int) -> Optional[str]:
    """One of the nearest, in turns; None where all are equally near."""
    return near[turn % len(near)].netdev if 0 < len(near) < len(among) else None
