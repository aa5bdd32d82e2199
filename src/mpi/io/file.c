// SPDX-License-Identifier: BSD-3-Clause
//
// Files: what they tell, their size, and errors that concern all ranks.
#include "mpi/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/share.h"
#include "mpi/env/info.h"
#include "mpi/env/kinds.h"

int whm_io_fail(int error, const char *what, const char *name) {
    int code;
    switch (error) {
    case ENOENT: code = MPI_ERR_NO_SUCH_FILE; break;
    case EEXIST: code = MPI_ERR_FILE_EXISTS; break;
    case EACCES:
    case EPERM: code = MPI_ERR_ACCESS; break;
    case EROFS: code = MPI_ERR_READ_ONLY; break;
    case ENOSPC: code = MPI_ERR_NO_SPACE; break;
    case EDQUOT: code = MPI_ERR_QUOTA; break;
    case EBUSY:
    case ETXTBSY: code = MPI_ERR_FILE_IN_USE; break;
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: code = MPI_ERR_BAD_FILE; break;
    case ENOMEM: code = MPI_ERR_NO_MEM; break;
    default: code = MPI_ERR_IO; break;
    }
    return whm_fail(code, "%s \"%.200s\": %s", what, name, strerror(error));
}

int whm_io_together(const whm_file *file, int code) {
    whm_comm *comm = file->comm;
    int *all = whm_malloc((size_t)comm->size * sizeof(*all));
    if (!all)
        whm_process_no_memory();
    int rc = whm_share(comm, &code, sizeof(code), all);
    for (int i = 0; i < comm->size && rc == MPI_SUCCESS; i++)
        if (all[i] != MPI_SUCCESS && code == MPI_SUCCESS)
            rc = whm_fail(all[i], "rank %d could not do its part with \"%.200s\"", i, file->name);
    free(all);
    return code != MPI_SUCCESS ? code : rc;
}

int whm_io_same(const whm_file *file, const char *what, MPI_Offset value) {
    MPI_Offset first = value;
    int rc = whm_share_from(file->comm, 0, &first, sizeof(first));
    if (rc == MPI_SUCCESS && first != value)
        rc = whm_fail(MPI_ERR_NOT_SAME, "%s is %lld, and %lld at rank 0", what, (long long)value,
                      (long long)first);
    return rc;
}

int whm_io_check_writable(const whm_file *file) {
    return file->amode & MPI_MODE_RDONLY
               ? whm_fail(MPI_ERR_READ_ONLY, "\"%.200s\" was opened with MPI_MODE_RDONLY",
                          file->name)
               : MPI_SUCCESS;
}

int whm_io_check_random(const whm_file *file) {
    return file->amode & MPI_MODE_SEQUENTIAL
               ? whm_fail(MPI_ERR_UNSUPPORTED_OPERATION,
                          "the file was opened with MPI_MODE_SEQUENTIAL: only calls with the "
                          "shared pointer can be used")
               : MPI_SUCCESS;
}

int whm_io_lock(int fd, short how) {
    struct flock all = {.l_type = how, .l_whence = SEEK_SET};
    int rc;
    do
        rc = fcntl(fd, F_OFD_SETLKW, &all);
    while (rc && errno == EINTR);
    return rc;
}

// ---- What a file tells.

int mpi_file_get_amode(whm_file *file, int *amode) {
    *amode = file->amode;
    return MPI_SUCCESS;
}

int mpi_file_get_group(whm_file *file, whm_group **group) {
    *group = whm_retain(file->comm->group);
    return MPI_SUCCESS;
}

int whm_io_hints(whm_file *file, const whm_info *info) {
    static const char *const known[] = {"file_perm", NULL};
    return whm_info_hints(&file->info, info, known);
}

int mpi_file_get_info(whm_file *file, whm_info **info) {
    return whm_hints_used(file->info, info);
}

int mpi_file_set_info(whm_file *file, whm_info *info) {
    return whm_io_together(file, whm_io_hints(file, info));
}

int mpi_file_get_atomicity(whm_file *file, int *flag) {
    *flag = file->atomic;
    return MPI_SUCCESS;
}

int mpi_file_set_atomicity(whm_file *file, int flag) {
    int rc = whm_io_together(file, whm_io_same(file, "flag", flag != 0));
    if (rc == MPI_SUCCESS)
        file->atomic = flag != 0;
    return rc;
}

// ---- The size.

int mpi_file_get_size(whm_file *file, MPI_Offset *size) {
    struct stat st;
    if (fstat(file->fd, &st))
        return whm_io_fail(errno, "cannot ask for the size of", file->name);
    *size = st.st_size;
    return MPI_SUCCESS;
}

static int check_size(const whm_file *file, MPI_Offset size) {
    int rc = whm_io_same(file, "size", size);
    if (rc == MPI_SUCCESS && size < 0)
        rc = whm_fail(MPI_ERR_ARG, "size is %lld", (long long)size);
    if (rc == MPI_SUCCESS)
        rc = whm_io_check_writable(file);
    if (rc == MPI_SUCCESS)
        rc = whm_io_check_random(file);
    return whm_io_together(file, rc);
}

int mpi_file_set_size(whm_file *file, MPI_Offset size) {
    int rc = check_size(file, size);
    if (rc != MPI_SUCCESS)
        return rc;
    if (file->comm->rank == 0 && ftruncate(file->fd, size))
        rc = whm_io_fail(errno, "cannot change the size of", file->name);
    return whm_io_together(file, rc);
}

int mpi_file_preallocate(whm_file *file, MPI_Offset size) {
    int rc = check_size(file, size);
    if (rc != MPI_SUCCESS)
        return rc;
    int error = file->comm->rank == 0 && size ? posix_fallocate(file->fd, 0, size) : 0;
    if (error)
        rc = whm_io_fail(error, "cannot allocate", file->name);
    return whm_io_together(file, rc);
}

int mpi_file_sync(whm_file *file) {
    int rc = MPI_SUCCESS;
    if (!(file->amode & MPI_MODE_RDONLY) && fsync(file->fd))
        rc = whm_io_fail(errno, "cannot write back", file->name);
    return whm_io_together(file, rc);
}
