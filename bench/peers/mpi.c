// SPDX-License-Identifier: BSD-3-Clause
//
// The program that stands for an MPI in `wherry perf --peers`: two ranks on given cores, measured as
// Wherry is, with the same clock and statistics.  Compiled against each MPI by make.py.
//
//   mpiexec -n 2 wherry-peer CORE CORE
//   it says: hello VERSION                     it reads: run METRIC SIZE COUNT
//                                                    or: lay LAYOUT METRIC SIZE COUNT
//   it says: took SECONDS MEDIAN P99 MIN       (the last three in microseconds, of latency only)
//                                              it reads: end
//
// Rank 0 reads and holds the clock.  Between runs both sleep: rank 0 in a read, rank 1 between looks
// for the next order, so that they disturb nothing that is measured meanwhile.
#include "bench/cell.h"
#include "bench/clock.h"
#include "bench/machine.h"
#include "bench/stats.h"

#include <ctype.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { DATA_TAG = 1, ORDER_TAG = 2, READY_TAG = 3, LOOK_US = 500 };

typedef struct order {
    uint64_t metric, size, count;  // count 0: the end
    bench_layout layout;
} order;

static char *buffers[2];  // out, in
static size_t room;
static bench_hist hist;

// What the buffers are laid out for: messages are `elements` of `type`.
static order laid_out;
static MPI_Datatype type = MPI_BYTE;
static int elements;

static void fail(const char *why) {
    fprintf(stderr, "wherry-peer: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void reserve(size_t size) {
    if (size < room)
        return;
    room = (size + 4096) & ~(size_t)4095;
    for (int i = 0; i < 2; i++) {
        free(buffers[i]);
        buffers[i] = aligned_alloc(4096, room);
        if (!buffers[i])
            fail("out of memory");
        memset(buffers[i], 'w', room);
    }
}

static MPI_Datatype word_of(const bench_shape *shape) {
    return shape->word == 8   ? MPI_DOUBLE
           : shape->word == 4 ? MPI_INT32_T
           : shape->word == 2 ? MPI_INT16_T
                              : MPI_BYTE;
}

static MPI_Datatype make_subarray(const bench_shape *shape) {
    MPI_Datatype made;
    const int sizes[] = {(int)shape->outer, (int)shape->inner + 2, (int)shape->stride};
    const int parts[] = {(int)shape->outer, (int)shape->inner, (int)shape->block};
    const int starts[] = {0, 1, 0};
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, word_of(shape), &made);
    return made;
}

static MPI_Datatype make_struct(void) {
    MPI_Datatype made;
    const int lengths[] = {1, 1, 1};
    const MPI_Aint places[] = {0, 8, 16};
    const MPI_Datatype types[] = {MPI_INT32_T, MPI_DOUBLE, MPI_INT32_T};
    MPI_Type_create_struct(3, lengths, places, types, &made);
    return made;
}

static MPI_Datatype make_indexed(const bench_shape *shape) {
    MPI_Datatype made;
    int *places = malloc((size_t)shape->blocks * sizeof *places);
    if (!places)
        fail("out of memory");
    for (int64_t i = 0; i < shape->blocks; i++)
        places[i] = (int)bench_layout_place(shape, i);
    MPI_Type_create_indexed_block((int)shape->blocks, (int)shape->block, places, word_of(shape),
                                  &made);
    free(places);
    return made;
}

static MPI_Datatype make_column(const bench_shape *shape) {
    MPI_Datatype column, made;
    MPI_Type_vector((int)shape->outer, (int)shape->block, (int)(shape->inner * shape->block),
                    word_of(shape), &column);
    MPI_Type_create_resized(column, 0, (MPI_Aint)(shape->block * shape->word), &made);
    MPI_Type_free(&column);
    return made;
}

static void make_type(const order *run, const bench_shape *shape) {
    int size;
    elements = 1;
    switch (run->layout.kind) {
    case BENCH_VECTOR:
        MPI_Type_vector((int)shape->blocks, (int)shape->block, (int)shape->stride, word_of(shape),
                        &type);
        break;
    case BENCH_SUBARRAY: type = make_subarray(shape); break;
    case BENCH_INDEXED: type = make_indexed(shape); break;
    case BENCH_STRUCT:
        type = make_struct();
        elements = (int)shape->blocks;
        break;
    case BENCH_TRANSPOSED:
        type = make_column(shape);
        elements = (int)shape->inner;
        break;
    default: type = MPI_BYTE; elements = (int)run->size;
    }
    if (type != MPI_BYTE)
        MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    if ((uint64_t)size * (uint64_t)elements != run->size)
        fail("a datatype has another size than its layout");
}

static void lay_out(const order *run) {
    bench_shape shape = bench_layout_shape(&run->layout, run->size);
    reserve(shape.span);
    if (laid_out.size == run->size && elements &&
        memcmp(&laid_out.layout, &run->layout, sizeof run->layout) == 0)
        return;
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    make_type(run, &shape);
    laid_out = *run;
}

static void send_one(void) {
    MPI_Send(buffers[0], elements, type, 1, DATA_TAG, MPI_COMM_WORLD);
}

static void ping(const order *run) {
    uint64_t before = bench_ticks();
    for (uint64_t i = 0; i < run->count; i++) {
        send_one();
        MPI_Recv(buffers[1], elements, type, 1, DATA_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        uint64_t now = bench_ticks();
        bench_hist_add(&hist, now - before);
        before = now;
    }
}

static void pong(const order *run) {
    for (uint64_t i = 0; i < run->count; i++) {
        MPI_Recv(buffers[1], elements, type, 0, DATA_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffers[0], elements, type, 0, DATA_TAG, MPI_COMM_WORLD);
    }
}

// Keeps a window of operations under way: each waits for the oldest one.  The receiver's last word
// says that it has everything.
static void flow(int rank, const order *run) {
    MPI_Request window[BENCH_WINDOW];
    for (int i = 0; i < BENCH_WINDOW; i++)
        window[i] = MPI_REQUEST_NULL;
    for (uint64_t i = 0; i < run->count; i++) {
        MPI_Request *oldest = &window[i % BENCH_WINDOW];
        MPI_Wait(oldest, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Isend(buffers[0], elements, type, 1, DATA_TAG, MPI_COMM_WORLD, oldest);
        else
            MPI_Irecv(buffers[1], elements, type, 0, DATA_TAG, MPI_COMM_WORLD, oldest);
    }
    MPI_Waitall(BENCH_WINDOW, window, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, READY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, 0, READY_TAG, MPI_COMM_WORLD);
}

static void lead(const order *run) {
    MPI_Send(run, sizeof *run, MPI_BYTE, 1, ORDER_TAG, MPI_COMM_WORLD);
    if (run->count == 0)
        return;
    lay_out(run);
    bench_hist_clear(&hist);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, READY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    uint64_t start = bench_ns();
    if (run->metric == BENCH_LATENCY)
        ping(run);
    else
        flow(0, run);
    double seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    bench_stats us = bench_hist_stats(&hist, bench_ns_per_tick() / 2 / 1000);
    printf("took %.9f %.6f %.6f %.6f\n", seconds, us.median, us.p99, us.min);
    fflush(stdout);
}

static void read_orders(void) {
    char line[160], metric[16], layout[BENCH_LAYOUT_NAME];
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
        unsigned long long size, count;
        bench_metric parsed;
        order run = {.size = 0};
        bool dense = sscanf(line, "run %15s %llu %llu", metric, &size, &count) == 3;
        if (!dense &&
            (sscanf(line, "lay %39s %15s %llu %llu", layout, metric, &size, &count) != 4 ||
             !bench_layout_parse(layout, &run.layout) || !bench_layout_fits(&run.layout, size)))
            fail("it cannot run that");
        if (!bench_metric_parse(metric, &parsed) || size > INT32_MAX || count == 0)
            fail("it cannot run that");
        run.metric = parsed;
        run.size = size;
        run.count = count;
        lead(&run);
    }
    lead(&(order){.count = 0});
}

static void follow(void) {
    for (;;) {
        int there = 0;
        order run;
        MPI_Iprobe(0, ORDER_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (!there) {
            usleep(LOOK_US);
            continue;
        }
        MPI_Recv(&run, sizeof run, MPI_BYTE, 0, ORDER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (run.count == 0)
            return;
        lay_out(&run);
        MPI_Send(NULL, 0, MPI_BYTE, 0, READY_TAG, MPI_COMM_WORLD);
        if (run.metric == BENCH_LATENCY)
            pong(&run);
        else
            flow(1, &run);
    }
}

// The first "5.0.2" in what the library says of itself.
static void say_hello(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size, major, minor, patch;
    MPI_Get_library_version(text, &size);
    for (const char *at = text; *at; at++) {
        if (isdigit((unsigned char)*at) && sscanf(at, "%3d.%3d.%3d", &major, &minor, &patch) == 3) {
            printf("hello %d.%d.%d\n", major, minor, patch);
            fflush(stdout);
            return;
        }
    }
    fail("the library does not tell its version");
}

int main(int argc, char **argv) {
    int rank, count;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives an interrupted launcher
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (count != 2 || argc != 3 || !bench_pin(atoi(argv[1 + rank])))
        fail("it needs two ranks, and a core for each");
    if (rank == 0) {
        say_hello();
        read_orders();
    } else {
        follow();
    }
    MPI_Finalize();
    return 0;
}
