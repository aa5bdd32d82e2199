# SPDX-License-Identifier: BSD-3-Clause
"""Dask over Wherry.  Needs distributed: tests/dask_env.py makes an environment that has it."""
import asyncio
import gc
import importlib.util
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from kit import run_child, run_for

try:
    import dask
    import distributed
    import numpy as np
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError, connect, listen, registry
    from distributed.comm.core import FatalCommClosedError
    from distributed.protocol import to_serialize

    import wherry.dask
    from dask_kit import Pair, echo
    from wherry.dask import bandwidth
    MISSING = None
except ImportError as error:
    MISSING = str(error)

SOON = 30  # seconds, for what takes far less
WORK = 60  # tasks of 50 ms
WORKERS = 24  # each of which takes something from each other one

WHO_SERVES_UCX = """
import wherry.dask
from distributed.comm import registry
print(type(registry.backends["ucx"]).__module__)
"""


@unittest.skipIf(MISSING, MISSING)
class Comms(unittest.TestCase):
    @run_for(SOON)
    async def test_messages_come_as_they_were(self):
        array = np.arange(3_000_000, dtype="f8").reshape(3, -1)
        messages = [
            {"op": "ping"}, {"x": 1, "y": None, "z": [1, 2, "three"]}, {}, {"b": b"\0" * 100_000},
            {"a": to_serialize(array)}, {"f": to_serialize(np.asfortranarray(array))},
            {"s": to_serialize(array[:, ::2])}, {"e": to_serialize(np.empty((0, 3)))},
            {"n": [to_serialize(np.full(10_000, i)) for i in range(40)]},
        ]
        async with Pair(handler=echo) as pair:
            for message in messages:
                await pair.here.write(message)
                back = await pair.here.read()
                self.assertEqual(set(back), set(message))
                for key, value in message.items():
                    self.same(back[key], value)

    def same(self, came, sent):
        if isinstance(sent, list):
            self.assertEqual(len(came), len(sent))
            for one, other in zip(came, sent):
                self.same(one, other)
        elif hasattr(sent, "data") and hasattr(came, "dtype"):
            np.testing.assert_array_equal(came, sent.data)
        else:
            self.assertEqual(came, sent)

    @run_for(SOON)
    async def test_what_came_can_be_written_to(self):
        async with Pair(handler=echo) as pair:
            await pair.here.write({"x": to_serialize(np.zeros(1_000_000))})
            back = (await pair.here.read())["x"]
            back[:] = 1

    @run_for(SOON)
    async def test_who_writes_may_be_who_reads(self):
        async with Pair() as pair:
            await pair.here.write({"x": to_serialize(np.ones(4_000_000))})
            self.assertEqual((await pair.there.read())["x"].sum(), 4_000_000)

    @run_for(SOON)
    async def test_unread_messages_are_bounded(self):
        async with Pair() as pair:
            with dask.config.set({"distributed.comm.wherry.unsent-limit": "10 MB"}):
                async def write():
                    for number in range(8):
                        await pair.here.write({"n": number, "x": to_serialize(np.ones(1_000_000))})
                        written.append(number)

                written = []
                task = asyncio.create_task(write())
                await asyncio.sleep(0.3)
                self.assertLess(len(written), 8)
                for number in range(8):
                    self.assertEqual((await pair.there.read())["n"], number)
                await task

    @run_for(SOON)
    async def test_what_was_written_before_a_close_arrives(self):
        async with Pair() as pair:
            await pair.here.write({"x": to_serialize(np.ones(2_000_000))})
            close = asyncio.create_task(pair.here.close())
            self.assertEqual((await pair.there.read())["x"].shape, (2_000_000,))
            with self.assertRaises(CommClosedError):
                await pair.there.read()
            await close
            self.assertTrue(pair.here.closed() and pair.there.closed())

    @run_for(SOON)
    async def test_an_abort_is_seen(self):
        async with Pair() as pair:
            reading = asyncio.create_task(pair.there.read())
            await asyncio.sleep(0.05)
            pair.here.abort()
            with self.assertRaises(CommClosedError):
                await reading
            with self.assertRaises(CommClosedError):
                await pair.here.write({})
            self.assertTrue(pair.there.closed())

    @run_for(SOON)
    async def test_closed_is_seen_by_any_thread(self):
        async with Pair() as pair:
            seen = []
            pair.here.abort()
            await asyncio.sleep(0.1)
            thread = threading.Thread(target=lambda: seen.append(pair.there.closed()))
            thread.start()
            thread.join()
            self.assertEqual(seen, [True])

    @run_for(SOON)
    async def test_nobody_listens(self):
        with self.assertRaises(OSError):
            await connect("wherry://127.0.0.1:1", timeout=0.5)

    @run_for(SOON)
    async def test_addresses(self):
        async with Pair() as pair:
            self.assertRegex(pair.listener.listen_address, r"^wherry://127\.0\.0\.1:\d+$")
            self.assertEqual(pair.here.peer_address, pair.listener.contact_address)
            for comm in (pair.here, pair.there):
                self.assertTrue(comm.local_address.startswith("wherry://"), comm.local_address)
                self.assertTrue(comm.peer_address.startswith("wherry://"), comm.peer_address)
                self.assertTrue(comm.same_host)
                repr(comm)
        async with await listen("wherry://", lambda comm: None) as everywhere:
            self.assertNotIn("0.0.0.0", everywhere.contact_address)

    @run_for(SOON)
    async def test_a_taken_port(self):
        async with Pair() as pair:
            with self.assertRaises(OSError):
                await listen(pair.listener.listen_address, lambda comm: None)

    @run_for(SOON)
    async def test_encryption_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "no TLS"):
            await listen("wherry://127.0.0.1:0", echo, require_encryption=True)
        with self.assertRaisesRegex(RuntimeError, "no TLS"):
            await connect("wherry://127.0.0.1:1", require_encryption=True, timeout=1)

    @run_for(SOON)
    async def test_a_secret(self):
        with dask.config.set({"distributed.comm.wherry.secret": "of this cluster, 128 bits long"}):
            listener = await listen("wherry://127.0.0.1:0", echo)
            comm = await connect(listener.contact_address)
            await comm.write("in")
            self.assertEqual(await comm.read(), "in")
            comm.abort()
        for wrong in (None, "another one"):
            with dask.config.set({"distributed.comm.wherry.secret": wrong}):
                with self.assertRaises((FatalCommClosedError, OSError)):
                    await connect(listener.contact_address, timeout=1)
        listener.stop()

    @run_for(SOON)
    async def test_many_comms_at_once(self):
        listener = await listen("wherry://127.0.0.1:0", echo)

        async def talk(number):
            comm = await connect(listener.contact_address)
            for turn in range(10):
                await comm.write([number, turn])
                self.assertEqual(tuple(await comm.read()), (number, turn))
            await comm.close()

        await asyncio.gather(*[talk(number) for number in range(100)])
        listener.stop()

    @run_for(SOON)
    async def test_a_read_lets_others_run(self):
        """A comm with messages enough for ever does not keep the loop to itself."""
        turns = 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Pair(handler=echo) as pair:
            counting = asyncio.create_task(count())
            for _ in range(300):
                await pair.here.write({"op": "ping"})
                await pair.here.read()
            counting.cancel()
        self.assertGreater(turns, 5)

    def test_ucx_is_taken_over_where_nothing_works_behind_it(self):
        if importlib.util.find_spec("distributed_ucxx"):
            self.skipTest("somebody else serves it here")
        works = hasattr(sys.modules.get("distributed.comm.ucx"), "init_once")
        for there in ([], ["ucp.py"]):
            with self.subTest(there), tempfile.TemporaryDirectory() as folder:
                for name in there:
                    pathlib.Path(folder, name).touch()
                ended = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", WHO_SERVES_UCX], text=True, capture_output=True,
                    timeout=SOON, env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])})
                left = works and (there or importlib.util.find_spec("ucp"))
                self.assertEqual(ended.stdout.strip(), "distributed.comm.ucx" if left else "wherry.dask._comm",
                                 ended.stderr)

    def test_preloads_of_others_stay(self):
        for modules, argv, wanted in ((["others"], [], []), (["others"], ["--x"], ["--x"]),
                                      (["others"], [["--x"]], [["--x"], []]), ("others", None, [])):
            with dask.config.set({"distributed.worker.preload": modules,
                                  "distributed.worker.preload-argv": argv}):
                wherry.dask._preload()
                self.assertEqual(dask.config.get("distributed.worker.preload"),
                                 ["others", "wherry.dask"])
                self.assertEqual(dask.config.get("distributed.worker.preload-argv"), wanted)
            dask.config.set({"distributed.worker.preload": ["wherry.dask"],
                             "distributed.worker.preload-argv": []})


def die(address):
    async def main():
        comm = await connect(address)
        await comm.write("here")
        await asyncio.sleep(SOON)
    asyncio.run(main())


FORKED = """
import asyncio, os
import wherry.dask
from dask_kit import Pair, echo

async def main():
    async with Pair(handler=echo) as pair:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                closed = pair.here.closed(), pair.there.closed()
                pair.here.abort()
                await pair.there.close()
                code = 0 if closed == (True, True) and pair.here.closed() else 2
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        await pair.here.write("on")
        print(await pair.here.read(), pair.here.closed())
asyncio.run(main())
"""


@unittest.skipIf(MISSING, MISSING)
class Deaths(unittest.TestCase):
    def test_comms_of_the_parent_are_closed_in_a_forked_child(self):
        """Nothing that ends one raises there, and the parent's goes on."""
        code, out, err = run_child(FORKED)
        self.assertEqual((code, out), (0, "0\non False\n"), err)

    @run_for(SOON)
    async def test_a_killed_peer_is_seen_within_a_second(self):
        came = asyncio.get_running_loop().create_future()

        async def handle(comm):
            came.set_result(comm)
            await asyncio.sleep(SOON)

        listener = await listen("wherry://127.0.0.1:0", handle)
        peer = multiprocessing.get_context("spawn").Process(
            target=die, args=(listener.contact_address,))
        peer.start()
        comm = await came
        self.assertEqual(await comm.read(), "here")
        os.kill(peer.pid, signal.SIGKILL)
        killed = time.monotonic()
        with self.assertRaises(CommClosedError):
            await comm.read()
        self.assertLess(time.monotonic() - killed, 10)  # a fraction of a second where nothing else runs
        self.assertTrue(comm.closed())
        listener.stop()
        peer.join()


def cluster(protocol, **how):
    return LocalCluster(n_workers=2, threads_per_worker=1, protocol=protocol, dashboard_address=":0",
                        host="127.0.0.1", **how)


@unittest.skipIf(MISSING, MISSING)
class Clusters(unittest.TestCase):
    def test_processes(self):
        for protocol in ("wherry", "ucx"):
            if not isinstance(registry.get_backend(protocol), wherry.dask.WherryBackend):
                continue
            with self.subTest(protocol), cluster(protocol) as made, Client(made) as client:
                self.assertTrue(made.scheduler_address.startswith(protocol + "://"))
                numbers = client.map(lambda n: n + 1, range(300), pure=False)
                self.assertEqual(client.submit(sum, numbers).result(SOON), sum(range(301)))
                array = np.random.default_rng(0).random(2_000_000)
                there = client.scatter(array)
                moved = client.submit(lambda a: a * 2, there, workers=[self.other(client, there)],
                                      allow_other_workers=False)
                np.testing.assert_array_equal(moved.result(SOON), array * 2)

    def other(self, client, future):
        """A worker that does not have it."""
        has = set(client.who_has([future])[future.key])
        return next(name for name in client.scheduler_info()["workers"] if name not in has)

    def test_threads(self):
        with cluster("wherry", processes=False) as made, Client(made) as client:
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)

    def begin_work(self, client):
        """The workers' processes, and futures that are the numbers up to WORK, some of them already."""
        pids = list(client.run(os.getpid).values())
        slow = client.map(lambda n: time.sleep(0.05) or n, range(WORK), pure=False)
        time.sleep(0.3)
        return pids, slow

    def test_a_killed_worker(self):
        with cluster("wherry") as made, Client(made) as client:
            pids, slow = self.begin_work(client)
            os.kill(pids[0], signal.SIGKILL)
            self.assertEqual(sum(client.gather(slow)), sum(range(WORK)))

    def test_a_stopped_worker_goes_on(self):
        with cluster("wherry") as made, Client(made) as client:
            pids, slow = self.begin_work(client)
            os.kill(pids[0], signal.SIGSTOP)
            time.sleep(3)
            os.kill(pids[0], signal.SIGCONT)
            self.assertEqual(sum(client.gather(slow)), sum(range(WORK)))
            self.assertEqual(sorted(client.run(os.getpid).values()), sorted(pids))  # none was given up

    def test_all_to_all(self):
        with LocalCluster(n_workers=WORKERS, threads_per_worker=1, protocol="wherry", processes=False,
                          dashboard_address=":0", memory_limit=0) as made, Client(made) as client:
            names = [worker.address for worker in made.workers.values()]
            parts = [client.submit(np.full, 20_000, n, workers=[name], pure=False)
                     for n, name in enumerate(names)]
            sums = [client.submit(lambda all: sum(int(a[0]) for a in all), parts, workers=[name],
                                  pure=False) for name in names]
            self.assertEqual(client.gather(sums), [sum(range(WORKERS))] * WORKERS)

    def test_bandwidth(self):
        with cluster("wherry") as made, Client(made) as client:
            bandwidth.exercise(client, nbytes=2 << 20, repeats=3)
            pairs = bandwidth.matrix(client)
            names = sorted(client.scheduler_info()["workers"])
            self.assertEqual(sorted(pairs), [(names[0], names[1]), (names[1], names[0])])
            for pair in pairs.values():
                self.assertEqual((pair.transfers, pair.nbytes >= 3 * (2 << 20)), (3, True))
                self.assertTrue(0 < pair.low <= pair.median <= pair.high)
            self.assertEqual(bandwidth.matrix(client, least=3 << 20), {})
        lines = bandwidth.text(pairs).splitlines()
        self.assertEqual([line.split()[0] for line in lines[3:5]], ["W0", "W1"])
        self.assertEqual([line.split() for line in lines[6:8]], [["W0", names[0]], ["W1", names[1]]])
        self.assertRegex(bandwidth.text({}), "no transfers.*two workers")

    def test_bandwidth_as_a_command(self):
        def run(*words):
            return subprocess.run([sys.executable, "-m", "wherry.dask.bandwidth", *words],
                                  capture_output=True, text=True, timeout=2 * SOON,
                                  env={**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"})
        done = run("--size", "2 MiB", "--repeats", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 transfers", done.stdout)
        for words, why in ((["--protocol", "nix"], "--protocol nix: .*'wherry'"), (["--workers", "1"], "two of them")):
            done = run(*words)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, why)
            self.assertNotIn("Traceback", done.stderr)
        done = run("wherry://127.0.0.1:1", "--log-only")
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:1", done.stderr)
        self.assertNotIn("Traceback", done.stderr.split("bandwidth:")[-1])

    def test_many_in_a_row(self):
        def holds():
            gc.collect()
            return len(os.listdir("/proc/self/fd")), threading.active_count()
        held = []
        for _ in range(4):
            with cluster("wherry", processes=False) as made, Client(made) as client:
                self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)
            del made, client
            held.append(holds())
        # The first leaves what stays for good; a thread of the last may still be on its way out.
        limit = time.monotonic() + SOON
        while holds() > held[1] and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertLessEqual(holds(), held[1])


if __name__ == "__main__":
    print(sys.version, distributed.__version__)
    unittest.main()
