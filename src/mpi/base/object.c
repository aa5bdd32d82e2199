// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/object.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"

// Freed objects, by size in units of 64 bytes: kept for the next of that size.
enum { UNIT = 64 };
typedef struct spare {
    whm_object o;  // its mark stays zero
    struct spare *next;
} spare;

static size_t units(size_t size) {
    return (size + UNIT - 1) / UNIT;
}

void *whm_object_new(whm_kind kind, size_t size) {
    size_t n = units(size);
    whm_object *object;
    spare *old = n < WHM_SPARES ? whm_self->spares[n] : NULL;
    if (old) {
        object = &old->o;
        whm_self->spares[n] = old->next;
    } else {
        object = whm_malloc(n * UNIT);
    }
    if (!object)
        return NULL;
    memset(object, 0, size);
    whm_self->objects[kind]++;
    *object = (whm_object){.mark = WHM_MARK | (uint32_t)kind, .refs = 1, .handle = object};
    return object;
}

void whm_object_free(void *object, size_t size) {
    spare *s = object;
    size_t n = units(size);
    whm_self->objects[s->o.mark & 0xFF]--;
    s->o.mark = 0;
    if (n >= WHM_SPARES) {
        free(s);
        return;
    }
    s->next = whm_self->spares[n];
    whm_self->spares[n] = s;
}
