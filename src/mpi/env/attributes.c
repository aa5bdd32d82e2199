// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of attributes, of communicators and datatypes, and the predefined attributes.
#include <limits.h>
#include <stdlib.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/make.h"
#include "mpi/env/errors.h"
#include "mpi/type/type.h"

// ---- Keys.

#define KEY_FUNCTIONS(kind, object, Object)                                                        \
    int mpi_##object##_create_keyval(MPI_##Object##_copy_attr_function *copy,                      \
                                     MPI_##Object##_delete_attr_function *del, int *number,        \
                                     void *extra) {                                                \
        return whm_key_new(kind, (void (*)(void))copy, (void (*)(void))del, extra, number);        \
    }                                                                                              \
    int mpi_##object##_free_keyval(int *number) {                                                  \
        int rc = whm_key_free(kind, *number);                                                      \
        if (rc == MPI_SUCCESS)                                                                     \
            *number = MPI_KEYVAL_INVALID;                                                          \
        return rc;                                                                                 \
    }
KEY_FUNCTIONS(WHM_COMM, comm, Comm)
KEY_FUNCTIONS(WHM_TYPE, type, Type)
KEY_FUNCTIONS(WHM_WIN, win, Win)

// The names of MPI-1 are those of communicators.
int mpi_keyval_create(MPI_Copy_function *copy_fn, MPI_Delete_function *delete_fn, int *keyval,
                      void *extra_state) {
    return mpi_comm_create_keyval(copy_fn, delete_fn, keyval, extra_state);
}

int mpi_keyval_free(int *keyval) {
    return mpi_comm_free_keyval(keyval);
}

// ---- Communicators.

// Which of the programs of `mpiexec A : B` this is; the launcher says so.
static int program_number(void) {
    const char *text = getenv("WHERRYRUN_APPNUM");
    return text ? (int)strtol(text, NULL, 10) : 0;
}

// predefined_value writes the address of the value of a predefined key; false: it has none.
static bool predefined_value(int key, int **value) {
    static int tag_ub = WHM_TAG_CREATE - 1;
    static int any = MPI_ANY_SOURCE;  // MPI_IO: every process can do all of it
    static int no, program;
    static _Thread_local int last, size;
    switch (key) {
    case MPI_TAG_UB: *value = &tag_ub; return true;
    case MPI_IO: *value = &any; return true;
    case MPI_HOST: {
        static int none = MPI_PROC_NULL;
        *value = &none;
        return true;
    }
    case MPI_WTIME_IS_GLOBAL: *value = &no; return true;
    case MPI_APPNUM:
        program = program_number();
        *value = &program;
        return true;
    case MPI_LASTUSEDCODE:
        last = whm_error_last();
        *value = &last;
        return true;
    case MPI_UNIVERSE_SIZE:
        size = whm_process_here.ranks;
        *value = &size;
        return true;
    default: return false;
    }
}

int mpi_comm_get_attr(whm_comm *comm, int comm_keyval, void *attribute_val, int *flag) {
    int *value;
    if (predefined_value(comm_keyval, &value)) {
        *(int **)attribute_val = value;
        *flag = 1;
        return MPI_SUCCESS;
    }
    return whm_attr_get(whm_comm_holder(comm), comm_keyval, attribute_val, flag);
}

int mpi_comm_set_attr(whm_comm *comm, int comm_keyval, void *attribute_val) {
    return whm_attr_set(whm_comm_holder(comm), comm_keyval, attribute_val);
}

int mpi_comm_delete_attr(whm_comm *comm, int comm_keyval) {
    return whm_attr_delete(whm_comm_holder(comm), comm_keyval);
}

int mpi_attr_get(whm_comm *comm, int keyval, void *attribute_val, int *flag) {
    return mpi_comm_get_attr(comm, keyval, attribute_val, flag);
}

int mpi_attr_put(whm_comm *comm, int keyval, void *attribute_val) {
    return mpi_comm_set_attr(comm, keyval, attribute_val);
}

int mpi_attr_delete(whm_comm *comm, int keyval) {
    return mpi_comm_delete_attr(comm, keyval);
}

// ---- Datatypes.

static whm_holder of_type(whm_type *type) {
    return (whm_holder){&type->attrs, type->o.handle, WHM_TYPE};
}

// What src/mpi/type calls when a type is duplicated, and when the program frees one.
static int copy_of_type(const whm_type *from, whm_type *to) {
    int rc = whm_attrs_copy(of_type((whm_type *)(uintptr_t)from), &to->attrs);
    if (rc != MPI_SUCCESS)
        (void)whm_attrs_delete(of_type(to));
    return rc;
}

static int end_of_type(whm_type *type) {
    return whm_attrs_delete(of_type(type));
}

__attribute__((constructor)) static void hand_down(void) {
    whm_type_attributes = (whm_type_hooks){copy_of_type, end_of_type};
}

int mpi_type_get_attr(whm_type *datatype, int type_keyval, void *attribute_val, int *flag) {
    return whm_attr_get(of_type(datatype), type_keyval, attribute_val, flag);
}

int mpi_type_set_attr(whm_type *datatype, int type_keyval, void *attribute_val) {
    return whm_attr_set(of_type(datatype), type_keyval, attribute_val);
}

int mpi_type_delete_attr(whm_type *datatype, int type_keyval) {
    return whm_attr_delete(of_type(datatype), type_keyval);
}
