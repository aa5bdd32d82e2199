# SPDX-License-Identifier: BSD-3-Clause
"""Types from the layouts that Python objects have: numpy dtypes, arrays, buffers, strides.

Nothing here imports numpy: dtypes and arrays are asked for their attributes.
"""
from __future__ import annotations

import math
import sys

from wherry._core import BASIC, Type, contig, resized, strided, struct

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Iterable, Optional, Sequence

# dtype.kind -> item size -> predefined type.  Time is a count of units; text is its code points.
_BY_KIND = {
    "b": {1: "BOOL"},
    "i": {1: "INT8", 2: "INT16", 4: "INT32", 8: "INT64"},
    "u": {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"},
    "f": {2: "FLOAT16", 4: "FLOAT", 8: "DOUBLE", 16: "LONG_DOUBLE"},
    "c": {8: "COMPLEX_FLOAT", 16: "COMPLEX_DOUBLE", 32: "COMPLEX_LONG_DOUBLE"},
    "m": {8: "INT64"},
    "M": {8: "INT64"},
}
# dtype.isbuiltin of what numpy learns from other packages; dtype.name -> predefined type for the
# small floats among it.  Others are moved as bytes: their kind does not say what they are.
_OF_A_PACKAGE = 2
_BY_NAME = {
    "bfloat16": "BFLOAT16",
    "float8_e4m3fn": "FLOAT8_E4M3",
    "float8_e5m2": "FLOAT8_E5M2",
}
# Formats of PEP 3118 -> dtype.kind
_KIND_OF_FORMAT = {
    **dict.fromkeys("bhilqn", "i"),
    **dict.fromkeys("BHILQN", "u"),
    **dict.fromkeys("efdg", "f"),
    **dict.fromkeys(("Zf", "Zd", "Zg"), "c"),
    "?": "b",
    "c": "S",
}


def from_strides(itemsize: int, shape: Sequence[int], strides: Optional[Sequence[int]] = None,
                 old: Optional[Type] = None) -> Type:
    """An array of elements of `itemsize` bytes by its shape and its strides in bytes.

    Without strides it is dense, in C order.  The elements are `old` (its packed size must be
    `itemsize`), or uninterpreted bytes.  The origin is the element with all indices 0.
    """
    if old is None:
        old = contig(itemsize, BASIC["BYTE"])
    elif old.size != itemsize:
        raise ValueError(f"itemsize is {itemsize}, but old packs {old.size} bytes")
    if strides is None:
        strides = [itemsize * math.prod(shape[i + 1:]) for i in range(len(shape))]
    return strided(shape, strides, old)


def from_dtype(dtype: Any) -> Type:
    """One element of a numpy dtype, or of what ``numpy.dtype()`` takes.

    A structured dtype gives its fields in the order of their names; padding belongs to the extent
    and is not packed.  Sub-arrays and nested fields may have any depth.  Text and void are bytes
    ("S", "V") or 32-bit code points ("U").

    Raises TypeError for Python objects, ValueError for a byte order that is not this machine's;
    both name the field.
    """
    if not hasattr(dtype, "subdtype"):
        import numpy

        dtype = numpy.dtype(dtype)
    return _element(dtype, "")


def _element(dtype: Any, path: str) -> Type:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return contig(math.prod(shape), _element(base, path))
    if dtype.names is not None:
        return _fields(dtype, path)
    if dtype.hasobject:
        raise TypeError(f"{_which(dtype, path)}: holds references to Python objects")
    if not dtype.isnative:
        order = "big" if sys.byteorder == "little" else "little"
        raise ValueError(f"{_which(dtype, path)}: is {order}-endian; only the byte order of this "
                         "machine is moved, see ndarray.astype(dtype.newbyteorder('='))")
    if dtype.isbuiltin == _OF_A_PACKAGE:
        basic = _BY_NAME.get(dtype.name)
        return BASIC[basic] if basic else contig(dtype.itemsize, BASIC["BYTE"])
    one = _plain(dtype.kind, dtype.itemsize)
    if one is None:
        raise TypeError(f"{_which(dtype, path)}: there is no type for it")
    return one


def _which(dtype: Any, path: str) -> str:
    return f"dtype {dtype}" + (f" of field '{path}'" if path else "")


def _plain(kind: str, itemsize: int) -> Optional[Type]:
    basic = _BY_KIND.get(kind, {}).get(itemsize)
    if basic is not None:
        return BASIC[basic]
    if kind in "SV":
        return contig(itemsize, BASIC["BYTE"])
    if kind == "U":
        return contig(itemsize // 4, BASIC["UINT32"])
    return None


def _fields(dtype: Any, path: str) -> Type:
    places, types = [], []
    for name in dtype.names:
        field, place = dtype.fields[name][:2]
        places.append(place)
        types.append(_element(field, f"{path}.{name}" if path else name))
    # The bounds are the dtype's and not what a C compiler would give.
    return resized(struct([1] * len(types), places, types), 0, dtype.itemsize)


def from_array(array: Any) -> Type:
    """All elements of a numpy array, or of another buffer, with its shape and strides.

    Pack it with ``pack(array, from_array(array))``: the packed bytes are the elements in C order,
    without the padding of structured dtypes.  The type fits any array of the same dtype, shape and
    strides.  Raises TypeError for what is neither, for a masked array, and as ``from_dtype``.
    """
    if hasattr(array, "dtype") and hasattr(array, "strides"):
        if hasattr(array, "mask") and hasattr(array, "filled"):
            raise TypeError(f"array: '{type(array).__name__}' has a mask, which its memory does not "
                            "tell of; give its .data and its .mask, or .filled()")
        return strided(array.shape, array.strides, from_dtype(array.dtype))
    view = memoryview(array)
    if view.suboffsets:
        raise TypeError(f"array: '{type(array).__name__}' is an array of pointers to its rows "
                        "(suboffsets), which no type describes")
    return strided(_or_empty(view.shape), _or_empty(view.strides), _format(view))


def _or_empty(values: Optional[Iterable[int]]) -> Sequence[int]:
    return tuple(values) if values else ()


def _format(view: "memoryview") -> Type:
    native = "@=<" if sys.byteorder == "little" else "@=>!"
    code = view.format.lstrip(native)
    one = _plain(_KIND_OF_FORMAT.get(code, "?"), view.itemsize)
    if one is None:
        raise TypeError(f"a buffer of elements '{view.format}': there is no type for them")
    return one
