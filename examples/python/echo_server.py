# SPDX-License-Identifier: BSD-3-Clause
"""An echo server for any number of clients, such as blocking_client.py: `echo_server.py [PORT]`."""
import asyncio
import sys

import wherry


async def echo(ep: wherry.Endpoint) -> None:
    buf = bytearray(1 << 20)
    view = memoryview(buf)
    async with ep:
        try:
            while True:
                op = ep.recv(buf, 0, 0)  # mask 0: whatever the tag is
                size = await op
                await ep.send(view[:size], op.tag)
        except wherry.ClosedError:
            print(f"{ep.peer} has closed", flush=True)
        except wherry.Error as error:  # it died, or what came was not Wherry's
            print(f"lost: {error}", flush=True)


async def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    async with await wherry.listen(echo, port=port) as listener:
        print(listener.port, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
