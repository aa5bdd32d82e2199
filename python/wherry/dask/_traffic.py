# SPDX-License-Identifier: BSD-3-Clause
"""What the comms of a thread have to do with each peer that it has connected to: lanes, bytes, losses.

The engine counts as it works; it is asked when somebody wants to know and when a comm ends, so that messages cost
nothing more.
"""
import threading
import weakref
from typing import Any, Dict, NamedTuple, Optional, Set

import wherry

KEPT = 64  # peers without a comm that are remembered: workers come and go for as long as a cluster is there


class Link(NamedTuple):
    """With one peer: bytes and losses since the process began."""

    lanes: str  # of the comms that are open; empty: there are none
    sent: int
    received: int
    losses: int  # comms that have ended without a close: the peer has died, or one of the two has broken off


class Line:
    """One comm's part in what is known of its peer.  It keeps neither the comm nor the endpoint alive."""

    def __init__(self, ep: "wherry.Endpoint", peer: "Peer") -> None:
        self.ep = weakref.ref(ep)
        self.peer = peer
        self.sent = self.received = 0  # what the peer has got to know
        self.over = False
        peer.lines.add(self)

    def count(self) -> None:
        """Tells the peer what has moved since the last time."""
        ep = self.ep()
        counters = _ask(ep, lambda ep: ep.counters()) if ep is not None else None
        if counters:
            self.peer.sent += counters["sent_bytes"] - self.sent
            self.peer.received += counters["received_bytes"] - self.received
            self.sent, self.received = counters["sent_bytes"], counters["received_bytes"]
        elif ep is None:
            self.peer.lines.discard(self)

    def told(self, error: Exception) -> None:
        """Of the engine, or of the operation that has found it, whichever comes first: the other end is not there."""
        self._ends(not isinstance(error, wherry.errors.ClosedError))

    def ending(self, closed: bool) -> None:
        """The comm is about to be closed, which may still be told that the peer is gone, or to be broken off."""
        self.count()
        if not closed:
            self._ends(True)
        self.peer.lines.discard(self)

    def _ends(self, lost: bool) -> None:
        if lost and not self.over:
            self.peer.losses += 1
        self.over = True


class Peer:
    """What is known of an address."""

    def __init__(self) -> None:
        self.lines: Set[Line] = set()
        self.sent = self.received = self.losses = 0

    def link(self) -> Link:
        lanes = ""
        for line in list(self.lines):
            line.count()
            ep = line.ep()
            if ep is not None and not lanes:  # one whose peer is gone has none
                lanes = _ask(ep, lambda ep: ep.lanes) or ""
        return Link(lanes, self.sent, self.received, self.losses)


class _Peers(threading.local):
    def __init__(self) -> None:
        self.by_address: Dict[str, Peer] = {}


_here = _Peers()


def opened(ep: "wherry.Endpoint", address: str) -> Line:
    """A comm over `ep` has been connected to `address`."""
    peer = _here.by_address.pop(address, None) or Peer()
    _here.by_address[address] = peer  # the last ones are the latest
    line = Line(ep, peer)
    ep.on_lost(line.told)
    _forget()
    return line


def links() -> Dict[str, Link]:
    """What there is to say of each address, in the thread that owns the comms."""
    return {address: peer.link() for address, peer in _here.by_address.items()}


def _forget() -> None:
    idle = [address for address, peer in _here.by_address.items() if not peer.lines]
    for address in idle[:-KEPT]:
        del _here.by_address[address]


def _ask(ep: "wherry.Endpoint", what: Any) -> Optional[Any]:
    """None where the endpoint has been closed, or another thread owns it."""
    try:
        return what(ep)
    except wherry.Error:
        return None
