# SPDX-License-Identifier: BSD-3-Clause
"""The naive reading of a type, from what ``contents`` says: the oracle of the tests.

``walk(type)`` lists (offset, size) of every predefined element in packing order; ``random_type``
makes types that it can read.
"""
import functools
import itertools
import random

from wherry import types as t

PLAIN = [t.BYTE, t.SHORT, t.INT, t.DOUBLE, t.LONG_DOUBLE, t.COMPLEX_FLOAT, t.FLOAT8_E5M2]


def blocks(kind, args, child):
    """(blocklength, displacement in bytes) of each block of the kinds that have blocks."""
    if kind == "contig":
        return [(args[0], 0)]
    if kind in ("vector", "hvector"):
        count, length, stride = args
        step = stride if kind == "hvector" else stride * child.extent
        return [(length, i * step) for i in range(count)]
    unit = 1 if kind.startswith("h") else child.extent
    if kind in ("indexed", "hindexed"):
        n = args[0]
        return [(length, at * unit) for length, at in zip(args[1:1 + n], args[1 + n:])]
    count, length, *places = args
    return [(length, at * unit) for at in places]


def grid(shape, strides):
    for place in itertools.product(*map(range, shape)):
        yield sum(i * step for i, step in zip(place, strides))


def subarray_strides(sizes, order, extent):
    steps, step = [0] * len(sizes), extent
    dims = range(len(sizes))
    for i in dims if order else reversed(dims):
        steps[i] = step
        step *= sizes[i]
    return steps


def places(kind, args, children):
    """(displacement, child) of every copy of a child, in order."""
    child = children[0] if children else None
    if kind in ("dup", "resized"):
        yield 0, child
    elif kind == "struct":
        n = args[0]
        for length, at, one in zip(args[1:1 + n], args[1 + n:], children):
            for i in range(length):
                yield at + i * one.extent, one
    elif kind == "strided":
        n = args[0]
        for at in grid(args[1:1 + n], args[1 + n:]):
            yield at, child
    elif kind == "subarray":
        n, order = args[:2]
        sizes, part, first = args[2:2 + n], args[2 + n:2 + 2 * n], args[2 + 2 * n:]
        steps = subarray_strides(sizes, order, child.extent)
        base = sum(i * step for i, step in zip(first, steps))
        if order:  # the first index is the fastest in memory and in the packed bytes
            part, steps = part[::-1], steps[::-1]
        for at in grid(part, steps):
            yield base + at, child
    else:
        for length, at in blocks(kind, args, child):
            for i in range(length):
                yield at + i * child.extent, child


def walk(one, at=0):
    args, children = one.contents
    if not children and one.kind == "basic":
        return [(at, one.size)]
    return [leaf for place, child in places(one.kind, args, children)
            for leaf in walk(child, at + place)]


def runs_of(leaves):
    """Joins what touches."""
    made = []
    for at, size in leaves:
        if made and sum(made[-1]) == at:
            made[-1] = (made[-1][0], made[-1][1] + size)
        elif size:
            made.append((at, size))
    return made


def random_type(rng, depth):
    if depth == 0:
        return rng.choice(PLAIN)
    old = random_type(rng, depth - 1)
    small, step = rng.choice([0, 1, 2, 3, 3]), rng.randint(-4, 6)
    lengths = [rng.choice([0, 1, 1, 2, 3]) for _ in range(small)]
    far = [rng.randint(-90, 90) for _ in range(small)]
    near = [rng.randint(-5, 5) for _ in range(small)]
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    part = [rng.randint(rng.choice([0, 1, 1, 1]), n) for n in sizes]
    first = [rng.randint(0, n - m) for n, m in zip(sizes, part)]
    make = rng.choice([
        lambda: t.dup(old),
        lambda: t.contig(small, old),
        lambda: t.vector(small, rng.randint(0, 3), step, old),
        lambda: t.hvector(small, rng.randint(0, 3), rng.randint(-60, 60), old),
        lambda: t.indexed(lengths, near, old),
        lambda: t.hindexed(lengths, far, old),
        lambda: t.indexed_block(rng.randint(0, 3), near, old),
        lambda: t.hindexed_block(rng.randint(0, 3), far, old),
        lambda: t.struct(lengths, far, [random_type(rng, depth - 1) for _ in lengths]),
        lambda: t.subarray(sizes, part, first, old, rng.choice("CF")),
        lambda: t.resized(old, rng.randint(-20, 20), rng.randint(-20, 60)),
        lambda: t.strided(sizes, [rng.randint(-50, 50) for _ in sizes], old),
    ])
    return make()


def on_random(rounds, make):
    """Runs a test method `rounds` times on what ``make(rng)`` returns; tells what it failed on."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            seed = random.randrange(1 << 32)
            rng = random.Random(seed)
            for i in range(rounds):
                case = make(rng)
                try:
                    test(self, rng, *case)
                except Exception:
                    print(f"seed {seed}, round {i}: {case}"[:2000])
                    raise
        return run
    return decorate
