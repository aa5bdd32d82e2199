# SPDX-License-Identifier: BSD-3-Clause
"""A parameter server: workers fit a line to noisy points, the server adds up their gradients.

`parameter_server.py [WORKERS]` starts its workers itself, as processes.
"""
import asyncio
import sys

import numpy as np

import wherry

HOST, STEPS, RATE = "127.0.0.1", 200, 0.1
PULL, PUSH = 1, 2  # tags


async def worker(port: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, 1000)
    y = 3.0 * x - 2.0 + random.normal(0, 0.1, 1000)
    model = np.empty(2)
    async with await wherry.connect(HOST, port) as ep:
        for _ in range(STEPS):
            await ep.recv(model, PULL)  # straight into the array
            error = model[0] * x + model[1] - y
            await ep.send(np.array([(error * x).mean(), error.mean()]), PUSH)


async def serve(count: int) -> None:
    model = np.zeros(2)
    async with await wherry.listen(None, HOST) as listener:
        children = [
            await asyncio.create_subprocess_exec(sys.executable, __file__, "worker",
                                                 str(listener.port), str(seed))
            for seed in range(count)]
        eps = [await listener.accept() for _ in range(count)]
    gradients = np.empty((count, 2))
    for _ in range(STEPS):
        await asyncio.gather(*[ep.send(model, PULL) for ep in eps])
        await asyncio.gather(*[ep.recv(gradients[i], PUSH) for i, ep in enumerate(eps)])
        model -= RATE * gradients.mean(axis=0)
    await asyncio.gather(*[ep.close() for ep in eps], *[child.wait() for child in children])
    print(f"y = {model[0]:.2f} x + {model[1]:.2f}")


if sys.argv[1:2] == ["worker"]:
    asyncio.run(worker(int(sys.argv[2]), int(sys.argv[3])))
else:
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
