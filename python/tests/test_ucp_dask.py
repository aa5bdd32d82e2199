# SPDX-License-Identifier: BSD-3-Clause
"""distributed's own backend for UCX-Py, as it is, on the module ucp.  Without wherry.dask."""
import asyncio
import os
import signal
import sys
import unittest

try:
    import numpy as np
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError, connect, listen, registry
    from distributed.protocol import to_serialize

    import ucp
    from dask_kit import echo
    MISSING = None
    # After 2025.7 a module of that name only says that the backend was removed.
    if ("ucx" not in registry.backends
            or not hasattr(sys.modules.get("distributed.comm.ucx"), "init_once")):
        MISSING = "this distributed has no backend for UCX-Py any more"
except ImportError as error:
    MISSING = str(error)

SOON = 60  # seconds, for what takes far less


def square(x):
    return x * x


def module_of(name):
    """The file that a worker has imported a module from; None: none."""
    return getattr(sys.modules.get(name), "__file__", None)


def run(test):
    """Make a test of a coroutine function."""
    def wrapped(self):
        async def ends():
            await asyncio.wait_for(test(self), SOON)
            await asyncio.sleep(0.05)  # for the tasks of comms that were closed
        asyncio.run(ends())
        ucp.reset()
    wrapped.__name__ = test.__name__
    return wrapped


@unittest.skipIf(MISSING, MISSING)
class Comms(unittest.TestCase):
    @run
    async def test_messages(self):
        # The echo gets frames and sends them back, as the scheduler does.
        async with listen("ucx://127.0.0.1", echo, deserialize=False) as listener:
            comm = await connect(listener.contact_address)
            big = np.arange(3_000_000)
            await comm.write({"op": "hello", "x": to_serialize(big)})
            got = await comm.read()
            self.assertEqual(got["op"], "hello")
            np.testing.assert_array_equal(got["x"], big)
            for message in ({"op": "hello"}, ["two", b"three" * 10_000]):
                await comm.write(message)
                self.assertEqual(type(message)(await comm.read()), message)
            await comm.close()
            self.assertTrue(comm.closed())

    @run
    async def test_a_closed_comm(self):
        closed = asyncio.get_running_loop().create_future()

        async def handle(comm):
            try:
                await comm.read()
            except CommClosedError as error:
                closed.set_result(error)
        async with listen("ucx://127.0.0.1", handle) as listener:
            comm = await connect(listener.contact_address)
            await comm.close()
            await closed
            with self.assertRaises(CommClosedError):
                await comm.write({})

    @run
    async def test_nobody_listens(self):
        with self.assertRaises(OSError):
            await connect("ucx://127.0.0.1:1", timeout=1)


@unittest.skipIf(MISSING, MISSING)
class Clusters(unittest.TestCase):
    def use(self, client):
        self.assertTrue(client.scheduler.address.startswith("ucx://"))
        self.assertEqual(client.gather(client.map(square, range(50))), [x * x for x in range(50)])
        data = client.scatter(np.ones(2_000_000), broadcast=True)
        self.assertEqual(client.submit(np.sum, data).result(timeout=SOON), 2_000_000)
        parts = client.map(np.full, [200_000] * 4, range(4), pure=False)
        total = client.submit(lambda *parts: sum(part.sum() for part in parts), *parts)
        self.assertEqual(total.result(timeout=SOON), 200_000 * 6)

    def test_in_one_process(self):
        for _ in range(2):  # each has an event loop in a thread of its own
            with LocalCluster(protocol="ucx", processes=False, n_workers=2, threads_per_worker=1,
                              dashboard_address=None) as cluster, Client(cluster) as client:
                self.use(client)
        self.assertNotIn("wherry.dask", sys.modules)

    def test_in_processes(self):
        with LocalCluster(protocol="ucx", n_workers=2, threads_per_worker=1,
                          dashboard_address=None) as cluster, Client(cluster) as client:
            self.use(client)
            for file in client.run(module_of, "ucp").values():
                self.assertEqual(file, ucp.__file__)
            self.assertEqual(set(client.run(module_of, "wherry.dask").values()), {None})

    def test_a_worker_that_dies(self):
        with LocalCluster(protocol="ucx", n_workers=2, threads_per_worker=1,
                          dashboard_address=None) as cluster, Client(cluster) as client:
            pids = client.run(os.getpid)
            os.kill(min(pids.values()), signal.SIGKILL)
            self.assertEqual(client.gather(client.map(square, range(50))),
                             [x * x for x in range(50)])


if __name__ == "__main__":
    unittest.main()
