# SPDX-License-Identifier: BSD-3-Clause
"""The module ucp: what UCX-Py's own tests ask of it, in our words, and where it was wrong."""
import array
import asyncio
import contextlib
import gc
import io
import logging
import mmap
import os
import pickle
import unittest

import ucp
import wherry
from kit import Child, LoopCase, run_child
from ucp._libs.arr import Array, sent_of

SIZES = [2**power for power in range(0, 25, 4)]


class Case(LoopCase):
    """Ends the context after each test, which fails if anything still holds it."""

    def tearDown(self):
        gc.collect()
        ucp.reset()


async def join(server, **options):
    """A listener whose endpoints go to `server`, and an endpoint to it."""
    listener = ucp.create_listener(server, **options)
    return listener, await ucp.create_endpoint(ucp.get_address(), listener.port)


async def pair():
    """Both ends of a connection, and the listener."""
    accepted = asyncio.get_running_loop().create_future()
    listener, ours = await join(accepted.set_result)
    return ours, await accepted, listener


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def need_numpy(test):
    try:
        import numpy
    except ImportError:
        test.skipTest("numpy is not installed")
    return numpy


class Messages(Case):
    async def echo(self, blocking, make):
        async def server(ep):
            size = array.array("Q", [0])
            await ep.recv(size)
            data = bytearray(size[0])
            await ep.recv(data)
            await ep.send(data)
            await ep.close()
        ucp.reset()
        ucp.init(blocking_progress_mode=blocking)
        for size in SIZES:
            sent, room = make(size)
            listener, ep = await join(server)
            await ep.send(array.array("Q", [size]))
            self.assertIs(await ep.send(sent), True)
            self.assertIs(await ep.recv(room), True)
            self.assertEqual(bytes(room), bytes(sent))
            await ep.close()
            listener.close()
        del ep, listener

    async def test_bytes_asleep(self):
        await self.echo(True, lambda n: (bytearray(b"m" * n), bytearray(n)))

    async def test_bytes_polling(self):
        await self.echo(False, lambda n: (bytearray(b"m" * n), bytearray(n)))

    async def test_arrays(self):
        def made(size):
            return (array.array("B", [1]) * size, array.array("B", [0]) * size)
        for blocking in (True, False):
            await self.echo(blocking, made)

    async def test_another_size_is_an_error(self):
        for late in (0, 0.05):
            ours, theirs, listener = await pair()
            if late:
                receiving = asyncio.ensure_future(ours.recv(bytearray(100)))
                await asyncio.sleep(late)
                await theirs.send(b"Hey")
            else:
                await theirs.send(b"Hey")
                await asyncio.sleep(0.01)
                receiving = ours.recv(bytearray(100))
            with self.assertRaisesRegex(ucp.UCXMsgTruncated,
                                        r"length mismatch: 3 \(got\) != 100 \(expected\)"):
                await receiving
            await theirs.send(b"longer")
            with self.assertRaisesRegex(ucp.UCXMsgTruncated, r"6 \(got\) != 3 \(expected\)"):
                await ours.recv(bytearray(3))
            await theirs.send(b"fits")
            await ours.recv(bytearray(4))

    async def test_tags(self):
        ours, theirs, listener = await pair()
        one, two, plain = bytearray(4), bytearray(4), bytearray(4)
        second = asyncio.create_task(ours.recv(two, tag="msg2"))
        await theirs.send(b"msg1", tag="msg1")
        await theirs.send(b"none")
        done, pending = await asyncio.wait({second}, timeout=0.02)
        self.assertFalse(done)
        await ours.recv(one, tag="msg1")
        await theirs.send(b"msg2", tag="msg2")
        await second
        await ours.recv(plain)
        self.assertEqual((one, two, plain), (b"msg1", b"msg2", b"none"))
        for tag in (0, -1, (1, "a"), b"bytes", 2.5):
            await theirs.send(b"tag!", tag=tag)
            await ours.recv(one, tag=tag)

    async def test_forced_tags(self):
        ours, theirs, listener = await pair()
        await ours.send(b"1", tag=7, force_tag=True)
        await ours.send(b"2", tag=8, force_tag=True)
        room = bytearray(1)
        await theirs.recv(room, tag=8, force_tag=True)
        self.assertEqual(room, b"2")
        await ucp.recv(room, tag=7)
        self.assertEqual(room, b"1")
        for tag in ("text", None):
            with self.assertRaisesRegex(ValueError, "number"):
                await ours.send(b"", tag=tag, force_tag=True)

    async def test_tags_of_one_connection_only(self):
        ours, theirs, listener = await pair()
        also, theirs_too, listener_too = await pair()
        await also.send(b"b", tag=1)
        await ours.send(b"a", tag=1)
        room = bytearray(1)
        await theirs.recv(room, tag=1)
        self.assertEqual(room, b"a")

    async def test_objects(self):
        ours, theirs, listener = await pair()
        for obj in (b"", b"x", bytes(100_000), pickle.dumps(list(range(1000)))):
            sending = asyncio.ensure_future(ours.send_obj(obj))
            got = await theirs.recv_obj()
            self.assertIsInstance(got, bytearray)
            self.assertEqual(got, obj)
            await sending
        await ours.send_obj(b"abc", tag="a")
        got = await theirs.recv_obj(tag="a", allocator=lambda n: memoryview(bytearray(n)))
        self.assertEqual(bytes(got), b"abc")

    async def test_objects_at_once_do_not_mix(self):
        ours, theirs, listener = await pair()
        sent = [bytes([i]) * (i * 3000 + 1) for i in range(10)]
        sending = asyncio.gather(*[ours.send_obj(data) for data in sent])
        got = await asyncio.gather(*[theirs.recv_obj() for _ in sent])
        await sending
        self.assertEqual([bytes(data) for data in got], sent)

    async def test_an_object_that_is_refused_takes_no_place(self):
        ours, theirs, listener = await pair()
        for wrong in [memoryview(bytes(10))[::2], 17, "text", *self.refused_arrays()]:
            with self.assertRaises((TypeError, ValueError)):
                await ours.send_obj(wrong)
        for obj in b"next", b"third!":
            await ours.send_obj(obj)
        self.assertEqual([await theirs.recv_obj(), await theirs.recv_obj()], [b"next", b"third!"])

    def refused_arrays(self):
        try:
            import numpy
        except ImportError:
            return []
        dates = numpy.arange(6).astype("M8[s]")
        objects = numpy.array([[1, "a"], [2, "b"]], dtype=object)

        class Dlpack:
            nbytes = 24

            def __dlpack__(self, **rest):
                return dates[::2].view("i8").__dlpack__()
        return [numpy.arange(100)[::2], dates[::2], objects, objects.T, Dlpack()]

    async def test_an_object_without_a_buffer(self):
        numpy = need_numpy(self)

        class Dlpack:
            nbytes = 48

            def __dlpack__(self, **rest):
                return numpy.arange(6).__dlpack__()
        ours, theirs, listener = await pair()
        for obj in Dlpack(), numpy.arange(6).astype("M8[s]"):
            await ours.send_obj(obj)
            self.assertEqual(await theirs.recv_obj(), numpy.arange(6).tobytes())

    async def test_an_object_whose_sender_is_cancelled_still_comes(self):
        ours, theirs, listener = await pair()
        sent = [bytes([i]) * size for i, size in enumerate([50_000_000, 10, 3_000_000, 200_000])]
        for obj in sent:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ours.send_obj(obj), 0.02)
        await ours.send_obj(b"next")
        for obj in [*sent, b"next"]:
            self.assertTrue(await theirs.recv_obj() == obj)
        self.assertFalse(theirs._ctx.worker.tag_probe(theirs._tags["msg_recv"]))

    async def test_an_object_whose_sender_is_cancelled_and_closes(self):
        for end in (lambda ep: ep.close(), lambda ep: asyncio.sleep(0, ep.abort())):
            ours, theirs, listener = await pair()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(ours.send_obj(bytes(3_000_000)), 0.02)
            receiving = asyncio.ensure_future(theirs.recv_obj())
            await asyncio.gather(end(ours), asyncio.wait([receiving]))
            if receiving.exception() is None:
                self.assertEqual(receiving.result(), bytes(3_000_000))

    async def test_a_failing_allocator_loses_nothing(self):
        ours, theirs, listener = await pair()
        await ours.send_obj(b"kept")
        with self.assertRaises(ZeroDivisionError):
            await theirs.recv_obj(allocator=lambda n: 1 // 0)
        self.assertEqual(await theirs.recv_obj(), b"kept")
        self.assertFalse(theirs._objects)

    async def test_a_cancelled_receive_takes_no_message(self):
        ours, theirs, listener = await pair()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(theirs.recv(bytearray(1)), 0.01)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(theirs.recv_obj(tag="o"), 0.01)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(theirs.am_recv(), 0.01)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(ucp.recv(bytearray(1), tag=3), 0.01)
        await ours.send(b"1")
        await ours.send_obj(b"2", tag="o")
        await ours.am_send(b"3")
        await ours.send(b"4", tag=3, force_tag=True)
        room = bytearray(1)
        await theirs.recv(room)
        self.assertEqual((room, await theirs.recv_obj(tag="o"), await theirs.am_recv()),
                         (b"1", b"2", b"3"))
        await theirs.recv(room, tag=3, force_tag=True)
        self.assertEqual(room, b"4")

    async def test_order(self):
        ours, theirs, listener = await pair()
        sending = asyncio.gather(*[ours.send(bytes([i]) * 10_000) for i in range(50)])
        for i in range(50):
            room = bytearray(10_000)
            await theirs.recv(room)
            self.assertEqual(room[0], i)
        await sending

    async def test_flush_and_fence(self):
        ours, theirs, listener = await pair()
        await ours.send(b"x")
        await ours.flush()
        await ucp.flush()
        ucp.fence()
        await theirs.recv(bytearray(1))

    async def test_what_cannot_be_sent(self):
        ours, theirs, listener = await pair()
        for wrong in (memoryview(bytes(10))[::2], 17, "text"):
            with self.assertRaises((TypeError, ValueError)):
                await ours.send(wrong)
        with self.assertRaises((TypeError, ValueError)):
            await ours.recv(b"read-only")

    async def test_arrays_in_fortrans_order(self):
        """Their memory as it lies."""
        numpy = need_numpy(self)
        ours, theirs, listener = await pair()
        for kind in "i4", "M8[D]", [("a", "u1"), ("b", "f8")]:
            sent = numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4).astype(kind))
            lying = sent.tobytes("A")
            self.assertEqual(sent_of(sent).__array_interface__["data"], (sent.ctypes.data, False))
            for what in sent, Array(sent):
                raw = bytearray(len(lying))
                await asyncio.gather(ours.send(what), theirs.recv(raw))
                self.assertEqual(raw, lying)
                await asyncio.gather(ours.send_obj(what), self.is_object(theirs, lying))
                await ours.am_send(what)
                self.assertEqual(bytes(await theirs.am_recv()), lying)
            room = numpy.zeros_like(sent)
            self.assertTrue(room.flags.f_contiguous)
            await asyncio.gather(ours.send(lying), theirs.recv(room))
            self.assertTrue((room == sent).all())
        with self.assertRaisesRegex(TypeError, "Python objects"):
            await ours.send(numpy.array([[1, "a"], [2, "b"]], dtype=object).T)
        room.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "read-only"):
            await theirs.recv(room)

    async def is_object(self, ep, expected):
        self.assertEqual(await ep.recv_obj(), expected)

    async def test_devices_in_fortrans_order(self):
        ours, theirs, listener = await pair()
        memory = wherry.DeviceMemory(24, "sim")
        wherry.copy_memory(memory, bytes(range(24)))

        class Matrix:
            __cuda_array_interface__ = {**memory.__cuda_array_interface__, "shape": (2, 3),
                                        "typestr": "<i4", "strides": (4, 8)}
        await ours.send(Matrix())
        raw = bytearray(24)
        await theirs.recv(raw)
        self.assertEqual(raw, bytes(range(24)))
        await theirs.send(bytes(24))
        await ours.recv(Matrix())
        wherry.copy_memory(raw, memory)
        self.assertEqual(raw, bytes(24))
        _, got = await asyncio.gather(ours.am_send(Matrix()), theirs.am_recv())
        self.assertIsInstance(got, wherry.DeviceMemory)


    async def test_a_buffer_that_is_refused_takes_no_message(self):
        numpy = need_numpy(self)

        class Sizeless:
            def __dlpack__(self, **rest):
                return numpy.zeros(1, "i1").__dlpack__()
        ours, theirs, listener = await pair()
        await ours.send(b"1")
        await ours.send(b"2", tag=3, force_tag=True)
        for receiving in (theirs.recv(Sizeless()), theirs.recv(Sizeless(), tag=3, force_tag=True),
                          ucp.recv(Sizeless(), tag=3)):
            with self.assertRaises(ValueError):
                await receiving
        room = bytearray(2)
        await theirs.recv(memoryview(room)[:1])
        await theirs.recv(memoryview(room)[1:], tag=3, force_tag=True)
        self.assertEqual(room, b"12")


class ActiveMessages(Case):
    async def test_sizes(self):
        for blocking in (True, False):
            ucp.reset()
            ucp.init(options={"RNDV_THRESH": "8192"}, blocking_progress_mode=blocking)
            for waits in (True, False):
                ours, theirs, listener = await pair()
                for size in [0, *SIZES]:
                    if waits:
                        receiving = asyncio.ensure_future(theirs.am_recv())
                        await asyncio.sleep(0.01)
                    sending = asyncio.ensure_future(ours.am_send(bytearray(b"m" * size)))
                    if not waits:
                        await asyncio.sleep(0.01)
                        receiving = theirs.am_recv()
                    got = await receiving
                    await sending
                    self.assertIsInstance(got, bytearray)
                    self.assertEqual(got, b"m" * size)
                await ours.close()
                listener.close()
                theirs.abort()

    async def test_allocators(self):
        ours, theirs, listener = await pair()
        ucp.register_am_allocator(lambda n: array.array("B", bytes(n)), "host")
        await ours.am_send(b"abc")
        got = await theirs.am_recv()
        self.assertIsInstance(got, array.array)
        self.assertEqual(bytes(got), b"abc")
        with self.assertRaisesRegex(ucp.UCXError, "allocator type"):
            ucp.register_am_allocator(bytearray, "disk")
        with self.assertRaises(TypeError):
            ucp.register_am_allocator(None, "host")

    async def test_the_kind_of_the_payload(self):
        ours, theirs, listener = await pair()
        device = wherry.DeviceMemory(1000, "sim")
        wherry.copy_memory(device, bytes(range(250)) * 4)
        await asyncio.gather(ours.am_send(device), self.on_device(theirs))
        await ours.am_send(b"host")
        self.assertEqual(await theirs.am_recv(), b"host")

    async def on_device(self, ep):
        got = await ep.am_recv()
        self.assertIsInstance(got, wherry.DeviceMemory)
        back = bytearray(1000)
        wherry.copy_memory(back, got)
        self.assertEqual(back, bytes(range(250)) * 4)

    async def test_cancelled_receives_lose_nothing(self):
        async def cancelled(ep):
            receiving = asyncio.ensure_future(ep.am_recv())
            await asyncio.sleep(0)
            receiving.cancel()
            return await receiving

        async def out_of_time(ep):
            async with asyncio.timeout(0):
                return await ep.am_recv()
        for receive in [cancelled] + [out_of_time] * hasattr(asyncio, "timeout"):
            for size in 10, 100_000, 3_000_000:
                await self.impatiently(receive, [bytes([i]) * size for i in range(20)])

    async def impatiently(self, receive, sent):
        ours, theirs, listener = await pair()
        sending = asyncio.gather(*[ours.am_send(data) for data in sent])
        got = []
        for _ in range(100):
            with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
                got.append(await receive(theirs))
        while len(got) < len(sent):
            got.append(await asyncio.wait_for(theirs.am_recv(), 5))
        await sending
        self.assertTrue(got == sent, [bytes(data[:1]) for data in got])
        self.assertFalse(theirs._ep.am_probe())

    async def test_an_allocator_that_fails(self):
        ours, theirs, listener = await pair()
        ucp.register_am_allocator(lambda n: 1 // 0, "host")
        sending = asyncio.ensure_future(ours.am_send(b"abc"))
        with self.assertRaises(ucp.UCXError) as caught:
            await theirs.am_recv()
        self.assertIsInstance(caught.exception.__cause__.__cause__, ZeroDivisionError)
        await asyncio.wait([sending])
        sending.exception()


class Ends(Case):
    async def ends_receives(self, receive):
        """A close ends what both sides receive."""
        for who in (0, 1):
            *eps, listener = await pair()
            waiting = [asyncio.ensure_future(receive(ep)) for ep in eps]
            await asyncio.sleep(0.01)
            await eps[who].close()
            for op in waiting:
                with self.assertRaises(ucp.UCXCanceled):
                    await op
            self.assertTrue(all(ep.closed() for ep in eps))

    async def test_receives(self):
        await self.ends_receives(lambda ep: ep.recv(bytearray(10**6)))

    async def test_receives_of_forced_tags(self):
        await self.ends_receives(lambda ep: ep.recv(bytearray(10), tag=3, force_tag=True))

    async def test_active_messages(self):
        await self.ends_receives(lambda ep: ep.am_recv())

    async def test_after_the_end(self):
        ours, theirs, listener = await pair()
        await ours.close()
        await ours.close()
        ours.abort()
        for ep in ours, theirs:
            for what in (ep.send(b""), ep.recv(bytearray(1)), ep.am_send(b""), ep.am_recv(),
                         ep.send_obj(b""), ep.recv_obj(), ep.flush()):
                with self.assertRaises((ucp.UCXCloseError, ucp.UCXConnectionReset)):
                    await what
        with self.assertRaises(ucp.UCXConnectionReset):
            theirs._ep.raise_on_error()

    async def test_what_came_before_the_end(self):
        for end in (lambda ep: ep.close(), self.abort, self.drop):
            held = list(await pair())
            theirs = held[1]
            await held[0].send(b"1")
            await held[0].am_send(b"2")
            await held[0].send(b"3", tag=9, force_tag=True)
            ending = end(held.pop(0))
            await ending
            await until(theirs.closed)
            self.assertTrue(theirs._ctx.worker.tag_probe(theirs._tags["msg_recv"]))
            self.assertTrue(theirs._ep.am_probe())
            self.assertFalse(theirs._ep.is_alive())
            room = bytearray(1)
            await theirs.recv(room)
            self.assertEqual((room, await theirs.am_recv()), (b"1", b"2"))
            await theirs.recv(room, tag=9, force_tag=True)
            self.assertEqual(room, b"3")
            self.assertFalse(theirs._ep.am_probe())

    async def test_a_probe_receives_nothing(self):
        asked = []

        def allocator(size):
            asked.append(size)
            return bytearray(size)
        ucp.register_am_allocator(allocator, "host")
        for size in 5, 3_000_000:
            ours, theirs, _ = await pair()
            self.assertIs(theirs._ep.am_probe(), False)
            sending = asyncio.ensure_future(ours.am_send(bytes(size)))
            await until(theirs._ep.am_probe)
            self.assertEqual(asked, [])
            self.assertEqual(await theirs.am_recv(), bytes(size))
            self.assertEqual(asked, [size])
            self.assertIs(theirs._ep.am_probe(), False)
            await sending
            asked.clear()
            below = theirs._ep
            theirs.abort()
            self.assertIs(below.am_probe(), False)

    async def test_a_probe_does_not_see_what_its_sender_has_taken_with_it(self):
        ours, theirs, _ = await pair()
        sending = asyncio.ensure_future(ours.am_send(bytes(3_000_000)))
        await until(theirs._ep.am_probe)
        ours.abort()
        with self.assertRaises(ucp.UCXBaseException):
            await sending
        await until(theirs.closed)
        self.assertIs(theirs._ep.am_probe(), False)

    async def abort(self, ep):
        ep.abort()

    async def drop(self, ep):
        pass

    async def test_close_callback(self):
        for who_closes in (0, 1):
            *eps, listener = await pair()
            called = []
            eps[0].set_close_callback(lambda: called.append(1))
            await eps[who_closes].close()
            self.assertEqual(called, [1])
            eps[0].abort()
            self.assertEqual(called, [1])
            eps[0].set_close_callback(lambda: called.append(2))
            self.assertEqual(called, [1, 2])

    async def test_close_callback_of_an_endpoint_that_is_dropped(self):
        called = []
        ours, theirs, listener = await pair()
        ours.set_close_callback(lambda: called.append(1))
        del ours
        self.assertEqual(called, [1])
        await until(theirs.closed)

    async def test_close_after_n_recv(self):
        async def server(ep):
            for i in range(10):
                await ep.send(bytes(10))
        listener = ucp.create_listener(server)

        async def client(before, n, **how):
            ep = await ucp.create_endpoint(ucp.get_address(), listener.port)
            for _ in range(before):
                await ep.recv(bytearray(10))
            ep.close_after_n_recv(n, **how)
            for _ in range(10 - before):
                await ep.recv(bytearray(10))
            return ep
        self.assertTrue((await client(0, 10)).closed())
        self.assertTrue((await client(5, 5)).closed())
        self.assertTrue((await client(5, 10, count_from_ep_creation=True)).closed())
        ep = await client(9, 2)
        with self.assertRaisesRegex(ucp.UCXError, "has already been set to: 11"):
            ep.close_after_n_recv(1)
        ep = await ucp.create_endpoint(ucp.get_address(), listener.port)
        for _ in range(10):
            await ep.recv(bytearray(10))
        with self.assertRaisesRegex(ucp.UCXError, "`n` cannot be less than current recv_count"):
            ep.close_after_n_recv(5, count_from_ep_creation=True)

    async def test_close_after_n_recv_of_all_kinds(self):
        ours, theirs, listener = await pair()
        ours.close_after_n_recv(5)
        for obj in b"1", b"":
            await theirs.am_send(obj)
        await theirs.send(b"3")
        await theirs.send_obj(b"45")
        self.assertEqual([await ours.am_recv(), await ours.am_recv()], [b"1", b""])
        await ours.recv(bytearray(1))
        self.assertFalse(ours.closed())
        self.assertEqual(await ours.recv_obj(), b"45")
        self.assertTrue(ours.closed())
        ours, theirs, listener = await pair()
        await theirs.am_send(b"")
        self.assertEqual(await ours.am_recv(), b"")
        ours.close_after_n_recv(2, count_from_ep_creation=True)
        await theirs.am_send(b"")
        self.assertEqual(await ours.am_recv(), b"")
        self.assertTrue(ours.closed())

    async def test_listener(self):
        async def server(ep):
            await ep.send(b"1")
            await ep.send(b"2")
            await ep.recv(bytearray(1))
        listener, ep = await join(server)
        self.assertRaises(ucp.UCXError, ucp.create_listener, server, listener.port)
        self.assertEqual(listener.ip, "0.0.0.0")
        await ep.recv(bytearray(1))
        self.assertIs(listener.closed(), False)
        listener.close()
        self.assertIs(listener.closed(), True)
        await ep.recv(bytearray(1))
        with self.assertRaises(ucp.UCXNotConnected):
            await ucp.create_endpoint(ucp.get_address(), listener.port)
        await ep.send(b"x")

    async def test_a_listener_that_is_dropped(self):
        listener, ep = await join(lambda ep: None)
        port = listener.port
        del listener
        with self.assertRaises(ucp.UCXNotConnected):
            await ucp.create_endpoint(ucp.get_address(), port)

    async def test_many_listeners(self):
        seen = []
        listeners = [ucp.create_listener(lambda ep: seen.append(ep)) for _ in range(16)]
        eps = [await ucp.create_endpoint(ucp.get_address(), listener.port)
               for listener in listeners for _ in range(3)]
        await until(lambda: len(seen) == len(eps))

    async def test_others_are_refused(self):
        listener = ucp.create_listener(lambda ep: None)
        with self.assertLogs("ucx", "ERROR"):
            async with await wherry.connect("127.0.0.1", listener.port) as stranger:
                await until(lambda: stranger.lost)
        async with await wherry.listen(wherry.Endpoint.abort, "127.0.0.1",
                                                  data=b"another") as other:
            with self.assertRaisesRegex(ucp.UCXBaseException, "not a listener of ucp|reset"):
                await ucp.create_endpoint("127.0.0.1", other.port)

    async def test_a_peer_that_dies(self):
        with Child(PEER, ucp.get_address()) as child:
            ep = await ucp.create_endpoint(ucp.get_address(), int(child.line()))
            called = []
            ep.set_close_callback(lambda: called.append(1))
            receiving = asyncio.ensure_future(ep.recv(bytearray(1)))
            await asyncio.sleep(0.01)
            child.process.kill()
            with self.assertRaises((ucp.UCXConnectionReset, ucp.UCXCanceled)):
                await receiving
            with self.assertRaises(ucp.UCXBaseException):
                await ep.send(b"x")
            await until(lambda: called)
            await ep.close()


PEER = """
import asyncio, sys, ucp
async def main():
    async def server(ep):
        await ep.recv(bytearray(1))
    listener = ucp.create_listener(server)
    print(listener.port)
    await asyncio.sleep(60)
asyncio.run(main())
"""

# Sends its address to a worker whose address it is told, and is answered over an endpoint to itself.
FAR = """
import asyncio, sys, ucp
async def main():
    ep = await ucp.create_endpoint_from_worker_address(bytes.fromhex(sys.argv[1]))
    mine, tag = ucp.get_worker_address(), int(sys.argv[2])
    head = mine.length.to_bytes(8, "little") + tag.to_bytes(8, "little")
    await ep.send((head + mine).ljust(10000), tag=0, force_tag=True)
    await ep.am_send(b"am")
    room = bytearray(5)
    await ep.recv(room, tag=tag, force_tag=True)
    assert room == b"hello"
    await ep.close()
asyncio.run(main())
"""

# Says its address, and progresses only once it is told to go on; then its worker ends.
SLEEPER = """
import sys, ucp
address = ucp.get_worker_address()
if sys.argv[1] == "gone":
    ucp.reset()
print(address.hex(), flush=True)
sys.stdin.readline()
ucp.reset()
print("ended", flush=True)
sys.stdin.readline()
"""


# Sends messages to a worker whose address it is told, and ends.
PASSING = """
import asyncio, sys, ucp
async def main():
    ep = await ucp.create_endpoint_from_worker_address(bytes.fromhex(sys.argv[1]))
    for text in sys.argv[2:]:
        await ep.am_send(text.encode())
    await ep.close()
asyncio.run(main())
"""


class WorkerAddresses(Case):
    async def test_active_messages_of_those_who_have_gone(self):
        mine = ucp.get_worker_address()
        ep = await ucp.create_endpoint_from_worker_address(mine)
        self.assertIs(ep._ep.am_probe(), False)
        strays = ep._ctx.worker.strays
        for name in "abc":
            child = Child(PASSING, mine.hex(), name)
            await asyncio.get_running_loop().run_in_executor(None, child.end)
        self.assertIs(ep._ep.am_probe(), True)
        self.assertEqual(len(strays.all), 4)
        self.assertEqual([await ep.am_recv() for _ in "abc"], [b"a", b"b", b"c"])
        self.assertIs(ep._ep.am_probe(), False)
        other = await ucp.create_endpoint_from_worker_address(mine)
        await until(lambda: len(strays.all) == 2)
        ep.abort()
        other.abort()

    async def test_the_allocator_for_those_who_have_gone(self):
        mine = ucp.get_worker_address()
        ep = await ucp.create_endpoint_from_worker_address(mine)
        ucp.register_am_allocator(lambda n: array.array("B", bytes(n)), "host")
        for name in "ab":
            child = Child(PASSING, mine.hex(), *[name + i for i in "123"])
            await asyncio.get_running_loop().run_in_executor(None, child.end)
        # Whoever comes has the ends looked at that nobody has.
        other = await ucp.create_endpoint_from_worker_address(mine)
        got = [await ep.am_recv() for _ in range(6)]
        self.assertEqual([type(made) for made in got], [array.array] * 6)
        self.assertEqual([bytes(made) for made in got], [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"])
        ep.abort()
        other.abort()

    async def test_a_probe_leaves_the_message_to_other_endpoints(self):
        mine = ucp.get_worker_address()
        first, second = [await ucp.create_endpoint_from_worker_address(mine) for _ in range(2)]
        self.assertIs(first._ep.am_probe(), False)
        first.abort()
        child = Child(PASSING, mine.hex(), "it")
        await asyncio.get_running_loop().run_in_executor(None, child.end)
        self.assertEqual(await asyncio.wait_for(second.am_recv(), 5), b"it")
        second.abort()

    async def test_both_ways(self):
        mine = ucp.get_worker_address()
        self.assertIsInstance(mine, ucp._libs.ucx_api.UCXAddress)
        self.assertEqual(pickle.loads(pickle.dumps(mine)), mine)
        self.assertEqual(ucp.get_ucx_address_from_buffer(bytearray(mine)), mine)
        children = [Child(FAR, mine.hex(), 100 + i) for i in range(4)]
        for _ in children:
            head = bytearray(10000)
            await ucp.recv(head, tag=0)
            length = int.from_bytes(head[:8], "little")
            ep = await ucp.create_endpoint_from_worker_address(
                ucp.get_ucx_address_from_buffer(head[16:16 + length]))
            self.assertEqual(await ep.am_recv(), b"am")
            await ep.send(b"hello", tag=int.from_bytes(head[8:16], "little"), force_tag=True)
            with self.assertRaisesRegex(ucp.UCXError, "force_tag=True"):
                await ep.send(b"hello")
            await ep.close()
        for child in children:
            loop = asyncio.get_running_loop()
            out = await loop.run_in_executor(None, child.end)
            self.assertEqual((child.process.returncode, out), (0, ("", "")))

    async def test_a_peer_that_does_not_progress(self):
        for receive in (lambda ep: ep.recv(bytearray(10), tag=0, force_tag=True),
                        lambda ep: ep.am_recv(),
                        lambda ep: ep.send(bytes(10), tag=0, force_tag=True),
                        lambda ep: ep.am_send(bytes(10))):
            with Child(SLEEPER, "here") as child:
                ep = await ucp.create_endpoint_from_worker_address(bytes.fromhex(child.line()))
                waiting = asyncio.ensure_future(receive(ep))
                await asyncio.sleep(0.01)
                child.process.stdin.write("\n")
                child.process.stdin.flush()
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, child.line)
                with self.assertRaises(ucp.UCXBaseException):
                    await asyncio.wait_for(waiting, 10)
                await until(ep.closed)

    async def test_a_worker_that_is_gone(self):
        with Child(SLEEPER, "gone") as child:
            address = bytes.fromhex(child.line())
            with self.assertRaisesRegex(ucp.UCXError, "Destination is unreachable") as caught:
                await ucp.create_endpoint_from_worker_address(address)
            self.assertIsInstance(caught.exception, ucp.UCXUnreachable)
            self.assertIsInstance(caught.exception.__cause__, wherry.Error)
        with self.assertRaises((ValueError, ucp.UCXBaseException)):
            await ucp.create_endpoint_from_worker_address(b"no address")

    async def test_received_after_the_peer_has_closed(self):
        mine = ucp.get_worker_address()
        ep = await ucp.create_endpoint_from_worker_address(mine)
        for i in range(3):
            await ep.send(bytes([i]), tag=5, force_tag=True)
            await ep.am_send(bytes([i]))
            await ep.close()
            ep = await ucp.create_endpoint_from_worker_address(mine)
        room = bytearray(1)
        for i in range(3):
            await ucp.recv(room, tag=5)
            self.assertEqual((room[0], await ep.am_recv()), (i, bytes([i])))


class Reset(Case):
    async def test_everything_closed(self):
        server = asyncio.get_running_loop().create_future()
        listener, ep = await join(server.set_result)
        (await server).abort()
        del listener, ep, server
        ucp.reset()

    async def test_an_open_listener(self):
        listener, ep = await join(lambda ep: ep.abort())
        await until(ep.closed)
        del ep
        with self.assertRaisesRegex(ucp.UCXError, r"not all Endpoints and/or Listeners are closed\(\)"):
            ucp.reset()
        listener.close()
        ucp.reset()

    async def test_an_open_endpoint(self):
        ours, theirs, listener = await pair()
        listener.close()
        await theirs.close()
        await until(ours.closed)
        ucp.reset()  # whose peer has closed, so it is no obstacle
        ours, theirs, listener = await pair()
        listener.close()
        theirs.abort()
        await until(ours.closed)
        with self.assertRaisesRegex(ucp.UCXError, "still referencing ApplicationContext"):
            ucp.reset()
        ours.abort()
        ucp.reset()

    async def test_within_a_callback(self):
        reset = asyncio.get_running_loop().create_future()

        def server(ep):
            ep.abort()
            listeners.clear()
            ucp.reset()
            reset.set_result(True)
        listeners = [ucp.create_listener(server)]
        hello = ucp._libs.ucx_api.HELLO + bytes(16)
        async with await wherry.connect("127.0.0.1", listeners[0].port, data=hello):
            await reset


# The beginning of a program whose lanes are chosen by UCX_TLS.
BY_TRANSPORTS = """
import asyncio, os
os.environ.pop("WHERRY_LANES", None)
import ucp
"""


class Options(unittest.TestCase):
    def setUp(self):
        ucp.reset()
        self.before = dict(os.environ)

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.before)
        ucp.reset()

    def need_ucx(self):
        if ucp.get_ucx_version() == (0, 0, 0):
            self.skipTest("UCX is not installed")

    def test_defaults(self):
        self.need_ucx()
        os.environ.pop("UCX_TLS", None)
        self.assertEqual(ucp.get_config()["TLS"], "all")

    def test_environment(self):
        os.environ["UCX_SEG_SIZE"] = "2M"
        self.assertEqual(ucp.get_config()["SEG_SIZE"], "2M")

    def test_options_win_unless_asked(self):
        self.need_ucx()
        os.environ["UCX_SEG_SIZE"] = "2M"
        options = {"SEG_SIZE": "3M"}
        ucp.init(options)
        self.assertEqual(ucp.get_config()["SEG_SIZE"], "3M")
        self.assertEqual(os.environ["UCX_SEG_SIZE"], "2M")
        ucp.reset()
        ucp.init(options, env_takes_precedence=True)
        self.assertEqual(ucp.get_config()["SEG_SIZE"], "2M")
        self.assertEqual(options, {"SEG_SIZE": "3M"})

    def test_wrong_options(self):
        self.need_ucx()
        for wrong in ({"RNDV_THRESH": "no-size"}, {"TM_THRESH": "no-size"}):
            self.assertRaises(ucp.UCXConfigError, ucp.init, wrong)

    def test_a_second_init(self):
        ucp.init()
        self.assertRaises(RuntimeError, ucp.init)

    def test_transports_choose_lanes(self):
        os.environ.pop("WHERRY_LANES", None)
        for asked, expected in (("tcp", {"tcp"}), ("posix,tcp", {"posix", "cma", "self", "tcp"}),
                                ("tcp,cuda_copy", {"tcp"})):
            ucp.init({"TLS": asked})
            self.assertEqual(set(ucp.get_active_transports()), expected)
            ucp.reset()

    def test_transports_that_are_forbidden(self):
        shm, tcp = {"posix", "cma", "self"}, {"tcp"}
        os.environ.pop("WHERRY_LANES", None)
        for asked, expected in (("^sm", tcp), ("^posix,sysv", tcp), ("^tcp", shm), ("^cma", shm | tcp),
                                ("^rc_mlx5,cuda_ipc", shm | tcp), ("^sm,ucx", tcp)):
            os.environ["UCX_TLS"] = asked
            self.assertEqual(set(ucp.get_active_transports()) - {"ucx"}, expected, asked)
            ucp.reset()

    def test_transports_that_are_none(self):
        os.environ.pop("WHERRY_LANES", None)
        for asked in "nonsense", "^all", "^sm,tcp,ucx":
            os.environ["UCX_TLS"] = asked
            with self.assertRaises(ucp.UCXConfigError) as caught:
                ucp.init()
            self.assertIn(f"UCX_TLS is {asked!r}", str(caught.exception))
            with self.assertRaises(ucp.UCXConfigError) as caught:
                ucp.init({"TLS": asked})
            self.assertIn(f"option TLS is {asked!r}", str(caught.exception))
        with self.assertLogs("ucx", logging.WARNING) as said:
            ucp.init({"TLS": "nonsense,tcp"})
        self.assertIn("'nonsense'", said.output[0])
        self.assertEqual(ucp.get_active_transports(), ["tcp"])

    def test_transports_that_are_not_here(self):
        for asked in "rc", "^sm,tcp":
            code, out, err = run_child(BY_TRANSPORTS + "ucp.init()", UCX_TLS=asked,
                                       WHERRY_UCX_DIR="/nowhere")
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"UCXConfigError: UCX_TLS is {asked!r}", err)

    def test_transports_that_ucx_does_not_find(self):
        self.need_ucx()
        code, out, err = run_child(BY_TRANSPORTS + """
async def main():
    listener = ucp.create_listener(lambda ep: None)
    await ucp.create_endpoint("127.0.0.1", listener.port)
asyncio.run(main())
""", UCX_TLS="gga")
        self.assertNotEqual(code, 0)
        self.assertIn(": UCX_TLS is 'gga': ", err)

    def test_log(self):
        with self.assertLogs("ucx", logging.INFO):
            ucp.init()
        ucp.reset()
        with self.assertNoLogs("ucx", logging.ERROR):
            ucp.init()

    def test_variables(self):
        os.environ["UCXPY_NON_BLOCKING_MODE"] = ""
        os.environ["UCXPY_CONNECT_TIMEOUT"] = "0.5"
        ctx = ucp.core._get_ctx()
        self.assertEqual((ctx.blocking_progress_mode, ctx.connect_timeout), (False, 0.5))
        del ctx
        os.environ["UCXPY_IFNAME"] = "lo"
        self.assertEqual(ucp.get_address(), "127.0.0.1")
        os.environ["UCXPY_IFNAME"] = "none0"
        self.assertRaisesRegex(ValueError, "none0", ucp.get_address)
        code, out, err = run_child("import ucp; ucp.init()", UCXPY_LOG_LEVEL="INFO")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("INFO", err)

    def test_asking(self):
        self.assertIsInstance(ucp.get_ucp_worker(), int)
        self.assertIn("Wherry", ucp.get_ucp_context_info())
        self.assertIn("sent_messages", ucp.get_ucp_worker_info())
        self.assertEqual(len(ucp.get_ucx_version()), 3)
        loop = ucp.utils.get_event_loop()
        self.assertIs(ucp.utils.get_event_loop(), loop)
        loop.close()
        asyncio.set_event_loop(None)
        self.assertIsInstance(ucp.__version__, str)
        self.assertIsInstance(ucp.__ucx_version__, str)
        self.assertFalse(ucp.progress() and ucp.progress() and ucp.progress())

    def test_importing_leaves_the_environment_alone(self):
        code, out, err = run_child(
            "import os; before = dict(os.environ); import ucp; print(before == dict(os.environ))")
        self.assertEqual(out, "True\n", err)


class Asking(Case):
    async def test_of_endpoints(self):
        ours, theirs, listener = await pair()
        worker = ucp.get_ucp_worker()
        for ep in ours, theirs:
            self.assertEqual(ep.get_ucp_worker(), worker)
            self.assertGreater(ep.get_ucp_endpoint(), 0)
            self.assertEqual(ep.uid, ep.get_ucp_endpoint())
            self.assertIn("endpoint", ep.ucx_info())
            self.assertIsInstance(ep.cuda_support(), bool)
            self.assertTrue(ep._ep.is_alive())
        self.assertEqual(ours._tags["msg_send"], theirs._tags["msg_recv"])
        self.assertEqual(ours._tags["ctrl_recv"], theirs._tags["ctrl_send"])



class Forks(unittest.TestCase):
    def test_a_child_has_a_context_of_its_own(self):
        code, out, err = run_child("""
import asyncio, os, ucp
async def talk():
    async def server(ep):
        await ep.send(b"x")
        await ep.close()
    listener = ucp.create_listener(server)
    ep = await ucp.create_endpoint("127.0.0.1", listener.port)
    await ep.recv(bytearray(1))
    await ep.close()
asyncio.run(talk())
child = os.fork()
asyncio.run(talk())
if child:
    print(os.waitpid(child, 0)[1])
ucp.reset()
""")
        self.assertEqual((code, out), (0, "0\n"), err)

    def test_endpoints_of_the_parent_are_closed_in_a_child(self):
        """Nothing that ends one raises there, and the parent's goes on."""
        code, out, err = run_child("""
import asyncio, contextlib, os, ucp
async def main():
    async def server(ep):
        with contextlib.suppress(ucp.UCXError):  # of those that are aborted in the end
            await ep.recv(bytearray(1))
            await ep.send(b"x")
            await ep.recv(bytearray(1))
    listener = ucp.create_listener(server)
    one, other, third = [await ucp.create_endpoint("127.0.0.1", listener.port) for _ in range(3)]
    pending = asyncio.ensure_future(one.recv(bytearray(1)))
    anybodys = asyncio.ensure_future(other.recv(bytearray(1), tag=77, force_tag=True))
    await asyncio.sleep(0.05)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            closed = [each.closed() for each in (one, other, third)]
            one.abort()
            other.abort()
            await third.close()
            code = 0 if closed == [True] * 3 and one.closed() and third.closed() else 2
            del one, other, third
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    await one.send(b"y")
    print(await pending, one.closed(), other.closed())
    other.abort()
    await asyncio.gather(anybodys, return_exceptions=True)
    third.abort()
    one.abort()
asyncio.run(main())
ucp.reset()
""")
        self.assertEqual((code, out), (0, "0\nTrue False False\n"), err)


class Talk(Case):
    """The functions of 2018."""

    async def test_in_a_loop(self):
        async def server(ep, listener):
            message = await ep.recv_future()
            await ep.send_obj(b"got " + bytes(ucp.get_obj_from_msg(message)))
            ucp.destroy_ep(ep)
            ucp.stop_listener(listener)
        listener = ucp.start_listener(server, is_coroutine=True)
        ep = ucp.get_endpoint(b"127.0.0.1", listener.port)
        answer = ep.recv_future()
        await ep.send_obj(b"it")
        self.assertEqual(ucp.get_obj_from_msg(await answer), b"got it")
        self.assertTrue(answer.done())
        await listener.coroutine
        self.assertTrue(listener.closed())

    def test_without_a_loop(self):
        code, out, err = run_child("""
import asyncio, ucp, threading
ports = []
def serve():
    async def server(ep, listener):
        await ep.send_obj(b"hello")
        await ep.close()
        listener.close()
    async def main():
        listener = ucp.start_listener(server, is_coroutine=True)
        ports.append(listener.port)
        await listener.coroutine
        await asyncio.sleep(0.1)
    asyncio.run(main())
thread = threading.Thread(target=serve)
thread.start()
while not ports:
    pass
ep = ucp.get_endpoint("127.0.0.1", ports[0])
pending = ep.recv_future()
assert not pending.done()
print(bytes(ucp.get_obj_from_msg(pending.result())))
ucp.destroy_ep(ep)
thread.join()
ucp.fin()
""")
        self.assertEqual((code, out), (0, "b'hello'\n"), err)

    async def test_nobody_listens(self):
        ep = ucp.get_endpoint("127.0.0.1", 1)
        with self.assertRaises(ucp.UCXNotConnected):
            await ep.send(b"x")


class Arrays(unittest.TestCase):
    def test_as_a_memoryview_says(self):
        for buffer in (
                b"", b"abcd", array.array("i", []), array.array("i", [0, 1, 2, 3]),
                array.array("d", [0, 1, 2]), memoryview(b"abcd"), io.BytesIO(b"abcd").getbuffer(),
                memoryview(array.array("B", range(6))).cast("B", (3, 2)), mmap.mmap(-1, 5)):
            view, found = memoryview(buffer), Array(buffer)
            for name in ("readonly", "itemsize", "ndim", "shape", "strides", "nbytes",
                         "c_contiguous", "f_contiguous", "contiguous"):
                self.assertEqual(getattr(found, name), getattr(view, name), (buffer, name))
            self.assertIs(found.obj, view.obj)
            self.assertNotEqual(found.ptr, 0)
            self.assertFalse(found.cuda)
        gaps = memoryview(bytes(10))[::2]
        self.assertFalse(Array(gaps).contiguous)
        self.assertEqual(Array(Array(gaps)).strides, (2,))

    def test_numpy(self):
        numpy = need_numpy(self)
        data = numpy.arange(6, dtype="f8")
        for strides in ((24, 8), (8, 16)):
            made = numpy.ndarray((2, 3), "f8", data.data, strides=strides)
            found = Array(made)
            self.assertEqual((found.ptr, found.shape, found.strides, found.nbytes),
                             (made.ctypes.data, (2, 3), strides, 48))
            self.assertEqual((found.c_contiguous, found.f_contiguous),
                             (made.flags.c_contiguous, made.flags.f_contiguous))

    def test_devices(self):
        class Made:
            __cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f8", "data": (4096, True),
                                        "strides": None, "version": 3}
        found = Array(Made())
        self.assertEqual((found.cuda, found.ptr, found.readonly, found.nbytes, found.strides),
                         (True, 4096, True, 48, (24, 8)))
        self.assertTrue(found.c_contiguous and not found.f_contiguous)

    def test_what_is_none(self):
        self.assertRaises(ValueError, Array, 17)


class Errors(unittest.TestCase):
    def test_hierarchy(self):
        self.assertTrue(issubclass(ucp.UCXConfigError, ucp.UCXError))
        for name in ("UCXError", "UCXCloseError", "UCXCanceled", "UCXConnectionReset",
                     "UCXMsgTruncated", "UCXNotConnected", "UCXUnreachable"):
            self.assertEqual(getattr(ucp.exceptions, name).__bases__, (ucp.UCXBaseException,))
        self.assertTrue(issubclass(ucp.UCXWarning, UserWarning))
        self.assertIs(ucp._libs.exceptions.UCXNotConnected, ucp.UCXNotConnected)


if __name__ == "__main__":
    unittest.main()
