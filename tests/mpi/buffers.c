// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers in device memory: messages, vectors, packing, reductions by predefined and own operations, collectives before and after they go
// through shared memory, one-sided accesses.  The argument is the kind of memory, sim or cuda.  An error names the check and ends the job with 1.
#include "buffers.h"

#include <stdbool.h>
#include <string.h>

enum { N = 3000, ROUNDS = 12, LARGE = 40000 };

static void messages(int count) {
    int *out = device_new((size_t)count * sizeof(int)),
        *in = device_new((size_t)count * sizeof(int));
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    fill(out, count, rank);
    fill(in, count, -1);
    MPI_Sendrecv(out, count, MPI_INT, next, 1, in, count, MPI_INT, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(in, count, before, 1, 1, "a message");
    // Two of three numbers.
    MPI_Datatype vector;
    MPI_Type_vector(count / 3, 2, 3, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    fill(in, count / 3 * 3, -1);
    MPI_Sendrecv(out, 1, vector, next, 2, in, 1, vector, before, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(in, count / 3 * 3, before, 2, 3, "a vector");
    // An unexpected one, and one that waits for its receiver.
    MPI_Request request[2];
    fill(in, count, -1);
    MPI_Isend(out, count, MPI_INT, next, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(in, count, MPI_INT, before, 3, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    expect(in, count, before, 1, 1, "an unexpected message");
    // Packed into host memory, and from there into the device's.
    int *packed = malloc((size_t)count * sizeof(int));
    int at = 0;
    MPI_Pack(out, 1, vector, packed, count * (int)sizeof(int), &at, MPI_COMM_WORLD);
    check(at == count / 3 * 2 * (int)sizeof(int), "the size of a pack", at);
    fill(in, count / 3 * 3, -1);
    int end = at;
    at = 0;
    MPI_Unpack(packed, end, &at, in, 1, vector, MPI_COMM_WORLD);
    expect(in, count / 3 * 3, rank, 2, 3, "an unpack");
    free(packed);
    MPI_Type_free(&vector);
    device_free(out);
    device_free(in);
}

// ---- Reductions.

static void affine(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    const int *a = in;
    int *b = inout;
    for (int i = 0; i < *count; i++)
        b[i] = 3 * a[i] + b[i];
}

// What ranks 0 to `last` come to at an index.
static int combined(bool own, int last, int i) {
    int result = value(0, i);
    for (int r = 1; r <= last; r++)
        result = (own ? 3 * result : result) + value(r, i);
    return result;
}

static void expect_combined(const int *device, int count, int first, bool own, int last,
                            const char *what) {
    int *host = malloc((size_t)count * sizeof(int) + 1);
    to_host(host, device, (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        check(host[i] == combined(own, last, first + i), what, i);
    free(host);
}

static void reductions(int count, MPI_Op op, bool own) {
    int *in = device_new((size_t)count * sizeof(int)),
        *out = device_new((size_t)count * sizeof(int));
    fill(in, count, rank);
    int root = size - 1;
    MPI_Reduce(in, out, count, MPI_INT, op, root, MPI_COMM_WORLD);
    if (rank == root)
        expect_combined(out, count, 0, own, size - 1, "a reduce");
    MPI_Allreduce(in, out, count, MPI_INT, op, MPI_COMM_WORLD);
    expect_combined(out, count, 0, own, size - 1, "an allreduce");
    fill(out, count, rank);
    MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_INT, op, MPI_COMM_WORLD);
    expect_combined(out, count, 0, own, size - 1, "an allreduce in place");
    MPI_Scan(in, out, count, MPI_INT, op, MPI_COMM_WORLD);
    expect_combined(out, count, 0, own, rank, "a scan");
    int part = count / size;
    MPI_Reduce_scatter_block(in, out, part, MPI_INT, op, MPI_COMM_WORLD);
    expect_combined(out, part, part * rank, own, size - 1, "a reduce_scatter_block");
    device_free(in);
    device_free(out);
}

// Elements that the engine does not compute with, and those with gaps.
static void odd_elements(void) {
    struct pair {
        double value;
        int at;
    } pairs[64], result[64];
    memset(pairs, 0, sizeof(pairs));
    for (int i = 0; i < 64; i++)
        pairs[i] = (struct pair){i + rank, rank};
    struct pair *in = device_new(sizeof(pairs)), *out = device_new(sizeof(pairs));
    to_device(in, pairs, sizeof(pairs));
    MPI_Allreduce(in, out, 64, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    to_host(result, out, sizeof(result));
    for (int i = 0; i < 64; i++)
        check(result[i].value == i + size - 1 && result[i].at == size - 1, "a maxloc", i);
    device_free(in);
    device_free(out);
    int bytes;
    MPI_Type_size(MPI_COMPLEX32, &bytes);
    if (bytes != 2 * (int)sizeof(__float128))
        return;
    __float128 wide[600], sum[600];
    for (int i = 0; i < 600; i++)
        wide[i] = i + rank;
    void *from = device_new(sizeof(wide)), *to = device_new(sizeof(wide));
    to_device(from, wide, sizeof(wide));
    to_device(to, wide, sizeof(wide));
    MPI_Reduce_local(from, to, 300, MPI_COMPLEX32, MPI_SUM);
    to_host(sum, to, sizeof(sum));
    for (int i = 0; i < 600; i++)
        check(sum[i] == 2 * wide[i], "a sum of 16-byte reals", i);
    device_free(from);
    device_free(to);
}

// ---- Data that move.

static void moving(int count) {
    size_t bytes = (size_t)count * sizeof(int);
    int *one = device_new(bytes), *all = device_new(bytes * (size_t)size),
        *other = device_new(bytes * (size_t)size);
    for (int root = 0; root < size; root++) {
        fill(one, count, rank == root ? root : -1);
        MPI_Bcast(one, count, MPI_INT, root, MPI_COMM_WORLD);
        expect(one, count, root, 1, 1, "a bcast");
    }
    fill(one, count, rank);
    MPI_Allgather(one, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        expect(all + r * count, count, r, 1, 1, "an allgather");
    for (int r = 0; r < size; r++)
        fill(other + r * count, count, rank + 10 * r);
    MPI_Alltoall(other, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        expect(all + r * count, count, r + 10 * rank, 1, 1, "an alltoall");
    device_free(one);
    device_free(all);
    device_free(other);
}

// ---- One-sided.

static void accesses(int count) {
    size_t bytes = (size_t)count * sizeof(int);
    int *memory = device_new(bytes), *buf = device_new(bytes);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Win win;
    MPI_Win_create(memory, (MPI_Aint)bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    fill(memory, count, -1);
    fill(buf, count, rank);
    MPI_Win_fence(0, win);
    MPI_Put(buf, count, MPI_INT, next, 0, count, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect(memory, count, before, 1, 1, "a put");
    fill(buf, count, -1);
    MPI_Win_fence(0, win);
    MPI_Get(buf, count, MPI_INT, next, 0, count, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect(buf, count, rank, 1, 1, "a get");
    fill(memory, count, 0);
    fill(buf, count, 1);
    MPI_Win_fence(0, win);
    for (int r = 0; r < size; r++)
        MPI_Accumulate(buf, count, MPI_INT, r, 0, count, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    int *host = malloc(bytes);
    to_host(host, memory, bytes);
    for (int i = 0; i < count; i++)
        check(host[i] == value(0, i) + size * value(1, i), "an accumulate", i);
    MPI_Win_fence(0, win);
    // Each rank's own part of its neighbour: what was there comes back.
    fill(memory, count, rank);
    MPI_Win_fence(0, win);
    int *result = device_new(bytes);
    MPI_Get_accumulate(buf, count, MPI_INT, result, count, MPI_INT, next, 0, count, MPI_INT,
                       MPI_SUM, win);
    MPI_Win_fence(0, win);
    expect(result, count, next, 1, 1, "the result of a get_accumulate");
    to_host(host, memory, bytes);
    for (int i = 0; i < count; i++)
        check(host[i] == value(rank, i) + value(1, i), "a get_accumulate", i);
    MPI_Win_fence(0, win);
    free(host);
    device_free(result);

    // All count at rank 0, and one of them finds what it expects.
    int zero = 0, one = 1, old = -1, mine = 100 + rank;
    fill(memory, count, rank == 0 ? 0 : -1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 5, MPI_SUM, win);
    MPI_Win_flush(0, win);
    check(old >= value(0, 5) && old < value(0, 5) + size, "a fetch_and_op", old);
    MPI_Compare_and_swap(&mine, &zero, &old, MPI_INT, 0, 0, win);
    MPI_Win_flush(0, win);
    check(old == 0 || (old >= 100 && old < 100 + size), "a compare_and_swap", old);
    MPI_Win_unlock_all(win);
    int won = old == 0, winners;
    MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(winners == 1, "who has swapped", winners);
    if (rank == 0) {
        int six[6];
        to_host(six, memory, sizeof(six));
        check(six[5] == value(0, 5) + size, "what was counted", six[5]);
        check(six[0] >= 100 && six[0] < 100 + size, "what was swapped", six[0]);
    }
    MPI_Win_free(&win);
    device_free(memory);
    device_free(buf);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Op own;
    MPI_Op_create(affine, 0, &own);
    messages(N);
    messages(LARGE);
    for (int i = 0; i < ROUNDS; i++) {
        int count = i % 3 == 0 ? 60 : i % 3 == 1 ? N : LARGE;
        moving(count);
        reductions(count, MPI_SUM, false);
        reductions(count, own, true);
    }
    odd_elements();
    accesses(6);
    accesses(N);
    accesses(LARGE);
    MPI_Op_free(&own);
    return end();
}
