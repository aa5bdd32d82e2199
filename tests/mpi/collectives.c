// SPDX-License-Identifier: BSD-3-Clause
//
// collectives [mixed|brief]
//
// All collectives of MPI_COMM_WORLD against their definitions: blocking, nonblocking and persistent, in place and not, contiguous and with gaps, of
// several sizes.  An error names the collective and the case, and ends the job with 1.  With `mixed` the ranks have another order, so that those of a
// host do not follow each other; `brief` is for many ranks.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Data are units of two numbers.  A unit of `gapped` has one number of nobody's behind each of its own.
enum { MARK = -77, MOST = 1 << 17 };
typedef enum mode { BLOCKING, NONBLOCKING, PERSISTENT, MODES } mode;

static struct {
    const char *name;
    mode mode;
    int units;
    int gaps, in_place, root, start;
} now;
static MPI_Comm comm;
static int rank, size, failures;
static MPI_Datatype gapped;
static MPI_Op affine;
static MPI_Request req = MPI_REQUEST_NULL;
static int *send, *recv;

static void wrong(const char *what, int at) {
    if (failures++ < 5)
        printf("rank %d of %d: %s: %s at %d: mode %d, %d units, gaps %d, in place %d, root %d, "
               "start %d\n",
               rank, size, now.name, what, at, now.mode, now.units, now.gaps, now.in_place,
               now.root, now.start);
}

static void ok(int rc, int line) {
    if (rc != MPI_SUCCESS)
        wrong("an error in line", line);
}
#define OK(call) ok(call, __LINE__)

// One collective in the mode of the case.  A persistent request is made by the first of its starts.
#define CALL(Name, name, ...)                                                                      \
    do {                                                                                           \
        if (now.mode == BLOCKING)                                                                  \
            OK(MPI_##Name(__VA_ARGS__, comm));                                                     \
        else if (now.mode == NONBLOCKING)                                                          \
            OK(MPI_I##name(__VA_ARGS__, comm, &req));                                              \
        else if (now.start == 0)                                                                   \
            OK(MPI_##Name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &req));                         \
        complete();                                                                                \
    } while (0)

static void complete(void) {
    MPI_Status status;
    if (now.mode == PERSISTENT)
        OK(MPI_Start(&req));
    if (now.mode != BLOCKING)
        OK(MPI_Wait(&req, &status));
}

// ---- Data.

static int datum(int from, int block, int i) {
    unsigned x = (unsigned)(from * 7919 + block * 104729 + i * 31 + now.start * 977 + now.units);
    return (int)(x * 2654435761u >> 8);
}
static int width(void) {
    return now.gaps ? 4 : 2;
}
static int step(void) {
    return now.gaps ? 2 : 1;
}
static MPI_Datatype type(void) {
    return now.gaps ? gapped : MPI_INT;
}
static int count(int units) {  // of elements of that type
    return now.gaps ? units : 2 * units;
}

static void clear(int *buf, int units) {
    for (int i = 0; i < units * 4 + 4; i++)
        buf[i] = MARK;
}

// Block `block` of rank `from`, at unit `at`.
static void put(int *buf, int at, int units, int from, int block) {
    for (int i = 0; i < 2 * units; i++)
        buf[at * width() + i * step()] = datum(from, block, i);
}

static void expect(const int *buf, int at, int units, int from, int block) {
    for (int i = 0; i < 2 * units; i++)
        if (buf[at * width() + i * step()] != datum(from, block, i)) {
            wrong("wrong datum", i);
            return;
        }
}

// Behind `units`, and in all gaps, nothing was written.
static void expect_gaps(const int *buf, int units) {
    for (int i = 0; now.gaps && i < units * 2; i++)
        if (buf[2 * i + 1] != MARK) {
            wrong("written into a gap", i);
            return;
        }
    if (buf[units * width()] != MARK)
        wrong("written behind the end", units);
}

static int share(int from, int to) {  // units of a pair, alike both ways
    return (from * to + from + to) % 3 * now.units / 2;
}

// ---- Moving data.

static void test_barrier(void) {
    if (now.mode == BLOCKING)
        OK(MPI_Barrier(comm));
    else if (now.mode == NONBLOCKING)
        OK(MPI_Ibarrier(comm, &req));
    else if (now.start == 0)
        OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &req));
    complete();
}

static void test_bcast(void) {
    clear(recv, now.units);
    if (rank == now.root)
        put(recv, 0, now.units, now.root, 0);
    CALL(Bcast, bcast, recv, count(now.units), type(), now.root);
    expect(recv, 0, now.units, now.root, 0);
    expect_gaps(recv, now.units);
}

static const void *operand(int *buf) {
    return now.in_place ? MPI_IN_PLACE : buf;
}

static void test_gather(void) {
    int n = now.units, all = n * size;
    clear(send, n);
    clear(recv, all);
    put(send, 0, n, rank, 0);
    if (now.in_place && rank == now.root)
        put(recv, rank * n, n, rank, 0);
    const void *from = rank == now.root ? operand(send) : send;
    CALL(Gather, gather, from, count(n), type(), recv, count(n), type(), now.root);
    for (int i = 0; rank == now.root && i < size; i++)
        expect(recv, i * n, n, i, 0);
    expect_gaps(recv, rank == now.root ? all : 0);
}

static void test_scatter(void) {
    int n = now.units, place = now.in_place && rank == now.root;
    clear(send, n * size);
    clear(recv, n);
    for (int i = 0; i < size; i++)
        put(send, i * n, n, now.root, i);
    CALL(Scatter, scatter, send, count(n), type(), place ? MPI_IN_PLACE : recv, count(n), type(),
         now.root);
    expect(place ? send : recv, place ? rank * n : 0, n, now.root, rank);
    expect_gaps(recv, place ? 0 : n);
}

static void test_allgather(void) {
    int n = now.units;
    clear(send, n);
    clear(recv, n * size);
    put(now.in_place ? recv : send, now.in_place ? rank * n : 0, n, rank, 0);
    CALL(Allgather, allgather, operand(send), count(n), type(), recv, count(n), type());
    for (int i = 0; i < size; i++)
        expect(recv, i * n, n, i, 0);
    expect_gaps(recv, n * size);
}

static void test_alltoall(void) {
    int n = now.units;
    clear(send, n * size);
    clear(recv, n * size);
    for (int i = 0; i < size; i++)
        put(now.in_place ? recv : send, i * n, n, rank, i);
    CALL(Alltoall, alltoall, operand(send), count(n), type(), recv, count(n), type());
    for (int i = 0; i < size; i++)
        expect(recv, i * n, n, i, rank);
    expect_gaps(recv, n * size);
}

// Counts and places of blocks, a unit apart; displs in bytes for `bytes`.
typedef struct places {
    int counts[64], displs[64], at[64], units;
    MPI_Datatype types[64];
} places;

static void lay_out(places *p, int (*units)(int), int bytes) {
    p->units = 0;
    for (int i = 0; i < size; i++) {
        p->at[i] = p->units;
        p->counts[i] = count(units(i));
        p->displs[i] = bytes ? p->at[i] * width() * (int)sizeof(int) : count(p->at[i]);
        p->types[i] = type();
        p->units += units(i) + 1;
    }
}

static int of_root(int i) {
    return share(i, now.root);
}
static int of_first(int i) {
    return share(i, 0);
}
static int of_pair(int i) {
    return share(i, rank);
}

static void test_gatherv(void) {
    places p;
    lay_out(&p, of_root, 0);
    int mine = of_root(rank);
    clear(send, mine);
    clear(recv, p.units);
    put(send, 0, mine, rank, 0);
    if (now.in_place && rank == now.root)
        put(recv, p.at[rank], mine, rank, 0);
    const void *from = rank == now.root ? operand(send) : send;
    CALL(Gatherv, gatherv, from, count(mine), type(), recv, p.counts, p.displs, type(), now.root);
    for (int i = 0; rank == now.root && i < size; i++)
        expect(recv, p.at[i], of_root(i), i, 0);
    expect_gaps(recv, rank == now.root ? p.units : 0);
}

static void test_scatterv(void) {
    places p;
    lay_out(&p, of_root, 0);
    int mine = of_root(rank), place = now.in_place && rank == now.root;
    clear(send, p.units);
    clear(recv, mine);
    for (int i = 0; i < size; i++)
        put(send, p.at[i], of_root(i), now.root, i);
    CALL(Scatterv, scatterv, send, p.counts, p.displs, type(), place ? MPI_IN_PLACE : recv,
         count(mine), type(), now.root);
    expect(place ? send : recv, place ? p.at[rank] : 0, mine, now.root, rank);
    expect_gaps(recv, place ? 0 : mine);
}

static void test_allgatherv(void) {
    places p;
    lay_out(&p, of_first, 0);
    int mine = of_first(rank);
    clear(send, mine);
    clear(recv, p.units);
    put(now.in_place ? recv : send, now.in_place ? p.at[rank] : 0, mine, rank, 0);
    CALL(Allgatherv, allgatherv, operand(send), count(mine), type(), recv, p.counts, p.displs,
         type());
    for (int i = 0; i < size; i++)
        expect(recv, p.at[i], of_first(i), i, 0);
    expect_gaps(recv, p.units);
}

static void exchange(int typed) {
    places p = {0};
    lay_out(&p, of_pair, typed);
    clear(send, p.units);
    clear(recv, p.units);
    for (int i = 0; i < size; i++)
        put(now.in_place ? recv : send, p.at[i], of_pair(i), rank, i);
    if (typed)
        CALL(Alltoallw, alltoallw, operand(send), p.counts, p.displs, p.types, recv, p.counts,
             p.displs, p.types);
    else
        CALL(Alltoallv, alltoallv, operand(send), p.counts, p.displs, type(), recv, p.counts,
             p.displs, type());
    memset(p.counts, 0x7f, sizeof(p.counts));  // the arrays are the call's only
    for (int i = 0; i < size; i++)
        expect(recv, p.at[i], of_pair(i), i, rank);
    expect_gaps(recv, p.units);
}

static void test_alltoallv(void) {
    exchange(0);
}
static void test_alltoallw(void) {
    exchange(1);
}

// ---- Reductions: sums of numbers, and with gaps compositions of maps a x + b, for which the order counts.

static void compose(const int *in, int *inout, int step_of) {
    unsigned a = (unsigned)in[0], b = (unsigned)in[step_of];
    unsigned c = (unsigned)inout[0], d = (unsigned)inout[step_of];
    inout[0] = (int)(a * c);
    inout[step_of] = (int)(a * d + b);
}

static void compose_units(void *in, void *inout, int *n, MPI_Datatype *of) {
    if (*of != gapped)
        wrong("not the type of the call", 0);
    for (int i = 0; i < *n; i++)
        compose((int *)in + 4 * i, (int *)inout + 4 * i, 2);
}

static MPI_Op op(void) {
    return now.gaps ? affine : MPI_SUM;
}

// What ranks first .. last come to, unit i.
static void reduced(int first, int last, int i, int *out) {
    out[0] = datum(last, 0, 2 * i);
    out[1] = datum(last, 0, 2 * i + 1);
    for (int r = last - 1; r >= first; r--) {
        int in[2] = {datum(r, 0, 2 * i), datum(r, 0, 2 * i + 1)};
        if (now.gaps) {
            compose(in, out, 1);
        } else {
            out[0] = (int)((unsigned)out[0] + (unsigned)in[0]);
            out[1] = (int)((unsigned)out[1] + (unsigned)in[1]);
        }
    }
}

static void expect_reduced(const int *buf, int units, int skip, int last) {
    for (int i = 0; i < units; i++) {
        int out[2];
        reduced(0, last, skip + i, out);
        if (buf[i * width()] != out[0] || buf[i * width() + step()] != out[1]) {
            wrong("wrong result", i);
            return;
        }
    }
}

static void put_operand(int units) {
    clear(send, units);
    clear(recv, units);
    put(now.in_place ? recv : send, 0, units, rank, 0);
}

static void test_reduce(void) {
    int n = now.units, is_root = rank == now.root;
    put_operand(n);
    put(is_root && now.in_place ? recv : send, 0, n, rank, 0);
    CALL(Reduce, reduce, is_root ? operand(send) : send, is_root ? recv : NULL, count(n), type(),
         op(), now.root);
    if (is_root)
        expect_reduced(recv, n, 0, size - 1);
    expect_gaps(recv, n);
}

static void test_allreduce(void) {
    int n = now.units;
    put_operand(n);
    CALL(Allreduce, allreduce, operand(send), recv, count(n), type(), op());
    expect_reduced(recv, n, 0, size - 1);
    expect_gaps(recv, n);
}

static void test_reduce_scatter_block(void) {
    int n = now.units;
    put_operand(n * size);
    CALL(Reduce_scatter_block, reduce_scatter_block, operand(send), recv, count(n), type(), op());
    expect_reduced(recv, n, n * rank, size - 1);
    expect_gaps(recv, now.in_place ? n * size : n);
}

static void test_reduce_scatter(void) {
    int counts[64], units = 0, skip = 0;
    for (int i = 0; i < size; i++) {
        counts[i] = count(of_first(i));
        skip += i < rank ? of_first(i) : 0;
        units += of_first(i);
    }
    put_operand(units);
    CALL(Reduce_scatter, reduce_scatter, operand(send), recv, counts, type(), op());
    expect_reduced(recv, of_first(rank), skip, size - 1);
    expect_gaps(recv, now.in_place ? units : of_first(rank));
}

static void test_scan(void) {
    put_operand(now.units);
    CALL(Scan, scan, operand(send), recv, count(now.units), type(), op());
    expect_reduced(recv, now.units, 0, rank);
    expect_gaps(recv, now.units);
}

static void test_exscan(void) {
    put_operand(now.units);
    CALL(Exscan, exscan, operand(send), recv, count(now.units), type(), op());
    if (rank > 0)
        expect_reduced(recv, now.units, 0, rank - 1);
    expect_gaps(recv, now.units);
}

// ---- All cases.

static const struct {
    const char *name;
    void (*test)(void);
    int rooted, place;
} tests[] = {
    {"barrier", test_barrier, 0, 0},
    {"bcast", test_bcast, 1, 0},
    {"gather", test_gather, 1, 1},
    {"gatherv", test_gatherv, 1, 1},
    {"scatter", test_scatter, 1, 1},
    {"scatterv", test_scatterv, 1, 1},
    {"allgather", test_allgather, 0, 1},
    {"allgatherv", test_allgatherv, 0, 1},
    {"alltoall", test_alltoall, 0, 1},
    {"alltoallv", test_alltoallv, 0, 1},
    {"alltoallw", test_alltoallw, 0, 1},
    {"reduce", test_reduce, 1, 1},
    {"allreduce", test_allreduce, 0, 1},
    {"reduce_scatter_block", test_reduce_scatter_block, 0, 1},
    {"reduce_scatter", test_reduce_scatter, 0, 1},
    {"scan", test_scan, 0, 1},
    {"exscan", test_exscan, 0, 1},
};

static void one_case(void (*test)(void)) {
    for (now.start = 0; now.start < (now.mode == PERSISTENT ? 2 : 1); now.start++)
        test();
    if (req != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&req));
}

static void all_cases(bool brief) {
    static const int sizes[] = {0, 1, 3, 40, 500, 7000};
    for (size_t t = 0; t < sizeof(tests) / sizeof(*tests); t++)
        for (size_t s = 0; s < (brief ? 3 : sizeof(sizes) / sizeof(*sizes)); s++)
            for (int c = 0; c < (brief ? 1 : MODES) * 4; c++) {
                now.name = tests[t].name;
                now.units = sizes[s];
                now.mode = (mode)(c / 4);
                now.gaps = c / 2 % 2;
                now.in_place = c % 2 && tests[t].place;
                now.root = tests[t].rooted ? (int)(s + (size_t)c) % size : 0;
                one_case(tests[t].test);
            }
}

// Sums of doubles: whatever the order, all ranks get the same bits.
static void same_bits(void) {
    now.name = "allreduce of doubles";
    for (int n = 1; n < 1 << 16; n = 3 * n + 1) {
        double *in = malloc(sizeof(*in) * (size_t)n), *out = malloc(sizeof(*out) * (size_t)n);
        for (int i = 0; i < n; i++)
            in[i] = 1.0 / (1 + datum(rank, 0, i));
        OK(MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm));
        memcpy(in, out, sizeof(*in) * (size_t)n);
        OK(MPI_Bcast(in, n, MPI_DOUBLE, 0, comm));
        if (memcmp(in, out, sizeof(*in) * (size_t)n) != 0)
            wrong("other bits than rank 0", n);
        free(in);
        free(out);
    }
}

// Ten at once, waited for in another order than they began.
static void at_once(void) {
    MPI_Request all[10];
    int out[10], in = rank + 1;
    now.name = "ten at once";
    for (int i = 0; i < 10; i++)
        OK(MPI_Iallreduce(&in, &out[i], 1, MPI_INT, i % 2 ? MPI_MAX : MPI_SUM, comm, &all[i]));
    for (int i = 0; i < 10; i++)
        OK(MPI_Wait(&all[(i * 7 + 3 * rank) % 10], MPI_STATUS_IGNORE));
    for (int i = 0; i < 10; i++)
        if (out[i] != (i % 2 ? size : size * (size + 1) / 2))
            wrong("wrong result", i);
}

// Ranks start persistent collectives in the order that they like.
static void any_order(void) {
    MPI_Request request[2];
    int from[2] = {0, size - 1}, got[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        OK(MPI_Bcast_init(&got[i], 1, MPI_INT, from[i], comm, MPI_INFO_NULL, &request[i]));
    for (int round = 1; round < 20; round++) {
        for (int i = 0; i < 2; i++)
            got[i] = rank == from[i] ? 100 * round + i : 0;
        OK(MPI_Start(&request[(rank + round) % 2]));
        OK(MPI_Start(&request[(rank + round + 1) % 2]));
        OK(MPI_Waitall(2, request, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 2; i++)
            if (got[i] != 100 * round + i)
                wrong("a persistent broadcast", i);
    }
    for (int i = 0; i < 2; i++)
        OK(MPI_Request_free(&request[i]));
}

// What a call must refuse, or tell of, without hanging anybody.
static void mistakes(void) {
    int in[64] = {0}, out[64] = {0}, error = 0;
    now.name = "mistakes";
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (MPI_Allreduce(in, in, 1, MPI_INT, MPI_SUM, comm) != MPI_ERR_BUFFER)
        wrong("one buffer twice", 0);
    if (MPI_Allreduce(NULL, out, 1, MPI_INT, MPI_SUM, comm) != MPI_ERR_BUFFER)
        wrong("no operand", 0);
    if (MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_BAND, comm) != MPI_ERR_OP)
        wrong("bits of a float", 0);
    if (MPI_Gather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, rank, comm) != MPI_ERR_BUFFER)
        wrong("a result in place", 0);
    if (size == 1)
        return;
    // Ranks that have it from another one than the root may get the part that this one could take.
    error = MPI_Bcast(in, rank == 0 ? 64 : 32, MPI_INT, 0, comm);
    if (rank < 2 && error != (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE))
        wrong("a broadcast that is too long", error);
    MPI_Request request;
    OK(MPI_Ibcast(in, rank == 0 ? 64 : 32, MPI_INT, 0, comm, &request));
    error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank < 2 && error != (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE))
        wrong("a broadcast that is too long", error);
    OK(MPI_Barrier(comm));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "";
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    if (strcmp(how, "mixed") == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, (3 * rank + 1) % 7, &comm);
        MPI_Comm_rank(comm, &rank);
    }
    MPI_Comm_size(comm, &size);
    MPI_Datatype vector;
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 4 * (MPI_Aint)sizeof(int), &gapped);
    MPI_Type_commit(&gapped);
    MPI_Type_free(&vector);
    MPI_Op_create(compose_units, 0, &affine);
    size_t room = sizeof(int) * (size_t)(4 * (7001 * (size + 1)) + MOST);
    send = malloc(room);
    recv = malloc(room);
    all_cases(strcmp(how, "brief") == 0);
    same_bits();
    at_once();
    any_order();
    mistakes();
    MPI_Op_free(&affine);
    MPI_Type_free(&gapped);
    free(send);
    free(recv);
    int total = 0;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    MPI_Finalize();
    return total > 0;
}
