// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of CUDA devices as a memory kind, see docs/design/cuda.md.
//
// The idea: the driver knows all device memory of the process, also what other libraries have
// allocated, so each question about a pointer goes to it and nothing is remembered: an address that
// was freed and given out again is never taken for what it was.  Only what is ours to free is kept
// in a table, by address and the driver's id of the allocation, under the lock.  Copies that are
// waited for go over a stream of ours, which waits for no other: no call here waits for the work of
// others, save that the driver's own free does.
#include "mem/cuda.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"

enum { BOUNCE_SIZE = 256 << 10 };  // of copies between ranges that overlap

typedef struct allocation {
    int device;
    unsigned long long id;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static whi_hash ours;

static whi_cuda_ptr address_of(const void *ptr) {
    return (whi_cuda_ptr)(uintptr_t)ptr;
}

static void *pointer_of(whi_cuda_ptr address) {
    return (void *)(uintptr_t)address;
}

static bool cuda_exists(void) {
    return whi_cuda_open() == WH_OK;
}

// ---- What a pointer is.

void whi_cuda_ask(const void *ptr, whi_cuda_pointer *pointer) {
    // What is asked for, and where the answer goes, which is zero of what is none of CUDA's.
    int attributes[] = {WHI_CUDA_POINTER_MEMORY_TYPE,    WHI_CUDA_POINTER_IS_MANAGED,
                        WHI_CUDA_POINTER_DEVICE_ORDINAL, WHI_CUDA_POINTER_RANGE_START,
                        WHI_CUDA_POINTER_RANGE_SIZE,     WHI_CUDA_POINTER_BUFFER_ID};
    enum { COUNT = sizeof(attributes) / sizeof(attributes[0]) };
    whi_cuda_pointer p = {.type = 0};
    unsigned long long managed = 0;  // a yes of any width
    void *answers[COUNT] = {&p.type, &managed, &p.device, &p.base, &p.length, &p.id};
    // An error means that the driver is not initialised, or that there is no context at all yet:
    // then nothing is device memory.
    int result = whi_cuda.cuPointerGetAttributes(COUNT, attributes, answers, address_of(ptr));
    p.managed = managed;
    *pointer = result == WHI_CUDA_SUCCESS ? p : (whi_cuda_pointer){.type = 0};
}

// Managed memory counts as the device's: the CPU may touch it, but not while a kernel runs on some
// machines, and at the price of moving its pages on all.
static bool is_device(const whi_cuda_pointer *p) {
    return p->type == WHI_CUDA_MEMORY_DEVICE || p->managed;
}

static bool cuda_query(const void *ptr, wh_mem_info *info) {
    if (!whi_cuda_known() || !ptr)
        return false;
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    if (!is_device(&p))
        return false;
    *info = (wh_mem_info){.kind = WH_MEM_CUDA, .device = p.device};
    if (address_of(ptr) - p.base < p.length) {
        info->base = pointer_of(p.base);
        info->length = p.length;
    }
    return true;
}

static const char *name_of(const whi_cuda_pointer *p) {
    return p->type == WHI_CUDA_MEMORY_HOST ? "host memory that CUDA has pinned"
                                           : "no device memory";
}

// Checks one side of a copy and says where it is.
static wh_status check_range(const void *ptr, size_t size, int *device) {
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    if (!is_device(&p)) {
        whi_log(WHI_ERROR, "E-CUDA-03", "cuda: %p is %s, or was freed", ptr, name_of(&p));
        return WH_EINVAL;
    }
    size_t offset = (size_t)(address_of(ptr) - p.base);
    if (offset < p.length && size > p.length - offset) {
        whi_log(WHI_ERROR, "E-CUDA-04",
                "cuda: %zu bytes at %p cross the end of the allocation at %p by %zu", size, ptr,
                pointer_of(p.base), size - (p.length - offset));
        return WH_EINVAL;
    }
    *device = p.device;
    return WH_OK;
}

wh_status whi_cuda_ranges(whi_mem_direction direction, const void *dst, const void *src,
                          size_t size, int *device) {
    wh_status status = whi_cuda_ready();
    if (status == WH_OK && direction != WHI_MEM_FROM_HOST)
        status = check_range(src, size, device);
    if (status == WH_OK && direction != WHI_MEM_TO_HOST)
        status = check_range(dst, size, device);
    return status;
}

// ---- Allocating.

static void set_up(void) {
    whi_hash_init(&ours);
}

static wh_status remember(whi_cuda_ptr address, allocation *a) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&lock);
    // A row of this address is of an allocation that somebody else has freed.
    allocation *stale = whi_hash_get(&ours, address);
    wh_status status = whi_hash_put(&ours, address, a);
    pthread_mutex_unlock(&lock);
    if (status == WH_OK)
        whi_free(stale);
    return status;
}

static allocation *forget(const void *ptr) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&lock);
    allocation *a = whi_hash_remove(&ours, address_of(ptr));
    pthread_mutex_unlock(&lock);
    return a;
}

static wh_status alloc_there(size_t size, allocation *a, void **ptr) {
    whi_cuda_ptr address;
    wh_status status = WHI_CUDA(cuMemAlloc_v2, &address, size ? size : 1);
    if (status != WH_OK)
        return status;
    whi_cuda_pointer p;
    whi_cuda_ask(pointer_of(address), &p);
    a->id = p.id;
    status = remember(address, a);
    if (status == WH_OK)
        *ptr = pointer_of(address);
    else
        (void)!WHI_CUDA(cuMemFree_v2, address);
    return status;
}

static wh_status cuda_alloc(int number, size_t size, void **ptr) {
    allocation *a = whi_malloc(sizeof(*a));
    if (!a)
        return WH_ENOMEM;
    a->device = number;
    wh_status status = whi_cuda_enter_device(number);
    if (status == WH_OK) {
        status = alloc_there(size, a, ptr);
        whi_cuda_leave();
    }
    if (status != WH_OK)
        whi_free(a);
    return status;
}

// Says why a pointer is not ours to free.
static wh_status refuse_free(const void *ptr) {
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    if (!is_device(&p))
        whi_log(WHI_ERROR, "E-CUDA-05", "cuda: free of %p, which is %s, or was freed before", ptr,
                name_of(&p));
    else if (address_of(ptr) != p.base)
        whi_log(WHI_ERROR, "E-CUDA-06",
                "cuda: free of %p, which is %zu bytes into the allocation at %p", ptr,
                (size_t)(address_of(ptr) - p.base), pointer_of(p.base));
    else
        whi_log(WHI_ERROR, "E-CUDA-07",
                "cuda: free of %p, which wh_mem_alloc_kind has not allocated: whoever has must "
                "free it",
                ptr);
    return WH_EINVAL;
}

static wh_status free_there(void *ptr, const allocation *a) {
    wh_status status = whi_cuda_enter_device(a->device);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuMemFree_v2, address_of(ptr));
    whi_cuda_leave();
    return status;
}

static wh_status cuda_free(void *ptr) {
    wh_status status = whi_cuda_ready();
    if (status != WH_OK)
        return status;
    allocation *a = forget(ptr);
    if (!a)
        return refuse_free(ptr);
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    if (p.id != a->id) {  // somebody else has freed it, and perhaps got the address again
        whi_free(a);
        return refuse_free(ptr);
    }
    status = free_there(ptr, a);
    if (status == WH_OK || remember(address_of(ptr), a) != WH_OK)
        whi_free(a);
    return status;
}

// ---- Copying.

// move copies on the device's own stream and waits for it; the device's context is current.
static wh_status move(const whi_cuda_device *device, whi_cuda_ptr dst, whi_cuda_ptr src,
                      size_t size) {
    wh_status status = WHI_CUDA(cuMemcpyAsync, dst, src, size, device->stream);
    return status == WH_OK ? WHI_CUDA(cuStreamSynchronize, device->stream) : status;
}

// The driver does not say what happens to ranges that overlap, so they pass through host memory,
// from the end that is not written to before it is read.
static wh_status move_overlapping(const whi_cuda_device *device, whi_cuda_ptr dst, whi_cuda_ptr src,
                                  size_t size) {
    size_t piece = size < BOUNCE_SIZE ? size : BOUNCE_SIZE;
    void *bounce = whi_malloc(piece);
    if (!bounce)
        return WH_ENOMEM;
    wh_status status = WH_OK;
    for (size_t done = 0; done < size && status == WH_OK; done += piece) {
        if (piece > size - done)
            piece = size - done;
        size_t at = dst < src ? done : size - done - piece;
        status = move(device, address_of(bounce), src + at, piece);
        if (status == WH_OK)
            status = move(device, dst + at, address_of(bounce), piece);
    }
    whi_free(bounce);
    return status;
}

static bool cuda_managed(const void *ptr) {
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    return p.managed;
}

static wh_status cuda_copy(whi_mem_direction direction, void *dst, const void *src, size_t size) {
    if (!size)
        return WH_OK;
    int number;
    const whi_cuda_device *device;
    wh_status status = whi_cuda_ranges(direction, dst, src, size, &number);
    if (status == WH_OK)
        status = whi_cuda_device_of(number, &device);
    if (status == WH_OK)
        status = whi_cuda_enter(device->context);
    if (status != WH_OK)
        return status;
    bool overlap = direction == WHI_MEM_WITHIN && whi_cuda_overlap(dst, src, size);
    status = (overlap ? move_overlapping : move)(device, address_of(dst), address_of(src), size);
    whi_cuda_leave();
    return status;
}

static const whi_mem_foreign cuda_foreign = {
    .managed = cuda_managed, .enter = whi_cuda_enter_device, .leave = whi_cuda_leave};

const whi_mem_ops whi_mem_cuda = {
    .kind = WH_MEM_CUDA,
    .exists = cuda_exists,
    .reason = whi_cuda_reason,
    .notice = whi_cuda_notice,
    .query = cuda_query,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .copy_async = whi_cuda_copy_async,
    .record = whi_cuda_record,
    .wait = whi_cuda_wait,
    .query_event = whi_cuda_query_event,
    .release_event = whi_cuda_release_event,
    .foreign = &cuda_foreign,
    .staging = &whi_cuda_staging,
    .sharing = &whi_cuda_sharing,
    .kernels = &whi_cuda_kernels,
};
