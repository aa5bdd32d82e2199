// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/object.h"

#include <stdlib.h>
#include <string.h>

// Freed objects, by size in units of 64 bytes: kept for the next of that size.
enum { UNIT = 64, SIZES = 32 };
typedef struct spare {
    whm_object o;  // its mark stays zero
    struct spare *next;
} spare;
static spare *spares[SIZES];

static size_t units(size_t size) {
    return (size + UNIT - 1) / UNIT;
}

void *whm_object_new(whm_kind kind, size_t size) {
    size_t n = units(size);
    whm_object *object;
    if (n < SIZES && spares[n]) {
        object = &spares[n]->o;
        spares[n] = spares[n]->next;
    } else {
        object = malloc(n * UNIT);
    }
    if (!object)
        return NULL;
    memset(object, 0, size);
    *object = (whm_object){.mark = WHM_MARK | (uint32_t)kind, .refs = 1, .handle = object};
    return object;
}

void whm_object_free(void *object, size_t size) {
    spare *s = object;
    size_t n = units(size);
    s->o.mark = 0;
    if (n >= SIZES) {
        free(s);
        return;
    }
    s->next = spares[n];
    spares[n] = s;
}
