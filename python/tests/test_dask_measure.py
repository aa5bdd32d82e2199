# SPDX-License-Identifier: BSD-3-Clause
"""What Dask's workers measure.  Needs distributed: tests/dask_env.py makes an environment that has it."""
import asyncio
import gc
import os
import signal
import types
import unittest
from unittest import mock

try:
    import dask
    import numpy as np
    from distributed import Client, Scheduler, Worker
    from distributed.comm import CommClosedError, connect, listen
    from distributed.protocol.cuda import cuda_serialize

    from dask_kit import GOOD, SIZE, SOON, cluster, echo, fetch, metrics, of, ones, until
    from wherry.dask import _measure, _traffic
    from wherry.dask._traffic import Link
    MISSING = None
except ImportError as error:
    MISSING = str(error)


class OnDevice:
    """Lives on a device, as far as Dask knows."""


class SaysSo:
    """Offers memory of a device."""

    __cuda_array_interface__ = {"version": 3}


async def eventually(true):
    async def wait():
        while not true():
            await asyncio.sleep(0.02)
    await asyncio.wait_for(wait(), SOON)


@unittest.skipIf(MISSING, MISSING)
class Links(unittest.IsolatedAsyncioTestCase):
    """What comms leave behind, each test with a listener of its own address."""

    async def asyncSetUp(self):
        self.there = []

        async def handle(comm):
            self.there.append(comm)
            await echo(comm)

        self.listener = await listen("wherry://127.0.0.1:0", handle)
        self.address = self.listener.contact_address
        self.here = await connect(self.address)
        await self.talk(b"")

    async def asyncTearDown(self):
        self.here.abort()
        self.listener.stop()

    async def talk(self, data):
        await self.here.write({"data": data})
        self.assertEqual((await self.here.read())["data"], data)

    def link(self):
        return _traffic.links()[self.address]

    async def test_bytes_and_lanes(self):
        before = self.link()
        await self.talk(bytes(SIZE))
        now = self.link()
        for name in ("sent", "received"):
            self.assertGreaterEqual(getattr(now, name), getattr(before, name) + SIZE)
            self.assertLess(getattr(now, name), getattr(before, name) + 1.1 * SIZE)
        self.assertEqual(now.lanes, self.here.extra_info["lane"])
        self.assertTrue(now.lanes)

    async def test_what_has_ended_still_counts(self):
        await self.talk(bytes(SIZE))
        before = self.link()
        await self.here.close()
        self.assertEqual(self.link(), before._replace(lanes=""))
        self.here = await connect(self.address)
        self.assertGreater(self.link().sent, before.sent)
        self.assertEqual(self.link().lanes, before.lanes)

    async def test_a_comm_that_its_peer_breaks_off_is_a_loss(self):
        self.there[0].abort()  # nobody reads here
        await eventually(lambda: self.link().losses)
        with self.assertRaises(CommClosedError):
            await self.here.read()
        self.assertEqual(self.link().losses, 1)  # it is the same one

    async def test_a_read_that_fails_is_a_loss(self):
        reading = asyncio.ensure_future(self.here.read())
        await asyncio.sleep(0)
        self.there[0].abort()
        with self.assertRaises(CommClosedError):
            await reading
        self.assertEqual(self.link().losses, 1)

    async def test_one_that_is_broken_off_here_is_a_loss(self):
        """As Dask does where the scheduler is the first to see that a worker has died."""
        self.here.abort()
        self.here.abort()
        self.assertEqual(self.link().losses, 1)
        self.assertEqual(self.link().lanes, "")

    async def test_a_close_is_none(self):
        closing = asyncio.ensure_future(self.there[0].close())
        with self.assertRaises(CommClosedError):
            await self.here.read()
        await closing
        self.here = await connect(self.address)
        await self.here.close()
        self.assertEqual(self.link().losses, 0)

    async def test_what_nobody_has_asked_for_counts_at_the_end(self):
        await self.talk(bytes(SIZE))
        await self.here.close()
        self.assertGreaterEqual(self.link().received, SIZE)

    async def test_what_a_comm_has_moved_counts_when_nobody_closes_it(self):
        await self.talk(bytes(SIZE))
        before = self.link()
        self.there[0].abort()
        await eventually(lambda: self.link().losses)
        self.here = await connect(self.address)  # and the first one is gone
        gc.collect()
        self.assertGreater(self.link().received, before.received)

    async def test_a_peer_that_a_close_finds_gone_is_a_loss(self):
        """As when the scheduler has a worker's peers close before they have seen that it was killed."""
        await self.talk(b"")
        self.there[0].abort()
        await self.here.close()
        self.assertEqual(self.link().losses, 1)

    async def test_a_close_is_no_loss_whatever_was_pending(self):
        await self.talk(b"")
        reading = asyncio.ensure_future(self.here.read())
        await asyncio.sleep(0)
        await self.here.close()
        with self.assertRaises(CommClosedError):
            await reading
        self.assertEqual(self.link().losses, 0)

    async def test_those_without_a_comm_are_forgotten_in_time(self):
        await self.talk(bytes(SIZE))
        with mock.patch.object(_traffic, "KEPT", 2), mock.patch.object(_traffic, "_here", _traffic._Peers()):
            comms = [await connect(self.address) for _ in range(2)]
            for address in "abcde":
                _traffic.opened(comms[0]._ep, address).ending(True)
            _traffic.opened(comms[0]._ep, "f")
            self.assertEqual(sorted(_traffic.links()), sorted([self.address, "d", "e", "f"]))
            for comm in comms:
                comm.abort()


class Log(list):
    """The transfers of a made-up worker."""

    def came(self, who, total, duration=0.5, **more):
        self.append({"who": who, "total": total, "duration": duration, **more})


@unittest.skipIf(MISSING, MISSING)
class Measuring(unittest.TestCase):
    def setUp(self):
        self.log = Log()
        self.measure = _measure.Transfers(types.SimpleNamespace(transfer_incoming_log=self.log))

    def pairs(self):
        return self.measure(None)["pairs"]

    def test_the_log(self):
        self.log.came("a", 2 << 20, 1.0, memory="host")
        self.log.came("a", 4 << 20, 1.0, memory="host")
        self.log.came("a", 1000, memory="host")  # too small to say something
        self.log.came("a", 8 << 20, 0, memory="host")
        self.log.came("a", 2 << 20, 2.0, memory="cuda")
        self.log.came("b", 2 << 20)
        mega = 1 << 20
        expected = {"a": {"host": [2, 6 * mega, 2.5 * mega, 3 * mega, 3.5 * mega],
                          "cuda": [1, 2 * mega, mega, mega, mega]},
                    "b": {"unknown": [1, 2 * mega, 4 * mega, 4 * mega, 4 * mega]}}
        self.assertEqual(self.pairs(), expected)
        self.assertEqual(self.pairs(), expected)  # nothing counts twice
        self.log.came("b", 2 << 20)
        self.assertEqual(self.pairs()["b"]["unknown"][0], 2)
        del self.log[:]  # what has been looked at may be gone
        self.log.came("b", 2 << 20)
        self.assertEqual(self.pairs()["b"]["unknown"][:2], [3, 6 * mega])

    def test_bandwidth_is_that_of_recent_transfers(self):
        for _ in range(_measure.RECENT):
            self.log.came("a", 2 << 20, 1.0)
        for _ in range(_measure.RECENT):
            self.log.came("a", 2 << 20, 2.0)
        self.assertEqual(self.pairs()["a"]["unknown"],
                         [2 * _measure.RECENT, _measure.RECENT << 22, 1 << 20, 1 << 20, 1 << 20])

    def test_pairs_are_bounded(self):
        for number in range(_measure.KEPT + 5):
            self.log.came(f"w{number}", 2 << 20)
        self.log.came("w5", 2 << 20)
        kept = self.pairs()
        self.assertEqual(len(kept), _measure.KEPT)
        self.assertNotIn("w4", kept)
        self.assertIn("w5", kept)

    def test_kinds_of_memory(self):
        cuda_serialize.register(OnDevice, lambda value: ({}, []))
        array = np.ones(3)
        for values, kind in (([array, 1, "a"], "host"), ([], "host"), ([OnDevice()], "cuda"),
                             ([array, OnDevice()], "cuda"), ([SaysSo()], "cuda")):
            self.assertEqual(_measure.memory_of(values), kind, values)


ODD = [None, 7, "text", [1], {}, {"pairs": 1, "links": "no"}, {"pairs": {"x://b": 4}, "links": {"x://b": 4}},
       {"pairs": {"x://b": {"host": [1, 2, 3]}}, "links": {"x://b": ["shm"]}},
       {"pairs": {"x://b": {"host": [1, 2, 3, None, 5]}}, "links": {"x://b": [3, 1, 1, 1]}},
       {"pairs": {"x://b": {"host": [1, 2, 3, float("nan"), 5]}}, "links": {"x://b": ["shm", -1, 1, 1]}},
       {"pairs": {"x://b": {"host": "12345"}}, "links": {"x://b": "four"}},
       {"pairs": {"x://b": {"floppy": [3, 30, 1e9, 2e9, 3e9]}}, "links": {5: ["shm", 1, 1, 1]}}]


@unittest.skipIf(MISSING, MISSING)
class Reading(unittest.TestCase):
    def test_good(self):
        found = _measure.read(of({"x://a": (0, GOOD), "x://b": ("b", {})}))
        self.assertEqual(found.names, {"x://a": "0", "x://b": "b"})
        self.assertEqual(found.pairs["host"], {("x://b", "x://a"): (3, 30, 1e9, 2e9, 3e9)})
        self.assertEqual(found.links, {("x://a", "x://b"): Link("shm (shm ring)", 10, 20, 1)})

    def test_no_sense(self):
        for said in ODD:
            found = _measure.read(of({"x://a": (0, said), "x://b": (1, said)}))
            self.assertEqual((found.pairs, found.links), ({"host": {}, "cuda": {}, "unknown": {}}, {}), said)
        scheduler = of({"x://a": (0, GOOD), "x://b": (None, None)})
        scheduler.workers["x://b"].metrics = None
        self.assertEqual(len(_measure.read(scheduler).links), 1)

    def test_a_peer_that_is_gone(self):
        found = _measure.read(of({"x://a": (0, GOOD)}))
        self.assertEqual(found.pairs["host"], {})
        self.assertEqual(list(found.links), [("x://a", "x://b")])


class Large:
    """Dask sends it as it is pickled; what counts is where it says that its memory is."""

    def __init__(self):
        self.data = bytes(SIZE)

    def __sizeof__(self):
        return SIZE


def on_device():
    """Has a worker believe that Large is memory of a device."""
    cuda_serialize.register(Large, lambda value: ({}, []))


@unittest.skipIf(MISSING, MISSING)
class Attaching(unittest.TestCase):
    def test_what_it_cannot_attach_to(self):
        """The handlers of listeners are of all kinds."""
        for server in (None, 7, [], object(), Worker):
            _measure.attach(server)

    def test_a_release_that_has_changed(self):
        changed = Worker.__new__(Worker)  # which has no log
        changed.metrics = {}
        with self.assertNoLogs("wherry", "INFO"), self.assertLogs("wherry.dask._measure", "DEBUG") as told:
            _measure.attach(changed)
        self.assertIn("the Worker measures and shows nothing of Wherry", told.output[0])
        self.assertEqual(changed.metrics, {})


@unittest.skipIf(MISSING, MISSING)
class Clusters(unittest.TestCase):
    def test_measures_reach_the_scheduler(self):
        with cluster() as (made, client):
            client.run(on_device)
            one, other = metrics(client)
            fetch(client, one, other)
            fetch(client, one, other)
            fetch(client, one, other, Large)
            until(lambda: sum(len(each) for each in metrics(client)[other]["pairs"].values()) == 2)
            measured = metrics(client)
            self.assertEqual(measured[one]["pairs"], {})
            self.assertEqual(set(measured[other]["pairs"]), {one})
            host, device = (measured[other]["pairs"][one][kind] for kind in ("host", "cuda"))
            self.assertEqual(list(host[:2]), [2, 2 * SIZE])
            self.assertEqual(device[0], 1)
            self.assertTrue(SIZE <= device[1] < SIZE + 1000, device)
            for numbers in (host, device):
                self.assertTrue(0 < numbers[2] <= numbers[3] <= numbers[4], numbers)
            link = Link(*measured[other]["links"][one])
            self.assertGreaterEqual(link.received, 3 * SIZE)
            self.assertRegex(link.lanes, r"^\w+ \(")
            self.assertEqual(link.losses, 0)
            self.assertIn(made.scheduler_address, measured[other]["links"])
            found = _measure.read(made.scheduler)
            self.assertEqual(found.pairs["host"][one, other], tuple(host))
            self.assertEqual(found.links[other, one], link)

    def test_a_killed_worker_is_a_loss_of_the_other(self):
        with cluster() as (made, client):
            one, other = metrics(client)
            fetch(client, one, other)
            pids = client.run(os.getpid)
            os.kill(pids[one], signal.SIGKILL)
            until(lambda: (metrics(client)[other]["links"].get(one) or [0])[-1] > 0)
            until(lambda: one not in metrics(client))
            found = _measure.read(made.scheduler)
            self.assertGreater(found.links[other, one].losses, 0)
            self.assertEqual(found.links[other, one].lanes, "")
            self.assertNotIn((one, other), found.pairs["host"])  # it is no worker any more

    def test_other_protocols_beside_it(self):
        async def main():
            async with Scheduler(protocol=["wherry", "tcp"], port=[0, 0], host="127.0.0.1",
                                 dashboard_address=None) as scheduler:
                mine, tcp = (each.contact_address for each in scheduler.listeners)
                async with Worker(mine, host="127.0.0.1") as one, Worker(tcp, host="127.0.0.1") as two, \
                        Client(mine, asynchronous=True) as client:
                    self.assertTrue(two.address.startswith("tcp://"))
                    measure = one.metrics["wherry"]
                    _measure.attach(one)
                    self.assertIs(one.metrics["wherry"], measure)  # as when it was preloaded, too
                    for source, target in ((one, two), (two, one)):
                        array = client.submit(ones, workers=[source.address], pure=False)
                        await client.submit(type, array, workers=[target.address], pure=False)
                    await one.heartbeat()
                    await two.heartbeat()
                    found = _measure.read(scheduler)
                    self.assertEqual(list(found.pairs["host"]), [(two.address, one.address)])
                    self.assertNotIn((one.address, two.address), found.links)
        with dask.config.set({"distributed.worker.preload": []}):  # so that the one on tcp knows nothing of it
            asyncio.run(asyncio.wait_for(main(), SOON))

    def test_a_preload_measures_other_protocols(self):
        with cluster(protocol="tcp") as (made, client):
            one, other = metrics(client)
            fetch(client, one, other)
            until(lambda: metrics(client)[other]["pairs"])
            self.assertEqual(_measure.read(made.scheduler).pairs["host"][one, other].transfers, 1)
            self.assertEqual(_measure.read(made.scheduler).links, {})


if __name__ == "__main__":
    unittest.main()
