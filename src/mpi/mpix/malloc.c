// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of the C library that allocate.
//
// While a rank's program runs, memory is the rank's, whoever asks for it: the program, C++'s strings, getline.  What the C library keeps for the process, whatever
// the rank does, must not be: files and loaded libraries.  Freeing goes by the address.
#undef _FILE_OFFSET_BITS  // fopen is fopen here, not fopen64
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/mpix/joint.h"

#define PUBLIC __attribute__((visibility("default")))

// The C library's own, by the names that it has for who takes their place.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *block);

static _Thread_local void *heap __attribute__((tls_model("initial-exec")));

static void use_heap(void *to) {
    heap = to;
}

// ---- Files that a rank has open: few ranks have any.

enum { OWNERS = 64 };
static struct {
    const void *heap;
    int files;
} owners[OWNERS];

static int *files_of(const void *of) {
    int place = 0;
    for (int i = 0; i < OWNERS; i++) {
        if (owners[i].heap == of)
            return &owners[i].files;
        if (!owners[i].files)
            place = i;
    }
    owners[place].heap = of;
    return &owners[place].files;
}

static int files(const void *of) {
    return *files_of(of);
}

PUBLIC whm_joint_t whm_joint = {.version = WHM_JOINT_VERSION, .use_heap = use_heap, .files = files};

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

PUBLIC void *memalign(size_t align, size_t size) {
    return aligned(align, size);
}

PUBLIC void *aligned_alloc(size_t align, size_t size) {
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

// ---- What the C library keeps for the process.

// BEHIND calls the C library's function of this name, with the process's memory.
#define BEHIND(type, name, parameters, arguments)                                                  \
    static type behind_##name parameters {                                                         \
        static type(*next) parameters;                                                             \
        void *mine = heap;                                                                         \
        heap = NULL;                                                                               \
        if (!next) {                                                                               \
            void *symbol = dlsym(RTLD_NEXT, #name);                                                \
            memcpy(&next, &symbol, sizeof(next));                                                  \
        }                                                                                          \
        type result = next arguments;                                                              \
        heap = mine;                                                                               \
        return result;                                                                             \
    }

static FILE *opened(FILE *file) {
    if (file && heap)
        ++*files_of(heap);
    return file;
}

#define OPENS(name, parameters, arguments)                                                         \
    BEHIND(FILE *, name, parameters, arguments)                                                    \
    PUBLIC FILE *name parameters {                                                                 \
        return opened(behind_##name arguments);                                                    \
    }
#define CLOSES(name)                                                                               \
    BEHIND(int, name, (FILE * file), (file))                                                       \
    PUBLIC int name(FILE *file) {                                                                  \
        if (heap && *files_of(heap) > 0)                                                           \
            --*files_of(heap);                                                                     \
        return behind_##name(file);                                                                \
    }
OPENS(fopen, (const char *path, const char *mode), (path, mode))
OPENS(fopen64, (const char *path, const char *mode), (path, mode))
OPENS(fdopen, (int fd, const char *mode), (fd, mode))
OPENS(tmpfile, (void), ())
OPENS(tmpfile64, (void), ())
OPENS(popen, (const char *command, const char *type), (command, type))
OPENS(fmemopen, (void *buf, size_t size, const char *mode), (buf, size, mode))
CLOSES(fclose)
CLOSES(pclose)
BEHIND(void *, dlopen, (const char *path, int flags), (path, flags))
PUBLIC void *dlopen(const char *path, int flags) {
    return behind_dlopen(path, flags);
}
BEHIND(int, dlclose, (void *handle), (handle))
PUBLIC int dlclose(void *handle) {
    return behind_dlclose(handle);
}
BEHIND(char *, setlocale, (int category, const char *locale), (category, locale))
PUBLIC char *setlocale(int category, const char *locale) {
    return behind_setlocale(category, locale);
}
BEHIND(int, setenv, (const char *name, const char *value, int overwrite), (name, value, overwrite))
PUBLIC int setenv(const char *name, const char *value, int overwrite) {
    return behind_setenv(name, value, overwrite);
}
