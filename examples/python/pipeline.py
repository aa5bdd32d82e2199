# SPDX-License-Identifier: BSD-3-Clause
"""A pipeline of tasks: produce -> square -> collect, with back-pressure and an end by cancellation.

The middle stage is slow.  A synchronous send is done when the next stage takes the message, so no
stage runs ahead of the one behind it.
"""
import asyncio
from typing import List, Tuple

import wherry

HOST = "127.0.0.1"
ENOUGH = 20


async def link() -> Tuple[wherry.Endpoint, wherry.Endpoint]:
    """Both ends of a conversation; here in one process."""
    async with await wherry.listen(None, HOST) as listener:
        connecting = wherry.connect(HOST, listener.port)
        return await connecting, await listener.accept()


async def produce(to: wherry.Endpoint, made: List[int]) -> None:
    while True:
        number = len(made)
        await to.send(number.to_bytes(8, "little"), sync=True)
        made.append(number)


async def square(source: wherry.Endpoint, to: wherry.Endpoint) -> None:
    buf = bytearray(8)
    while True:
        await source.recv(buf)
        await asyncio.sleep(0.001)
        number = int.from_bytes(buf, "little")
        await to.send((number * number).to_bytes(8, "little"), sync=True)


async def main() -> None:
    a, b = await link()
    c, d = await link()
    made: List[int] = []
    stages = [asyncio.create_task(produce(a, made)), asyncio.create_task(square(b, c))]
    buf = bytearray(8)
    results: List[int] = []
    while len(results) < ENOUGH:
        await d.recv(buf)
        results.append(int.from_bytes(buf, "little"))
    for stage in stages:
        stage.cancel()  # their operations are withdrawn, and their buffers are free
    await asyncio.gather(*stages, return_exceptions=True)
    for ep in (a, b, c, d):
        ep.abort()
    assert results == [i * i for i in range(ENOUGH)]
    print(f"{len(results)} results, {len(made)} made: never more than 3 ahead")
    assert len(made) - len(results) <= 3


asyncio.run(main())
