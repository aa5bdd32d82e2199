# SPDX-License-Identifier: BSD-3-Clause
"""Layouts of data in memory, and packing.

A :class:`Type` says where the bytes of one element lie; the functions here make types, and pack and
unpack any buffer by them::

    column = vector(8, 1, 8, DOUBLE)         # every eighth of 64 numbers
    packed = pack(matrix, column)            # bytes
    unpack(packed, other_matrix, column)

Sizes, offsets and origins are in bytes, counts in elements; where a distance is in extents of the
old type, its function says so.  Every function may be called from any thread; large moves let other
threads run.  Errors are ValueError and TypeError for arguments (:class:`wherry.errors.InvalidError`
when the engine found them), and otherwise the classes of :mod:`wherry.errors`.
"""
from wherry._core import (
    BASIC,
    Accumulator,
    Cursor,
    Type,
    View,
    accumulate,
    accumulate_into,
    contig,
    copy,
    darray,
    dup,
    external_pack,
    external_size,
    external_unpack,
    hindexed,
    hindexed_block,
    hvector,
    indexed,
    indexed_block,
    pack,
    pack_into,
    reduce_defined,
    resized,
    run_count,
    runs,
    runs_of_bytes,
    runs_within,
    set_threads,
    strided,
    struct,
    subarray,
    unflatten,
    unpack,
    vector,
)
from wherry._dtype import from_array, from_dtype, from_strides

# The predefined types: the C types of the same names.
BYTE = BASIC["BYTE"]
BOOL = BASIC["BOOL"]
CHAR = BASIC["CHAR"]
SCHAR = BASIC["SCHAR"]
UCHAR = BASIC["UCHAR"]
WCHAR = BASIC["WCHAR"]
INT8 = BASIC["INT8"]
INT16 = BASIC["INT16"]
INT32 = BASIC["INT32"]
INT64 = BASIC["INT64"]
UINT8 = BASIC["UINT8"]
UINT16 = BASIC["UINT16"]
UINT32 = BASIC["UINT32"]
UINT64 = BASIC["UINT64"]
SHORT = BASIC["SHORT"]
USHORT = BASIC["USHORT"]
INT = BASIC["INT"]
UINT = BASIC["UINT"]
LONG = BASIC["LONG"]
ULONG = BASIC["ULONG"]
LLONG = BASIC["LLONG"]
ULLONG = BASIC["ULLONG"]
INT_FAST8 = BASIC["INT_FAST8"]
INT_FAST16 = BASIC["INT_FAST16"]
INT_FAST32 = BASIC["INT_FAST32"]
INT_FAST64 = BASIC["INT_FAST64"]
UINT_FAST8 = BASIC["UINT_FAST8"]
UINT_FAST16 = BASIC["UINT_FAST16"]
UINT_FAST32 = BASIC["UINT_FAST32"]
UINT_FAST64 = BASIC["UINT_FAST64"]
INT_LEAST8 = BASIC["INT_LEAST8"]
INT_LEAST16 = BASIC["INT_LEAST16"]
INT_LEAST32 = BASIC["INT_LEAST32"]
INT_LEAST64 = BASIC["INT_LEAST64"]
UINT_LEAST8 = BASIC["UINT_LEAST8"]
UINT_LEAST16 = BASIC["UINT_LEAST16"]
UINT_LEAST32 = BASIC["UINT_LEAST32"]
UINT_LEAST64 = BASIC["UINT_LEAST64"]
INTMAX = BASIC["INTMAX"]
UINTMAX = BASIC["UINTMAX"]
SIZE = BASIC["SIZE"]
INTPTR = BASIC["INTPTR"]
UINTPTR = BASIC["UINTPTR"]
PTRDIFF = BASIC["PTRDIFF"]
FLOAT = BASIC["FLOAT"]
DOUBLE = BASIC["DOUBLE"]
LONG_DOUBLE = BASIC["LONG_DOUBLE"]
COMPLEX_FLOAT = BASIC["COMPLEX_FLOAT"]
COMPLEX_DOUBLE = BASIC["COMPLEX_DOUBLE"]
COMPLEX_LONG_DOUBLE = BASIC["COMPLEX_LONG_DOUBLE"]
FLOAT_INT = BASIC["FLOAT_INT"]
DOUBLE_INT = BASIC["DOUBLE_INT"]
LONG_INT = BASIC["LONG_INT"]
INT_INT = BASIC["INT_INT"]
SHORT_INT = BASIC["SHORT_INT"]
LONG_DOUBLE_INT = BASIC["LONG_DOUBLE_INT"]
FLOAT16 = BASIC["FLOAT16"]
BFLOAT16 = BASIC["BFLOAT16"]
FLOAT8_E4M3 = BASIC["FLOAT8_E4M3"]
FLOAT8_E5M2 = BASIC["FLOAT8_E5M2"]

__all__ = [
    "BASIC", "Accumulator", "Cursor", "Type", "View", "accumulate", "accumulate_into", "contig", "copy",
    "darray", "dup", "external_pack", "external_size", "external_unpack", "from_array",
    "from_dtype", "from_strides", "hindexed", "hindexed_block", "hvector", "indexed",
    "indexed_block", "pack", "pack_into", "reduce_defined", "resized", "run_count", "runs",
    "runs_of_bytes", "runs_within", "set_threads", "strided", "struct", "subarray", "unflatten",
    "unpack", "vector",
    # the predefined types
    "BYTE", "BOOL", "CHAR", "SCHAR", "UCHAR", "WCHAR", "INT8", "INT16", "INT32", "INT64", "UINT8",
    "UINT16", "UINT32", "UINT64", "SHORT", "USHORT", "INT", "UINT", "LONG", "ULONG", "LLONG",
    "ULLONG", "INT_FAST8", "INT_FAST16", "INT_FAST32", "INT_FAST64", "UINT_FAST8", "UINT_FAST16",
    "UINT_FAST32", "UINT_FAST64", "INT_LEAST8", "INT_LEAST16", "INT_LEAST32", "INT_LEAST64",
    "UINT_LEAST8", "UINT_LEAST16", "UINT_LEAST32", "UINT_LEAST64", "INTMAX", "UINTMAX", "SIZE",
    "INTPTR", "UINTPTR", "PTRDIFF", "FLOAT", "DOUBLE", "LONG_DOUBLE", "COMPLEX_FLOAT",
    "COMPLEX_DOUBLE", "COMPLEX_LONG_DOUBLE", "FLOAT_INT", "DOUBLE_INT", "LONG_INT", "INT_INT",
    "SHORT_INT", "LONG_DOUBLE_INT", "FLOAT16", "BFLOAT16", "FLOAT8_E4M3", "FLOAT8_E5M2",
]
