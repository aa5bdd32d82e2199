// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of the C library that allocate.
//
// While a rank's program runs, memory is the rank's, whoever asks for it: the program, C++'s strings, getline.  What the C library keeps for the
// process is in keeps.c. Freeing goes by the address.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/mpix/keeps.h"

#define PUBLIC __attribute__((visibility("default")))

// The C library's own, by the names that it has for who takes their place.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *block);

_Thread_local void *whm_mpix_heap;
#define heap whm_mpix_heap

// ---- Allocating.

static bool ours(const void *block) {
    return (uintptr_t)block - whm_joint.begin < whm_joint.size;
}

static void *allocated(void *block) {
    if (!block)
        errno = ENOMEM;
    return block;
}

PUBLIC void *malloc(size_t size) {
    return heap ? allocated(whm_joint.alloc(heap, size, 0, false)) : __libc_malloc(size);
}

PUBLIC void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (!heap)
        return __libc_calloc(count, size);
    return allocated(
        __builtin_mul_overflow(count, size, &bytes) ? NULL : whm_joint.alloc(heap, bytes, 0, true));
}

PUBLIC void free(void *block) {
    if (ours(block))
        whm_joint.free(block);
    else
        __libc_free(block);
}

// A block stays with who has it.
PUBLIC void *realloc(void *block, size_t size) {
    if (!block)
        return malloc(size);
    if (!ours(block))
        return __libc_realloc(block, size);
    if (size)
        return allocated(whm_joint.resize(block, size));
    whm_joint.free(block);
    return NULL;
}

static void *aligned(size_t align, size_t size) {
    return heap ? allocated(whm_joint.alloc(heap, size, align, false))
                : __libc_memalign(align, size);
}

// As the C library does, it takes the next power of two.
PUBLIC void *memalign(size_t align, size_t size) {
    size_t power = 1;
    while (power < align && power <= SIZE_MAX / 4)
        power *= 2;
    return aligned(power, size);
}

PUBLIC void *aligned_alloc(size_t align, size_t size) {
    if (!align || align & (align - 1)) {
        errno = EINVAL;
        return NULL;
    }
    return aligned(align, size);
}

PUBLIC int posix_memalign(void **block, size_t align, size_t size) {
    if (align < sizeof(void *) || align & (align - 1))
        return EINVAL;
    int saved = errno;
    void *got = aligned(align, size);
    errno = saved;
    if (!got)
        return ENOMEM;
    *block = got;
    return 0;
}

PUBLIC void *valloc(size_t size) {
    return aligned((size_t)sysconf(_SC_PAGESIZE), size);
}

PUBLIC void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return aligned(page, (size + page - 1) & ~(page - 1));
}

PUBLIC size_t malloc_usable_size(void *block) {
    static size_t (*next)(void *);
    if (!block)
        return 0;
    if (ours(block))
        return whm_joint.room(block);
    if (!next) {
        void *symbol = dlsym(RTLD_NEXT, "malloc_usable_size");
        memcpy(&next, &symbol, sizeof(next));
    }
    return next(block);
}
