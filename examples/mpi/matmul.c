// SPDX-License-Identifier: BSD-3-Clause
//
// Product of two square matrices on a grid of ranks: `mpiexec -n 4 matmul --edge 256 --check`.
//
// SUMMA (van de Geijn and Watts, 1997): the ranks that have a run of A's columns hand it to those in their row of the grid, those that have
// the same run of B's rows to those in their column, and each adds the product to its block of C.  A run of columns is strided in its
// owner's block and dense where it arrives: the two sides of MPI_Bcast give different datatypes of one signature.
#include "example.h"

typedef struct block {
    long row, column;  // where it begins in the matrix
    int rows, columns;
    double *at;
} block;

static block block_new(int edge, const int *parts, const int *at) {
    block b = {.row = first(edge, parts[0], at[0]), .column = first(edge, parts[1], at[1])};
    b.rows = (int)(first(edge, parts[0], at[0] + 1) - b.row);
    b.columns = (int)(first(edge, parts[1], at[1] + 1) - b.column);
    b.at = memory((size_t)b.rows * (size_t)b.columns, sizeof(double));
    return b;
}

static double *element(const block *b, int row, int column) {
    return &b->at[(size_t)row * (size_t)b->columns + (size_t)column];
}

static void fill(block *b, uint64_t seed) {
    for (int i = 0; i < b->rows; i++)
        for (int j = 0; j < b->columns; j++) {
            uint64_t place = (uint64_t)(b->row + i) << 32 | (uint64_t)(b->column + j);
            *element(b, i, j) = (double)(mix(place ^ seed << 63) >> 11) / (double)(1L << 53);
        }
}

// add: C += A B, where A has C's rows and `width` columns, and B `width` rows and C's columns.
static void add(block *c, const double *a, const double *b, int width) {
    for (int i = 0; i < c->rows; i++)
        for (int k = 0; k < width; k++) {
            double left = a[(size_t)i * (size_t)width + (size_t)k];
            const double *right = &b[(size_t)k * (size_t)c->columns];
            double *to = element(c, i, 0);
            for (int j = 0; j < c->columns; j++)
                to[j] += left * right[j];
        }
}

static uint64_t checksum(const block *c) {
    uint64_t sum = 0;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++)
            sum +=
                mark((uint64_t)(c->row + i) << 32 | (uint64_t)(c->column + j), *element(c, i, j));
    return sum;
}

// ---- SUMMA.

static int part_of(long n, int parts, long index) {
    int part = 0;
    while (first(n, parts, part + 1) <= index)
        part++;
    return part;
}

// Columns `from` of the whole and following, from the rank of this row of the grid that has them.
static void give_columns(const block *a, long from, int width, double *to, int owner,
                         MPI_Comm row) {
    int me;
    MPI_Comm_rank(row, &me);
    if (me != owner) {
        MPI_Bcast(to, a->rows * width, MPI_DOUBLE, owner, row);
        return;
    }
    MPI_Datatype columns;
    MPI_Type_vector(a->rows, width, a->columns, MPI_DOUBLE, &columns);
    MPI_Type_commit(&columns);
    double *mine = &a->at[from - a->column];
    MPI_Bcast(mine, 1, columns, owner, row);
    MPI_Sendrecv(mine, 1, columns, 0, 0, to, a->rows * width, MPI_DOUBLE, 0, 0, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    MPI_Type_free(&columns);
}

// Rows are dense in their owner's block already.
static void give_rows(const block *b, long from, int width, double *to, int owner,
                      MPI_Comm column) {
    int me;
    MPI_Comm_rank(column, &me);
    size_t bytes = (size_t)width * (size_t)b->columns * sizeof(double);
    if (me == owner && bytes)
        memcpy(to, element(b, (int)(from - b->row), 0), bytes);
    MPI_Bcast(to, width * b->columns, MPI_DOUBLE, owner, column);
}

static void multiply(int edge, const int *parts, const block *a, const block *b, block *c,
                     MPI_Comm row, MPI_Comm column) {
    size_t rows = (size_t)c->rows, columns = (size_t)c->columns, n = (size_t)edge;
    double *left = memory(rows * n, sizeof(double)), *right = memory(columns * n, sizeof(double));
    for (long k = 0, end; k < edge; k = end) {  // up to where an owner changes
        int of_a = part_of(edge, parts[1], k), of_b = part_of(edge, parts[0], k);
        end = first(edge, parts[1], of_a + 1);
        if (end > first(edge, parts[0], of_b + 1))
            end = first(edge, parts[0], of_b + 1);
        give_columns(a, k, (int)(end - k), left, of_a, row);
        give_rows(b, k, (int)(end - k), right, of_b, column);
        add(c, left, right, (int)(end - k));
    }
    free(left);
    free(right);
}

static uint64_t serial(int edge) {
    const int one[2] = {1, 1}, zero[2] = {0, 0};
    block a = block_new(edge, one, zero), b = block_new(edge, one, zero);
    block c = block_new(edge, one, zero);
    fill(&a, 0);
    fill(&b, 1);
    add(&c, a.at, b.at, edge);
    uint64_t sum = checksum(&c);
    free(a.at);
    free(b.at);
    free(c.at);
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    options(argc, argv, "--edge N --check");
    int edge = number(argc, argv, "--edge", 192, 1, 20000);
    int size, rank, parts[2] = {0}, at[2];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, parts);
    MPI_Comm grid, row, column;
    MPI_Cart_create(MPI_COMM_WORLD, 2, parts, (const int[2]){0, 0}, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);
    MPI_Cart_sub(grid, (const int[2]){0, 1}, &row);
    MPI_Cart_sub(grid, (const int[2]){1, 0}, &column);

    block a = block_new(edge, parts, at), b = block_new(edge, parts, at);
    block c = block_new(edge, parts, at);
    fill(&a, 0);
    fill(&b, 1);
    double start = MPI_Wtime();
    multiply(edge, parts, &a, &b, &c, row, column);
    double seconds = MPI_Wtime() - start;
    uint64_t sum = total(checksum(&c)), alone = 0;
    bool check = flag(argc, argv, "--check");
    if (check && rank == 0)
        alone = serial(edge);
    free(a.at);
    free(b.at);
    free(c.at);
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    MPI_Comm_free(&grid);
    return finish("matmul", sum, check ? &alone : NULL, seconds);
}
