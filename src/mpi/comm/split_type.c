// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Comm_split_type.  The one kind of hardware that the library tells apart is the host, whose processes share memory.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/base/hash.h"
#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/share.h"
#include "mpi/comm/split.h"
#include "mpi/env/info.h"

// The boot of the kernel, the file system that shared memory lies in, and the namespace of processes, which must see each other.
long long whm_host_of(void) {
    uint64_t h = WHM_HASH_BEGIN;
    char text[256];
    struct stat st;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t n = file ? fread(text, 1, sizeof(text), file) : 0;
    if (file)
        fclose(file);
    if (!n && gethostname(text, sizeof(text)) == 0)
        n = strnlen(text, sizeof(text));
    h = whm_hash_more(h, text, n);
    static const char *const place[] = {"/dev/shm", "/proc/self/ns/pid"};
    for (int i = 0; i < 2; i++) {
        if (stat(place[i], &st) == 0) {
            h = whm_hash_more(h, &st.st_dev, sizeof(st.st_dev));
            h = whm_hash_more(h, &st.st_ino, sizeof(st.st_ino));
        }
    }
    return (long long)h;
}

// color_of writes what the ranks of this rank's host have in common, the lowest of them, and how many there are.  The groups of an
// intercommunicator count their ranks each, so there it is the host's number, as far as a color goes.
static int color_of(whm_comm *comm, int *color, int *count) {
    long long mine = whm_host_of(), *all = whm_malloc((size_t)comm->size * sizeof(*all));
    if (!all)
        whm_process_no_memory();
    int rc = whm_share(comm, &mine, sizeof(mine), all);
    *color = -1;
    *count = 0;
    for (int i = 0; rc == MPI_SUCCESS && i < comm->size; i++) {
        if (all[i] != mine)
            continue;
        *color = *color < 0 ? i : *color;
        ++*count;
    }
    free(all);
    if (comm->remote)
        *color = (int)(mine & INT_MAX);
    return rc;
}

// guided says whether an info asks for the host; other resources are none that the library knows.
static bool guided(const whm_info *info) {
    const char *type = whm_info_value(info, "mpi_hw_resource_type");
    return type && (strcmp(type, "mpi_shared_memory") == 0);
}

int mpi_comm_split_type(whm_comm *comm, int split_type, int key, whm_info *info,
                        whm_comm **newcomm) {
    int color = MPI_UNDEFINED, count = 0, rc = MPI_SUCCESS, failed = MPI_SUCCESS;
    rc = color_of(comm, &color, &count);
    if (rc != MPI_SUCCESS)
        return rc;
    switch (split_type) {
    case MPI_COMM_TYPE_SHARED: break;
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        if (!guided(info))
            color = MPI_UNDEFINED;
        break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
        // A part of the communicator, never all of it.
        if (count == comm->size)
            color = MPI_UNDEFINED;
        break;
    case MPI_UNDEFINED: color = MPI_UNDEFINED; break;
    default:
        failed = whm_fail(MPI_ERR_ARG, "%d is no type to split by", split_type);
        color = MPI_UNDEFINED;
    }
    return whm_split(comm, failed, color, key, newcomm);
}
