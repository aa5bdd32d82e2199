# SPDX-License-Identifier: BSD-3-Clause
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
"""mpi4py measured as Wherry is: ``mpiexec -n 2 python peer_mpi4py.py CORE CORE ROUNDS SIZE...``

Runs in an environment of its own, where Wherry is not.  Rank 0 prints rows.
"""
import collections
import os
import sys
import time
from typing import Any, Deque, List

from figures import WINDOW, Row, counts_of, flow, rounds_of, tell, timed
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
    buf, answer = bytearray(size), bytearray(1)
    comm.Barrier()
    for count in counts_of(size, rounds):  # the first is the warm-up
        ops: Deque[Any] = collections.deque()
        start = time.perf_counter()
        for _ in range(count):
            if len(ops) == WINDOW:
                ops.popleft().Wait()
            ops.append(comm.Isend(buf, 1) if comm.rank == 0 else comm.Irecv(buf, 0))
        MPI.Request.Waitall(list(ops))
        if comm.rank == 0:
            comm.Recv(answer, 1)
        else:
            comm.Send(answer, 0)
    seconds = time.perf_counter() - start
    return flow("blocking", size, count, seconds, PEER) if comm.rank == 0 else []


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
