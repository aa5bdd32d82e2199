// SPDX-License-Identifier: BSD-3-Clause
//
// Types as objects: made of a layout, held by what uses them, named, asked for their size.
#include "mpi/type/type.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

// The engine's sentence without the name of its function, which the program has not called.
int whm_type_fail(wh_status status) {
    const char *all = wh_type_error(), *colon = strstr(all, ": ");
    int code = status == WH_ENOMEM ? MPI_ERR_NO_MEM : MPI_ERR_ARG;
    return whm_fail(code, "%s", colon ? colon + 2 : all);
}

int whm_type_fail_buffer(wh_status status) {
    int code = whm_type_fail(status);
    return code == MPI_ERR_ARG ? MPI_ERR_BUFFER : code;
}

whm_type *whm_type_new(void) {
    whm_type *type = whm_object_new(WHM_TYPE, sizeof(*type));
    if (!type)
        return NULL;
    type->next = whm_self->all_types;
    if (type->next)
        type->next->prev = type;
    whm_self->all_types = type;
    return type;
}

static void leave_list(const whm_type *type) {
    if (type->prev)
        type->prev->next = type->next;
    else
        whm_self->all_types = type->next;
    if (type->next)
        type->next->prev = type->prev;
}

int whm_type_measure(whm_type *type) {
    wh_type_info info = {.size = sizeof(info)};
    wh_status status = wh_type_get_info(type->layout, &info);
    if (status != WH_OK)
        return whm_type_fail(status);
    type->size = info.packed_size;
    type->lb = info.lb;
    type->extent = info.extent;
    type->true_lb = info.true_lb;
    type->true_extent = info.true_extent;
    type->dense = info.packed_size == 0 ||
                  (info.runs == 1 && info.true_lb == 0 && info.true_extent == info.packed_size &&
                   info.extent == info.packed_size);
    return MPI_SUCCESS;
}

// The form of a function for large counts has the other's name and _c.
static bool called_large(void) {
    size_t n = whm_self->call ? strlen(whm_self->call) : 0;
    return n > 2 && strcmp(whm_self->call + n - 2, "_c") == 0;
}

static whm_made *made_of(int combiner, size_t count, whm_type *const *of) {
    whm_made *made = whm_calloc(1, sizeof(*made) + count * sizeof(whm_type *));
    if (!made)
        return NULL;
    made->combiner = combiner;
    made->large = called_large();
    made->count = count;
    for (size_t i = 0; i < count; i++)
        made->of[i] = whm_retain(of[i]);
    return made;
}

// Children without data leave no elements.
static void inherit(whm_type *type) {
    bool first = true;
    for (size_t i = 0; i < type->made->count; i++) {
        const whm_type *child = type->made->of[i];
        type->foreign = type->foreign || child->foreign;
        if (child->size == 0)
            continue;
        type->base = first || type->base == child->base ? child->base : NULL;
        first = false;
    }
}

int whm_type_make(wh_status status, wh_type *layout, int combiner, size_t count,
                  whm_type *const *of, whm_type **type) {
    if (status != WH_OK)
        return whm_type_fail(status);
    whm_type *made = whm_type_new();
    if (!made) {
        wh_type_release(layout);
        return whm_no_memory();
    }
    made->layout = layout;
    made->made = made_of(combiner, count, of);
    int error = made->made ? whm_type_measure(made) : whm_no_memory();
    if (error != MPI_SUCCESS) {
        whm_type_end(made);
        return error;
    }
    inherit(made);
    *type = made;
    return MPI_SUCCESS;
}

int whm_type_check_committed(const whm_type *type) {
    return type->committed
               ? MPI_SUCCESS
               : whm_fail(MPI_ERR_TYPE, "the datatype is not committed (MPI_Type_commit)");
}

void whm_type_end(whm_type *type) {
    for (size_t i = 0; type->made && i < type->made->count; i++)
        whm_type_release(type->made->of[i]);
    leave_list(type);
    free(type->made);
    free(type->name);
    wh_type_release((wh_type *)(uintptr_t)type->layout);
    whm_object_free(type, sizeof(*type));
}

void whm_type_release(whm_type *type) {
    if (type && whm_released(type))
        whm_type_end(type);
}

int mpi_type_commit(whm_type *type) {
    wh_status status = wh_type_commit(type->layout);
    if (status != WH_OK)
        return whm_type_fail(status);
    type->committed = true;
    return MPI_SUCCESS;
}

int mpi_type_free(whm_type *type) {
    if (type->basic)
        return whm_fail(MPI_ERR_TYPE, "%s is a predefined type, which cannot be freed",
                        type->what ? type->what->name : "a type of MPI_Type_create_f90_*");
    int error = whm_type_attributes.end ? whm_type_attributes.end(type) : MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        whm_type_release(type);
    return error;
}

int mpi_type_dup(whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status = wh_type_dup(old->layout, &layout);
    whm_type *made = NULL;
    int error = whm_type_make(status, layout, MPI_COMBINER_DUP, 1, &old, &made);
    if (error != MPI_SUCCESS)
        return error;
    made->committed = old->committed;
    made->made->large = false;  // it takes no count
    if (whm_type_attributes.copy)
        error = whm_type_attributes.copy(old, made);
    if (error == MPI_SUCCESS)
        *type = made;
    else
        whm_type_release(made);
    return error;
}

// ---- Size and bounds.

int mpi_type_size(whm_type *type, MPI_Count *size) {
    *size = type->size;
    return MPI_SUCCESS;
}

int mpi_type_size_x(whm_type *type, MPI_Count *size) {
    return mpi_type_size(type, size);
}

int mpi_type_get_extent(whm_type *type, MPI_Count *lb, MPI_Count *extent) {
    *lb = type->lb;
    *extent = type->extent;
    return MPI_SUCCESS;
}

int mpi_type_get_extent_x(whm_type *type, MPI_Count *lb, MPI_Count *extent) {
    return mpi_type_get_extent(type, lb, extent);
}

int mpi_type_get_true_extent(whm_type *type, MPI_Count *true_lb, MPI_Count *true_extent) {
    *true_lb = type->true_lb;
    *true_extent = type->true_extent;
    return MPI_SUCCESS;
}

int mpi_type_get_true_extent_x(whm_type *type, MPI_Count *true_lb, MPI_Count *true_extent) {
    return mpi_type_get_true_extent(type, true_lb, true_extent);
}

// ---- Names.

int mpi_type_set_name(whm_type *type, const char *name) {
    size_t n = strnlen(name, MPI_MAX_OBJECT_NAME - 1);
    char *copy = strndup(name, n);
    if (!copy)
        return whm_no_memory();
    free(type->name);
    type->name = copy;
    return MPI_SUCCESS;
}

int mpi_type_get_name(whm_type *type, char *name, int *length) {
    const char *text = !type        ? "MPI_DATATYPE_NULL"
                       : type->name ? type->name
                       : type->what ? type->what->name
                                    : "";
    strcpy(name, text);
    *length = (int)strlen(text);
    return MPI_SUCCESS;
}
