// SPDX-License-Identifier: BSD-3-Clause
//
// Operations as objects, and on which types each predefined one is defined: the standard's table.
#include "mpi/type/op.h"

#include <stdio.h>
#include <string.h>

#include "mpi/bodies.h"
#include "mpi/type/predefined.h"

enum {
    INTEGERS = WHM_C_INTEGER | WHM_FORTRAN_INTEGER | WHM_MULTI,
    ORDERED = INTEGERS | WHM_FLOATING,
    NUMBERS = ORDERED | WHM_COMPLEX,
    TRUTHS = WHM_C_INTEGER | WHM_LOGICAL | WHM_MULTI,
    BITS = INTEGERS | WHM_BYTES,
    ACCESS_ONLY = 0,  // not for reductions; in accumulates it is defined on all types
};

typedef struct predefined {
    MPI_Op handle;
    const char *name;
    wh_reduce reduce;
    bool commutes;
    int groups;  // whm_class
} predefined;

#define ROW(NAME, COMMUTES, GROUPS)                                                                \
    { MPI_##NAME, "MPI_" #NAME, WH_REDUCE_##NAME, COMMUTES, GROUPS }
static const predefined rows[WH_REDUCES] = {
    ROW(MAX, true, ORDERED),          ROW(MIN, true, ORDERED),
    ROW(SUM, true, NUMBERS),          ROW(PROD, true, NUMBERS),
    ROW(LAND, true, TRUTHS),          ROW(BAND, true, BITS),
    ROW(LOR, true, TRUTHS),           ROW(BOR, true, BITS),
    ROW(LXOR, true, TRUTHS),          ROW(BXOR, true, BITS),
    ROW(MINLOC, true, WHM_PAIR),      ROW(MAXLOC, true, WHM_PAIR),
    ROW(REPLACE, false, ACCESS_ONLY), ROW(NO_OP, false, ACCESS_ONLY),
};

int whm_ops_begin(whm_rank *rank) {
    for (int i = 0; i < WH_REDUCES; i++) {
        whm_op *op = whm_object_new(WHM_OP, sizeof(*op));
        if (!op) {
            whm_ops_end(rank);
            return whm_no_memory();
        }
        op->o.handle = rows[i].handle;
        op->commutes = rows[i].commutes;
        op->predefined = true;
        op->reduce = rows[i].reduce;
        rank->named[(uintptr_t)rows[i].handle] = &op->o;
    }
    return MPI_SUCCESS;
}

void whm_ops_end(whm_rank *rank) {
    for (int i = 0; i < WH_REDUCES; i++) {
        whm_object **op = &rank->named[(uintptr_t)rows[i].handle];
        if (*op)
            whm_object_free(*op, sizeof(whm_op));
        *op = NULL;
    }
}

void whm_op_release(whm_op *op) {
    if (op && whm_released(op))
        whm_object_free(op, sizeof(*op));
}

static int create(MPI_User_function *fn, MPI_User_function_c *fn_large, int commute, whm_op **op) {
    if (!fn && !fn_large)
        return whm_fail(MPI_ERR_ARG, "the function is NULL");
    whm_op *made = whm_object_new(WHM_OP, sizeof(*made));
    if (!made)
        return whm_no_memory();
    made->commutes = commute != 0;
    made->fn = fn;
    made->fn_large = fn_large;
    *op = made;
    return MPI_SUCCESS;
}

int mpi_op_create(MPI_User_function *fn, int commute, whm_op **op) {
    return create(fn, NULL, commute, op);
}

int mpi_op_create_c(MPI_User_function_c *fn, int commute, whm_op **op) {
    return create(NULL, fn, commute, op);
}

int mpi_op_free(whm_op *op) {
    if (op->predefined)
        return whm_fail(MPI_ERR_OP, "%s is a predefined operation, which cannot be freed",
                        rows[op->reduce].name);
    whm_op_release(op);
    return MPI_SUCCESS;
}

int mpi_op_commutative(whm_op *op, int *commute) {
    *commute = op->commutes;
    return MPI_SUCCESS;
}

// ---- What is defined.

static const char *const group_names[] = {"C integers",
                                          "Fortran integers",
                                          "floating point",
                                          "logicals",
                                          "complex",
                                          "MPI_BYTE",
                                          "MPI_AINT, MPI_COUNT and MPI_OFFSET",
                                          "pairs"};

static int fail_undefined(const predefined *row, const whm_type *type) {
    char groups[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof(group_names) / sizeof(group_names[0]); i++)
        if (row->groups & 1 << i)
            n += (size_t)snprintf(groups + n, sizeof(groups) - n, "%s%s", n ? ", " : "",
                                  group_names[i]);
    return whm_fail(MPI_ERR_OP, "%s is not defined on %s; it is on %s", row->name, type->what->name,
                    groups);
}

static int check_group(const predefined *row, const whm_type *base) {
    return base->what->group & row->groups ? MPI_SUCCESS : fail_undefined(row, base);
}

// A type that is equal to a named one: itself, a duplicate, one of Fortran's kinds.
static const whm_type *named(const whm_type *type) {
    const whm_type *base = type->base;
    if (base == type)
        return base;
    bool equal = base && type->size == base->size && type->extent == base->extent &&
                 type->true_lb == base->true_lb && type->lb == base->lb;
    return equal ? base : NULL;
}

int whm_op_check(const whm_op *op, whm_type *type) {
    if (!op->predefined)
        return MPI_SUCCESS;
    const predefined *row = &rows[op->reduce];
    if (row->groups == ACCESS_ONLY)
        return whm_fail(MPI_ERR_OP, "%s is for one-sided accumulates, not for reductions",
                        row->name);
    const whm_type *base = named(type);
    if (!base)
        return whm_fail(MPI_ERR_OP,
                        "%s is defined on predefined datatypes only; for a derived one make an "
                        "operation with MPI_Op_create",
                        row->name);
    return check_group(row, base);
}

int whm_op_check_access(const whm_op *op, whm_type *type) {
    if (!op->predefined)
        return whm_fail(MPI_ERR_OP, "an operation of MPI_Op_create is for reductions, not for "
                                    "one-sided accumulates");
    const predefined *row = &rows[op->reduce];
    if (row->groups == ACCESS_ONLY || type->size == 0)
        return MPI_SUCCESS;
    if (!type->base)
        return whm_fail(MPI_ERR_OP,
                        "%s needs a datatype whose elements are all of one predefined datatype",
                        row->name);
    return check_group(row, type->base);
}
