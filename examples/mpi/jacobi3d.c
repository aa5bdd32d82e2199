// SPDX-License-Identifier: BSD-3-Clause
//
// Jacobi iteration on a cube that is cut in three dimensions: `mpiexec -n 4 jacobi3d --grid 64 --iterations 50 --check`.
//
// Each rank has a box of cells with a layer of its neighbors' cells around it.  A face of the box is a part of the array, whose layout
// MPI_Type_create_subarray describes, so that faces are sent from where they lie and received where they belong.
#include <math.h>
#include <stddef.h>

#include "example.h"

enum { DIMS = 3, SIDES = 2 * DIMS };

typedef struct box {
    int room[DIMS];   // cells with the layer around
    long from[DIMS];  // where the box begins in the cube
    double *now, *next;
} box;

static size_t cell(const box *b, int x, int y, int z) {
    return ((size_t)x * (size_t)b->room[1] + (size_t)y) * (size_t)b->room[2] + (size_t)z;
}

// box_new: all cells are 0, but for the border of the cube at x < 0, which is 1.
static box box_new(int grid, const int *parts, const int *at) {
    box b;
    size_t cells = 1;
    for (int d = 0; d < DIMS; d++) {
        b.from[d] = first(grid, parts[d], at[d]);
        b.room[d] = (int)(first(grid, parts[d], at[d] + 1) - b.from[d]) + 2;
        cells *= (size_t)b.room[d];
    }
    b.now = memory(cells, sizeof(double));
    b.next = memory(cells, sizeof(double));
    if (at[0] == 0) {
        for (int y = 0; y < b.room[1]; y++)
            for (int z = 0; z < b.room[2]; z++)
                b.now[cell(&b, 0, y, z)] = b.next[cell(&b, 0, y, z)] = 1;
    }
    return b;
}

static void box_free(box *b) {
    free(b->now);
    free(b->next);
}

// step computes the next cells and returns the largest change.
static double step(box *b) {
    size_t dx = cell(b, 1, 0, 0), dy = cell(b, 0, 1, 0);
    double most = 0;
    for (int x = 1; x < b->room[0] - 1; x++) {
        for (int y = 1; y < b->room[1] - 1; y++) {
            size_t i = cell(b, x, y, 1);
            for (int z = 1; z < b->room[2] - 1; z++, i++) {
                const double *c = &b->now[i];
                double was = *c, sum = c[-(ptrdiff_t)dx] + c[dx] + c[-(ptrdiff_t)dy] + c[dy];
                b->next[i] = (sum + c[-1] + c[1]) / 6;
                most = fmax(most, fabs(b->next[i] - was));
            }
        }
    }
    double *old = b->now;
    b->now = b->next;
    b->next = old;
    return most;
}

static uint64_t checksum(const box *b, int grid) {
    uint64_t sum = 0;
    for (int x = 1; x < b->room[0] - 1; x++)
        for (int y = 1; y < b->room[1] - 1; y++)
            for (int z = 1; z < b->room[2] - 1; z++) {
                long place = ((b->from[0] + x) * grid + b->from[1] + y) * grid + b->from[2] + z;
                sum += mark((uint64_t)place, b->now[cell(b, x, y, z)]);
            }
    return sum;
}

// A face of the box: its own outermost cells, or those of the neighbor in the layer around them.
static MPI_Datatype face(const box *b, int dim, bool upper, bool own) {
    int part[DIMS], start[DIMS];
    for (int d = 0; d < DIMS; d++) {
        part[d] = d == dim ? 1 : b->room[d] - 2;
        start[d] = 1;
    }
    if (upper)
        start[dim] = b->room[dim] - (own ? 2 : 1);
    else
        start[dim] = own ? 1 : 0;
    MPI_Datatype type;
    MPI_Type_create_subarray(DIMS, b->room, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

typedef struct faces {
    int peer[SIDES];
    MPI_Datatype own[SIDES], other[SIDES];
} faces;

static faces faces_of(const box *b, MPI_Comm cube) {
    faces f;
    for (int side = 0; side < SIDES; side++) {
        int below, above;
        MPI_Cart_shift(cube, side / 2, 1, &below, &above);
        f.peer[side] = side % 2 ? above : below;
        f.own[side] = face(b, side / 2, side % 2, true);
        f.other[side] = face(b, side / 2, side % 2, false);
    }
    return f;
}

static void faces_free(faces *f) {
    for (int side = 0; side < SIDES; side++) {
        MPI_Type_free(&f->own[side]);
        MPI_Type_free(&f->other[side]);
    }
}

// exchange: what leaves a box at its upper side arrives at the lower side of the next one, so the tag is the side of arrival.
static void exchange(box *b, const faces *f, MPI_Comm cube) {
    MPI_Request requests[2 * SIDES];
    for (int side = 0; side < SIDES; side++) {
        MPI_Irecv(b->now, 1, f->other[side], f->peer[side], side, cube, &requests[side]);
        MPI_Isend(b->now, 1, f->own[side], f->peer[side], side ^ 1, cube, &requests[SIDES + side]);
    }
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
}

static uint64_t serial(int grid, int iterations) {
    box b = box_new(grid, (const int[DIMS]){1, 1, 1}, (const int[DIMS]){0});
    for (int i = 0; i < iterations; i++)
        step(&b);
    uint64_t sum = checksum(&b, grid);
    box_free(&b);
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    options(argc, argv, "--grid N --iterations N --check");
    int grid = number(argc, argv, "--grid", 48, 1, 2000);
    int iterations = number(argc, argv, "--iterations", 30, 0, 1000000);
    int size, rank, parts[DIMS] = {0}, at[DIMS];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, DIMS, parts);
    if (parts[0] > grid)
        stop("jacobi3d: more ranks along an edge than cells");
    MPI_Comm cube;
    MPI_Cart_create(MPI_COMM_WORLD, DIMS, parts, (const int[DIMS]){0}, 0, &cube);
    MPI_Comm_rank(cube, &rank);
    MPI_Cart_coords(cube, rank, DIMS, at);

    box b = box_new(grid, parts, at);
    faces f = faces_of(&b, cube);
    double start = MPI_Wtime(), change = 0;
    for (int i = 0; i < iterations; i++) {
        exchange(&b, &f, cube);
        double mine = step(&b);
        if (i == iterations - 1)
            MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, cube);
    }
    double seconds = MPI_Wtime() - start;
    if (rank == 0)
        printf("jacobi3d: %d x %d x %d boxes, last change %g\n", parts[0], parts[1], parts[2],
               change);
    uint64_t sum = total(checksum(&b, grid)), alone = 0;
    bool check = flag(argc, argv, "--check");
    if (check && rank == 0)
        alone = serial(grid, iterations);
    faces_free(&f);
    box_free(&b);
    MPI_Comm_free(&cube);
    return finish("jacobi3d", sum, check ? &alone : NULL, seconds);
}
