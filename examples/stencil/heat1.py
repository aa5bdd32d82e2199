# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a rod, cut into pieces that call each other: wherry run -n 4 python heat1.py"""
import numpy
from heat import CELLS, EVERY, PIECES, STEPS, advance, difference, fill

from wherry.charm import Array, Chare, Future, Reducer, charm, when

LEFT, RIGHT = 0, CELLS + 1  # where the neighbours' edges lie


class Piece(Chare):
    def __init__(self, end):
        self.end = end
        self.step = self.missing = self.reported = 0
        self.now = numpy.zeros(CELLS + 2)
        self.now[1:-1] = fill(self.thisIndex * CELLS, CELLS)

    def begin(self):
        self.exchange(self.thisIndex - 1, RIGHT, self.now[1])
        self.exchange(self.thisIndex + 1, LEFT, self.now[CELLS])

    def exchange(self, neighbour, place, value):
        """Sends a neighbour our edge of this step."""
        if 0 <= neighbour < PIECES:
            self.missing += 1
            self.thisProxy[neighbour].take_edge(self.step, place, float(value))

    @when("self.step == step")
    def take_edge(self, step, place, value):
        self.now[place] = value
        self.missing -= 1
        if self.missing == 0:
            self.end_step()

    def end_step(self):
        self.now[1:-1] = advance(self.now)
        self.step += 1
        if self.step % EVERY == 0:
            self.reduce(self.thisProxy[0].tell_hottest, float(self.now.max()), Reducer.max)
        if self.step < STEPS:
            self.begin()
        else:
            self.reduce(self.end)  # of nothing: the future is done when all pieces have said so

    def tell_hottest(self, hottest):  # piece 0
        self.reported += EVERY
        print(f"step {self.reported}: {hottest:.3f} degrees")

    def cells(self):
        return self.now[1:-1]


async def main(args):
    end = Future()
    rod = Array(Piece, PIECES, args=[end])
    rod.begin()
    await end
    pieces = await rod.cells(ret=True)
    print(f"{PIECES * CELLS} cells, largest difference from the loop: {difference(pieces):g}")
    charm.exit()


charm.start(main)
