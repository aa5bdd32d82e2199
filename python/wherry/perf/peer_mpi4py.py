# SPDX-License-Identifier: BSD-3-Clause
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
"""mpi4py measured as Wherry is: ``mpiexec -n 2 python peer_mpi4py.py CORE CORE ROUNDS SIZE...``

Runs in an environment of its own, where Wherry is not.  Rank 0 prints rows.
"""
import os
import sys
import time
from typing import Any, List

from figures import Row, flow, rounds_of, tell, timed, window_of, windows_of
from mpi4py import MPI

PEER = "mpi4py (MPICH)"


def latency(comm: Any, size: int, rounds: int) -> List[Row]:
    out, into, times = bytearray(size), bytearray(size), []
    for _ in range(rounds_of(size, rounds)):
        if comm.rank == 1:
            comm.Recv(into, 0)
            comm.Send(out, 0)
            continue
        start = time.perf_counter()
        comm.Send(out, 1)
        comm.Recv(into, 1)
        times.append(time.perf_counter() - start)
    return [timed("blocking", "latency", size, times, PEER)] if times else []


def bandwidth(comm: Any, size: int, rounds: int) -> List[Row]:
    windows, window = windows_of(size, rounds), window_of(size)
    buffers = [bytearray(size) for _ in range(window)]
    answer = bytearray(1)
    comm.Barrier()
    for at in range(windows + 1):
        if at < 2:  # the first window is the warm-up
            start = time.perf_counter()
        if comm.rank == 0:
            MPI.Request.Waitall([comm.Isend(buf, 1) for buf in buffers])
            comm.Recv(answer, 1)
        else:
            MPI.Request.Waitall([comm.Irecv(buf, 0) for buf in buffers])
            comm.Send(answer, 0)
    seconds = time.perf_counter() - start
    return flow("blocking", size, windows * window, seconds, PEER) if comm.rank == 0 else []


def main() -> None:
    comm = MPI.COMM_WORLD
    *cores, rounds = map(int, sys.argv[1:4])
    if cores[comm.rank] >= 0:
        os.sched_setaffinity(0, [cores[comm.rank]])
    rows: List[Row] = []
    for size in map(int, sys.argv[4:]):
        rows += latency(comm, size, rounds)
        rows += bandwidth(comm, size, rounds)
    if comm.rank == 0:
        tell(rows)


main()
