// SPDX-License-Identifier: BSD-3-Clause
//
// A process without memory gets messages that it has not asked for.  What could not be kept fails the receive that wants it, with a sentence; what could
// be is right, and so is all that comes when there is memory again.  poor BYTES [fatal]
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 6, LAST = 9, UNASKED = 32 << 10, MOST = 1 << 20, PATIENCE_S = 20 };
static volatile bool poor;
static char out[MESSAGES][MOST], in[MOST];

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size) {
    return poor ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return poor ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return poor ? NULL : __libc_realloc(block, size);
}

int posix_memalign(void **block, size_t align, size_t size) {
    *block = poor ? NULL : __libc_memalign(align, size);
    return *block ? 0 : 12;  // ENOMEM
}

static void fail(const char *what, int n) {
    fprintf(stderr, "%s: %d\n", what, n);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void send_all(int bytes, int tag) {
    MPI_Request request[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        memset(out[i], i + 1, (size_t)bytes);
        MPI_Isend(out[i], bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Send(NULL, 0, MPI_BYTE, 1, LAST, MPI_COMM_WORLD);
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
}

// recv_all returns how many were lost.
static int recv_all(int bytes, int tag) {
    char text[MPI_MAX_ERROR_STRING];
    int lost = 0, class, length;
    for (int i = 0; i < MESSAGES; i++) {
        memset(in, 0, (size_t)bytes);
        int rc = MPI_Recv(in, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(rc, &class);
        MPI_Error_string(rc, text, &length);
        if (rc != MPI_SUCCESS && class != MPI_ERR_NO_MEM)
            fail(text, class);
        if (rc == MPI_SUCCESS && (in[0] != i + 1 || in[bytes - 1] != i + 1))
            fail("what has come is not the message", i);
        lost += rc != MPI_SUCCESS;
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return lost;
}

static void await_last(void) {
    double end = MPI_Wtime() + PATIENCE_S;
    for (int flag = 0; !flag;) {
        MPI_Iprobe(0, LAST, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        if (!flag && MPI_Wtime() > end)
            fail("the last message has not come", LAST);
    }
}

int main(int argc, char **argv) {
    int rank, bytes, before;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = atoi(argv[1]);
    before = bytes < UNASKED ? bytes : 8;  // what a send does not wait for
    if (argc == 2)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2 && rank == 0; i++)
        send_all(before, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 && rank == 1; i++)
        recv_all(before, 1);  // what MPI itself keeps for a message is there since,
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD);  // and so is the connection
    else if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_all(bytes, 2);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_all(bytes, 3);
    } else if (rank == 1) {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
        poor = true;
        await_last();
        poor = false;
        if (!recv_all(bytes, 2))
            fail("nothing was lost", bytes);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
        if (recv_all(bytes, 3))
            fail("something was lost though there is memory", bytes);
    }
    MPI_Finalize();
    return 0;
}
