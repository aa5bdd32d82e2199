// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers and sums.
#include "random.h"

int me, ranks, step;

static uint64_t first, state, total;
static bool tells;

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void kit_begin(uint64_t seed, bool verbose) {
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    state = first = mixed(seed + 1);
    total = 0;
    tells = verbose;
}

unsigned draw(unsigned below) {
    state += 0x9e3779b97f4a7c15u;
    return (unsigned)(mixed(state) >> 32) % below;
}

unsigned hashed(unsigned below, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = mixed(first + (unsigned)step);
    x = mixed(mixed(mixed(x + a) + b) + c);
    return (unsigned)(x >> 32) % below;
}

void note(const char *what, int64_t value) {
    total = mixed(total * 31 + (uint64_t)value);
    if (tells)
        printf("rank %d operation %d %s %016llx\n", me, step, what, (unsigned long long)value);
}

void note_bytes(const char *what, const void *bytes, size_t count) {
    const unsigned char *b = bytes;
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ b[i]) * 1099511628211u;
    note(what, (int64_t)sum);
}

void kit_tell(const char *what) {
    if (tells)
        printf("rank %d operation %d begins: %s\n", me, step, what);
}

void kit_report(void) {
    uint64_t mine[2] = {total, state}, *all = calloc((size_t)ranks, sizeof(mine));
    CHECK(all);
    OK(MPI_Gather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    for (int i = 0; me == 0 && i < ranks; i++)
        printf("sum of rank %d: %016llx %016llx\n", i, (unsigned long long)all[2 * i],
               (unsigned long long)all[2 * i + 1]);
    free(all);
}
