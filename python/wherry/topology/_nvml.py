# SPDX-License-Identifier: BSD-3-Clause
"""What NVML says, through the module ``pynvml`` where there is one: models, UUIDs and NVLinks."""
import importlib
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Dict, FrozenSet, Optional, Tuple

from wherry.topology._model import normal_pci

SWITCH = 2  # NVML's number for an NVSwitch at the other end of a link


@dataclass(frozen=True)
class Told:
    gpus: Dict[str, Tuple[str, str]]  # by PCI address: model, UUID
    links: Dict[FrozenSet[str], int]  # as in Topology


def read() -> Optional[Told]:
    """None: no pynvml, no driver, or one that fails on the way, as where a GPU is lost."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return _ask(nvml)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _ask(nvml: Any) -> Told:
    gpus: Dict[str, Tuple[str, str]] = {}
    direct: Counter[FrozenSet[str]] = Counter()  # counted from both ends
    switched: Counter[str] = Counter()
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        pci = normal_pci(_text(nvml.nvmlDeviceGetPciInfo(gpu).busId))
        gpus[pci] = _text(nvml.nvmlDeviceGetName(gpu)), _text(nvml.nvmlDeviceGetUUID(gpu))
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            other = _other_end(nvml, gpu, link)
            if other == "switch":
                switched[pci] += 1
            elif other:
                direct[frozenset((pci, other))] += 1
    links = {pair: ends // 2 for pair, ends in direct.items() if pair <= set(gpus)}
    for one, other in combinations(switched, 2):  # a switch joins each with each
        links[frozenset((one, other))] = min(switched[one], switched[other])
    return Told(gpus, links)


def _other_end(nvml: Any, gpu: Any, link: int) -> Optional[str]:
    """The PCI address of the GPU at a link's other end, or "switch"; None: the link is not in use."""
    try:
        if not nvml.nvmlDeviceGetNvLinkState(gpu, link):
            return None
        if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) == SWITCH:
            return "switch"
        return normal_pci(_text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId))
    except nvml.NVMLError:  # no such link
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
