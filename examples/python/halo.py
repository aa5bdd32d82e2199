# SPDX-License-Identifier: BSD-3-Clause
"""The borders of two halves of a grid, exchanged in every step: a column of an array is a message as it is.

Two processes each have half of a plate, whose left edge is hot, and a column more, for the neighbour's
border.  Heat spreads; at the end the parent gets the other half, transposed while it travels.
"""
import asyncio
import multiprocessing
import sys
from typing import Any

import numpy as np

import wherry

HOST = "127.0.0.1"
ROWS, COLUMNS = 32, 24  # of each half
BORDER, RESULT = 1, 2   # tags


async def spread(ep: wherry.Endpoint, half: Any, border: int, ghost: int, steps: int) -> None:
    """So many steps of a half: its column `border` is the neighbour's column `ghost`."""
    for _ in range(steps):
        await asyncio.gather(ep.send(half[:, border], BORDER), ep.recv(half[:, ghost], BORDER))
        inner = half[1:-1, 1:-1]
        inner += 0.25 * (half[:-2, 1:-1] + half[2:, 1:-1] + half[1:-1, :-2] + half[1:-1, 2:] - 4 * inner)


async def right(port: int, steps: int) -> None:
    half = np.zeros((ROWS, COLUMNS + 1))
    async with await wherry.connect(HOST, port) as ep:
        await spread(ep, half, border=1, ghost=0, steps=steps)
        await ep.send(half[:, 1:].T, RESULT)


async def left(steps: int) -> Any:
    half = np.zeros((ROWS, COLUMNS + 1))
    half[:, 0] = 100
    async with await wherry.listen(None, HOST) as listener:
        other = multiprocessing.get_context("spawn").Process(target=start, args=(listener.port, steps))
        other.start()
        async with await listener.accept() as ep:
            await spread(ep, half, border=-2, ghost=-1, steps=steps)
            theirs = np.zeros((COLUMNS, ROWS))
            await ep.recv(theirs, RESULT)
        other.join()
    return np.hstack([half[:, :-1], theirs.T])


def start(port: int, steps: int) -> None:
    asyncio.run(right(port, steps))


if __name__ == "__main__":
    plate = asyncio.run(left(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
    print(f"{plate[ROWS // 2, COLUMNS // 2]:.1f} degrees inside the left half, "
          f"{plate[ROWS // 2, COLUMNS + COLUMNS // 2]:.1f} inside the right")
