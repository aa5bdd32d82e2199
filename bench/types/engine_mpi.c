// SPDX-License-Identifier: BSD-3-Clause
//
// Any MPI as an engine of bench-types: compiled against its own mpi.h by run.py, loaded at run time.
//
// It starts as a singleton.  MPI handles are boxed, because they are integers in one MPI and pointers
// in another.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/types/engine.h"

static bench_type box(MPI_Datatype type) {
    MPI_Datatype *boxed = malloc(sizeof(*boxed));
    if (!boxed)
        abort();
    *boxed = type;
    return boxed;
}

static MPI_Datatype unbox(bench_type type) {
    return *(MPI_Datatype *)type;
}

static void must(int code) {
    if (code == MPI_SUCCESS)
        return;
    fprintf(stderr, "bench-types: " BENCH_ENGINE_NAME " failed with code %d\n", code);
    exit(1);
}

static int m_open(void) {
    int ready = 0;
    MPI_Initialized(&ready);
    return ready ? 0 : MPI_Init(NULL, NULL);
}

static bench_type m_basic(char c) {
    return box(c == 'd' ? MPI_DOUBLE : c == 'i' ? MPI_INT : MPI_CHAR);
}

static bench_type m_contig(int64_t n, bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_contiguous((int)n, unbox(old), &type));
    return box(type);
}

static bench_type m_vector(int64_t n, int64_t blocklength, int64_t stride, bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_vector((int)n, (int)blocklength, (int)stride, unbox(old), &type));
    return box(type);
}

static bench_type m_hvector(int64_t n, int64_t blocklength, int64_t stride, bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_create_hvector((int)n, (int)blocklength, (MPI_Aint)stride, unbox(old), &type));
    return box(type);
}

static bench_type m_indexed(int64_t n, const int *blocklengths, const int *displacements,
                            bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_indexed((int)n, blocklengths, displacements, unbox(old), &type));
    return box(type);
}

static bench_type m_indexed_block(int64_t n, int64_t blocklength, const int *displacements,
                                  bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_create_indexed_block((int)n, (int)blocklength, displacements, unbox(old), &type));
    return box(type);
}

static bench_type m_structure(int64_t n, const int *blocklengths, const int64_t *displacements,
                              const bench_type *types) {
    enum { MEMBERS = 8 };
    MPI_Datatype type, members[MEMBERS];
    MPI_Aint displs[MEMBERS];
    for (int64_t i = 0; i < n && i < MEMBERS; i++) {
        members[i] = unbox(types[i]);
        displs[i] = (MPI_Aint)displacements[i];
    }
    must(MPI_Type_create_struct((int)n, blocklengths, displs, members, &type));
    return box(type);
}

static bench_type m_subarray(int n, const int *sizes, const int *subsizes, const int *starts,
                             bench_type old) {
    MPI_Datatype type;
    must(MPI_Type_create_subarray(n, sizes, subsizes, starts, MPI_ORDER_C, unbox(old), &type));
    return box(type);
}

static bench_type m_resized(bench_type old, int64_t lb, int64_t extent) {
    MPI_Datatype type;
    must(MPI_Type_create_resized(unbox(old), (MPI_Aint)lb, (MPI_Aint)extent, &type));
    return box(type);
}

static void m_commit(bench_type type) {
    must(MPI_Type_commit((MPI_Datatype *)type));
}

static void m_pack(const void *buf, int64_t count, bench_type type, void *packed, size_t size) {
    int position = 0;
    must(MPI_Pack(buf, (int)count, unbox(type), packed, (int)size, &position, MPI_COMM_SELF));
}

static void m_unpack(const void *packed, size_t size, void *buf, int64_t count, bench_type type) {
    int position = 0;
    must(MPI_Unpack(packed, (int)size, &position, buf, (int)count, unbox(type), MPI_COMM_SELF));
}

const bench_engine bench_engine_plugin = {
    BENCH_ENGINE_NAME, m_open,      m_basic,    m_contig,  m_vector, m_hvector, m_indexed,
    m_indexed_block,   m_structure, m_subarray, m_resized, m_commit, m_pack,    m_unpack,
};
