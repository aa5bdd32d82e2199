// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/coll.h"

void whm_send_block(whm_schedule *s, const whm_blocks *blocks, int i, int dest) {
    if (whm_block_bytes(blocks, i) > 0)
        whm_step_send(s, whm_block_at(blocks, i), whm_block_count(blocks, i),
                      whm_block_type(blocks, i), dest);
}

void whm_recv_block(whm_schedule *s, const whm_blocks *blocks, int i, int source) {
    if (whm_block_bytes(blocks, i) > 0)
        whm_step_recv(s, whm_block_at(blocks, i), whm_block_count(blocks, i),
                      whm_block_type(blocks, i), source);
}

void whm_copy_block(whm_schedule *s, const whm_blocks *to, int t, const whm_blocks *from, int f) {
    whm_step_copy(s, whm_block_at(to, t), whm_block_count(to, t), whm_block_type(to, t),
                  whm_block_at(from, f), whm_block_count(from, f), whm_block_type(from, f));
}

static whm_type *byte_type(void) {
    return whm_type_of(MPI_BYTE);
}

char *whm_bytes_in(whm_schedule *s, const void *buf, MPI_Count count, whm_type *type) {
    if (type->dense)
        return (char *)(uintptr_t)buf;
    char *bytes = whm_schedule_bytes(s, count * type->size);
    if (bytes)
        whm_step_copy(s, bytes, count * type->size, byte_type(), buf, count, type);
    return bytes;
}

char *whm_bytes_out(whm_schedule *s, void *buf, MPI_Count count, whm_type *type) {
    return type->dense ? buf : whm_schedule_bytes(s, count * type->size);
}

void whm_bytes_back(whm_schedule *s, void *buf, MPI_Count count, whm_type *type,
                    const char *bytes) {
    if (bytes && bytes != buf)
        whm_step_copy(s, buf, count, type, bytes, count * type->size, byte_type());
}

void whm_send_bytes(whm_schedule *s, const void *bytes, MPI_Count size, int dest) {
    whm_step_send(s, bytes, size, byte_type(), dest);
}

void whm_recv_bytes(whm_schedule *s, void *bytes, MPI_Count size, int source) {
    whm_step_recv(s, bytes, size, byte_type(), source);
}

bool whm_stack_blocks(whm_schedule *s, whm_blocks *blocks) {
    if (!blocks->counts)
        return true;
    MPI_Aint *displs = (void *)whm_schedule_bytes(s, s->size * (MPI_Count)sizeof(*displs)), at = 0;
    if (!displs)
        return false;
    for (int i = 0; i < s->size; i++) {
        displs[i] = at;
        at += blocks->counts[i];
    }
    blocks->displs = displs;
    return true;
}

bool whm_even_blocks(whm_schedule *s, void *buf, MPI_Count count, whm_type *type,
                     whm_blocks *blocks) {
    MPI_Count *counts = (void *)whm_schedule_bytes(s, s->size * (MPI_Count)sizeof(*counts));
    if (!counts)
        return false;
    // The largest come first.
    for (int i = 0; i < s->size; i++)
        counts[i] = count / s->size + (i < count % s->size);
    *blocks = (whm_blocks){.buf = buf, .counts = counts, .type = type};
    return whm_stack_blocks(s, blocks);
}
