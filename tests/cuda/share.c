// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's device names, and memory handles for other processes, see driver.h.
//
// A handle says where its process has the memory's file, and which file that is: one that was freed cannot be
// opened, whatever has its number now.  As with the real driver a process cannot open its own, all openings of
// one handle in a process are one mapping, and the mapping keeps the memory when its owner has freed it.
// CUTEST_FIRST is the machine's number of the first device that this process sees (0).
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPENED_MAX = 256 };

typedef struct uuid {
    unsigned char bytes[16];
} uuid;

typedef struct handle {
    char bytes[64];
} handle;

typedef struct contents {
    char magic[8];
    int pid, file;
    unsigned long long inode, size;
    int device;  // the machine's number
} contents;
_Static_assert(sizeof(contents) <= sizeof(handle), "it fits");

static const char magic[8] = "cutest1";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned long long inode;
    CUdeviceptr ptr;
} opened[OPENED_MAX];  // inode 0: free

int first_device(void) {
    const char *text = getenv("CUTEST_FIRST");
    return text ? atoi(text) : 0;
}

PUBLIC CUresult cuDeviceGetUuid(uuid *out, CUdevice device);
CUresult cuDeviceGetUuid(uuid *out, CUdevice device) {
    BEGIN(INIT);
    if (device < 0 || device >= device_count())
        return INVALID_DEVICE;
    *out = (uuid){"cutest device"};
    out->bytes[15] = (unsigned char)(first_device() + device);
    return SUCCESS;
}

// Devices reach those next to them.
PUBLIC CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    BEGIN(INIT);
    if (device < 0 || device >= device_count() || peer < 0 || peer >= device_count())
        return INVALID_DEVICE;
    *can = device / 2 == peer / 2 && device != peer;
    return SUCCESS;
}

PUBLIC CUresult cuIpcGetMemHandle(handle *out, CUdeviceptr ptr);
CUresult cuIpcGetMemHandle(handle *out, CUdeviceptr ptr) {
    BEGIN(CONTEXT);
    memory_file found;
    struct stat about;
    CUresult result = file_of(ptr, &found);
    if (result != SUCCESS || fstat(found.file, &about) != 0)
        return INVALID_VALUE;
    contents c = {.pid = getpid(),
                  .file = found.file,
                  .inode = about.st_ino,
                  .size = found.size,
                  .device = first_device() + found.device};
    memcpy(c.magic, magic, sizeof(magic));
    memset(out, 0, sizeof(*out));
    memcpy(out, &c, sizeof(c));
    return SUCCESS;
}

// Opens the file that a handle names; negative: it is not there.
static int open_of(const contents *c) {
    char path[64];
    struct stat about;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && (fstat(file, &about) != 0 || about.st_ino != c->inode)) {
        close(file);
        return -1;
    }
    return file;
}

// Under the lock.
static CUresult open_new(const contents *c, CUdeviceptr *ptr) {
    int place = 0;
    while (place < OPENED_MAX && opened[place].inode)
        place++;
    int file = place < OPENED_MAX ? open_of(c) : -1;
    if (file < 0)
        return INVALID_VALUE;
    memory_file memory = {.file = file, .size = c->size, .device = c->device - first_device()};
    if (memory.device < 0 || memory.device >= device_count())
        memory.device = current()->device;  // one that this process does not see
    CUresult result = open_file(&memory, ptr);
    if (result == SUCCESS) {
        opened[place].inode = c->inode;
        opened[place].ptr = *ptr;
    }
    return result;
}

PUBLIC CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, handle given, unsigned flags);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, handle given, unsigned flags) {
    BEGIN(CONTEXT);
    contents c;
    memcpy(&c, &given, sizeof(c));
    if (flags != 1 || memcmp(c.magic, magic, sizeof(magic)) != 0)
        return INVALID_VALUE;
    if (c.pid == getpid())
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    CUresult result = INVALID_VALUE;
    for (int i = 0; i < OPENED_MAX && result != SUCCESS; i++)
        if (opened[i].inode == c.inode && open_again(opened[i].ptr)) {
            *ptr = opened[i].ptr;
            result = SUCCESS;
        }
    if (result != SUCCESS)
        result = open_new(&c, ptr);
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr) {
    BEGIN(CONTEXT);
    drain(current()->device);
    pthread_mutex_lock(&lock);
    CUresult result = close_file(ptr);
    for (int i = 0; i < OPENED_MAX && result == SUCCESS; i++)
        if (opened[i].inode && opened[i].ptr == ptr && !is_opened(ptr))
            opened[i].inode = 0;
    pthread_mutex_unlock(&lock);
    return result;
}
