// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's blocks: memory that is made by cuMemCreate, mapped into reserved ranges (memory.c), and exported as descriptors.
//
// A block is a memory file with a description behind the memory, so that an import knows it whatever it was told; all that
// have the file share the memory.  Handles are small numbers, used again as soon as possible.  A range gets its blocks from
// its beginning on and loses them from its end on, and is usable when rights were set.
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 256, MAPPINGS = 512, GRANULE = 4096 };
enum { PINNED = 1, DEVICE = 1, DESCRIPTOR = 1 };

typedef struct location {
    int type, id;
} location;

typedef struct properties {
    int type, handle_types;
    location location;
    void *windows;
    unsigned char flags[8];
} properties;

typedef struct access_rights {
    location location;
    int rights;
} access_rights;

// What stands behind the memory of a block in its file.
typedef struct description {
    char magic[8];
    unsigned long long size;
    int device;  // the machine's number
    int handle_types;
} description;

typedef unsigned long long block;

static const char magic[8] = "cublock";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int file;
    size_t size;
    CUdevice device;
    int handle_types;
    unsigned handles, mappings;  // both 0: free
} blocks[BLOCKS];                // a handle is the number of a place, from 1 on
static struct {
    CUdeviceptr ptr;
    size_t size;  // 0: free
    block of;
    bool usable;
} mappings[MAPPINGS];

// Under the lock.
static bool exists(block b) {
    return b >= 1 && b <= BLOCKS && (blocks[b - 1].handles || blocks[b - 1].mappings);
}

// Under the lock.
static void end_unused(block b) {
    if (!exists(b))
        close(blocks[b - 1].file);
}

// Under the lock; -1: none.
static int mapping_at(CUdeviceptr ptr) {
    for (int i = 0; i < MAPPINGS; i++)
        if (ptr - mappings[i].ptr < mappings[i].size)
            return i;
    return -1;
}

bool mapped_in(CUdeviceptr ptr, size_t size) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAPPINGS; i++)
        found |= mappings[i].size && mappings[i].ptr - ptr < size;
    pthread_mutex_unlock(&lock);
    return found;
}

// keep_block puts a block's file into the table, which owns it then.
static CUresult keep_block(int file, const description *d, CUdevice device, block *out) {
    CUresult result = OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    for (block b = 1; b <= BLOCKS && result != SUCCESS; b++) {
        if (exists(b))
            continue;
        blocks[b - 1].file = file;
        blocks[b - 1].size = d->size;
        blocks[b - 1].device = device;
        blocks[b - 1].handle_types = d->handle_types;
        blocks[b - 1].handles = 1;
        *out = b;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    if (result != SUCCESS)
        close(file);
    return result;
}

PUBLIC CUresult cuMemCreate(block *out, size_t size, const properties *p, unsigned long long flags);
CUresult cuMemCreate(block *out, size_t size, const properties *p, unsigned long long flags) {
    BEGIN(INIT);
    if (flags || !size || size % GRANULE || p->type != PINNED || p->location.type != DEVICE ||
        p->location.id < 0 || p->location.id >= device_count())
        return INVALID_VALUE;
    description d = {
        .size = size, .device = first_device() + p->location.id, .handle_types = p->handle_types};
    memcpy(d.magic, magic, sizeof(magic));
    int file = memfd_create("cublock", MFD_CLOEXEC);
    if (file < 0)
        return OUT_OF_MEMORY;
    if (pwrite(file, &d, sizeof(d), (off_t)size) != (ssize_t)sizeof(d)) {
        close(file);
        return OUT_OF_MEMORY;
    }
    return keep_block(file, &d, p->location.id, out);
}

PUBLIC CUresult cuMemRelease(block b);
CUresult cuMemRelease(block b) {
    BEGIN(INIT);
    pthread_mutex_lock(&lock);
    bool held = exists(b) && blocks[b - 1].handles;
    if (held) {
        blocks[b - 1].handles--;
        end_unused(b);
    }
    pthread_mutex_unlock(&lock);
    return held ? SUCCESS : INVALID_VALUE;
}

PUBLIC CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, block b,
                         unsigned long long flags);
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, block b, unsigned long long flags) {
    BEGIN(INIT);
    pthread_mutex_lock(&lock);
    int place = 0;
    while (place < MAPPINGS && mappings[place].size)
        place++;
    bool can = place < MAPPINGS && exists(b) && !offset && !flags && size && size % GRANULE == 0 &&
               size <= blocks[b - 1].size && mapping_at(ptr) < 0;
    if (can) {
        mappings[place].ptr = ptr;
        mappings[place].size = size;
        mappings[place].of = b;
        mappings[place].usable = false;
        blocks[b - 1].mappings++;
    }
    pthread_mutex_unlock(&lock);
    return can ? SUCCESS : INVALID_VALUE;
}

PUBLIC CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const access_rights *rights,
                               size_t count);
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const access_rights *rights, size_t count) {
    BEGIN(INIT);
    CUresult result = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int at = mapping_at(ptr);
    if (at >= 0 && mappings[at].ptr == ptr && mappings[at].size == size && !mappings[at].usable &&
        count == 1 && rights->rights == 3 && rights->location.type == DEVICE &&
        rights->location.id >= 0 && rights->location.id < device_count()) {
        block b = mappings[at].of;
        result = back(ptr, size, blocks[b - 1].device, blocks[b - 1].file);
        mappings[at].usable = result == SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuMemUnmap(CUdeviceptr ptr, size_t size);
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    BEGIN(INIT);
    for (CUdevice device = 0; device < device_count(); device++)
        drain(device);
    CUresult result = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int at = mapping_at(ptr);
    if (at >= 0 && mappings[at].ptr == ptr && mappings[at].size == size)
        result = mappings[at].usable ? unback(ptr, size) : SUCCESS;
    if (result == SUCCESS) {
        mappings[at].size = 0;
        blocks[mappings[at].of - 1].mappings--;
        end_unused(mappings[at].of);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

// ---- Asking.

PUBLIC CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    int at = mapping_at(ptr);
    if (at >= 0) {
        *base = mappings[at].ptr;
        *size = mappings[at].size;
    }
    pthread_mutex_unlock(&lock);
    return at >= 0 ? SUCCESS : NOT_FOUND;
}

PUBLIC CUresult cuMemRetainAllocationHandle(block *out, void *ptr);
CUresult cuMemRetainAllocationHandle(block *out, void *ptr) {
    BEGIN(INIT);
    pthread_mutex_lock(&lock);
    int at = mapping_at((CUdeviceptr)(uintptr_t)ptr);
    if (at >= 0) {
        *out = mappings[at].of;
        blocks[*out - 1].handles++;
    }
    pthread_mutex_unlock(&lock);
    return at >= 0 ? SUCCESS : INVALID_VALUE;
}

PUBLIC CUresult cuMemGetAllocationPropertiesFromHandle(properties *p, block b);
CUresult cuMemGetAllocationPropertiesFromHandle(properties *p, block b) {
    BEGIN(INIT);
    pthread_mutex_lock(&lock);
    bool known = exists(b);
    if (known)
        *p = (properties){.type = PINNED,
                          .handle_types = blocks[b - 1].handle_types,
                          .location = {DEVICE, blocks[b - 1].device}};
    pthread_mutex_unlock(&lock);
    return known ? SUCCESS : INVALID_VALUE;
}

// ---- Other processes.

// The descriptor stays over exec, as nobody has promised otherwise.
PUBLIC CUresult cuMemExportToShareableHandle(void *out, block b, int type,
                                             unsigned long long flags);
CUresult cuMemExportToShareableHandle(void *out, block b, int type, unsigned long long flags) {
    BEGIN(INIT);
    int made = -1;
    pthread_mutex_lock(&lock);
    if (exists(b) && type == DESCRIPTOR && (blocks[b - 1].handle_types & DESCRIPTOR) && !flags)
        made = dup(blocks[b - 1].file);
    pthread_mutex_unlock(&lock);
    if (made < 0)
        return INVALID_VALUE;
    *(int *)out = made;
    return SUCCESS;
}

PUBLIC CUresult cuMemImportFromShareableHandle(block *out, void *handle, int type);
CUresult cuMemImportFromShareableHandle(block *out, void *handle, int type) {
    BEGIN(INIT);
    struct stat about;
    description d;
    int given = (int)(intptr_t)handle;
    if (type != DESCRIPTOR || fstat(given, &about) != 0 || about.st_size < (off_t)sizeof(d) ||
        pread(given, &d, sizeof(d), about.st_size - (off_t)sizeof(d)) != (ssize_t)sizeof(d) ||
        memcmp(d.magic, magic, sizeof(magic)) != 0)
        return INVALID_VALUE;
    CUdevice device = d.device - first_device();
    if (device < 0 || device >= device_count())
        return NOT_SUPPORTED;
    int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
    return file < 0 ? OUT_OF_MEMORY : keep_block(file, &d, device, out);
}

// ---- For tests.

PUBLIC long cutest_blocks(void);
long cutest_blocks(void) {
    long count = 0;
    pthread_mutex_lock(&lock);
    for (block b = 1; b <= BLOCKS; b++)
        count += exists(b);
    pthread_mutex_unlock(&lock);
    return count;
}
