# SPDX-License-Identifier: BSD-3-Clause
"""Types from numpy's dtypes and arrays, and packing of arrays: numpy says what is right."""
import math
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed")

import walk
from wherry import errors
from wherry import types as t

PLAIN = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16",
         "G", "S3", "U2", "V5", "M8[ms]", "m8[s]"]


def random_dtype(rng, depth):
    if depth == 0:
        return np.dtype(rng.choice(PLAIN))
    how = rng.choice(["plain", "packed", "aligned", "offsets", "array", "array"])
    if how == "plain":
        return np.dtype(rng.choice(PLAIN))
    if how == "array":
        shape = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
        return np.dtype((random_dtype(rng, depth - 1), shape))
    names = [f"f{i}" for i in range(rng.randint(1, 4))]
    formats = [random_dtype(rng, depth - 1) for _ in names]
    if how != "offsets":
        return np.dtype({"names": names, "formats": formats}, align=how == "aligned")
    # Fields in any order, with padding between them and at both ends.
    offsets, at = [0] * len(names), rng.randint(0, 3)
    for i in rng.sample(range(len(names)), len(names)):
        offsets[i] = at
        at += formats[i].itemsize + rng.randint(0, 5)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": at})


def random_view(rng, shape):
    """A function that takes a view of any array of that shape: slices with steps of both signs, a
    new order of the axes, a single index."""
    cut = []
    for n in shape:
        begin, end = sorted((rng.randint(0, n - 1), rng.randint(0, n)))
        cut.append(rng.choice([slice(None), slice(begin, end, rng.randint(1, 3)),
                               slice(end, begin, -rng.randint(1, 3)), slice(None, None, -1)]))
    axes = rng.sample(range(len(shape)), len(shape))
    single = rng.random() if rng.random() < 0.3 else None

    def view_of(array):
        view = array[(*cut, ...)].transpose(axes)  # the dots: of no dimension still an array
        if single is not None and view.ndim and view.shape[0]:
            view = view[int(single * view.shape[0]), ...]
        return view

    return view_of


def random_case(rng):
    dtype = random_dtype(rng, rng.randint(0, 3))
    shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(0, 4)))
    raw = np.frombuffer(bytearray(rng.randbytes(math.prod(shape) * dtype.itemsize)), np.uint8)
    array = np.ndarray(shape, dtype, raw)
    return array, random_view(rng, array.shape)


def all_bytes(array):
    """The bytes of the elements with their padding, which tobytes() may not copy."""
    return array.view(f"V{array.dtype.itemsize}").tobytes()


def field_bytes(array):
    """The bytes of the elements without padding: fields in order, each element by itself."""
    if array.dtype.names is None:
        return array.tobytes()
    flat = array.reshape(-1) if array.ndim else array.reshape(1)
    return b"".join(field_bytes(np.asarray(flat[i:i + 1][name]))
                    for i in range(len(flat)) for name in array.dtype.names)


ON_RANDOM = walk.on_random(500, random_case)


class Dtypes(unittest.TestCase):
    def test_plain(self):
        for code, basic in {"?": t.BOOL, "i4": t.INT32, "u8": t.UINT64, "f2": t.FLOAT16,
                            "f4": t.FLOAT, "f8": t.DOUBLE, "g": t.LONG_DOUBLE,
                            "c8": t.COMPLEX_FLOAT, "G": t.COMPLEX_LONG_DOUBLE,
                            "M8[D]": t.INT64, "m8[s]": t.INT64}.items():
            self.assertEqual(t.from_dtype(code), basic, code)
        self.assertEqual(t.from_dtype(float), t.DOUBLE)
        self.assertEqual(t.from_dtype(np.int16), t.INT16)
        self.assertEqual(t.from_dtype("S5"), t.contig(5, t.BYTE))
        self.assertEqual(t.from_dtype("U5"), t.contig(5, t.UINT32))
        for code in [*PLAIN, "S0"]:
            one = t.from_dtype(code)
            self.assertEqual((one.size, one.extent), (np.dtype(code).itemsize,) * 2, code)

    def test_small_floats_of_other_packages(self):
        class Small:  # what a dtype of such a package answers
            subdtype = names = None
            hasobject, isnative, isbuiltin, kind = False, True, 2, "f"

            def __init__(self, name, itemsize):
                self.name, self.itemsize = name, itemsize

        for name, basic in {"bfloat16": t.BFLOAT16, "float8_e4m3fn": t.FLOAT8_E4M3,
                            "float8_e5m2": t.FLOAT8_E5M2}.items():
            self.assertIs(t.from_dtype(Small(name, basic.size)), basic)
        self.assertEqual(t.from_dtype(Small("float6", 2)), t.contig(2, t.BYTE))

    def test_fields(self):
        dtype = np.dtype([("tag", "i1"), ("place", "f8", (2, 3)), ("name", "S4")], align=True)
        one = t.from_dtype(dtype)
        self.assertEqual((one.size, one.lb, one.extent), (1 + 48 + 4, 0, dtype.itemsize))
        self.assertEqual(one.basics, 1 + 6 + 4)
        whole = np.dtype([("a", "i2"), ("b", "i2")])
        self.assertEqual(t.from_dtype(whole), t.contig(2, t.INT16))
        self.assertEqual(t.from_dtype(np.dtype([])).size, 0)

    def test_what_cannot_be_moved(self):
        nested = [("a", "i4"), ("b", [("c", "f8"), ("d", ">f8", (2,))])]
        for dtype, error, said in [
            (">f8", ValueError, r"dtype >f8: is big-endian"),
            (nested, ValueError, r"dtype >f8 of field 'b\.d': is big-endian"),
            ("O", TypeError, "dtype object: holds references"),
            ([("a", "i4"), ("b", "O")], TypeError, "of field 'b': holds references"),
            (">U3", ValueError, "big-endian"),
        ]:
            with self.assertRaisesRegex(error, said):
                t.from_dtype(dtype)
        with self.assertRaisesRegex(ValueError, "big-endian"):
            t.from_array(np.zeros(3, ">i4"))
        for array, error, said in [
            (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, r"array: 'MaskedArray' has a mask"),
            (np.ma.array([1.0, 2.0]), TypeError, r"has a mask.*\.filled\(\)"),
            (np.ma.array([1.0])[:0], TypeError, "has a mask"),
            (np.array([None, 1]), TypeError, "dtype object: holds references"),
            (memoryview(np.array([None, 1])), TypeError, "elements 'O': there is no type"),
            (memoryview(np.zeros(2, "i4,O")), TypeError, "there is no type"),
            (memoryview(np.zeros(3, ">i4")), TypeError, "elements '>i': there is no type"),
            ([1.0, 2.0], TypeError, "list"),
            (np.float64, TypeError, ""),
        ]:
            with self.subTest(array), self.assertRaisesRegex(error, said):
                t.from_array(array)
        masked = np.ma.array([1.0, 2.0], mask=[0, 1])
        self.assertEqual(t.from_array(masked.data), t.contig(2, t.DOUBLE))
        self.assertEqual(t.from_array(masked.filled()), t.contig(2, t.DOUBLE))
        self.assertEqual(t.from_dtype(">i1"), t.INT8)
        with self.assertRaises(TypeError):
            t.from_dtype("no such dtype")


class Arrays(unittest.TestCase):
    @ON_RANDOM
    def test_views_as_bytes(self, rng, array, view_of):
        packed = t.pack(view_of(array))
        self.assertEqual(packed, all_bytes(view_of(array)))
        fresh = rng.randbytes(len(packed))
        self.assertEqual(t.unpack(fresh, view_of(array)), len(fresh))
        self.assertEqual(all_bytes(view_of(array)), fresh)

    @ON_RANDOM
    def test_views_by_fields(self, rng, array, view_of):
        view = view_of(array)
        one = t.from_array(view)
        self.assertEqual(one.size, view.size * t.from_dtype(view.dtype).size)
        want = field_bytes(view)
        self.assertEqual(t.pack(view, one), want)
        begin = rng.randint(0, len(want))
        self.assertEqual(t.pack(view, one, offset=begin, size=7), want[begin:begin + 7])
        fresh = bytes(rng.choices(range(1, 256), k=len(want)))
        left = np.ndarray(array.shape, array.dtype, bytearray(array.nbytes))
        self.assertEqual(t.unpack(fresh, view_of(left), one), len(fresh))
        self.assertEqual(field_bytes(view_of(left)), fresh)
        # What is padding, or not in the view, stays zero.
        self.assertEqual(sum(map(bool, t.pack(left))), len(fresh))

    @ON_RANDOM
    def test_elements_of_a_dtype_by_count(self, rng, array, view_of):
        one = t.from_dtype(array.dtype)
        self.assertEqual(t.pack(array, one, array.size), field_bytes(array))

    def test_broadcast_is_packed_and_not_unpacked(self):
        view = np.broadcast_to(np.arange(3.0), (4, 3))
        self.assertEqual(t.pack(view, t.from_array(view)), view.tobytes())
        with self.assertRaisesRegex(TypeError, "buf: 'ndarray' is read-only"):
            t.unpack(bytes(96), view)

    def test_memoryviews_of_arrays(self):
        for code in ("?", "i2", "u8", "f2", "f4", "g", "c8", "c16"):
            a = np.zeros((3, 4), code)[::-1, ::2]
            self.assertEqual(t.from_array(memoryview(a)), t.from_array(a), code)
        for code in (">i2", "i2,f4", "U3"):
            with self.assertRaisesRegex(TypeError, "there is no type for them"):
                t.from_array(memoryview(np.zeros(3, code)))

    def test_read_only_arrays(self):
        array = np.arange(4)
        array.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "buf: 'ndarray' is read-only"):
            t.unpack(bytes(32), array)
        with self.assertRaisesRegex(TypeError, "out: 'ndarray' is read-only"):
            t.pack_into(array, bytes(32))
        with self.assertRaisesRegex(ValueError, "out: 'ndarray' is not contiguous"):
            t.pack_into(np.zeros((4, 4))[:, 1], bytes(32))

    def test_a_layout_of_another_array(self):
        small, large = np.zeros((4, 4)), np.zeros((4, 5))
        with self.assertRaisesRegex(ValueError, "needs bytes 0 to 160 of buf, which has 0 to 128"):
            t.pack(small, t.from_array(large))
        self.assertEqual(len(t.pack(large[::-1], t.from_array(small[::-1]))), 128)

    def test_large_arrays(self):
        """Above the size from which the interpreter's lock is given away, in segments too."""
        array = np.random.default_rng().random((300, 400, 3))
        view = array[::-1, 3:390:3, 1:].transpose(1, 2, 0)
        one = t.from_array(view).commit()
        want = view.tobytes()
        self.assertEqual(t.pack(view, one), want)
        out = np.empty(len(want), np.uint8)
        for begin in range(0, len(want), 70001):
            t.pack_into(out[begin:begin + 70001], view, one, offset=begin)
        self.assertEqual(out.tobytes(), want)
        left = np.zeros_like(array)
        target = left[::-1, 3:390:3, 1:].transpose(1, 2, 0)
        for begin in reversed(range(0, len(want), 70001)):
            t.unpack(out[begin:begin + 70001], target, one, offset=begin)
        self.assertTrue((target == view).all())
        self.assertEqual(np.count_nonzero(left), view.size)

    def test_copy_between_layouts(self):
        a = np.random.default_rng().random((30, 40))
        b = np.zeros((40, 30))
        self.assertEqual(t.copy(b.T, t.from_array(b.T), a, t.from_array(a)), a.nbytes)
        self.assertTrue((b == a.T).all())
        c = np.zeros((40, 60))[:, ::-2]
        self.assertEqual(t.copy(c, None, b, None), b.nbytes)
        self.assertTrue((b == c).all())

    def test_index_of_many_blocks(self):
        a = np.random.default_rng().random(100000)
        places = np.random.default_rng(1).permutation(len(a))[:50000]
        for index in (places, places.astype(np.int32), places[::-1], list(map(int, places))):
            one = t.indexed_block(1, index, t.DOUBLE)
            self.assertEqual(t.pack(a, one), a[np.asarray(index)].tobytes())
        lengths = np.full(1000, 3)
        starts = np.arange(1000) * 7
        want = np.concatenate([a[i:i + 3] for i in starts]).tobytes()
        self.assertEqual(t.pack(a, t.indexed(lengths, starts, t.DOUBLE)), want)


class Parts(unittest.TestCase):
    def test_subarray(self):
        for order in "CF":
            a = np.asarray(np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6), order=order)
            one = t.subarray(a.shape, (2, 3, 4), (1, 0, 2), t.INT32, order)
            part = a[1:3, 0:3, 2:6]
            memory = a.ravel("K")
            self.assertEqual(t.pack(memory, one), part.tobytes(order))

    def test_darray_deals_out_everything_once(self):
        gsizes, psizes = (7, 10), (2, 3)
        a = np.arange(70, dtype=np.int16).reshape(gsizes)
        for distribs, dargs in [(("block", "cyclic"), (None, None)),
                                (("cyclic", "cyclic"), (2, 3)), (("block", "block"), (4, 4))]:
            seen = []
            for rank in range(6):
                one = t.darray(6, rank, gsizes, distribs, dargs, psizes, t.INT16)
                rows = self.dealt(distribs[0], dargs[0], 7, 2, rank // 3)
                columns = self.dealt(distribs[1], dargs[1], 10, 3, rank % 3)
                packed = np.frombuffer(t.pack(a, one), np.int16)
                self.assertTrue((packed == a[np.ix_(rows, columns)].ravel()).all())
                seen += packed.tolist()
            self.assertEqual(sorted(seen), list(range(70)))

    @staticmethod
    def dealt(how, block, size, processes, mine):
        if block is None:
            block = -(-size // processes) if how == "block" else 1
        return [i for i in range(size) if i // block % processes == mine]


class Values(unittest.TestCase):
    def test_reductions(self):
        rng = np.random.default_rng(3)
        for code in ("i1", "u1", "i2", "u4", "i8", "f4", "f8"):
            a = rng.integers(0, 100, (6, 8)).astype(code)
            b = rng.integers(0, 100, (6, 4)).astype(code)
            for op, rule in {"sum": np.add, "prod": np.multiply, "max": np.maximum,
                             "min": np.minimum, "land": np.logical_and, "lor": np.logical_or,
                             "lxor": np.logical_xor}.items():
                got, want = a.copy(), a.copy()
                view = got[:, ::2]
                t.accumulate(np.ascontiguousarray(b), view, t.from_array(view), op)
                want[:, ::2] = rule(want[:, ::2], b)
                self.assertTrue((got == want).all(), (code, op))
                into = b.copy()
                t.accumulate_into(into, a[:, ::2], t.from_array(a[:, ::2]), op)
                self.assertTrue((into == rule(b, a[:, ::2]).astype(code)).all(), (code, op))

    def test_reductions_of_structures(self):
        dtype = np.dtype([("n", "i4"), ("x", "f8")], align=True)
        a = np.array([(1, 2.5), (3, 4.5)], dtype)
        t.accumulate(t.pack(a, t.from_array(a)), a, t.from_array(a), "sum")
        self.assertEqual(a.tolist(), [(2, 5.0), (6, 9.0)])

    def test_location_of_the_maximum(self):
        pair = np.dtype([("value", "f8"), ("index", "i4")], align=True)
        a = np.array([(1.0, 0), (7.0, 5)], pair)
        b = np.array([(2.0, 9), (7.0, 3)], pair)
        packed = t.pack(b, t.DOUBLE_INT, 2)
        self.assertEqual(len(packed), 24)
        t.accumulate(packed, a, t.DOUBLE_INT, "maxloc", 2)
        self.assertEqual(a.tolist(), [(2.0, 9), (7.0, 3)])

    def test_external32_is_big_endian(self):
        for code in ("i2", "u4", "i8", "f4", "f8"):
            a = np.arange(-6, 6).astype(code).reshape(3, 4)
            view = a[::-1, ::2]
            one = t.from_array(view)
            packed = t.external_pack(view, one)
            self.assertEqual(packed, view.astype(">" + code).tobytes())
            back = np.zeros_like(a)[::-1, ::2]
            t.external_unpack(packed, back, one)
            self.assertTrue((back == view).all())
        with self.assertRaises(errors.TruncatedError):
            t.external_unpack(b"", back, one)


if __name__ == "__main__":
    unittest.main()
