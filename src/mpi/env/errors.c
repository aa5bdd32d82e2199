// SPDX-License-Identifier: BSD-3-Clause
//
// The classes of the standard are a list here.  Those that a program adds, and its codes, are numbered behind MPI_ERR_LASTCODE in one
// table of the rank; numbers at its end are used again when they were removed.
#include "mpi/env/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"

// Name and text of each class.
#define CLASSES(X)                                                                                 \
    X(SUCCESS, "no error")                                                                         \
    X(ERR_BUFFER, "the buffer is not valid")                                                       \
    X(ERR_COUNT, "the count is not valid")                                                         \
    X(ERR_TYPE, "the datatype is not valid")                                                       \
    X(ERR_TAG, "the tag is not valid")                                                             \
    X(ERR_COMM, "the communicator is not valid")                                                   \
    X(ERR_RANK, "the rank is not valid")                                                           \
    X(ERR_REQUEST, "the request is not valid")                                                     \
    X(ERR_ROOT, "the root is not valid")                                                           \
    X(ERR_GROUP, "the group is not valid")                                                         \
    X(ERR_OP, "the operation is not valid")                                                        \
    X(ERR_TOPOLOGY, "the topology is not valid")                                                   \
    X(ERR_DIMS, "the dimensions are not valid")                                                    \
    X(ERR_ARG, "an argument is not valid")                                                         \
    X(ERR_UNKNOWN, "an error of an unknown kind")                                                  \
    X(ERR_TRUNCATE, "the message is longer than the receive buffer")                               \
    X(ERR_OTHER, "an error that has no class of its own")                                          \
    X(ERR_INTERN, "an internal error of the library")                                              \
    X(ERR_PENDING, "the request has not completed")                                                \
    X(ERR_IN_STATUS, "the error code is in the status")                                            \
    X(ERR_ACCESS, "no permission")                                                                 \
    X(ERR_AMODE, "the access mode is not valid for opening the file")                              \
    X(ERR_ASSERT, "the assertion is not valid")                                                    \
    X(ERR_BAD_FILE, "the file name is not valid")                                                  \
    X(ERR_BASE, "the base address is not valid")                                                   \
    X(ERR_CONVERSION, "a function for converting data has failed")                                 \
    X(ERR_DISP, "the displacement is not valid")                                                   \
    X(ERR_DUP_DATAREP, "that data representation is defined already")                              \
    X(ERR_FILE_EXISTS, "the file exists")                                                          \
    X(ERR_FILE_IN_USE, "the file is in use by a process")                                          \
    X(ERR_FILE, "the file handle is not valid")                                                    \
    X(ERR_INFO_KEY, "the key of the info is not valid")                                            \
    X(ERR_INFO_NOKEY, "the info does not have that key")                                           \
    X(ERR_INFO_VALUE, "the value of the info is not valid")                                        \
    X(ERR_INFO, "the info is not valid")                                                           \
    X(ERR_IO, "input or output has failed")                                                        \
    X(ERR_KEYVAL, "the attribute key is not valid")                                                \
    X(ERR_LOCKTYPE, "the type of lock is not valid")                                               \
    X(ERR_NAME, "that service name is not published")                                              \
    X(ERR_NO_MEM, "there is not enough memory")                                                    \
    X(ERR_NOT_SAME, "an argument or the order of calls differs between processes")                 \
    X(ERR_NO_SPACE, "there is not enough space on the device")                                     \
    X(ERR_NO_SUCH_FILE, "the file does not exist")                                                 \
    X(ERR_PORT, "the port is not valid")                                                           \
    X(ERR_QUOTA, "the quota is exceeded")                                                          \
    X(ERR_READ_ONLY, "the file or the file system is read-only")                                   \
    X(ERR_RMA_ATTACH, "the memory cannot be attached to the window")                               \
    X(ERR_RMA_CONFLICT, "accesses to the window are in conflict")                                  \
    X(ERR_RMA_RANGE, "the target memory is not part of the window")                                \
    X(ERR_RMA_SHARED, "the memory cannot be shared")                                               \
    X(ERR_RMA_SYNC, "the calls that synchronize the window are in the wrong order")                \
    X(ERR_SERVICE, "the service name cannot be withdrawn")                                         \
    X(ERR_SIZE, "the size is not valid")                                                           \
    X(ERR_SPAWN, "the processes cannot be started")                                                \
    X(ERR_UNSUPPORTED_DATAREP, "that data representation is not supported")                        \
    X(ERR_UNSUPPORTED_OPERATION, "this is not supported")                                          \
    X(ERR_WIN, "the window is not valid")                                                          \
    X(ERR_RMA_FLAVOR, "the window is of the wrong flavor")                                         \
    X(ERR_PROC_ABORTED, "a process has ended before its time")                                     \
    X(ERR_VALUE_TOO_LARGE, "the value does not fit into its type")                                 \
    X(ERR_SESSION, "the session is not valid")                                                     \
    X(ERR_ERRHANDLER, "the error handler is not valid")                                            \
    X(ERR_ABI, "the ABI does not have this, or not so")

static const struct {
    const char *name, *text;
} classes[] = {
#define X(name, text) [MPI_##name] = {"MPI_" #name, "MPI_" #name ": " text},
    CLASSES(X)
#undef X
};
enum { CLASS_COUNT = sizeof(classes) / sizeof(*classes), FIRST = MPI_ERR_LASTCODE + 1 };

typedef struct own {  // a class or a code of the program's
    bool used;
    int class;  // its own number: it is a class
    char *text;
} own;

struct whm_errors {
    own *own;  // of number FIRST + i
    int count, room;
};

static own *own_at(int code) {
    struct whm_errors *all = whm_self->errors;
    unsigned i = (unsigned)code - FIRST;
    return all && i < (unsigned)all->count && all->own[i].used ? &all->own[i] : NULL;
}

static bool standard(int code) {
    return code >= 0 && code < CLASS_COUNT;
}

const char *whm_error_name(int code) {
    return standard(code) ? classes[code].name : NULL;
}

const char *whm_error_text(int code) {
    if (standard(code))
        return classes[code].text;
    const own *o = own_at(code);
    return o ? o->text ? o->text : "" : NULL;
}

int whm_error_last(void) {
    return whm_self->errors ? FIRST - 1 + whm_self->errors->count : MPI_ERR_LASTCODE;
}

void whm_errors_end(whm_rank *rank) {
    for (int i = 0; rank->errors && i < rank->errors->count; i++)
        free(rank->errors->own[i].text);
    if (rank->errors)
        free(rank->errors->own);
    free(rank->errors);
    rank->errors = NULL;
}

// ---- The functions of MPI.

static int no_code(int code) {
    return whm_fail(MPI_ERR_ARG, "%d is no error code", code);
}

int mpi_error_class(int errorcode, int *errorclass) {
    const own *o = own_at(errorcode);
    if (!standard(errorcode) && !o)
        return no_code(errorcode);
    *errorclass = o ? o->class : errorcode;
    return MPI_SUCCESS;
}

int mpi_error_string(int errorcode, char *string, int *resultlen) {
    const char *text = whm_error_text(errorcode);
    if (!text)
        return no_code(errorcode);
    *resultlen = snprintf(string, MPI_MAX_ERROR_STRING, "%s", text);
    return MPI_SUCCESS;
}

static int add(int class, int *number) {
    if (!whm_self->errors && !(whm_self->errors = whm_calloc(1, sizeof(*whm_self->errors))))
        return whm_no_memory();
    struct whm_errors *all = whm_self->errors;
    if (all->count == all->room) {
        int room = all->room ? all->room * 2 : 8;
        own *more = whm_realloc(all->own, (size_t)room * sizeof(*more));
        if (!more)
            return whm_no_memory();
        all->own = more;
        all->room = room;
    }
    *number = FIRST + all->count;
    all->own[all->count++] = (own){true, class < 0 ? *number : class, NULL};
    return MPI_SUCCESS;
}

int mpi_add_error_class(int *errorclass) {
    return add(-1, errorclass);
}

static int check_class(int class) {
    const own *o = own_at(class);
    return standard(class) || (o && o->class == class)
               ? MPI_SUCCESS
               : whm_fail(MPI_ERR_ARG, "%d is no error class", class);
}

int mpi_add_error_code(int errorclass, int *errorcode) {
    int rc = check_class(errorclass);
    return rc == MPI_SUCCESS ? add(errorclass, errorcode) : rc;
}

// find looks up a class or a code that the program may change.
static int find(int code, own **found) {
    *found = own_at(code);
    if (*found)
        return MPI_SUCCESS;
    return standard(code)
               ? whm_fail(MPI_ERR_ARG, "%s is predefined and cannot be changed", classes[code].name)
               : no_code(code);
}

int mpi_add_error_string(int errorcode, const char *string) {
    own *o;
    int rc = find(errorcode, &o);
    if (rc != MPI_SUCCESS)
        return rc;
    if (strnlen(string, MPI_MAX_ERROR_STRING) >= MPI_MAX_ERROR_STRING)
        return whm_fail(MPI_ERR_ARG, "the text is longer than MPI_MAX_ERROR_STRING - 1 = %d",
                        MPI_MAX_ERROR_STRING - 1);
    char *text = whm_strdup(string);
    if (!text)
        return whm_no_memory();
    free(o->text);
    o->text = text;
    return MPI_SUCCESS;
}

int mpi_remove_error_string(int errorcode) {
    own *o;
    int rc = find(errorcode, &o);
    if (rc != MPI_SUCCESS)
        return rc;
    free(o->text);
    o->text = NULL;
    return MPI_SUCCESS;
}

static int drop(own *o, int code) {
    struct whm_errors *all = whm_self->errors;
    if (o->text)
        return whm_fail(MPI_ERR_ARG, "%d has a text: MPI_Remove_error_string removes it first",
                        code);
    *o = (own){0};
    while (all->count && !all->own[all->count - 1].used)
        all->count--;
    return MPI_SUCCESS;
}

int mpi_remove_error_code(int errorcode) {
    own *o;
    int rc = find(errorcode, &o);
    if (rc != MPI_SUCCESS)
        return rc;
    if (o->class == errorcode)
        return whm_fail(MPI_ERR_ARG, "%d is an error class: MPI_Remove_error_class removes it",
                        errorcode);
    return drop(o, errorcode);
}

int mpi_remove_error_class(int errorclass) {
    own *o;
    int rc = find(errorclass, &o);
    if (rc != MPI_SUCCESS)
        return rc;
    if (o->class != errorclass)
        return whm_fail(MPI_ERR_ARG, "%d is an error code: MPI_Remove_error_code removes it",
                        errorclass);
    for (int i = 0; i < whm_self->errors->count; i++) {
        const own *other = &whm_self->errors->own[i];
        if (other != o && other->used && other->class == errorclass)
            return whm_fail(MPI_ERR_ARG, "error code %d is of that class: remove it first",
                            FIRST + i);
    }
    return drop(o, errorclass);
}
