// SPDX-License-Identifier: BSD-3-Clause
//
// The shared pointer: a number in a small file beside the file, under a lock of the operating system.  So no rank waits for another one to
// make a call, and ranks on several hosts have it where they have the file.  It is there from its first use until the file is closed.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "mpi/io/file.h"

static int fail(const whm_file *file) {
    return whm_io_fail(errno, "cannot use the file of the shared pointer", file->pointer_name);
}

static int begin(whm_file *file) {
    if (file->pointer_fd < 0)
        file->pointer_fd = open(file->pointer_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->pointer_fd < 0)
        return fail(file);
    return whm_io_lock(file->pointer_fd, F_WRLCK) ? fail(file) : MPI_SUCCESS;
}

static void end(const whm_file *file) {
    (void)whm_io_lock(file->pointer_fd, F_UNLCK);
}

static int put(const whm_file *file, MPI_Offset at) {
    return pwrite(file->pointer_fd, &at, sizeof(at), 0) == sizeof(at) ? MPI_SUCCESS : fail(file);
}

int whm_pointer_add(whm_file *file, MPI_Offset etypes, MPI_Offset *was) {
    int rc = begin(file);
    if (rc != MPI_SUCCESS)
        return rc;
    *was = 0;
    ssize_t n = pread(file->pointer_fd, was, sizeof(*was), 0);  // an empty file is 0
    rc = n < 0 ? fail(file) : whm_view_reach(&file->view, *was, etypes);
    if (rc == MPI_SUCCESS && etypes)
        rc = put(file, *was + etypes);
    end(file);
    return rc;
}

int whm_pointer_set(whm_file *file, MPI_Offset at) {
    if (at == 0 && file->pointer_fd < 0 && access(file->pointer_name, F_OK))
        return MPI_SUCCESS;
    int rc = begin(file);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = put(file, at);
    end(file);
    return rc;
}
