# SPDX-License-Identifier: BSD-3-Clause
"""What heat1.py and heat2.py have in common: a rod of cells, and its loop in one process."""
import numpy

PIECES, CELLS, STEPS, EVERY = 16, 100, 100, 10


def fill(first, count):
    """The rod at the beginning: hot in the first quarter. Beyond its ends it is always 0 degrees."""
    i = numpy.arange(first, first + count)
    return i * 7919 % 101 * numpy.where(i < PIECES * CELLS // 4, 1.0, 0.05)


def advance(now):
    """The cells after a step, of cells with one more at each end."""
    return now[1:-1] + 0.25 * (now[:-2] - 2 * now[1:-1] + now[2:])


def difference(pieces):
    """The largest difference between the pieces, in order, and the loop."""
    now = numpy.zeros(PIECES * CELLS + 2)
    now[1:-1] = fill(0, PIECES * CELLS)
    for _ in range(STEPS):
        now[1:-1] = advance(now)
    return abs(numpy.concatenate(pieces) - now[1:-1]).max()
