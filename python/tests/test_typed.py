# SPDX-License-Identifier: BSD-3-Clause
"""Messages of arrays that are not contiguous: what arrives, and what stays untouched."""
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


class Allocators(LoopCase):
    async def test_give_contiguous_memory(self):
        async with pair(None, wherry.Worker()) as (a, b):
            with self.assertRaises(wherry.RejectedError) as caught:
                await asyncio.wait_for(asyncio.gather(
                    b.recv_obj(allocator=lambda part: memoryview(bytearray(32))[::2]), a.send_obj(b"12345678")), LIMIT)
            self.assertIn("not contiguous", str(caught.exception.__cause__))


class Lifetimes(LoopCase):
    async def test_nothing_is_kept(self):
        source, room = bytearray(64), bytearray(64)

        async def each(a, b):
            with memoryview(source) as whole, memoryview(room) as there, whole[::2] as half, there[1::2] as to:
                await carry(a, b, half, to)
                await asyncio.gather(b.recv_obj(into=[to, half]), a.send_obj([half, to]))
                with contextlib.suppress(TypeError):
                    a.send_obj([half, 5])
                with contextlib.suppress(wherry.TruncatedError):
                    await carry(a, b, whole, to)

        async with pair(None, wherry.Worker()) as (a, b):
            for _ in range(50):
                await each(a, b)
            counts = [sys.getrefcount(each) for each in (source, room)]
            blocks = sys.getallocatedblocks()
            for _ in range(500):
                await each(a, b)
            self.assertEqual([sys.getrefcount(each) for each in (source, room)], counts)
            self.assertLess(sys.getallocatedblocks() - blocks, 200)
        source.append(1)  # nobody holds them
        room.append(1)


class Threads(LoopCase):
    async def test_sends_of_many(self):
        worker = wherry.Worker()
        async with pair(None, worker) as (a, b):
            def send(tag):
                for size in (8, 300, 50_000):
                    for _ in range(2):
                        a.send(memoryview(bytes([tag]) * 2 * size)[::2], tag).result(LIMIT)

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
