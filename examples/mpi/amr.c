// SPDX-License-Identifier: BSD-3-Clause
//
// Diffusion on a square whose patches are finer near a ring that grows: `mpiexec -n 4 amr --patches 16 --steps 40 --check`.
//
// The square is cut into patches; each has 8 x 8 cells, or two, four or eight times as many in each direction where the ring is near.  So a few
// patches have most of the work, and not always the same ones.  Every few steps the patches get the resolution that they need then, and
// move to other ranks (--fixed: stay): the patches, in the order of a curve that keeps neighbors together, are cut into runs of equal work.
//
// With --fixed --balance it is the ranks that move, virtual ones, to other processes: MPIX_Balance, in a program that `mpicc -movable` has linked, started by
// `mpiexec -n 2 -vp 16 -movable`.  What the ranks have done stays as uneven as it was; the work of the processes, which such a program tells, too, does not.
//
// All ranks know the resolution and the owner of each patch at any time, as both follow from the step.
#include "example.h"

// In libwherry_mpix.so, which only programs whose ranks move are linked with.
int MPIX_Balance(int *moved) __attribute__((weak));
int MPIX_Set_load(double load) __attribute__((weak));
int MPIX_Process(int *process, int *processes) __attribute__((weak));

enum { CELLS = 8, LEVELS = 4, EVERY = 5, SIDES = 4, LONGEST = CELLS << (LEVELS - 1) };

typedef struct edge {
    double cells[LONGEST];
} edge;

typedef struct patch {
    int level;      // CELLS << level in each direction
    double *cells;  // NULL: another rank has it
    edge *edges;    // the neighbors' outermost cells, in this patch's resolution; of SIDES sides
} patch;

typedef struct mesh {
    int across, count;  // patches in a row, in all
    int rank, size;
    bool fixed, balance;
    int sweeps;  // updates in a step, between which edges stay
    int *curve;  // patches in their order along the curve
    int *owner;
    int *mine, own;  // patches that this rank has, and how many
    edge *in, *out;  // for each of their sides
    MPI_Request *requests;
    patch *patches;
    MPI_Comm comm;
    int process, processes;  // that this rank is in; 0: nobody tells
    double *done;            // by process: the cells that this rank has updated there
} mesh;

// ---- What each patch should be.

static int edge_of(int level) {
    return CELLS << level;
}

// The ring's radius grows with the steps; a patch is fine by its distance from it.
static int level_at(const mesh *m, int p, int step) {
    double x = (p % m->across + 0.5) / m->across, y = (p / m->across + 0.5) / m->across;
    double radius = 0.1 + 0.01 * step, away = x * x + y * y - radius * radius;
    away = away < 0 ? -away : away;
    return away < 0.05 ? 3 : away < 0.1 ? 2 : away < 0.2 ? 1 : 0;
}

// The work of a patch: its cells, as each takes part in one update.
static long work(int level) {
    return (long)edge_of(level) * edge_of(level);
}

// morton gives the patches in the order of the Z curve (Morton, 1966): by the bits of x and y in turns, the highest first.
static int *morton(int across) {
    int *order = memory((size_t)across * (size_t)across, sizeof(int)), n = 0, whole = 1;
    while (whole < across)
        whole *= 2;
    for (long code = 0; code < (long)whole * whole; code++) {
        int x = 0, y = 0;
        for (int bit = 0; 1 << bit < whole; bit++) {
            x |= (int)(code >> (2 * bit) & 1) << bit;
            y |= (int)(code >> (2 * bit + 1) & 1) << bit;
        }
        if (x < across && y < across)
            order[n++] = y * across + x;
    }
    return order;
}

// share_out says who has which patch, by the levels of `step`.
static void share_out(mesh *m, int step, int *owner) {
    long all = 0, before = 0;
    for (int p = 0; p < m->count; p++)
        all += work(level_at(m, p, step));
    for (int i = 0; i < m->count; i++) {
        int p = m->curve[i];
        long mine = work(level_at(m, p, step));
        owner[p] = (int)((2 * before + mine) * m->size / (2 * all));
        before += mine;
    }
}

// ---- Patches.

static double *cells_new(int level) {
    return memory((size_t)work(level), sizeof(double));
}

static void patch_begin(patch *p) {
    p->cells = cells_new(p->level);
    p->edges = memory(SIDES, sizeof(edge));
}

static void patch_end(patch *p) {
    free(p->cells);
    free(p->edges);
    p->cells = NULL;
    p->edges = NULL;
}

// Finer cells repeat a coarser one; a coarser one is the mean of finer ones.
static void change_line(const double *from, int from_level, double *to, int to_level) {
    for (int i = 0; i < edge_of(to_level); i++) {
        if (from_level <= to_level) {
            to[i] = from[i >> (to_level - from_level)];
            continue;
        }
        int ratio = 1 << (from_level - to_level);
        double sum = 0;
        for (int k = 0; k < ratio; k++)
            sum += from[i * ratio + k];
        to[i] = sum / ratio;
    }
}

static void change_level(patch *p, int level) {
    if (!p->cells || level == p->level) {
        p->level = level;
        return;
    }
    int was = edge_of(p->level), is = edge_of(level);
    double *cells = cells_new(level), line[LONGEST], column[LONGEST];
    double *half = memory((size_t)was * (size_t)is, sizeof(double));
    for (int y = 0; y < was; y++)
        change_line(&p->cells[y * was], p->level, &half[y * is], level);
    for (int x = 0; x < is; x++) {
        for (int y = 0; y < was; y++)
            column[y] = half[y * is + x];
        change_line(column, p->level, line, level);
        for (int y = 0; y < is; y++)
            cells[y * is + x] = line[y];
    }
    free(half);
    free(p->cells);
    p->cells = cells;
    p->level = level;
}

// ---- Neighbors: above, below, left, right.

static int neighbor(const mesh *m, int p, int side) {
    int x = p % m->across + (side == 3) - (side == 2),
        y = p / m->across + (side == 1) - (side == 0);
    return x < 0 || y < 0 || x >= m->across || y >= m->across ? -1 : y * m->across + x;
}

static void copy_edge(const patch *p, int side, double *to) {
    int n = edge_of(p->level);
    for (int i = 0; i < n; i++) {
        int x = side == 2 ? 0 : side == 3 ? n - 1 : i, y = side == 0 ? 0 : side == 1 ? n - 1 : i;
        to[i] = p->cells[y * n + x];
    }
}

// exchange brings each patch the edges of its neighbors.  The tag is the patch and the side where an edge arrives.
static void exchange(mesh *m) {
    edge *in = m->in, *out = m->out;
    int n = 0;
    for (int i = 0; i < m->own * SIDES; i++) {
        int p = m->mine[i / SIDES], side = i % SIDES, other = side ^ 1;
        int from = neighbor(m, p, side);
        if (from < 0)
            continue;
        if (m->patches[from].cells) {
            copy_edge(&m->patches[from], other, in[i].cells);
            continue;
        }
        copy_edge(&m->patches[p], side, out[i].cells);
        MPI_Irecv(in[i].cells, edge_of(m->patches[from].level), MPI_DOUBLE, m->owner[from],
                  p * SIDES + side, m->comm, &m->requests[n++]);
        MPI_Isend(out[i].cells, edge_of(m->patches[p].level), MPI_DOUBLE, m->owner[from],
                  from * SIDES + other, m->comm, &m->requests[n++]);
    }
    MPI_Waitall(n, m->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < m->own * SIDES; i++) {
        patch *p = &m->patches[m->mine[i / SIDES]];
        int from = neighbor(m, m->mine[i / SIDES], i % SIDES);
        if (from >= 0)
            change_line(in[i].cells, m->patches[from].level, p->edges[i % SIDES].cells, p->level);
    }
}

// update: the border of the square is warm on the left and cold elsewhere.
static void update(patch *p, bool leftmost) {
    int n = edge_of(p->level);
    double *next = cells_new(p->level);
    if (leftmost)
        for (int i = 0; i < n; i++)
            p->edges[2].cells[i] = 1;
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) {
            const double *c = &p->cells[y * n + x];
            double up = y > 0 ? c[-n] : p->edges[0].cells[x],
                   down = y + 1 < n ? c[n] : p->edges[1].cells[x];
            double left = x > 0 ? c[-1] : p->edges[2].cells[y];
            double right = x + 1 < n ? c[1] : p->edges[3].cells[y];
            next[y * n + x] = *c + 0.2 * (up + down + left + right - 4 * *c);
        }
    }
    free(p->cells);
    p->cells = next;
}

// ---- Moving.

// move sends patches to their new owners.  Levels are those of before.
static void move(mesh *m, const int *owner) {
    MPI_Request *requests = memory((size_t)m->count, sizeof(MPI_Request));
    int n = 0;
    for (int p = 0; p < m->count; p++) {
        patch *at = &m->patches[p];
        int cells = (int)work(at->level);
        if (m->owner[p] == m->rank && owner[p] != m->rank) {
            MPI_Isend(at->cells, cells, MPI_DOUBLE, owner[p], p, m->comm, &requests[n++]);
        } else if (m->owner[p] != m->rank && owner[p] == m->rank) {
            patch_begin(at);
            MPI_Irecv(at->cells, cells, MPI_DOUBLE, m->owner[p], p, m->comm, &requests[n++]);
        }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int p = 0; p < m->count; p++) {
        if (m->owner[p] == m->rank && owner[p] != m->rank) {
            patch_end(&m->patches[p]);
        }
        m->owner[p] = owner[p];
    }
    free(requests);
}

static void find_mine(mesh *m) {
    m->own = 0;
    for (int p = 0; p < m->count; p++)
        if (m->patches[p].cells)
            m->mine[m->own++] = p;
    size_t sides = (size_t)m->own * SIDES;
    free(m->in);
    free(m->out);
    free(m->requests);
    m->in = memory(sides, sizeof(edge));
    m->out = memory(sides, sizeof(edge));
    m->requests = memory(2 * sides, sizeof(MPI_Request));
}

static void adapt(mesh *m, int step) {
    int *owner = memory((size_t)m->count, sizeof(int));
    if (!m->fixed) {
        share_out(m, step, owner);
        move(m, owner);
        find_mine(m);
    }
    free(owner);
    if (m->balance && MPIX_Balance) {
        double expected = 0;
        for (int i = 0; i < m->own; i++)
            expected += (double)work(level_at(m, m->mine[i], step));
        MPIX_Set_load(expected);  // what the next steps take, which the last ones do not tell
        MPIX_Balance(NULL);
        MPIX_Process(&m->process, NULL);
    }
    for (int p = 0; p < m->count; p++)
        change_level(&m->patches[p], level_at(m, p, step));
}

// ---- The mesh.

static mesh mesh_new(int across, int sweeps, bool fixed, MPI_Comm comm) {
    mesh m = {
        .across = across, .count = across * across, .sweeps = sweeps, .fixed = fixed, .comm = comm};
    MPI_Comm_rank(comm, &m.rank);
    MPI_Comm_size(comm, &m.size);
    m.curve = morton(across);
    m.owner = memory((size_t)m.count, sizeof(int));
    m.mine = memory((size_t)m.count, sizeof(int));
    m.patches = memory((size_t)m.count, sizeof(patch));
    for (int i = 0; i < m.count; i++)
        m.owner[m.curve[i]] = (int)((long)i * m.size / m.count);
    for (int p = 0; p < m.count; p++)
        if (m.owner[p] == m.rank)
            patch_begin(&m.patches[p]);
    find_mine(&m);
    if (MPIX_Process)
        MPIX_Process(&m.process, &m.processes);
    m.done = memory((size_t)m.processes, sizeof(double));
    return m;
}

static void mesh_free(mesh *m) {
    for (int p = 0; p < m->count; p++)
        patch_end(&m->patches[p]);
    free(m->curve);
    free(m->owner);
    free(m->mine);
    free(m->in);
    free(m->out);
    free(m->requests);
    free(m->patches);
    free(m->done);
}

// run returns the cells that this rank has updated.
static double run(mesh *m, int steps) {
    double updated = 0;
    for (int step = 0; step < steps; step++) {
        double before = updated;
        if (step % EVERY == 0)
            adapt(m, step);
        exchange(m);
        for (int i = 0; i < m->own; i++) {
            for (int sweep = 0; sweep < m->sweeps; sweep++)
                update(&m->patches[m->mine[i]], m->mine[i] % m->across == 0);
            updated += (double)work(m->patches[m->mine[i]].level);
        }
        if (m->processes)
            m->done[m->process] += updated - before;
    }
    return updated;
}

// tell prints how uneven the work was that `n` ranks or processes have done.
static void tell(const char *what, int n, const double *done) {
    double most = 0, all = 0;
    for (int i = 0; i < n; i++) {
        most = done[i] > most ? done[i] : most;
        all += done[i];
    }
    if (n)
        printf("amr: the busiest %s had %.2f times the mean of the work\n", what,
               all > 0 ? most * n / all : 1.0);
}

static void tell_work(const mesh *m, double updated) {
    double *ranks = memory((size_t)m->size, sizeof(double));
    double *processes = memory((size_t)m->processes, sizeof(double));
    MPI_Gather(&updated, 1, MPI_DOUBLE, ranks, 1, MPI_DOUBLE, 0, m->comm);
    MPI_Reduce(m->done, processes, m->processes, MPI_DOUBLE, MPI_SUM, 0, m->comm);
    if (m->rank == 0) {
        tell("rank", m->size, ranks);
        tell("process", m->processes, processes);
    }
    free(ranks);
    free(processes);
}

static uint64_t checksum(const mesh *m) {
    uint64_t sum = 0;
    for (int p = 0; p < m->count; p++)
        for (long i = 0; m->patches[p].cells && i < work(m->patches[p].level); i++)
            sum += mark((uint64_t)p << 32 | (uint64_t)i, m->patches[p].cells[i]);
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    options(argc, argv, "--patches N --steps N --sweeps N --fixed --balance --check");
    int across = number(argc, argv, "--patches", 12, 1, 1000);
    int steps = number(argc, argv, "--steps", 30, 0, 1000000);
    int sweeps = number(argc, argv, "--sweeps", 1, 1, 1000000);
    mesh m = mesh_new(across, sweeps, flag(argc, argv, "--fixed"), MPI_COMM_WORLD);
    m.balance = flag(argc, argv, "--balance");
    double start = MPI_Wtime(), updated = run(&m, steps), seconds = MPI_Wtime() - start;
    tell_work(&m, updated);
    uint64_t sum = total(checksum(&m)), alone = 0;
    bool check = flag(argc, argv, "--check");
    if (check && m.rank == 0) {
        mesh whole = mesh_new(across, sweeps, true, MPI_COMM_SELF);
        run(&whole, steps);
        alone = checksum(&whole);
        mesh_free(&whole);
    }
    mesh_free(&m);
    return finish("amr", sum, check ? &alone : NULL, seconds);
}
