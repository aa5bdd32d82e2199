// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/shared_bytes.h"

#include <stdlib.h>

whm_bytes whm_bytes_of(whm_shared *shared, const void *buf, MPI_Count count, const whm_type *type,
                       bool stay) {
    if (stay)
        return (whm_bytes){(char *)(uintptr_t)buf, false};
    whm_bytes b = {malloc((size_t)(count * type->size)), true};
    if (!b.at)
        whm_shared_note(shared, whm_no_memory());
    return b;
}

whm_bytes whm_bytes_pack(whm_shared *shared, const void *buf, MPI_Count count, whm_type *type,
                         bool stay) {
    whm_bytes b = whm_bytes_of(shared, buf, count, type, stay);
    if (b.own && b.at)
        whm_shared_note(
            shared, whm_copy(b.at, count * type->size, whm_type_of(MPI_BYTE), buf, count, type));
    return b;
}

void whm_bytes_unpack(whm_shared *shared, whm_bytes b, void *buf, MPI_Count count, whm_type *type) {
    if (b.own && b.at)
        whm_shared_note(
            shared, whm_copy(buf, count, type, b.at, count * type->size, whm_type_of(MPI_BYTE)));
}

void whm_bytes_drop(whm_bytes b) {
    if (b.own)
        free(b.at);
}
