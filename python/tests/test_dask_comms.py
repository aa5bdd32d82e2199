# SPDX-License-Identifier: BSD-3-Clause
"""What distributed expects of any comm without saying so.  Needs it: tests/dask_env.py makes an environment that has it."""
import asyncio
import contextlib
import copy
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from kit import run_for

try:
    import dask
    import msgpack
    import numpy as np
    import yaml
    import distributed.comm.utils
    from distributed.comm import CommClosedError, connect, listen, registry
    from distributed.core import send_recv
    from distributed.protocol import dumps, serialize, to_serialize
    from distributed.protocol.serialize import Serialized, ToPickle

    import wherry.dask  # serves wherry://, also where the package is not installed
    from dask_kit import Pair, echo
    from wherry.dask import _config, _offload
    MISSING = None
except ImportError as error:
    MISSING = str(error)

SOON = 30  # seconds, for what takes far less
LARGE = 11_000_000  # bytes, more than distributed.comm.offload

# It says what stopped it; it would wait longer than the test does.
CONNECT = """
import asyncio
import wherry.dask
from distributed.comm import connect
try:
    asyncio.run(connect("wherry://127.0.0.1:1", timeout=100))
except OSError as error:
    print(type(error).__name__, error)
"""


def answer(pipe):
    """A peer of its own process; it sends its address."""
    async def main():
        async with await listen("wherry://127.0.0.1:0", echo) as listener:
            pipe.send(listener.contact_address)
            await asyncio.sleep(SOON)
    asyncio.run(main())


@contextlib.contextmanager
def other_process():
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    peer = spawn.Process(target=answer, args=(theirs,))
    peer.start()
    try:
        yield peer.pid, ours.recv()
    finally:
        os.kill(peer.pid, signal.SIGKILL)
        peer.join()


@unittest.skipIf(MISSING, MISSING)
class GivenUp(unittest.TestCase):
    """Who gives up waiting has closed the comm: no answer to an earlier question comes to a later one."""

    @run_for(SOON)
    async def test_a_cancelled_read_closes(self):
        async with Pair() as pair:
            await pair.there.write("before")
            await pair.here.write("before")
            self.assertEqual(await pair.there.read(), "before")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(pair.there.read(), 0.05)
            self.assertTrue(pair.there.closed())
            with self.assertRaises(CommClosedError):
                await pair.there.write("after")
            self.assertEqual(await pair.here.read(), "before")
            with self.assertRaises(CommClosedError):
                await pair.here.read()

    @run_for(SOON)
    async def test_a_cancelled_write_closes(self):
        async with Pair() as pair:
            with dask.config.set({"distributed.comm.wherry.unsent-limit": "10 MB"}):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(self.write_on(pair.here), 0.3)
            self.assertTrue(pair.here.closed())

    async def write_on(self, comm):
        for _ in range(8):
            await comm.write({"x": to_serialize(np.ones(1_000_000))})

    def test_a_question_to_a_stopped_process(self):
        async def ask(pid, address, size):
            comm = await connect(address)
            self.assertEqual((await send_recv(comm, op="first"))["op"], "first")
            os.kill(pid, signal.SIGSTOP)
            start = time.monotonic()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(send_recv(comm, op="second", data=bytes(size)), 0.5)
            self.assertTrue(comm.closed())
            return time.monotonic() - start

        for size in (10, 20_000_000):
            with self.subTest(size), other_process() as peer:
                # Politely closing what it does not read would take it five seconds more.
                self.assertLess(asyncio.run(asyncio.wait_for(ask(*peer, size), SOON)), 4)


@unittest.skipIf(MISSING, MISSING)
class Threads(unittest.TestCase):
    """Only messages whose frames take time to make, or to use, are handed to a thread for it."""

    async def handed_over(self, comms, message, received=None):
        """How often a thread is asked to make frames of a message, and to read them."""
        offload = distributed.comm.utils.offload
        with mock.patch("distributed.comm.utils.offload", side_effect=offload) as asked:
            await comms.here.write(message)
            made = asked.call_count
            came = await comms.there.read()
        if received is not None:
            np.testing.assert_equal(came, received)
        return made, asked.call_count - made

    async def by_distributed(self, comms, message):
        """The same, where distributed decides.  The old ones do not see how large the data of to_serialize is."""
        with mock.patch.multiple(_offload, writes_at_once=lambda *_: False, reads_at_once=lambda _: False):
            return await self.handed_over(comms, message)

    @run_for(SOON)
    async def test_arrays_are_used_where_they_are(self):
        words = np.arange(LARGE / 8)
        square = np.asfortranarray(words.reshape(-1, 1000))
        data = {"a": words, "b": square, "c": 3.5}
        view = memoryview(bytearray(LARGE))
        async with Pair() as comms:
            for name, message, received in [
                ("get_data", {"status": "OK", "data": {key: to_serialize(value) for key, value in data.items()}},
                 {"status": "OK", "data": data}),
                ("update_data", {"op": "update_data", "data": {"a": to_serialize(words)}, "client": "c"}, None),
                ("a collection", to_serialize([words, (1, "two")]), [words, (1, "two")]),
                ("nested", to_serialize({"a": [square], "b": [words, None]}), {"a": [square], "b": [words, None]}),
                ("not to be written to", to_serialize(np.frombuffer(bytes(LARGE))), np.zeros(LARGE // 8)),
                ("a memoryview", to_serialize(view), view),
                ("frames that are there", Serialized(*serialize(words)), words),
            ]:
                with self.subTest(name):
                    self.assertEqual((await self.by_distributed(comms, message))[1], 1)
                    self.assertEqual(await self.handed_over(comms, message, received), (0, 0))

    @run_for(SOON)
    async def test_what_is_copied_only_when_it_is_read(self):
        words = np.ones(LARGE // 8)
        async with Pair() as comms:
            for name, message, received in [
                ("bytes", to_serialize(bytes(LARGE)), bytes(LARGE)),
                ("an array in a pickle of others", to_serialize([("name", words)]), [("name", words)]),
                ("an array in a pickle", {"op": "x", "a": ToPickle(words)}, {"op": "x", "a": words}),
            ]:
                with self.subTest(name):
                    self.assertEqual(await self.handed_over(comms, message, received), (0, 1))

    @run_for(SOON)
    async def test_what_takes_time_is_handed_over(self):
        words = np.arange(LARGE / 4)
        texts = np.array(["%d" % i for i in range(LARGE // 8)], object)
        async with Pair() as comms:
            for name, message, received in [
                ("text", {"op": "x", "a": to_serialize("x" * LARGE)}, {"op": "x", "a": "x" * LARGE}),
                ("text in the message itself", {"op": "x", "a": "x" * LARGE}, {"op": "x", "a": "x" * LARGE}),
                ("bytes in the message itself", {"op": "x", "a": bytes(LARGE)}, {"op": "x", "a": bytes(LARGE)}),
                ("an array of objects", to_serialize(texts), texts),
                ("more than are looked at", [to_serialize(words[i:i + 20_000]) for i in range(2 * _offload.MOST)], None),
            ]:
                with self.subTest(name):
                    made, read = await self.by_distributed(comms, message)
                    self.assertEqual(await self.handed_over(comms, message, received), (made, read))
                    self.assertEqual(read, 1)
                    self.assertFalse(_offload.writes_at_once(message, {"compression": None}))

    @run_for(SOON)
    async def test_what_compresses_is_handed_over(self):
        words = np.random.default_rng(1).integers(0, 1 << 32, LARGE // 4)  # half of each is zero
        async with Pair() as comms:
            comms.here.handshake_options["compression"] = "zlib"
            message = {"op": "x", "a": to_serialize(words)}
            made, read = await self.by_distributed(comms, message)
            self.assertEqual(await self.handed_over(comms, message, {"op": "x", "a": words}), (made, 1))
            self.assertEqual(read, 1)
            self.assertFalse(_offload.writes_at_once(message, {"compression": "zlib"}))
            self.assertFalse(_offload.writes_at_once(message, {}))  # which means distributed's default

    def test_what_is_not_known_for_certain_is_left_to_distributed(self):
        def at_once(value, *serializers):
            return _offload.writes_at_once(to_serialize(value), {"compression": None}, serializers)

        words = np.ones(LARGE // 8)
        self.assertTrue(at_once(words))
        self.assertTrue(at_once(words, "dask", "pickle"))
        self.assertFalse(at_once(words, "dask", "somebody's"))
        self.assertFalse(at_once(words[::2]))
        self.assertFalse(at_once(np.ma.masked_array(words)))
        self.assertFalse(at_once([words, object()]))

    def test_frames_of_another_form_are_left_to_distributed(self):
        words = np.ones(LARGE // 8)
        context = {"compression": None}

        def frames(message=words, **how):
            return [memoryview(bytearray(frame)) for frame in
                    dumps(to_serialize(message), context=context, **{"frame_split_size": 2**62, **how})]

        def said(**changes):
            """The same with something else in the header."""
            first, header, data = frames()
            known = msgpack.loads(header, strict_map_key=False)
            return [first, memoryview(bytearray(msgpack.dumps({**known, **changes}))), data]

        self.assertTrue(_offload.reads_at_once(frames()))
        self.assertTrue(_offload.reads_at_once(said()))
        first, header, data = frames()
        for name, other in {
            "cut": frames(frame_split_size=4 << 20),
            "compressed": said(compression=("zlib",)),
            "another serializer": said(serializer="pickle"),
            "another type": said(type="pandas.DataFrame"),
            "nothing about compression": said(compression=None),
            "no number of frames": said(**{"num-sub-frames": "1"}),
            "a negative number of frames": said(**{"num-sub-frames": -1}),
            "no end of parts": said(**{"is-collection": True}),
            "no header": [first, data],
            "a header that is none": [first, memoryview(b"\xc1"), data],
            "a large message": [data, header, data],
            "of a device": [first, header, object()],
            "not to be written to": [first, header, data.toreadonly()],
        }.items():
            with self.subTest(name):
                self.assertFalse(_offload.reads_at_once(other))


@unittest.skipIf(MISSING, MISSING)
class Listeners(unittest.TestCase):
    @run_for(SOON)
    async def test_a_stop_leaves_what_has_connected(self):
        """Also where the listener waits for the other half of the handshake."""
        listener = await listen("wherry://127.0.0.1:0", echo)
        backend = registry.get_backend("wherry")
        comm = await backend.get_connector().connect(listener.contact_address.split("://")[1])
        await comm.read()
        listener.stop()
        await asyncio.sleep(0.05)
        await comm.write(comm.handshake_info())
        await comm.write("there")
        self.assertEqual(await comm.read(), "there")
        comm.abort()

    @run_for(SOON)
    async def test_each_side_knows_the_other_by_the_same_address(self):
        """Also where the processes have a link already, by an older listener."""
        async with Pair() as first, Pair() as second:
            for pair in (first, second):
                self.assertEqual(pair.there.local_address, pair.here.peer_address)
                self.assertEqual(pair.there.peer_address, pair.here.local_address)


@unittest.skipIf(MISSING, MISSING)
class Settings(unittest.TestCase):
    def test_the_schema_describes_every_setting(self):
        folder = pathlib.Path(_config.__file__).parent
        known = yaml.safe_load((folder / "wherry-schema.yaml").read_text())
        for key in ("distributed", "comm", "wherry"):
            known = known["properties"][key]
        self.assertEqual(list(known["properties"]), list(_config._defaults))
        types = {"string": str, "integer": int, "null": type(None)}
        for name, value in _config._defaults.items():
            described = known["properties"][name]
            self.assertGreater(len(described["description"]), 20, name)
            if "enum" in described:
                self.assertIn(value, described["enum"], name)
            else:
                allowed = described["type"] if isinstance(described["type"], list) else [described["type"]]
                self.assertIsInstance(value, tuple(types[each] for each in allowed), name)

    @run_for(SOON)
    async def test_a_setting_that_does_not_exist_is_told(self):
        with dask.config.set({"distributed.comm.wherry.spin_ms": 1}), self.assertLogs(_config.logger) as logs:
            _config._make()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("distributed.comm.wherry.spin-ms: there is no such setting", logs.output[0])

    def variable(self, name, text):
        """As Dask reads it of the environment."""
        return dask.config.set(dask.config.collect_env({f"DASK_DISTRIBUTED__COMM__WHERRY__{name}": text}))

    def test_variables_of_the_environment(self):
        for name, text, wanted in (
                ("CPUS", "0", "0"), ("CPUS", "0,1", "0-1"), ("CPUS", "0-2,8", "0-2,8"), ("CPUS", "None", None),
                ("CPUS", "''", ""), ("SECRET", "123456789012", "123456789012"), ("SECRET", "a1", "a1"),
                ("LANES", "shm,stream", "shm,stream"), ("LANES", "['shm','stream']", "shm,stream"),
                ("UNSENT_LIMIT", "1 MB", 1_000_000), ("UNSENT_LIMIT", "5", 5), ("UNSENT_LIMIT", "None", 64 << 20),
                ("POOL_MAX", "1e6", 1_000_000), ("POOL_MAX", "3M", "3M"), ("SPIN_US", "0", 0), ("SPIN_US", "'7'", 7)):
            with self.subTest(name=name, text=text), self.variable(name, text):
                self.assertEqual(_config.option(name.lower().replace("_", "-")), wanted)

    def test_what_makes_no_sense_is_told_by_name(self):
        """When the process joins, and not in the middle of something."""
        for name, text in (("CPUS", "x"), ("CPUS", "2-1"), ("CPUS", "1.5"), ("SECRET", "1e5"), ("SECRET", "True"),
                           ("UNSENT_LIMIT", "nix"), ("UNSENT_LIMIT", "(1,2)"), ("UNSENT_LIMIT", "-1"),
                           ("UNSENT_LIMIT", "1e999"), ("POOL_MAX", "-1"), ("SPIN_US", "x"), ("PROGRESS", "False"),
                           ("LANES", "{}")):
            with self.subTest(name=name, text=text), self.variable(name, text):
                key = name.lower().replace("_", "-")
                with self.assertRaisesRegex(ValueError, rf"^distributed\.comm\.wherry\.{key}: ") as caught:
                    _config._make()
                if name == "SECRET":
                    self.assertNotIn(repr(dask.config.get("distributed.comm.wherry.secret")), str(caught.exception))

    def test_mistakes_are_told_at_once(self):
        """By a process that connects, which distributed would have try again for as long as it waits."""
        with tempfile.NamedTemporaryFile() as open_to_all:
            os.chmod(open_to_all.name, 0o644)
            for variable, text, why in (
                    ("WHERRY_SECRET_FILE", "/nowhere/at/all", "cannot be read"),
                    ("WHERRY_SECRET_FILE", open_to_all.name, "chmod 600"),
                    ("DASK_DISTRIBUTED__COMM__WHERRY__LANES", "nonsense", "lanes is \"nonsense\""),
                    ("DASK_DISTRIBUTED__COMM__WHERRY__UNSENT_LIMIT", "nix", "unsent-limit")):
                with self.subTest(text):
                    ended = subprocess.run(
                        [sys.executable, "-W", "ignore", "-c", CONNECT], text=True, capture_output=True, timeout=SOON,
                        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), variable: text})
                    self.assertIn("FatalCommClosedError", ended.stdout, ended.stderr)
                    self.assertIn(why, ended.stdout)

    @run_for(SOON)
    async def test_the_pool_has_the_size_that_was_asked_for_or_suits_the_machine(self):
        kept = _config.parse_bytes(_config.worker().context.config["pool_max"][0].replace("M", "MiB").replace("G", "GiB"))
        self.assertTrue(256 << 20 <= kept <= 1 << 30, kept)
        self.assertLessEqual(kept, max(256 << 20, _config.MEMORY_LIMIT // (8 * _config.CPU_COUNT)))
        with dask.config.set({"distributed.comm.wherry.pool-max": "3M"}):
            self.assertEqual(_config._make().context.config["pool_max"], ("3M", "option"))
        with mock.patch.dict(os.environ, WHERRY_POOL_MAX="5M"):
            self.assertEqual(_config._make().context.config["pool_max"], ("5M", "environment"))

    def test_defaults_hold_where_the_configuration_was_emptied(self):
        before = copy.deepcopy(dask.config.config)
        try:
            del dask.config.config["distributed"]["comm"]["wherry"]
            self.assertIsNone(_config.secret())
            self.assertEqual(_config.unsent_limit(), 64 << 20)
            asyncio.run(asyncio.wait_for(self.talk(), SOON))
        finally:
            dask.config.config.update(before)

    async def talk(self):
        async with Pair(handler=echo) as pair:
            await pair.here.write("there")
            self.assertEqual(await pair.here.read(), "there")


if __name__ == "__main__":
    unittest.main()
