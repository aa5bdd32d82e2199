# SPDX-License-Identifier: BSD-3-Clause
"""Two talking processes: `hello.py` is the server, `hello.py PORT` the client."""
import asyncio
import sys

import wherry


async def greet(ep: wherry.Endpoint) -> None:
    name = await ep.recv_obj()
    await ep.send_obj(b"hello, " + name)
    await ep.close()


async def main() -> None:
    if len(sys.argv) == 1:
        async with await wherry.listen(greet) as listener:
            print(listener.port, flush=True)
            await asyncio.sleep(3600)
    async with await wherry.connect("127.0.0.1", int(sys.argv[1])) as ep:
        await ep.send_obj(b"client")
        print((await ep.recv_obj()).decode())


asyncio.run(main())
