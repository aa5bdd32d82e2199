# SPDX-License-Identifier: BSD-3-Clause
"""Jacobi's iteration in blocks that exchange faces by channels, over charm4py: jacobi3d_charm4py.py CELLS BLOCKS ITERATIONS"""
import kit
import stencil
from charm4py import Array, Channel, Chare, Future, Reducer, charm, coro

WARM_UP = 2  # iterations


class Block(Chare):
    def __init__(self, cells, blocks):
        self.cells = stencil.Cells(cells // blocks, self.thisIndex[0] == 0)
        self.channels = {side: Channel(self, remote=self.thisProxy[other])
                         for side, other in stencil.neighbours(self.thisIndex, blocks)}

    @coro
    def run(self, iterations, end):
        for _ in range(iterations):
            for side, channel in self.channels.items():
                channel.send(self.cells.face(*side))
            for side, channel in self.channels.items():
                self.cells.put(*side, channel.recv())
            self.cells.relax()
        self.reduce(end, self.cells.heat(), Reducer.sum)


def main(args):
    cells, blocks, iterations = map(int, args[1:])
    box, end = Array(Block, (blocks,) * 3, args=[cells, blocks]), Future()
    box.run(WARM_UP, end)
    end.get()
    end, began = Future(), kit.clock()
    box.run(iterations, end)
    heat = end.get()
    kit.tell({"seconds": kit.clock() - began, "heat": heat})
    charm.exit()


charm.start(main)
