// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of MPI: three for each collective, which say the same of it.
#include "mpi/bodies.h"

#include "mpi/coll/call.h"

#define PARAMETERS(...) __VA_ARGS__

// BODIES(name, parameters before the communicator, what it asks for)
#define BODIES(name, parameters, ...)                                                              \
    int mpi_##name(PARAMETERS parameters, whm_comm *comm) {                                        \
        return whm_coll_run(&(whm_coll){.comm = comm, __VA_ARGS__});                               \
    }                                                                                              \
    int mpi_i##name(PARAMETERS parameters, whm_comm *comm, whm_request **request) {                \
        return whm_coll_begin(&(whm_coll){.comm = comm, __VA_ARGS__}, request);                    \
    }                                                                                              \
    int mpi_##name##_init(PARAMETERS parameters, whm_comm *comm, whm_info *info,                   \
                          whm_request **request) {                                                 \
        (void)info; /* no hint changes anything */                                                 \
        return whm_coll_prepare(&(whm_coll){.comm = comm, __VA_ARGS__}, request);                  \
    }

int mpi_barrier(whm_comm *comm) {
    return whm_coll_run(&(whm_coll){.kind = WHM_BARRIER, .comm = comm});
}

int mpi_ibarrier(whm_comm *comm, whm_request **request) {
    return whm_coll_begin(&(whm_coll){.kind = WHM_BARRIER, .comm = comm}, request);
}

int mpi_barrier_init(whm_comm *comm, whm_info *info, whm_request **request) {
    (void)info;
    return whm_coll_prepare(&(whm_coll){.kind = WHM_BARRIER, .comm = comm}, request);
}

// What buffers are called in all parameter lists below.
#define BLOCK(buffer, n, t)                                                                        \
    { .buf = (void *)(uintptr_t)(buffer), .count = (n), .type = (t) }
#define BLOCKS(buffer, n, d, t)                                                                    \
    { .buf = (void *)(uintptr_t)(buffer), .counts = (n), .displs = (d), .type = (t) }
#define TYPED_BLOCKS(buffer, n, d, t)                                                              \
    { .buf = (void *)(uintptr_t)(buffer), .counts = (n), .displs = (d), .types = (t) }

BODIES(bcast, (void *buf, MPI_Count count, whm_type *type, int root), .kind = WHM_BCAST,
       .root = root, .recv = BLOCK(buf, count, type))

BODIES(gather,
       (const void *sbuf, MPI_Count scount, whm_type *stype, void *rbuf, MPI_Count rcount,
        whm_type *rtype, int root),
       .kind = WHM_GATHER, .root = root, .send = BLOCK(sbuf, scount, stype),
       .recv = BLOCK(rbuf, rcount, rtype))

BODIES(gatherv,
       (const void *sbuf, MPI_Count scount, whm_type *stype, void *rbuf, const MPI_Count *rcounts,
        const MPI_Aint *displs, whm_type *rtype, int root),
       .kind = WHM_GATHERV, .root = root, .send = BLOCK(sbuf, scount, stype),
       .recv = BLOCKS(rbuf, rcounts, displs, rtype))

BODIES(scatter,
       (const void *sbuf, MPI_Count scount, whm_type *stype, void *rbuf, MPI_Count rcount,
        whm_type *rtype, int root),
       .kind = WHM_SCATTER, .root = root, .send = BLOCK(sbuf, scount, stype),
       .recv = BLOCK(rbuf, rcount, rtype))

BODIES(scatterv,
       (const void *sbuf, const MPI_Count *scounts, const MPI_Aint *displs, whm_type *stype,
        void *rbuf, MPI_Count rcount, whm_type *rtype, int root),
       .kind = WHM_SCATTERV, .root = root, .send = BLOCKS(sbuf, scounts, displs, stype),
       .recv = BLOCK(rbuf, rcount, rtype))

#define ALLGATHER(name, which)                                                                     \
    BODIES(name,                                                                                   \
           (const void *sbuf, MPI_Count scount, whm_type *stype, void *rbuf, MPI_Count rcount,     \
            whm_type *rtype),                                                                      \
           .kind = which, .send = BLOCK(sbuf, scount, stype), .recv = BLOCK(rbuf, rcount, rtype))

#define ALLGATHERV(name, which)                                                                    \
    BODIES(name,                                                                                   \
           (const void *sbuf, MPI_Count scount, whm_type *stype, void *rbuf,                       \
            const MPI_Count *rcounts, const MPI_Aint *displs, whm_type *rtype),                    \
           .kind = which, .send = BLOCK(sbuf, scount, stype),                                      \
           .recv = BLOCKS(rbuf, rcounts, displs, rtype))

#define ALLTOALLV(name, which)                                                                     \
    BODIES(name,                                                                                   \
           (const void *sbuf, const MPI_Count *scounts, const MPI_Aint *sdispls, whm_type *stype,  \
            void *rbuf, const MPI_Count *rcounts, const MPI_Aint *rdispls, whm_type *rtype),       \
           .kind = which, .send = BLOCKS(sbuf, scounts, sdispls, stype),                           \
           .recv = BLOCKS(rbuf, rcounts, rdispls, rtype))

#define ALLTOALLW(name, which)                                                                     \
    BODIES(name,                                                                                   \
           (const void *sbuf, const MPI_Count *scounts, const MPI_Aint *sdispls,                   \
            whm_type *const *stypes, void *rbuf, const MPI_Count *rcounts,                         \
            const MPI_Aint *rdispls, whm_type *const *rtypes),                                     \
           .kind = which, .send = TYPED_BLOCKS(sbuf, scounts, sdispls, stypes),                    \
           .recv = TYPED_BLOCKS(rbuf, rcounts, rdispls, rtypes))

ALLGATHER(allgather, WHM_ALLGATHER)
ALLGATHERV(allgatherv, WHM_ALLGATHERV)
ALLGATHER(alltoall, WHM_ALLTOALL)
ALLTOALLV(alltoallv, WHM_ALLTOALLV)
ALLTOALLW(alltoallw, WHM_ALLTOALLW)
ALLGATHER(neighbor_allgather, WHM_NEIGHBOR_ALLGATHER)
ALLGATHERV(neighbor_allgatherv, WHM_NEIGHBOR_ALLGATHERV)
ALLGATHER(neighbor_alltoall, WHM_NEIGHBOR_ALLTOALL)
ALLTOALLV(neighbor_alltoallv, WHM_NEIGHBOR_ALLTOALLV)
ALLTOALLW(neighbor_alltoallw, WHM_NEIGHBOR_ALLTOALLW)

BODIES(reduce,
       (const void *sbuf, void *rbuf, MPI_Count count, whm_type *type, whm_op *op, int root),
       .kind = WHM_REDUCE, .root = root, .op = op, .send = BLOCK(sbuf, count, type),
       .recv = BLOCK(rbuf, count, type))

#define REDUCTION(name, which)                                                                     \
    BODIES(name, (const void *sbuf, void *rbuf, MPI_Count count, whm_type *type, whm_op *op),      \
           .kind = which, .op = op, .send = BLOCK(sbuf, count, type),                              \
           .recv = BLOCK(rbuf, count, type))

REDUCTION(allreduce, WHM_ALLREDUCE)
REDUCTION(reduce_scatter_block, WHM_REDUCE_SCATTER_BLOCK)
REDUCTION(scan, WHM_SCAN)
REDUCTION(exscan, WHM_EXSCAN)

BODIES(reduce_scatter,
       (const void *sbuf, void *rbuf, const MPI_Count *counts, whm_type *type, whm_op *op),
       .kind = WHM_REDUCE_SCATTER, .op = op, .send = {.buf = (void *)(uintptr_t)sbuf},
       .recv = BLOCKS(rbuf, counts, NULL, type))
