// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of objects: an allocator that answers as the test says, and counts.
#ifndef ENGINE_ALLOCATOR_KIT_H
#define ENGINE_ALLOCATOR_KIT_H

#include <stdlib.h>

#include "engine/test_kit.h"

static wh_status answer;              // WH_OK: with memory, at once; WH_PENDING, or an error
static unsigned asked, given, freed;  // frames
static wh_object *parked;             // which was asked for last
static void (*while_asked)(const wh_object *object);  // what it does beside answering

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    asked++;
    parked = object;
    if (while_asked)
        while_asked(object);
    if (answer == WH_OK) {
        *ptr = malloc(wh_object_frame(object, index)->size + 1);
        given++;
    }
    return answer;
}

static void release(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    freed++;
    free(ptr);
}

#endif
