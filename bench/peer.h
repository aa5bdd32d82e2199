// SPDX-License-Identifier: BSD-3-Clause
//
// Peers: MPI libraries as a measure, each a pair of processes on the same cores that lives as long as
// the comparison, or until a run fails.
//
// Nothing of an MPI is linked.  A folder holds an environment per library, each with a mpiexec and
// with the program of peers/mpi.c compiled against it (bench/peers/make.py makes them).  The pair
// measures with the clock and the statistics of this library, and sleeps between runs.  One thread
// uses a bench_peer.
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench/cell.h"
#include "bench/child.h"

#include <stdbool.h>
#include <stddef.h>

enum { BENCH_PEERS_MAX = 2 };

typedef struct bench_peer {
    char name[64];  // "mpich 5.0.2"
    char home[512];
    size_t which;  // of those that are known
    int cores[2];
    bench_child child;  // pid 0: to be started
    bool gone;          // it does not start any more
} bench_peer;

// bench_peers_start starts all peers that are in `dir` and returns how many there are in `peers`, of
// BENCH_PEERS_MAX; undone by bench_peers_stop, also when it has failed.
bool bench_peers_start(bench_peer *peers, size_t *count, const char *dir, const int cores[2],
                       bench_error *error);
void bench_peers_stop(bench_peer *peers, size_t count);

// bench_peer_run runs a cell with MPI_Send and MPI_Recv, or their nonblocking forms, of the layout's
// datatype.  There is no run
// for both ways at once.  False: it has failed, or was not done after `limit_ms`, and was ended; the
// next run starts it again, unless it is gone.
bool bench_peer_run(bench_peer *peer, const bench_cell *cell, int limit_ms, bench_run *run,
                    bench_error *error);

#endif
