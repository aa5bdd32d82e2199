// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers in device memory of what goes on beside the program: nonblocking and persistent collectives, many at a time; and windows, accessed with
// layouts on both sides, of which each may be the device's or the host's.
#include "buffers.h"

#include <string.h>

enum { OPS = 14, ROUNDS = 3, FURTHER = 10 };

// ---- Collectives.

static struct {
    int *word, *one, *gathered, *scattered, *piece, *spread, *all, *all_in, *reduced, *summed,
        *scanned, *before, *part, *apart_out, *apart_in;
} b;
static MPI_Datatype every_other;  // an int and as much that is nobody's
static int *counts, *places, *bytes_at;
static MPI_Datatype *types;

static int *device_ints(int count) {
    int *p = device_new((size_t)count * sizeof(int));
    fill(p, count, -1);
    return p;
}

static void make(int count) {
    b.word = device_ints(count);
    b.one = device_ints(count);
    b.gathered = device_ints(count * size);
    b.scattered = device_ints(count * size);
    b.piece = device_ints(count);
    b.spread = device_ints(2 * count * size);
    b.all = device_ints(count * size);
    b.all_in = device_ints(count * size);
    b.reduced = device_ints(count);
    b.summed = device_ints(count);
    b.scanned = device_ints(count);
    b.before = device_ints(count);
    b.part = device_ints(count);
    b.apart_out = device_ints(2 * count * size);
    b.apart_in = device_ints(2 * count * size);
    counts = calloc((size_t)size, sizeof(int));
    places = calloc((size_t)size, sizeof(int));
    bytes_at = calloc((size_t)size, sizeof(int));
    types = calloc((size_t)size, sizeof(MPI_Datatype));
    for (int r = 0; r < size; r++) {
        counts[r] = count;
        places[r] = (size - 1 - r) * count;  // the last rank's first
        bytes_at[r] = 2 * places[r] * (int)sizeof(int);
        types[r] = every_other;
    }
}

static void unmake(void) {
    int *all[] = {b.word,    b.one,    b.gathered, b.scattered, b.piece,
                  b.spread,  b.all,    b.all_in,   b.reduced,   b.summed,
                  b.scanned, b.before, b.part,     b.apart_out, b.apart_in};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        device_free(all[i]);
    free(counts);
    free(places);
    free(bytes_at);
    free(types);
}

static void fill_all(int count, int more) {
    fill(b.word, count, rank == 0 ? more : -1);
    fill(b.one, count, rank + more);
    fill(b.gathered, count * size, -1);
    fill(b.piece, count, -1);
    fill(b.spread, 2 * count * size, -1);
    fill(b.all_in, count * size, -1);
    fill(b.summed, count, rank + more);
    fill(b.apart_in, 2 * count * size, -1);
    for (int r = 0; r < size; r++) {
        fill(b.scattered + r * count, count, r + more);
        fill(b.all + places[r], count, FURTHER * rank + r + more);
        fill(b.apart_out + 2 * places[r], 2 * count, FURTHER * rank + r + more);
    }
}

#define BEGIN(now, later, ...)                                                                     \
    check((persistent                                                                              \
               ? MPI_##later##_init(__VA_ARGS__, MPI_COMM_WORLD, MPI_INFO_NULL, &request[n])       \
               : MPI_##now(__VA_ARGS__, MPI_COMM_WORLD, &request[n])) == MPI_SUCCESS,              \
          #now, n),                                                                                \
        n++

static int start_all(int count, bool persistent, MPI_Request *request) {
    int n = 0, last = size - 1;
    BEGIN(Ibcast, Bcast, b.word, count, MPI_INT, 0);
    BEGIN(Igather, Gather, b.one, count, MPI_INT, b.gathered, count, MPI_INT, last);
    BEGIN(Iscatter, Scatter, b.scattered, count, MPI_INT, b.piece, count, MPI_INT, last);
    BEGIN(Iallgather, Allgather, b.one, count, MPI_INT, b.spread, count, every_other);
    BEGIN(Ialltoallv, Alltoallv, b.all, counts, places, MPI_INT, b.all_in, counts, places, MPI_INT);
    BEGIN(Ireduce, Reduce, b.one, b.reduced, count, MPI_INT, MPI_SUM, last);
    BEGIN(Iallreduce, Allreduce, MPI_IN_PLACE, b.summed, count, MPI_INT, MPI_SUM);
    BEGIN(Iscan, Scan, b.one, b.scanned, count, MPI_INT, MPI_SUM);
    BEGIN(Iexscan, Exscan, b.one, b.before, count, MPI_INT, MPI_SUM);
    BEGIN(Ireduce_scatter_block, Reduce_scatter_block, b.one, b.part, count / size, MPI_INT,
          MPI_SUM);
    BEGIN(Ialltoallw, Alltoallw, b.apart_out, counts, bytes_at, types, b.apart_in, counts, bytes_at,
          types);
    return n;
}

// What ranks `first` to `last` come to.
static void expect_sum(const int *device, int begin, int count, int first, int last, int more,
                       const char *what) {
    int *host = malloc((size_t)count * sizeof(int) + 1);
    to_host(host, device, (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int r = first; r <= last; r++)
            sum += value(r + more, begin + i);
        check(host[i] == sum, what, i);
    }
    free(host);
}

static void expect_apart(const int *device, int count, int of, const char *what, bool whole) {
    int *host = malloc((size_t)count * 2 * sizeof(int));
    to_host(host, device, (size_t)count * 2 * sizeof(int));
    for (int i = 0; i < 2 * count; i++)
        check(host[i] == (i % 2 ? GAP : value(of, whole ? i : i / 2)), what, i);
    free(host);
}

static void expect_all(int count, int more) {
    expect(b.word, count, more, 1, 1, "a bcast");
    expect(b.piece, count, rank + more, 1, 1, "a scatter");
    for (int r = 0; r < size; r++) {
        if (rank == size - 1)
            expect(b.gathered + r * count, count, r + more, 1, 1, "a gather");
        expect_apart(b.spread + 2 * r * count, count, r + more, "an allgather with gaps", false);
        expect(b.all_in + places[r], count, FURTHER * r + rank + more, 1, 1, "an alltoallv");
        expect_apart(b.apart_in + 2 * places[r], count, FURTHER * r + rank + more,
                     "an alltoallw with gaps", true);
    }
    if (rank == size - 1)
        expect_sum(b.reduced, 0, count, 0, size - 1, more, "a reduce");
    expect_sum(b.summed, 0, count, 0, size - 1, more, "an allreduce");
    expect_sum(b.scanned, 0, count, 0, rank, more, "a scan");
    if (rank)
        expect_sum(b.before, 0, count, 0, rank - 1, more, "an exscan");
    expect_sum(b.part, rank * (count / size), count / size, 0, size - 1, more,
               "a reduce_scatter_block");
}

static void collectives(int count, bool persistent) {
    MPI_Request request[OPS];
    int n = 0;
    make(count);
    if (persistent)
        n = start_all(count, true, request);
    for (int round = 0; round < ROUNDS; round++) {
        fill_all(count, 100 * round);
        if (persistent)
            MPI_Startall(n, request);
        else
            n = start_all(count, false, request);
        check(MPI_Waitall(n, request, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "waiting", round);
        expect_all(count, 100 * round);
    }
    for (int i = 0; persistent && i < n; i++)
        MPI_Request_free(&request[i]);
    unmake();
}

// ---- Windows.

// Memory of the device, or of the host: what is behind an access is not to matter.
typedef struct memory {
    int *at;
    bool device;
} memory;

static memory memory_new(int count, bool device) {
    memory m = {device ? device_new((size_t)count * sizeof(int))
                       : malloc((size_t)count * sizeof(int)),
                device};
    return m;
}

static void memory_free(memory m) {
    if (m.device)
        device_free(m.at);
    else
        free(m.at);
}

static void put_in(memory m, const int *host, int count) {
    if (m.device)
        to_device(m.at, host, (size_t)count * sizeof(int));
    else
        memcpy(m.at, host, (size_t)count * sizeof(int));
}

static void take_out(int *host, memory m, int count) {
    if (m.device)
        to_host(host, m.at, (size_t)count * sizeof(int));
    else
        memcpy(host, m.at, (size_t)count * sizeof(int));
}

static void fill_memory(memory m, int count, int of) {
    int *host = malloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        host[i] = of < 0 ? GAP : value(of, i);
    put_in(m, host, count);
    free(host);
}

typedef enum epoch { FENCE, LOCK, POSTED } epoch;
static MPI_Group neighbours[2];  // whom this rank accesses, who accesses it

static void open_epoch(epoch how, int target, MPI_Win win) {
    if (how == FENCE) {
        MPI_Win_fence(0, win);
    } else if (how == LOCK) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    } else {
        MPI_Win_post(neighbours[1], 0, win);
        MPI_Win_start(neighbours[0], 0, win);
    }
}

static void close_epoch(epoch how, int target, MPI_Win win) {
    if (how == FENCE) {
        MPI_Win_fence(0, win);
    } else if (how == LOCK) {
        MPI_Win_unlock(target, win);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
}

// Of `third` times three numbers: put takes two of three and writes one of two, with a displacement of one at the target; get and the accumulates likewise.
static void accesses(int thirds, epoch how, bool device_origin, bool device_target) {
    int whole = 3 * thirds, n = 2 * thirds, room = 2 * n + 1;
    int target = (rank + 1) % size, origin = (rank + size - 1) % size;
    memory mine = memory_new(whole, device_origin), result = memory_new(whole, device_origin),
           there = memory_new(room, device_target);
    int *host = malloc((size_t)room * sizeof(int)), *back = malloc((size_t)whole * sizeof(int));
    MPI_Datatype two_of_three, one_of_two;
    MPI_Win win;
    MPI_Type_vector(thirds, 2, 3, MPI_INT, &two_of_three);
    MPI_Type_commit(&two_of_three);
    MPI_Type_vector(n, 1, 2, MPI_INT, &one_of_two);
    MPI_Type_commit(&one_of_two);
    MPI_Win_create(there.at, (MPI_Aint)room * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);

    fill_memory(mine, whole, rank);
    fill_memory(there, room, -1);
    open_epoch(how, target, win);
    MPI_Put(mine.at, 1, two_of_three, target, 1, 1, one_of_two, win);
    close_epoch(how, target, win);
    take_out(host, there, room);
    for (int i = 0; i < room; i++) {
        int k = (i - 1) / 2, at = k / 2 * 3 + k % 2;  // of the origin's numbers
        check(host[i] == (i % 2 ? value(origin, at) : GAP), "a put of a layout into one", i);
    }

    fill_memory(result, whole, -1);
    open_epoch(how, target, win);
    MPI_Get(result.at, 1, two_of_three, target, 1, 1, one_of_two, win);
    close_epoch(how, target, win);
    take_out(back, result, whole);
    for (int i = 0; i < whole; i++)
        check(back[i] == (i % 3 < 2 ? value(rank, i) : GAP), "a get of a layout into one", i);

    // The sum, and its result before; then it is replaced.
    open_epoch(how, target, win);
    MPI_Accumulate(mine.at, 1, two_of_three, target, 1, 1, one_of_two, MPI_SUM, win);
    close_epoch(how, target, win);
    fill_memory(result, whole, -1);
    open_epoch(how, target, win);
    MPI_Get_accumulate(mine.at, 1, two_of_three, result.at, 1, two_of_three, target, 1, 1,
                       one_of_two, MPI_REPLACE, win);
    close_epoch(how, target, win);
    take_out(back, result, whole);
    for (int i = 0; i < whole; i++)
        check(back[i] == (i % 3 < 2 ? 2 * value(rank, i) : GAP), "what an accumulate has left", i);
    take_out(host, there, room);
    for (int i = 0; i < room; i++) {
        int k = (i - 1) / 2, at = k / 2 * 3 + k % 2;
        check(host[i] == (i % 2 ? value(origin, at) : GAP), "a get_accumulate that replaces", i);
    }
    MPI_Win_free(&win);
    MPI_Type_free(&two_of_three);
    MPI_Type_free(&one_of_two);
    memory_free(mine);
    memory_free(result);
    memory_free(there);
    free(host);
    free(back);
}

// Requests of accesses, in a window that memory is attached to.
static void attached(int count) {
    int *behind = device_ints(count), *out = device_ints(count), *in = device_ints(count);
    int target = (rank + 1) % size;
    MPI_Aint *where = calloc((size_t)size, sizeof(*where));
    MPI_Datatype half;
    MPI_Request request;
    MPI_Win win;
    MPI_Type_vector(count / 2, 1, 2, MPI_INT, &half);
    MPI_Type_commit(&half);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, behind, (MPI_Aint)count * (MPI_Aint)sizeof(int));
    MPI_Get_address(behind, &where[rank]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, where, 1, MPI_AINT, MPI_COMM_WORLD);
    fill(out, count, rank);
    MPI_Win_lock_all(0, win);
    MPI_Rput(out, 1, half, target, where[target], 1, half, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(target, win);
    MPI_Rget(in, 1, half, target, where[target], 1, half, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(in, count / 2 * 2, rank, 1, 2, "a get by request");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    expect(behind, count / 2 * 2, (rank + size - 1) % size, 1, 2, "a put by request");
    MPI_Win_detach(win, behind);
    MPI_Win_free(&win);
    MPI_Type_free(&half);
    device_free(behind);
    device_free(out);
    device_free(in);
    free(where);
}

// Blocks of one, two and three numbers with gaps of one and two, at the target: its description does not fit into the head of a message.
static void irregular(int blocks, bool reads) {
    int *lengths = malloc((size_t)blocks * sizeof(int)), *at = malloc((size_t)blocks * sizeof(int)),
        n = 0, room = 0;
    int target = (rank + 1) % size, origin = (rank + size - 1) % size;
    for (int i = 0; i < blocks; i++) {
        at[i] = room;
        lengths[i] = 1 + i * i % 3;
        n += lengths[i];
        room += lengths[i] + 1 + i % 2;
    }
    int *there = device_ints(room), *mine = device_ints(n),
        *host = malloc((size_t)room * sizeof(int));
    MPI_Datatype type;
    MPI_Win win;
    MPI_Type_indexed(blocks, lengths, at, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Win_create(there, (MPI_Aint)room * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    fill(mine, n, reads ? -1 : rank);
    fill(there, room, reads ? rank : 0);
    MPI_Win_fence(0, win);
    if (reads)
        MPI_Get(mine, n, MPI_INT, target, 0, 1, type, win);
    else
        MPI_Accumulate(mine, n, MPI_INT, target, 0, 1, type, MPI_SUM, win);
    MPI_Win_fence(0, win);
    to_host(host, reads ? mine : there, (size_t)(reads ? n : room) * sizeof(int));
    for (int i = 0, k = 0; i < blocks; i++)
        for (int j = 0; j < lengths[i]; j++, k++)
            check(reads ? host[k] == value(target, at[i] + j)
                        : host[at[i] + j] == value(0, at[i] + j) + value(origin, k),
                  "an access with an irregular layout", i);
    for (int i = 0; !reads && i + 1 < blocks; i++)
        for (int j = at[i] + lengths[i]; j < at[i + 1]; j++)
            check(host[j] == value(0, j), "what lies between the blocks", i);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    device_free(there);
    device_free(mine);
    free(host);
    free(lengths);
    free(at);
}

int main(int argc, char **argv) {
    static const int sizes[] = {12, 3000, 60000};
    begin(&argc, &argv);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_other);
    MPI_Type_commit(&every_other);
    MPI_Group world;
    int target = (rank + 1) % size, origin = (rank + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &target, &neighbours[0]);
    MPI_Group_incl(world, 1, &origin, &neighbours[1]);
    for (int i = 0; i < 3; i++) {
        collectives(sizes[i], false);
        collectives(sizes[i], true);
        for (int k = 0; k < 9; k++)
            accesses(sizes[i] / 3, (epoch)(k / 3), k % 3 != 1, k % 3 != 2);
        attached(sizes[i]);
        irregular(sizes[i] / 6, false);
        irregular(sizes[i] / 6, true);
    }
    MPI_Group_free(&neighbours[0]);
    MPI_Group_free(&neighbours[1]);
    MPI_Group_free(&world);
    MPI_Type_free(&every_other);
    return end();
}
