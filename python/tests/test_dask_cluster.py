# SPDX-License-Identifier: BSD-3-Clause
"""wherry.dask's clusters.  Needs distributed: tests/dask_env.py makes an environment that has it."""
import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

try:
    import dask
    import distributed
    import psutil
    from distributed import Client

    from dask_kit import until
    from wherry.dask import DGX, LocalCluster, _pin, _place, _secret
    from wherry.topology import Nic, NumaNode, Topology, from_xml
    MISSING = None
except ImportError as error:
    MISSING = str(error)

MACHINES = pathlib.Path(__file__).parent / "topologies"
SOON = 30  # seconds, for what takes far less
ALL = set(range(16))  # the processors of the machines in files
SECRET = "distributed.comm.wherry.secret"

# Of another process, which does not know the cluster's secret.
STRANGER = """
import sys
import wherry.dask
from distributed import Client
try:
    Client(sys.argv[1], timeout=3)
except OSError as error:
    print("refused", error)
else:
    print("let in")
"""


def interfaces(*names):
    """What psutil says where these have an address."""
    address = types.SimpleNamespace(family=socket.AF_INET)
    return mock.patch.object(psutil, "net_if_addrs", lambda: {name: [address] for name in names})


def visible(text):
    return mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": text})


@unittest.skipIf(MISSING, MISSING)
class Places(unittest.TestCase):
    def setUp(self):
        self.dgx1 = from_xml(MACHINES / "dgx1.xml")
        self.dual = from_xml(MACHINES / "dual-cpu.xml")
        before = mock.patch.dict(os.environ)  # of this test only
        before.start()
        self.addCleanup(before.stop)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)

    def test_per_gpu(self):
        with interfaces("enp1s0f0", "ib0", "ib1", "ib2", "ib3"):
            found = _place.places(self.dgx1, "auto", ALL)
        self.assertEqual([place.name for place in found], [f"GPU{i}" for i in range(8)])
        self.assertEqual([place.cpus for place in found],
                         [(0, 1, 2, 3, 8, 9, 10, 11)] * 4 + [(4, 5, 6, 7, 12, 13, 14, 15)] * 4)
        self.assertEqual([place.netdev for place in found],
                         ["ib0", "ib0", "ib1", "ib1", "ib2", "ib2", "ib3", "ib3"])
        self.assertEqual(found[0].env["CUDA_VISIBLE_DEVICES"], "0,1,2,3,4,5,6,7")
        self.assertEqual(found[5].env["CUDA_VISIBLE_DEVICES"], "5,6,7,0,1,2,3,4")
        self.assertEqual({place.env["CUDA_DEVICE_ORDER"] for place in found}, {"PCI_BUS_ID"})
        self.assertEqual({place.nthreads for place in found}, {1})

    def test_equally_near_interfaces_are_taken_in_turns(self):
        with interfaces("ib1", "ib2", "ib3"):
            found = _place.places(self.dgx1, "gpu", ALL)
        self.assertEqual([place.netdev for place in found][:5], ["ib1", "ib1", "ib1", "ib1", "ib2"])
        with interfaces("ib2", "ib3"):  # both are far from socket 0: no reason for either
            found = _place.places(self.dgx1, "gpu", ALL)
        self.assertEqual([place.netdev for place in found][:5], [None] * 4 + ["ib2"])
        with interfaces("ib0"):
            found = _place.places(self.dgx1, "gpu", ALL)
        self.assertEqual({place.netdev for place in found}, {None})

    def test_per_node(self):
        with interfaces("eno1", "ib0"):
            found = _place.places(self.dual, "auto", ALL)
        self.assertEqual([(place.cpus, place.nthreads, place.netdev, place.env) for place in found],
                         [(tuple(range(8)), 8, "eno1", {}), (tuple(range(8, 16)), 8, "ib0", {})])
        self.assertEqual(len(_place.places(self.dgx1, "numa", ALL)), 2)

    def test_what_the_process_may_not_use_is_not_given_out(self):
        found = _place.places(self.dual, "numa", {1, 2, 9})
        self.assertEqual([place.cpus for place in found], [(1, 2), (9,)])
        self.assertEqual(_place.places(self.dual, "auto", {1, 2}), [])
        self.assertEqual([place.cpus for place in _place.places(self.dual, "numa", {1, 2})], [(1, 2)])
        found = _place.places(self.dgx1, "gpu", {0, 1})  # none of them is near to GPU 4
        self.assertEqual({place.cpus for place in found}, {(0, 1)})

    def test_cuda_visible_devices(self):
        with visible("6, 2"):
            found = _place.places(self.dgx1, "auto", ALL)
            self.assertEqual([(place.name, place.env["CUDA_VISIBLE_DEVICES"]) for place in found],
                             [("GPU6", "6,2"), ("GPU2", "2,6")])
        with visible("GPU-00000000-0000-0000-0000-000000000003"):
            place, = _place.places(self.dgx1, "auto", ALL)
            self.assertEqual(place.name, "GPU3")
        for text in ("", "-1,0"):
            with visible(text):
                self.assertEqual(_place.places(self.dgx1, "auto", ALL)[0].name, "NUMA node 0")
                with self.assertRaisesRegex(ValueError, "CUDA_VISIBLE_DEVICES="):
                    _place.places(self.dgx1, "gpu", ALL)
        for text in ("8", "MIG-1", "GPU-1"):
            with visible(text), self.assertRaisesRegex(ValueError, f"names '{text}'"):
                _place.places(self.dgx1, "auto", ALL)

    def test_nothing_to_choose(self):
        machine = from_xml(MACHINES / "vm.xml")
        self.assertEqual(_place.places(machine, "auto", {0, 1}), [])
        self.assertEqual(len(_place.places(machine, "numa", {0, 1})), 1)
        with self.assertRaisesRegex(ValueError, "no GPU .*hwloc XML vm.xml.*wherry topo"):
            _place.places(machine, "gpu", {0, 1})
        with self.assertRaisesRegex(ValueError, "no processor of any NUMA node"):
            _place.places(machine, "numa", {5})
        with self.assertRaisesRegex(ValueError, "per='socket': it is one of auto, gpu, numa"):
            _place.places(machine, "socket", {0, 1})


@unittest.skipIf(MISSING, MISSING)
class Pinning(unittest.TestCase):
    def test_all_threads(self):
        """Those that are there, and those that they make."""
        mine = os.sched_getaffinity(0)
        stop = threading.Event()
        there = [threading.Thread(target=stop.wait) for _ in range(3)]
        for thread in there:
            thread.start()
        one = {min(mine)}
        try:
            _pin.pin(one)
            there.append(threading.Thread(target=stop.wait))
            there[-1].start()
            self.assertEqual({tuple(os.sched_getaffinity(int(task)))
                              for task in os.listdir("/proc/self/task")}, {tuple(one)})
        finally:
            _pin.pin(mine)
            stop.set()
            for thread in there:
                thread.join()

    def test_by_a_variable_of_the_environment(self):
        """Dask reads 0 as a number, and 0,1 as a tuple."""
        mine = sorted(os.sched_getaffinity(0))
        for cpus in (mine[:1], mine[:2]):
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", "import wherry.dask._pin, os; print(sorted(os.sched_getaffinity(0)))"],
                text=True, capture_output=True, timeout=SOON,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                     "DASK_DISTRIBUTED__COMM__WHERRY__CPUS": ",".join(map(str, cpus))})
            self.assertEqual(ended.stdout.strip(), str(cpus), ended.stderr)


def affinities():
    """Of all threads of a worker's process."""
    return {tuple(sorted(os.sched_getaffinity(int(task)))) for task in os.listdir("/proc/self/task")}


def in_new_thread():
    """Of a thread that a task makes."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tuple(sorted(os.sched_getaffinity(0)))))
    thread.start()
    thread.join()
    return seen


def variables():
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("MINE")


def by_name(client, what):
    """What a function returns on each worker, by the worker's name."""
    names = {address: name for name, address in addresses(client).items()}
    return {names[address]: result for address, result in client.run(what).items()}


def addresses(client):
    """Of the workers, by their names."""
    return {worker["name"]: address for address, worker in client.scheduler_info()["workers"].items()}


def two_nodes(nics=()):
    """The processors of this process in two made-up NUMA nodes; one may be in both."""
    cpus = sorted(os.sched_getaffinity(0))
    low, high = cpus[:(len(cpus) + 1) // 2], cpus[len(cpus) // 2:]
    return Topology("made up", (NumaNode(0, tuple(low)), NumaNode(1, tuple(high))), nics=nics)


@contextlib.contextmanager
def running(kind=None, **options):
    """A cluster and a client of it."""
    made = (kind or LocalCluster)(**{"dashboard_address": ":0", **options})
    with made as cluster, Client(cluster) as client:
        yield cluster, client


@unittest.skipIf(MISSING, MISSING)
class Clusters(unittest.TestCase):
    def test_a_worker_per_node(self):
        machine = two_nodes()
        wanted = {node.index: {node.cpus} for node in machine.nodes}
        with running(topology=machine) as (cluster, client):
            self.assertTrue(cluster.scheduler_address.startswith("wherry://127.0.0.1:"))
            self.assertEqual(by_name(client, affinities), wanted)
            self.assertEqual(by_name(client, in_new_thread), {i: list(cpus) for i, cpus in wanted.items()})
            workers = client.scheduler_info()["workers"].values()
            self.assertEqual({worker["nthreads"] for worker in workers}, {len(machine.nodes[0].cpus)})
            self.assertLessEqual(sum(worker["memory_limit"] for worker in workers),
                                 distributed.system.MEMORY_LIMIT)
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)

    def test_a_restarted_worker_and_a_new_one(self):
        machine = two_nodes()
        cpus = [{node.cpus} for node in machine.nodes]
        with running(topology=machine) as (cluster, client):
            killed = addresses(client)[0]
            os.kill(by_name(client, os.getpid)[0], signal.SIGKILL)
            until(lambda: addresses(client).get(0, killed) != killed)
            self.assertEqual(by_name(client, affinities), dict(enumerate(cpus)))
            cluster.scale(3)
            client.wait_for_workers(3, SOON)
            self.assertEqual(by_name(client, affinities), dict(enumerate([*cpus, cpus[0]])))

    def test_a_place_that_became_free_is_taken(self):
        machine = two_nodes()
        with running(topology=machine) as (cluster, client):
            client.retire_workers([addresses(client)[1]])
            cluster.sync(cluster.scale_down, [1])
            until(lambda: len(client.scheduler_info()["workers"]) == 1)
            cluster.scale(2)
            client.wait_for_workers(2, SOON)
            self.assertEqual(set().union(*by_name(client, affinities).values()),
                             {node.cpus for node in machine.nodes})

    def test_what_the_caller_has_given_stays(self):
        seen = "import os, dask; dask.config.set({'mine.seen': sorted(os.sched_getaffinity(0))})"
        machine = two_nodes()
        with running(topology=machine, n_workers=1, threads_per_worker=3, env={"MINE": "yes"},
                     preload=seen, config={"mine.too": 7}, name="mine") as (cluster, client):
            worker, = client.scheduler_info()["workers"].values()
            self.assertEqual((worker["nthreads"], cluster.name), (3, "mine"))
            self.assertEqual(by_name(client, variables)[0][1], "yes")
            self.assertEqual(client.run(dask.config.get, "mine.too"), {cluster.workers[0].worker_address: 7})
            at_preload, = client.run(dask.config.get, "mine.seen").values()
            self.assertEqual(tuple(at_preload), machine.nodes[0].cpus)  # pinned before

    def test_dgx(self):
        with running(DGX, topology=from_xml(MACHINES / "dgx1.xml"), n_workers=2) as (cluster, client):
            seen = by_name(client, variables)
            self.assertEqual({name: text for name, (text, _) in seen.items()},
                             {0: "0,1,2,3,4,5,6,7", 1: "1,2,3,4,5,6,7,0"})

    def test_dgx_without_gpus(self):
        with self.assertRaisesRegex(ValueError, "no GPU"):
            DGX(topology=from_xml(MACHINES / "vm.xml"))

    def test_where_there_is_nothing_to_choose(self):
        machine = from_xml(MACHINES / "vm.xml")
        with running(topology=machine, n_workers=1) as (cluster, client):
            self.assertEqual(by_name(client, affinities), {0: {tuple(sorted(os.sched_getaffinity(0)))}})
            self.assertNotIn("preload", cluster.worker_spec[0]["options"])

    def test_threads(self):
        with running(topology=two_nodes(), processes=False) as (_, client):
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)
        for how in ({"processes": False}, {"worker_class": distributed.Worker}):
            with self.assertRaisesRegex(ValueError, "per='numa' places processes"):
                LocalCluster(topology=two_nodes(), per="numa", **how)

    def test_other_protocols(self):
        with running(topology=two_nodes(), protocol="tcp") as (cluster, client):
            self.assertTrue(cluster.scheduler_address.startswith("tcp://"))
            self.assertEqual(len(by_name(client, affinities)), 2)
            self.assertNotIsInstance(cluster.security, _secret.Secured)

    def test_asynchronous(self):
        async def main():
            machine = two_nodes()
            async with LocalCluster(topology=machine, asynchronous=True, dashboard_address=":0") as made:
                async with Client(made, asynchronous=True) as client:
                    seen = await client.run(affinities)
                    self.assertEqual(set().union(*seen.values()), {node.cpus for node in machine.nodes})
        asyncio.run(asyncio.wait_for(main(), SOON))

    def test_the_dashboard(self):
        with running(topology=two_nodes(), n_workers=1) as (cluster, _):
            self.assertIn("/status", cluster.dashboard_link)

    def test_workers_for_other_machines_listen_at_the_nearest_interface(self):
        others = [name for name, addresses in psutil.net_if_addrs().items() if name != "lo"
                  and any(address.family == socket.AF_INET for address in addresses)]
        if not others:
            self.skipTest("no network interface has an address")
        nics = tuple(Nic(name, f"0000:0{i}:00.0", (), i, (), name)
                     for i, name in enumerate(["lo", others[0]]))
        with running(topology=two_nodes(nics), host="0.0.0.0") as (cluster, client):
            hosts = {worker["name"]: worker["host"]
                     for worker in client.scheduler_info()["workers"].values()}
            self.assertEqual(hosts, {0: "127.0.0.1", 1: distributed.utils.get_ip_interface(others[0])})
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)


def stranger(address):
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", STRANGER, address], text=True,
                           capture_output=True, timeout=SOON,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return ended.stdout + ended.stderr


def by_address(address):
    """In a task."""
    with Client(address) as client:
        return client.submit(sum, range(10)).result(SOON)


def by_worker(_):
    with distributed.worker_client() as client:
        return client.submit(sum, range(10)).result(SOON)


def shown(pid):
    """What other processes of the user see of a process."""
    return b"".join(pathlib.Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


@unittest.skipIf(MISSING, MISSING)
class Secrets(unittest.TestCase):
    def test_a_stranger_is_refused(self):
        with running(n_workers=1) as (cluster, client):
            secret = cluster.security.get_connection_args("worker")[_secret.ARGUMENT]
            self.assertRegex(secret, "^[0-9a-f]{64}$")
            for pid in [os.getpid(), *client.run(os.getpid).values()]:
                self.assertNotIn(secret.encode(), shown(pid))
            self.assertNotIn(secret, repr(cluster.security) + cluster.security._repr_html_())
            self.assertIn("refused", stranger(cluster.scheduler_address))
            worker, = client.scheduler_info()["workers"]
            self.assertIn("refused", stranger(worker))
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)

    def test_other_clusters_of_the_process_go_on(self):
        """With a secret of their own or none, whoever began first, and also when they grow."""
        without = {"kind": distributed.LocalCluster, "protocol": "wherry"}
        for processes in (True, False):
            how = {"n_workers": 1, "threads_per_worker": 1, "processes": processes}
            with self.subTest(processes=processes), running(**without, **how) as first:
                with running(**how) as second, running(**without, **how) as third, running(**how) as fourth:
                    for cluster, client in (first, second, third, fourth):
                        cluster.scale(2)
                        client.wait_for_workers(2, SOON)
                        self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)
                        held = client.scatter(b"x" * 2_000_000)
                        self.assertEqual(len(client.gather(held)), 2_000_000)
                self.assertEqual(first[1].submit(sum, range(11)).result(SOON), 55)

    def test_clients_that_have_the_address_alone(self):
        """In the process that has made the cluster, and in its tasks."""
        with running(n_workers=1, threads_per_worker=2) as (cluster, client):
            with Client(cluster.scheduler_address) as other:
                made = other.submit(bytes, 2_000_000)
                self.assertEqual(len(other.gather(made, direct=True)), 2_000_000)
            for task in (by_address, by_worker):
                self.assertEqual(client.submit(task, cluster.scheduler_address).result(SOON), 45)

    def test_one_that_is_not_started_changes_nothing(self):
        async def main():
            LocalCluster(n_workers=1, asynchronous=True, dashboard_address=":0")
        before = dask.config.get(SECRET), dict(_secret._made)
        asyncio.run(main())
        self.assertEqual((dask.config.get(SECRET), dict(_secret._made)), before)

    def test_a_security_of_the_callers(self):
        given = distributed.Security(require_encryption=False, extra_conn_args={"mine": 1})
        with running(n_workers=1, security=given) as (cluster, client):
            self.assertEqual(cluster.security.extra_conn_args, {"mine": 1})
            self.assertIn("refused", stranger(cluster.scheduler_address))
            self.assertEqual(client.submit(sum, range(10)).result(SOON), 45)
        with self.assertRaisesRegex(TypeError, "security must be a Security"):
            LocalCluster(security="of mine")

    def test_one_that_is_configured(self):
        with dask.config.set({SECRET: "of this cluster, 128 bits long"}):
            with running(n_workers=1) as (cluster, _):
                self.assertEqual(dask.config.get(SECRET), "of this cluster, 128 bits long")
                with mock.patch.dict(os.environ, {"WHERRY_SECRET": "of this cluster, 128 bits long"}):
                    self.assertIn("let in", stranger(cluster.scheduler_address))
            self.assertEqual(dask.config.get(SECRET), "of this cluster, 128 bits long")
        for name in ("WHERRY_SECRET", "WHERRY_SECRET_FILE"):
            with mock.patch.dict(os.environ, {name: "something"}):
                self.assertTrue(_secret.is_configured())
        self.assertFalse(_secret.is_configured())

    def test_a_loader_of_the_users_stays(self):
        with dask.config.set({"distributed.client.security-loader": "mine.load"}):
            with running(n_workers=1, processes=False):
                self.assertEqual(dask.config.get("distributed.client.security-loader"), "mine.load")


if __name__ == "__main__":
    unittest.main()
