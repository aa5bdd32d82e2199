// SPDX-License-Identifier: BSD-3-Clause
//
// A device without hardware, whose memory faults when the CPU touches it.
//
// The idea: each allocation is a memory file mapped twice.  The user's mapping has no access
// rights, so that code which forgets that this is device memory dies on the spot; the engine's
// mapping is readable and writable, and only copies and simulated kernels know its address.  The
// invariant: the table holds all live allocations sorted by the user's address, under one lock;
// `live` is their number, read without the lock, so that programs without sim memory pay one load
// per query.
#include "mem/sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/log.h"

typedef struct allocation {
    char *user, *engine;
    size_t size;    // as asked for, at least 1
    size_t mapped;  // whole pages
    int device;
} allocation;

enum {
    TABLE_FIRST = 16,
    FREED_KEPT = 64,  // addresses remembered to tell a second free from a foreign pointer
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *table;
static size_t table_capacity;
static _Atomic size_t live;  // written under the lock
static const void *freed[FREED_KEPT];
static size_t freed_count;

// Returns how many allocations start at or before `ptr`.  Under the lock.
static size_t count_up_to(const void *ptr) {
    size_t low = 0, high = atomic_load_explicit(&live, memory_order_relaxed);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].user <= (const char *)ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns the allocation around `ptr`, or NULL.  Under the lock.
static allocation *find(const void *ptr) {
    size_t n = count_up_to(ptr);
    if (!n)
        return NULL;
    allocation *a = &table[n - 1];
    return (size_t)((const char *)ptr - a->user) < a->size ? a : NULL;
}

// Copies the allocation around `ptr`, so that nothing needs the lock while it is looked at.
static bool lookup(const void *ptr, allocation *copy) {
    pthread_mutex_lock(&lock);
    const allocation *a = find(ptr);
    if (a)
        *copy = *a;
    pthread_mutex_unlock(&lock);
    return a;
}

static bool was_freed(const void *ptr) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < FREED_KEPT; i++)
        found |= freed[i] == ptr;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool sim_exists(void) {
    return true;
}

static const char *sim_reason(void) {
    return "a simulated device, for tests";
}

static void sim_notice(void) {}

static bool sim_query(const void *ptr, wh_mem_info *info) {
    allocation a;
    if (!atomic_load_explicit(&live, memory_order_acquire) || !lookup(ptr, &a))
        return false;
    *info = (wh_mem_info){.kind = WH_MEM_SIM, .device = a.device, .base = a.user, .length = a.size};
    return true;
}

static void unmap(const allocation *a) {
    if (a->user)
        munmap(a->user, a->mapped);
    if (a->engine)
        munmap(a->engine, a->mapped);
}

static wh_status map_twice(allocation *a) {
    int fd = memfd_create("wherry-sim", MFD_CLOEXEC);
    if (fd < 0)
        return WH_ENOMEM;
    void *user = MAP_FAILED, *engine = MAP_FAILED;
    if (whi_resize(fd, a->mapped)) {
        user = mmap(NULL, a->mapped, PROT_NONE, MAP_SHARED, fd, 0);
        engine = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);  // the mappings keep the memory
    a->user = user == MAP_FAILED ? NULL : user;
    a->engine = engine == MAP_FAILED ? NULL : engine;
    if (a->user && a->engine)
        return WH_OK;
    unmap(a);
    return WH_ENOMEM;
}

// Makes room for one more.  Under the lock.
static wh_status reserve(void) {
    size_t count = atomic_load_explicit(&live, memory_order_relaxed);
    if (count < table_capacity)
        return WH_OK;
    size_t capacity = table_capacity ? 2 * table_capacity : TABLE_FIRST;
    allocation *larger = whi_realloc(table, capacity * sizeof(*larger));
    if (!larger)
        return WH_ENOMEM;
    table = larger;
    table_capacity = capacity;
    return WH_OK;
}

static wh_status insert(const allocation *a) {
    pthread_mutex_lock(&lock);
    wh_status status = reserve();
    if (status == WH_OK) {
        size_t at = count_up_to(a->user);
        size_t count = atomic_load_explicit(&live, memory_order_relaxed);
        memmove(&table[at + 1], &table[at], (count - at) * sizeof(*table));
        table[at] = *a;
        atomic_store_explicit(&live, count + 1, memory_order_release);
        atomic_fetch_add(&whi_mem_device_allocations, 1);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static wh_status sim_alloc(int device, size_t size, void **ptr) {
    if (device < 0 || device >= WHI_SIM_DEVICES) {
        whi_log(WHI_ERROR, "E-MEM-02", "sim has devices 0 to %d, and no device %d",
                WHI_SIM_DEVICES - 1, device);
        return WH_ENOTFOUND;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > PTRDIFF_MAX - page)
        return WH_ENOMEM;
    allocation a = {.size = size ? size : 1, .device = device};
    a.mapped = (a.size + page - 1) & ~(page - 1);
    wh_status status = map_twice(&a);
    if (status != WH_OK)
        return status;
    status = insert(&a);
    if (status != WH_OK) {
        unmap(&a);
        return status;
    }
    *ptr = a.user;
    return WH_OK;
}

// Takes the allocation that starts at `ptr` out of the table.
static bool forget(const void *ptr, allocation *gone) {
    pthread_mutex_lock(&lock);
    allocation *a = find(ptr);
    bool found = a && a->user == ptr;
    if (found) {
        *gone = *a;
        size_t left = atomic_load_explicit(&live, memory_order_relaxed) - 1;
        memmove(a, a + 1, (left - (size_t)(a - table)) * sizeof(*table));
        atomic_store_explicit(&live, left, memory_order_release);
        atomic_fetch_sub(&whi_mem_device_allocations, 1);
        freed[freed_count++ % FREED_KEPT] = ptr;
        if (!left) {  // leave nothing behind when the last one goes
            whi_free(table);
            table = NULL;
            table_capacity = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static wh_status sim_free(void *ptr) {
    // Work under way may still use it: like the real ones, this device waits for it.
    whi_sim_drain();
    allocation a;
    if (forget(ptr, &a)) {
        unmap(&a);
        return WH_OK;
    }
    if (lookup(ptr, &a))
        whi_log(WHI_ERROR, "E-MEM-03",
                "sim: free of %p, which is %zu bytes into the allocation at %p", ptr,
                (size_t)((const char *)ptr - a.user), (void *)a.user);
    else if (was_freed(ptr))
        whi_log(WHI_ERROR, "E-MEM-04", "sim: free of %p, which was freed before", ptr);
    else
        whi_log(WHI_ERROR, "E-MEM-05", "sim: free of %p, which is no sim memory", ptr);
    return WH_EINVAL;
}

void *whi_sim_engine(const void *ptr, size_t size) {
    allocation a;
    if (!lookup(ptr, &a)) {
        whi_log(WHI_ERROR, "E-MEM-06", "sim: %p is %s", ptr,
                was_freed(ptr) ? "freed memory" : "no sim memory");
        return NULL;
    }
    size_t offset = (size_t)((const char *)ptr - a.user);
    if (size <= a.size - offset)
        return a.engine + offset;
    whi_log(WHI_ERROR, "E-MEM-07",
            "sim: %zu bytes at %p cross the end of the allocation at %p by %zu", size, ptr,
            (void *)a.user, size - (a.size - offset));
    return NULL;
}

// Turns the sides of a copy that are ours into addresses of the engine.
static wh_status to_engine(whi_mem_direction direction, void **dst, const void **src, size_t size) {
    void *to = direction == WHI_MEM_TO_HOST ? *dst : whi_sim_engine(*dst, size);
    const void *from = direction == WHI_MEM_FROM_HOST ? *src : whi_sim_engine(*src, size);
    if (!to || !from)
        return WH_EINVAL;
    *dst = to;
    *src = from;
    return WH_OK;
}

static wh_status sim_copy(whi_mem_direction direction, void *dst, const void *src, size_t size) {
    if (!size)
        return WH_OK;
    wh_status status = to_engine(direction, &dst, &src, size);
    if (status == WH_OK)
        memmove(dst, src, size);
    return status;
}

static _Atomic(void (*)(void)) on_copy;

void whi_sim_on_copy(void (*fn)(void)) {
    atomic_store(&on_copy, fn);
}

static wh_status sim_copy_async(whi_mem_direction direction, void *dst, const void *src,
                                size_t size, void *stream) {
    if (!size)
        return WH_OK;
    void (*fn)(void) = atomic_load(&on_copy);
    if (fn)
        fn();
    wh_status status = to_engine(direction, &dst, &src, size);
    return status == WH_OK ? whi_sim_submit(dst, src, size, stream) : status;
}

static wh_status sim_record(void *stream, whi_mem_event *event) {
    whi_sim_record(stream, event);
    return WH_OK;
}

// An event is two words of plain data, so there is nothing to give back.
static void sim_release_event(whi_mem_event *event) {
    (void)event;
}

static wh_status sim_pin(int device, size_t size, void **ptr) {
    (void)device;
    void *made = whi_malloc(size);
    if (made)
        *ptr = made;
    return made ? WH_OK : WH_ENOMEM;
}

static void sim_unpin(int device, void *ptr) {
    (void)device;
    whi_free(ptr);
}

static char own_streams[WHI_SIM_DEVICES][WHI_MEM_WITHIN + 1];  // their addresses are their names

static wh_status sim_stream(int device, whi_mem_direction direction, void **stream) {
    if (device < 0 || device >= WHI_SIM_DEVICES || direction > WHI_MEM_WITHIN)
        return WH_EINVAL;
    *stream = &own_streams[device][direction];
    return WH_OK;
}

static void sim_settle(whi_mem_direction direction) {
    for (int device = 0; device < WHI_SIM_DEVICES; device++) {
        whi_mem_event event;
        whi_sim_record(&own_streams[device][direction], &event);
        while (whi_sim_query_event(&event) == WH_PENDING)
            usleep(10);
    }
}

static const whi_mem_staging staging = {
    .pin = sim_pin, .unpin = sim_unpin, .stream = sim_stream, .settle = sim_settle};

const whi_mem_ops whi_mem_sim = {
    .kind = WH_MEM_SIM,
    .exists = sim_exists,
    .reason = sim_reason,
    .notice = sim_notice,
    .query = sim_query,
    .alloc = sim_alloc,
    .free = sim_free,
    .copy = sim_copy,
    .copy_async = sim_copy_async,
    .record = sim_record,
    .wait = whi_sim_wait,
    .query_event = whi_sim_query_event,
    .release_event = sim_release_event,
    .staging = &staging,
};
