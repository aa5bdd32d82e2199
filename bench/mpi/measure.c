// SPDX-License-Identifier: BSD-3-Clause
//
// What bench-mpi measures: one program for every MPI library, compiled against the header of each.
//
//   measure PART CORES SECONDS SIZE...
//   measure start
//
// PART is a word of the table at the end.  Rank i is kept on core i of CORES ("0,1", or "none").  Rank 0 prints one line of
// JSON: {"unit": "us", "figures": {"8": 0.41, ...}}, medians of rounds that take SECONDS for each size.  `start` does nothing between
// MPI_Init and MPI_Finalize; its figure is what rank 0 has spent in the first.
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 20000, WINDOW = 64, MANY = 1000, PINGS = 200, THREADS_MOST = 4 };
static const size_t window_bytes = (size_t)64 << 20;  // of larger messages fewer are under way

static int rank, ranks;
static double seconds;
static char *a, *b;
static double times[MOST];

static int ascending(const void *x, const void *y) {
    double p = *(const double *)x, q = *(const double *)y;
    return (p > q) - (p < q);
}

typedef void round_fn(size_t size);

// median_of runs rounds until they take long enough, as many on all ranks, and returns the median of one in us.
static double median_of(round_fn *fn, size_t size) {
    int rounds = 4;
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), before = begin;
        for (int i = 0; i < rounds; i++) {
            fn(size);
            double now = MPI_Wtime();
            times[i] = now - before;
            before = now;
        }
        int next = before - begin >= seconds || rounds == MOST ? 0
                   : 2 * rounds < MOST                         ? 2 * rounds
                                                               : MOST;
        MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!next)
            break;
        rounds = next;
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), ascending);
    return times[rounds / 2] * 1e6;
}

// ---- Two ranks.

static void ping(size_t size) {
    if (rank == 0) {
        MPI_Send(a, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(b, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(b, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(a, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static void ping_any(size_t size) {
    if (rank == 0) {
        MPI_Send(a, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(b, (int)size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(b, (int)size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Send(a, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static int window_of(size_t size) {
    size_t fit = size ? window_bytes / size : WINDOW;
    return fit > WINDOW ? WINDOW : fit < 2 ? 2 : (int)fit;
}

// A window of messages to the partner, or both ways, and a word back.  Even ranks send.
static void stream(size_t size, int both) {
    MPI_Request all[2 * WINDOW];
    int n = 0, window = window_of(size), partner = rank ^ 1, odd = rank & 1;
    if (partner >= ranks)
        return;
    for (int i = 0; i < window; i++)
        if (odd || both)
            MPI_Irecv(b, (int)size, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &all[n++]);
    for (int i = 0; i < window; i++)
        if (!odd || both)
            MPI_Isend(a, (int)size, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &all[n++]);
    MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
    if (odd)
        MPI_Send(a, 1, MPI_BYTE, partner, 3, MPI_COMM_WORLD);
    else
        MPI_Recv(b, 1, MPI_BYTE, partner, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one_way(size_t size) {
    stream(size, 0);
}

static void both_ways(size_t size) {
    stream(size, 1);
}

// Pairs of threads, one of each in either rank, that send to and fro at the same time, PINGS times.
typedef struct pair {
    pthread_t thread;
    size_t size;
    int tag;
    char *out, *in;
} pair;

static void *pinging(void *arg) {
    const pair *p = arg;
    for (int i = 0; i < PINGS; i++) {
        if (rank == 0)
            MPI_Send(p->out, (int)p->size, MPI_BYTE, 1, p->tag, MPI_COMM_WORLD);
        MPI_Recv(p->in, (int)p->size, MPI_BYTE, 1 - rank, p->tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(p->out, (int)p->size, MPI_BYTE, 0, p->tag, MPI_COMM_WORLD);
    }
    return NULL;
}

static void ping_threads(size_t size, int threads) {
    pair all[THREADS_MOST];
    for (int i = 0; rank < 2 && i < threads; i++) {
        size_t at = size * (size_t)i;
        all[i] = (pair){.size = size, .tag = 10 + i, .out = a + at, .in = b + at};
        if (pthread_create(&all[i].thread, NULL, pinging, &all[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; rank < 2 && i < threads; i++)
        pthread_join(all[i].thread, NULL);
}

static void two_threads(size_t size) {
    ping_threads(size, 2);
}

static void four_threads(size_t size) {
    ping_threads(size, 4);
}

// A round trip behind MANY receives that are posted and not met, and behind MANY messages that nobody has received.
static MPI_Request waiting[MANY];
static int begun;

static void posted(size_t size) {
    for (; rank < 2 && begun < MANY; begun++)
        MPI_Irecv(b, 8, MPI_BYTE, 1 - rank, 1000 + begun, MPI_COMM_WORLD, &waiting[begun]);
    ping(size);
}

static void meet_posted(void) {
    for (int i = 0; i < begun; i++)
        MPI_Send(a, 8, MPI_BYTE, 1 - rank, 1000 + i, MPI_COMM_WORLD);
    MPI_Waitall(begun, waiting, MPI_STATUSES_IGNORE);
}

static void unexpected(size_t size) {
    for (; rank < 2 && begun < MANY; begun++)
        MPI_Send(a, 8, MPI_BYTE, 1 - rank, 1000 + begun, MPI_COMM_WORLD);
    ping(size);
}

static void receive_unexpected(void) {
    for (int i = 0; i < begun; i++)
        MPI_Recv(b, 8, MPI_BYTE, 1 - rank, 1000 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Blocks of 8 bytes, every other one, as many as make `size` bytes.
static void strided(size_t size) {
    static MPI_Datatype type;
    static size_t made;
    if (made != size) {
        if (made)
            MPI_Type_free(&type);
        MPI_Type_vector((int)(size / 8), 1, 2, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        made = size;
    }
    if (rank == 0) {
        MPI_Send(a, 1, type, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(b, 1, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(b, 1, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(a, 1, type, 0, 1, MPI_COMM_WORLD);
    }
}

// ---- All ranks.

static void barrier(size_t size) {
    (void)size;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(size_t size) {
    MPI_Bcast(a, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void reduce(size_t size) {
    MPI_Reduce(a, b, (int)(size / 8), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(size_t size) {
    MPI_Allreduce(a, b, (int)(size / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(size_t size) {
    MPI_Allgather(a, (int)size, MPI_BYTE, b, (int)size, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(size_t size) {
    MPI_Alltoall(a, (int)size, MPI_BYTE, b, (int)size, MPI_BYTE, MPI_COMM_WORLD);
}

// What of a round is reported.
typedef enum { WHOLE, HALF, MESSAGE, MESSAGE_OF_BOTH, HALF_OF_PINGS } share;

static const struct part {
    const char *name;
    round_fn *fn;
    share share;
    int all;      // buffers for each rank
    int threads;  // that call MPI at the same time
    void (*end)(void);
} parts[] = {
    {"latency", ping, HALF, 0, 0, NULL},
    {"wildcards", ping_any, HALF, 0, 0, NULL},
    {"one-way", one_way, MESSAGE, 0, 0, NULL},
    {"both-ways", both_ways, MESSAGE_OF_BOTH, 0, 0, NULL},
    {"posted", posted, HALF, 0, 0, meet_posted},
    {"unexpected", unexpected, HALF, 0, 0, receive_unexpected},
    {"strided", strided, HALF, 0, 0, NULL},
    {"threads-2", two_threads, HALF_OF_PINGS, 0, 2, NULL},
    {"threads-4", four_threads, HALF_OF_PINGS, 0, 4, NULL},
    {"rate", one_way, MESSAGE, 0, 0, NULL},
    {"barrier", barrier, WHOLE, 0, 0, NULL},
    {"bcast", bcast, WHOLE, 0, 0, NULL},
    {"reduce", reduce, WHOLE, 0, 0, NULL},
    {"allreduce", allreduce, WHOLE, 0, 0, NULL},
    {"allgather", allgather, WHOLE, 1, 0, NULL},
    {"alltoall", alltoall, WHOLE, 1, 0, NULL},
};

static double share_of(const struct part *part, size_t size) {
    switch (part->share) {
    case WHOLE: return 1;
    case HALF: return 0.5;
    case MESSAGE: return 1.0 / window_of(size);
    case MESSAGE_OF_BOTH: return 0.5 / window_of(size);
    default: return 0.5 / PINGS;
    }
}

static const struct part *part_of(const char *name) {
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strcmp(name, parts[i].name))
            return &parts[i];
    fprintf(stderr, "measure: there is no part '%s'\n", name);
    exit(2);
}

static void pin(const char *cores) {
    if (!strcmp(cores, "none"))
        return;
    int list[64], n = 0;
    for (char *end; n < 64 && *cores; cores = *end ? end + 1 : end)
        list[n++] = (int)strtol(cores, &end, 10);
    if (!n)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)list[rank % n], &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        perror("measure: sched_setaffinity");
}

static char *memory_of(size_t size) {
    char *memory = malloc(size + 8);
    if (!memory) {
        fprintf(stderr, "measure: no memory for %zu bytes\n", size);
        exit(2);
    }
    memset(memory, 0, size + 8);
    return memory;
}

static int only_start(int argc, char **argv) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_MONOTONIC, &end);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("{\"unit\": \"us\", \"figures\": {\"init\": %.1f}}\n",
               (double)(end.tv_sec - begin.tv_sec) * 1e6 +
                   (double)(end.tv_nsec - begin.tv_nsec) / 1e3);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "start"))
        return only_start(argc, argv);
    if (argc < 5) {
        fprintf(stderr, "usage: measure PART CORES SECONDS SIZE...\n");
        return 2;
    }
    const struct part *part = part_of(argv[1]);
    int threads = 0;
    MPI_Init_thread(&argc, &argv, part->threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &threads);
    if (part->threads && threads < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "measure: this library has no MPI_THREAD_MULTIPLE\n");
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pin(argv[2]);
    seconds = atof(argv[3]);
    if (rank == 0)
        printf("{\"unit\": \"us\", \"figures\": {");
    for (int i = 4; i < argc; i++) {
        size_t size = strtoull(argv[i], NULL, 10),
               room = size * (size_t)(part->all       ? 2 * ranks
                                      : part->threads ? part->threads
                                                      : 2);
        a = memory_of(room);
        b = memory_of(room);
        double us = median_of(part->fn, size) * share_of(part, size);
        if (rank == 0)
            printf("%s\"%zu\": %.4f", i > 4 ? ", " : "", size, us);
        if (part->end && i == argc - 1)
            part->end();
        if (i < argc - 1 && part->end)
            continue;  // receives are posted into it
        free(a);
        free(b);
    }
    if (rank == 0)
        puts("}}");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
