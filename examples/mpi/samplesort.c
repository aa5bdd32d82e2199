// SPDX-License-Identifier: BSD-3-Clause
//
// Sample sort (Frazer and McKellar, 1970): `mpiexec -n 4 samplesort --keys 1000000 --check`.
//
// Each rank sorts its keys and shows some of them to all; from these come the keys that part the ranks; each rank sends every other
// one what belongs there (MPI_Alltoallv), and sorts what has come.
#include "example.h"

enum { SHOWN = 64 };

typedef struct keys {
    long count;
    uint64_t *at;
} keys;

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort(keys *k) {
    qsort(k->at, (size_t)k->count, sizeof(*k->at), ascending);
}

// Keys number `from` to `to`.  Some come several times, and there are more small ones than large ones.
static keys keys_new(long from, long to) {
    keys k = {to - from, memory((size_t)(to - from), sizeof(uint64_t))};
    for (long i = 0; i < k.count; i++) {
        uint64_t x = mix((uint64_t)(from + i));
        k.at[i] = (x >> 40) * (x & 0xffff) >> 8;
    }
    return k;
}

static uint64_t checksum(const keys *k, long from) {
    uint64_t sum = 0;
    for (long i = 0; i < k->count; i++)
        sum += mix(mix((uint64_t)(from + i)) ^ k->at[i]);
    return sum;
}

// ---- What goes where.

// A rank that has fewer keys than it should show repeats some, or shows zeros if it has none.
static uint64_t *parting_keys(const keys *k, int size) {
    uint64_t shown[SHOWN];
    keys all = {(long)size * SHOWN, memory((size_t)size * SHOWN, sizeof(uint64_t))};
    for (int i = 0; i < SHOWN; i++)
        shown[i] = k->count ? k->at[first(k->count, SHOWN, i)] : 0;
    MPI_Allgather(shown, SHOWN, MPI_UINT64_T, all.at, SHOWN, MPI_UINT64_T, MPI_COMM_WORLD);
    sort(&all);
    for (int r = 1; r < size; r++)
        all.at[r - 1] = all.at[r * SHOWN];
    return all.at;
}

// below is the number of keys that are smaller than `key`.
static long below(const keys *k, uint64_t key) {
    long low = 0, high = k->count;
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (k->at[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static keys exchange(const keys *k, const uint64_t *part, int size) {
    size_t n = (size_t)size;
    int *out = memory(n, sizeof(int)), *out_at = memory(n + 1, sizeof(int));
    int *in = memory(n, sizeof(int)), *in_at = memory(n + 1, sizeof(int));
    for (int r = 0; r < size; r++) {
        out_at[r + 1] = (int)(r + 1 < size ? below(k, part[r]) : k->count);
        out[r] = out_at[r + 1] - out_at[r];
    }
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        in_at[r + 1] = in_at[r] + in[r];
    keys got = {in_at[size], memory((size_t)in_at[size], sizeof(uint64_t))};
    MPI_Alltoallv(k->at, out, out_at, MPI_UINT64_T, got.at, in, in_at, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    free(out);
    free(out_at);
    free(in);
    free(in_at);
    return got;
}

// in_order looks whether all keys ascend, also from one rank to the next that has any.
static bool in_order(const keys *k, int rank) {
    uint64_t largest = k->count ? k->at[k->count - 1] : 0, before = 0;
    MPI_Exscan(&largest, &before, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    int good = !k->count || rank == 0 || before <= k->at[0], all;
    for (long i = 1; i < k->count; i++)
        good = good && k->at[i - 1] <= k->at[i];
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    options(argc, argv, "--keys N --check");
    long count = number(argc, argv, "--keys", 200000, 0, 1000000000);
    int size, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    keys mine = keys_new(first(count, size, rank), first(count, size, rank + 1));
    double start = MPI_Wtime();
    sort(&mine);
    uint64_t *part = parting_keys(&mine, size);
    keys sorted = exchange(&mine, part, size);
    sort(&sorted);
    double seconds = MPI_Wtime() - start;
    if (!in_order(&sorted, rank))
        stop("samplesort: the keys are not in order");
    long before = 0;
    MPI_Exscan(&sorted.count, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    uint64_t sum = total(checksum(&sorted, rank ? before : 0)), alone = 0;
    bool check = flag(argc, argv, "--check");
    if (check && rank == 0) {
        keys whole = keys_new(0, count);
        sort(&whole);
        alone = checksum(&whole, 0);
        free(whole.at);
    }
    free(mine.at);
    free(part);
    free(sorted.at);
    return finish("samplesort", sum, check ? &alone : NULL, seconds);
}
