# SPDX-License-Identifier: BSD-3-Clause
"""Messages of arrays that are not contiguous, and of types: what arrives, and what stays untouched."""
import array
import asyncio
import contextlib
import ctypes
import sys
import unittest

import wherry
from kit import LIMIT, ArrayOnDevice, LoopCase, pair
from wherry import types as t

try:
    import numpy as np
except ImportError:
    np = None

LANES = "shm", "stream"
SIZES = (8, 1 << 10, 1 << 16, 1 << 20, 1 << 22)
GUARD = 64
EMPTY = 0x5a  # of memory that no message has come to


@contextlib.asynccontextmanager
async def lane_pair(lane):
    workers = [wherry.Worker(wherry.Context(lanes=lane)) for _ in range(2)]
    async with pair(*workers) as ends:
        yield ends
    for worker in workers:
        worker.close()


async def carry(a, b, source, to, **more):
    """Sends and receives; the bytes of the message."""
    return (await asyncio.gather(b.recv(to, **more), a.send(source)))[0]


class Room:
    """Memory with guards around it, of which a layout takes a part."""

    def __init__(self, dtype="f8"):
        self.dtype = dtype

    def array(self, *shape, order="C"):
        dtype = np.dtype(self.dtype)
        self.raw = np.full(int(np.prod(shape)) * dtype.itemsize + 2 * GUARD, EMPTY, "u1")
        return np.ndarray(shape, dtype, self.raw, GUARD, order=order)


def split(n):
    """Two factors of a power of two."""
    rows = 1 << (n.bit_length() - 1) // 2
    return rows, n // rows


def five_dims(room, n):
    rows, columns = split(n // 8)
    return room.array(2, rows, 2, columns, 4)[:, ::-1, :, :, ::2].transpose(3, 0, 4, 2, 1)


# Name -> a view of `n` elements, n being a power of two from 8 on.
LAYOUTS = {
    "every other": lambda room, n: room.array(2 * n)[::2],
    "every third": lambda room, n: room.array(3 * n)[1::3],
    "backwards": lambda room, n: room.array(n)[::-1],
    "columns": lambda room, n: room.array(split(n)[0], 2 * split(n)[1])[:, ::2],
    "rows": lambda room, n: room.array(split(n)[0], split(n)[1] + 3)[:, 1:-2],
    "one column": lambda room, n: room.array(n, 3)[:, 1],
    "transposed": lambda room, n: room.array(*split(n)).T,
    "fortran": lambda room, n: room.array(*split(n), order="F"),
    "both backwards": lambda room, n: room.array(2 * split(n)[0], split(n)[1])[::-2, ::-1],
    "three axes": lambda room, n: room.array(2, split(n // 2)[0] + 1, split(n // 2)[1]).transpose(2, 0, 1)[..., :-1],
    "five axes": five_dims,
}


def counted(n, dtype):
    return (np.arange(n) % 251 + 1).astype(dtype)


def filled(layout, n, dtype):
    """A view with numbers that differ."""
    view = LAYOUTS[layout](Room(dtype), n)
    view[...] = counted(n, dtype).reshape(view.shape)
    return view


def sizes_of(dtype):
    return [size // np.dtype(dtype).itemsize for size in SIZES if size >= 8 * np.dtype(dtype).itemsize]


@unittest.skipUnless(np, "numpy is not installed")
class Layouts(LoopCase):
    def check_place(self, layout, room, content, n):
        """Whether memory is as it was but for the elements of a layout, which have come."""
        expected = Room(room.dtype)
        view = LAYOUTS[layout](expected, n)
        view[...] = content.reshape(view.shape)
        self.assertTrue(np.array_equal(room.raw, expected.raw), layout)

    async def test_tagged(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for dtype in ("u1", "f8"):
                    for n in sizes_of(dtype):
                        for layout in LAYOUTS:
                            with self.subTest(lane=lane, dtype=dtype, n=n, layout=layout):
                                await self.there_and_back(a, b, layout, n, dtype)

    async def there_and_back(self, a, b, layout, n, dtype):
        content, room, back = counted(n, dtype), Room(dtype), np.zeros(n, dtype)
        view = LAYOUTS[layout](room, n)
        self.assertFalse(view.flags.c_contiguous)
        self.assertEqual(await carry(a, b, content, view), content.nbytes)
        self.check_place(layout, room, content, n)
        self.assertEqual(await carry(b, a, view, back), content.nbytes)
        self.assertTrue(np.array_equal(back, content))

    async def test_each_layout_into_each(self):
        async with lane_pair("shm") as (a, b):
            for n in (8, 1 << 14):
                for source in LAYOUTS:
                    sent = filled(source, n, "i4")
                    for to in LAYOUTS:
                        room = Room("i4")
                        await carry(a, b, sent, LAYOUTS[to](room, n))
                        self.check_place(to, room, np.ascontiguousarray(sent), n)

    async def test_sent_before_it_is_received(self):
        async with lane_pair("shm") as (a, b), lane_pair("stream") as (c, d):
            for x, y in ((a, b), (c, d)):
                for layout in LAYOUTS:
                    await x.send(filled(layout, 64, "f8"))
                for layout in LAYOUTS:
                    room = Room()
                    await y.recv(LAYOUTS[layout](room, 64))
                    self.check_place(layout, room, counted(64, "f8"), 64)

    async def test_any_source_and_taken(self):
        async with lane_pair("shm") as (a, b):
            for n in (8, 1 << 15):
                sent = filled("columns", n, "f8")
                room = Room()
                op = b.worker.recv(LAYOUTS["transposed"](room, n), 5)
                await asyncio.gather(op, a.send(sent, 5))
                self.check_place("transposed", room, np.ascontiguousarray(sent), n)
                room, sending = Room(), a.send(sent, 6)
                while (message := b.take(6)) is None:
                    await asyncio.sleep(0)
                await asyncio.gather(sending, message.recv(LAYOUTS["backwards"](room, n)))
                self.check_place("backwards", room, np.ascontiguousarray(sent), n)

    async def test_active_messages(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                came = asyncio.Queue()
                b.worker.set_am(3, lambda ep, header, payload: came.put_nowait((header, bytes(payload))))
                for n in (8, 1 << 10, 1 << 17):
                    for layout in LAYOUTS:
                        sent = filled(layout, n, "f8")
                        await a.am_send(3, sent, b"header")
                        self.assertEqual(await came.get(), (b"header", sent.tobytes()))

    async def test_objects(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for n in (8, 1 << 10, 1 << 17):
                    sent = [filled(layout, n, "f8") for layout in LAYOUTS]
                    got, _ = await asyncio.gather(b.recv_obj(), a.send_obj([*sent, b"end"]))
                    self.assertEqual(got.pop(), b"end")
                    for ours, theirs in zip(sent, got):
                        self.assertTrue(theirs.flags.c_contiguous and theirs.flags.writeable)
                        self.assertEqual((theirs.shape, theirs.dtype), (ours.shape, ours.dtype))
                        self.assertTrue(np.array_equal(ours, theirs))

    async def test_objects_into_layouts(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for n in (8, 1 << 10, 1 << 17):
                    rooms = {layout: Room() for layout in LAYOUTS}
                    places = [LAYOUTS[layout](room, n) for layout, room in rooms.items()]
                    content = [counted(n, "f8") + i for i in range(len(places))]
                    got, _ = await asyncio.gather(
                        b.recv_obj(into=[*places, None]), a.send_obj([*content, b"end"]))
                    self.assertEqual(got.pop(), b"end")
                    for i, (layout, room) in enumerate(rooms.items()):
                        self.assertIs(got[i], places[i])
                        self.check_place(layout, room, content[i], n)

    async def test_one_sided(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for n in (8, 1 << 10, 1 << 17):
                    with b.worker.context.alloc(8 * n + 16) as memory, a.open_key(memory.key) as remote:
                        for layout in LAYOUTS:
                            sent, room = filled(layout, n, "f8"), Room()
                            await remote.put(sent, 8)
                            await a.flush()
                            with memoryview(memory) as there:
                                self.assertEqual(there[8:-8], sent.tobytes())
                            await remote.get(LAYOUTS[layout](room, n), 8)
                            self.check_place(layout, room, np.ascontiguousarray(sent), n)

    async def test_shorter_and_longer_messages(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for n in (8, 1 << 17):
                    for layout in LAYOUTS:
                        with self.subTest(lane=lane, n=n, layout=layout):
                            await self.of_another_size(a, b, layout, n)

    async def of_another_size(self, a, b, layout, n):
        content, room = counted(2 * n, "f8"), Room()
        with self.assertRaises(wherry.TruncatedError) as caught:
            await asyncio.gather(b.recv(LAYOUTS[layout](room, n)), a.send(content))
        self.assertEqual(caught.exception.size, 16 * n)
        self.assertTrue((room.raw[:GUARD] == EMPTY).all() and (room.raw[-GUARD:] == EMPTY).all())
        room = Room()
        self.assertEqual(await carry(a, b, content[:n // 2], LAYOUTS[layout](room, n)), 4 * n)
        expected = np.full(n, bytes([EMPTY]) * 8, "V8").view("f8")
        expected[:n // 2] = content[:n // 2]
        self.check_place(layout, room, expected, n)

    async def test_what_overlaps_is_sent_only(self):
        from numpy.lib.stride_tricks import as_strided
        base = np.arange(64.0)
        one_line = as_strided(base, (4, 8), (0, 8))
        windows = as_strided(base, (8, 3), (8, 8))
        backwards = as_strided(base[8:], (4, 2), (-8, 8))
        async with pair(None, wherry.Worker()) as (a, b):
            for view in (one_line, windows, backwards):
                got = np.zeros(view.shape)
                await carry(a, b, view, got)
                self.assertTrue(np.array_equal(got, view))
                for call in (lambda: b.recv(view), lambda: b.recv_obj(into=[view]), lambda: b.worker.recv(view)):
                    with self.assertRaisesRegex(
                            ValueError, r"buf: elements of 'ndarray' overlap \(shape .*strides .*array of its own"):
                        call()
            with self.assertRaisesRegex(TypeError, "'ndarray' is read-only"):
                b.recv(np.broadcast_to(base, (3, 64)))
            got = np.zeros((3, 64))
            await carry(a, b, np.broadcast_to(base, (3, 64)), got)
            self.assertTrue(np.array_equal(got, np.broadcast_to(base, (3, 64))))

    async def test_without_elements_and_without_dimensions(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for nothing in (np.zeros((0, 8))[:, ::2], np.zeros((8, 0)).T, np.zeros((4, 4))[::2, :0],
                            np.zeros(0)[::-1], np.zeros(4, "V0")[::2]):
                self.assertEqual(await carry(a, b, nothing, bytearray(8)), 0)
                self.assertEqual(await carry(a, b, b"", nothing), 0)
            one, got = np.array(2.5), np.zeros(())
            self.assertEqual(await carry(a, b, one, got), 8)
            self.assertEqual(got, 2.5)
            single = np.zeros((4, 4))[1:2, ::4]
            await carry(a, b, one, single)
            self.assertEqual(single, 2.5)

    async def test_read_only(self):
        locked = np.zeros((4, 4)).T[::2]
        locked.flags.writeable = False
        async with pair(None, wherry.Worker()) as (a, b):
            with self.assertRaisesRegex(TypeError, "buf: 'ndarray' is read-only"):
                b.recv(locked)
            await carry(a, b, locked, bytearray(64))

    async def test_elements_of_other_types(self):
        record = np.dtype([("id", "i4"), ("place", "f8", (3,))], align=True)
        async with pair(None, wherry.Worker()) as (a, b):
            for dtype in (record, ">f4", "M8[s]", "c16", "S5", "U3", "?", "f2", "g"):
                raw = np.frombuffer(bytes(range(256)) * 8, "u1")
                whole = raw[:16 * np.dtype(dtype).itemsize].view(f"V{np.dtype(dtype).itemsize}")
                view = whole.view(dtype)[::2]
                got = np.zeros(8, dtype)
                self.assertEqual(await carry(a, b, view, got), got.nbytes)
                self.assertEqual(got.view(f"V{got.itemsize}").tobytes(), whole[::2].tobytes())
            sent = np.zeros(8, record)[::2]
            sent["id"] = range(4)
            got, _ = await asyncio.gather(b.recv_obj(), a.send_obj(sent))
            self.assertEqual(got.dtype, record)
            self.assertTrue(np.array_equal(got["id"], sent["id"]))

    async def test_a_field_of_records(self):
        records = np.zeros(100, [("a", "u1"), ("b", "<f8"), ("c", "u4")])
        async with pair(None, wherry.Worker()) as (a, b):
            await carry(a, b, counted(100, "f8"), records["b"])
            self.assertTrue(np.array_equal(records["b"], counted(100, "f8")))
            self.assertFalse(records["a"].any() or records["c"].any())

    async def test_more_shapes_than_types_are_kept(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for _ in range(2):
                for n in range(2, 200):
                    sent, got = counted(2 * n, "u1")[::2], np.zeros(n, "u1")
                    await carry(a, b, sent, got)
                    self.assertTrue(np.array_equal(sent, got))


    async def test_an_object_of_more_than_a_receiver_takes(self):
        once = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (1 << 60,), (0,))
        async with pair(None, wherry.Worker()) as (a, b):
            for parts in (8, 16, 20):
                with self.assertRaisesRegex(ValueError, "send_obj: the parts have more than 2\\^63 bytes together"):
                    a.send_obj([once] * parts)
            self.assertEqual(await carry(a, b, b"hello", bytearray(5)), 5)


class Devices(LoopCase):
    async def test_strided(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for rows in (4, 4096):
                    memory = wherry.DeviceMemory(16 * rows, "sim")
                    wherry.copy_memory(memory, bytes([EMPTY]) * 16 * rows)
                    # Of eight columns the third and the fifth, from the last row on.
                    place = ArrayOnDevice(memory, (rows, 2), (-16, 4), 16 * (rows - 1) + 4)
                    sent = array.array("H", [i % 60000 for i in range(2 * rows)])
                    await carry(a, b, sent, place)
                    there = array.array("H", bytes(16 * rows))
                    wherry.copy_memory(there, memory)
                    expected = array.array("H", bytes([EMPTY]) * 16 * rows)
                    expected[2::8] = sent[-2::-2]
                    expected[4::8] = sent[::-1][::2]
                    self.assertEqual(there, expected)
                    back = array.array("H", bytes(4 * rows))
                    await carry(b, a, place, back)
                    self.assertEqual(back, sent)
                    got, _ = await asyncio.gather(b.recv_obj(), a.send_obj(place))
                    self.assertEqual(got.__cuda_array_interface__["shape"], (rows, 2))
                    wherry.copy_memory(back, got)
                    self.assertEqual(back, sent)

    async def test_what_cannot_be(self):
        memory = wherry.DeviceMemory(64, "sim")
        async with pair() as (_, b):
            with self.assertRaisesRegex(ValueError, "elements of 'ArrayOnDevice' overlap"):
                b.recv(ArrayOnDevice(memory, (4, 4), (0, 2)))
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                wherry.copy_memory(bytearray(16), ArrayOnDevice(memory, (8,), (4,)))
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                wherry.register(ArrayOnDevice(memory, (8,), (4,)))

    async def test_types(self):
        memory = wherry.DeviceMemory(64, "sim")
        wherry.copy_memory(memory, bytes(range(64)))
        async with pair(None, wherry.Worker()) as (a, b):
            got = bytearray(8)
            await asyncio.gather(b.recv(got), a.send(memory, type=t.vector(8, 1, 8, t.BYTE), origin=3))
            self.assertEqual(got, bytes(range(3, 64, 8)))
            with self.assertRaisesRegex(ValueError, "needs bytes 8 to 65 of buf, which has 0 to 64"):
                a.send(memory, type=t.vector(8, 1, 8, t.BYTE), origin=8)


class SubOffsets(unittest.TestCase):
    """Rows behind pointers, as imaging libraries have them."""

    def made(self):
        class Buffer(ctypes.Structure):
            _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]
        self.rows = [ctypes.create_string_buffer(4) for _ in range(2)]
        self.pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, self.rows))
        three = [(ctypes.c_ssize_t * 2)(*values) for values in ((2, 4), (8, 1), (0, -1))]
        self.keep = three
        self.info = Buffer(ctypes.addressof(self.pointers), None, 8, 1, 0, 2, b"B", *map(ctypes.addressof, three))
        make = ctypes.pythonapi.PyMemoryView_FromBuffer
        make.restype = ctypes.py_object
        return make(ctypes.byref(self.info))

    def test_refused(self):
        view, worker = self.made(), wherry.Worker()
        self.assertEqual(view.suboffsets, (0, -1))
        for call in (lambda: worker.recv(view), lambda: t.pack(view)):
            with self.assertRaisesRegex(TypeError, "buf: 'memoryview' is an array of pointers to its rows"):
                call()
        worker.close()


class MemoryViews(LoopCase):
    """Without numpy."""

    async def test_slices(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                for size in SIZES:
                    sent = (bytes(range(251)) * (2 * size // 251 + 1))[:2 * size]
                    for cut in (slice(None, None, 2), slice(None, size - 1, -1), slice(1, None, 2)):
                        room, expected = (bytearray([EMPTY]) * (3 * size + 2) for _ in range(2))
                        expected[1:-1:3] = sent[cut]
                        place = memoryview(room)[1:-1:3]
                        self.assertEqual(await carry(a, b, memoryview(sent)[cut], place), size)
                        self.assertEqual(room, expected)

    async def test_what_arrives_is_contiguous(self):
        async with pair(None, wherry.Worker()) as (a, b):
            words = memoryview(array.array("i", range(10)))[::3]
            got, _ = await asyncio.gather(b.recv_obj(), a.send_obj(words))
            self.assertEqual(got, words.tobytes())
            self.assertTrue(got.c_contiguous)

    async def test_held_until_the_end(self):
        async with pair(None, wherry.Worker()) as (a, b):
            room = bytearray(16)
            op = b.recv(memoryview(room)[::2])
            with self.assertRaises(BufferError):
                room.append(1)
            await a.send(b"12345678")
            await op
            room.append(1)
            self.assertEqual(room, b"1\x002\x003\x004\x005\x006\x007\x008\x00\x01")

    async def test_cancelled(self):
        async with pair(None, wherry.Worker()) as (a, b):
            room = bytearray([EMPTY]) * 16
            op = b.recv(memoryview(room)[::2], 1)
            op.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await op
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(b.recv(memoryview(room)[::2], 1), 0.01)
            room.append(EMPTY)
            await a.send(b"12345678", 1)
            self.assertEqual(await b.recv(bytearray(8), 1), 8)
            self.assertEqual(room, bytes([EMPTY]) * 17)
            # A large one that nobody receives is withdrawn, too.
            op = a.send(memoryview(bytes(1 << 22))[::2], 2)
            op.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await op

    async def test_what_the_peer_leaves_behind(self):
        async with pair(None, wherry.Worker()) as (a, b):
            room = bytearray(16)
            op = b.recv(memoryview(room)[::2])
            a.abort()
            with self.assertRaises(wherry.PeerError):
                await op
            room.append(1)


class Types(LoopCase):
    COLUMN = t.vector(8, 1, 8, t.INT16)  # of a matrix of 8 x 8

    def matrix(self):
        return array.array("h", range(64))

    async def test_calls(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                source, got = self.matrix(), array.array("h", bytes(16))
                await asyncio.gather(b.recv(got), a.send(source, type=self.COLUMN, origin=4))
                self.assertEqual(got, source[2::8])
                to = array.array("h", bytes(128))
                op = b.recv(to, 1, type=self.COLUMN, origin=6)
                await asyncio.gather(op, a.send(got, 1, sync=True))
                self.assertEqual((to[3::8], sum(to)), (got, sum(got)))
                self.assertEqual((op.size, await op), (16, 16))
                to = array.array("h", bytes(128))
                await asyncio.gather(b.worker.recv(to, 2, type=self.COLUMN), a.send(got, 2))
                self.assertEqual(to[::8], got)
                await a.send(got, 3)
                await a.flush()
                to = array.array("h", bytes(128))
                await b.take(3).recv(to, type=self.COLUMN, origin=14)
                self.assertEqual(to[7::8], got)

    async def test_active_messages_and_one_sided(self):
        async with pair(None, wherry.Worker()) as (a, b):
            came = asyncio.Queue()
            b.worker.set_am(1, lambda ep, header, payload: came.put_nowait(payload))
            source = self.matrix()
            await a.am_send(1, source, type=self.COLUMN, origin=2)
            self.assertEqual(await came.get(), source[1::8].tobytes())
            with wherry.alloc(64) as memory, b.open_key(memory.key) as remote:
                await remote.put(source, 16, type=self.COLUMN, origin=10)
                await b.flush()
                with memoryview(memory) as there:
                    self.assertEqual(there[16:32], source[5::8].tobytes())
                to = array.array("h", bytes(128))
                await remote.get(to, 16, type=self.COLUMN)
                self.assertEqual(to[::8], source[5::8])

    async def test_counts(self):
        # Four bytes of sixteen, so often: columns one and two of eight, row by row.
        pairs = t.resized(t.contig(2, t.INT16), 0, 16)
        async with pair(None, wherry.Worker()) as (a, b):
            source = self.matrix()
            for count in (0, 1, 8):
                got = array.array("h", bytes(4 * count))
                await asyncio.gather(b.recv(got), a.send(source, type=pairs, count=count, origin=2))
                self.assertEqual(got.tolist(), [8 * i + j for i in range(count) for j in (1, 2)])

    async def test_frames(self):
        for lane in LANES:
            async with lane_pair(lane) as (a, b):
                source = self.matrix()
                views = [t.View(source, self.COLUMN, origin=2 * i) for i in range(8)]
                got, _ = await asyncio.gather(b.recv_obj(), a.send_obj([*views, b"end"]))
                self.assertEqual(got, [source[i::8].tobytes() for i in range(8)] + [b"end"])
                to = array.array("h", bytes(128))
                places = [t.View(to, self.COLUMN, origin=2 * i) for i in range(8)]
                rows = [source[8 * i:8 * i + 8] for i in range(8)]
                got, _ = await asyncio.gather(b.recv_obj(into=places), a.send_obj(rows))
                self.assertIs(got[3], places[3])
                self.assertEqual([to[i::8] for i in range(8)], rows)
                with self.assertRaises(wherry.TruncatedError):
                    await asyncio.gather(b.recv_obj(into=[places[0]]), a.send_obj([source]))

    async def test_views_are_buffers_of_every_call(self):
        view = t.View(self.matrix(), self.COLUMN)
        async with pair(None, wherry.Worker()) as (a, b):
            to = t.View(array.array("h", bytes(128)), self.COLUMN, origin=2)
            await carry(a, b, view, to)
            self.assertEqual(to.buf[1::8], view.buf[::8])
        self.assertEqual((view.type, view.count, view.origin), (self.COLUMN, 1, 0))
        self.assertRegex(repr(view), r"<View of 1 x <.*vector: 16 bytes> in 'array'>")

    async def test_elements_are_compared(self):
        async with pair(None, wherry.Worker()) as (a, b):
            numbers, to = array.array("d", range(4)), array.array("q", bytes(64))
            refused, _ = await asyncio.gather(
                b.recv(to, type=t.INT64, count=4), a.send(numbers, type=t.DOUBLE, count=4), return_exceptions=True)
            self.assertIsInstance(refused, wherry.ElementsError)
            self.assertEqual(to.tobytes(), bytes(64))
            # The elements of an array are bytes, with and without strides.
            await carry(a, b, t.View(numbers, t.DOUBLE, 4), memoryview(to)[::2])
            self.assertEqual(array.array("d", to.tobytes())[::2], numbers)
            await carry(a, b, memoryview(to)[::2], t.View(numbers, t.DOUBLE, 4))
            self.assertEqual(numbers.tolist(), [0, 1, 2, 3])

    @unittest.skipUnless(np, "numpy is not installed")
    async def test_padding_is_left_out(self):
        points = np.zeros(100, np.dtype([("id", "i4"), ("place", "f8", (3,))], align=True))
        points["id"] = range(100)
        some = points[::-10]
        async with pair(None, wherry.Worker()) as (a, b):
            got, into = np.zeros(10, [("id", "i4"), ("place", "f8", (3,))]), np.zeros(10, points.dtype)
            self.assertEqual(await carry(a, b, t.View(some, t.from_array(some)), got), 280)
            self.assertEqual(got["id"].tolist(), some["id"].tolist())
            await carry(a, b, got, into, type=t.from_array(into))
            self.assertEqual(into["id"].tolist(), some["id"].tolist())

    async def test_what_cannot_be(self):
        source = self.matrix()
        async with pair(None, wherry.Worker()) as (a, b):
            for call, error, text in (
                    (lambda: a.send(source, type=self.COLUMN, origin=16), ValueError,
                     "1 x .*vector: 16 bytes> at origin 16 needs bytes 16 to 130 of buf, which has 0 to 128"),
                    (lambda: b.recv(source, type=self.COLUMN, origin=-2), ValueError, "needs bytes -2 to"),
                    (lambda: a.send(memoryview(source)[::-1], type=self.COLUMN), ValueError,
                     "needs bytes 0 to 114 of buf, which has -126 to 2"),
                    (lambda: a.send(source, type=t.INT16, count=65), ValueError, "0 to 130 of buf"),
                    (lambda: a.send(source, type=t.INT16, count=1 << 62), ValueError, "2.63 packed"),
                    (lambda: a.send(source, type=t.INT16, count=-1), ValueError, "count is -1"),
                    (lambda: a.send(source, type=t.INT16, count=1.0), TypeError, "an integer is needed"),
                    (lambda: a.send(source, type="i4"), TypeError, "type"),
                    (lambda: a.send(source, count=2), TypeError, "go with a type"),
                    (lambda: b.recv(source, origin=2), TypeError, "go with a type"),
                    (lambda: b.recv(b"12345678", type=t.INT), TypeError, "'bytes' is read-only"),
                    (lambda: a.send("text", type=t.INT), TypeError, "'str' has no memory"),
                    (lambda: t.View(t.View(source, t.INT), t.INT), TypeError, "View of a View"),
                    (lambda: t.View(source, None), TypeError, "type"),
                    (lambda: wherry.register(t.View(source, self.COLUMN)), ValueError, "not contiguous"),
                    (lambda: wherry.copy_memory(t.View(source, self.COLUMN), b""), ValueError, "not contiguous")):
                with self.subTest(text=text), self.assertRaisesRegex(error, text):
                    call()
            await carry(a, b, memoryview(source)[::-1], bytearray(128))

    async def test_allocators_give_contiguous_memory(self):
        async with pair(None, wherry.Worker()) as (a, b):
            for given in (memoryview(bytearray(32))[::2], t.View(self.matrix(), self.COLUMN)):
                with self.assertRaises(wherry.RejectedError) as caught:
                    await asyncio.wait_for(asyncio.gather(
                        b.recv_obj(allocator=lambda part: given), a.send_obj(b"12345678")), LIMIT)
                self.assertIn("not contiguous", str(caught.exception.__cause__))


class Lifetimes(LoopCase):
    async def test_nothing_is_kept(self):
        column, source, room = t.vector(8, 1, 8, t.BYTE), bytearray(64), bytearray(64)
        view = t.View(source, column)

        async def each(a, b):
            with memoryview(source) as whole, memoryview(room) as there, whole[::2] as half, there[1::2] as to:
                await carry(a, b, half, to)
                await carry(a, b, view, t.View(room, column))
                await asyncio.gather(b.recv_obj(into=[to, view]), a.send_obj([half, view]))
                with contextlib.suppress(TypeError):
                    a.send_obj([half, 5])
                with contextlib.suppress(wherry.TruncatedError):
                    await carry(a, b, whole, to)
                with contextlib.suppress(ValueError):
                    a.send(source, type=column, origin=60)

        async with pair(None, wherry.Worker()) as (a, b):
            for _ in range(50):
                await each(a, b)
            counts = [sys.getrefcount(each) for each in (column, source, room, view)]
            blocks = sys.getallocatedblocks()
            for _ in range(500):
                await each(a, b)
            self.assertEqual([sys.getrefcount(each) for each in (column, source, room, view)], counts)
            self.assertLess(sys.getallocatedblocks() - blocks, 200)
        source.append(1)  # nobody holds them
        room.append(1)

    async def test_types_that_go_while_they_are_used(self):
        async with pair(None, wherry.Worker()) as (a, b):
            source, room = bytearray(range(256)) * (1 << 14), bytearray(1 << 21)
            count = 1 << 21
            op = a.send(source, type=t.vector(count, 1, 2, t.BYTE))
            for n in range(2, 100):  # other types come to where it was
                t.vector(n, 1, n, t.BYTE).commit()
            await asyncio.gather(op, b.recv(room))
            self.assertEqual(room, source[::2])


class Threads(LoopCase):
    async def test_sends_of_many(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            def send(tag):
                for size in (8, 300, 50_000):
                    source = bytes([tag]) * 2 * size
                    a.send(memoryview(source)[::2], tag).result(LIMIT)
                    a.send(source, tag, type=t.vector(size, 1, 2, t.BYTE)).result(LIMIT)

            loop = asyncio.get_running_loop()
            sending = [loop.run_in_executor(None, send, tag) for tag in range(1, 5)]
            for size in (8, 300, 50_000):
                for tag in range(1, 5):
                    for _ in range(2):
                        room = bytearray(3 * size)
                        with memoryview(room) as whole, whole[::3] as place:
                            self.assertEqual(await b.recv(place, tag), size)
                        self.assertEqual(room, (bytes([tag]) + bytes(2)) * size)
            await asyncio.gather(*sending)


if __name__ == "__main__":
    unittest.main()
