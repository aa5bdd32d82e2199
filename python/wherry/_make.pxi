# SPDX-License-Identifier: BSD-3-Clause
#
# The constructors: arguments in the order of include/wherry/type.h, counts of arrays left out.

cdef object same_length(object a, str a_name, object b, str b_name):
    if len(a) != len(b):
        raise ValueError(f"{a_name} has {len(a)} entries, but {b_name} has {len(b)}")


cdef wh_order order_of(object order) except *:
    if order == "C":
        return WH_ORDER_C
    if order == "F":
        return WH_ORDER_FORTRAN
    raise ValueError(f"order is {order!r}: give 'C' or 'F'")


def contig(count, Type old not None):
    """`old` repeated `count` times, one extent apart."""
    cdef wh_type *made = NULL
    check(wh_type_create_contig(whole(count, "count"), old.c, &made))
    return wrap(made)


def vector(count, blocklength, stride, Type old not None):
    """`count` blocks of `blocklength` elements, `stride` extents of `old` apart."""
    cdef wh_type *made = NULL
    check(wh_type_create_vector(whole(count, "count"), whole(blocklength, "blocklength"),
                                whole(stride, "stride"), old.c, &made))
    return wrap(made)


def hvector(count, blocklength, stride, Type old not None):
    """As ``vector``, but `stride` is in bytes."""
    cdef wh_type *made = NULL
    check(wh_type_create_hvector(whole(count, "count"), whole(blocklength, "blocklength"),
                                 whole(stride, "stride"), old.c, &made))
    return wrap(made)


def indexed(blocklengths, displacements, Type old not None):
    """Blocks, each with its own length and displacement in extents of `old`.

    Both are sequences of integers of one length; int64 arrays are fastest.
    """
    cdef wh_type *made = NULL
    lengths = numbers(blocklengths, "blocklengths")
    places = numbers(displacements, "displacements")
    same_length(lengths, "blocklengths", places, "displacements")
    check(wh_type_create_indexed(len(lengths), numbers_at(lengths), numbers_at(places), old.c,
                                 &made))
    return wrap(made)


def hindexed(blocklengths, displacements, Type old not None):
    """As ``indexed``, but the displacements are in bytes."""
    cdef wh_type *made = NULL
    lengths = numbers(blocklengths, "blocklengths")
    places = numbers(displacements, "displacements")
    same_length(lengths, "blocklengths", places, "displacements")
    check(wh_type_create_hindexed(len(lengths), numbers_at(lengths), numbers_at(places), old.c,
                                  &made))
    return wrap(made)


def indexed_block(blocklength, displacements, Type old not None):
    """Blocks of one length, each with its displacement in extents of `old`."""
    cdef wh_type *made = NULL
    places = numbers(displacements, "displacements")
    check(wh_type_create_indexed_block(len(places), whole(blocklength, "blocklength"),
                                       numbers_at(places), old.c, &made))
    return wrap(made)


def hindexed_block(blocklength, displacements, Type old not None):
    """As ``indexed_block``, but the displacements are in bytes."""
    cdef wh_type *made = NULL
    places = numbers(displacements, "displacements")
    check(wh_type_create_hindexed_block(len(places), whole(blocklength, "blocklength"),
                                        numbers_at(places), old.c, &made))
    return wrap(made)


def struct(blocklengths, displacements, types):
    """Blocks of different types at byte displacements; three sequences of one length.

    As a C compiler does, it rounds the extent up to the strictest alignment among the members,
    unless the bounds of one were set by hand (resized, subarray, darray): then those decide alone.
    Members of length 0 count for nothing.
    """
    cdef wh_type *made = NULL
    cdef Type member
    lengths = numbers(blocklengths, "blocklengths")
    places = numbers(displacements, "displacements")
    types = tuple(types)  # holds the members until they are retained
    same_length(lengths, "blocklengths", places, "displacements")
    same_length(lengths, "blocklengths", types, "types")
    members = array("q")
    for i, one in enumerate(types):
        if not isinstance(one, Type):
            raise TypeError(f"types[{i}] is a '{type(one).__name__}', not a Type")
        member = one
        members.append(<int64_t><uintptr_t>member.c)
    check(wh_type_create_struct(len(lengths), numbers_at(lengths), numbers_at(places),
                                <const wh_type **>numbers_at(members), &made))
    return wrap(made)


def subarray(sizes, subsizes, starts, Type old not None, order="C"):
    """The part of shape `subsizes` beginning at index `starts` of an array of shape `sizes`.

    Shapes and indices are in elements of `old`; `order` is ``"C"`` or ``"F"``.  Origin and extent
    are those of the whole array.
    """
    cdef wh_type *made = NULL
    all_sizes = numbers(sizes, "sizes")
    part = numbers(subsizes, "subsizes")
    first = numbers(starts, "starts")
    same_length(all_sizes, "sizes", part, "subsizes")
    same_length(all_sizes, "sizes", first, "starts")
    check(wh_type_create_subarray(<int>len(all_sizes), numbers_at(all_sizes), numbers_at(part),
                                  numbers_at(first), order_of(order), old.c, &made))
    return wrap(made)


DISTRIBUTIONS = {"none": <int>WH_DIST_NONE, "block": <int>WH_DIST_BLOCK,
                 "cyclic": <int>WH_DIST_CYCLIC}


def darray(size, rank, gsizes, distribs, dargs, psizes, Type old not None, order="C"):
    """What process `rank` of `size` owns of an array dealt out over a grid of processes.

    Per dimension: its global size, ``"none"``, ``"block"`` or ``"cyclic"``, the block length (None:
    the default), and the number of processes.  Ranks count in C order in both array orders.
    """
    cdef wh_type *made = NULL
    for how in distribs:
        if how not in DISTRIBUTIONS:
            raise ValueError(f"distribs has {how!r}: give 'none', 'block' or 'cyclic'")
    global_sizes = numbers(gsizes, "gsizes")
    dealt = numbers([DISTRIBUTIONS[how] for how in distribs], "distribs")
    block = numbers([WH_DIST_DEFAULT if one is None else one for one in dargs], "dargs")
    grid = numbers(psizes, "psizes")
    same_length(global_sizes, "gsizes", dealt, "distribs")
    same_length(global_sizes, "gsizes", block, "dargs")
    same_length(global_sizes, "gsizes", grid, "psizes")
    check(wh_type_create_darray(whole(size, "size"), whole(rank, "rank"),
                                <int>len(global_sizes), numbers_at(global_sizes),
                                numbers_at(dealt), numbers_at(block), numbers_at(grid),
                                order_of(order), old.c, &made))
    return wrap(made)


def resized(Type old not None, lb, extent):
    """`old` with lower bound and extent in bytes set by hand; both may be negative."""
    cdef wh_type *made = NULL
    check(wh_type_create_resized(old.c, whole(lb, "lb"), whole(extent, "extent"), &made))
    return wrap(made)


def strided(shape, strides, Type old not None):
    """An array by its shape and its strides in bytes, last index fastest.

    The origin is the element with all indices 0, so negative strides reach below it.
    """
    cdef wh_type *made = NULL
    counts = numbers(shape, "shape")
    steps = numbers(strides, "strides")
    same_length(counts, "shape", steps, "strides")
    check(wh_type_create_strided(<int>len(counts), numbers_at(counts), numbers_at(steps), old.c,
                                 &made))
    return wrap(made)


def dup(Type old not None):
    """A type equal to `old` in all but its identity."""
    cdef wh_type *made = NULL
    check(wh_type_dup(old.c, &made))
    return wrap(made)
