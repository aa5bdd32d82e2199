// SPDX-License-Identifier: BSD-3-Clause
//
// Random types, nested up to three deep, and memory for them.
//
// Elements of a layout, and those after each other at its extent, do not overlap: a type that would is resized.  All displacements
// are multiples of what its unit must be aligned to.
#include "random.h"

enum { UNITS = 7, DEEP = 3, MOST = 5, MOST_SIZE = 4000, MOST_SPAN = 40000, MARGIN = 64, ALIGN = 8 };

// What layouts are made of: predefined types, and in the end one of several, which is sparse in layouts and dense at their peers.
static MPI_Datatype units[UNITS], sparse;

static void measure(layout *l) {
    OK(MPI_Type_size_c(l->type, &l->size));
    OK(MPI_Type_get_extent_c(l->type, &l->lb, &l->extent));
    OK(MPI_Type_get_true_extent_c(l->type, &l->true_lb, &l->true_extent));
}

static MPI_Datatype mixture(const MPI_Aint *displs, MPI_Aint extent) {
    MPI_Datatype made, resized;
    OK(MPI_Type_create_struct(3, (int[]){1, 4, 1}, displs,
                              (MPI_Datatype[]){MPI_INT64_T, MPI_CHAR, MPI_INT32_T}, &made));
    OK(MPI_Type_create_resized(made, 0, extent, &resized));
    OK(MPI_Type_free(&made));
    OK(MPI_Type_commit(&resized));
    return resized;
}

void layouts_begin(void) {
    const MPI_Datatype named[UNITS - 1] = {MPI_CHAR,    MPI_SHORT,    MPI_INT,
                                           MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT};
    memcpy(units, named, sizeof(named));
    units[UNITS - 1] = mixture((MPI_Aint[]){0, 8, 12}, 16);
    sparse = mixture((MPI_Aint[]){8, 0, 20}, 32);
}

void layouts_end(void) {
    OK(MPI_Type_free(&units[UNITS - 1]));
    OK(MPI_Type_free(&sparse));
}

static layout leaf(void) {
    unsigned which = draw(UNITS);
    layout l = {.unit = units[which], .units = 1, .mixed = which == UNITS - 1};
    OK(MPI_Type_dup(l.mixed ? sparse : l.unit, &l.type));
    measure(&l);
    return l;
}

static int drawn(unsigned least, unsigned below) {
    return (int)(least + draw(below));
}

static MPI_Datatype vectors(const layout *of, int n, bool bytes) {
    MPI_Datatype made;
    int length = drawn(1, 3), gap = drawn(0, 3);
    if (bytes)
        OK(MPI_Type_create_hvector(n, length, length * of->extent + gap * ALIGN, of->type, &made));
    else
        OK(MPI_Type_vector(n, length, length + gap, of->type, &made));
    return made;
}

static MPI_Datatype indexed(const layout *of, int n) {
    MPI_Datatype made;
    int lengths[MOST], displs[MOST], at = 0;
    for (int i = 0; i < n; i++) {
        lengths[i] = drawn(0, 3);
        displs[i] = at += drawn(0, 3);
        at += lengths[i];
    }
    OK(MPI_Type_indexed(n, lengths, displs, of->type, &made));
    return made;
}

static MPI_Datatype indexed_bytes(const layout *of, int n) {
    MPI_Datatype made;
    int lengths[MOST] = {0};
    MPI_Aint displs[MOST] = {0}, at = -16 * (MPI_Aint)draw(3);
    bool swap = draw(2);
    for (int i = 0; i < n; i++) {
        lengths[i] = drawn(1, 2);
        displs[i] = at += ALIGN * (MPI_Aint)draw(3);
        at += lengths[i] * of->extent;
    }
    if (swap) {  // not in the order of memory
        int length = lengths[0];
        MPI_Aint displ = displs[0];
        lengths[0] = lengths[n - 1], displs[0] = displs[n - 1];
        lengths[n - 1] = length, displs[n - 1] = displ;
    }
    OK(MPI_Type_create_hindexed(n, lengths, displs, of->type, &made));
    return made;
}

static MPI_Datatype indexed_blocks(const layout *of, int n, bool bytes) {
    MPI_Datatype made;
    int length = drawn(1, 2), displs[MOST], at = 0;
    MPI_Aint places[MOST];
    for (int i = 0; i < n; i++) {
        displs[i] = at;
        places[n - 1 - i] = at * of->extent;
        at += length + drawn(0, 2);
    }
    if (bytes)
        OK(MPI_Type_create_hindexed_block(n, length, places, of->type, &made));
    else
        OK(MPI_Type_create_indexed_block(n, length, displs, of->type, &made));
    return made;
}

static MPI_Datatype subarray(const layout *of) {
    MPI_Datatype made;
    int sizes[3], lengths[3], starts[3], dims = drawn(1, 3);
    for (int i = 0; i < dims; i++) {
        sizes[i] = drawn(1, 5);
        lengths[i] = drawn(1, (unsigned)sizes[i]);
        starts[i] = drawn(0, (unsigned)(sizes[i] - lengths[i] + 1));
    }
    OK(MPI_Type_create_subarray(dims, sizes, lengths, starts,
                                draw(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, of->type, &made));
    return made;
}

// The part of a process of some: not of this job's, as all ranks make the same.
static MPI_Datatype distributed(const layout *of) {
    MPI_Datatype made;
    int sizes[2], kinds[2], args[2], processes[2];
    for (int i = 0; i < 2; i++) {
        sizes[i] = drawn(4, 4);
        processes[i] = drawn(1, 2);
        kinds[i] = draw(2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
        args[i] = MPI_DISTRIBUTE_DFLT_DARG;
    }
    int all = processes[0] * processes[1];
    OK(MPI_Type_create_darray(all, drawn(0, (unsigned)all), 2, sizes, kinds, args, processes,
                              draw(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, of->type, &made));
    return made;
}

static MPI_Datatype structure(const layout *of, MPI_Aint span, int n) {
    MPI_Datatype made, types[MOST];
    int lengths[MOST];
    MPI_Aint displs[MOST], at = 0;
    for (int i = 0; i < n; i++) {
        lengths[i] = drawn(1, 2);
        displs[i] = at;
        types[i] = of->type;
        at += lengths[i] * span + ALIGN * (MPI_Aint)draw(3);
    }
    OK(MPI_Type_create_struct(n, lengths, displs, types, &made));
    return made;
}

static MPI_Datatype resized(const layout *of, MPI_Aint span) {
    MPI_Datatype made;
    OK(MPI_Type_create_resized(of->type, of->true_lb - ALIGN * (MPI_Aint)draw(3),
                               span + 16 + ALIGN * (MPI_Aint)draw(3), &made));
    return made;
}

static MPI_Datatype derived(const layout *of) {
    MPI_Datatype made;
    int n = drawn(1, 4);
    MPI_Aint span = of->extent > of->true_extent ? of->extent : of->true_extent;
    switch (draw(12)) {
    case 0: OK(MPI_Type_contiguous(n, of->type, &made)); return made;
    case 1: return vectors(of, n, false);
    case 2: return vectors(of, n, true);
    case 3:
    case 4: return indexed(of, n);
    case 5: return indexed_bytes(of, n);
    case 6: return indexed_blocks(of, n, false);
    case 7: return indexed_blocks(of, n, true);
    case 8: return subarray(of);
    case 9: return distributed(of);
    case 10: return structure(of, span, n);
    default: return resized(of, span);
    }
}

// nested returns a layout that may be made of others, with an extent of at least what it spans.
static layout nested(int depth) {
    if (depth == 0 || draw(4) == 0)
        return leaf();
    layout l = nested(depth - 1);
    MPI_Datatype made = derived(&l);
    OK(MPI_Type_free(&l.type));
    l.type = made;
    measure(&l);
    if (l.extent < l.true_extent) {
        MPI_Aint up = (ALIGN - l.true_extent % ALIGN) % ALIGN;
        OK(MPI_Type_create_resized(l.type, l.lb, l.true_extent + up, &made));
        OK(MPI_Type_free(&l.type));
        l.type = made;
        measure(&l);
    }
    if (l.size == 0 || l.size > MOST_SIZE || l.true_extent > MOST_SPAN || l.extent > MOST_SPAN) {
        OK(MPI_Type_free(&l.type));
        return leaf();
    }
    return l;
}

layout layout_draw(void) {
    layout l = nested(DEEP);
    MPI_Count unit;
    OK(MPI_Type_size_c(l.unit, &unit));
    l.units = (int)(l.size / unit);
    OK(MPI_Type_commit(&l.type));
    return l;
}

layout layout_of(MPI_Datatype type) {
    layout l = {.unit = type, .units = 1};
    OK(MPI_Type_dup(type, &l.type));
    OK(MPI_Type_commit(&l.type));
    measure(&l);
    return l;
}

layout layout_peer(const layout *of, int *each) {
    if (draw(2)) {
        layout dense = layout_of(of->unit);
        dense.mixed = of->mixed;
        *each = of->units;
        return dense;
    }
    layout l = *of;
    *each = 1;
    OK(MPI_Type_dup(of->type, &l.type));
    return l;
}

void layout_free(layout *l) {
    OK(MPI_Type_free(&l->type));
}

int layout_fit(const layout *l, int count, int most) {
    MPI_Count span = l->extent > l->true_extent ? l->extent : l->true_extent;
    while (count * span > most)
        count /= 2;
    return count;
}

int count_draw(void) {
    static const unsigned few[] = {0, 1, 1, 2, 3, 7, 20, 60};
    unsigned how = draw(12);
    if (how < 8)
        return (int)few[how];
    return (int)(how < 10 ? draw(300) : how == 10 ? draw(3000) : draw(8) ? draw(2000) : 20000);
}

block block_make(const layout *l, MPI_Count count, unsigned salt) {
    MPI_Count span = count > 0 ? l->true_extent + (count - 1) * l->extent : 0;
    block b = {.bytes = (size_t)span + 2 * MARGIN};
    b.room = malloc(b.bytes);
    CHECK(b.room);
    unsigned next = hashed(~0u, (unsigned)me, salt, 1);
    for (size_t i = 0; i < b.bytes; i++) {
        next = next * 1664525u + 1013904223u;
        b.room[i] = (char)(next >> 24);
    }
    b.at = b.room + MARGIN - l->true_lb;
    return b;
}

void block_end(block *b, const char *what) {
    note_bytes(what, b->room, b->bytes);
    free(b->room);
}

argument argument_make(const block *b, const layout *l, int count, bool bottom) {
    argument a = {b->at, count, MPI_DATATYPE_NULL};
    if (bottom) {
        MPI_Aint address;
        OK(MPI_Get_address(b->at, &address));
        OK(MPI_Type_create_hindexed(1, &count, &address, l->type, &a.type));
        a.at = MPI_BOTTOM;
        a.count = 1;
    } else {
        OK(MPI_Type_dup(l->type, &a.type));
    }
    OK(MPI_Type_commit(&a.type));
    return a;
}

void argument_free(argument *a) {
    OK(MPI_Type_free(&a->type));
}
