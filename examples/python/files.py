# SPDX-License-Identifier: BSD-3-Clause
"""File exchange: `files.py serve FOLDER`, `files.py get PORT NAME TO`, `files.py put PORT FROM AS`.

A request is an object [verb, name, content]; the answer is [error text, content].  Files go from
and to memory maps, so that no copy of them is made here.
"""
import asyncio
import mmap
import pathlib
import sys
from typing import Union

import wherry

HOST = "127.0.0.1"


def content(path: pathlib.Path) -> Union[bytes, mmap.mmap]:
    if path.stat().st_size == 0:
        return b""  # cannot be mapped
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


async def serve(ep: wherry.Endpoint) -> None:
    folder = pathlib.Path(sys.argv[2]).resolve()
    async with ep:
        try:
            while True:
                verb, name, data = await ep.recv_obj()
                path = (folder / name.decode()).resolve()
                try:
                    if path.parent != folder:
                        raise PermissionError(f"{name!r} is outside of the folder")
                    if verb == b"get":
                        answer = [b"", content(path)]
                    else:
                        path.write_bytes(data)
                        answer = [b"", b""]
                except OSError as error:
                    answer = [str(error).encode(), b""]
                await ep.send_obj(answer)
        except wherry.ClosedError:
            pass


async def main() -> None:
    verb = sys.argv[1]
    if verb == "serve":
        async with await wherry.listen(serve, HOST) as listener:
            print(listener.port, flush=True)
            await asyncio.Event().wait()
    async with await wherry.connect(HOST, int(sys.argv[2])) as ep:
        if verb == "get":
            await ep.send_obj([b"get", sys.argv[3].encode(), b""])
        else:
            await ep.send_obj([b"put", sys.argv[4].encode(), content(pathlib.Path(sys.argv[3]))])
        error, data = await ep.recv_obj()
        if error:
            sys.exit(error.decode())
        if verb == "get":
            pathlib.Path(sys.argv[4]).write_bytes(data)


asyncio.run(main())
