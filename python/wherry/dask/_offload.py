# SPDX-License-Identifier: BSD-3-Clause
"""Which large messages are turned into frames, and back, without work that grows with their size.

distributed does this in a thread for messages of more than distributed.comm.offload (10 MiB), so that the event loop
goes on meanwhile.  For an array whose memory is used where it is, waking the thread and being woken by it takes longer
than the work itself.  Both functions look at a bounded number of things, and leave to distributed whatever they do not
know for certain.
"""
import itertools
import sys
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

import msgpack
from distributed.protocol.serialize import Pickled, Serialize, Serialized, ToPickle

MOST = 100  # values that are looked at: more of them take longer than waking the thread does
SMALL = 1 << 16  # bytes of a value that may be copied

_FAMILIES = frozenset(("cuda", "dask", "pickle", "msgpack", "error"))  # distributed's own ones
_PLAIN = "biufcSU"  # kinds of dtypes whose memory is sent as it is by each of them
_VIEWS = ("numpy.ndarray", "memoryview")  # types that are laid over received memory


def writes_at_once(msg: Any, context: Dict[str, Any], serializers: Optional[Sequence[str]] = None) -> bool:
    """Whether all that is large in a message goes from where it is."""
    if context.get("compression", "auto") or not _FAMILIES.issuperset(serializers or ()):
        return False
    rest = [msg]
    for _ in range(MOST):
        if not rest:
            return True
        value = rest.pop()
        if type(value) is Serialize and _is_raw(value.data):
            continue
        if type(value) in (Serialize, ToPickle):
            value = value.data
        if type(value) in (dict, list, tuple):
            if len(value) > MOST:
                return False
            rest.extend(value.values() if type(value) is dict else value)
        elif not (_is_small(value) or _is_array(value) or type(value) in (Serialized, Pickled)):
            return False
    return not rest


def _is_raw(value: Any) -> bool:
    return type(value) in (bytes, bytearray) or (type(value) is memoryview and value.c_contiguous)


def _is_small(value: Any) -> bool:
    if type(value) in (str, bytes, bytearray):
        return len(value) <= SMALL
    return value is None or type(value) in (bool, int, float)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # not needed by distributed
    return (numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in _PLAIN
            and (value.flags.c_contiguous or value.flags.f_contiguous))


def reads_at_once(frames: Sequence[Any]) -> bool:
    """Whether all that is large among the frames of a message is used where it is.

    distributed writes the message itself, then for each object a header and the object's frames.
    """
    if len(frames) > 2 * MOST or not any(map(_is_large, frames)):
        return False
    try:
        return not _is_large(frames[0]) and all(
            not any(map(_is_large, parts)) or (_is_whole(header) and _is_view(header, parts))
            for header, parts in _objects(frames))
    except Exception:  # written in another way, or damaged: distributed knows, or will say it
        return False


def _is_large(frame: Any) -> bool:
    return not isinstance(frame, memoryview) or frame.nbytes > SMALL


def _objects(frames: Sequence[Any]) -> Iterator[Tuple[Dict[str, Any], Sequence[Any]]]:
    at = 1
    while at < len(frames):
        if _is_large(frames[at]):
            raise ValueError("a header that is large")
        header = msgpack.loads(frames[at], raw=False, use_list=False, strict_map_key=False)
        begin, at = at + 1, at + 1 + header["num-sub-frames"]
        if at < begin:
            raise ValueError("a negative number of frames")
        yield header, frames[begin:at]


def _is_whole(header: Dict[str, Any]) -> bool:
    """Whether the frames of an object are neither compressed nor cut."""
    pieces = header.get("split-num-sub-frames", ())
    return not any(header.get("compression", ())) and all(number == 1 for number in pieces)


def _is_view(header: Dict[str, Any], frames: Sequence[Any]) -> bool:
    """Whether an object, or each part of a collection, is small or an array over its frame."""
    if not any(map(_is_large, frames)):
        return True
    if "is-collection" in header:
        ends = itertools.accumulate(header["frame-lengths"])
        parts = zip(header["sub-headers"], header["frame-lengths"], ends)
        return all(_is_view(sub, frames[end - length:end]) for sub, length, end in parts)
    (frame,) = frames
    return (header["serializer"] == "dask" and header["type"] in _VIEWS
            and not header["sub-header"].get("pickle") and not frame.readonly)
