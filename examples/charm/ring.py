# SPDX-License-Identifier: BSD-3-Clause
"""A token goes round an array of objects, more of them than processes: ``wherry run -n 4 python ring.py 20``."""
from wherry.charm import Array, Chare, Future, charm


class Station(Chare):
    def __init__(self, stations, rounds, end):
        self.last = rounds * stations
        self.next = (self.thisIndex + 1) % stations
        self.end = end

    def take(self, hops, seen):
        if hops == self.last:
            self.end.send((hops, seen))
        else:
            self.thisProxy[self.next].take(hops + 1, seen | {charm.myPe()})


async def main(args):
    stations = int(args[1]) if len(args) > 1 else 10
    end = Future()
    ring = Array(Station, stations, args=[stations, 3, end])
    ring[0].take(0, set())
    hops, seen = await end
    print(f"{hops} hops over {len(seen)} PEs")
    charm.exit()


charm.start(main)
