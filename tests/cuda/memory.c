// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's memory, see driver.h.
//
// Device memory is mapped twice: at the user's address without any right, so that code which forgets
// what it is dies on the spot, and at the engine's, which only copies and "kernels" know.  Managed and
// pinned memory is the CPU's too.  A virtual range is reserved first and backed later, by pieces.
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, PAGE = 4096 };

typedef struct allocation {
    struct allocation *next;
    char *user, *engine;
    size_t size, mapped, backed;  // `backed` bytes of a virtual range are there
    unsigned type;
    bool managed, own;  // own: mapped here, and not by the user
    CUdevice device;
    CUcontext context;  // NULL: of no context (stream-ordered, virtual)
    unsigned long long id;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *all;
static unsigned long long ids;
static void *place;  // where the next allocation is to be; NULL: anywhere

static allocation **find(CUdeviceptr ptr) {
    for (allocation **a = &all; *a; a = &(*a)->next)
        if (ptr - (CUdeviceptr)(uintptr_t)(*a)->user < (*a)->size)
            return a;
    return NULL;
}

bool translate(CUdeviceptr ptr, size_t size, char **where) {
    pthread_mutex_lock(&lock);
    allocation **a = find(ptr);
    bool inside = true;
    *where = (char *)(uintptr_t)ptr;
    if (a) {
        size_t offset = (size_t)(ptr - (CUdeviceptr)(uintptr_t)(*a)->user);
        inside = offset < (*a)->backed && size <= (*a)->backed - offset;
        *where = (*a)->engine + offset;
    }
    pthread_mutex_unlock(&lock);
    return inside;
}

static void *map(void *at, size_t size, int rights) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0);
    void *mapped = mmap(at, size, rights, flags, -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void unmap(const allocation *a) {
    if (a->own && a->user)
        munmap(a->user, a->mapped);
    if (a->own && a->engine && a->engine != a->user)
        munmap(a->engine, a->mapped);
}

static bool map_both(allocation *a, bool shared) {
    const int rights = PROT_READ | PROT_WRITE;
    a->own = true;
    a->user = map(place, a->mapped, shared ? rights : PROT_NONE);
    place = NULL;
    a->engine = shared ? a->user : map(NULL, a->mapped, rights);
    if (a->user && a->engine)
        return true;
    unmap(a);
    return false;
}

static void insert(allocation *a) {
    a->id = ++ids;
    a->next = all;
    all = a;
}

// add makes an allocation; `shared`: the CPU may touch it.
static CUresult add(CUdeviceptr *ptr, size_t size, const allocation *like, bool shared) {
    if (!size)
        return INVALID_VALUE;
    if (size > (size_t)1 << 40)
        return OUT_OF_MEMORY;
    allocation *a = malloc(sizeof(*a));
    if (!a)
        return OUT_OF_MEMORY;
    *a = *like;
    a->size = a->backed = size;
    a->mapped = (size + PAGE - 1) / PAGE * PAGE;
    pthread_mutex_lock(&lock);
    bool made = map_both(a, shared);
    if (made)
        insert(a);
    pthread_mutex_unlock(&lock);
    if (!made) {
        free(a);
        return OUT_OF_MEMORY;
    }
    memset(a->engine, 0xa5, size);  // nobody has promised zeros
    *ptr = (CUdeviceptr)(uintptr_t)a->user;
    return SUCCESS;
}

static CUresult take_out(CUdeviceptr ptr) {
    pthread_mutex_lock(&lock);
    allocation **place_of = find(ptr), *a = place_of ? *place_of : NULL;
    bool begins = a && ptr == (CUdeviceptr)(uintptr_t)a->user;
    if (begins)
        *place_of = a->next;
    pthread_mutex_unlock(&lock);
    if (!begins)
        return INVALID_VALUE;
    unmap(a);
    free(a);
    return SUCCESS;
}

// ---- For tests.

// The address at which a kernel may touch device memory.
PUBLIC void *cutest_engine(const void *ptr);
void *cutest_engine(const void *ptr) {
    char *where;
    return translate((CUdeviceptr)(uintptr_t)ptr, 1, &where) ? where : NULL;
}

// The next allocation is made at this address, which must be free.
PUBLIC void cutest_place(void *at);
void cutest_place(void *at) {
    place = at;
}

PUBLIC long cutest_allocations(void);
long cutest_allocations(void) {
    long count = 0;
    pthread_mutex_lock(&lock);
    for (allocation *a = all; a; a = a->next)
        count++;
    pthread_mutex_unlock(&lock);
    return count;
}

// ---- Entry points.

PUBLIC CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size) {
    BEGIN(CONTEXT);
    allocation like = {.type = TYPE_DEVICE, .device = current()->device, .context = current()};
    return add(ptr, size, &like, false);
}

// It waits for the device, as the real one does.
PUBLIC CUresult cuMemFree_v2(CUdeviceptr ptr);
CUresult cuMemFree_v2(CUdeviceptr ptr) {
    BEGIN(CONTEXT);
    drain(current()->device);
    return take_out(ptr);
}

PUBLIC CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t size, unsigned flags);
CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t size, unsigned flags) {
    BEGIN(CONTEXT);
    (void)flags;
    allocation like = {
        .type = TYPE_DEVICE, .managed = true, .device = current()->device, .context = current()};
    return add(ptr, size, &like, true);
}

PUBLIC CUresult cuMemAllocHost_v2(void **ptr, size_t size);
CUresult cuMemAllocHost_v2(void **ptr, size_t size) {
    BEGIN(CONTEXT);
    CUdeviceptr made;
    allocation like = {.type = TYPE_HOST, .device = current()->device, .context = current()};
    CUresult result = add(&made, size, &like, true);
    if (result == SUCCESS)
        *ptr = (void *)(uintptr_t)made;
    return result;
}

PUBLIC CUresult cuMemHostAlloc(void **ptr, size_t size, unsigned flags);
CUresult cuMemHostAlloc(void **ptr, size_t size, unsigned flags) {
    (void)flags;
    return cuMemAllocHost_v2(ptr, size);
}

PUBLIC CUresult cuMemFreeHost(void *ptr);
CUresult cuMemFreeHost(void *ptr) {
    BEGIN(CONTEXT);
    return take_out((CUdeviceptr)(uintptr_t)ptr);
}

PUBLIC CUresult cuMemHostRegister_v2(void *ptr, size_t size, unsigned flags);
CUresult cuMemHostRegister_v2(void *ptr, size_t size, unsigned flags) {
    BEGIN(CONTEXT);
    (void)flags;
    allocation *a = malloc(sizeof(*a));
    if (!a)
        return OUT_OF_MEMORY;
    *a = (allocation){.user = ptr,
                      .engine = ptr,
                      .size = size,
                      .backed = size,
                      .type = TYPE_HOST,
                      .device = current()->device,
                      .context = current()};
    pthread_mutex_lock(&lock);
    insert(a);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC CUresult cuMemHostUnregister(void *ptr);
CUresult cuMemHostUnregister(void *ptr) {
    BEGIN(CONTEXT);
    return take_out((CUdeviceptr)(uintptr_t)ptr);
}

PUBLIC CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t size, CUstream stream);
CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t size, CUstream stream) {
    BEGIN(CONTEXT);
    (void)stream;
    return add(ptr, size, &(allocation){.type = TYPE_DEVICE, .device = current()->device}, false);
}

static void free_later(work *w) {
    (void)take_out((CUdeviceptr)(uintptr_t)w->dst);
}

PUBLIC CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    BEGIN(CONTEXT);
    return submit(stream, &(work){.fn = free_later, .dst = (void *)(uintptr_t)ptr});
}

static void copy(work *w) {
    memcpy(w->dst, w->src, w->size);
}

PUBLIC CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream) {
    BEGIN(CONTEXT);
    char *to, *from;
    if (!translate(dst, size, &to) || !translate(src, size, &from))
        return INVALID_VALUE;
    return submit(stream, &(work){.fn = copy, .dst = to, .src = from, .size = size});
}

// Virtual memory: a range is reserved, and backed from its beginning on.

PUBLIC CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr at,
                                    unsigned long long flags);
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr at,
                             unsigned long long flags) {
    BEGIN(INIT);
    (void)alignment, (void)at, (void)flags;
    CUresult result = add(ptr, size, &(allocation){.type = 0}, false);
    pthread_mutex_lock(&lock);
    if (result == SUCCESS)
        (*find(*ptr))->backed = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

// Backs `size` bytes with memory of a device; from the beginning on only, and without the rights that
// the real one has set apart.
PUBLIC CUresult cutest_back(CUdeviceptr ptr, size_t size, CUdevice device);
CUresult cutest_back(CUdeviceptr ptr, size_t size, CUdevice device) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr), *a = found ? *found : NULL;
    bool next = a && ptr == (CUdeviceptr)(uintptr_t)a->user + a->backed;
    if (next) {
        a->backed += size;
        a->type = TYPE_DEVICE;
        a->device = device;
    }
    pthread_mutex_unlock(&lock);
    return next ? SUCCESS : INVALID_VALUE;
}

PUBLIC CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size);
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    BEGIN(INIT);
    (void)size;
    return take_out(ptr);
}

// ---- What a pointer is.

static bool answer(const allocation *a, int attribute, void *data) {
    switch (attribute) {
    case 1: *(CUcontext *)data = a->context; return true;
    case 2: *(unsigned *)data = a->type; return true;
    case 7: *(unsigned long long *)data = a->id; return true;
    case 8: *(bool *)data = a->managed; return true;
    case 9: *(int *)data = a->device; return true;
    case 11: *(CUdeviceptr *)data = (CUdeviceptr)(uintptr_t)a->user; return true;
    case 12: *(size_t *)data = a->size; return true;
    default: return false;
    }
}

PUBLIC CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data,
                                       CUdeviceptr ptr);
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr ptr) {
    BEGIN(INIT);
    static const allocation none = {.device = -2};
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr);
    const allocation *a = found && (*found)->backed ? *found : &none;
    bool known = true;
    for (unsigned i = 0; i < count; i++)
        known &= answer(a, attributes[i], data[i]);
    pthread_mutex_unlock(&lock);
    return known ? SUCCESS : INVALID_VALUE;
}
