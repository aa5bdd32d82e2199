// SPDX-License-Identifier: BSD-3-Clause
//
// For test programs of several ranks: a failed check says what, and on which rank, and ends the job.
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) check((what) != 0, #what, __FILE__, __LINE__)
#define OK(call) check((call) == MPI_SUCCESS, #call, __FILE__, __LINE__)
// A call that must fail, with this class; the error handler must be MPI_ERRORS_RETURN.
#define FAILS(call, class_)                                                                        \
    check(class_of(call) == (class_), #call " fails with " #class_, __FILE__, __LINE__)

static inline void check(int ok, const char *what, const char *file, int line) {
    int rank = -1;
    if (ok)
        return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, rank, what);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline int class_of(int code) {
    int class_ = -1;
    MPI_Error_class(code, &class_);
    return class_;
}

static inline int rank_in(MPI_Comm comm) {
    int rank = -1;
    OK(MPI_Comm_rank(comm, &rank));
    return rank;
}

static inline int size_of(MPI_Comm comm) {
    int size = -1;
    OK(MPI_Comm_size(comm, &size));
    return size;
}

// ring sends each rank's number to the next, with this tag, and checks what comes from the one before.
static inline void ring(MPI_Comm comm, int tag) {
    int rank = rank_in(comm), size = size_of(comm), got = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT, MPI_ANY_SOURCE,
                    tag, comm, &status));
    CHECK(got == (rank + size - 1) % size);
    CHECK(status.MPI_SOURCE == got);
}

// cross is the same between the groups of an intercommunicator, for as many ranks as both have.
static inline void cross(MPI_Comm inter, int tag) {
    int rank = rank_in(inter), others = -1, got = -1;
    OK(MPI_Comm_remote_size(inter, &others));
    if (rank >= others)
        return;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, rank, tag, &got, 1, MPI_INT, rank, tag, inter,
                    MPI_STATUS_IGNORE));
    CHECK(got == rank);
}

static inline int compared(MPI_Comm a, MPI_Comm b) {
    int result = -1;
    OK(MPI_Comm_compare(a, b, &result));
    return result;
}

#endif
