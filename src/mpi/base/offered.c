// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/offered.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct offer {
    char room[WHM_OFFERED_SIZE];
    _Atomic uint32_t mapped;  // processes
} offer;

static offer *taken;

// It may be said by the launcher of a job that this one was started in: that of this one has the other end of PMI_FD.
static bool is_of_this_job(const char *path) {
    const char *fd = getenv("PMI_FD");
    struct ucred launcher;
    socklen_t size = sizeof(launcher);
    char folder[32];
    if (!fd || getsockopt(atoi(fd), SOL_SOCKET, SO_PEERCRED, &launcher, &size))
        return false;
    int length = snprintf(folder, sizeof(folder), "/proc/%d/", (int)launcher.pid);
    return strncmp(path, folder, (size_t)length) == 0;
}

// Each process grows it to the same size; pages come with what is written there.
static void *map(int fd) {
    struct stat is;
    if (fstat(fd, &is) || ((size_t)is.st_size < sizeof(offer) && ftruncate(fd, sizeof(offer))))
        return MAP_FAILED;
    return mmap(NULL, sizeof(offer), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

void whm_offered_take(void) {
    const char *path = getenv("MPI_LOCALMEMORY");
    int fd = path && is_of_this_job(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = map(fd);
    close(fd);
    if (at == MAP_FAILED)
        return;
    taken = at;
    atomic_fetch_add(&taken->mapped, 1);
}

void whm_offered_agree(int processes) {
    if (!taken || atomic_load(&taken->mapped) == (uint32_t)processes)
        return;
    munmap(taken, sizeof(*taken));
    taken = NULL;
}

void *whm_offered(void) {
    return taken;
}
