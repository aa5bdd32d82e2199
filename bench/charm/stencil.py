# SPDX-License-Identifier: BSD-3-Clause
"""A block of cells of Jacobi's iteration, for whichever library moves its faces.  Needs numpy, and nothing that compiles."""
import numpy

HOT = 1.0  # at the face x = 0 of the whole box; the other five are at 0
SIDES = [(axis, step) for axis in range(3) for step in (-1, 1)]


def layer(axis, at):
    """An index of one layer of cells across an axis, without the edges."""
    return tuple(at if each == axis else slice(1, -1) for each in range(3))


class Cells:
    """The cells of one block, and the neighbours' faces around."""

    def __init__(self, size, is_hot):
        self.now = numpy.zeros((size + 2,) * 3)
        if is_hot:
            self.now[0] = HOT

    def face(self, axis, step):
        """The outermost layer, as an array by itself: charm4py sends none that lies in strides."""
        return numpy.ascontiguousarray(self.now[layer(axis, -2 if step > 0 else 1)])

    def put(self, axis, step, face):
        """Sets the neighbour's layer."""
        self.now[layer(axis, -1 if step > 0 else 0)] = face

    def relax(self):
        """Makes each cell the mean of its six neighbours."""
        old, inside = self.now, slice(1, -1)
        new = old[:-2, inside, inside] + old[2:, inside, inside]
        new += old[inside, :-2, inside]
        new += old[inside, 2:, inside]
        new += old[inside, inside, :-2]
        new += old[inside, inside, 2:]
        new /= 6
        old[inside, inside, inside] = new

    def heat(self):
        """What tells two runs of the same iterations from others."""
        return float(self.now[1:-1, 1:-1, 1:-1].sum())


def neighbours(index, blocks):
    """(axis, step) of each, and its index."""
    for axis, step in SIDES:
        other = list(index)
        other[axis] += step
        if 0 <= other[axis] < blocks:
            yield (axis, step), tuple(other)
