# SPDX-License-Identifier: BSD-3-Clause
"""Which processors, GPUs and network devices a machine has, and how near they are to each other.

``from_machine()`` reads the machine, ``from_xml(path)`` a file that hwloc's ``lstopo`` has written.
``matrix`` prints what ``nvidia-smi topo -m`` prints, with network devices and NUMA nodes; ``draw``
writes a picture.  ``python -m wherry.topology``, and ``wherry topo`` where the package is installed,
do it in a shell.  Only the standard library is needed; NVLink is seen where ``pynvml`` is.
"""
from wherry.topology._draw import draw
from wherry.topology._machine import from_machine
from wherry.topology._model import Device, Gpu, Nic, NumaNode, Topology, cpu_list
from wherry.topology._print import as_json, matrix
from wherry.topology._xml import from_xml

__all__ = ["Device", "Gpu", "Nic", "NumaNode", "Topology", "as_json", "cpu_list", "draw",
           "from_machine", "from_xml", "matrix"]
