# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a rod, cut into pieces with a channel between neighbours: wherry run -n 4 python heat2.py"""
import numpy
from heat import CELLS, EVERY, PIECES, STEPS, advance, difference, fill

from wherry.charm import Array, Channel, Chare, Future, Reducer, charm


class Piece(Chare):
    def __init__(self):
        self.now = numpy.zeros(CELLS + 2)
        self.now[1:-1] = fill(self.thisIndex * CELLS, CELLS)
        self.reported = 0

    async def run(self, end):
        i = self.thisIndex
        left = Channel(self, remote=self.thisProxy[i - 1]) if i > 0 else None
        right = Channel(self, remote=self.thisProxy[i + 1]) if i < PIECES - 1 else None
        for step in range(1, STEPS + 1):
            if left:
                left.send(float(self.now[1]))
            if right:
                right.send(float(self.now[CELLS]))
            if left:
                self.now[0] = await left.recv()  # other pieces of this process run meanwhile
            if right:
                self.now[CELLS + 1] = await right.recv()
            self.now[1:-1] = advance(self.now)
            if step % EVERY == 0:
                self.reduce(self.thisProxy[0].tell_hottest, float(self.now.max()), Reducer.max)
        self.reduce(end)

    def tell_hottest(self, hottest):  # piece 0
        self.reported += EVERY
        print(f"step {self.reported}: {hottest:.3f} degrees")

    def cells(self):
        return self.now[1:-1]


async def main(args):
    end = Future()
    rod = Array(Piece, PIECES)
    rod.run(end)
    await end
    pieces = await rod.cells(ret=True)
    print(f"{PIECES * CELLS} cells, largest difference from the loop: {difference(pieces):g}")
    charm.exit()


charm.start(main)
