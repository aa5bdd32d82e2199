// SPDX-License-Identifier: BSD-3-Clause
//
// What the programs of this folder share: options, the parts of a whole, and a checksum that does not depend on who has which part.
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

// stop ends the job, from any rank.
static inline void stop(const char *why) {
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static inline void *memory(size_t count, size_t size) {
    void *at = calloc(count ? count : 1, size);
    if (!at)
        stop("no memory");
    return at;
}

// options ends the program, with its usage, if it has another option than those named there, as "--rows N --check", or --help.  Called by all ranks.
static inline void options(int argc, char **argv, const char *usage) {
    const char *wrong = NULL;
    bool help = false;
    for (int i = 1; i < argc && !wrong && !help; i++) {
        const char *at = strstr(usage, argv[i]), *end = at ? at + strlen(argv[i]) : NULL;
        help = strcmp(argv[i], "--help") == 0;
        if (!help && (!at || strncmp(argv[i], "--", 2) != 0 || (*end && *end != ' ')))
            wrong = argv[i];
        else if (!help && strncmp(end, " N", 2) == 0)
            i++;  // its value
    }
    if (!wrong && !help)
        return;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && wrong)
        fprintf(stderr, "there is no option '%s'\n", wrong);
    if (rank == 0)
        fprintf(wrong ? stderr : stdout, "usage: %s %s\n", argv[0], usage);
    MPI_Finalize();
    exit(wrong ? 2 : 0);
}

// number is the value of `--name N` between least and most, or `otherwise` if the option is not there.
static inline int number(int argc, char **argv, const char *name, int otherwise, int least,
                         int most) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) != 0)
            continue;
        char *end = NULL;
        long value = i + 1 < argc ? strtol(argv[i + 1], &end, 10) : 0;
        if (!end || end == argv[i + 1] || *end || value < least || value > most) {
            fprintf(stderr, "%s takes a number from %d to %d\n", name, least, most);
            stop(argv[0]);
        }
        return (int)value;
    }
    return otherwise;
}

static inline bool flag(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

// first is where part `part` of n things in `parts` parts begins; it ends where the next one begins.
static inline long first(long n, long parts, long part) {
    return n * part / parts;
}

// mix spreads the bits of x (the finalizer of splitmix64, by Steele, Lea and Flood, 2014).
static inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

// mark is what `value` at place `place` adds to a checksum.  The sum is the same in any order.
static inline uint64_t mark(uint64_t place, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return mix(mix(place) ^ bits);
}

// total is the sum over all ranks, modulo 2^64.
static inline uint64_t total(uint64_t mine) {
    uint64_t sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

// finish prints the result at rank 0, compares it with that of the serial run if there was one, and returns the status of main.
static inline int finish(const char *name, uint64_t sum, const uint64_t *serial, double seconds) {
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int status = rank == 0 && serial && *serial != sum;
    if (rank == 0) {
        printf("%s: checksum %016llx\n", name, (unsigned long long)sum);
        printf("%s: %d ranks, %.3f s\n", name, size, seconds);
        if (serial)
            printf("%s: %s as in a serial run\n", name, status ? "NOT the same" : "the same");
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return status;
}

#endif
