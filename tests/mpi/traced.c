// SPDX-License-Identifier: BSD-3-Clause
// A program whose calls a tracer sees: see abi_test.py.
#include <stdio.h>

#include <mpi.h>

int main(void) {
    int wrong = MPI_Comm_toint(MPI_COMM_WORLD) != 0x101 || !(MPI_Wtime() > 0);
    puts("program ends");
    return wrong;
}
