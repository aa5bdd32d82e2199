# SPDX-License-Identifier: BSD-3-Clause

REDUCTIONS = {
    "max": <int>WH_REDUCE_MAX,
    "min": <int>WH_REDUCE_MIN,
    "sum": <int>WH_REDUCE_SUM,
    "prod": <int>WH_REDUCE_PROD,
    "land": <int>WH_REDUCE_LAND,
    "band": <int>WH_REDUCE_BAND,
    "lor": <int>WH_REDUCE_LOR,
    "bor": <int>WH_REDUCE_BOR,
    "lxor": <int>WH_REDUCE_LXOR,
    "bxor": <int>WH_REDUCE_BXOR,
    "minloc": <int>WH_REDUCE_MINLOC,
    "maxloc": <int>WH_REDUCE_MAXLOC,
    "replace": <int>WH_REDUCE_REPLACE,
    "no_op": <int>WH_REDUCE_NO_OP,
}


cdef wh_reduce reduce_of(object op) except *:
    if op not in REDUCTIONS:
        raise ValueError(f"op is {op!r}: give one of {', '.join(REDUCTIONS)}")
    return <wh_reduce><int>REDUCTIONS[op]


def reduce_defined(op, Type type not None):
    """Whether the operation is defined on all elements of the type."""
    return bool(wh_reduce_defined(reduce_of(op), type.c))


def accumulate(packed, buf, Type type not None, op, count=1, *, offset=0, origin=0):
    """Combines `packed`, the packed bytes from `offset` on, into the layout.

    ``buf = buf op packed``, element by element; the rules are those of docs/reference/pack.md.
    Both ends must fall between elements.  Returns the bytes used.  Raises NotSupportedError, before
    anything is touched, when `op` is not defined on an element.
    """
    cdef Layout layout = lay(buf, "buf", type, count, origin, True)
    cdef Memory source = hold_dense(packed, "packed", False)
    cdef size_t n = part_of(layout, offset, source.view.len), first = size_of(offset, "offset")
    cdef size_t actual = 0
    cdef wh_reduce how = reduce_of(op)
    cdef wh_status status
    with nogil:
        status = wh_accumulate(source.view.buf, n, layout.origin, layout.count, layout.type.c,
                               first, how, &actual)
    check(status)
    return actual


def accumulate_into(packed, buf, Type type not None, op, count=1, *, offset=0, origin=0):
    """The other way: ``packed = packed op buf`` for the part that `packed` holds."""
    cdef Layout layout = lay(buf, "buf", type, count, origin, False)
    cdef Memory into = hold_dense(packed, "packed", True)
    cdef size_t n = part_of(layout, offset, into.view.len), first = size_of(offset, "offset")
    cdef size_t actual = 0
    cdef wh_reduce how = reduce_of(op)
    cdef wh_status status
    with nogil:
        status = wh_pack_accumulate(layout.origin, layout.count, layout.type.c, first,
                                    into.view.buf, n, how, &actual)
    check(status)
    return actual
