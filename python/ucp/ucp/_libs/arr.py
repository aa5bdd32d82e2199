# SPDX-License-Identifier: BSD-3-Clause
"""The description of a buffer, of the CPU or of a device."""
import ctypes
import re
from typing import Any, Optional, Tuple

import wherry


class _PyBuffer(ctypes.Structure):
    """Py_buffer, as CPython's headers have it."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_FULL_RO = 0x11c  # PyBUF_FULL_RO


def _pointer(view: memoryview) -> int:
    """Where the memory of a view begins; valid as long as the view is."""
    found = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(found), _FULL_RO)
    try:
        return found.buf or 0
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))


def _row_major(shape: Tuple[int, ...], itemsize: int) -> Tuple[int, ...]:
    """The strides in bytes of an array without gaps, the last index fastest."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _without_gaps(shape: Tuple[int, ...], strides: Tuple[int, ...], itemsize: int) -> bool:
    """Whether the last index is fastest and nothing lies between the elements."""
    if 0 in shape:
        return True
    expected = _row_major(shape, itemsize)
    return all(extent == 1 or stride == right
               for extent, stride, right in zip(shape, strides, expected))


def _refers(descr: Any) -> bool:
    """Whether there are Python objects among the fields of an array's type."""
    return any(_refers(field[1]) if isinstance(field[1], list) else field[1][1:2] == "O"
               for field in descr)


class Array:
    """What lies where in the memory of a buffer or of a ``__cuda_array_interface__``.

    ptr: the address.  shape: elements per dimension.  strides: bytes, per dimension.
    itemsize, nbytes: bytes of an element, and of all.  cuda: whether the memory is a device's.
    refers: whether there are only references to Python objects in it, which cannot be sent.
    obj: whose memory it is, which lives as long as this object; of another Array, that one's.

    Raises ValueError for what is neither, and for an array with a mask.
    """

    def __init__(self, obj: Any) -> None:
        self._view: Optional[memoryview] = None
        if isinstance(obj, Array):
            vars(self).update(vars(obj))
            return
        self.sent = obj  # what Wherry is given
        interface = getattr(obj, "__cuda_array_interface__", None)
        self.cuda = interface is not None
        if interface is None:
            self._describe_host(obj)
        else:
            self._describe_told(obj, interface)

    def _describe_host(self, obj: Any) -> None:
        try:
            view = memoryview(obj)
        except (TypeError, ValueError) as error:
            # Of dates and the like NumPy gives no view.
            interface = getattr(obj, "__array_interface__", None)
            if interface is None:
                raise ValueError(f"{type(obj).__name__} is neither a buffer nor has it a "
                                 "__cuda_array_interface__") from error
            self._describe_told(obj, interface)
            return
        self._view = view
        self.obj = view.obj
        self.ptr = _pointer(view)
        self.readonly = view.readonly
        self.refers = "O" in re.sub(":[^:]*:", "", view.format)  # names stand between colons
        self.itemsize, self.nbytes = view.itemsize, view.nbytes
        self.ndim = view.ndim
        self.shape, self.strides = view.shape or (), view.strides or ()

    def _describe_told(self, obj: Any, interface: Any) -> None:
        if interface.get("mask") is not None:
            raise ValueError("an array with a mask cannot be sent or received")
        self.obj = obj
        self.ptr, self.readonly = interface["data"]
        self.ptr = self.ptr or 0
        self.refers = interface["typestr"][1:2] == "O" or _refers(interface.get("descr") or ())
        self.itemsize = int(interface["typestr"][2:].partition("[")[0])
        self.shape = tuple(interface["shape"])
        self.ndim = len(self.shape)
        self.nbytes = self.itemsize
        for extent in self.shape:
            self.nbytes *= extent
        self.strides = tuple(interface.get("strides") or _row_major(self.shape, self.itemsize))

    @property
    def c_contiguous(self) -> bool:
        """Whether it has no gaps, the last index fastest."""
        return _without_gaps(self.shape, self.strides, self.itemsize)

    @property
    def f_contiguous(self) -> bool:
        """Whether it has no gaps, the first index fastest."""
        return _without_gaps(self.shape[::-1], self.strides[::-1], self.itemsize)

    @property
    def contiguous(self) -> bool:
        """Whether it has no gaps."""
        return self.c_contiguous or self.f_contiguous


def asarray(obj: Any) -> Array:
    """`obj` if it is an Array, else its description."""
    return obj if isinstance(obj, Array) else Array(obj)


def size_of(obj: Any) -> int:
    """Bytes of a buffer's or an array's elements."""
    if isinstance(obj, Array):
        return obj.nbytes
    try:
        return memoryview(obj).nbytes
    except (TypeError, ValueError):
        pass
    nbytes = getattr(obj, "nbytes", None)
    return int(nbytes) if nbytes is not None else Array(obj).nbytes


class Flat:
    """The memory of an array as it lies, for Wherry: bytes without a shape.

    Of memory of the CPU it has an ``__array_interface__``, else a ``__cuda_array_interface__``.
    """

    def __init__(self, array: Array) -> None:
        self._of = array
        setattr(self, "__cuda_array_interface__" if array.cuda else "__array_interface__", {
            "version": 3, "data": (array.ptr, array.readonly), "typestr": "|u1",
            "shape": (array.nbytes,), "strides": None})


def _is_plain(obj: Any) -> Optional[bool]:
    """Whether a buffer has no gaps, the last index fastest.  None: it is no buffer."""
    try:
        return memoryview(obj).c_contiguous
    except (TypeError, ValueError, BufferError):
        return None


def _is_array(obj: Any) -> bool:
    return hasattr(obj, "__cuda_array_interface__") or hasattr(obj, "__array_interface__")


def sent_of(obj: Any) -> Any:
    """What Wherry takes for it: itself, or what an Array describes; in Fortran's order: its memory.

    Raises ValueError when it has gaps, and TypeError for Python objects in Fortran's order.
    """
    sent = obj.sent if isinstance(obj, Array) else obj
    plain = _is_plain(sent)
    if plain or (plain is None and not _is_array(sent)):
        return sent
    array = Array(sent)
    if array.c_contiguous:
        return sent
    if array.refers:
        raise TypeError(f"{type(array.obj).__name__} is of Python objects, whose memory has only "
                        "pointers")
    if array.f_contiguous:
        return Flat(array)
    raise ValueError(f"{type(array.obj).__name__} has gaps: it is contiguous in neither C's nor "
                     "Fortran's order; numpy.ascontiguousarray() and the like make a copy that is")


def _is_known(sent: Any) -> bool:
    """Whether Wherry takes for certain what ``sent_of`` gives."""
    if _is_plain(sent):
        return "O" not in memoryview(sent).format  # of Python objects, or a name
    return _is_array(sent) and not Array(sent).refers


def checked(obj: Any) -> Any:
    """``sent_of`` of what may not be refused any more; whatever Wherry would refuse raises here.

    Of what only Wherry can judge, such as DLPack, it is a copy.
    """
    sent = sent_of(obj)
    if _is_known(sent):
        return sent
    copy = bytearray(size_of(sent))
    wherry.copy_memory(copy, sent)
    return copy
