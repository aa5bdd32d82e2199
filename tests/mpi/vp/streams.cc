// SPDX-License-Identifier: BSD-3-Clause
//
// Standard streams: each rank prints lines in pieces, by C and C++, while others do, and stdout that a rank reopens is its own.
//
// streams WORD [FOLDER]
//   lines: many of them; some close stdout in the middle of all, others end without the end of a line
//   files: they print into files FOLDER/RANK
//   moved: as files, and ranks move to another process in the middle of a line first
//   abort: rank 0 calls MPI_Abort when others have begun a line or a file
//   bytes: rank 1 prints four, and nobody else anything
//   alone: std::cin reads what freopen has opened, and std::cout writes there, of a rank that is alone in its process
#include <mpi.h>
#include <wherry_mpix.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <string>

static int rank, ranks;

static void let_others_run(bool move) {
    int sum, process, processes;
    errno = 1000 + rank;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (errno != 1000 + rank)
        std::printf("(errno has changed) ");
    MPIX_Process(&process, &processes);
    if (move)
        MPIX_Migrate((process + 1) % processes);
}

static void print_line(bool move) {
    std::printf("rank ");
    let_others_run(move);
    std::cout << rank;
    let_others_run(move);
    std::fputs(" is", stdout);
    let_others_run(move);
    std::cout << " go";
    let_others_run(false);
    std::printf("od\n");
}

// print_into has a rank print into a file of its own, by C; C++'s streams are the process's.
static bool print_into(const std::string &path) {
    if (std::freopen("/no/such/file", "w", stdout) || !std::freopen("/dev/null", "w", stdout))
        return false;
    std::fclose(stdout);
    if (!std::freopen(path.c_str(), "w", stdout))
        return false;
    std::printf("rank ");
    let_others_run(false);
    std::printf("%d prints here\n", rank);
    let_others_run(false);
    return true;
}

static void end_of_lines() {
    for (int i = 0; i < 400; i++) {
        std::printf("rank %d, line %0200d ", rank, i);
        let_others_run(false);
        std::puts("and its end");
    }
    if (rank % 2 && std::fclose(stdout) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    let_others_run(false);
    if (rank % 2 == 0)
        std::printf("the end of %d", rank);
}

static void abort_among_lines(const std::string &folder) {
    if (rank == 1)
        std::printf("a line has begun");
    if (rank == 2 && std::freopen((folder + "/file").c_str(), "w", stdout))
        std::printf("a file has begun");
    let_others_run(false);
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    let_others_run(false);
}

static bool alone(const std::string &folder) {
    int read = 0;
    std::string path = folder + "/" + std::to_string(rank);
    if (!std::freopen(path.c_str(), "r", stdin) || !std::freopen((path + ".out").c_str(), "w", stdout))
        return false;
    std::cin >> read;
    std::cout << "read " << read << "\n";
    return true;
}

int main(int argc, char **argv) {
    std::string word = argc > 1 ? argv[1] : "", folder = argc > 2 ? argv[2] : "";
    bool good = true;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (word == "bytes") {
        if (rank == 1)
            std::fwrite("\1\2\0\3", 1, 4, stdout);
    } else if (word == "alone") {
        good = alone(folder);
    } else {
        print_line(word == "moved");
        if (word == "files" || word == "moved")
            good = print_into(folder + "/" + std::to_string(rank));
        if (word == "lines")
            end_of_lines();
        if (word == "abort")
            abort_among_lines(folder);
    }
    if (!good)
        MPI_Abort(MPI_COMM_WORLD, 1);
    let_others_run(false);
    MPI_Finalize();
    return 0;
}
