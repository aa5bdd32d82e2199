// SPDX-License-Identifier: BSD-3-Clause
//
// Types found by what is asked of them: a size, a pair of value and index, precision and range of a Fortran kind.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

// The number of a fixed-size Fortran type: 0x2c0, the logarithm of its size from bit 3 on, and which of these.
enum { SIZED = 0x2c0, SIZED_INTEGER = 1, SIZED_REAL = 2, SIZED_COMPLEX = 3 };

static whm_type *sized(int which, int size) {
    for (int log = 0; log < 8; log++) {
        uintptr_t number = SIZED + (uintptr_t)(log << 3) + (uintptr_t)which;
        if (1 << log == size)
            return whm_type_named((MPI_Datatype)number);
    }
    return NULL;
}

int mpi_type_match_size(int typeclass, int size, whm_type **type) {
    int which = typeclass == MPI_TYPECLASS_INTEGER   ? SIZED_INTEGER
                : typeclass == MPI_TYPECLASS_REAL    ? SIZED_REAL
                : typeclass == MPI_TYPECLASS_COMPLEX ? SIZED_COMPLEX
                                                     : 0;
    if (!which)
        return whm_fail(MPI_ERR_ARG,
                        "typeclass is %d, it must be MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL or "
                        "MPI_TYPECLASS_COMPLEX",
                        typeclass);
    whm_type *found = sized(which, size);
    if (!found)
        return whm_fail(MPI_ERR_ARG, "there is no type of that class with %d bytes", size);
    *type = found;
    return MPI_SUCCESS;
}

int mpi_type_get_value_index(whm_type *value, whm_type *index, whm_type **pair) {
    *pair = NULL;
    for (const whm_basic *row = NULL; (row = whm_basics_next(row));)
        if (row->group == WHM_PAIR && row->value == value->o.handle &&
            row->index == index->o.handle)
            *pair = whm_type_named(row->handle);
    return MPI_SUCCESS;
}

// ---- Fortran's kinds.  A call with the same arguments answers the same handle, which is the program's for ever.

typedef struct reals {
    int precision, range, size;  // decimal digits, decimal exponent, bytes of a real
} reals;
static const reals real_kinds[] = {{6, 37, 4}, {15, 307, 8}, {33, 4931, 16}};

static const struct {
    int range, size;
} integer_kinds[] = {{2, 1}, {4, 2}, {9, 4}, {18, 8}, {38, 16}};

static int real_size(int precision, int range) {
    for (size_t i = 0; i < sizeof(real_kinds) / sizeof(real_kinds[0]); i++)
        if ((precision == MPI_UNDEFINED || precision <= real_kinds[i].precision) &&
            (range == MPI_UNDEFINED || range <= real_kinds[i].range))
            return real_kinds[i].size;
    return 0;
}

static int integer_size(int range) {
    for (size_t i = 0; i < sizeof(integer_kinds) / sizeof(integer_kinds[0]); i++)
        if (range <= integer_kinds[i].range)
            return integer_kinds[i].size;
    return 0;
}

static whm_type *known(int combiner, int precision, int range) {
    const whm_types *all = whm_self->types;
    for (size_t i = 0; i < all->count; i++) {
        const whm_made *made = all->kinds[i]->made;
        if (made->combiner == combiner && made->kind[0] == precision && made->kind[1] == range)
            return all->kinds[i];
    }
    return NULL;
}

static int keep(whm_types *all, whm_type *type) {
    if (all->count == all->space) {
        size_t space = all->space ? 2 * all->space : 8;
        whm_type **more = whm_realloc(all->kinds, space * sizeof(whm_type *));
        if (!more)
            return whm_no_memory();
        all->kinds = more;
        all->space = space;
    }
    all->kinds[all->count++] = type;
    return MPI_SUCCESS;
}

static int kind_new(whm_type *of, int combiner, int precision, int range, whm_type **type) {
    whm_type *made = known(combiner, precision, range);
    if (made) {
        *type = made;
        return MPI_SUCCESS;
    }
    wh_type *layout = (wh_type *)(uintptr_t)of->layout;  // predefined: lives for ever
    int error = whm_type_make(WH_OK, layout, combiner, 0, NULL, &made);
    if (error != MPI_SUCCESS)
        return error;
    made->made->kind[0] = precision;
    made->made->kind[1] = range;
    made->basic = made->committed = true;
    made->foreign = of->foreign;
    made->base = of;
    error = keep(whm_self->types, made);
    if (error == MPI_SUCCESS)
        *type = made;
    else
        whm_type_release(made);
    return error;
}

static int fail_kind(const char *what, int precision, int range) {
    if (precision == MPI_UNDEFINED && range == MPI_UNDEFINED)
        return whm_fail(MPI_ERR_ARG, "both p and r are MPI_UNDEFINED: one must be said");
    return whm_fail(MPI_ERR_ARG, "there is no %s kind with precision %d and range %d", what,
                    precision, range);
}

static bool may_be(int value) {
    return value >= 0 || value == MPI_UNDEFINED;
}

static int real_or_complex(int combiner, int precision, int range, whm_type **type) {
    bool real = combiner == MPI_COMBINER_F90_REAL;
    bool said = precision != MPI_UNDEFINED || range != MPI_UNDEFINED;
    int size = said && may_be(precision) && may_be(range) ? real_size(precision, range) : 0;
    if (!size)
        return fail_kind(real ? "real" : "complex", precision, range);
    whm_type *of = real ? sized(SIZED_REAL, size) : sized(SIZED_COMPLEX, 2 * size);
    return kind_new(of, combiner, precision, range, type);
}

int mpi_type_create_f90_real(int precision, int range, whm_type **type) {
    return real_or_complex(MPI_COMBINER_F90_REAL, precision, range, type);
}

int mpi_type_create_f90_complex(int precision, int range, whm_type **type) {
    return real_or_complex(MPI_COMBINER_F90_COMPLEX, precision, range, type);
}

int mpi_type_create_f90_integer(int range, whm_type **type) {
    int size = range >= 0 ? integer_size(range) : 0;
    if (!size)
        return whm_fail(MPI_ERR_ARG, "there is no integer kind with range %d", range);
    return kind_new(sized(SIZED_INTEGER, size), MPI_COMBINER_F90_INTEGER, range, MPI_UNDEFINED,
                    type);
}
