# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of Dask's comms share, whatever serves them; and those of what its workers measure."""
import asyncio
import contextlib
import time
import types

import numpy as np
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError, connect, listen

SOON = 30  # seconds, for what takes far less
SIZE = 4 << 20  # bytes of what workers fetch from each other

# What a worker of that name might say of another one.
GOOD = {"pairs": {"x://b": {"host": [3, 30, 1e9, 2e9, 3e9]}}, "links": {"x://b": ["shm (shm ring)", 10, 20, 1]}}


async def echo(comm):
    try:
        while True:
            await comm.write(await comm.read())
    except CommClosedError:
        pass


def of(workers):
    """A scheduler that has heard this from its workers: address -> (name, what its metric says)."""
    return types.SimpleNamespace(address="x://scheduler", workers={
        address: types.SimpleNamespace(name=name, metrics={"wherry": said})
        for address, (name, said) in workers.items()})


def metrics(client):
    return {address: worker["metrics"].get("wherry")
            for address, worker in client.scheduler_info()["workers"].items()}


def until(true):
    limit = time.monotonic() + SOON
    while not true():
        if time.monotonic() > limit:
            raise AssertionError("it has not come in time")
        time.sleep(0.05)


@contextlib.contextmanager
def cluster(**how):
    with LocalCluster(**{"n_workers": 2, "threads_per_worker": 1, "protocol": "wherry", "host": "127.0.0.1",
                         "dashboard_address": "127.0.0.1:0", **how}) as made, Client(made) as client:
        yield made, client


def ones():
    return np.ones(SIZE, np.uint8)


def fetch(client, source, target, make=ones):
    """Has one worker fetch something large from another one."""
    made = client.submit(make, workers=[source], pure=False)
    client.submit(type, made, workers=[target], pure=False).result(SOON)


class Pair:
    """A listener and one comm to it: `here`, and `there` as its handler has it."""

    def __init__(self, handler=None):
        self.handler = handler

    async def __aenter__(self):
        came = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()

        async def handle(comm):
            came.set_result(comm)
            if self.handler:
                await self.handler(comm)
            await self.over.wait()

        # What is echoed is not looked at.
        self.listener = await listen("wherry://127.0.0.1:0", handle,
                                     deserialize=self.handler is not echo)
        self.here = await connect(self.listener.contact_address)
        self.there = await came
        return self

    async def __aexit__(self, *args):
        self.over.set()
        self.here.abort()
        self.there.abort()
        self.listener.stop()
