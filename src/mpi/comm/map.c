// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that ranks of one host share: a POSIX shared memory object, whose name is random and gone as soon as all have mapped it.
#include "mpi/comm/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "mpi/base/files.h"
#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/comm/share.h"

// What ranks tell each other on the way: the name that rank 0 has made, and why they could not do their part.
typedef struct step {
    int64_t size;
    uint64_t name[2];
    int error;  // of the system; 0: they could
} step;

static void name_of(const step *first, char *name, size_t size) {
    snprintf(name, size, "/wherry-mpi-%016llx%016llx", (unsigned long long)first->name[0],
             (unsigned long long)first->name[1]);
}

// All of it is allocated at once: a file system that is full is an error here, and not a signal at the first access.  So is the
// process's own limit.
static int make(step *own, size_t size) {
    char name[64];
    if (!whm_may_have_file(size) || getrandom(own->name, sizeof(own->name), 0) != sizeof(own->name))
        return -1;
    name_of(own, name, sizeof(name));
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    int error = fd >= 0 ? posix_fallocate(fd, 0, (off_t)size) : 0;
    if (error) {
        shm_unlink(name);
        close(fd);
        fd = -1;
        errno = error;
    }
    return fd;
}

// fail says why they have not got the memory; MPI_SUCCESS: all have.
static int fail(const step *steps, int n, bool made, size_t size) {
    int who = 0;
    while (who < n && !steps[who].error)
        who++;
    if (who == n)
        return MPI_SUCCESS;
    int error = steps[who].error;
    if (made && error == ENOENT)
        return whm_fail(MPI_ERR_RMA_SHARED, "the ranks are not all on one host");
    return whm_fail(MPI_ERR_NO_MEM, "rank %d cannot get %zu bytes of shared memory: %s%s", who,
                    size, strerror(error),
                    error == EMFILE  ? " (ulimit -n)"
                    : error == EFBIG ? " (ulimit -f)"
                                     : "");
}

static size_t place_all(const step *steps, int n, bool spread, size_t *offsets) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0;
    for (int i = 0; i < n; i++) {
        offsets[i] = at;
        at += (size_t)steps[i].size;
        if (spread)
            at = (at + page - 1) / page * page;
    }
    return (at + page) / page * page;
}

static int map_it(whm_comm *comm, step *own, step *steps, size_t size, void **map) {
    int fd = -1, rc;
    char name[64];
    own->error = 0;
    if (comm->rank == 0) {
        fd = make(own, size);
        own->error = fd < 0 ? errno : 0;
    }
    rc = whm_share(comm, own, sizeof(*own), steps);
    bool made = rc == MPI_SUCCESS && !steps[0].error;
    name_of(&steps[0], name, sizeof(name));
    if (made && comm->rank != 0)
        fd = shm_open(name, O_RDWR, 0);
    *map = fd >= 0 ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (*map == MAP_FAILED && (made || !own->error))
        own->error = made ? errno : steps[0].error;
    if (fd >= 0)
        close(fd);
    if (rc == MPI_SUCCESS)
        rc = whm_share(comm, own, sizeof(*own), steps);
    if (comm->rank == 0 && made)
        shm_unlink(name);
    if (rc == MPI_SUCCESS)
        rc = fail(steps, comm->size, made, size);
    if (rc != MPI_SUCCESS && *map != MAP_FAILED)
        munmap(*map, size);
    return rc;
}

int whm_map_begin(whm_comm *comm, MPI_Aint size, bool spread, void **map, size_t *map_size,
                  size_t *offsets) {
    step own = {.size = size};
    step *steps = whm_malloc((size_t)comm->size * sizeof(*steps));
    if (!steps)
        whm_process_no_memory();
    int rc = whm_share(comm, &own, sizeof(own), steps);
    if (rc == MPI_SUCCESS) {
        *map_size = place_all(steps, comm->size, spread, offsets);
        rc = map_it(comm, &own, steps, *map_size, map);
    }
    free(steps);
    return rc;
}

void whm_map_end(void *map, size_t map_size) {
    if (map)
        munmap(map, map_size);
}
