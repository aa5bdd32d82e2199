// SPDX-License-Identifier: BSD-3-Clause
//
// MPIX_Balance evens out the loads of processes, and nothing is lost.  balanced ROUNDS SEED
//
// Each round gives the ranks of one process far more load than the others, by MPIX_Set_load.  Afterwards, by MPIX_Process: ranks have moved, as many as
// MPIX_Balance tells; the process with the most load has less than before; and no rank of it could go to the process with the least and leave the larger of
// the two with less, which is what src/mpi/vp/plan.h promises.  Messages are under way meanwhile.
#include <mpi.h>
#include <wherry_mpix.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

int rank, size, processes;

void check(bool good, const std::string &what) {
    if (good)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int where() {
    int process;
    MPIX_Process(&process, nullptr);
    return process;
}

std::vector<double> of_all(double mine) {
    std::vector<double> all(static_cast<size_t>(size));
    MPI_Allgather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
    return all;
}

struct Loads {  // of the processes
    std::vector<double> sum, least;  // least: of their ranks, the lightest
    Loads(const std::vector<double> &load, const std::vector<double> &home)
        : sum(static_cast<size_t>(processes)), least(sum.size(), 1e300) {
        for (size_t i = 0; i < load.size(); i++) {
            auto at = static_cast<size_t>(home[i]);
            sum[at] += load[i];
            least[at] = std::min(least[at], load[i]);
        }
    }
    size_t busiest() const { return static_cast<size_t>(std::max_element(sum.begin(), sum.end()) - sum.begin()); }
    double most() const { return sum[busiest()]; }
    double differ() const { return most() - *std::min_element(sum.begin(), sum.end()); }
    // A hundredth less is worth no move.
    bool even() const { return differ() <= 1.02 * least[busiest()]; }
};

void balance(int round, unsigned seed) {
    std::mt19937 next(seed + static_cast<unsigned>(round * size + rank));
    int before = where(), heavy = round % processes, moved = -1;
    double load = 1e6 * (before == heavy ? 20 + next() % 10 : 1 + next() % 3), said;
    auto loads = of_all(load), homes = of_all(before);
    Loads old(loads, homes);
    check(MPIX_Set_load(load) == MPI_SUCCESS && MPIX_Get_load(&said) == MPI_SUCCESS && said == load, "a load is what was said");
    check(MPIX_Balance(&moved) == MPI_SUCCESS, "it balances");
    MPIX_Get_load(&said);
    check(said < 1e6, "what was said holds for one balancing");
    auto now = of_all(where());
    int changed = 0;
    for (size_t i = 0; i < now.size(); i++)
        changed += now[i] != homes[i];
    Loads is(loads, now);
    check(moved == changed, std::to_string(changed) + " ranks have moved, not " + std::to_string(moved));
    check(is.even(), "a process has " + std::to_string(is.differ()) + " more than another");
    check(old.even() || (moved > 0 && is.most() < old.most()), "the busiest process has less to do than before");
    check(round > 0 || (processes > 1) == (moved > 0), "ranks move where there is more than one process");
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPIX_Process(nullptr, &processes);
    int rounds = argc > 1 ? std::atoi(argv[1]) : 5, from = (rank + size - 1) % size, to = (rank + 1) % size;
    unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
    std::vector<unsigned> own(1000 + 100 * static_cast<size_t>(rank)), got;
    for (size_t i = 0; i < own.size(); i++)
        own[i] = static_cast<unsigned>(i) * 2654435761U + static_cast<unsigned>(rank);
    for (int round = 0; round < rounds; round++) {
        MPI_Request request;
        got.assign(1000 + 100 * static_cast<size_t>(from), 0);
        MPI_Isend(own.data(), static_cast<int>(own.size()), MPI_UNSIGNED, to, round, MPI_COMM_WORLD, &request);
        balance(round, seed);
        MPI_Recv(got.data(), static_cast<int>(got.size()), MPI_UNSIGNED, from, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < got.size(); i++)
            check(got[i] == static_cast<unsigned>(i) * 2654435761U + static_cast<unsigned>(from), "what others have is whole");
        for (size_t i = 0; i < own.size(); i++)
            check(own[i] == static_cast<unsigned>(i) * 2654435761U + static_cast<unsigned>(rank), "what a rank has is whole");
    }
    std::printf("rank %d is good\n", rank);
    MPI_Finalize();
    return 0;
}
