# SPDX-License-Identifier: BSD-3-Clause
"""Helpers: tags, the address of this machine, event loops, the log."""
import asyncio
import fcntl
import hashlib
import logging
import os
import socket
import struct
from typing import Any, List, Optional

_SIOCGIFADDR = 0x8915


def hash64bits(*args: Any) -> int:
    """64 bits that depend on what ``repr`` says of the arguments; the same in each process."""
    digest = hashlib.blake2b(repr(args).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def tag_number(tag: Any) -> int:
    """A number for any hashable tag; of text and bytes the same in each process."""
    return hash64bits(tag) if isinstance(tag, (str, bytes, tuple)) else hash(tag)


def _address_of(ifname: str) -> Optional[str]:
    """The IPv4 address of an interface; None: it has none, or does not exist."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            found = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", ifname.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(found[20:24])


def _interfaces() -> List[str]:
    """Names, the best first: InfiniBand, others, those of containers, the loopback."""
    names = [name for _, name in socket.if_nameindex()]
    return sorted(names, key=lambda name: (
        name == "lo", name.startswith(("docker", "veth", "br-", "virbr")),
        not name.startswith("ib")))


def get_address(ifname: Optional[str] = None) -> str:
    """The IPv4 address of an interface, such as ``"10.0.0.7"``.

    ifname: its name; default: the variable UCXPY_IFNAME, else the first interface that has an address.
    Raises ValueError when the interface that was named has none.
    """
    asked = ifname or os.environ.get("UCXPY_IFNAME")
    for name in [asked] if asked else _interfaces():
        address = _address_of(name)
        if address is not None:
            return address
    raise ValueError(f"the interface {asked!r} has no IPv4 address, or does not exist" if asked
                     else "no interface of this machine has an IPv4 address")


def get_event_loop() -> asyncio.AbstractEventLoop:
    """The running event loop, or else the one of the calling thread, made if there is none."""
    try:
        return asyncio.get_event_loop()
    except RuntimeError:
        made = asyncio.new_event_loop()
        asyncio.set_event_loop(made)
        return made


def get_ucxpy_logger() -> logging.Logger:
    """The logger ``ucx``; it prints what UCXPY_LOG_LEVEL (default: WARNING) lets through."""
    logger = logging.getLogger("ucx")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(
            f"[%(asctime)s] [{socket.gethostname()}:{os.getpid()}] %(name)s %(levelname)s: "
            "%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(os.environ.get("UCXPY_LOG_LEVEL", "WARNING").upper())
    return logger
