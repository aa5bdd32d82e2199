// SPDX-License-Identifier: BSD-3-Clause
//
// What each virtual rank has of its own: globals, statics, thread-local variables, objects with constructors, exceptions; and what happens when
// it ends by exit().
#include <mpi.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>

int global = 7;
static int statics;
static thread_local int local = 5;
static std::map<int, std::string> names;

struct Built {
    int made;
    Built() : made(++statics) { names[1] = "built"; }
};
static Built built;

// Of these the compiler makes one object for all of a process.
template <typename T> struct Shared {
    static T count;
};
template <typename T> T Shared<T>::count = 0;

inline int &inner() {
    static int count = 0;
    return count;
}

static int counted() {
    static int calls;
    return ++calls;
}

static void check(bool good, const char *what, int rank) {
    if (good)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// meet has all ranks run between two looks of each.
static void meet(int rank, int size) {
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &global, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static void look(int rank, int size) {
    check(built.made == 1 && statics == 1 && names.size() == 1, "constructors have run once for this rank", rank);
    check(counted() == 1, "a static in a function is its own", rank);
    check(++Shared<int>::count == 1 && ++inner() == 1, "statics of templates and inline functions are its own", rank);
    global = 100 + rank;
    local += rank;
    statics = rank;
    names[2] = std::to_string(rank);
    int mine = global;
    meet(rank, size);
    global = mine;
    meet(rank, size);
    check(global == 2, "a global has what this rank has received into it", rank);
    check(local == 5 + rank, "a thread-local variable is its own", rank);
    check(statics == rank && names[2] == std::to_string(rank), "statics are its own", rank);
    check(counted() == 2, "calls are counted for each rank", rank);
}

static void errors(int rank, int size) {
    try {
        meet(rank, size);
        throw std::runtime_error("of rank " + std::to_string(rank));
    } catch (const std::exception &) {
        meet(rank, size);  // others handle theirs meanwhile
        try {
            throw;
        } catch (const std::exception &error) {
            check(error.what() == "of rank " + std::to_string(rank), "the exception that it handles is its own", rank);
        }
    }
    errno = 1000 + rank;
    meet(rank, size);
    check(errno == 1000 + rank, "errno is its own", rank);
}

int main(int argc, char **argv) {
    int rank, size;
    const char *process = std::getenv("PMI_RANK");
    if (argc > 1 && std::string(argv[1]) == "never" && process && std::string(process) == "1")
        std::exit(5);
    bool begins_without_errors = !std::current_exception();
    try {
        throw 1;
    } catch (int) {
        MPI_Init(&argc, &argv);  // others begin meanwhile
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(begins_without_errors, "no exception of another rank is under way", rank);
    check(!std::getenv("WHERRY_MPI_VP"), "what it starts is no process of virtual ranks", rank);
    std::string how = argc > 1 ? argv[1] : "";
    argv[1] = nullptr;  // the arguments are this rank's, too
    look(rank, size);
    errors(rank, size);
    if (how == "early" && rank == size - 1)
        std::exit(9);
    if (how == "abort" && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 17);
    MPI_Finalize();
    if (how == "late" && rank == std::atoi(argv[2]))
        usleep(300000);
    std::cout << "rank " << rank << " is good" << std::endl;
    if (how == "exit")
        std::exit(rank == size - 1 ? 4 : 0);
    return how == "return" && rank == 1 ? 6 : 0;
}
