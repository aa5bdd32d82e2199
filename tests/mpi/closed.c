// SPDX-License-Identifier: BSD-3-Clause
//
// A rank closes all descriptors, as daemons do, before it is connected to others.  closed RANK HOW, -1: all of them; HOW: the job's error handler
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 3, END = 256 };

static void must_be_of_a_loss(int rc) {
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        MPI_Error_class(rc, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_PROC_ABORTED)
        printf("error class %d\n", class);
}

int main(int argc, char **argv) {
    int rank, out = 1, in = 0, who = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[2], "return") == 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int fd = FIRST; fd < END && (who == rank || who < 0); fd++)
        close(fd);
    must_be_of_a_loss(MPI_Barrier(MPI_COMM_WORLD));
    must_be_of_a_loss(MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI_Finalize();
    puts("the end was reached");
    return 0;
}
