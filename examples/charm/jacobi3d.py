# SPDX-License-Identifier: BSD-3-Clause
"""Jacobi's iteration in a box that is cut into blocks: ``wherry run -n 4 python jacobi3d.py 48 4 100``.

48 cells along each edge, 4 x 4 x 4 blocks, 100 iterations. The blocks exchange their faces by channels;
while one waits for a face, others of its process compute. Needs numpy.
"""
import itertools

import numpy

from wherry.charm import Array, Channel, Chare, Future, Reducer, charm

HOT = 1.0  # at the face x = 0 of the box; the other five are at 0
SIDES = [(axis, step) for axis in range(3) for step in (-1, 1)]


def average(old):
    """The mean of the six neighbours of each cell inside."""
    inside = slice(1, -1)
    return (old[:-2, inside, inside] + old[2:, inside, inside] + old[inside, :-2, inside]
            + old[inside, 2:, inside] + old[inside, inside, :-2] + old[inside, inside, 2:]) / 6


def layer(axis, at):
    """An index of one layer of cells across an axis, without the edges."""
    return tuple(at if each == axis else slice(1, -1) for each in range(3))


class Block(Chare):
    def __init__(self, cells, blocks):
        size = cells // blocks
        self.field = numpy.zeros((size + 2,) * 3)  # with the neighbours' faces around
        if self.thisIndex[0] == 0:
            self.field[0] = HOT
        self.channels = {}
        for axis, step in SIDES:
            other = list(self.thisIndex)
            other[axis] += step
            if 0 <= other[axis] < blocks:
                self.channels[axis, step] = Channel(self, remote=self.thisProxy[tuple(other)])

    async def run(self, iterations, done):
        for _ in range(iterations):
            for (axis, step), channel in self.channels.items():
                channel.send(self.field[layer(axis, -2 if step > 0 else 1)])
            for (axis, step), channel in self.channels.items():
                self.field[layer(axis, -1 if step > 0 else 0)] = await channel.recv()
            new = average(self.field)
            change = float(abs(new - self.field[1:-1, 1:-1, 1:-1]).max())
            self.field[1:-1, 1:-1, 1:-1] = new
        self.reduce(done, change, Reducer.max)

    def inside(self):
        return self.field[1:-1, 1:-1, 1:-1]


def serial(cells, iterations):
    field = numpy.zeros((cells + 2,) * 3)
    field[0] = HOT
    for _ in range(iterations):
        field[1:-1, 1:-1, 1:-1] = average(field)
    return field[1:-1, 1:-1, 1:-1]


async def main(args):
    cells, blocks, iterations = map(int, args[1:]) if len(args) == 4 else (24, 3, 30)
    if cells % blocks:
        raise SystemExit(f"{cells} cells cannot be cut into {blocks} blocks of one size")
    box, done = Array(Block, (blocks,) * 3, args=[cells, blocks]), Future()
    box.run(iterations, done)
    print(f"{blocks ** 3} blocks, {iterations} iterations, last change {await done:.2e}")
    whole, size = numpy.empty((cells,) * 3), cells // blocks
    places = itertools.product(range(blocks), repeat=3)
    for place, part in zip(places, await box.inside(ret=True)):
        whole[tuple(slice(i * size, (i + 1) * size) for i in place)] = part
    print("equal to a serial run:", bool((whole == serial(cells, iterations)).all()))
    charm.exit()


charm.start(main)
