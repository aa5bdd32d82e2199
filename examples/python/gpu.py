# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a GPU, sent behind the stream that writes them, and received before the stream that reads them.

With cupy, or else torch, and a GPU; without either the device is a simulated one.
"""
import asyncio
from importlib import import_module
from typing import Any, Tuple

import wherry

HOST, ROUNDS, N = "127.0.0.1", 5, 100_000


def with_cupy() -> Tuple[Any, Any, Any, Any]:
    cupy = import_module("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)

    def fill(array: Any, value: int) -> None:
        with stream:
            array.fill(value)  # returns at once: the stream does it later

    return cupy.zeros(N, "f4"), fill, stream, lambda array: float(array.sum())


def with_torch() -> Tuple[Any, Any, Any, Any]:
    torch = import_module("torch")
    stream = torch.cuda.Stream()

    def fill(array: Any, value: int) -> None:
        with torch.cuda.stream(stream):
            array.fill_(value)

    return torch.zeros(N, device="cuda"), fill, stream, lambda array: float(array.sum())


def simulated() -> Tuple[Any, Any, Any, Any]:
    def fill(array: Any, value: int) -> None:
        wherry.copy_memory(array, bytes([value]) * N)

    def total(array: Any) -> int:
        here = bytearray(N)
        wherry.copy_memory(here, array)
        return sum(here)

    return wherry.DeviceMemory(N, "sim"), fill, None, total


def library() -> Tuple[str, Tuple[Any, Any, Any, Any], Tuple[Any, Any, Any, Any]]:
    for make in with_cupy, with_torch:
        try:
            return make.__name__, make(), make()
        except Exception as error:  # not installed, or no GPU: each library says so in its own way
            print(f"{make.__name__}: {error}")
    return simulated.__name__, simulated(), simulated()


async def main() -> None:
    name, (source, fill, stream, _), (sink, _, _, total) = library()
    print(name)
    async with await wherry.listen(None, HOST) as listener:
        a = await wherry.connect(HOST, listener.port)
        b = await listener.accept()
    for value in range(1, ROUNDS + 1):
        fill(source, value)
        # Neither call waits for the stream: the message goes when that has come so far.
        await asyncio.gather(a.send(source, stream=stream), b.recv(sink))
        # Both are done: any stream may read `sink` and write `source` now.
        assert total(sink) == value * N
    await asyncio.gather(a.close(), b.close())
    print(f"{ROUNDS} arrays of {N} elements have come")


if __name__ == "__main__":
    asyncio.run(main())
