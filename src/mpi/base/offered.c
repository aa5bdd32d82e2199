// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/offered.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 4096 };

// Of a rank.  A second program of the same ranks, as in `sh -c "first; second"`, finds what the first one has left there, and uses none of it.
enum { FREE, MAPPED, SPENT };

typedef struct offer {
    atomic_uchar state[PROCESSES];
    char room[WHM_OFFERED_SIZE];
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

// Pages come with what is written there.
static offer *map(int fd) {
    struct stat is;
    void *at = MAP_FAILED;
    if (!fstat(fd, &is) && (size_t)is.st_size == sizeof(offer))
        at = mmap(NULL, sizeof(offer), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int own_rank(void) {
    const char *rank = getenv("PMI_RANK");
    return rank ? atoi(rank) : -1;
}

void whm_offered_take(void) {
    const char *path = getenv("MPI_LOCALMEMORY");
    int rank = own_rank();
    if (taken || rank < 0 || rank >= PROCESSES)
        return;
    int fd = path && is_of_this_job(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    taken = map(fd);
    close(fd);
    if (taken && atomic_exchange(&taken->state[rank], MAPPED) != FREE)
        atomic_store(&taken->state[rank], SPENT);
}

void whm_offered_agree(int processes) {
    int have = 0;
    if (!taken)
        return;
    while (have < processes && have < PROCESSES && atomic_load(&taken->state[have]) == MAPPED)
        have++;
    if (have == processes)
        return;
    munmap(taken, sizeof(*taken));
    taken = NULL;
}

void *whm_offered(void) {
    return taken ? taken->room : NULL;
}
