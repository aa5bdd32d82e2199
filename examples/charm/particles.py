# SPDX-License-Identifier: BSD-3-Clause
"""Particles that fly through a square cut into cells; run it with `wherry run -n 4 python particles.py`.

They begin crowded in one corner and drift, so that few processes have most of the work, and not always
the same ones.  Every few steps cells move to processes that have less to do.

particles.py [STRATEGY [FOLDER]]: with a folder, a checkpoint is written there after each balancing, and a
program that is started again goes on from it, on any number of processes.
"""
from wherry.charm import Array, Chare, Future, Reducer, charm, when

SIDE, CELLS = 1 << 16, 6       # of the square; cells of an edge
PARTICLES, STEPS, EVERY = 800, 20, 5
NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]  # itself included


def first(number):
    """Where a particle begins, and how far it flies in a step."""
    a, b, c, d = ((number * factor + 12345) % 65521 / 65521 for factor in (7919, 104729, 1299709, 15485863))
    return int(SIDE * a * a), int(SIDE * b * b), int(SIDE * (0.03 + 0.1 * c)), int(SIDE * (0.1 * d - 0.03))


def flown(particle, steps=1):
    x, y, vx, vy = particle
    return (x + steps * vx) % SIDE, (y + steps * vy) % SIDE, vx, vy


def cell_of(particle):
    return particle[0] * CELLS // SIDE, particle[1] * CELLS // SIDE


def near(particles):
    """How many pairs are close to each other: the work."""
    reach = SIDE // CELLS // 8
    return sum(abs(x - other[0]) < reach and abs(y - other[1]) < reach
               for i, (x, y, _, _) in enumerate(particles) for other in particles[:i])


class Cell(Chare):
    def __init__(self):
        self.particles = [p for p in map(first, range(PARTICLES)) if cell_of(p) == self.thisIndex]
        self.step, self.pairs = 0, 0

    def run(self, end):
        """Makes some steps, then is balanced."""
        self.end = end
        self.advance()

    def advance(self):
        self.step += 1
        self.coming, self.missing = [], len(NEIGHBOURS)
        leaving = {}
        for particle in map(flown, self.particles):
            leaving.setdefault(cell_of(particle), []).append(particle)
        for i, j in NEIGHBOURS:
            there = (self.thisIndex[0] + i) % CELLS, (self.thisIndex[1] + j) % CELLS
            self.thisProxy[there].take(self.step, leaving.get(there, []))

    @when("self.step == step")
    def take(self, step, particles):
        self.coming += particles
        self.missing -= 1
        if self.missing:
            return
        self.particles, self.coming = self.coming, []
        self.pairs += near(self.particles)
        if self.step % EVERY:
            self.advance()
        else:
            self.AtSync()

    def resumeFromSync(self):
        self.reduce(self.end, len(self.particles), Reducer.sum)

    def give(self, end):
        self.reduce(end, self.particles, Reducer.gather)


async def main(args):
    strategy = args[1] if len(args) > 1 else "greedy"
    folder = args[2] if len(args) > 2 else None
    try:
        cells, step = await charm.restart(folder) if folder else (None, 0)
    except LookupError:  # there is no checkpoint yet
        cells, step = None, 0
    if cells is None:
        cells = Array(Cell, (CELLS, CELLS), balance=strategy)
    else:
        print(f"goes on behind step {step}")
    while step < STEPS:
        end = Future()
        cells.run(end)
        assert await end == PARTICLES
        step += EVERY
        last = charm.lastBalance(cells)
        print(f"step {step}: largest load {last.max_before / last.mean_before:.2f} times the mean, balanced "
              f"{last.max_after / last.mean_after:.2f}; {last.moved} of {last.elements} cells moved")
        if folder:
            await charm.checkpoint(folder, (cells, step))
    end = Future()
    cells.give(end)
    there = sorted(particle for cell in await end for particle in cell)
    print("equal to a serial run:", there == sorted(flown(first(i), STEPS) for i in range(PARTICLES)))
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
