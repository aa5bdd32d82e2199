# SPDX-License-Identifier: BSD-3-Clause
"""UCX's own options, asked of the UCX that Wherry would open: which there are, and their values.

Options reach UCX as variables ``UCX_NAME`` while Wherry makes its context; only the lane ``ucx`` heeds
them.  ``TLS`` also chooses Wherry's lanes, since it says what may carry the messages.
"""
import contextlib
import ctypes
import functools
import logging
import os
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

from ucp.exceptions import UCXConfigError
from wherry._ucx import ucx_package

logger = logging.getLogger("ucx")
_PRINT_CONFIG = 1  # UCS_CONFIG_PRINT_CONFIG
_NO_ELEM = -12     # UCS_ERR_NO_ELEM

# Which lane is what a transport of UCX is for.
_LANE_OF = {
    "tcp": "stream", "posix": "shm", "sysv": "shm", "sm": "shm", "shm": "shm", "mm": "shm",
    "cma": "shm", "knem": "shm", "xpmem": "shm", "self": "shm",
}
# Transports are named after these, as rc_mlx5 is.
_NETWORKS = ("ib", "rc", "dc", "ud", "gga", "srd", "efa", "ugni", "rdmacm", "sockcm", "ucx")
_MEMORY = ("cuda", "gdr", "rocm", "ze", "gaudi")
# Lane -> the sets of transports, each of which is all that it is for; UCX itself is for what is left.
_WHOLE_LANE: Dict[str, Tuple[Set[str], ...]] = {
    "shm": ({"sm"}, {"shm"}, {"mm"}, {"posix", "sysv"}), "stream": ({"tcp"},), "ucx": ({"ucx"},)}
# Lane -> the transports of UCX that programs know its like by.
_TRANSPORTS_OF = {"shm": ("posix", "cma", "self"), "stream": ("tcp",), "ucx": ("ucx",)}


@functools.lru_cache(maxsize=None)
def _library() -> Optional[ctypes.CDLL]:
    """The UCX of the package libucx, of WHERRY_UCX_DIR, or of the system; None: there is none."""
    folder = os.environ.get("WHERRY_UCX_DIR") or ucx_package()
    name = os.path.join(folder, "lib", "libucp.so.0") if folder else "libucp.so.0"
    try:
        found = ctypes.CDLL(name)
    except OSError:
        return None
    found.ucp_config_read.argtypes = [ctypes.c_char_p, ctypes.c_char_p,
                                      ctypes.POINTER(ctypes.c_void_p)]
    found.ucp_config_modify.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    found.ucp_config_print.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p,
                                       ctypes.c_int]
    found.ucp_config_print.restype = None
    found.ucp_config_release.argtypes = [ctypes.c_void_p]
    found.ucp_config_release.restype = None
    return found


def version() -> Tuple[int, int, int]:
    """UCX's release, such as (1, 13, 1); (0, 0, 0): it is not installed."""
    ucx = _library()
    if ucx is None:
        return (0, 0, 0)
    parts = [ctypes.c_uint() for _ in range(3)]
    ucx.ucp_get_version(*[ctypes.byref(part) for part in parts])
    return (parts[0].value, parts[1].value, parts[2].value)


def _modify(ucx: ctypes.CDLL, config: ctypes.c_void_p, name: str, value: str) -> None:
    status = ucx.ucp_config_modify(config, name.encode(), str(value).encode())
    if status == _NO_ELEM:
        raise UCXConfigError(f"UCX {'.'.join(map(str, version()))} has no option {name!r}")
    if status:
        raise UCXConfigError(f"the option {name!r} of UCX cannot be {value!r}")


def _printed(ucx: ctypes.CDLL, config: ctypes.c_void_p) -> str:
    """The listing of all options, a line ``UCX_NAME=value`` each."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.open_memstream.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    libc.free.argtypes = [ctypes.c_void_p]
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        raise MemoryError("open_memstream")
    ucx.ucp_config_print(config, stream, None, _PRINT_CONFIG)
    libc.fclose(stream)
    try:
        return ctypes.string_at(text.value or 0, size.value).decode(errors="replace")
    finally:
        libc.free(text)


def _parsed(text: str) -> Dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("UCX_"):
            found[name[len("UCX_"):]] = value
    return found


def options(given: Dict[str, str]) -> Dict[str, str]:
    """The options of UCX with `given` applied: name without ``UCX_`` -> value.

    From 1.12 on UCX lists and checks those of its upper layer only; others are as the environment and
    `given` say.  Where UCX is not installed all of them are.
    Raises UCXConfigError for a value that UCX does not take, or a name that it says it does not know.
    """
    told = _parsed("\n".join(f"{key}={value}" for key, value in os.environ.items()))
    ucx = _library()
    if ucx is None:
        return {**told, **given}
    config = ctypes.c_void_p()
    if ucx.ucp_config_read(None, None, ctypes.byref(config)):
        raise UCXConfigError("UCX cannot read its options: a variable UCX_* is not valid")
    try:
        for name, value in given.items():
            _modify(ucx, config, name, value)
        return {**told, **given, **_parsed(_printed(ucx, config))}
    finally:
        ucx.ucp_config_release(config)


@contextlib.contextmanager
def in_environment(given: Dict[str, str]) -> Iterator[None]:
    """Has the options in the environment for as long as the block lasts."""
    names = {"UCX_" + name: str(value) for name, value in given.items()}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _names(transports: str) -> List[str]:
    """The transports of a list, without what may stand at each: a backslash, and ``:aux``."""
    names = [name.strip().partition(":")[0].lstrip("\\") for name in transports.split(",")]
    return [name for name in names if name]


def _family(name: str) -> str:
    return name.partition("_")[0]


def _lane_of(name: str) -> Optional[str]:
    return _LANE_OF.get(name, "ucx" if _family(name) in _NETWORKS else None)


def _is_known(name: str) -> bool:
    return name == "all" or _family(name) in _MEMORY or _lane_of(name) is not None


def _allowed(known: Set[str]) -> Optional[Set[str]]:
    """The lanes of these transports; None: all, as where there are only kinds of memory."""
    found = {lane for lane in map(_lane_of, known) if lane}
    return None if "all" in known or (known and not found) else found


def _left(forbidden: Set[str]) -> Optional[Set[str]]:
    """The lanes without these transports; None: all.  One goes when all is forbidden that it is for."""
    if "all" in forbidden:
        return set()
    found = {lane for lane, groups in _WHOLE_LANE.items()
             if not any(group <= forbidden for group in groups)}
    if len(found) == len(_WHOLE_LANE):
        return None
    return found if _library() is not None else found - {"ucx"}


def lanes(transports: Optional[str], told_by: str) -> Optional[str]:
    """The lanes that a list of UCX's transports (its option TLS) allows; None: as by default.

    A list that begins with ``^`` says what may not be used.
    told_by: where the list is from.  Raises UCXConfigError, with both, when it leaves nothing.
    """
    if not transports or "WHERRY_LANES" in os.environ:
        return None
    forbids = transports.startswith("^")
    names = set(_names(transports[forbids:]))
    known = set(filter(_is_known, names))
    for name in sorted(names - known):
        logger.warning("%s is %r: there is no transport %r", told_by, transports, name)
    found = None if not names else _left(known) if forbids else _allowed(known)
    if found is None:
        return None
    if not found:
        raise UCXConfigError(f"{told_by} is {transports!r}, which leaves no transport that is known; "
                             "the variable WHERRY_LANES=ucx has UCX judge it")
    return ",".join(sorted(found))


def transports(allowed: Iterable[str]) -> List[str]:
    """What UCX calls the likes of these lanes, for ``get_active_transports``."""
    return [name for lane in allowed for name in _TRANSPORTS_OF.get(lane, (lane,))]
