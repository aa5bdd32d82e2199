// SPDX-License-Identifier: BSD-3-Clause
//
// See memory.h.
#include "bench/memory.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_memory_parse(const char *name, bench_memory *memory) {
    bool staged = strcmp(name, "cuda-staged") == 0, managed = strcmp(name, "managed") == 0;
    *memory = (bench_memory){.kind = WH_MEM_CUDA, .staged = staged, .managed = managed};
    if (strlen(name) >= sizeof memory->name)
        return false;
    snprintf(memory->name, sizeof memory->name, "%s", name);
    return staged || managed ||
           (wh_mem_kind_parse(name, &memory->kind) == WH_OK && memory->kind != WH_MEM_AUTO);
}

// Page-aligned, as large buffers usually are, and written once so that no page is missing later.
static char *of_host(size_t size) {
    char *buffer = aligned_alloc(4096, size);
    if (buffer)
        memset(buffer, 'w', size);
    return buffer;
}

// Managed memory is made by the driver itself, which the library has initialised: it makes none.
typedef struct maker {
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(unsigned long long *ptr, size_t size, unsigned flags);
    int (*give)(unsigned long long ptr);
} maker;

static bool find_maker(maker *made) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *place;
    } entries[] = {
        {"cuDevicePrimaryCtxRetain", &made->retain},
        {"cuDevicePrimaryCtxRelease_v2", &made->release},
        {"cuCtxPushCurrent_v2", &made->push},
        {"cuCtxPopCurrent_v2", &made->pop},
        {"cuMemAllocManaged", &made->alloc},
        {"cuMemFree_v2", &made->give},
    };
    for (size_t i = 0; library && i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *found = dlsym(library, entries[i].name);
        if (!found)
            return false;
        *(void **)entries[i].place = found;
    }
    return library && wh_mem_kinds() & 1u << WH_MEM_CUDA;
}

// within calls the driver for memory to be made (`*ptr` is 0) or given back, in the context of the first device.
static bool within(unsigned long long *ptr, size_t size) {
    enum { ATTACH_GLOBAL = 1 };
    maker driver;
    void *context = NULL;
    if (!find_maker(&driver) || driver.retain(&context, 0) != 0)
        return false;
    bool good = driver.push(context) == 0;
    if (good) {
        good = (*ptr ? driver.give(*ptr) : driver.alloc(ptr, size, ATTACH_GLOBAL)) == 0;
        (void)driver.pop(&context);
    }
    (void)driver.release(0);
    return good;
}

char *bench_memory_alloc(wh_mem_kind kind, bool managed, size_t size) {
    unsigned long long ptr = 0;
    void *made = NULL;
    if (managed)
        return within(&ptr, size) ? (char *)(uintptr_t)ptr : NULL;
    if (kind == WH_MEM_HOST)
        return of_host(size);
    return wh_mem_alloc_kind(kind, 0, size, &made) == WH_OK ? made : NULL;
}

void bench_memory_free(wh_mem_kind kind, bool managed, char *memory) {
    unsigned long long ptr = (uintptr_t)memory;
    bool given_back = true;
    if (managed)
        given_back = !memory || within(&ptr, 0);
    else if (kind == WH_MEM_HOST)
        free(memory);
    else
        given_back = wh_mem_free_kind(kind, memory) == WH_OK;
    if (!given_back)
        abort();  // it is one of ours
}
