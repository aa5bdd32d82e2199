// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's memory, see driver.h.
//
// Device memory is mapped twice: at the user's address without any right, so that code which forgets
// what it is dies on the spot, and at the engine's, which only copies and "kernels" know.  Managed and
// pinned memory is the CPU's too.  A virtual range is reserved first and backed later, by pieces.
// What other processes may open (share.c) is a memory file.
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, PAGE = 4096 };
#define MOST ((size_t)1 << 40)  // bytes of one allocation

typedef struct allocation {
    struct allocation *next;
    char *user, *engine;
    size_t size, mapped, backed;  // `backed` bytes of a virtual range are there
    unsigned type;
    bool managed, own;  // own: mapped here, and not by the user
    int file;           // 0: none
    unsigned opened;    // of another process's memory: how many times; 0: it is ours
    CUdevice device;
    CUcontext context;  // NULL: of no context (stream-ordered, virtual)
    unsigned long long id;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *all;
static unsigned long long ids;
static _Atomic unsigned long changes = 1;  // of `all`
static void *place;                        // where the next allocation is to be; NULL: anywhere

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

// A kernel asks for each word: what it was told last is true until some allocation comes or goes.
bool translate_for(CUdeviceptr ptr, size_t size, CUdevice device, char **where) {
    static __thread struct {
        CUdeviceptr base;
        size_t size;
        char *engine;
        CUdevice device;
        unsigned long changes;
    } known[4];
    static __thread unsigned turn;
    unsigned long now = atomic_load(&changes);
    for (int i = 0; i < 4; i++)
        if (known[i].changes == now && known[i].device == device &&
            ptr - known[i].base < known[i].size && size <= known[i].size - (ptr - known[i].base)) {
            *where = known[i].engine + (ptr - known[i].base);
            return true;
        }
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr), *a = found ? *found : NULL;
    bool may = a && (a->managed || a->type == TYPE_HOST || a->device == device);
    size_t offset = a ? (size_t)(ptr - (CUdeviceptr)(uintptr_t)a->user) : 0;
    may = may && offset < a->backed && size <= a->backed - offset;
    if (may) {
        *where = a->engine + offset;
        turn = (turn + 1) % 4;
        known[turn].base = (CUdeviceptr)(uintptr_t)a->user;
        known[turn].size = a->backed;
        known[turn].engine = a->engine;
        known[turn].device = device;
        known[turn].changes = now;
    }
    pthread_mutex_unlock(&lock);
    return may;
}

static void *map(void *at, size_t size, int rights, int file) {
    int flags = (file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE |
                (at ? MAP_FIXED_NOREPLACE : 0);
    void *mapped = mmap(at, size, rights, flags, file ? file : -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void unmap(const allocation *a) {
    if (a->own && a->user)
        munmap(a->user, a->mapped);
    if (a->own && a->engine && a->engine != a->user)
        munmap(a->engine, a->mapped);
    if (a->file)
        close(a->file);
}

static bool map_both(allocation *a, bool shared) {
    const int rights = PROT_READ | PROT_WRITE;
    a->own = true;
    a->user = map(place, a->mapped, shared ? rights : PROT_NONE, 0);
    place = NULL;
    a->engine = shared ? a->user : map(NULL, a->mapped, rights, a->file);
    if (a->user && a->engine)
        return true;
    unmap(a);
    return false;
}

static void insert(allocation *a) {
    a->id = ++ids;
    changes++;
    a->next = all;
    all = a;
}

// add makes an allocation; `shared`: the CPU may touch it.
static CUresult add(CUdeviceptr *ptr, size_t size, const allocation *like, bool shared) {
    if (!size)
        return INVALID_VALUE;
    if (size > MOST)
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
    if (!a->opened)
        memset(a->engine, 0xa5, size);  // nobody has promised zeros
    *ptr = (CUdeviceptr)(uintptr_t)a->user;
    return SUCCESS;
}

static CUresult take_out(CUdeviceptr ptr) {
    pthread_mutex_lock(&lock);
    allocation **place_of = find(ptr), *a = place_of ? *place_of : NULL;
    bool begins = a && ptr == (CUdeviceptr)(uintptr_t)a->user;
    bool last = begins && a->opened <= 1;
    if (begins && !last)
        a->opened--;
    if (last)
        *place_of = a->next;
    changes++;
    pthread_mutex_unlock(&lock);
    if (!begins)
        return INVALID_VALUE;
    if (!last)
        return SUCCESS;
    unmap(a);
    free(a);
    return SUCCESS;
}

// ---- Memory of other processes.

CUresult file_of(CUdeviceptr ptr, memory_file *out) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr), *a = found ? *found : NULL;
    bool can = a && a->file && !a->opened && ptr == (CUdeviceptr)(uintptr_t)a->user;
    if (can)
        *out = (memory_file){.file = a->file, .size = a->size, .device = a->device};
    pthread_mutex_unlock(&lock);
    return can ? SUCCESS : INVALID_VALUE;
}

CUresult open_file(const memory_file *file, CUdeviceptr *ptr) {
    allocation like = {.type = TYPE_DEVICE,
                       .device = file->device,
                       .context = current(),
                       .file = file->file,
                       .opened = 1};
    return add(ptr, file->size, &like, false);
}

bool is_opened(CUdeviceptr ptr) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr);
    bool is_open = found && (*found)->opened;
    pthread_mutex_unlock(&lock);
    return is_open;
}

bool open_again(CUdeviceptr ptr) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr);
    bool is_open = found && (*found)->opened;
    if (is_open)
        (*found)->opened++;
    pthread_mutex_unlock(&lock);
    return is_open;
}

CUresult close_file(CUdeviceptr ptr) {
    return is_opened(ptr) ? take_out(ptr) : INVALID_VALUE;
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

static int make_file(size_t size) {
    int file = memfd_create("cutest", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)((size + PAGE - 1) / PAGE * PAGE)) != 0) {
        close(file);
        return -1;
    }
    return file;
}

PUBLIC CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size) {
    BEGIN(CONTEXT);
    allocation like = {.type = TYPE_DEVICE, .device = current()->device, .context = current()};
    if (size && size <= MOST && (like.file = make_file(size)) < 0)
        return OUT_OF_MEMORY;
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
    return back(ptr, size, device, 0);
}

// Puts a file, or empty memory without one, at a place of the engine's.
static bool put_there(char *engine, size_t size, int file) {
    int flags = MAP_FIXED | (file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
    return mmap(engine, size, PROT_READ | PROT_WRITE, flags, file ? file : -1, 0) != MAP_FAILED;
}

CUresult back(CUdeviceptr ptr, size_t size, CUdevice device, int file) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr), *a = found ? *found : NULL;
    bool next = a && ptr == (CUdeviceptr)(uintptr_t)a->user + a->backed &&
                size <= a->size - a->backed &&
                (!file || put_there(a->engine + a->backed, size, file));
    if (next) {
        a->backed += size;
        a->type = TYPE_DEVICE;
        a->device = device;
        changes++;
    }
    pthread_mutex_unlock(&lock);
    return next ? SUCCESS : INVALID_VALUE;
}

CUresult unback(CUdeviceptr ptr, size_t size) {
    pthread_mutex_lock(&lock);
    allocation **found = find(ptr), *a = found ? *found : NULL;
    bool last = a && ptr + size == (CUdeviceptr)(uintptr_t)a->user + a->backed &&
                put_there(a->engine + a->backed - size, size, 0);
    if (last) {
        a->backed -= size;
        changes++;
    }
    pthread_mutex_unlock(&lock);
    return last ? SUCCESS : INVALID_VALUE;
}

PUBLIC CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size);
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    BEGIN(INIT);
    return mapped_in(ptr, size) ? INVALID_VALUE : take_out(ptr);
}

// ---- What a pointer is.

static bool answer(const allocation *a, CUdeviceptr ptr, int attribute, void *data) {
    switch (attribute) {
    case 1: *(CUcontext *)data = a->context; return true;
    case 2: *(unsigned *)data = a->type; return true;
    case 3: *(CUdeviceptr *)data = ptr; return a->type != 0;
    case 7: *(unsigned long long *)data = a->id; return true;
    case 8: *(bool *)data = a->managed; return true;
    case 9: *(int *)data = a->device; return true;
    case 10: *(bool *)data = a->file && !a->opened; return true;
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
        known &= answer(a, ptr, attributes[i], data[i]);
    pthread_mutex_unlock(&lock);
    return known ? SUCCESS : INVALID_VALUE;
}
