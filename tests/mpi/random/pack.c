// SPDX-License-Identifier: BSD-3-Clause
//
// Packing, in this machine's form and in the portable one.
#include "random.h"

enum { MOST = 200000, SPARE = 16 };

static char *room_of(MPI_Count bytes) {
    char *room = calloc(1, (size_t)bytes + SPARE);
    CHECK(room);
    return room;
}

static void there_and_back(const layout *l, int count, bool large, block *from, block *to) {
    MPI_Count size;
    if (large) {
        OK(MPI_Pack_size_c(count, l->type, MPI_COMM_WORLD, &size));
    } else {
        int small;
        OK(MPI_Pack_size(count, l->type, MPI_COMM_WORLD, &small));
        size = small;
    }
    char *room = room_of(size);
    MPI_Count packed = 0, unpacked = 0;
    if (large) {
        OK(MPI_Pack_c(from->at, count, l->type, room, size + SPARE, &packed, MPI_COMM_WORLD));
        OK(MPI_Unpack_c(room, packed, &unpacked, to->at, count, l->type, MPI_COMM_WORLD));
    } else {
        int at = 0, up_to = 0;
        OK(MPI_Pack(from->at, count, l->type, room, (int)size + SPARE, &at, MPI_COMM_WORLD));
        OK(MPI_Unpack(room, at, &up_to, to->at, count, l->type, MPI_COMM_WORLD));
        packed = at, unpacked = up_to;
    }
    CHECK(packed == unpacked && packed == count * l->size);
    note_bytes("packed", room, (size_t)packed);
    free(room);
}

static void portable(const layout *l, int count, block *from, block *to) {
    MPI_Aint size, packed = 0, unpacked = 0;
    OK(MPI_Pack_external_size("external32", count, l->type, &size));
    char *room = room_of(size);
    OK(MPI_Pack_external("external32", from->at, count, l->type, room, size, &packed));
    OK(MPI_Unpack_external("external32", room, packed, &unpacked, to->at, count, l->type));
    CHECK(packed == unpacked && packed == size);
    note_bytes("packed portably", room, (size_t)packed);
    free(room);
}

void pack_step(void) {
    layout l = layout_draw();
    int count = layout_fit(&l, count_draw(), MOST);
    block a = block_make(&l, count, 0), b = block_make(&l, count, 1), c = block_make(&l, count, 2);
    there_and_back(&l, count, draw(2), &a, &b);
    portable(&l, count, &b, &c);
    note("lower bound", l.lb);
    note("extent", l.extent);
    note("true lower bound", l.true_lb);
    note("true extent", l.true_extent);
    note("size", l.size);
    block_end(&a, "pack");
    block_end(&b, "unpack");
    block_end(&c, "unpack portably");
    layout_free(&l);
}
