// SPDX-License-Identifier: BSD-3-Clause
//
// A rank that ends before its time, while the others are inside a call: fault CALL FAULT VICTIM [cold] [return] [fatal].
//
// The faults are kill (SIGKILL), abort (SIGABRT), exit (without MPI_Finalize, status 7) and MPI_Abort (error code 9).  Before, all ranks have
// met in collectives, so that they are connected and share memory, unless it is `cold`.  With `return` errors are returned: each rank that
// is left prints how its call has ended, and leaves by MPI_Finalize; those of windows are, unless they are `fatal`.
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 20, INSIDE_US = 200000, MEETINGS = 10 };

static int rank, size, victim;
static bool fatal;
static char *many, *more;  // LARGE for each rank
static MPI_Win win;

// The first rank that is left.
static int other(void) {
    return victim == 0 ? 1 : 0;
}

static int wait_for(int rc, MPI_Request *request) {
    return rc == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}

// ---- Point to point, with the victim.

static int do_recv(void) {
    return MPI_Recv(many, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int do_recv_any(void) {
    return MPI_Recv(many, 1, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int do_irecv(void) {
    MPI_Request request;
    return wait_for(MPI_Irecv(many, LARGE, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request),
                    &request);
}

// Until it is noticed: bytes that were copied are none of the sender's affair any more.
static int do_send(void) {
    int rc;
    do {
        rc = MPI_Send(many, 8, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
        usleep(10);
    } while (rc == MPI_SUCCESS);
    return rc;
}

static int do_send_large(void) {
    return MPI_Send(many, LARGE, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
}

static int do_isend_large(void) {
    MPI_Request request;
    return wait_for(MPI_Isend(many, LARGE, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request),
                    &request);
}

static int do_ssend(void) {
    return MPI_Ssend(many, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
}

static int do_ssend_large(void) {
    return MPI_Ssend(many, LARGE, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
}

static int do_sendrecv(void) {
    return MPI_Sendrecv(many, 1, MPI_BYTE, victim, 1, more, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
}

static int do_persistent(void) {
    MPI_Request request;
    int rc = MPI_Recv_init(many, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = wait_for(MPI_Start(&request), &request);
    MPI_Request_free(&request);
    return rc;
}

// Until it is noticed, and once more then, when it cannot be started.
static int do_persistent_send(void) {
    MPI_Request request;
    int there, rc = MPI_Send_init(many, 8, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
    while (rc == MPI_SUCCESS) {
        // Virtual ranks of its process have their turn.
        MPI_Iprobe(other(), 99, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        rc = wait_for(MPI_Start(&request), &request);
    }
    rc = MPI_Start(&request);
    MPI_Request_free(&request);
    return rc;
}

static int do_waitany(void) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int rc = MPI_Irecv(many, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &requests[1]), which;
    return rc == MPI_SUCCESS ? MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE) : rc;
}

static int do_test(void) {
    MPI_Request request;
    int done = 0, rc = MPI_Irecv(many, 1, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
    while (rc == MPI_SUCCESS && !done)
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return rc;
}

static int do_probe(void) {
    return MPI_Probe(victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int do_probe_any(void) {
    return MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int do_iprobe(void) {
    int there = 0, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && !there)
        rc = MPI_Iprobe(victim, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return rc;
}

static int do_mprobe(void) {
    MPI_Message message;
    return MPI_Mprobe(victim, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
}

// ---- Collectives.

static int do_barrier(void) {
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int do_bcast(void) {
    return MPI_Bcast(many, 8, MPI_BYTE, victim, MPI_COMM_WORLD);
}

static int do_bcast_large(void) {
    return MPI_Bcast(many, LARGE, MPI_BYTE, victim, MPI_COMM_WORLD);
}

static int do_reduce(void) {
    return MPI_Reduce(many, more, 8, MPI_INT, MPI_SUM, other(), MPI_COMM_WORLD);
}

static int do_allreduce(void) {
    return MPI_Allreduce(many, more, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int do_allreduce_large(void) {
    return MPI_Allreduce(many, more, LARGE / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int do_allgather(void) {
    return MPI_Allgather(many, 8, MPI_BYTE, more, 8, MPI_BYTE, MPI_COMM_WORLD);
}

static int do_alltoall(void) {
    return MPI_Alltoall(many, 8, MPI_BYTE, more, 8, MPI_BYTE, MPI_COMM_WORLD);
}

static int do_alltoall_large(void) {
    return MPI_Alltoall(many, LARGE, MPI_BYTE, more, LARGE, MPI_BYTE, MPI_COMM_WORLD);
}

static int do_gather(void) {
    return MPI_Gather(many, 8, MPI_BYTE, more, 8, MPI_BYTE, other(), MPI_COMM_WORLD);
}

static int do_scatter(void) {
    return MPI_Scatter(many, 8, MPI_BYTE, more, 8, MPI_BYTE, victim, MPI_COMM_WORLD);
}

static int do_scan(void) {
    return MPI_Scan(many, more, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int do_ibarrier(void) {
    MPI_Request request;
    return wait_for(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}

static int do_iallreduce(void) {
    MPI_Request request;
    return wait_for(MPI_Iallreduce(many, more, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request),
                    &request);
}

static int do_split(void) {
    MPI_Comm comm;
    return MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
}

static int do_dup(void) {
    MPI_Comm comm;
    return MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}

// ---- Windows.

static void make_window(void) {
    MPI_Win_create(more, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (!fatal)
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int do_window(void) {
    return MPI_Win_create(more, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}

static int do_fence(void) {
    return MPI_Win_fence(0, win);
}

static int do_lock(void) {
    return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, victim, 0, win);
}

static int lock_victim(void) {
    return MPI_Win_lock(MPI_LOCK_SHARED, victim, MPI_MODE_NOCHECK, win);
}

static int do_flush(void) {
    int rc = lock_victim();
    if (rc == MPI_SUCCESS)
        rc = MPI_Get(many, LARGE, MPI_BYTE, victim, 0, LARGE, MPI_BYTE, win);
    return rc == MPI_SUCCESS ? MPI_Win_flush(victim, win) : rc;
}

// Until it is noticed.
static int do_put(void) {
    int rc = lock_victim();
    while (rc == MPI_SUCCESS) {
        rc = MPI_Put(many, 8, MPI_BYTE, victim, 0, 8, MPI_BYTE, win);
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_flush(victim, win);
        MPI_Win_sync(win);  // virtual ranks of its process have their turn
    }
    return rc;
}

static int do_put_large(void) {
    int rc = lock_victim();
    if (rc == MPI_SUCCESS)
        rc = MPI_Put(many, LARGE, MPI_BYTE, victim, 0, LARGE, MPI_BYTE, win);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(victim, win) : rc;
}

static int do_accumulate(void) {
    int rc = lock_victim();
    if (rc == MPI_SUCCESS)
        rc = MPI_Accumulate(many, 8, MPI_BYTE, victim, 0, 8, MPI_BYTE, MPI_BXOR, win);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(victim, win) : rc;
}

static int do_rput(void) {
    MPI_Request request;
    int rc = lock_victim();
    if (rc != MPI_SUCCESS)
        return rc;
    return wait_for(MPI_Rput(many, LARGE, MPI_BYTE, victim, 0, LARGE, MPI_BYTE, win, &request),
                    &request);
}

static int do_rget(void) {
    MPI_Request request;
    int rc = lock_victim();
    if (rc != MPI_SUCCESS)
        return rc;
    return wait_for(MPI_Rget(many, 8, MPI_BYTE, victim, 0, 8, MPI_BYTE, win, &request), &request);
}

// The victim holds the lock of another rank, which has to be free again.
static void hold_lock(void) {
    make_window();
    if (rank == victim)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other(), 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int do_lock_held(void) {
    int rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other(), 0, win);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(other(), win) : rc;
}

static MPI_Group of_victim(void) {
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &victim, &one);
    MPI_Group_free(&all);
    return one;
}

static int do_start(void) {
    MPI_Group group = of_victim();
    int rc = MPI_Win_start(group, 0, win);
    MPI_Group_free(&group);
    return rc;
}

static int do_post(void) {
    MPI_Group group = of_victim();
    int rc = MPI_Win_post(group, 0, win);
    MPI_Group_free(&group);
    return rc == MPI_SUCCESS ? MPI_Win_wait(win) : rc;
}

// ---- All of them.

static int do_finalize(void) {
    return MPI_Finalize();
}

static const struct {
    const char *name;
    int (*inside)(void);
    void (*before)(void);
} calls[] = {
    {"recv", do_recv, NULL},
    {"recv-any", do_recv_any, NULL},
    {"irecv", do_irecv, NULL},
    {"send", do_send, NULL},
    {"send-large", do_send_large, NULL},
    {"isend-large", do_isend_large, NULL},
    {"ssend", do_ssend, NULL},
    {"ssend-large", do_ssend_large, NULL},
    {"sendrecv", do_sendrecv, NULL},
    {"persistent", do_persistent, NULL},
    {"persistent-send", do_persistent_send, NULL},
    {"waitany", do_waitany, NULL},
    {"test", do_test, NULL},
    {"probe", do_probe, NULL},
    {"probe-any", do_probe_any, NULL},
    {"iprobe", do_iprobe, NULL},
    {"mprobe", do_mprobe, NULL},
    {"barrier", do_barrier, NULL},
    {"bcast", do_bcast, NULL},
    {"bcast-large", do_bcast_large, NULL},
    {"reduce", do_reduce, NULL},
    {"allreduce", do_allreduce, NULL},
    {"allreduce-large", do_allreduce_large, NULL},
    {"allgather", do_allgather, NULL},
    {"alltoall", do_alltoall, NULL},
    {"alltoall-large", do_alltoall_large, NULL},
    {"gather", do_gather, NULL},
    {"scatter", do_scatter, NULL},
    {"scan", do_scan, NULL},
    {"ibarrier", do_ibarrier, NULL},
    {"iallreduce", do_iallreduce, NULL},
    {"split", do_split, NULL},
    {"dup", do_dup, NULL},
    {"window", do_window, NULL},
    {"fence", do_fence, make_window},
    {"lock", do_lock, make_window},
    {"flush", do_flush, make_window},
    {"put", do_put, make_window},
    {"put-large", do_put_large, make_window},
    {"accumulate", do_accumulate, make_window},
    {"rput", do_rput, make_window},
    {"rget", do_rget, make_window},
    {"lock-held", do_lock_held, hold_lock},
    {"start", do_start, make_window},
    {"post", do_post, make_window},
    {"finalize", do_finalize, NULL},
};

static void end_badly(const char *fault) {
    usleep(INSIDE_US);
    if (!strcmp(fault, "kill"))
        raise(SIGKILL);
    if (!strcmp(fault, "abort"))
        abort();
    if (!strcmp(fault, "exit"))
        exit(7);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void tell(const char *call, int rc) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_SUCCESS, length;
    MPI_Error_class(rc, &class);
    MPI_Error_string(rc, text, &length);
    printf("rank %d: %s: %s\n", rank, call, class == MPI_SUCCESS ? "success" : text);
    fflush(stdout);
}

int main(int argc, char **argv) {
    bool cold = false, returned = false;
    size_t call = 0;
    if (argc < 4)
        return 2;
    for (int i = 4; i < argc; i++) {
        cold |= !strcmp(argv[i], "cold");
        returned |= !strcmp(argv[i], "return");
        fatal |= !strcmp(argv[i], "fatal");
    }
    while (call < sizeof(calls) / sizeof(*calls) && strcmp(calls[call].name, argv[1]))
        call++;
    if (call == sizeof(calls) / sizeof(*calls))
        return 2;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    victim = atoi(argv[3]);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    many = calloc((size_t)size, LARGE);
    more = calloc((size_t)size, LARGE);
    if (!many || !more)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (returned)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < MEETINGS && !cold; i++)
        MPI_Alltoall(many, 8, MPI_BYTE, more, 8, MPI_BYTE, MPI_COMM_WORLD);
    if (calls[call].before)
        calls[call].before();
    if (rank == victim)
        end_badly(argv[2]);
    int rc = calls[call].inside();
    if (strcmp(argv[1], "finalize"))
        MPI_Finalize();
    tell(argv[1], rc);
    free(many);
    free(more);
    return 0;
}
