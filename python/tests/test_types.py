# SPDX-License-Identifier: BSD-3-Clause
"""Types and errors without numpy: what they say, refuse and keep alive."""
import array
import ctypes
import gc
import os
import re
import subprocess
import sys
import unittest

from wherry import Status, errors
from wherry import _core
from wherry import types as t


class Predefined(unittest.TestCase):
    def test_module_has_each_under_its_name(self):
        self.assertGreater(len(t.BASIC), 50)
        for name, one in t.BASIC.items():
            self.assertIs(getattr(t, name), one)
            self.assertIn(name, t.__all__)
            self.assertIn(f" {name}: {one.size} bytes", repr(one))
            self.assertEqual(one.envelope, ("basic", 1, 0))

    def test_sizes_are_those_of_c(self):
        for name, code in {"CHAR": "b", "SHORT": "h", "INT": "i", "LONG": "l", "LLONG": "q",
                           "FLOAT": "f", "DOUBLE": "d", "SIZE": "L", "WCHAR": "i"}.items():
            with self.subTest(name):
                self.assertEqual(t.BASIC[name].size, array.array(code).itemsize)
        self.assertEqual((t.FLOAT16.size, t.BFLOAT16.size, t.FLOAT8_E4M3.size), (2, 2, 1))
        self.assertEqual((t.SHORT_INT.size, t.SHORT_INT.extent), (6, 8))

    def test_names_are_exported(self):
        for name in t.__all__:
            self.assertTrue(hasattr(t, name), name)


class Errors(unittest.TestCase):
    def test_statuses_are_those_of_the_header(self):
        self.assertEqual({one.name: one.value for one in Status}, _core.statuses())

    def test_each_status_below_zero_has_a_class(self):
        self.assertEqual(set(errors.CLASS_OF), {int(one) for one in Status if one < 0})

    def test_invalid_arguments_are_named(self):
        old = t.INT
        for make, said in [
            (lambda: t.contig(-1, old), "count"),
            (lambda: t.vector(1, -1, 1, old), "blocklength"),
            (lambda: t.hvector(-1, 1, 1, old), "count"),
            (lambda: t.indexed([1, -1], [0, 1], old), "blocklengths"),
            (lambda: t.hindexed([-1], [0], old), "blocklengths"),
            (lambda: t.indexed_block(-1, [0], old), "blocklength"),
            (lambda: t.hindexed_block(-1, [0], old), "blocklength"),
            (lambda: t.struct([-1], [0], [old]), "blocklengths"),
            (lambda: t.subarray([4], [5], [0], old), "subsizes"),
            (lambda: t.subarray([4], [2], [3], old), "starts"),
            (lambda: t.darray(4, 4, [8], ["block"], [None], [4], old), "rank"),
            (lambda: t.strided([-1], [4], old), "shape"),
            (lambda: t.contig(1 << 60, old), "2^61"),
        ]:
            with self.assertRaises(errors.InvalidError) as caught:
                make()
            self.assertIn(said, str(caught.exception))
            self.assertIs(caught.exception.status, Status.EINVAL)
            self.assertIsInstance(caught.exception, ValueError)

    def test_lengths_that_differ(self):
        for make in [
            lambda: t.indexed([1, 2], [0], t.INT),
            lambda: t.hindexed([1], [0, 1], t.INT),
            lambda: t.struct([1], [0, 1], [t.INT]),
            lambda: t.struct([1], [0], []),
            lambda: t.subarray([4], [2, 2], [0], t.INT),
            lambda: t.subarray([4], [2], [], t.INT),
            lambda: t.darray(1, 0, [4], [], [None], [1], t.INT),
            lambda: t.strided([4], [], t.INT),
        ]:
            with self.assertRaisesRegex(ValueError, r"has \d entries, but \w+ has \d"):
                make()

    def test_wrong_kinds_of_arguments(self):
        for make, said in [
            (lambda: t.contig(1.5, t.INT), "count is 1.5"),
            (lambda: t.contig(1, "INT"), "Type"),
            (lambda: t.contig(1, None), "None"),
            (lambda: t.indexed([1.0], [0], t.INT), "blocklengths"),
            (lambda: t.indexed_block(1, 7, t.INT), "displacements"),
            (lambda: t.struct([1], [0], [4]), r"types\[0\]"),
            (lambda: t.Type(), "functions of wherry.types"),
        ]:
            with self.assertRaisesRegex(TypeError, said):
                make()
        with self.assertRaisesRegex(ValueError, "displacements"):
            t.indexed_block(1, [1 << 63], t.INT)
        with self.assertRaisesRegex(ValueError, "count"):
            t.contig(1 << 63, t.INT)
        with self.assertRaisesRegex(ValueError, "order"):
            t.subarray([4], [2], [1], t.INT, order="A")
        with self.assertRaisesRegex(ValueError, "distribs"):
            t.darray(1, 0, [4], ["random"], [None], [1], t.INT)

    def test_depth(self):
        one = t.INT
        with self.assertRaises(errors.LimitError):
            for _ in range(101):
                one = t.dup(one)

    def test_a_type_never_made(self):
        with self.assertRaisesRegex(TypeError, "functions of wherry.types"):
            t.Type.__new__(t.Type)


class Questions(unittest.TestCase):
    def test_bounds(self):
        one = t.struct([1, 1], [-8, 4], [t.DOUBLE, t.CHAR])
        self.assertEqual((one.size, one.lb, one.ub, one.extent), (9, -8, 8, 16))
        self.assertEqual((one.true_lb, one.true_extent, one.align), (-8, 13, 8))
        self.assertEqual((one.basics, one.runs), (2, 2))

    def test_bounds_are_those_of_the_mpi_standard(self):
        empty = t.struct([1, 1, 0], [0, 2, 8], [t.CHAR, t.SHORT, t.DOUBLE])
        self.assertEqual((empty.extent, empty.align), (4, 2))
        marked = t.struct([1, 1], [0, 8], [t.resized(t.DOUBLE, 0, 8), t.CHAR])
        self.assertEqual((marked.lb, marked.ub), (0, 8))
        self.assertEqual(t.hvector(2, 1, 3, t.INT).extent, 8)

    def test_envelope_and_contents(self):
        member = t.vector(2, 1, 3, t.INT)
        one = t.struct([1, 2], [0, 64], [member, t.CHAR])
        self.assertEqual(one.kind, "struct")
        self.assertEqual(one.envelope, ("struct", 5, 2))
        args, children = one.contents
        self.assertEqual(args, (2, 1, 2, 0, 64))
        self.assertEqual(children, (member, t.CHAR))
        self.assertEqual(t.INT.contents, ((list(t.BASIC).index("INT"),), ()))
        kinds = [make.kind for make in [
            t.dup(t.INT), t.contig(1, t.INT), member, t.hvector(1, 1, 1, t.INT),
            t.indexed([1], [0], t.INT), t.hindexed([1], [0], t.INT),
            t.indexed_block(1, [0], t.INT), t.hindexed_block(1, [0], t.INT), one,
            t.subarray([1], [1], [0], t.INT), t.darray(1, 0, [1], ["none"], [None], [1], t.INT),
            t.resized(t.INT, 0, 4), t.strided([1], [4], t.INT)]]
        self.assertEqual(tuple(kinds), _core.KINDS[1:])

    def test_equality_and_hash(self):
        a, b = t.vector(3, 2, 2, t.INT), t.contig(6, t.INT32)
        self.assertEqual(a, b)
        self.assertEqual(hash(a), hash(b))
        self.assertEqual(len({a, b, t.dup(a)}), 1)
        self.assertNotEqual(a, t.contig(6, t.FLOAT))
        self.assertTrue(a.same_layout(t.contig(6, t.FLOAT)))
        self.assertNotEqual(a, t.resized(a, 0, 25))
        self.assertNotEqual(a, 6)

    def test_signature_and_elements(self):
        one = t.struct([1, 1], [0, 8], [t.INT, t.DOUBLE])
        self.assertEqual(one.signature(3), t.contig(3, one).signature())
        other = t.struct([1, 1], [0, 8], [t.DOUBLE, t.INT])
        self.assertNotEqual(one.signature(), other.signature())
        self.assertEqual(one.elements(16), 3)
        with self.assertRaises(errors.InvalidError):
            one.elements(5)

    def test_border(self):
        one = t.struct([1, 2], [0, 8], [t.INT, t.DOUBLE_INT])
        self.assertEqual([one.border(n) for n in (0, 3, 4, 12, 16, 27, 28, 33)],
                         [0, 0, 4, 4, 16, 16, 28, 32])
        self.assertEqual(one.elements(one.border(61)), 11)
        for bad in (-1, 1 << 63):
            with self.assertRaises(ValueError):
                one.border(bad)
        with self.assertRaises(errors.InvalidError):
            t.contig(0, one).border(1)

    def test_chunks_between_borders_are_reduced_as_they_come(self):
        one = t.struct([1, 2, 1], [0, 8, 40], [t.SHORT, t.DOUBLE, t.INT])
        target, source = bytearray(one.extent * 9), os.urandom(one.size * 9)
        at = 0
        while at < len(source):
            end = one.border(min(at + 29, len(source)))
            self.assertGreater(end, at)
            self.assertLessEqual(end - at, 29)
            t.accumulate(source[at:end], target, one, "max", 9, offset=at)
            at = end

    def test_unflatten_refuses(self):
        good = t.vector(3, 1, 2, t.INT).flatten()
        self.assertEqual(t.unflatten(bytearray(good)), t.vector(3, 1, 2, t.INT))
        for end in range(len(good)):
            with self.assertRaises(errors.ProtocolError):
                t.unflatten(good[:end])
        with self.assertRaises(errors.VersionError):
            t.unflatten(good[:3] + b"\x63" + good[4:])
        with self.assertRaisesRegex(TypeError, "data: 'int' has no buffer protocol"):
            t.unflatten(7)

    def test_types_live_as_long_as_they_are_used(self):
        old = t.contig(3, t.INT)
        seen = t.dup(old)
        del old
        gc.collect()
        (child,) = seen.contents[1]
        del seen
        self.assertEqual(child, t.contig(3, t.INT))


class Layouts(unittest.TestCase):
    def test_from_strides(self):
        self.assertEqual(t.from_strides(8, (3, 4)), t.contig(96, t.BYTE))
        self.assertEqual(t.from_strides(8, (3, 4), old=t.DOUBLE), t.contig(12, t.DOUBLE))
        self.assertEqual(t.runs(t.from_strides(4, (2, 2), (-16, 8))),
                         [(0, 4), (8, 4), (-16, 4), (-8, 4)])
        self.assertEqual(t.from_strides(4, ()), t.contig(4, t.BYTE))
        with self.assertRaisesRegex(ValueError, "itemsize is 4, but old packs 8"):
            t.from_strides(4, (2,), (8,), t.DOUBLE)

    def test_from_buffers_that_are_not_numpys(self):
        view = memoryview(array.array("f", range(12)))[10::-3]
        one = t.from_array(view)
        self.assertEqual(one.signature(), t.contig(4, t.FLOAT).signature())
        self.assertEqual(t.pack(view, one), view.tobytes())
        self.assertEqual(t.from_array(b"abc"), t.contig(3, t.UINT8))
        for code in "bBhHiIlLqQfd":
            made = t.from_array(array.array(code, [1]))
            self.assertEqual(made.size, array.array(code).itemsize, code)
        with self.assertRaises(TypeError):
            t.from_array(5)
        with self.assertRaisesRegex(TypeError, "there is no type for them"):
            t.from_array((ctypes.c_void_p * 2)())


class Module(unittest.TestCase):
    def test_import_needs_nothing(self):
        """No package that is not Python's own is loaded by the import."""
        said = subprocess.run(
            [sys.executable, "-c", "import sys; import wherry; print('numpy' in sys.modules)"],
            check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(said.strip(), "False")

    def test_version(self):
        import wherry

        self.assertTrue(re.fullmatch(r"\d+\.\d+\.\d+", wherry.__version__))

    def test_docstrings(self):
        for name in t.__all__:
            one = getattr(t, name)
            if callable(one):
                self.assertTrue(one.__doc__, name)

    def test_no_memory_is_lost(self):
        """Many types, buffers and errors leave as many objects as there were."""
        data = bytearray(64)

        def use():
            one = t.struct([1, 2], [0, 16], [t.vector(2, 1, 2, t.INT), t.DOUBLE])
            t.unpack(t.pack(data, one), data, one)
            for wrong in (lambda: t.pack(data, one, 9), lambda: t.contig(-1, one)):
                try:
                    wrong()
                except ValueError:
                    pass

        use()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(2000):
            use()
        gc.collect()
        self.assertLess(sys.getallocatedblocks() - before, 200)


if __name__ == "__main__":
    unittest.main()
