// SPDX-License-Identifier: BSD-3-Clause
//
// Conjugate gradients with a sparse matrix whose rows are spread over the ranks: `mpiexec -n 4 cg --rows 65536 --check`.
//
// A row needs elements of the vector that other ranks have.  Who needs what is found out once (MPI_Alltoall, MPI_Alltoallv); in each
// iteration they come by a neighborhood collective on a graph of the ranks that exchange any.
//
// Sums of floating-point numbers depend on their order.  Here each run of rows has a sum of its own; MPI_Allreduce brings these
// together, each of them with zeros from all other ranks, which changes no bit; and everybody adds them up in the same order.  So
// the result has the same bits on any number of ranks.
#include <math.h>

#include "example.h"

enum { RUNS = 256, MASKS = 3 };

typedef struct matrix {
    long rows, from, own;  // in all, the first one here, how many are here
    long *begins;          // of each row's elements
    long *columns;         // own ones from 0 on, then those of others
    double *values;
    long others;    // elements of the vector that come from other ranks
    long *wanted;   // their columns, ascending
    long *sent;     // own elements that others want, in the order of ranks
    MPI_Comm near;  // those who exchange elements
    int in, out, *in_counts, *in_places, *out_counts, *out_places;
} matrix;

// ---- The matrix: symmetric, with 1 + the number of its neighbors on the diagonal.

static long begin_of(long rows, int size, int rank) {
    return first(RUNS, size, rank) * rows / RUNS;
}

// Row i has an element -1 at each of these columns: beside it, and where some bits of i differ.
static int neighbors(long rows, long i, long *columns) {
    int n = 0;
    if (i > 0)
        columns[n++] = i - 1;
    if (i + 1 < rows)
        columns[n++] = i + 1;
    for (int m = 0; m < MASKS; m++) {
        long other = i ^ (long)(mix((uint64_t)m) % (uint64_t)rows | 2);
        if (other < rows && labs(other - i) > 1)
            columns[n++] = other;
    }
    return n;
}

static int ascending(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static matrix matrix_new(long rows, int size, int rank) {
    matrix a = {.rows = rows, .from = begin_of(rows, size, rank)};
    a.own = begin_of(rows, size, rank + 1) - a.from;
    size_t most = (size_t)a.own * (MASKS + 3);
    a.begins = memory((size_t)a.own + 1, sizeof(long));
    a.columns = memory(most, sizeof(long));
    a.values = memory(most, sizeof(double));
    a.wanted = memory(most, sizeof(long));
    long n = 0;
    for (long i = 0; i < a.own; i++) {
        int near = neighbors(rows, a.from + i, &a.columns[n]);
        for (int k = 0; k < near; k++) {
            long column = a.columns[n + k];
            a.values[n + k] = -1;
            if (column < a.from || column >= a.from + a.own)
                a.wanted[a.others++] = column;
        }
        a.columns[n + near] = a.from + i;
        a.values[n + near] = near + 1;
        n += near + 1;
        a.begins[i + 1] = n;
    }
    qsort(a.wanted, (size_t)a.others, sizeof(long), ascending);
    long kept = 0;
    for (long i = 0; i < a.others; i++)
        if (kept == 0 || a.wanted[kept - 1] != a.wanted[i])
            a.wanted[kept++] = a.wanted[i];
    a.others = kept;
    for (long i = 0; i < n; i++) {  // from columns of the whole to places in the vector here
        long column = a.columns[i] - a.from;
        if (column < 0 || column >= a.own) {
            long *at = bsearch(&a.columns[i], a.wanted, (size_t)kept, sizeof(long), ascending);
            column = a.own + (at - a.wanted);
        }
        a.columns[i] = column;
    }
    return a;
}

// ---- Who exchanges which elements.

// keep leaves the ranks with which something is exchanged: their numbers, and how many elements beside them.
static int keep(int size, int *counts, int *ranks, int *places) {
    int n = 0, place = 0;
    for (int r = 0; r < size; r++) {
        if (!counts[r])
            continue;
        ranks[n] = r;
        places[n] = place;
        place += counts[r];
        counts[n++] = counts[r];
    }
    return n;
}

static void find_neighbors(matrix *a, int size) {
    size_t n = (size_t)size;
    int *in = memory(n, sizeof(int)), *out = memory(n, sizeof(int));
    int *in_at = memory(n, sizeof(int)), *out_at = memory(n, sizeof(int));
    int *in_ranks = memory(n, sizeof(int)), *out_ranks = memory(n, sizeof(int));
    for (long i = 0, r = 0; i < a->others; i++) {
        while (a->wanted[i] >= begin_of(a->rows, size, (int)r + 1))
            r++;
        in[r]++;
    }
    MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
    long all = 0;
    for (int r = 0, place = 0; r < size; place += in[r++]) {
        in_at[r] = place;
        out_at[r] = (int)all;
        all += out[r];
    }
    a->sent = memory((size_t)all, sizeof(long));
    MPI_Alltoallv(a->wanted, in, in_at, MPI_LONG, a->sent, out, out_at, MPI_LONG, MPI_COMM_WORLD);
    for (long i = 0; i < all; i++)
        a->sent[i] -= a->from;
    a->in = keep(size, in, in_ranks, in_at);
    a->out = keep(size, out, out_ranks, out_at);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, a->in, in_ranks, MPI_UNWEIGHTED, a->out,
                                   out_ranks, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &a->near);
    a->in_counts = in;
    a->in_places = in_at;
    a->out_counts = out;
    a->out_places = out_at;
    free(in_ranks);
    free(out_ranks);
}

static void matrix_free(matrix *a) {
    if (a->near != MPI_COMM_NULL)
        MPI_Comm_free(&a->near);
    void *all[] = {a->begins,    a->columns,   a->values,     a->wanted,    a->sent,
                   a->in_counts, a->in_places, a->out_counts, a->out_places};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

// ---- Conjugate gradients (Hestenes and Stiefel, 1952).

// times: y = A x.  x has room for the elements of others, which come first.
static void times(const matrix *a, double *x, double *y) {
    if (a->near != MPI_COMM_NULL) {
        int last = a->out - 1;
        size_t count = a->out ? (size_t)(a->out_places[last] + a->out_counts[last]) : 0;
        double *leaves = memory(count, sizeof(double));
        for (size_t i = 0; i < count; i++)
            leaves[i] = x[a->sent[i]];
        MPI_Neighbor_alltoallv(leaves, a->out_counts, a->out_places, MPI_DOUBLE, &x[a->own],
                               a->in_counts, a->in_places, MPI_DOUBLE, a->near);
        free(leaves);
    }
    for (long i = 0; i < a->own; i++) {
        double sum = 0;
        for (long k = a->begins[i]; k < a->begins[i + 1]; k++)
            sum += a->values[k] * x[a->columns[k]];
        y[i] = sum;
    }
}

static double dot(const matrix *a, const double *x, const double *y) {
    double sums[RUNS] = {0}, sum = 0;
    for (int run = 0; run < RUNS; run++) {
        long i = run * a->rows / RUNS - a->from, end = (run + 1) * a->rows / RUNS - a->from;
        for (; i >= 0 && i < end && i < a->own; i++)
            sums[run] += x[i] * y[i];
    }
    if (a->near != MPI_COMM_NULL)
        MPI_Allreduce(MPI_IN_PLACE, sums, RUNS, MPI_DOUBLE, MPI_SUM, a->near);
    for (int run = 0; run < RUNS; run++)
        sum += sums[run];
    return sum;
}

// solve solves A x = b, where b comes of the number of the row, and returns the checksum of x.
static uint64_t solve(const matrix *a, int iterations, double *residual) {
    size_t own = (size_t)a->own;
    double *x = memory(own, sizeof(double)), *r = memory(own, sizeof(double));
    double *p = memory(own + (size_t)a->others, sizeof(double)), *q = memory(own, sizeof(double));
    for (long i = 0; i < a->own; i++)
        p[i] = r[i] = (double)(mix((uint64_t)(a->from + i)) % 1000) / 1000;
    double rr = dot(a, r, r);
    for (int n = 0; n < iterations && rr > 0; n++) {
        times(a, p, q);
        double alpha = rr / dot(a, p, q);
        for (long i = 0; i < a->own; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double before = rr;
        rr = dot(a, r, r);
        for (long i = 0; i < a->own; i++)
            p[i] = r[i] + rr / before * p[i];
    }
    *residual = sqrt(rr);
    uint64_t sum = 0;
    for (long i = 0; i < a->own; i++)
        sum += mark((uint64_t)(a->from + i), x[i]);
    free(x);
    free(r);
    free(p);
    free(q);
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    options(argc, argv, "--rows N --iterations N --check");
    long rows = number(argc, argv, "--rows", 16384, 2, 100000000);
    int iterations = number(argc, argv, "--iterations", 40, 0, 1000000);
    int size, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    matrix a = matrix_new(rows, size, rank);
    find_neighbors(&a, size);
    double residual, start = MPI_Wtime();
    uint64_t mine = solve(&a, iterations, &residual);
    double seconds = MPI_Wtime() - start;
    matrix_free(&a);
    uint64_t sum = total(mine), alone = 0;
    bool check = flag(argc, argv, "--check");
    if (check && rank == 0) {
        matrix whole = matrix_new(rows, 1, 0);
        whole.near = MPI_COMM_NULL;
        alone = solve(&whole, iterations, &residual);
        matrix_free(&whole);
    }
    if (rank == 0)
        printf("cg: %ld rows, residual %g after %d iterations\n", rows, residual, iterations);
    return finish("cg", sum, check ? &alone : NULL, seconds);
}
