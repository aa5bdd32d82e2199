// SPDX-License-Identifier: BSD-3-Clause
//
// bench-type-calls: what single calls cost, in nanoseconds: the best of several rounds, since all that disturbs a call
// makes it longer.  One JSON object per line, with the mark that the call is meant to stay below; run.py prints the table.
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

#include <wherry/pack.h>

enum { ROUNDS = 15, CALLS = 200000, RUNS = 1 << 20, ENTRIES = 64 };

static char memory[16 * RUNS];
static char packed[64];
static wh_type *blocks, *column;

static void must(wh_status status) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "bench-type-calls: %s\n", wh_type_error());
    exit(1);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Each of these is one call; `i` differs from call to call.
static void pack_64_bytes(int i) {
    size_t actual;
    must(wh_pack(memory + 128 * (i & 63), 1, blocks, 0, packed, sizeof(packed), 0, &actual));
}

static void make_and_free_a_vector(int i) {
    wh_type *type;
    must(wh_type_create_vector(8 + (i & 7), 1, 16, wh_type_basic(WH_TYPE_DOUBLE), &type));
    wh_type_release(type);
}

static void list_runs(int i) {
    struct iovec iov[ENTRIES];
    int64_t actual, first = (int64_t)((unsigned)i * 7919u % (RUNS - ENTRIES));
    must(wh_iov(memory, 1, column, first, iov, ENTRIES, &actual));
}

static void report(const char *name, void (*call)(int i), int per_call, double mark) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < CALLS; i++)
            call(i);
        double ns = (now_ns() - start) / CALLS / per_call;
        best = ns < best ? ns : best;
    }
    printf("{\"call\": \"%s\", \"ns\": %.2f, \"mark\": %.0f}\n", name, best, mark);
    fflush(stdout);
}

int main(void) {
    must(wh_type_create_vector(8, 1, 2, wh_type_basic(WH_TYPE_DOUBLE), &blocks));
    must(wh_type_create_vector(RUNS, 1, 2, wh_type_basic(WH_TYPE_DOUBLE), &column));
    must(wh_type_commit(blocks));
    must(wh_type_commit(column));
    report("pack 8 blocks of 8 bytes", pack_64_bytes, 1, 25);
    report("create and release a vector", make_and_free_a_vector, 1, 150);
    report("iov entry, at any offset", list_runs, ENTRIES, 20);
    wh_type_release(blocks);
    wh_type_release(column);
    return 0;
}
