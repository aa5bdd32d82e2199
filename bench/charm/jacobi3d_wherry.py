# SPDX-License-Identifier: BSD-3-Clause
"""Jacobi's iteration in blocks that exchange faces by channels, over wherry.charm: jacobi3d_wherry.py CELLS BLOCKS ITERATIONS"""
import kit
import stencil

from wherry.charm import Array, Channel, Chare, Future, Reducer, charm

WARM_UP = 2  # iterations


class Block(Chare):
    def __init__(self, cells, blocks):
        self.cells = stencil.Cells(cells // blocks, self.thisIndex[0] == 0)
        self.channels = {side: Channel(self, remote=self.thisProxy[other])
                         for side, other in stencil.neighbours(self.thisIndex, blocks)}

    async def run(self, iterations, end):
        for _ in range(iterations):
            for side, channel in self.channels.items():
                channel.send(self.cells.face(*side))
            for side, channel in self.channels.items():
                self.cells.put(*side, await channel.recv())
            self.cells.relax()
        self.reduce(end, self.cells.heat(), Reducer.sum)


async def main(args):
    cells, blocks, iterations = map(int, args[1:])
    box, end = Array(Block, (blocks,) * 3, args=[cells, blocks]), Future()
    box.run(WARM_UP, end)
    await end
    end, began = Future(), kit.clock()
    box.run(iterations, end)
    heat = await end
    kit.tell({"seconds": kit.clock() - began, "heat": heat})
    charm.exit()


charm.start(main)
