# SPDX-License-Identifier: BSD-3-Clause
#
# Contiguous runs of bytes, in packing order.  C gives addresses; here they are offsets from the
# origin, computed from an address so high that no layout reaches either end of the space.

cdef enum:
    RUNS_AT_ONCE = 1024

cdef char *ORIGIN = <char *><uintptr_t>(<uint64_t>1 << 62)


cdef object pairs(const iovec *found, int64_t n):
    return [(<int64_t>(<char *>found[i].iov_base - ORIGIN), found[i].iov_len) for i in range(n)]


def run_count(Type type not None, count=1):
    """How many runs `count` elements have; runs that touch count as one."""
    cdef int64_t n = 0
    check(wh_iov_len(whole(count, "count"), type.c, &n))
    return n


def runs_within(Type type not None, max_bytes, count=1):
    """``(runs, bytes)``: how many whole runs from the start hold no more than `max_bytes`."""
    cdef int64_t n = 0, size = 0
    check(wh_iov_len_max(whole(count, "count"), type.c, whole(max_bytes, "max_bytes"), &n, &size))
    return n, size


def runs(Type type not None, count=1, *, first=0, max=None):
    """A list of ``(offset, size)`` in bytes, from run number `first` on, `max` of them at most.

    Offsets count from the origin of the first element and may be negative.
    """
    cdef int64_t n = whole(count, "count"), at = whole(first, "first"), left, got = 0
    cdef iovec found[RUNS_AT_ONCE]
    left = run_count(type, n) if max is None else size_of(max, "max")
    made = []
    while True:
        check(wh_iov(ORIGIN, n, type.c, at, found, min(left, <int64_t>RUNS_AT_ONCE), &got))
        made += pairs(found, got)
        at += got
        left -= got
        if got < RUNS_AT_ONCE or left == 0:
            return made


def runs_of_bytes(Type type not None, count=1, *, offset=0, size):
    """The runs of packed bytes `offset` to ``offset + size``; both ends may cut runs."""
    cdef int64_t n = whole(count, "count"), got = 0
    cdef size_t at = size_of(offset, "offset"), covered = 0
    cdef size_t left = size_of(size, "size")
    cdef iovec found[RUNS_AT_ONCE]
    made = []
    while True:
        check(wh_iov_bytes(ORIGIN, n, type.c, at, left, found, RUNS_AT_ONCE, &got, &covered))
        made += pairs(found, got)
        at += covered
        left -= covered
        if got < RUNS_AT_ONCE or left == 0:
            return made
