# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a rod, cut into pieces that exchange their ends: ``wherry run -n 4 python heat.py``.

Each piece runs on its own, as far as its neighbours let it; there are more pieces than processes.
"""
from wherry.charm import Array, Chare, charm, when

PIECES, CELLS, STEPS = 8, 16, 200


class Piece(Chare):
    def __init__(self):
        self.step = self.came = 0
        hot = self.thisIndex == 0
        self.cells = [100.0 if hot else 0.0] + [0.0] * CELLS + [0.0]  # with the neighbours' ends

    def begin(self):
        """Gives both neighbours the cells at our ends."""
        i = self.thisIndex
        if i > 0:
            self.thisProxy[i - 1].edge(self.step, CELLS + 1, self.cells[1])
        if i < PIECES - 1:
            self.thisProxy[i + 1].edge(self.step, 0, self.cells[CELLS])

    @when("self.step == step")
    def edge(self, step, place, value):
        self.cells[place] = value
        self.came += 1
        if self.came == (self.thisIndex > 0) + (self.thisIndex < PIECES - 1):
            old = self.cells
            self.cells = [old[0]] + [(old[k - 1] + old[k + 1]) / 2 for k in range(1, CELLS + 1)] + [old[-1]]
            self.step, self.came = self.step + 1, 0
            if self.step < STEPS:
                self.begin()

    @when("self.step == 200")
    def result(self):
        return self.cells[1:-1]


async def main(args):
    rod = Array(Piece, PIECES)
    rod.begin()
    cells = [value for piece in await rod.result(ret=True) for value in piece]
    print(f"after {STEPS} steps {sum(cells):.4f} degrees in all")
    charm.exit()


charm.start(main)
