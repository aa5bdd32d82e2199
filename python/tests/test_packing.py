# SPDX-License-Identifier: BSD-3-Clause
"""Packing without numpy: random types against the naive walk, buffers of all sorts, every error."""
import array
import ctypes
import pickle
import random
import sys
import threading
import time
import unittest

import walk
from wherry import errors
from wherry import types as t


def random_elements(rng):
    """A type, a count, and the walk of so many elements."""
    while True:
        one = walk.random_type(rng, rng.randint(0, 3))
        count = rng.choice([0, 1, 1, 2, 3])
        if one.basics * count < 2000:
            return one, count, [(at + i * one.extent, size) for i in range(count)
                                for at, size in walk.walk(one)]


def span_of(leaves):
    return (min([at for at, _ in leaves], default=0),
            max([at + size for at, size in leaves], default=0))


def memory_of(rng, leaves):
    """Random bytes that hold the layout exactly, and its origin in them."""
    low, high = span_of(leaves)
    return bytearray(rng.randbytes(high - low)), -low


ON_RANDOM = walk.on_random(2000, random_elements)


class AgainstTheWalk(unittest.TestCase):
    """Random types: every function has to agree with what contents says."""

    @ON_RANDOM
    def test_pack_and_unpack(self, rng, one, count, leaves):
        memory, origin = memory_of(rng, leaves)
        want = b"".join(memory[origin + at:origin + at + size] for at, size in leaves)
        self.assertEqual(t.pack(memory, one, count, origin=origin), want)
        if len({at + i for at, size in leaves for i in range(size)}) < len(want):
            return  # it selects a byte twice: unpacking is not defined
        out, left = bytearray(memory), bytearray(len(memory))
        fresh, at = rng.randbytes(len(want)), 0
        self.assertEqual(t.unpack(fresh, out, one, count, origin=origin), len(want))
        for place, size in leaves:
            memory[origin + place:origin + place + size] = fresh[at:at + size]
            at += size
        self.assertEqual(out, memory)
        self.assertEqual(t.copy(left, one, out, one, to_count=count, from_count=count,
                                to_origin=origin, from_origin=origin), len(want))
        self.assertEqual(t.pack(left, one, count, origin=origin), fresh)

    @ON_RANDOM
    def test_segments_in_any_order(self, rng, one, count, leaves):
        memory, origin = memory_of(rng, leaves)
        whole = t.pack(memory, one, count, origin=origin)
        cuts = sorted(rng.randint(0, len(whole)) for _ in range(5))
        cuts = [0, *cuts, len(whole)]
        segments = list(zip(cuts, cuts[1:]))
        rng.shuffle(segments)
        back = bytearray(memory)
        for begin, end in segments:
            part = t.pack(memory, one, count, offset=begin, size=end - begin, origin=origin)
            self.assertEqual(part, whole[begin:end])
            into = bytearray(end - begin)
            self.assertEqual(t.pack_into(into, memory, one, count, offset=begin,
                                         origin=origin), len(into))
            self.assertEqual(into, part)
            self.assertEqual(t.unpack(part, back, one, count, offset=begin, origin=origin),
                             len(part))
        self.assertEqual(back, memory)

    @ON_RANDOM
    def test_cursors(self, rng, one, count, leaves):
        memory, origin = memory_of(rng, leaves)
        whole = t.pack(memory, one, count, origin=origin)
        cuts = sorted({0, len(whole), *(rng.randint(0, len(whole)) for _ in range(4))})
        segments = list(zip(cuts, cuts[1:]))
        rng.shuffle(segments)
        back = bytearray(memory)
        reading = t.Cursor(bytes(memory), one, count, origin=origin)
        with t.Cursor(back, one, count, origin=origin, writable=True) as writing, reading:
            for begin, end in segments:
                part = bytearray(end - begin)
                self.assertEqual(reading.pack_into(begin, part), len(part))
                self.assertEqual(part, whole[begin:end])
                self.assertEqual(writing.unpack(begin, part), len(part))
        self.assertEqual(back, memory)
        back.append(0)  # BufferError if the cursor still held it

    @ON_RANDOM
    def test_runs(self, rng, one, count, leaves):
        want = walk.runs_of(leaves)
        self.assertEqual(t.runs(one, count), want)
        self.assertEqual(t.run_count(one, count), len(want))
        first = rng.randint(0, len(want))
        self.assertEqual(t.runs(one, count, first=first, max=2), want[first:first + 2])
        n, size = t.runs_within(one, 50, count)
        self.assertEqual(size, sum(size for _, size in want[:n]))
        self.assertLessEqual(size, 50)
        self.assertTrue(n == len(want) or size + want[n][1] > 50)
        total = one.size * count
        begin = rng.randint(0, total)
        part = t.runs_of_bytes(one, count, offset=begin, size=40)
        bytes_of = [at + i for at, size in want for i in range(size)]
        self.assertEqual([at + i for at, size in part for i in range(size)],
                         bytes_of[begin:begin + 40])

    @ON_RANDOM
    def test_size_bounds_and_copies(self, rng, one, count, leaves):
        leaves = walk.walk(one)
        low, high = span_of(leaves)
        self.assertEqual(one.size, sum(size for _, size in leaves))
        self.assertEqual((one.true_lb, one.true_extent), (low, high - low))
        self.assertEqual(pickle.loads(pickle.dumps(one)), one)
        self.assertEqual(t.unflatten(one.flatten()).contents, one.contents)

    @ON_RANDOM
    def test_layouts_are_kept_inside_the_buffer(self, rng, one, count, leaves):
        memory, origin = memory_of(rng, leaves)
        if not memory:
            return
        for short, at in [(memory[:-1], origin), (memory, origin + 1), (memory, origin - 1)]:
            with self.assertRaisesRegex(ValueError, "needs bytes"):
                t.pack(short, one, count, origin=at)
            with self.assertRaisesRegex(ValueError, "needs bytes"):
                t.unpack(b"", short, one, count, origin=at)


class Buffers(unittest.TestCase):
    def test_without_a_type_all_bytes(self):
        data = bytes(range(64))
        view = memoryview(data)[60:2:-3]
        self.assertEqual(t.pack(view), bytes(view))
        self.assertEqual(t.pack(data, offset=60, size=100), data[60:])
        self.assertEqual(t.pack(b""), b"")
        numbers = array.array("d", [1, 2, 3])
        self.assertEqual(t.pack(numbers), numbers.tobytes())
        out = bytearray(64)
        self.assertEqual(t.unpack(bytes(view), memoryview(out)[60:2:-3]), len(view))
        self.assertEqual(bytes(memoryview(out)[60:2:-3]), bytes(view))
        self.assertEqual(t.pack(memoryview(bytes(6)).cast("B", (2, 3))), bytes(6))

    def test_ctypes_gives_no_strides(self):
        table = (ctypes.c_uint16 * 3 * 2)((1, 2, 3), (4, 5, 6))
        self.assertEqual(t.pack(table), bytes(table))
        self.assertEqual(t.pack(table, t.UINT16, 5, origin=2), bytes(table)[2:])
        with self.assertRaisesRegex(ValueError, "needs bytes 2 to 14"):
            t.pack(table, t.UINT16, 6, origin=2)
        self.assertEqual(t.unpack(bytes(range(12)), table), 12)
        self.assertEqual(bytes(table), bytes(range(12)))

    def test_more_than_the_rest_is_cut(self):
        out = bytearray(6)
        self.assertEqual(t.unpack(b"abcdefgh", out, offset=4), 2)
        self.assertEqual(out, b"\0\0\0\0ab")
        self.assertEqual(t.pack_into(bytearray(9), out, offset=5), 1)
        self.assertEqual(t.pack_into(bytearray(9), out, offset=6), 0)
        self.assertEqual(t.unpack(b"x", out, offset=6), 0)

    def test_what_is_no_buffer(self):
        for call, name in [
            (lambda: t.pack("text"), "buf: 'str'"),
            (lambda: t.unpack(1, bytearray(8)), "packed: 'int'"),
            (lambda: t.unpack(b"", 5), "buf: 'int'"),
            (lambda: t.pack_into(None, b"abc"), "out: 'NoneType'"),
            (lambda: t.accumulate(b"", 5, t.INT, "sum"), "buf: 'int'"),
        ]:
            with self.assertRaisesRegex(TypeError, name + " has no buffer protocol"):
                call()

    def test_what_is_read_only(self):
        for call, name in [
            (lambda: t.unpack(b"abc", b"def"), "buf: 'bytes'"),
            (lambda: t.pack_into(b"def", b"abc"), "out: 'bytes'"),
            (lambda: t.unpack(b"abc", memoryview(b"def")), "buf: 'memoryview'"),
            (lambda: t.accumulate(bytes(4), bytes(4), t.INT, "sum"), "buf: 'bytes'"),
            (lambda: t.accumulate_into(bytes(4), bytes(4), t.INT, "sum"), "packed: 'bytes'"),
            (lambda: t.external_unpack(bytes(4), bytes(4), t.INT), "buf: 'bytes'"),
            (lambda: t.copy(bytes(4), None, bytes(4), None), "to: 'bytes'"),
        ]:
            with self.assertRaisesRegex(TypeError, name + " is read-only"):
                call()

    def test_packed_bytes_are_contiguous(self):
        gaps = memoryview(bytearray(16))[::2]
        for call, name in [(lambda: t.unpack(gaps, bytearray(8)), "packed"),
                           (lambda: t.pack_into(gaps, bytes(8)), "out")]:
            with self.assertRaisesRegex(ValueError, name + ": 'memoryview' is not contiguous"):
                call()

    def test_numbers_out_of_range(self):
        for call, said in [
            (lambda: t.pack(b"abc", offset=4), "offset is 4, but there are 3 packed bytes"),
            (lambda: t.pack(b"abc", offset=-1), "offset is -1"),
            (lambda: t.pack(b"abc", size=-1), "size is -1"),
            (lambda: t.pack(b"abc", t.BYTE, -1), "count is -1"),
            (lambda: t.pack(b"abc", hint="hot"), "hint is 'hot'"),
            (lambda: t.pack(b"abc", t.INT, origin=1 << 62), "needs bytes"),
            (lambda: t.pack(b"abc", t.BYTE, (1 << 63) - 1), "needs bytes"),
            (lambda: t.runs(t.INT, max=-1), "max is -1"),
            (lambda: t.runs_of_bytes(t.INT, size=-1), "size is -1"),
            (lambda: t.external_size(t.INT, -1), "count is -1"),
        ]:
            with self.assertRaisesRegex(ValueError, said):
                call()
        with self.assertRaisesRegex(ValueError, r"2\^63 packed bytes"):
            t.pack(b"abc", t.INT, (1 << 63) - 1)
        with self.assertRaises(errors.InvalidError):
            t.runs(t.INT, first=2)

    def test_a_resize_waits_for_the_end_of_the_call(self):
        """The buffer is given back when the call is over, after an error too."""
        data = bytearray(8)
        t.pack(data)
        with self.assertRaises(ValueError):
            t.pack(data, t.DOUBLE, 2)
        data.append(1)  # BufferError if it were still held

    def test_hints_change_nothing_that_is_seen(self):
        data = random.randbytes(3 << 20)
        one = t.vector(3 << 10, 512, 1024, t.BYTE)
        want = b"".join(data[at:at + 512] for at in range(0, len(data), 1024))
        for hint in (None, "cached", "stream"):
            self.assertEqual(t.pack(data, one, hint=hint), want)

    def test_threads(self):
        """Others run during a large pack, and helpers give the same bytes."""
        data = bytes(32 << 20)
        one = t.vector(4 << 20, 4, 8, t.BYTE)
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(None)
                time.sleep(0)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # the lock is never taken away, only given
        other = threading.Thread(target=tick)
        try:
            t.set_threads(1)
            other.start()
            end = time.monotonic() + 30
            while time.monotonic() < end:
                seen = len(ticks)
                packed = t.pack(data, one)
                if len(ticks) > seen:
                    break
        finally:
            stop.set()
            other.join()
            sys.setswitchinterval(before)
            t.set_threads(0)
        self.assertEqual(packed, bytes(16 << 20))
        self.assertGreater(len(ticks), seen)


class Reductions(unittest.TestCase):
    def test_rules(self):
        a = array.array("i", [1, 5, -3, 7])
        every_second = t.vector(2, 1, 2, t.INT)
        packed = array.array("i", [10, 20])
        self.assertEqual(t.accumulate(packed, a, every_second, "sum"), 8)
        self.assertEqual(a.tolist(), [11, 5, 17, 7])
        self.assertEqual(t.accumulate(packed, a, t.INT, "max", 4, offset=8), 8)
        self.assertEqual(a.tolist(), [11, 5, 17, 20])
        self.assertEqual(t.accumulate_into(packed, a, every_second, "prod"), 8)
        self.assertEqual(packed.tolist(), [110, 340])
        self.assertEqual(t.accumulate(packed, a, t.INT, "replace", 2, origin=4), 8)
        self.assertEqual(a.tolist(), [11, 110, 340, 20])
        self.assertEqual(t.accumulate(packed, a, t.INT, "no_op", 4), 8)
        self.assertEqual(a.tolist(), [11, 110, 340, 20])

    def test_where_it_is_not_defined(self):
        self.assertTrue(t.reduce_defined("sum", t.INT))
        self.assertFalse(t.reduce_defined("maxloc", t.INT))
        data = bytearray(b"12345678")
        with self.assertRaises(errors.NotSupportedError):
            t.accumulate(bytes(8), data, t.DOUBLE, "band")
        self.assertEqual(data, b"12345678")

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "op is 'mean': give one of max, min"):
            t.accumulate(bytes(4), bytearray(4), t.INT, "mean")
        with self.assertRaisesRegex(errors.InvalidError, "cuts an element"):
            t.accumulate(bytes(3), bytearray(4), t.INT, "sum")
        with self.assertRaisesRegex(ValueError, "needs bytes"):
            t.accumulate(bytes(8), bytearray(7), t.INT, "sum", 2)
        with self.assertRaisesRegex(ValueError, "offset is 9"):
            t.accumulate_into(bytearray(8), bytes(8), t.INT, "sum", 2, offset=9)


    def test_segments_that_cut_elements(self):
        want = array.array("q", range(0, 60, 3))
        for cut in range(1, 160, 13):
            a, packed = array.array("q", range(20)), array.array("q", range(0, 40, 2)).tobytes()
            parts = [(at, packed[at:at + cut]) for at in range(0, 160, cut)]
            with t.Accumulator(a, t.INT64, "sum", 20) as acc:
                for offset, part in reversed(parts):
                    acc.add(offset, part)
                self.assertEqual(acc.pending, 0)
            self.assertEqual(a, want)
        with t.Accumulator(a, t.INT64, "sum", 20) as acc:
            acc.add(0, bytes(5))
            self.assertEqual(acc.pending, 5)
            with self.assertRaisesRegex(errors.InvalidError, "came before"):
                acc.add(4, bytes(4))
            with self.assertRaisesRegex(errors.InvalidError, "pass the end"):
                acc.add(156, bytes(5))
        with self.assertRaises(errors.NotSupportedError):
            t.Accumulator(a, t.INT64, "maxloc", 20)


class Handles(unittest.TestCase):
    def test_closed_ones(self):
        data = bytearray(8)
        cursor, acc = t.Cursor(data, writable=True), t.Accumulator(data, t.INT, "sum")
        with self.assertRaises(BufferError):
            data.append(0)
        for one in (cursor, acc):
            one.close()
            one.close()
        data.append(0)
        for call in (lambda: cursor.pack_into(0, bytearray(1)), lambda: cursor.unpack(0, b"1"),
                     lambda: cursor.flush(), lambda: acc.add(0, b"1")):
            with self.assertRaisesRegex(ValueError, "is closed"):
                call()

    def test_a_cursor_to_read_from(self):
        with t.Cursor(b"12345678") as cursor:
            with self.assertRaisesRegex(TypeError, "writable=True"):
                cursor.unpack(0, b"1")
            with self.assertRaisesRegex(errors.InvalidError, "offset is 9"):
                cursor.pack_into(9, bytearray(1))
        with self.assertRaisesRegex(TypeError, "buf: 'bytes' is read-only"):
            t.Cursor(b"1234", writable=True)

    def test_one_thread_at_a_time(self):
        """Two threads in one cursor: until one was refused, each call is whole."""
        data = random.randbytes(8 << 20)
        one = t.vector(2 << 20, 2, 4, t.BYTE)
        want, refused, wrong = t.pack(data, one), [], []
        end = time.monotonic() + 30

        def take(cursor):
            out = bytearray(len(want))
            while not refused and not wrong and time.monotonic() < end:
                try:
                    if cursor.pack_into(0, out) != len(want) or out != want:
                        wrong.append(out)
                except RuntimeError as error:
                    refused.append(str(error))

        with t.Cursor(data, one) as cursor:
            threads = [threading.Thread(target=take, args=[cursor]) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertFalse(wrong)
        self.assertIn("another thread uses this Cursor", refused)


class External(unittest.TestCase):
    def test_round_trip(self):
        a = array.array("i", [1, -2, 3])
        every_second = t.vector(2, 1, 2, t.INT)
        packed = t.external_pack(a, every_second)
        self.assertEqual(packed, bytes([0, 0, 0, 1, 0, 0, 0, 3]))
        self.assertEqual(t.external_size(t.LONG, 3), 12)
        back = array.array("i", [0, 9, 0])
        self.assertEqual(t.external_unpack(packed, back, every_second), 8)
        self.assertEqual(back.tolist(), [1, 9, 3])
        with self.assertRaises(errors.TruncatedError):
            t.external_unpack(packed[:7], back, every_second)
        self.assertEqual(t.external_pack(b"", t.INT, 0), b"")


if __name__ == "__main__":
    unittest.main()
