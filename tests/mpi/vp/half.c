// SPDX-License-Identifier: BSD-3-Clause
//
// The ranks of the first process never call MPI, and end at once; the others go on among themselves, in a session.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    MPI_Session session;
    MPI_Group all, few;
    MPI_Comm comm;
    int rank, ranks, sum;
    const char *process = getenv("PMI_RANK");
    if (process && strcmp(process, "0") == 0)
        return 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Group_rank(all, &rank);
    MPI_Group_size(all, &ranks);
    MPI_Group_range_incl(all, 1, (int[][3]){{ranks / 2, ranks - 1, 1}}, &few);
    MPI_Comm_create_from_group(few, "half", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    for (int i = 0; i < 10; i++) {
        usleep(20000);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    MPI_Comm_size(comm, &ranks);
    printf("rank %d of %d: %d\n", rank, ranks, sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&few);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
    return 0;
}
