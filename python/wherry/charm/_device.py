# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on devices as arguments: their bytes, and what they are; the receiver gets an array on its own device.

Those of a call of one object and of a channel go from device memory to device memory (_buffers.pxi); in all other messages they
pass through the host's memory.
"""
from __future__ import annotations

import math

import wherry

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple


class DeviceArray:
    """An array that has come, in memory of a device: ``cupy.asarray(it)`` makes one of cupy's of it, without a copy."""

    def __init__(self, memory: wherry.DeviceMemory, typestr: str, shape: Tuple[int, ...]) -> None:
        self.memory, self.typestr, self.shape = memory, typestr, shape

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {**self.memory.__cuda_array_interface__, "typestr": self.typestr, "shape": self.shape}

    def __reduce__(self) -> Tuple[Any, ...]:
        return to_device, to_host(self)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.typestr} {self.shape} in {self.memory.memory} memory>"


def describe(array: Any) -> Tuple[bytes, Any, int]:
    """What an array is, in which kind of memory, and its bytes."""
    told = array.__cuda_array_interface__
    shape, typestr = tuple(map(int, told["shape"])), str(told["typestr"])
    kind = array.memory.memory if isinstance(array, DeviceArray) else getattr(array, "memory", "cuda")
    kind = kind if kind in ("cuda", "sim") else "cuda"
    text = f"{kind} {typestr} {' '.join(map(str, shape))}".encode()
    return text, kind, math.prod(shape) * item_size(typestr)


def to_host(array: Any) -> Tuple[bytes, bytearray]:
    """What an array is, and its bytes."""
    told, _, size = describe(array)
    content = bytearray(size)
    wherry.copy_memory(content, array)
    return told, content


def to_device(told: bytes, content: bytes) -> DeviceArray:
    """The array again."""
    made = make(told, len(content))
    if content:
        fill(made, content)
    return made


def fill(array: DeviceArray, content: bytes) -> None:
    """Has an array have these bytes."""
    wherry.copy_memory(array.memory, content)


def duplicate(array: Any) -> Tuple[bytes, wherry.DeviceMemory]:
    """What an array is, and a copy of it in the same kind of memory."""
    told, kind, size = describe(array)
    memory = wherry.DeviceMemory(size, kind)
    wherry.copy_memory(memory, array)
    return told, memory


def make(told: bytes, size: int) -> DeviceArray:
    """An array of which its bytes are to come."""
    kind, typestr, *rest = told.decode("ascii", "replace").split(" ")
    shape = tuple(int(n) for n in rest if n)
    if math.prod(shape) * item_size(typestr) != size:
        raise ValueError(f"an array on a device: {typestr} of shape {shape} does not have {size} bytes")
    return DeviceArray(wherry.DeviceMemory(size, kind), typestr, shape)  # type: ignore[arg-type]  # it checks


def item_size(typestr: str) -> int:
    if not typestr[2:].isdigit():
        raise ValueError(f"an array on a device has elements of type {typestr!r}: one such as '<f8' is needed")
    return int(typestr[2:])
