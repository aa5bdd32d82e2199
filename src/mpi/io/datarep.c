// SPDX-License-Identifier: BSD-3-Clause
//
// Representations that the program registers.  Those that convert are not carried out: a view with one is refused.
#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/io/runs.h"

typedef struct whm_datarep {
    bool converts;
    struct whm_datarep *next;
    char name[];
} whm_datarep;  // of a rank; they stay, as the standard has no way to take one back

static const whm_datarep *find(const char *name) {
    const whm_datarep *d = whm_self->datareps;
    while (d && strcmp(d->name, name) != 0)
        d = d->next;
    return d;
}

static bool is_known(const char *name) {
    return !strcmp(name, "native") || !strcmp(name, "internal") || !strcmp(name, "external32");
}

int whm_datarep_check(const char *name) {
    if (is_known(name))
        return MPI_SUCCESS;
    const whm_datarep *d = find(name);
    if (!d)
        return whm_fail(MPI_ERR_UNSUPPORTED_DATAREP,
                        "datarep is \"%.60s\": \"native\", \"internal\", \"external32\" and "
                        "registered ones are known",
                        name);
    if (d->converts)
        return whm_fail(MPI_ERR_UNSUPPORTED_DATAREP,
                        "\"%.60s\" was registered with functions that convert, which this library "
                        "does not call",
                        name);
    return MPI_SUCCESS;
}

static int add(const char *name, bool converts) {
    size_t size = strlen(name) + 1;
    if (size > MPI_MAX_DATAREP_STRING)
        return whm_fail(MPI_ERR_ARG, "the name is longer than MPI_MAX_DATAREP_STRING allows");
    if (is_known(name) || find(name))
        return whm_fail(MPI_ERR_DUP_DATAREP, "there is a representation \"%.60s\" already", name);
    whm_datarep *d = whm_malloc(sizeof(*d) + size);
    if (!d)
        return whm_no_memory();
    d->converts = converts;
    memcpy(d->name, name, size);
    d->next = whm_self->datareps;
    whm_self->datareps = d;
    return MPI_SUCCESS;
}

int mpi_register_datarep(const char *name, MPI_Datarep_conversion_function *read_fn,
                         MPI_Datarep_conversion_function *write_fn,
                         MPI_Datarep_extent_function *extent_fn, void *state) {
    (void)extent_fn;
    (void)state;
    return add(name, read_fn != MPI_CONVERSION_FN_NULL || write_fn != MPI_CONVERSION_FN_NULL);
}

int mpi_register_datarep_c(const char *name, MPI_Datarep_conversion_function_c *read_fn,
                           MPI_Datarep_conversion_function_c *write_fn,
                           MPI_Datarep_extent_function *extent_fn, void *state) {
    (void)extent_fn;
    (void)state;
    return add(name, read_fn != MPI_CONVERSION_FN_NULL_C || write_fn != MPI_CONVERSION_FN_NULL_C);
}
