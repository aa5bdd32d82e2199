// SPDX-License-Identifier: BSD-3-Clause
//
// Making, checking and mapping sealed memfds, and the list of those that this process has mapped.
//
// The list is keyed by device and inode, which name a living memfd uniquely; a mapping keeps its
// memfd alive.  One mutex covers the list and the counts.  It is never held across anything but
// mmap.
#include "net/shm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/fork.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

// With F_SEAL_SEAL nobody can add F_SEAL_WRITE later either.
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static void forget_in_child(void *arg);

static struct {
    pthread_mutex_t lock;
    bool watches_fork;
    whi_fork_node fork;
    whi_list regions;
} process = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .fork = {.fn = forget_in_child},
    .regions = {&process.regions, &process.regions},
};

// A forked child has none of the mappings, and the lock may be held by a thread that it lacks.
static void forget_in_child(void *arg) {
    (void)arg;
    process.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    process.watches_fork = false;
    whi_list_init(&process.regions);
}

static wh_status status_of_errno(void) {
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case EFBIG: return WH_ELIMIT;
    case ENOMEM: return WH_ENOMEM;
    default: return WH_ESYSTEM;
    }
}

static int open_memfd(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)  // an older kernel
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

static wh_status make_memfd(const char *name, size_t size, int *out) {
    int fd = open_memfd(name);
    if (fd < 0)
        return status_of_errno();
    if (!whi_resize(fd, size) || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        wh_status status = status_of_errno();
        close(fd);
        return status;
    }
    *out = fd;
    return WH_OK;
}

// With the lock held.
static whi_region *find(const struct stat *info) {
    whi_list_foreach(node, &process.regions) {
        whi_region *region = whi_container_of(node, whi_region, link);
        if (region->ino == info->st_ino && region->dev == info->st_dev)
            return region;
    }
    return NULL;
}

// With the lock held.
static wh_status map(int fd, const struct stat *info, whi_region **out) {
    if (!process.watches_fork && whi_fork_register(&process.fork) != WH_OK)
        return WH_ENOMEM;
    process.watches_fork = true;
    whi_region *region = whi_calloc(1, sizeof(*region));
    if (!region)
        return WH_ENOMEM;
    size_t size = (size_t)info->st_size;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        // EPERM: the peer has forbidden writing.
        wh_status status = errno == EPERM ? WH_EPROTOCOL : status_of_errno();
        whi_free(region);
        return status;
    }
    (void)madvise(base, size, MADV_DONTFORK);
    region->base = base;
    region->size = size;
    region->dev = info->st_dev;
    region->ino = info->st_ino;
    // The newest first: in one process the other end attaches right after the first was made.
    whi_list_push_front(&process.regions, &region->link);
    *out = region;
    return WH_OK;
}

static wh_status hold(int fd, const struct stat *info, whi_region **out) {
    pthread_mutex_lock(&process.lock);
    whi_region *region = find(info);
    wh_status status = region ? WH_OK : map(fd, info, &region);
    if (status == WH_OK) {
        region->refs++;
        *out = region;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

wh_status whi_region_create(const char *name, size_t size, whi_region **region, int *out) {
    int fd = -1;
    wh_status status = make_memfd(name, size, &fd);
    if (status != WH_OK)
        return status;
    struct stat info;
    status = fstat(fd, &info) == 0 ? hold(fd, &info, region) : status_of_errno();
    if (status != WH_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    return WH_OK;
}

wh_status whi_region_attach(int fd, size_t min, size_t max, whi_region **region) {
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat info;
    struct statfs system;
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0)
        return WH_EPROTOCOL;
    // Huge pages are refused: when the pool is empty, touching them is SIGBUS.
    if (system.f_type != TMPFS_MAGIC || info.st_size < 0)
        return WH_EPROTOCOL;
    if ((uint64_t)info.st_size < min || (uint64_t)info.st_size > max)
        return WH_EPROTOCOL;
    return hold(fd, &info, region);
}

void whi_region_release(whi_region *region) {
    if (!region)
        return;
    pthread_mutex_lock(&process.lock);
    bool last = --region->refs == 0;
    if (last)
        whi_list_remove(&region->link);
    pthread_mutex_unlock(&process.lock);
    if (last) {
        munmap(region->base, region->size);
        whi_free(region);
    }
}
