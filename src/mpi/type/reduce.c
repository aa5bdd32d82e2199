// SPDX-License-Identifier: BSD-3-Clause
//
// Carrying operations out.
//
// Dense elements go to the engine at once, which combines them where they lie, in any memory.  Those with gaps inside (pairs) are
// packed first, a few at a time; what the engine does not compute with is done by wide.c, in host memory, as the program's functions are.
#include <limits.h>

#include "mpi/base/lock.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/op.h"
#include "mpi/type/wide.h"

enum {
    PIECE = 4096,       // packed at a time, on the stack
    COPIED = 256 << 10  // bytes of a device's memory that are copied to the host at a time
};

static size_t whole_elements(const whm_type *type, size_t left) {
    size_t size = (size_t)type->base->size, most = PIECE / size * size;
    return left < most ? left : most;
}

// The buffer's elements come to the host, are combined there, and go back: what `packed` is.
static wh_status on_host(const char *packed, size_t bytes, size_t offset, void *buf,
                         MPI_Count count, const whm_type *type, wh_reduce op) {
    _Alignas(16) char piece[PIECE];
    wh_status status = WH_OK;
    for (size_t at = 0, n; status == WH_OK && at < bytes; at += n) {
        n = whole_elements(type, bytes - at);
        status = whm_pack(buf, count, type, offset + at, piece, n, 0);
        if (status == WH_OK)
            status = wh_accumulate_packed(packed + at, piece, n, count, type->layout, offset + at,
                                          op, NULL, NULL);
        if (status == WH_OK)
            status = whm_unpack(piece, n, buf, count, type, offset + at, 0);
    }
    return status;
}

static int with_engine(const void *packed, size_t bytes, size_t offset, void *buf, MPI_Count count,
                       const whm_type *type, wh_reduce op) {
    size_t done;
    wh_status status = wh_accumulate(packed, bytes, buf, count, type->layout, offset, op, &done);
    if (status == WH_ENOTSUP && type->base && !whm_plain(buf))  // nothing computes there
        status = on_host(packed, bytes, offset, buf, count, type, op);
    return status == WH_OK ? MPI_SUCCESS : whm_type_fail_buffer(status);
}

// Packs a piece of the layout, combines, unpacks.
static int with_wide(const char *packed, size_t bytes, size_t offset, void *buf, MPI_Count count,
                     const whm_type *type, wh_reduce op) {
    const whm_type *base = type->base;
    whm_wide_fn *fn = whm_wide_find(op, base->what->wide);
    _Alignas(16) char piece[PIECE];
    for (size_t at = 0, n; at < bytes; at += n) {
        n = whole_elements(type, bytes - at);
        wh_status status = whm_pack(buf, count, type, offset + at, piece, n, 0);
        if (status == WH_OK) {
            fn(packed + at, piece, n / (size_t)base->size);
            status = whm_unpack(piece, n, buf, count, type, offset + at, 0);
        }
        if (status != WH_OK)
            return whm_type_fail_buffer(status);
    }
    return MPI_SUCCESS;
}

static bool is_wide(const whm_type *type, wh_reduce op) {
    return op != WH_REDUCE_REPLACE && op != WH_REDUCE_NO_OP && type->base &&
           type->base->what->wide != WHM_WIDE_NONE;
}

int whm_accumulate(const void *packed, MPI_Count bytes, MPI_Count offset, void *buf,
                   MPI_Count count, whm_type *type, const whm_op *op) {
    if (bytes == 0)
        return MPI_SUCCESS;
    (void)whm_plain(buf);
    if (is_wide(type, op->reduce))
        return with_wide(packed, (size_t)bytes, (size_t)offset, buf, count, type, op->reduce);
    return with_engine(packed, (size_t)bytes, (size_t)offset, buf, count, type, op->reduce);
}

// Both sides lie as the type says: with gaps, or on a device where nothing computes.
static int reduce_pieces(const void *in, void *inout, MPI_Count count, whm_type *type,
                         const whm_op *op) {
    char piece[PIECE];
    size_t bytes = (size_t)(count * type->size);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = whole_elements(type, bytes - at);
        wh_status status = whm_pack(in, count, type, at, piece, n, 0);
        if (status != WH_OK)
            return whm_type_fail_buffer(status);
        int error = whm_accumulate(piece, (MPI_Count)n, (MPI_Count)at, inout, count, type, op);
        if (error != MPI_SUCCESS)
            return error;
    }
    return MPI_SUCCESS;
}

// A function for int counts is called for as many elements at a time as an int counts.
static void call_user(const char *in, char *inout, MPI_Count count, whm_type *type,
                      const whm_op *op) {
    MPI_Datatype handle = type->o.handle;
    whm_go_out();
    if (op->fn_large)
        op->fn_large((void *)(uintptr_t)in, inout, &count, &handle);
    while (!op->fn_large && count > 0) {
        int n = count < INT_MAX ? (int)count : INT_MAX, given = n;
        op->fn((void *)(uintptr_t)in, inout, &given, &handle);
        count -= n;
        in += n * type->extent;
        inout += n * type->extent;
    }
    whm_come_back();
}

// What only the CPU combines.
static void on_cpu(const void *in, void *inout, MPI_Count count, whm_type *type, const whm_op *op) {
    if (op->predefined)
        whm_wide_find(op->reduce, type->base->what->wide)(in, inout, (size_t)count);
    else
        call_user(in, inout, count, type, op);
}

static int on_copies(const char *in, char *inout, MPI_Count count, whm_type *type,
                     const whm_op *op) {
    MPI_Count most = type->true_extent < COPIED ? COPIED / (type->true_extent + 1) + 1 : 1;
    most = most < count ? most : count;
    void *from = whm_space_new(most, type), *to = whm_space_new(most, type);
    int error = from && to ? MPI_SUCCESS : whm_no_memory();
    for (MPI_Count i = 0, n; i < count && error == MPI_SUCCESS; i += n) {
        n = count - i < most ? count - i : most;
        error = whm_copy(from, n, type, in + i * type->extent, n, type);
        if (error == MPI_SUCCESS)
            error = whm_copy(to, n, type, inout + i * type->extent, n, type);
        if (error != MPI_SUCCESS)
            break;
        on_cpu(from, to, n, type, op);
        error = whm_copy(inout + i * type->extent, n, type, to, n, type);
    }
    whm_space_free(from, type);
    whm_space_free(to, type);
    return error;
}

static int reduce_on_cpu(const void *in, void *inout, MPI_Count count, whm_type *type,
                         const whm_op *op) {
    if (!whm_plain(in) || !whm_plain(inout))
        return on_copies(in, inout, count, type, op);
    on_cpu(in, inout, count, type, op);
    return MPI_SUCCESS;
}

int whm_reduce(const void *in, void *inout, MPI_Count count, whm_type *type, whm_op *op) {
    if (count == 0 || type->size == 0)
        return MPI_SUCCESS;
    if (!op->predefined)
        return reduce_on_cpu(in, inout, count, type, op);
    if (!type->dense)
        return reduce_pieces(in, inout, count, type, op);
    if (is_wide(type, op->reduce))
        return reduce_on_cpu(in, inout, count, type, op);
    size_t done;
    wh_status status = wh_accumulate(in, (size_t)(count * type->size), inout, count, type->layout,
                                     0, op->reduce, &done);
    if (status == WH_ENOTSUP && (!whm_plain(in) || !whm_plain(inout)))
        return reduce_pieces(in, inout, count, type, op);
    return status == WH_OK ? MPI_SUCCESS : whm_type_fail_buffer(status);
}

int mpi_reduce_local(const void *in, void *inout, MPI_Count count, whm_type *type, whm_op *op) {
    int error = whm_type_check_committed(type);
    if (error == MPI_SUCCESS)
        error = whm_op_check(op, type);
    // A device's driver that has come is noticed; elsewhere what brings the operands does so.
    (void)whm_plain(in);
    return error == MPI_SUCCESS ? whm_reduce(in, inout, count, type, op) : error;
}
