// SPDX-License-Identifier: BSD-3-Clause
//
// Copies between typed buffers, and buffers of the library's own that hold elements of a type.
//
// Devices of a kind without kernels do not pack (WH_ENOTSUP of the engine): there each run of bytes is copied, and what goes from layout
// to layout passes through the host in pieces.
#include <stdlib.h>
#include <sys/uio.h>

#include <wherry/mem.h>
#include <wherry/pack.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"

enum { RUNS = 16, STAGED = 64 << 10 };

static wh_status copy_run(const struct iovec *run, char *packed, bool unpack) {
    return unpack ? wh_mem_copy(run->iov_base, WH_MEM_AUTO, packed, WH_MEM_AUTO, run->iov_len)
                  : wh_mem_copy(packed, WH_MEM_AUTO, run->iov_base, WH_MEM_AUTO, run->iov_len);
}

static wh_status copy_runs(const void *buf, MPI_Count count, const whm_type *type, size_t offset,
                           char *packed, size_t size, bool unpack) {
    for (size_t end = offset + size; offset < end;) {
        struct iovec run[RUNS];
        int64_t runs;
        size_t bytes;
        wh_status status =
            wh_iov_bytes(buf, count, type->layout, offset, end - offset, run, RUNS, &runs, &bytes);
        if (status == WH_OK && runs == 0)
            return WH_EINVAL;
        for (int64_t i = 0; status == WH_OK && i < runs; i++) {
            status = copy_run(&run[i], packed, unpack);
            packed += run[i].iov_len;
        }
        if (status != WH_OK)
            return status;
        offset += bytes;
    }
    return WH_OK;
}

wh_status whm_pack(const void *buf, MPI_Count count, const whm_type *type, size_t offset,
                   void *packed, size_t size, unsigned flags) {
    size_t moved;
    (void)whm_plain(buf);  // here as below: a device's driver that has come is noticed
    wh_status status = wh_pack(buf, count, type->layout, offset, packed, size, flags, &moved);
    return status == WH_ENOTSUP ? copy_runs(buf, count, type, offset, packed, size, false) : status;
}

wh_status whm_unpack(const void *packed, size_t size, void *buf, MPI_Count count,
                     const whm_type *type, size_t offset, unsigned flags) {
    size_t moved;
    (void)whm_plain(buf);
    wh_status status = wh_unpack(packed, size, buf, count, type->layout, offset, flags, &moved);
    return status == WH_ENOTSUP
               ? copy_runs(buf, count, type, offset, (char *)(uintptr_t)packed, size, true)
               : status;
}

// The smaller of the two in bytes, through memory of the host's.
static wh_status copy_staged(void *to, MPI_Count to_count, const whm_type *to_type,
                             const void *from, MPI_Count from_count, const whm_type *from_type) {
    size_t room = (size_t)(to_count * to_type->size), size = (size_t)(from_count * from_type->size);
    char *piece = whm_malloc(STAGED);
    wh_status status = piece ? WH_OK : WH_ENOMEM;
    size = size < room ? size : room;
    for (size_t at = 0, n; status == WH_OK && at < size; at += n) {
        n = size - at < STAGED ? size - at : STAGED;
        status = whm_pack(from, from_count, from_type, at, piece, n, 0);
        if (status == WH_OK)
            status = whm_unpack(piece, n, to, to_count, to_type, at, 0);
    }
    free(piece);
    return status;
}

int whm_copy(void *to, MPI_Count to_count, whm_type *to_type, const void *from,
             MPI_Count from_count, whm_type *from_type) {
    size_t moved;
    if (to_count == 0 || from_count == 0 || to_type->size == 0 || from_type->size == 0)
        return MPI_SUCCESS;
    (void)whm_plain(from);
    wh_status status =
        wh_type_copy(to, to_count, to_type->layout, from, from_count, from_type->layout, &moved);
    if (status == WH_ENOTSUP)
        status = copy_staged(to, to_count, to_type, from, from_count, from_type);
    return status == WH_OK ? MPI_SUCCESS : whm_type_fail_buffer(status);
}

// An element's lowest byte lies `true_lb` behind the address that the program would give.  That address is to be as aligned as memory of
// malloc, so the block begins at the last multiple of that before the lowest byte.
enum { ALIGNED = 16 };

static MPI_Count aligned_down(MPI_Count value) {
    return value & -(MPI_Count)ALIGNED;
}

// Where elements follow each other downwards, how far the block reaches down depends on how many there are: this remembers it.  There
// are hardly ever any.
typedef struct whm_downward {
    void *buf, *block;
    struct whm_downward *next;
} downward;

static void *remember(void *buf, void *block) {
    downward *d = whm_malloc(sizeof(*d));
    if (!d) {
        free(block);
        return NULL;
    }
    *d = (downward){buf, block, whm_self->downwards};
    whm_self->downwards = d;
    return buf;
}

static void forget(void *buf) {
    downward **at = &whm_self->downwards;
    while (*at && (*at)->buf != buf)
        at = &(*at)->next;
    downward *d = *at;
    if (!d)
        return;
    *at = d->next;
    free(d->block);
    free(d);
}

void *whm_space_new(MPI_Count count, const whm_type *type) {
    MPI_Count steps, low, size = 0;
    if (count == 0 || type->size == 0)
        steps = 0;
    else if (__builtin_mul_overflow(count - 1, type->extent, &steps) ||
             __builtin_add_overflow(steps < 0 ? -steps : steps, type->true_extent, &size) ||
             size > (MPI_Count)(PTRDIFF_MAX / 2))
        return NULL;
    low = aligned_down(type->true_lb + (steps < 0 ? steps : 0));
    size += type->true_lb + (steps < 0 ? steps : 0) - low;
    char *block = whm_malloc((size_t)size + 1);
    if (!block)
        return NULL;
    void *buf = (void *)((uintptr_t)block - (uintptr_t)low);
    return type->extent < 0 ? remember(buf, block) : buf;
}

void whm_space_free(void *buf, const whm_type *type) {
    if (!buf)
        return;
    if (type->extent < 0)
        forget(buf);
    else
        free((void *)((uintptr_t)buf + (uintptr_t)aligned_down(type->true_lb)));
}
