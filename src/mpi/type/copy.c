// SPDX-License-Identifier: BSD-3-Clause
//
// Copies between typed buffers, and buffers of the library's own that hold elements of a type.
#include <stdlib.h>

#include <wherry/pack.h>

#include "mpi/bodies.h"
#include "mpi/type/make.h"

int whm_copy(void *to, MPI_Count to_count, whm_type *to_type, const void *from,
             MPI_Count from_count, whm_type *from_type) {
    size_t moved;
    if (to_count == 0 || from_count == 0 || to_type->size == 0 || from_type->size == 0)
        return MPI_SUCCESS;
    wh_status status =
        wh_type_copy(to, to_count, to_type->layout, from, from_count, from_type->layout, &moved);
    return status == WH_OK ? MPI_SUCCESS : whm_type_fail_buffer(status);
}

// An element's lowest byte lies `true_lb` behind the address that the program would give.  That address is to be as aligned as memory of
// malloc, so the block begins at the last multiple of that before the lowest byte.
enum { ALIGNED = 16 };

static MPI_Count aligned_down(MPI_Count value) {
    return value & -(MPI_Count)ALIGNED;
}

// Where elements follow each other downwards, how far the block reaches down depends on how many there are: this remembers it.  The
// process has one list; there are hardly ever any.
typedef struct downward {
    void *buf, *block;
    struct downward *next;
} downward;
static downward *downwards;

static void *remember(void *buf, void *block) {
    downward *d = malloc(sizeof(*d));
    if (!d) {
        free(block);
        return NULL;
    }
    *d = (downward){buf, block, downwards};
    downwards = d;
    return buf;
}

static void forget(void *buf) {
    downward **at = &downwards;
    while (*at && (*at)->buf != buf)
        at = &(*at)->next;
    downward *d = *at;
    if (!d)
        return;
    *at = d->next;
    free(d->block);
    free(d);
}

void *whm_space_new(MPI_Count count, const whm_type *type) {
    MPI_Count steps, low, size = 0;
    if (count == 0 || type->size == 0)
        steps = 0;
    else if (__builtin_mul_overflow(count - 1, type->extent, &steps) ||
             __builtin_add_overflow(steps < 0 ? -steps : steps, type->true_extent, &size) ||
             size > (MPI_Count)(PTRDIFF_MAX / 2))
        return NULL;
    low = aligned_down(type->true_lb + (steps < 0 ? steps : 0));
    size += type->true_lb + (steps < 0 ? steps : 0) - low;
    char *block = malloc((size_t)size + 1);
    if (!block)
        return NULL;
    void *buf = (void *)((uintptr_t)block - (uintptr_t)low);
    return type->extent < 0 ? remember(buf, block) : buf;
}

void whm_space_free(void *buf, const whm_type *type) {
    if (!buf)
        return;
    if (type->extent < 0)
        forget(buf);
    else
        free((void *)((uintptr_t)buf + (uintptr_t)aligned_down(type->true_lb)));
}
