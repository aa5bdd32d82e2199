// SPDX-License-Identifier: BSD-3-Clause
//
// The calls that read and write: where an access begins, by an offset, the individual or the shared pointer; and how it ends, in a status, a
// request, or the second half of a split call.
#include <stdlib.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/share.h"
#include "mpi/io/file.h"
#include "mpi/p2p/request.h"

typedef enum where { AT, INDIVIDUAL, SHARED, ORDERED } where;

// ---- Where it begins.

// Ranks follow each other in their order.
static int ordered_begin(whm_file *file, MPI_Offset etypes, int failed, MPI_Offset *at) {
    whm_comm *comm = file->comm;
    struct part {
        int64_t etypes;
        int failed;
    } mine = {etypes, failed}, *all = malloc((size_t)comm->size * sizeof(*all));
    if (!all)
        whm_process_no_memory();
    int rc = whm_share(comm, &mine, sizeof(mine), all);
    MPI_Offset before = 0, sum = 0;
    int other = -1;
    for (int i = 0; i < comm->size && rc == MPI_SUCCESS; i++) {
        before += i < comm->rank ? all[i].etypes : 0;
        sum += all[i].etypes;
        if (all[i].failed != MPI_SUCCESS && other < 0)
            other = i;
    }
    if (rc == MPI_SUCCESS && failed == MPI_SUCCESS && other >= 0)
        rc = whm_fail(all[other].failed, "rank %d could not begin its part", other);
    free(all);
    if (failed != MPI_SUCCESS || rc != MPI_SUCCESS)
        return failed != MPI_SUCCESS ? failed : rc;
    struct start {
        int64_t at;
        int failed;
    } start = {0, MPI_SUCCESS};
    if (comm->rank == 0) {
        MPI_Offset was = 0;
        start.failed = whm_pointer_add(file, sum, &was);
        start.at = was;
    }
    rc = whm_share_from(comm, 0, &start, sizeof(start));
    if (rc == MPI_SUCCESS && start.failed != MPI_SUCCESS)
        rc = comm->rank == 0 ? start.failed
                             : whm_fail(start.failed, "rank 0 could not move the shared pointer");
    *at = start.at + before;
    return rc;
}

static int begin(whm_file *file, where from, MPI_Offset etypes, int failed, MPI_Offset *at) {
    if (from == ORDERED)
        return ordered_begin(file, etypes, failed, at);
    if (failed != MPI_SUCCESS)
        return failed;
    if (from == SHARED)
        return whm_pointer_add(file, etypes, at);
    int rc = whm_io_check_random(file);
    if (rc != MPI_SUCCESS || from == AT)
        return rc;
    rc = whm_view_reach(&file->view, file->at, etypes);
    *at = file->at;
    file->at += rc == MPI_SUCCESS ? etypes : 0;
    return rc;
}

// All of an access; the status is of bytes in memory.
static int carry_out(whm_file *file, bool write, where from, MPI_Offset at, const void *buf,
                     MPI_Count count, whm_type *type, MPI_Status *status) {
    const whm_io io = {file, write, (char *)(uintptr_t)buf, count, type};
    MPI_Offset etypes = 0;
    MPI_Count moved = 0;
    int rc = whm_io_check(&io, &etypes);
    rc = begin(file, from, etypes, rc, &at);
    if (rc == MPI_SUCCESS)
        rc = whm_io_run(&io, at, &moved);
    if (rc == MPI_SUCCESS && status != MPI_STATUS_IGNORE)
        whm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, moved, false);
    return rc;
}

// ---- How it ends.

typedef struct io_request {
    whm_request r;
    whm_comparison
        *compared;  // of a collective one, complete when that is; NULL: calls are not compared
} io_request;

static int io_fail(const whm_request *request) {
    return whm_compare_fail(((const io_request *)request)->compared);
}

static void io_end(whm_request *request) {
    whm_compare_free(((io_request *)request)->compared);
}

static void on_compared(void *arg) {
    io_request *request = arg;
    request->r.status.MPI_ERROR = whm_compare_error(request->compared);
    whm_request_done(&request->r);
}

static void discard(void *arg) {
    whm_compare_free(arg);
}

// give_up ends a call that has failed here.  The other ranks wait for it to be compared all the same.
static void give_up(io_request *request) {
    whm_comparison *compared = request->compared;
    request->compared = NULL;
    if (compared)
        whm_compare_start(compared, discard, compared);
    whm_request_drop(&request->r);
}

static int carry_out_nonblocking(whm_file *file, bool write, bool all, where from, MPI_Offset at,
                                 const void *buf, MPI_Count count, whm_type *type,
                                 whm_request **made) {
    static const whm_request_ops read_ops = {.text = "read", .end = io_end, .fail = io_fail},
                                 write_ops = {.text = "write", .end = io_end, .fail = io_fail};
    io_request *request = (io_request *)whm_request_new(write ? &write_ops : &read_ops,
                                                        sizeof(*request), NULL, false);
    if (!request)
        return whm_no_memory();
    int rc = MPI_SUCCESS;
    if (all && whm_compare_is_due(file->comm) &&
        !(request->compared = whm_compare_new(file->comm, NULL)))
        rc = whm_no_memory();
    if (rc == MPI_SUCCESS)
        rc = carry_out(file, write, from, at, buf, count, type, &request->r.status);
    if (rc != MPI_SUCCESS) {
        give_up(request);
        return rc;
    }
    request->r.status.MPI_ERROR = MPI_SUCCESS;
    if (request->compared)
        whm_compare_start(request->compared, on_compared, request);
    else
        whm_request_done(&request->r);
    *made = &request->r;
    return MPI_SUCCESS;
}

static int carry_out_begin(whm_file *file, bool write, where from, MPI_Offset at, const void *buf,
                           MPI_Count count, whm_type *type, const char *name) {
    if (file->begun)
        return whm_fail(MPI_ERR_OTHER,
                        "%s was begun, and has not ended: a file has one split operation at a time",
                        file->begun);
    int rc = carry_out(file, write, from, at, buf, count, type, &file->status);
    if (rc == MPI_SUCCESS) {
        file->begun = name;
        file->buf = buf;
    }
    return rc;
}

static int carry_out_end(whm_file *file, const void *buf, MPI_Status *status, const char *name) {
    if (file->begun != name)
        return whm_fail(MPI_ERR_OTHER, "%s was not begun%s%s", name, file->begun ? ", but " : "",
                        file->begun ? file->begun : "");
    if (file->buf != buf)
        return whm_fail(MPI_ERR_BUFFER, "this is not the buffer with which %s was begun", name);
    file->begun = NULL;
    if (status != MPI_STATUS_IGNORE)
        whm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, whm_status_bytes(&file->status), false);
    return MPI_SUCCESS;
}

// ---- The calls.

#define CALL(name, write, from, constant)                                                          \
    int mpi_file_##name(whm_file *file, constant void *buf, MPI_Count count, whm_type *type,       \
                        MPI_Status *status) {                                                      \
        return carry_out(file, write, from, 0, buf, count, type, status);                          \
    }
CALL(read, false, INDIVIDUAL, )
CALL(read_all, false, INDIVIDUAL, )
CALL(read_shared, false, SHARED, )
CALL(read_ordered, false, ORDERED, )
CALL(write, true, INDIVIDUAL, const)
CALL(write_all, true, INDIVIDUAL, const)
CALL(write_shared, true, SHARED, const)
CALL(write_ordered, true, ORDERED, const)

#define CALL_AT(name, write, constant)                                                             \
    int mpi_file_##name(whm_file *file, MPI_Offset offset, constant void *buf, MPI_Count count,    \
                        whm_type *type, MPI_Status *status) {                                      \
        return carry_out(file, write, AT, offset, buf, count, type, status);                       \
    }
CALL_AT(read_at, false, )
CALL_AT(read_at_all, false, )
CALL_AT(write_at, true, const)
CALL_AT(write_at_all, true, const)

#define NONBLOCKING(name, write, all, from, constant)                                              \
    int mpi_file_##name(whm_file *file, constant void *buf, MPI_Count count, whm_type *type,       \
                        whm_request **request) {                                                   \
        return carry_out_nonblocking(file, write, all, from, 0, buf, count, type, request);        \
    }
NONBLOCKING(iread, false, false, INDIVIDUAL, )
NONBLOCKING(iread_all, false, true, INDIVIDUAL, )
NONBLOCKING(iread_shared, false, false, SHARED, )
NONBLOCKING(iwrite, true, false, INDIVIDUAL, const)
NONBLOCKING(iwrite_all, true, true, INDIVIDUAL, const)
NONBLOCKING(iwrite_shared, true, false, SHARED, const)

#define NONBLOCKING_AT(name, write, all, constant)                                                 \
    int mpi_file_##name(whm_file *file, MPI_Offset offset, constant void *buf, MPI_Count count,    \
                        whm_type *type, whm_request **request) {                                   \
        return carry_out_nonblocking(file, write, all, AT, offset, buf, count, type, request);     \
    }
NONBLOCKING_AT(iread_at, false, false, )
NONBLOCKING_AT(iread_at_all, false, true, )
NONBLOCKING_AT(iwrite_at, true, false, const)
NONBLOCKING_AT(iwrite_at_all, true, true, const)

// The two halves know each other by the name, which is one object.
#define SPLIT_END(name, text, constant)                                                            \
    int mpi_file_##name##_end(whm_file *file, constant void *buf, MPI_Status *status) {            \
        return carry_out_end(file, buf, status, text);                                             \
    }
#define SPLIT(name, write, from, constant)                                                         \
    static const char name##_text[] = "MPI_File_" #name;                                           \
    int mpi_file_##name##_begin(whm_file *file, constant void *buf, MPI_Count count,               \
                                whm_type *type) {                                                  \
        return carry_out_begin(file, write, from, 0, buf, count, type, name##_text);               \
    }                                                                                              \
    SPLIT_END(name, name##_text, constant)
SPLIT(read_all, false, INDIVIDUAL, )
SPLIT(read_ordered, false, ORDERED, )
SPLIT(write_all, true, INDIVIDUAL, const)
SPLIT(write_ordered, true, ORDERED, const)

#define SPLIT_AT(name, write, constant)                                                            \
    static const char name##_text[] = "MPI_File_" #name;                                           \
    int mpi_file_##name##_begin(whm_file *file, MPI_Offset offset, constant void *buf,             \
                                MPI_Count count, whm_type *type) {                                 \
        return carry_out_begin(file, write, AT, offset, buf, count, type, name##_text);            \
    }                                                                                              \
    SPLIT_END(name, name##_text, constant)
SPLIT_AT(read_at_all, false, )
SPLIT_AT(write_at_all, true, const)

// ---- Pointers.

// whence gives the place from which `offset` counts, `now` being the pointer.
static int sought(const whm_file *file, MPI_Offset offset, int whence, MPI_Offset now,
                  MPI_Offset *at) {
    MPI_Offset from = 0;
    int rc = whm_io_check_random(file);
    if (rc == MPI_SUCCESS && whence == MPI_SEEK_END)
        rc = whm_view_end(file, &from);
    else if (whence == MPI_SEEK_CUR)
        from = now;
    else if (rc == MPI_SUCCESS && whence != MPI_SEEK_SET)
        rc = whm_fail(MPI_ERR_ARG,
                      "whence is %d, none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END", whence);
    if (rc == MPI_SUCCESS && (__builtin_add_overflow(from, offset, at) || *at < 0))
        rc = whm_fail(MPI_ERR_ARG, "offset %lld leads before the beginning of the view",
                      (long long)offset);
    return rc;
}

int mpi_file_seek(whm_file *file, MPI_Offset offset, int whence) {
    MPI_Offset at;
    int rc = sought(file, offset, whence, file->at, &at);
    if (rc == MPI_SUCCESS)
        file->at = at;
    return rc;
}

int mpi_file_get_position(whm_file *file, MPI_Offset *offset) {
    int rc = whm_io_check_random(file);
    if (rc == MPI_SUCCESS)
        *offset = file->at;
    return rc;
}

int mpi_file_get_position_shared(whm_file *file, MPI_Offset *offset) {
    int rc = whm_io_check_random(file);
    return rc == MPI_SUCCESS ? whm_pointer_add(file, 0, offset) : rc;
}

int mpi_file_seek_shared(whm_file *file, MPI_Offset offset, int whence) {
    struct {
        int64_t offset;
        int whence;
    } first = {offset, whence};
    int rc = whm_share_from(file->comm, 0, &first, sizeof(first));
    if (rc == MPI_SUCCESS && (first.offset != offset || first.whence != whence))
        rc = whm_fail(MPI_ERR_NOT_SAME, "offset or whence are not those of rank 0");
    rc = whm_io_together(file, rc);  // what was called before has moved the pointer
    MPI_Offset at = 0;
    if (rc == MPI_SUCCESS && file->comm->rank == 0) {
        rc = whence == MPI_SEEK_CUR ? whm_pointer_add(file, 0, &at) : MPI_SUCCESS;
        if (rc == MPI_SUCCESS)
            rc = sought(file, offset, whence, at, &at);
        if (rc == MPI_SUCCESS)
            rc = whm_pointer_set(file, at);
    }
    return whm_io_together(file, rc);
}
