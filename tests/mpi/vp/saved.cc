// SPDX-License-Identifier: BSD-3-Clause
//
// A job that is written into a folder and starts again from there.  saved STEPS FOLDER [AT]
//
// Each step is a sum that depends on all before it, on all ranks; a message and a receive are under way between steps.  The job saves itself every
// three steps.  At step AT, unless it has been started again, rank 1 is killed.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>
#include <wherry_mpix.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

static std::map<std::string, std::vector<long>> kept;
static thread_local long turns;

static void check(bool good, const char *what) {
    if (good)
        return;
    std::fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, starts = 0, steps = std::atoi(argv[1]), at = argc > 3 ? std::atoi(argv[3]) : -1;
    MPI_Comm ring;
    MPI_Datatype pair;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &ring);
    MPI_Comm_rank(ring, &rank);
    MPI_Type_vector(2, 1, 2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    std::vector<long> &values = kept["values"];
    values.assign(1000, rank + 1);
    for (int step = 0; step < steps; step++) {
        long out[3] = {values[0] + step, -1, values[999]}, in[3] = {0, 7, 0}, got = 0;
        MPI_Request requests[3];
        MPI_Irecv(in, 1, pair, (rank + size - 1) % size, 1, ring, &requests[0]);
        MPI_Isend(out, 1, pair, (rank + 1) % size, 1, ring, &requests[1]);
        MPI_Isend(&out[2], 1, MPI_LONG, (rank + 1) % size, 2, ring, &requests[2]);  // received late
        if (step % 3 == 2) {
            int restarted;
            check(MPIX_Checkpoint(argv[2], &restarted) == MPI_SUCCESS, "it is saved");
            starts += restarted;
            check(starts <= 1 && (!restarted || step / 3 * 3 + 2 == step), "it starts again where it was");
        }
        if (step == at && !starts && rank == 1)
            kill(getpid(), SIGKILL);
        MPI_Recv(&got, 1, MPI_LONG, (rank + size - 1) % size, 2, ring, MPI_STATUS_IGNORE);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        check(in[2] == got && in[1] == 7, "the messages are those of the other rank");
        for (long &v : values)
            v = (v * 31 + in[0] + got) % 1000003;
        turns++;
        MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_LONG, MPI_SUM, ring);
    }
    check(turns == steps, "each step is counted once");
    if (rank == 0)
        std::cout << "result " << values[500] << ", starts " << starts << "\n";
    MPI_Type_free(&pair);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
