// SPDX-License-Identifier: BSD-3-Clause
//
// Collective calls whose ranks do not agree, under WHERRY_MPI_CHECK=1: compared CASE [fatal].  Each rank prints the class of its error, and after it the
// ranks still work together; or the error ends the job.  Cases "right", "ahead" and "files" have none.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char data[4096], more[4096];
static MPI_Comm comm;  // what the calls are on
static MPI_Comm made;  // what they make
static MPI_Win win;
static MPI_File file;
static char name[64];  // of a file

static int wait_for(int rc, MPI_Request *request) {
    return rc == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}

// ---- Blocking collectives.

static int kind(void) {
    return rank == 1 ? MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, 0, comm)
                     : MPI_Bcast(data, 1, MPI_INT, 0, comm);
}

static int root(void) {
    return MPI_Bcast(data, 1, MPI_INT, rank == 2, comm);
}

static int op(void) {
    return MPI_Allreduce(data, more, 1, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, comm);
}

static int bytes(void) {
    return MPI_Allgather(data, 1 + (rank == 2), MPI_INT, more, 1 + (rank == 2), MPI_INT, comm);
}

static int types(void) {
    return MPI_Bcast(data, 1, rank == 1 ? MPI_FLOAT : MPI_INT, 0, comm);
}

// Rank 0 is the odd one here.
static int first(void) {
    return rank ? MPI_Barrier(comm) : MPI_Bcast(data, 1, MPI_INT, 0, comm);
}

// ---- A barrier at all ranks but one.

static int duplicate(void) {
    return rank == 1 ? MPI_Comm_dup(comm, &made) : MPI_Barrier(comm);
}

static int split(void) {
    return rank == 1 ? MPI_Comm_split(comm, 0, 0, &made) : MPI_Barrier(comm);
}

static int split_type(void) {
    return rank == 1 ? MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made)
                     : MPI_Barrier(comm);
}

static int create(void) {
    MPI_Group group;
    MPI_Comm_group(comm, &group);
    int rc = rank == 1 ? MPI_Comm_create(comm, group, &made) : MPI_Barrier(comm);
    MPI_Group_free(&group);
    return rc;
}

static int disconnect(void) {
    MPI_Comm gone = comm;
    return rank == 1 ? MPI_Comm_disconnect(&gone) : MPI_Barrier(comm);
}

// It waits for nobody, so the others alone hear of it.
static int free_one(int who) {
    MPI_Comm gone = comm;
    return rank == who ? MPI_Comm_free(&gone) : MPI_Barrier(comm);
}

static int freed(void) {
    return free_one(1);
}

static int freed_first(void) {
    return free_one(0);
}

static int window(void) {
    return rank == 1 ? MPI_Win_create(data, 8, 1, MPI_INFO_NULL, comm, &win) : MPI_Barrier(comm);
}

static int open_one(void) {
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    return rank == 1 ? MPI_File_open(comm, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file)
                     : MPI_Barrier(comm);
}

static int graph(void) {
    return rank == 1 ? MPI_Dist_graph_create_adjacent(comm, 0, NULL, MPI_UNWEIGHTED, 0, NULL,
                                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made)
                     : MPI_Barrier(comm);
}

static int edges(void) {
    int index[] = {1, 2}, to[] = {1, rank == 1};
    return MPI_Graph_create(comm, 2, index, to, 0, &made);
}

static int ibarrier(void) {
    MPI_Request request;
    return rank == 1 ? wait_for(MPI_Ibarrier(comm, &request), &request) : MPI_Barrier(comm);
}

static int idup(void) {
    MPI_Request request;
    return rank == 1 ? wait_for(MPI_Comm_idup(comm, &made, &request), &request) : MPI_Barrier(comm);
}

static int init(void) {
    MPI_Request request;
    return rank == 1 ? MPI_Barrier_init(comm, MPI_INFO_NULL, &request) : MPI_Barrier(comm);
}

static int split_dup(void) {
    return rank == 1 ? MPI_Comm_split(comm, 0, 0, &made) : MPI_Comm_dup(comm, &made);
}

// ---- Nonblocking ones.

static int ikind(void) {
    MPI_Request request;
    int rc = rank == 1 ? MPI_Iallreduce(data, more, 1, MPI_INT, MPI_SUM, comm, &request)
                       : MPI_Ibarrier(comm, &request);
    return wait_for(rc, &request);
}

static int iroot(void) {
    MPI_Request request;
    return wait_for(MPI_Ibcast(data, 1, MPI_INT, rank == 2, comm, &request), &request);
}

static int idup_kind(void) {
    MPI_Request request;
    return wait_for(rank ? MPI_Ibarrier(comm, &request) : MPI_Comm_idup(comm, &made, &request),
                    &request);
}

// The second of two: the first is none.
static int second(void) {
    MPI_Request request[2];
    MPI_Ibarrier(comm, &request[0]);
    if (rank == 1)
        MPI_Ibcast_c(data, 1, MPI_INT, 0, comm, &request[1]);
    else
        MPI_Ibarrier(comm, &request[1]);
    int rc = MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    return MPI_Wait(&request[0], MPI_STATUS_IGNORE) == MPI_SUCCESS ? rc : MPI_ERR_INTERN;
}

static int init_root(void) {
    MPI_Request request;
    return MPI_Bcast_init(data, 1, MPI_INT, rank == 2, comm, MPI_INFO_NULL, &request);
}

// ---- Arguments of what makes communicators.

static int dims(void) {
    return MPI_Cart_create(comm, 1, (int[]){2 + (rank == 2)}, (int[]){0}, 0, &made);
}

static int ndims(void) {
    return MPI_Cart_create(comm, 1 + (rank == 2), (int[]){2, 1}, (int[]){0, 0}, 0, &made);
}

static int leader(void) {
    return MPI_Intercomm_create(comm, rank == 2, MPI_COMM_NULL, 0, 0, &made);
}

// ---- Windows, files, two groups.

static int fence(void) {
    MPI_Win_create(data, 8, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    return rank == 1 ? MPI_Win_fence(0, win) : MPI_Win_free(&win);
}

static int open_file(void) {
    if (rank == 0)
        fclose(fopen(name, "w"));
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                         &file);
}

static int file_kind(void) {
    open_file();
    return rank == 1 ? MPI_File_read_all(file, data, 1, MPI_INT, MPI_STATUS_IGNORE)
                     : MPI_File_write_all(file, data, 1, MPI_INT, MPI_STATUS_IGNORE);
}

static int file_size(void) {
    open_file();
    return MPI_File_set_size(file, 100 + rank / 3);
}

static int ifile(void) {
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    open_file();
    return wait_for(rank == 1 ? MPI_File_iread_all(file, data, 1, MPI_INT, &request)
                              : MPI_File_iwrite_all(file, data, 1, MPI_INT, &request),
                    &request);
}

static MPI_Comm two_groups(void) {
    static MPI_Comm half, both;  // which nobody frees
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    return both;
}

static int inter(void) {
    MPI_Comm both = two_groups();
    return rank == 3 ? MPI_Comm_dup(both, &made) : MPI_Barrier(both);
}

static int iinter(void) {
    MPI_Comm both = two_groups();
    MPI_Request request;
    return wait_for(rank == 2 ? MPI_Comm_idup(both, &made, &request) : MPI_Ibarrier(both, &request),
                    &request);
}

static int end(void) {
    if (rank != 1)
        return MPI_Barrier(MPI_COMM_WORLD);
    int rc = MPI_Finalize();
    return rc;
}

// Rank 1 frees its communicator when the others have long done so, or never.
static int all_free(void) {
    static MPI_Comm dup;  // rank 1 keeps the last one
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(comm, &dup);
        if (i == 0 && rank == 1)
            MPI_Recv(data, 1, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
        if (i == 0 || rank != 1)
            MPI_Comm_free(&dup);
        if (i == 0 && rank == 0 && size > 1)
            MPI_Send(data, 1, MPI_INT, 1, 5, comm);
    }
    return MPI_SUCCESS;
}

// A rank that does not come: nobody can tell what it would have called.
static int absent(void) {
    return rank == 1 ? MPI_Recv(data, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE)
                     : MPI_Barrier(comm);
}

// ---- No mistakes.

// Other ways to say the same are none.
static int right(void) {
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    int rc = MPI_Bcast(data, rank ? 2 : 1, rank ? MPI_INT : two, 0, comm);
    MPI_Type_free(&two);
    if (rc == MPI_SUCCESS)
        rc = MPI_Gather(rank ? data : MPI_IN_PLACE, 3, MPI_INT, more, 3, MPI_INT, 0, comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Scatter(data, 3, MPI_INT, rank ? more : MPI_IN_PLACE, 3, MPI_INT, 0, comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(MPI_IN_PLACE, more, 5, MPI_DOUBLE, MPI_SUM, comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Alltoall(data, 1, MPI_INT, more, 1, MPI_INT, comm);
    if (rc == MPI_SUCCESS)
        rc = rank ? MPI_Barrier(comm) : PMPI_Barrier(comm);
    if (rc == MPI_SUCCESS)
        rc = rank ? MPI_Bcast(data, 3, MPI_INT, 0, comm) : MPI_Bcast_c(data, 3, MPI_INT, 0, comm);
    return rc;
}

// A rank begins nonblocking calls that others come to only when they have heard of it.
static int ahead(void) {
    MPI_Request request[4];
    int sum = 0, token = 0, before = (rank + size - 1) % size, next = (rank + 1) % size;
    data[0] = 1;
    for (int round = 0; round < 2; round++) {
        if (rank != round % size)  // the first one is another one each time
            MPI_Recv(&token, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ibarrier(comm, &request[0]);
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request[1]);
        MPI_Comm_idup(comm, &made, &request[2]);
        MPI_Ibcast(data, 1, MPI_INT, 0, comm, &request[3]);
        if (next != round % size)
            MPI_Send(&token, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
        int rc = MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS)
            return rc;
        if (sum != size * (size - 1) / 2)
            return MPI_ERR_INTERN;
        MPI_Comm_free(&made);
    }
    return MPI_SUCCESS;
}

static int files(void) {
    MPI_Request request;
    int token = 0, rc = open_file();
    if (rc == MPI_SUCCESS && rank)
        rc = MPI_Recv(&token, 1, MPI_INT, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = MPI_File_iwrite_at_all(file, rank, data, 1, MPI_BYTE, &request);
    if (rc == MPI_SUCCESS && rank + 1 < size)
        rc = MPI_Send(&token, 1, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
    rc = wait_for(rc, &request);
    if (rc == MPI_SUCCESS)
        rc = MPI_File_set_size(file, 64);
    return rc == MPI_SUCCESS ? MPI_File_close(&file) : rc;
}

// A disk that is full for one rank keeps no other waiting.
static int full(void) {
    MPI_Request request;
    int rc = MPI_File_open(comm, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = wait_for(MPI_File_iwrite_at_all(file, 0, data, rank == 1, MPI_BYTE, &request), &request);
    if ((rc == MPI_SUCCESS) == (rank == 1))
        return MPI_ERR_OTHER;
    return MPI_File_close(&file);
}

#define CASE(name)                                                                                 \
    { #name, name }
static const struct {
    const char *name;
    int (*call)(void);
} cases[] = {
    CASE(kind),       CASE(root),      CASE(op),           CASE(bytes),     CASE(types),
    CASE(first),      CASE(split_dup), {"dup", duplicate}, CASE(split),     CASE(create),
    CASE(split_type), CASE(window),    CASE(open_one),     CASE(graph),     CASE(idup),
    CASE(disconnect), CASE(ibarrier),  CASE(init),         CASE(ikind),     CASE(iroot),
    CASE(idup_kind),  CASE(second),    CASE(dims),         CASE(init_root), CASE(ndims),
    CASE(leader),     CASE(fence),     CASE(ifile),        CASE(file_kind), CASE(inter),
    CASE(iinter),     CASE(file_size), CASE(right),        CASE(absent),    CASE(ahead),
    CASE(files),      CASE(edges),     CASE(full),         CASE(freed),     CASE(freed_first),
    CASE(all_free),
};

int main(int argc, char **argv) {
    int rc = MPI_ERR_OTHER, class, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    snprintf(name, sizeof(name), "/tmp/mpi-compared-%s", getenv("COMPARED_JOB"));
    if (argc == 2) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    }
    if (argc > 1 && strcmp(argv[1], "end") == 0)
        return end();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && strcmp(cases[i].name, argv[1]) == 0)
            rc = cases[i].call();
    MPI_Error_class(rc, &class);
    printf("%d: %d\n", rank, class);
    int one = 1;
    if (MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS ||
        sum != size)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (rank == 0)
        unlink(name);
    MPI_Finalize();
    return 0;
}
