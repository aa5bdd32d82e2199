# SPDX-License-Identifier: BSD-3-Clause
"""Dask on three hosts: network namespaces on one bridge, each with a boot id of its own, so that the engine takes them
for other hosts.  Needs root and distributed: tests/dask_env.py makes an environment that has it.

The scheduler and the client are on the first.  Both cables of the second are on the bridge, and it would take `side`
for what it sends; `main` is what its worker is told.  The third has one, which is pulled.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

try:
    import dask  # noqa: F401
    import numpy as np
    from distributed import Client

    import wherry.dask  # noqa: F401
    MISSING = None
except ImportError as error:
    MISSING = str(error)

SOON = 60  # seconds, for what takes far less
# In which the scheduler must know.  The engine's peer_timeout is 10 s, and begins again where something is sent meanwhile.
DROPPED = 30
PORT = 8786
MOVED = 32 << 20  # bytes from the second host to the third
WORK = 100  # tasks of a tenth of a second
PREFIXES = {"IPv4": "10.98.0.{}", "IPv6": "fd98:77::{}"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # `ip` is not where ordinary users look


def ip(*words):
    return subprocess.run([shutil.which("ip", path=PATH), *words], check=True, capture_output=True, text=True).stdout


def why_not():
    """Why no hosts can be made here; None: they can."""
    if MISSING:
        return MISSING
    if not shutil.which("ip", path=PATH):
        return "the command `ip` is not there"
    name = f"wherry-{uuid.uuid4().hex[:8]}"
    try:
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "hub", "type", "bridge")
        finally:
            ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return "no network namespaces with a bridge: " + error.stderr.strip()
    return None


def bracketed(address):
    return f"[{address}]" if ":" in address else address


class Host:
    """A network namespace; with `hub`, another host, a cable from it to the bridge there."""

    def __init__(self, ends, hub=None):
        self.name = f"wherry-{uuid.uuid4().hex[:8]}"
        ip("netns", "add", self.name)
        ends.callback(ip, "netns", "del", self.name)
        self.hub = hub
        self.boot_id = ends.enter_context(tempfile.NamedTemporaryFile("w", prefix="boot-id-"))
        self.boot_id.write(f"{uuid.uuid4()}\n")
        self.boot_id.flush()
        self.do("link", "set", "lo", "up")
        if not hub:
            self.do("link", "add", "hub", "type", "bridge")

    def do(self, *words):
        return ip("-n", self.name, *words)

    def give(self, device, address):
        if ":" in address:
            self.do("addr", "add", address + "/64", "dev", device, "nodad")
        else:
            self.do("addr", "add", address + "/24", "dev", device)
        self.do("link", "set", device, "up")

    def plug(self, device, socket, address):
        """A cable from `device` here to `socket` at the hub."""
        self.do("link", "add", device, "type", "veth", "peer", "name", socket, "netns", self.hub.name)
        self.hub.do("link", "set", socket, "master", "hub", "up")
        # Each device answers for its own address only, and is asked in its own name.
        for key, value in (("arp_ignore", 1), ("arp_announce", 2)):
            to_file = f"echo {value} > /proc/sys/net/ipv4/conf/{device}/{key}"
            subprocess.run(self.command("sh", "-c", to_file), check=True)
        self.give(device, address)

    def sent(self, device):
        stats, = json.loads(self.do("-j", "-s", "link", "show", device))
        return stats["stats64"]["tx"]["bytes"]

    def command(self, *words):
        mount = f'mount --bind {self.boot_id.name} /proc/sys/kernel/random/boot_id && exec "$@"'
        return [shutil.which("ip", path=PATH), "netns", "exec", self.name, "sh", "-c", mount, "sh", *words]

    def start(self, ends, log, *words, **settings):
        with open(log, "w") as out:
            process = subprocess.Popen(
                self.command(sys.executable, "-W", "ignore", *words), stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **settings})
        ends.callback(end, process)
        return process


def end(process):
    process.kill()
    process.wait()


# ---- what the client does, a process on the first host

def lanes_of(comms):
    return sorted({comm.extra_info["lane"].split(",")[0] for comm in comms})


def lanes_of_worker(dask_worker):
    pool = dask_worker.rpc
    return {address: lanes_of(comms) for kind in (pool.available, pool.occupied)
            for address, comms in kind.items() if comms}


def lanes_of_scheduler(dask_scheduler):
    return {address: lanes_of([stream.comm]) for address, stream in dask_scheduler.stream_comms.items()}


def slow(number):
    time.sleep(0.1)
    return number


def names_of(client):
    """Of the workers that the scheduler has; the client's own list of them is old."""
    return client.run_on_scheduler(lambda dask_scheduler: sorted(w.name for w in dask_scheduler.workers.values()))


def work(address, socket, answer):
    said = {}
    with Client(address, timeout=SOON) as client:
        client.wait_for_workers(2, timeout=SOON)
        there = client.submit(np.ones, MOVED // 8, workers=["second"])
        said["sum"] = float(client.submit(np.sum, there, workers=["third"]).result(SOON))
        said["lanes"] = client.run_on_scheduler(lanes_of_scheduler)
        said["between"] = client.run(lanes_of_worker)
        del there
        begun = client.map(slow, range(WORK), pure=False)
        while sum(future.done() for future in begun) < WORK // 10:
            time.sleep(0.05)
        said["before"] = names_of(client)
        ip("link", "set", socket, "down")
        pulled = time.monotonic()
        while "third" in names_of(client):
            time.sleep(0.1)
        said["dropped"] = time.monotonic() - pulled
        said["results"] = client.gather(begun)
        said["finished"] = time.monotonic() - pulled
        said["after"] = names_of(client)
    pathlib.Path(answer).write_text(json.dumps(said))


# ---- the test

class Hosts(unittest.TestCase):
    def setUp(self):
        why = why_not()
        if why:
            self.skipTest(why)

    def test_IPv4(self):
        self.pull_in_the_middle("IPv4")

    def test_IPv6(self):
        self.pull_in_the_middle("IPv6")

    def pull_in_the_middle(self, family):
        with contextlib.ExitStack() as ends:
            # What is made here goes also when somebody ends this program because it takes too long.
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            ends.callback(signal.signal, signal.SIGTERM, before)
            folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="dask-hosts-")))
            said, sent = self.run_on_hosts(ends, folder, PREFIXES[family].format)
        self.assertEqual(said["sum"], MOVED // 8)
        lanes = list(said["lanes"].values())
        lanes += [lanes for each in said["between"].values() for lanes in each.values()]
        self.assertGreaterEqual(len(lanes), 3)  # of the scheduler with each, and between the two
        for each in lanes:
            self.assertEqual(len(each), 1)
            self.assertTrue(each[0].startswith("stream (tcp"), each)
        self.assertGreater(sent["main"], MOVED)
        self.assertLess(sent["side"], 1 << 20)
        self.assertEqual(said["before"], ["second", "third"])
        self.assertEqual(said["after"], ["second"])
        self.assertEqual(said["results"], list(range(WORK)))
        self.assertLess(said["dropped"], DROPPED)
        print(f"  {family}: the lost worker was dropped after {said['dropped']:.1f} s, "
              f"all was computed after {said['finished']:.1f} s", flush=True)

    def run_on_hosts(self, ends, folder, address):
        """What the client says, and how many bytes each cable of the second host has carried from it."""
        first = Host(ends)
        first.give("hub", address(1))
        second, third = Host(ends, first), Host(ends, first)
        second.plug("side", "second-side", address(12))
        second.plug("main", "second-main", address(2))
        third.plug("main", "third-main", address(3))
        where = f"wherry://{bracketed(address(1))}:{PORT}"
        ours = ["--preload", "wherry.dask", "--no-dashboard"]
        first.start(ends, folder / "scheduler", "-m", "distributed.cli.dask_scheduler", *ours,
                    "--protocol", "wherry", "--host", bracketed(address(1)), "--port", str(PORT))
        for name, host, number in (("second", second, 2), ("third", third, 3)):
            host.start(ends, folder / name, "-m", "distributed.cli.dask_worker", where, *ours, "--name", name,
                       "--host", bracketed(address(number)), "--no-nanny", "--nthreads", "1", "--memory-limit", "0",
                       "--death-timeout", str(SOON), "--local-directory", str(folder),
                       DASK_DISTRIBUTED__COMM__WHERRY__INTERFACE="main")
        answer = folder / "answer"
        self.succeed(folder, first.start(ends, folder / "client", __file__, where, "third-main", str(answer)))
        return json.loads(answer.read_text()), {device: second.sent(device) for device in ("main", "side")}

    def succeed(self, folder, client):
        try:
            code = client.wait(2 * SOON)
        except subprocess.TimeoutExpired:
            code = "none: it hangs"
        if code != 0:
            logs = "\n".join(f"---- {path.name}\n{path.read_text()[-4000:]}"
                             for path in folder.iterdir() if path.is_file())
            self.fail(f"the client's exit code: {code}\n{logs}")


if __name__ == "__main__":
    work(*sys.argv[1:])
