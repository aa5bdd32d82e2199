// SPDX-License-Identifier: BSD-3-Clause
//
// A rank whose process is stopped, as by a debugger or Ctrl-Z, is not taken for dead: the calls of the others last until it goes on, and end well.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { STOPPED_US = 100000, LARGE = 1 << 20, TAG = 3 };

static int rank, ranks, out[LARGE], in[LARGE];

// stop has the process stopped until a child of its lets it go on.
static void stop(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child)
        while (getppid() != 1) {
            usleep(STOPPED_US);
            kill(getppid(), SIGCONT);
        }
    raise(SIGSTOP);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void around(int count) {
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < count; i++)
        out[i] = 1000 * rank + i;
    OK(MPI_Sendrecv(out, count, MPI_INT, next, TAG, in, count, MPI_INT, before, TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++)
        CHECK(in[i] == 1000 * before + i);
}

static void reduce(int count) {
    for (int i = 0; i < count; i++)
        out[i] = rank + i;
    OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        CHECK(in[i] == ranks * (ranks - 1) / 2 + ranks * i);
}

static void synchronous(int count) {
    MPI_Request request;
    OK(MPI_Issend(&rank, count, MPI_INT, (rank + 1) % ranks, TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(in, count, MPI_INT, (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD,
                MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == (rank + ranks - 1) % ranks);
}

static void window(int count) {
    MPI_Win win;
    int *memory;
    OK(MPI_Win_allocate(LARGE * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                        &win));
    for (int i = 0; i < count; i++)
        out[i] = 7 * rank + i;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, count, MPI_INT, (rank + 1) % ranks, 0, count, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < count; i++)
        CHECK(memory[i] == 7 * ((rank + ranks - 1) % ranks) + i);
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    static const struct {
        void (*call)(int count);
        int count;
    } calls[] = {{around, 1},     {around, LARGE},  {reduce, 1},
                 {reduce, LARGE}, {synchronous, 1}, {window, LARGE}};
    OK(MPI_Init(&argc, &argv));
    rank = rank_in(MPI_COMM_WORLD);
    ranks = size_of(MPI_COMM_WORLD);
    for (int stopped = 0; stopped < 2; stopped++)
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            if (rank == stopped)
                stop();
            calls[i].call(calls[i].count);
        }
    OK(MPI_Finalize());
    return 0;
}
