// SPDX-License-Identifier: BSD-3-Clause
//
// A random program: random SEED OPERATIONS [verbose] [spare].  It prints a sum for each rank, of all that the rank has got.
//
// The sums depend on the seed, the number of operations and of ranks, and on nothing else: not on how ranks are spread over processes and hosts, on
// timing, or on whose MPI it is.  random_test.py compares them.  `verbose` prints what each operation adds; `spare`
// spares an MPI what not all can do (random.h).
#include "random.h"

enum { BUFFER = 32 << 20 };  // of buffered sends that are pending at once

// How often each is drawn.
static const struct {
    void (*run)(void);
    unsigned weight;
} steps[] = {{exchange_step, 6}, {combine_step, 4}, {point_step, 6},   {neighbor_step, 2},
             {wild_step, 1},     {parted_step, 1},  {window_step, 1},  {pack_step, 1},
             {comms_change, 1},  {roam_step, 1},    {pending_some, 1}, {shared_step, 1},
             {file_step, 1}};

static void run_step(void) {
    unsigned all = 0, i = 0;
    for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
        all += steps[k].weight;
    unsigned left = draw(all);
    while (left >= steps[i].weight)
        left -= steps[i++].weight;
    steps[i].run();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc < 3) {
        fprintf(stderr, "usage: random SEED OPERATIONS [verbose] [spare]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    bool verbose = false;
    for (int i = 3; i < argc; i++) {
        verbose = verbose || strcmp(argv[i], "verbose") == 0;
        pending_spare = pending_spare || strcmp(argv[i], "spare") == 0;
    }
    kit_begin(strtoull(argv[1], NULL, 10), verbose);
    void *buffer = malloc(BUFFER);
    CHECK(buffer);
    OK(MPI_Buffer_attach(buffer, BUFFER));
    layouts_begin();
    combine_begin();
    comms_begin();
    int count = atoi(argv[2]);
    for (step = 1; step <= count; step++)
        run_step();
    pending_all();
    kit_report();
    comms_end();
    combine_end();
    layouts_end();
    int size;
    OK(MPI_Buffer_detach(&buffer, &size));
    free(buffer);
    OK(MPI_Finalize());
    return 0;
}
