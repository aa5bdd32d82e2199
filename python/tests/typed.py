# SPDX-License-Identifier: BSD-3-Clause
"""What a type checker must find out about the interface; test_stubs.py lets mypy read it."""
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Optional

import wherry

if TYPE_CHECKING:
    from typing_extensions import assert_type


async def conversations(ep: wherry.Endpoint) -> None:
    assert_type(await ep.send(b"x"), None)
    assert_type(await ep.recv(bytearray(1), 1, wherry.ALL, timeout=0.5), int)
    assert_type(await ep.recv_obj(into=[bytearray(1), None]), Any)
    assert_type(ep.recv(bytearray(1)).result(1.0), int)
    assert_type(ep.recv(bytearray(1)).source, Optional[wherry.Endpoint])
    assert_type(ep.probe(), Optional[wherry.Probed])
    message = ep.take(0, 0)
    if message is not None:
        assert_type(await message.recv(bytearray(message.size)), int)


async def layouts(ep: wherry.Endpoint, remote: wherry.RemoteMemory) -> None:
    buf = bytearray(64)
    column = wherry.types.vector(8, 1, 8, wherry.types.BYTE)
    assert_type(await ep.send(buf, type=column, origin=2), None)
    assert_type(await ep.recv(buf, 1, type=wherry.types.INT, count=16), int)
    view = wherry.types.View(buf, column, origin=2)
    assert_type((view.type, view.count, view.origin), "tuple[wherry.types.Type, int, int]")
    await ep.send_obj([view, b"x"])
    assert_type(await ep.recv_obj(into=[view]), Any)
    assert_type(await remote.put(view), None)
    assert_type(await remote.get(buf, type=column), None)
    await ep.am_send(1, buf, type=column)


async def habits(ep: wherry.Endpoint, listener: wherry.Listener, worker: wherry.Worker) -> None:
    op = ep.recv(bytearray(1))
    done, pending = await asyncio.wait({op}, timeout=0.1)
    assert_type(done.pop().result(), int)
    size, nothing = await asyncio.gather(op, ep.send(b"x"))
    assert_type(size, int)
    assert_type(nothing, None)
    assert_type(await asyncio.wait_for(op, 1), int)
    assert_type(await asyncio.shield(op), int)
    for first in asyncio.as_completed([op]):
        assert_type(await first, int)
    async for obj in ep.objects(3, timeout=1):
        assert_type(obj, Any)
    async for obj in worker.objects():
        assert_type(obj, Any)
    async for other in listener:
        assert_type(other, wherry.Endpoint)
    assert_type(await worker.flush(), None)


async def connecting(worker: wherry.Worker) -> None:
    async with await wherry.listen(conversations, "127.0.0.1") as listener:
        assert_type(await listener.accept(), wherry.Endpoint)
        async with await worker.connect("127.0.0.1", listener.port, secret=b"s") as ep:
            assert_type(ep, wherry.Endpoint)
    worker.set_allocator("host", lambda part: bytearray(part.size))


async def one_sided(ep: wherry.Endpoint) -> None:
    with wherry.alloc(8) as memory, ep.open_key(memory.key) as remote:
        memoryview(memory)[0] = 1
        assert_type(await remote.get(bytearray(8)), None)
        assert_type(await remote.atomic("add", 0, 1), int)
        assert_type(await remote.atomic("add", 0, 1, fetch=False), None)
    device = wherry.DeviceMemory(8, "sim")
    assert_type(wherry.copy_memory(device, b"x"), int)
    await ep.send(device)
