// SPDX-License-Identifier: BSD-3-Clause
//
// For programs that try MPI on memory of a device, the kind of which is their argument: sim or cuda.  An error names the check, and the program
// ends with 1.
#ifndef BUFFERS_H
#define BUFFERS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/mem.h>

enum { GAP = -9 };
static int rank, size, failures;
static wh_mem_kind kind;

static void check(bool good, const char *what, int at) {
    if (!good && failures++ < 5)
        fprintf(stderr, "rank %d of %d: %s is wrong (%d)\n", rank, size, what, at);
}

static void *device_new(size_t bytes) {
    void *p = NULL;
    wh_status status = wh_mem_alloc_kind(kind, 0, bytes, &p);
    if (status != WH_OK) {
        fprintf(stderr, "no memory of kind %s: %s\n", wh_mem_kind_name(kind),
                wh_mem_kind_reason(kind));
        exit(1);
    }
    return p;
}

static void device_free(void *p) {
    check(wh_mem_free_kind(kind, p) == WH_OK, "freeing", 0);
}

static void to_device(void *device, const void *host, size_t bytes) {
    check(wh_mem_copy(device, kind, host, WH_MEM_HOST, bytes) == WH_OK, "a copy to the device", 0);
}

static void to_host(void *host, const void *device, size_t bytes) {
    check(wh_mem_copy(host, WH_MEM_HOST, device, kind, bytes) == WH_OK, "a copy from the device",
          0);
}

static int value(int of, int i) {
    return of * 1000 + i % 997;
}

static void fill(int *device, int count, int of) {
    int *host = malloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        host[i] = of < 0 ? GAP : value(of, i);
    to_device(device, host, (size_t)count * sizeof(int));
    free(host);
}

// What `count` numbers on the device should be: of `stride`, the first `block` are those of rank `of`, the others nobody's.
static void expect(const int *device, int count, int of, int block, int stride, const char *what) {
    int *host = malloc((size_t)count * sizeof(int));
    to_host(host, device, (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        check(host[i] == (i % stride < block ? value(of, i) : GAP), what, i);
    free(host);
}

static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (*argc < 2 || wh_mem_kind_parse((*argv)[1], &kind) != WH_OK)
        exit(2);
}

static int end(void) {
    int all;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}

#endif
