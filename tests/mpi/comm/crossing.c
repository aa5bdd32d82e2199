// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that send to each other before they receive, which the standard leaves to the library: a standard send of up to 64 KiB to another
// process is over when the call returns, whichever way the engine tries for it, one by one and many before the first receive.
// Two ranks.
#include "check.h"

enum { MOST = 64 << 10, ROUNDS = 300, MANY = 50 };

static unsigned char out[MOST], in[MOST];
static int rank;

static void fill(int size, int number) {
    for (int i = 0; i < size; i++)
        out[i] = (unsigned char)(i * 7 + i / 256 + number + 100 * rank);
}

static void receive(int size, int number) {
    memset(in, 0, (size_t)size);
    OK(MPI_Recv(in, size, MPI_BYTE, 1 - rank, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    int wrong = 0;
    for (int i = 0; i < size; i++)
        wrong += in[i] != (unsigned char)(i * 7 + i / 256 + number + 100 * (1 - rank));
    CHECK(!wrong);
}

static void both_send(int size, int each_time) {
    for (int sent = 0, received = 0; received < ROUNDS;) {
        for (int i = 0; i < each_time && sent < ROUNDS; i++, sent++) {
            fill(size, sent);
            OK(MPI_Send(out, size, MPI_BYTE, 1 - rank, sent, MPI_COMM_WORLD));
        }
        memset(out, 0, (size_t)size);  // it is ours again
        for (; received < sent; received++)
            receive(size, received);
    }
}

int main(int argc, char **argv) {
    const int sizes[] = {8 << 10, 12000, 16 << 10, 20000, 32 << 10, 40000, MOST};
    OK(MPI_Init(&argc, &argv));
    rank = rank_in(MPI_COMM_WORLD);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        both_send(sizes[i], 1);
        both_send(sizes[i], MANY);
    }
    OK(MPI_Finalize());
    return 0;
}
