// SPDX-License-Identifier: BSD-3-Clause
//
// Views: which bytes of the file the data of a rank are.  The datatype engine finds them, in the layout of `filetype`, in O(log n).
#include <stdio.h>
#include <string.h>
#include <wherry/pack.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/share.h"
#include "mpi/io/file.h"
#include "mpi/io/runs.h"

void whm_view_init(whm_view *view) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    *view = (whm_view){.etype = whm_retain(byte),
                       .filetype = whm_retain(byte),
                       .rep = "native",
                       .unit = 1,
                       .stream = true};
}

void whm_view_drop(whm_view *view) {
    if (view->etype)
        whm_type_release(view->etype);
    if (view->filetype)
        whm_type_release(view->filetype);
    view->etype = view->filetype = NULL;
}

// ---- Where its data lie.

// The engine is given an address for the file's byte 0, and adds to it: it must not be NULL, nor may lower bounds lead before 0.
static const MPI_Offset origin = (MPI_Offset)1 << 32;

int whm_view_runs(const whm_view *view, MPI_Offset at, MPI_Count size, whm_run *runs, int most,
                  int *n, MPI_Count *bytes) {
    if (view->stream) {
        runs[0] = (whm_run){view->disp + at, size};
        *n = 1;
        *bytes = size;
        return MPI_SUCCESS;
    }
    struct iovec iov[WHM_RUNS];
    int64_t found = 0;
    size_t covered = 0;
    const whm_type *type = view->filetype;
    const char *base = (const char *)(uintptr_t)(origin + view->disp);
    MPI_Count copies = (at + size) / type->size + 1;
    // From the first copy that is touched on, so that the product of copies and extent stays small.
    MPI_Count before = at / type->size;
    wh_status status = wh_iov_bytes(base + before * type->extent, copies - before, type->layout,
                                    (size_t)(at - before * type->size), (size_t)size, iov,
                                    most < WHM_RUNS ? most : WHM_RUNS, &found, &covered);
    if (status != WH_OK)
        return whm_fail_status(status, "the view cannot be looked at");
    for (int64_t i = 0; i < found; i++)
        runs[i] =
            (whm_run){(MPI_Offset)(uintptr_t)iov[i].iov_base - origin, (MPI_Count)iov[i].iov_len};
    *n = (int)found;
    *bytes = (MPI_Count)covered;
    return MPI_SUCCESS;
}

int whm_view_reach(const whm_view *view, MPI_Offset at, MPI_Offset etypes) {
    if (at < 0)
        return whm_fail(MPI_ERR_ARG, "the offset is %lld", (long long)at);
    MPI_Offset end;
    bool far =
        __builtin_add_overflow(at, etypes, &end) || __builtin_mul_overflow(end, view->unit, &end);
    // Of the copies up to the last one, and what the engine is given in front.
    if (!far && !view->stream)
        far =
            __builtin_mul_overflow(end / view->filetype->size + 2, view->filetype->extent, &end) ||
            __builtin_add_overflow(end, origin + view->filetype->true_extent, &end);
    if (far || __builtin_add_overflow(end, view->disp, &end))
        return whm_fail(MPI_ERR_ARG, "offset %lld leads beyond the largest file there can be",
                        (long long)at);
    return MPI_SUCCESS;
}

int whm_view_byte(const whm_view *view, MPI_Offset at, MPI_Offset *byte) {
    whm_run run = {0};
    int n;
    MPI_Count bytes;
    int rc = whm_view_reach(view, at, 1);
    if (rc == MPI_SUCCESS)
        rc = whm_view_runs(view, at * view->unit, 1, &run, 1, &n, &bytes);
    if (rc == MPI_SUCCESS)
        *byte = run.at;
    return rc;
}

// Bytes of one copy of filetype that lie before `end`, which is relative to it.
static int bytes_before(const whm_view *view, MPI_Offset end, MPI_Count *before) {
    const whm_view one = {.etype = view->etype, .filetype = view->filetype};
    *before = 0;
    for (MPI_Count at = 0; at < view->filetype->size;) {
        whm_run runs[WHM_RUNS];
        int n;
        MPI_Count bytes;
        int rc = whm_view_runs(&one, at, view->filetype->size - at, runs, WHM_RUNS, &n, &bytes);
        if (rc != MPI_SUCCESS)
            return rc;
        for (int i = 0; i < n; i++) {
            MPI_Count part = end - runs[i].at;
            *before += part < 0 ? 0 : part < runs[i].size ? part : runs[i].size;
        }
        if (runs[n - 1].at >= end)
            break;
        at += bytes;
    }
    return MPI_SUCCESS;
}

int whm_view_end(const whm_file *file, MPI_Offset *at) {
    const whm_view *view = &file->view;
    MPI_Offset size;
    int rc = mpi_file_get_size((whm_file *)(uintptr_t)file, &size);
    if (rc != MPI_SUCCESS)
        return rc;
    // What follows a copy begins where that has begun, and an extent later: data may lie beyond the extent by as much as they begin late.
    MPI_Offset begin = view->stream ? 0 : view->filetype->true_lb;
    MPI_Offset left = size - view->disp > begin ? size - view->disp - begin : 0;
    MPI_Count bytes = left;
    if (!view->stream) {
        MPI_Count copies = left / view->filetype->extent, more;
        rc = bytes_before(view, begin + left - copies * view->filetype->extent, &more);
        bytes = copies * view->filetype->size + more;
    }
    *at = (bytes + view->unit - 1) / view->unit;
    return rc;
}

// ---- Setting and asking.

static int check_types(const whm_type *etype, const whm_type *filetype) {
    if (etype->size == 0 || filetype->size == 0)
        return whm_fail(MPI_ERR_TYPE, "etype and filetype must hold data");
    if (filetype->size % etype->size)
        return whm_fail(MPI_ERR_TYPE,
                        "filetype has %lld bytes, which is no multiple of the %lld of etype",
                        (long long)filetype->size, (long long)etype->size);
    if (filetype->true_lb < 0 || filetype->extent < 0)
        return whm_fail(MPI_ERR_TYPE, "filetype has displacements below 0");
    if (filetype->extent == 0)
        return whm_fail(MPI_ERR_TYPE, "filetype has extent 0: all its copies have one place");
    return MPI_SUCCESS;
}

// Where elements have other sizes in the file, gaps of a layout have, too: that is not done.
static int make(whm_view *view, MPI_Offset disp, whm_type *etype, whm_type *filetype,
                const char *name) {
    int rc = check_types(etype, filetype);
    if (rc == MPI_SUCCESS)
        rc = whm_datarep_check(name);
    if (rc != MPI_SUCCESS)
        return rc;
    view->disp = disp;
    view->etype = etype;
    view->filetype = filetype;
    view->stream = filetype->dense;
    view->external = !strcmp(name, "external32");
    view->unit = view->external ? wh_external_size(1, etype->layout) : etype->size;
    snprintf(view->rep, sizeof(view->rep), "%s", name);
    if (view->unit != etype->size && !(filetype->dense && etype->dense))
        return whm_fail(MPI_ERR_UNSUPPORTED_DATAREP,
                        "elements of this etype have %lld bytes in memory and %lld in external32: "
                        "filetype must be without gaps then",
                        (long long)etype->size, (long long)view->unit);
    return MPI_SUCCESS;
}

static int check_disp(const whm_file *file, MPI_Offset disp) {
    bool current = disp == MPI_DISPLACEMENT_CURRENT;
    if (!(file->amode & MPI_MODE_SEQUENTIAL))
        return disp >= 0 ? MPI_SUCCESS
                         : whm_fail(MPI_ERR_DISP, "disp is %lld%s", (long long)disp,
                                    current ? ": MPI_DISPLACEMENT_CURRENT is for files that were "
                                              "opened with MPI_MODE_SEQUENTIAL"
                                            : "");
    if (!current)
        return whm_fail(MPI_ERR_DISP,
                        "disp is %lld: a file that was opened with "
                        "MPI_MODE_SEQUENTIAL needs MPI_DISPLACEMENT_CURRENT",
                        (long long)disp);
    return MPI_SUCCESS;
}

// MPI_DISPLACEMENT_CURRENT.  Rank 0 looks when all ranks have come, so that what any of them wrote before has moved the pointer.
static int current(whm_file *file, MPI_Offset *disp) {
    MPI_Offset at;
    int rc = whm_pointer_add(file, 0, &at);
    return rc == MPI_SUCCESS ? whm_view_byte(&file->view, at, disp) : rc;
}

// The shared pointer goes to the beginning of the new view.
static int restart(whm_file *file, MPI_Offset *disp) {
    bool sequential = file->amode & MPI_MODE_SEQUENTIAL;
    int rc = MPI_SUCCESS;
    if (file->comm->rank == 0) {
        if (sequential)
            rc = current(file, disp);
        if (rc == MPI_SUCCESS)
            rc = whm_pointer_set(file, 0);
    }
    int shared = sequential ? whm_share_from(file->comm, 0, disp, sizeof(*disp)) : MPI_SUCCESS;
    return whm_io_together(file, rc != MPI_SUCCESS ? rc : shared);
}

int mpi_file_set_view(whm_file *file, MPI_Offset disp, whm_type *etype, whm_type *filetype,
                      const char *datarep, whm_info *info) {
    whm_view view = {.disp = 0};
    int rc = check_disp(file, disp);
    if (rc == MPI_SUCCESS)
        rc = make(&view, disp, etype, filetype, datarep);
    if (rc == MPI_SUCCESS && file->begun)
        rc = whm_fail(MPI_ERR_OTHER, "%s was begun, and has not ended", file->begun);
    // Some ranks may give no info: it is taken before they agree, and not in an agreement of its own.
    if (rc == MPI_SUCCESS)
        rc = whm_io_hints(file, info);
    rc = whm_io_together(file, rc);
    if (rc == MPI_SUCCESS)
        rc = restart(file, &view.disp);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_retain(etype);
    whm_retain(filetype);
    whm_view_drop(&file->view);
    file->view = view;
    file->at = 0;
    return MPI_SUCCESS;
}

// The program gets derived types as copies, which it frees.
static int give(whm_type *type, whm_type **given) {
    if (!type->basic)
        return mpi_type_dup(type, given);
    *given = whm_retain(type);
    return MPI_SUCCESS;
}

int mpi_file_get_view(whm_file *file, MPI_Offset *disp, whm_type **etype, whm_type **filetype,
                      char *datarep) {
    const whm_view *view = &file->view;
    int rc = give(view->etype, etype);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = give(view->filetype, filetype);
    if (rc != MPI_SUCCESS) {
        whm_type_release(*etype);
        return rc;
    }
    *disp = view->disp;
    strcpy(datarep, view->rep);
    return MPI_SUCCESS;
}

int mpi_file_get_byte_offset(whm_file *file, MPI_Offset offset, MPI_Offset *disp) {
    return whm_view_byte(&file->view, offset, disp);
}

int mpi_file_get_type_extent(whm_file *file, whm_type *type, MPI_Count *extent) {
    *extent = type->extent;
    if (!file->view.external)
        return MPI_SUCCESS;
    MPI_Count size = wh_external_size(1, type->layout);
    if (size != type->size && !type->dense)
        return whm_fail(MPI_ERR_UNSUPPORTED_DATAREP,
                        "this type has gaps, and other sizes in external32 than in memory");
    if (size != type->size)
        *extent = size;
    return MPI_SUCCESS;
}
