// SPDX-License-Identifier: BSD-3-Clause
//
// Files as objects: opened and closed by all ranks of a communicator together.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/share.h"
#include "mpi/env/info.h"
#include "mpi/io/file.h"

// ---- Opening.

static int check_amode(int amode) {
    int ways =
        !!(amode & MPI_MODE_RDONLY) + !!(amode & MPI_MODE_WRONLY) + !!(amode & MPI_MODE_RDWR);
    if (ways != 1)
        return whm_fail(MPI_ERR_AMODE,
                        "amode needs one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR");
    if (amode & MPI_MODE_RDONLY && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL))
        return whm_fail(MPI_ERR_AMODE,
                        "MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or MPI_MODE_EXCL");
    if (amode & MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL)
        return whm_fail(MPI_ERR_AMODE, "MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR");
    const int known = MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR | MPI_MODE_CREATE |
                      MPI_MODE_EXCL | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE |
                      MPI_MODE_SEQUENTIAL | MPI_MODE_UNIQUE_OPEN;
    if (amode & ~known)
        return whm_fail(MPI_ERR_AMODE, "amode has bits that mean nothing: %#x", amode & ~known);
    return MPI_SUCCESS;
}

static mode_t permissions(const whm_info *info) {
    const char *text = whm_info_value(info, "file_perm");
    char *end;
    unsigned long mode = text ? strtoul(text, &end, 8) : 0666;
    return text && (*end || !*text || mode > 0777) ? 0666 : (mode_t)mode;
}

static int open_part(whm_file *file, const whm_info *info, bool create) {
    int flags = file->amode & MPI_MODE_RDONLY   ? O_RDONLY
                : file->amode & MPI_MODE_WRONLY ? O_WRONLY
                                                : O_RDWR;
    if (create)
        flags |= (file->amode & MPI_MODE_CREATE ? O_CREAT : 0) |
                 (file->amode & MPI_MODE_EXCL ? O_EXCL : 0);
    file->fd = open(file->name, flags | O_CLOEXEC, permissions(info));
    if (file->fd < 0)
        return whm_io_fail(errno, "cannot open", file->name);
    struct stat st;
    if (fstat(file->fd, &st) == 0 && S_ISDIR(st.st_mode))
        return whm_io_fail(EISDIR, "cannot open", file->name);
    return MPI_SUCCESS;
}

// The shared pointer lies in a file beside the file, whose name rank 0 chooses.
static int name_pointer(whm_file *file) {
    uint64_t number = 0;
    if (file->comm->rank == 0 && getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)getpid();
    int rc = whm_share_from(file->comm, 0, &number, sizeof(number));
    const char *slash = strrchr(file->name, '/');
    int folder = slash ? (int)(slash + 1 - file->name) : 0;
    if (asprintf(&file->pointer_name, "%.*s.%s.pointer-%016llx", folder, file->name,
                 file->name + folder, (unsigned long long)number) < 0) {
        file->pointer_name = NULL;
        return whm_no_memory();
    }
    return rc;
}

static void end(whm_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    if (file->pointer_fd >= 0)
        close(file->pointer_fd);
    whm_view_drop(&file->view);
    if (file->info)
        whm_info_release(file->info);
    whm_errhandler_release(file->errhandler);
    if (file->comm)
        whm_comm_release(file->comm);
    free(file->pointer_name);
    free(file->name);
    whm_object_free(file, sizeof(*file));
}

static whm_file *new_file(const whm_comm *comm, const char *name, int amode) {
    whm_file *file = whm_object_new(WHM_FILE, sizeof(*file));
    if (!file)
        return NULL;
    file->errhandler = whm_errhandler_hold(whm_self->file_errhandler);
    file->fd = file->pointer_fd = -1;
    file->amode = amode;
    file->delete_on_close = amode & MPI_MODE_DELETE_ON_CLOSE;
    whm_view_init(&file->view);
    file->name = whm_strdup(name);
    file->comm = whm_comm_new(whm_retain(comm->group), NULL, (uint32_t)WHM_CONTEXT_NONE, NULL);
    if (!file->name || !file->comm) {
        end(file);
        return NULL;
    }
    return file;
}

// Rank 0 creates it; the others find it then.
static int open_all(whm_file *file, const whm_info *info) {
    int rc = whm_io_same(file, "amode", file->amode);
    if (rc == MPI_SUCCESS)
        rc = check_amode(file->amode);
    if (rc == MPI_SUCCESS)
        rc = whm_io_hints(file, info);
    rc = whm_io_together(file, rc);
    if (rc != MPI_SUCCESS)
        return rc;
    if (file->comm->rank == 0)
        rc = open_part(file, info, true);
    rc = whm_io_together(file, rc);
    if (rc != MPI_SUCCESS)
        return rc;
    if (file->comm->rank != 0)
        rc = open_part(file, info, false);
    int named = name_pointer(file);
    rc = whm_io_together(file, rc != MPI_SUCCESS ? rc : named);
    if (rc == MPI_SUCCESS && file->amode & MPI_MODE_APPEND) {
        rc = whm_view_end(file, &file->at);
        if (rc == MPI_SUCCESS && file->comm->rank == 0)
            rc = whm_pointer_set(file, file->at);
        rc = whm_io_together(file, rc);
    }
    return rc;
}

int mpi_file_open(whm_comm *comm, const char *name, int amode, whm_info *info, whm_file **made) {
    if (comm->remote)
        return whm_fail(MPI_ERR_COMM, "a file needs an intracommunicator");
    whm_file *file = new_file(comm, name, amode);
    uint32_t context = 0;
    int rc = whm_claim_all(comm, file ? MPI_SUCCESS : whm_no_memory(), &context);
    if (!file)
        return rc;
    if (rc == MPI_SUCCESS) {
        file->comm->context = context;
        rc = open_all(file, info);
    }
    if (rc == MPI_SUCCESS)
        *made = file;
    else
        end(file);
    return rc;
}

// ---- Closing.

int mpi_file_close(whm_file *file) {
    if (file->begun)
        return whm_fail(MPI_ERR_OTHER, "%s was begun, and has not ended", file->begun);
    int rc = whm_io_together(file, MPI_SUCCESS);  // nobody uses it any more
    if (rc == MPI_SUCCESS && file->comm->rank == 0) {
        if (file->delete_on_close && unlink(file->name))
            rc = whm_io_fail(errno, "cannot delete", file->name);
        else
            (void)unlink(file->pointer_name);
    }
    rc = whm_io_together(file, rc);
    if (rc != MPI_SUCCESS) {
        file->delete_on_close = false;  // it is open as before, and the next call ends it
        return rc;
    }
    if (file->fd >= 0 && close(file->fd) && rc == MPI_SUCCESS)
        rc = whm_io_fail(errno, "cannot close", file->name);
    file->fd = -1;
    if (rc == MPI_SUCCESS)
        end(file);
    return rc;
}

int mpi_file_delete(const char *name, whm_info *info) {
    (void)info;
    return unlink(name) == 0 ? MPI_SUCCESS : whm_io_fail(errno, "cannot delete", name);
}
