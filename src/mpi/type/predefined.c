// SPDX-License-Identifier: BSD-3-Clause
//
// The named datatypes, 70 of them, as one table.
//
// Fortran's default kinds are those of its usual compilers here: 4 bytes for INTEGER, LOGICAL and REAL, 8 for DOUBLE PRECISION.  What the
// engine has no element of is moved as one of the same size and alignment: the engine's 16-byte float stands for all of 16 bytes.
#include "mpi/type/predefined.h"

#include <float.h>
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/type/make.h"

whm_type_hooks whm_type_attributes;

#define ROW(NAME, ID, GROUP)                                                                       \
    { .handle = MPI_##NAME, .name = "MPI_" #NAME, .id = WH_TYPE_##ID, .copies = 1, .group = GROUP }
#define WIDE_ROW(NAME, ID, COPIES, GROUP, WIDE)                                                    \
    {                                                                                              \
        .handle = MPI_##NAME, .name = "MPI_" #NAME, .id = WH_TYPE_##ID, .copies = COPIES,          \
        .group = GROUP, .wide = WHM_WIDE_##WIDE                                                    \
    }
#define PAIR_ROW(NAME, ID, COPIES, WIDE, VALUE, INDEX)                                             \
    {                                                                                              \
        .handle = MPI_##NAME, .name = "MPI_" #NAME, .id = WH_TYPE_##ID, .copies = COPIES,          \
        .group = WHM_PAIR, .wide = WHM_WIDE_##WIDE, .value = MPI_##VALUE, .index = MPI_##INDEX     \
    }

static const whm_basic rows[] = {
    ROW(AINT, INTPTR, WHM_MULTI),
    ROW(COUNT, INT64, WHM_MULTI),
    ROW(OFFSET, INT64, WHM_MULTI),
    ROW(PACKED, BYTE, WHM_OTHER),
    ROW(SHORT, SHORT, WHM_C_INTEGER),
    ROW(INT, INT, WHM_C_INTEGER),
    ROW(LONG, LONG, WHM_C_INTEGER),
    ROW(LONG_LONG, LLONG, WHM_C_INTEGER),
    ROW(UNSIGNED_SHORT, USHORT, WHM_C_INTEGER),
    ROW(UNSIGNED, UINT, WHM_C_INTEGER),
    ROW(UNSIGNED_LONG, ULONG, WHM_C_INTEGER),
    ROW(UNSIGNED_LONG_LONG, ULLONG, WHM_C_INTEGER),
    ROW(FLOAT, FLOAT, WHM_FLOATING),
    ROW(C_FLOAT_COMPLEX, COMPLEX_FLOAT, WHM_COMPLEX),
    ROW(CXX_FLOAT_COMPLEX, COMPLEX_FLOAT, WHM_COMPLEX),
    ROW(DOUBLE, DOUBLE, WHM_FLOATING),
    ROW(C_DOUBLE_COMPLEX, COMPLEX_DOUBLE, WHM_COMPLEX),
    ROW(CXX_DOUBLE_COMPLEX, COMPLEX_DOUBLE, WHM_COMPLEX),
    ROW(LOGICAL, INT32, WHM_LOGICAL),
    ROW(INTEGER, INT32, WHM_FORTRAN_INTEGER),
    ROW(REAL, FLOAT, WHM_FLOATING),
    ROW(COMPLEX, COMPLEX_FLOAT, WHM_COMPLEX),
    ROW(DOUBLE_PRECISION, DOUBLE, WHM_FLOATING),
    ROW(DOUBLE_COMPLEX, COMPLEX_DOUBLE, WHM_COMPLEX),
    ROW(CHARACTER, CHAR, WHM_OTHER),
    ROW(LONG_DOUBLE, LONG_DOUBLE, WHM_FLOATING),
    ROW(C_LONG_DOUBLE_COMPLEX, COMPLEX_LONG_DOUBLE, WHM_COMPLEX),
    ROW(CXX_LONG_DOUBLE_COMPLEX, COMPLEX_LONG_DOUBLE, WHM_COMPLEX),
    PAIR_ROW(FLOAT_INT, FLOAT_INT, 1, NONE, FLOAT, INT),
    PAIR_ROW(DOUBLE_INT, DOUBLE_INT, 1, NONE, DOUBLE, INT),
    PAIR_ROW(LONG_INT, LONG_INT, 1, NONE, LONG, INT),
    PAIR_ROW(2INT, INT_INT, 1, NONE, INT, INT),
    PAIR_ROW(SHORT_INT, SHORT_INT, 1, NONE, SHORT, INT),
    PAIR_ROW(LONG_DOUBLE_INT, LONG_DOUBLE_INT, 1, NONE, LONG_DOUBLE, INT),
    PAIR_ROW(2REAL, FLOAT, 2, FLOATS, REAL, REAL),
    PAIR_ROW(2DOUBLE_PRECISION, DOUBLE, 2, DOUBLES, DOUBLE_PRECISION, DOUBLE_PRECISION),
    PAIR_ROW(2INTEGER, INT_INT, 1, NONE, INTEGER, INTEGER),
    ROW(C_BOOL, BOOL, WHM_LOGICAL),
    ROW(CXX_BOOL, BOOL, WHM_LOGICAL),
    ROW(WCHAR, WCHAR, WHM_OTHER),
    ROW(INT8_T, INT8, WHM_C_INTEGER),
    ROW(UINT8_T, UINT8, WHM_C_INTEGER),
    ROW(CHAR, CHAR, WHM_OTHER),
    ROW(SIGNED_CHAR, SCHAR, WHM_C_INTEGER),
    ROW(UNSIGNED_CHAR, UCHAR, WHM_C_INTEGER),
    ROW(BYTE, BYTE, WHM_BYTES),
    ROW(INT16_T, INT16, WHM_C_INTEGER),
    ROW(UINT16_T, UINT16, WHM_C_INTEGER),
    ROW(INT32_T, INT32, WHM_C_INTEGER),
    ROW(UINT32_T, UINT32, WHM_C_INTEGER),
    ROW(INT64_T, INT64, WHM_C_INTEGER),
    ROW(UINT64_T, UINT64, WHM_C_INTEGER),
    ROW(LOGICAL1, INT8, WHM_LOGICAL),
    ROW(INTEGER1, INT8, WHM_FORTRAN_INTEGER),
    ROW(LOGICAL2, INT16, WHM_LOGICAL),
    ROW(INTEGER2, INT16, WHM_FORTRAN_INTEGER),
    ROW(REAL2, FLOAT16, WHM_FLOATING),
    ROW(LOGICAL4, INT32, WHM_LOGICAL),
    ROW(INTEGER4, INT32, WHM_FORTRAN_INTEGER),
    ROW(REAL4, FLOAT, WHM_FLOATING),
    WIDE_ROW(COMPLEX4, FLOAT16, 2, WHM_COMPLEX, HALF_COMPLEX),
    ROW(LOGICAL8, INT64, WHM_LOGICAL),
    ROW(INTEGER8, INT64, WHM_FORTRAN_INTEGER),
    ROW(REAL8, DOUBLE, WHM_FLOATING),
    ROW(COMPLEX8, COMPLEX_FLOAT, WHM_COMPLEX),
    WIDE_ROW(LOGICAL16, LONG_DOUBLE, 1, WHM_LOGICAL, LOGICAL),
    WIDE_ROW(INTEGER16, LONG_DOUBLE, 1, WHM_FORTRAN_INTEGER, INTEGER),
    WIDE_ROW(REAL16, LONG_DOUBLE, 1, WHM_FLOATING, REAL),
    ROW(COMPLEX16, COMPLEX_DOUBLE, WHM_COMPLEX),
    WIDE_ROW(COMPLEX32, COMPLEX_LONG_DOUBLE, 1, WHM_COMPLEX, COMPLEX),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert(ROWS == 70, "the standard names 70 datatypes");

const whm_basic *whm_basics_next(const whm_basic *row) {
    row = row ? row + 1 : rows;
    return row < rows + ROWS ? row : NULL;
}

// Whether the external32 form of the row's elements is another than that of the engine's element that stands for them.
static bool foreign(const whm_basic *row) {
    return row->wide == WHM_WIDE_INTEGER || row->wide == WHM_WIDE_LOGICAL ||
           ((row->wide == WHM_WIDE_REAL || row->wide == WHM_WIDE_COMPLEX) && LDBL_MANT_DIG != 113);
}

static const wh_type *layout_of(const whm_basic *row) {
    const wh_type *one = wh_type_basic(row->id);
    wh_type *several;
    if (row->copies == 1)
        return one;
    return wh_type_create_contig(row->copies, one, &several) == WH_OK ? several : NULL;
}

static int begin_row(whm_rank *rank, const whm_basic *row) {
    whm_type *type = whm_type_new();
    if (!type)
        return whm_no_memory();
    type->o.handle = row->handle;
    rank->named[(uintptr_t)row->handle] = &type->o;
    type->layout = layout_of(row);
    if (!type->layout)
        return whm_no_memory();
    type->what = row;
    type->base = type;
    type->basic = true;
    type->committed = true;
    type->foreign = foreign(row);
    return whm_type_measure(type);
}

int whm_types_begin(whm_rank *rank) {
    rank->types = whm_calloc(1, sizeof(*rank->types));
    int error = rank->types ? MPI_SUCCESS : whm_no_memory();
    for (int i = 0; i < ROWS && error == MPI_SUCCESS; i++)
        error = begin_row(rank, &rows[i]);
    if (error != MPI_SUCCESS)
        whm_types_end(rank);
    return error;
}

void whm_types_end(whm_rank *rank) {
    for (size_t i = 0; rank->types && i < rank->types->count; i++)
        whm_type_end(rank->types->kinds[i]);
    if (rank->types)
        free(rank->types->kinds);
    free(rank->types);
    rank->types = NULL;
    for (int i = 0; i < ROWS; i++) {
        uintptr_t at = (uintptr_t)rows[i].handle;
        if (rank->named[at])
            whm_type_end((whm_type *)rank->named[at]);
        rank->named[at] = NULL;
    }
}
