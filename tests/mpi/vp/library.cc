// SPDX-License-Identifier: BSD-3-Clause
//
// A library of the program's has what its constructors have made, in each process, whatever ranks do.  Compiled twice: with LIBRARY it is that.
#include <map>
#include <string>

const std::map<std::string, int> &names();
extern int constructed;  // ranks of this process whose programs' constructors have been called

#ifdef LIBRARY
static const std::map<std::string, int> made{{"one", 1}, {"two", 2}};
static int begun;
int constructed;
__attribute__((constructor)) static void begin() {
    begun++;
}

const std::map<std::string, int> &names() {
    static const std::map<std::string, int> none;
    return begun == 1 ? made : none;
}
#else
#include <mpi.h>
#include <wherry_mpix.h>

#include <cstdio>

__attribute__((constructor)) static void construct() {
    constructed++;
}

int main(int argc, char **argv) {
    int rank, ranks, process, processes;
    bool good = names().size() == 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPIX_Process(&process, &processes);
    MPI_Barrier(MPI_COMM_WORLD);
    good = good && (processes > 1 || constructed == ranks);
    for (int i = 0; i < 4; i++)
        good = MPIX_Migrate((process + i) % processes) == MPI_SUCCESS && names().at("two") == 2 && good;
    std::printf("rank %d is %s\n", rank, good ? "good" : "bad");
    MPI_Finalize();
    return 0;
}
#endif
