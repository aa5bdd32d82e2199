// SPDX-License-Identifier: BSD-3-Clause
//
// An integer stands for an address, and addresses of objects are never given back (mpi/base/object.h), so numbers are not either.  The
// numbers are places in a list, found again by a hash table of that list.
#include "mpi/front/ints.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PREDEFINED = 4096, FIRST_ROOM = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const void **list;  // the handle of number PREDEFINED + i
static int *places;        // of `room` * 2: 1 + i, by the hash of list[i]; 0: free
static unsigned count, room;

static unsigned hash(const void *handle) {
    return (unsigned)(((uintptr_t)handle >> 6) * 0x9E3779B97F4A7C15u >> 32);
}

// place returns where the handle is in `places`, or would be.
static int *place(const void *handle) {
    unsigned mask = room * 2 - 1, i = hash(handle) & mask;
    while (places[i] && list[places[i] - 1] != handle)
        i = (i + 1) & mask;
    return &places[i];
}

static bool grow(void) {
    unsigned more = room ? room * 2 : FIRST_ROOM;
    const void **wider = realloc(list, more * sizeof(*list));
    if (!wider)
        return false;
    list = wider;
    int *fresh = calloc((size_t)more * 2, sizeof(*fresh));
    if (!fresh)
        return false;
    free(places);
    places = fresh;
    room = more;
    for (unsigned i = 0; i < count; i++)
        *place(list[i]) = (int)i + 1;
    return true;
}

int whm_int_of(const void *handle) {
    if ((uintptr_t)handle < PREDEFINED)
        return (int)(uintptr_t)handle;
    int number = 0;  // no memory: a number that is no handle
    pthread_mutex_lock(&mutex);
    if (count < room || grow()) {
        int *at = place(handle);
        if (!*at) {
            list[count] = handle;
            *at = (int)++count;
        }
        number = PREDEFINED + *at - 1;
    }
    pthread_mutex_unlock(&mutex);
    return number;
}

void *whm_handle_of(int number, void *none) {
    if ((unsigned)number < PREDEFINED)
        return (void *)(uintptr_t)number;
    unsigned i = (unsigned)number - PREDEFINED;
    pthread_mutex_lock(&mutex);
    const void *handle = i < count ? list[i] : none;
    pthread_mutex_unlock(&mutex);
    return (void *)(uintptr_t)handle;
}
