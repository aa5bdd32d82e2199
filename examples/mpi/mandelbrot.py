#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Mandelbrot set with mpi4py: `mpiexec -n 4 python mandelbrot.py [--picture FILE.pgm]`.

Each rank computes every size-th row, so that all have some of the slow ones.  Rank 0 receives the rows of a rank where they
belong: one datatype says where these are in the picture.
"""
import argparse
import hashlib
import time

import numpy
from mpi4py import MPI

ROUNDS = 255


def rows(first, step, width, height):
    """How many rounds each point of these rows takes to leave the circle of radius 2."""
    y, x = numpy.ogrid[-1.2:1.2:height * 1j, -2.1:0.7:width * 1j]
    c = (x + 1j * y)[first::step]
    z, count = numpy.zeros_like(c), numpy.zeros(c.shape, numpy.uint8)
    for _ in range(ROUNDS):
        inside = z.real**2 + z.imag**2 <= 4
        z[inside] = z[inside]**2 + c[inside]
        count += inside
    return count


def gather(comm, mine, width, height):
    """The whole picture at rank 0, else None."""
    send = comm.Isend(mine, dest=0)
    picture = None
    if comm.rank == 0:
        picture = numpy.empty((height, width), numpy.uint8)
        for rank in range(comm.size):
            count = len(range(rank, height, comm.size))
            strided = MPI.UINT8_T.Create_vector(count, width, comm.size * width).Commit()
            comm.Recv([picture[rank:], 1, strided], source=rank)
            strided.Free()
    send.Wait()
    return picture


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--picture", help="a file for the picture, as PGM")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    begin = time.monotonic()
    mine = rows(comm.rank, comm.size, options.width, options.height)
    picture = gather(comm, mine, options.width, options.height)
    if comm.rank == 0:
        print(f"mandelbrot: checksum {hashlib.sha256(picture).hexdigest()[:16]}")
        print(f"mandelbrot: {comm.size} ranks, {time.monotonic() - begin:.3f} s")
        if options.picture:
            with open(options.picture, "wb") as file:
                file.write(b"P5 %d %d 255\n" % (options.width, options.height) + picture.tobytes())


if __name__ == "__main__":
    main()
