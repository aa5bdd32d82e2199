// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of what is told of ranks that wait.
#include "cli/run/waits.h"

#include <stdio.h>
#include <string.h>

#include "bench/expect.h"

static char told[4096];

static void say(void *arg, const char *sentence) {
    (void)arg;
    strcat(told, sentence);
    strcat(told, "\n");
}

static void hear(wait_list *w, int process, const char *line) {
    waits_line(w, process, line, strlen(line));
}

static void expect_told(wait_list *w, const char *text) {
    told[0] = 0;
    waits_tell(w, say, NULL);
    if (strcmp(told, text) != 0)
        fprintf(stderr, "told:\n%s", told);
    EXPECT(strcmp(told, text) == 0);
}

static void test_the_odd_one(void) {
    wait_list w = {0};
    for (int rank = 0; rank < 6; rank++) {
        char line[128];
        snprintf(line, sizeof line, "  MPI rank %d: waits in MPI_Barrier for %d.000 s\n", rank,
                 rank);
        if (rank != 3)
            hear(&w, rank, line);
    }
    hear(&w, 3, "  MPI rank 3: waits in MPI_Recv for 1.988 s\n");
    for (int rank = 0; rank < 6; rank++)  // the lines of processes come as they like
        hear(&w, rank,
             rank == 3   ? "    a receive from rank 0, tag 5, on MPI_COMM_WORLD\n"
             : rank == 1 ? "    a send of a collective to rank 2, on MPI_COMM_WORLD\n"
                         : "    a receive of a collective from rank 1, tag 0, on MPI_COMM_WORLD\n");
    hear(&w, 0, "    a receive of a collective from rank 2, tag 0, on MPI_COMM_WORLD\n");
    expect_told(&w, "ranks 0-2, 4-5 wait in MPI_Barrier: on MPI_COMM_WORLD\n"
                    "rank 3 waits in MPI_Recv: receive from rank 0, tag 5, on MPI_COMM_WORLD\n");
    expect_told(&w, "");  // they are forgotten
}

static void test_who_has_not_come(void) {
    wait_list w = {0};
    for (int rank = 0; rank < 3; rank++) {
        char line[128];
        snprintf(line, sizeof line, "  MPI rank %d: waits in MPI_Barrier for 1.000 s\n", rank);
        hear(&w, rank, line);
        hear(&w, rank, "    a collective in shared memory, on MPI_COMM_WORLD: without rank 3, 5\n");
    }
    expect_told(&w, "ranks 0-2 wait in MPI_Barrier: on MPI_COMM_WORLD: without rank 3, 5\n");
}

static void test_several_ranks_of_a_process(void) {
    wait_list w = {0};
    hear(&w, 0, "  MPI rank 4: waits in MPI_Ssend for 2.420 s");
    hear(&w, 0, "    a synchronous send to rank 3, tag 1, on MPI_COMM_WORLD");
    hear(&w, 0, "  MPI rank 5: is in no call");
    hear(&w, 0, "  MPI rank 7: is in no call");
    expect_told(
        &w, "ranks 5, 7 are in no call\n"
            "rank 4 waits in MPI_Ssend: synchronous send to rank 3, tag 1, on MPI_COMM_WORLD\n");
}

static const char *expected(void *arg, int rank) {
    const int *not_expected = arg;
    return rank != *not_expected ? WAITS_SILENT : NULL;
}

static const char *begun(void *arg, int rank) {
    const int *not_begun = arg;
    return rank == *not_begun ? "has not joined" : "waits for others";
}

static void test_who_has_not_answered(void) {
    wait_list w = {0};
    int ended = 6;
    hear(&w, 0, "worker 00112233445566778899aabbccddeeff: 2 links, 0 operations pending");
    hear(&w, 0, "  MPI rank 0: waits in MPI_Wait for 2.420 s");
    hear(&w, 0, "  MPI rank 2: waits in MPI_Wait for 2.420 s");
    hear(&w, 0, "  MPI rank 3: is in no call");
    hear(&w, 0, "  MPI rank 9: is in no call");  // there is none
    waits_silent(&w, 7, expected, &ended);
    expect_told(&w, "ranks 1, 4-5 have not answered: outside of MPI, or stopped\n"
                    "ranks 0, 2 wait in MPI_Wait\n"
                    "ranks 3, 9 are in no call\n");
    waits_silent(&w, 2, expected, (int[]){0});  // nobody has answered
    expect_told(&w, "rank 1 has not answered: outside of MPI, or stopped\n");
    hear(&w, 0, "worker 00112233445566778899aabbccddeeff: 2 links, 0 operations pending");
    waits_silent(&w, 2, expected, (int[]){0});  // it is no program of MPI
    expect_told(&w, "");
    waits_silent(&w, 3, begun, (int[]){1});
    expect_told(&w, "rank 1 has not joined\n"
                    "ranks 0, 2 wait for others\n");
}

static void test_lines_of_others(void) {
    wait_list w = {0};
    char longest[1000];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "    a receive ", 14);
    hear(&w, 0, "    a receive from nobody that was named");
    hear(&w, 0, "MPI rank 1: the program printed this");
    hear(&w, 0, "");
    waits_line(&w, 0, longest, sizeof longest);
    expect_told(&w, "");
    hear(&w, 0, "  MPI rank 1: waits in MPI_Wait for 0.001 s");
    waits_line(&w, 0, longest, sizeof longest);
    told[0] = 0;
    waits_tell(&w, say, NULL);
    EXPECT(strncmp(told, "rank 1 waits in MPI_Wait: receive xxx", 37) == 0);
}

static void test_many(void) {
    wait_list w = {0};
    char line[128], *end;
    for (int rank = 0; rank < 3000; rank++) {
        snprintf(line, sizeof line, "  MPI rank %d: waits in MPI_%d for 1.0 s", rank,
                 rank % 100 / 2);
        hear(&w, rank, line);
    }
    told[0] = 0;
    waits_tell(&w, say, NULL);
    EXPECT(strncmp(told, "ranks 0-1, 100-101, 200-201, ", 29) == 0);
    end = strstr(told, "2520 more ranks wait elsewhere\n");
    EXPECT(end && strstr(told, ", ... wait in MPI_0\n"));
}

int main(void) {
    test_the_odd_one();
    test_who_has_not_come();
    test_several_ranks_of_a_process();
    test_who_has_not_answered();
    test_lines_of_others();
    test_many();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
