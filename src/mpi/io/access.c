// SPDX-License-Identifier: BSD-3-Clause
//
// Reading and writing through a view.
//
// Memory without gaps is read and written where it lies; other memory goes through a buffer, a piece at a time.  Short runs of the file that lie
// near to each other are read together with what is between them; they are written one by one, as what is between them is others'.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wherry/pack.h>

#include "mpi/base/process.h"
#include "mpi/io/file.h"
#include "mpi/io/runs.h"
#include "mpi/p2p/p2p.h"

enum {
    PIECE = 1 << 20,  // of memory that is packed
    SIEVE = 1 << 20,  // bytes that are read together at most,
    GAPS = 4,         // if so many times the bytes that are wanted
};

// ---- The file.

static int move_run(const whm_io *io, whm_run run, char *at, MPI_Count *moved) {
    const whm_file *file = io->file;
    *moved = 0;
    while (*moved < run.size) {
        size_t left = (size_t)(run.size - *moved);
        off_t from = run.at + *moved;
        ssize_t n = io->write ? pwrite(file->fd, at + *moved, left, from)
                              : pread(file->fd, at + *moved, left, from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return whm_io_fail(errno, io->write ? "cannot write to" : "cannot read from",
                               file->name);
        if (n == 0 && !io->write)
            return MPI_SUCCESS;  // the end of the file
        if (n == 0)
            return whm_io_fail(ENOSPC, "cannot write to", file->name);
        *moved += n;
    }
    return MPI_SUCCESS;
}

static bool worth_sieving(const whm_run *runs, int n, MPI_Count bytes) {
    for (int i = 1; i < n; i++)
        if (runs[i].at < runs[i - 1].at + runs[i - 1].size)
            return false;
    MPI_Count span = runs[n - 1].at + runs[n - 1].size - runs[0].at;
    return n > 1 && span <= SIEVE && span <= GAPS * bytes;
}

static int sieve(const whm_io *io, const whm_run *runs, int n, char *at, MPI_Count *moved) {
    whm_run all = {runs[0].at, runs[n - 1].at + runs[n - 1].size - runs[0].at};
    char *bytes = malloc((size_t)all.size);
    if (!bytes)
        return whm_no_memory();
    MPI_Count got;
    int rc = move_run(io, all, bytes, &got);
    for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
        MPI_Count begin = runs[i].at - all.at, left = got - begin;
        MPI_Count part = left < 0 ? 0 : left < runs[i].size ? left : runs[i].size;
        memcpy(at + *moved, bytes + begin, (size_t)part);
        *moved += part;
        if (part < runs[i].size)
            break;
    }
    free(bytes);
    return rc;
}

// Moves `size` bytes between memory and the view's data, from byte `from` of them on.
static int move(const whm_io *io, MPI_Offset from, char *at, MPI_Count size, MPI_Count *moved) {
    *moved = 0;
    while (*moved < size) {
        whm_run runs[WHM_RUNS];
        int n;
        MPI_Count bytes, before = *moved;
        int rc = whm_view_runs(&io->file->view, from + before, size - before, runs, WHM_RUNS, &n,
                               &bytes);
        if (rc == MPI_SUCCESS && !io->write && worth_sieving(runs, n, bytes)) {
            rc = sieve(io, runs, n, at, moved);
        } else {
            for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
                MPI_Count part = 0;
                rc = move_run(io, runs[i], at + *moved, &part);
                *moved += part;
                if (part < runs[i].size)
                    break;
            }
        }
        if (rc != MPI_SUCCESS || *moved < before + bytes)
            return rc;
    }
    return MPI_SUCCESS;
}

// ---- Memory.

// Elements with gaps, or of a device.
static int run_packed(const whm_io *io, MPI_Offset from, MPI_Count *moved) {
    MPI_Count size = io->count * io->type->size;
    char *piece = malloc(size < PIECE ? (size_t)size : PIECE);
    if (!piece)
        return whm_no_memory();
    int rc = MPI_SUCCESS;
    while (*moved < size && rc == MPI_SUCCESS) {
        MPI_Count n = size - *moved < PIECE ? size - *moved : PIECE, got = 0;
        wh_status status = WH_OK;
        if (io->write)
            status = whm_pack(io->buf, io->count, io->type, (size_t)*moved, piece, (size_t)n,
                              WH_PACK_CACHED);
        if (status == WH_OK)
            rc = move(io, from + *moved, piece, n, &got);
        if (status == WH_OK && rc == MPI_SUCCESS && !io->write)
            status =
                whm_unpack(piece, (size_t)got, io->buf, io->count, io->type, (size_t)*moved, 0);
        if (status != WH_OK)
            rc = whm_fail_status(status, "the buffer cannot be packed");
        *moved += got;
        if (got < n)
            break;
    }
    free(piece);
    return rc;
}

// Elements that are converted.
static int run_external(const whm_io *io, MPI_Offset from, MPI_Count *moved) {
    const whm_type *type = io->type;
    MPI_Count each = wh_external_size(1, type->layout);
    MPI_Count most = each < PIECE ? PIECE / each : 1;
    char *piece = malloc((size_t)((io->count < most ? io->count : most) * each));
    if (!piece)
        return whm_no_memory();
    int rc = MPI_SUCCESS;
    for (MPI_Count i = 0, n; i < io->count && rc == MPI_SUCCESS; i += n) {
        char *buf = io->buf + i * type->extent;
        size_t done;
        MPI_Count got = 0;
        wh_status status = WH_OK;
        n = io->count - i < most ? io->count - i : most;
        if (io->write)
            status = wh_external_pack(buf, n, type->layout, piece, (size_t)(n * each), &done);
        if (status == WH_OK)
            rc = move(io, from + i * each, piece, n * each, &got);
        if (status == WH_OK && rc == MPI_SUCCESS && !io->write && got >= each)
            status = wh_external_unpack(piece, (size_t)(got / each * each), buf, got / each,
                                        type->layout, &done);
        if (status != WH_OK)
            rc = whm_fail_status(status, "the buffer cannot be converted to external32");
        *moved += got / each * type->size;
        if (got < n * each)
            break;
    }
    free(piece);
    return rc;
}

// ---- Both.

static MPI_Count bytes_in_file(const whm_io *io) {
    return io->file->view.external ? wh_external_size(io->count, io->type->layout)
                                   : io->count * io->type->size;
}

int whm_io_check(const whm_io *io, MPI_Offset *etypes) {
    const whm_file *file = io->file;
    MPI_Count size;
    int rc = io->write ? whm_io_check_writable(file) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        return rc;
    if (!io->write && file->amode & MPI_MODE_WRONLY)
        return whm_fail(MPI_ERR_ACCESS, "\"%.200s\" was opened with MPI_MODE_WRONLY", file->name);
    if (__builtin_mul_overflow(io->count, io->type->size, &size))
        return whm_fail(MPI_ERR_COUNT, "count is %lld, too many elements of %lld bytes",
                        (long long)io->count, (long long)io->type->size);
    if (file->view.external && io->type->foreign)
        return whm_fail(MPI_ERR_CONVERSION,
                        "the type has elements that are not converted to external32 here");
    size = bytes_in_file(io);
    if (size % file->view.unit)
        return whm_fail(MPI_ERR_TYPE,
                        "%lld bytes are no whole number of the view's etypes of %lld bytes",
                        (long long)size, (long long)file->view.unit);
    *etypes = size / file->view.unit;
    return MPI_SUCCESS;
}

// Atomic mode: nobody else who asks for a lock reads or writes meanwhile.
static int lock(const whm_file *file, short how) {
    return whm_io_lock(file->fd, how) ? whm_io_fail(errno, "cannot lock", file->name) : MPI_SUCCESS;
}

int whm_io_run(const whm_io *io, MPI_Offset at, MPI_Count *moved) {
    const whm_file *file = io->file;
    MPI_Count size = io->count * io->type->size;
    *moved = 0;
    int rc = whm_view_reach(&file->view, at, bytes_in_file(io) / file->view.unit);
    if (rc != MPI_SUCCESS || size == 0)
        return rc;
    rc = file->atomic ? lock(file, io->write ? F_WRLCK : F_RDLCK) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Offset from = at * file->view.unit;
    if (file->view.external)
        rc = run_external(io, from, moved);
    else if (io->type->dense && whm_plain(io->buf))
        rc = move(io, from, io->buf, size, moved);
    else
        rc = run_packed(io, from, moved);
    if (file->atomic) {
        int unlocked = lock(file, F_UNLCK);
        rc = rc != MPI_SUCCESS ? rc : unlocked;
    }
    return rc;
}
