// SPDX-License-Identifier: BSD-3-Clause
//
// A rank that only sends: more than its receiver takes in unasked, and then a word now and then, by which all comes through although the
// rank never waits in a call.  Two ranks of one host, which tell each other by shared memory how far they are.
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MANY = 60, SIZE = 8 << 10, WORDS = 200, POSTED = 1, RECEIVED = 2, PAUSE_NS = 10000000 };

static unsigned char bytes[MANY][SIZE];

// seen_by_both returns a word of memory that both ranks of the job have.
static _Atomic int *seen_by_both(int rank) {
    char name[64];
    snprintf(name, sizeof(name), "/wherry-test-sender-%ld", (long)getppid());
    int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && !ftruncate(fd, sizeof(_Atomic int)));
    void *word = mmap(NULL, sizeof(_Atomic int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(word != MAP_FAILED);
    close(fd);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!rank)
        CHECK(!shm_unlink(name));
    return word;
}

static void pause_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static void send_only(const _Atomic int *reached) {
    int words = 0;
    for (int i = 0; i < MANY; i++) {
        memset(bytes[i], i + 1, SIZE);
        OK(MPI_Send(bytes[i], SIZE, MPI_BYTE, 1, i, MPI_COMM_WORLD));
    }
    while (*reached < POSTED)
        pause_a_little();
    for (; *reached < RECEIVED && words < WORDS; words++) {
        OK(MPI_Send(NULL, 0, MPI_BYTE, 1, MANY, MPI_COMM_WORLD));
        pause_a_little();
    }
    CHECK(*reached == RECEIVED);
    OK(MPI_Send(&words, 1, MPI_INT, 1, MANY + 1, MPI_COMM_WORLD));
}

static void receive(_Atomic int *reached) {
    MPI_Request requests[MANY];
    int words = -1;
    for (int i = 0; i < MANY; i++)
        OK(MPI_Irecv(bytes[i], SIZE, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]));
    *reached = POSTED;
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    *reached = RECEIVED;
    for (int i = 0; i < MANY; i++)
        CHECK(bytes[i][0] == i + 1 && bytes[i][SIZE - 1] == i + 1);
    OK(MPI_Recv(&words, 1, MPI_INT, 0, MANY + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < words; i++)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = rank_in(MPI_COMM_WORLD);
    _Atomic int *reached = seen_by_both(rank);
    if (rank)
        receive(reached);
    else
        send_only(reached);
    OK(MPI_Finalize());
    return 0;
}
