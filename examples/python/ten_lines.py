# SPDX-License-Identifier: BSD-3-Clause
"""Two talking processes in ten lines: `ten_lines.py serve PORT`, `ten_lines.py ask PORT`."""
import asyncio
import sys

import wherry


async def greet(ep: wherry.Endpoint) -> None:
    await ep.send_obj(b"hello, " + await ep.recv_obj())
    await ep.close()


async def serve(port: int) -> None:
    async with await wherry.listen(greet, "127.0.0.1", port):
        await asyncio.sleep(3600)


async def ask(port: int) -> None:
    async with await wherry.connect("127.0.0.1", port) as ep:
        await ep.send_obj(b"client")
        print((await ep.recv_obj()).decode())


asyncio.run({"serve": serve, "ask": ask}[sys.argv[1]](int(sys.argv[2])))
