// SPDX-License-Identifier: BSD-3-Clause
//
// Windows of all flavors under all ways to synchronize, on any number of ranks; every result is computed here, too.
#include "../comm/check.h"

enum {
    MANY = 300000,
    SLOTS = 64
};  // elements of accesses that do not fit into one message; of small windows

static int me, n;

static void set_return(MPI_Win win) {
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
}

// A window of each flavor with memory, of `count` longs that are zero.
enum { CREATED, ALLOCATED, SHARED, DYNAMIC, FLAVORS };

typedef struct window {
    MPI_Win win;
    long *own;       // this rank's memory
    MPI_Aint *base;  // of a dynamic one: addresses, by rank
    int flavor;
} window;

static window open_window(int flavor, int count) {
    window w = {.flavor = flavor};
    MPI_Aint size = (MPI_Aint)count * (MPI_Aint)sizeof(long), *all;
    int unit = sizeof(long);
    if (flavor == CREATED || flavor == DYNAMIC)
        w.own = calloc((size_t)count, sizeof(long));
    switch (flavor) {
    case CREATED:
        OK(MPI_Win_create(w.own, size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        break;
    case ALLOCATED:
        OK(MPI_Win_allocate(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.own, &w.win));
        break;
    case SHARED:
        OK(MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.own, &w.win));
        break;
    default:
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        OK(MPI_Win_attach(w.win, w.own, size));
        break;
    }
    all = calloc((size_t)n, sizeof(*all));
    MPI_Aint mine = (MPI_Aint)w.own;
    OK(MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD));
    w.base = all;
    set_return(w.win);
    for (int i = 0; i < count; i++)
        CHECK(w.own[i] == 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static void close_window(window *w) {
    if (w->flavor == DYNAMIC)
        OK(MPI_Win_detach(w->win, w->own));
    OK(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL);
    if (w->flavor == CREATED || w->flavor == DYNAMIC)
        free(w->own);
    free(w->base);
}

// Where element i of a rank lies.
static MPI_Aint at(const window *w, int rank, int i) {
    return w->flavor == DYNAMIC ? w->base[rank] + (MPI_Aint)i * (MPI_Aint)sizeof(long) : i;
}

static int next(void) {
    return (me + 1) % n;
}
static int before(void) {
    return (me + n - 1) % n;
}

// ---- Fences.

static void put_and_get(int flavor, int count) {
    window w = open_window(flavor, count);
    long *from = malloc((size_t)count * sizeof(long)), *got = calloc((size_t)count, sizeof(long));
    for (int i = 0; i < count; i++)
        from[i] = me * 1000003L + i;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    OK(MPI_Put(from, count, MPI_LONG, next(), at(&w, next(), 0), count, MPI_LONG, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < count; i++)
        CHECK(w.own[i] == before() * 1000003L + i);
    OK(MPI_Get(got, count, MPI_LONG, next(), at(&w, next(), 0), count, MPI_LONG, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    CHECK(memcmp(got, from, (size_t)count * sizeof(long)) == 0);
    free(from);
    free(got);
    close_window(&w);
}

// Every other element, by a type, to every third.
static void strided(int flavor) {
    enum { N = 2000 };
    window w = open_window(flavor, 3 * N);
    static long from[2 * N], back[2 * N];
    MPI_Datatype two, three;
    OK(MPI_Type_vector(N, 1, 2, MPI_LONG, &two));
    OK(MPI_Type_vector(N, 1, 3, MPI_LONG, &three));
    OK(MPI_Type_commit(&two));
    OK(MPI_Type_commit(&three));
    for (int i = 0; i < 2 * N; i++)
        from[i] = i + 10 * me;
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(from, 1, two, next(), at(&w, next(), 0), 1, three, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 3 * N; i++)
        CHECK(w.own[i] == (i % 3 ? 0 : i / 3 * 2 + 10 * before()));
    OK(MPI_Get(back, 1, two, next(), at(&w, next(), 0), 1, three, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2 * N; i++)
        CHECK(back[i] == (i % 2 ? 0 : from[i]));
    OK(MPI_Accumulate(from, 1, two, next(), at(&w, next(), 0), 1, three, MPI_SUM, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 3 * N; i++)
        CHECK(w.own[i] == (i % 3 ? 0 : 2 * (i / 3 * 2 + 10 * before())));
    OK(MPI_Type_free(&two));
    OK(MPI_Type_free(&three));
    close_window(&w);
}

// A target type whose description is longer than the head of a message.
static void irregular(int flavor) {
    enum { N = 900 };
    window w = open_window(flavor, 4 * N);
    static int lengths[N];
    static MPI_Aint places[N];
    static long from[2 * N];
    MPI_Datatype type;
    int total = 0;
    for (int i = 0; i < N; i++) {
        lengths[i] = 1 + i % 2;
        places[i] = (MPI_Aint)((i * 7) % N * 4 + i % 3) * (MPI_Aint)sizeof(long);
        total += lengths[i];
    }
    for (int i = 0; i < total; i++)
        from[i] = i + 1;
    OK(MPI_Type_create_hindexed(N, lengths, places, MPI_LONG, &type));
    OK(MPI_Type_commit(&type));
    for (int k = 0; k < 3; k++) {
        OK(MPI_Win_fence(0, w.win));
        if (k == 0)
            OK(MPI_Put(from, total, MPI_LONG, next(), at(&w, next(), 0), 1, type, w.win));
        else
            OK(MPI_Accumulate(from, total, MPI_LONG, next(), at(&w, next(), 0), 1, type, MPI_SUM,
                              w.win));
        OK(MPI_Win_fence(0, w.win));
        for (int i = 0, j = 0; i < N; i++)
            for (int l = 0; l < lengths[i]; l++, j++)
                CHECK(w.own[places[i] / (MPI_Aint)sizeof(long) + l] == (j + 1) * (k + 1));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    static long got[2 * N];
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Get(got, total, MPI_LONG, next(), at(&w, next(), 0), 1, type, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < total; i++)
        CHECK(got[i] == 3 * from[i]);
    OK(MPI_Type_free(&type));
    close_window(&w);
}

// An origin at MPI_BOTTOM, beside elements of a predefined type at the target.
static void bottom(int flavor) {
    window w = open_window(flavor, 4);
    long from[2] = {me + 1, me + 2}, got[2] = {0, 0}, was[2] = {0, 0};
    MPI_Aint place[3];
    MPI_Datatype type[3];  // of from, got, was
    OK(MPI_Get_address(from, &place[0]));
    OK(MPI_Get_address(got, &place[1]));
    OK(MPI_Get_address(was, &place[2]));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Type_create_hindexed_block(1, 2, &place[i], MPI_LONG, &type[i]));
        OK(MPI_Type_commit(&type[i]));
    }
    MPI_Aint there = at(&w, next(), 0);
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(MPI_BOTTOM, 1, type[0], next(), there, 2, MPI_LONG, w.win));
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Accumulate(MPI_BOTTOM, 1, type[0], next(), there, 2, MPI_LONG, MPI_SUM, w.win));
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Get(MPI_BOTTOM, 1, type[1], next(), there, 2, MPI_LONG, w.win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, MPI_BOTTOM, 1, type[2], next(), there, 2, MPI_LONG,
                          MPI_NO_OP, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2; i++) {
        CHECK(w.own[i] == 2 * (before() + 1 + i));
        CHECK(got[i] == 2 * from[i] && was[i] == got[i]);
        CHECK(from[i] == me + 1 + i);
    }
    for (int i = 0; i < 3; i++)
        OK(MPI_Type_free(&type[i]));
    close_window(&w);
}

// All ranks add to the same elements of all.
static void sums(int flavor, int count) {
    window w = open_window(flavor, count);
    long *from = malloc((size_t)count * sizeof(long));
    for (int i = 0; i < count; i++)
        from[i] = i + me;
    OK(MPI_Win_fence(0, w.win));
    for (int r = 0; r < n; r++)
        OK(MPI_Accumulate(from, count, MPI_LONG, (me + r) % n, at(&w, (me + r) % n, 0), count,
                          MPI_LONG, MPI_SUM, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < count; i++)
        CHECK(w.own[i] == (long)n * i + n * (n - 1) / 2);
    free(from);
    close_window(&w);
}

// Accumulates of one origin keep their order, though a large one is still on its way when small ones come.
static void order(int flavor) {
    window w = open_window(flavor, MANY);
    long *large = malloc(MANY * sizeof(long)), small = 7, old = -1;
    for (int i = 0; i < MANY; i++)
        large[i] = 5;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, w.win));
    for (int k = 0; k < 10; k++) {
        OK(MPI_Accumulate(large, MANY, MPI_LONG, next(), at(&w, next(), 0), MANY, MPI_LONG,
                          MPI_REPLACE, w.win));
        OK(MPI_Accumulate(&small, 1, MPI_LONG, next(), at(&w, next(), MANY - 1), 1, MPI_LONG,
                          MPI_SUM, w.win));
        OK(MPI_Fetch_and_op(&small, &old, MPI_LONG, next(), at(&w, next(), MANY - 1), MPI_SUM,
                            w.win));
        OK(MPI_Win_flush(next(), w.win));
        CHECK(old == 12);
    }
    OK(MPI_Win_unlock(next(), w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_fence(0, w.win));
    CHECK(w.own[MANY - 1] == 19 && w.own[0] == 5);
    OK(MPI_Win_fence(0, w.win));
    free(large);
    close_window(&w);
}

// ---- Start and post.

static void pscw(int flavor) {
    window w = open_window(flavor, SLOTS);
    MPI_Group all, to, from;
    int r[2] = {next(), before()}, flag = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 1, &r[0], &to));
    OK(MPI_Group_incl(all, 1, &r[1], &from));
    for (long round = 1; round <= 20; round++) {
        long value = 100 * round + me, got = 0;
        OK(MPI_Win_post(from, 0, w.win));
        OK(MPI_Win_start(to, 0, w.win));
        OK(MPI_Put(&value, 1, MPI_LONG, next(), at(&w, next(), 3), 1, MPI_LONG, w.win));
        OK(MPI_Get(&got, 1, MPI_LONG, next(), at(&w, next(), 5), 1, MPI_LONG, w.win));
        OK(MPI_Win_complete(w.win));
        CHECK(got == 7 * (round - 1));
        if (round % 2) {
            OK(MPI_Win_wait(w.win));
        } else {
            for (flag = 0; !flag;)
                OK(MPI_Win_test(w.win, &flag));
        }
        CHECK(w.own[3] == 100 * round + before());
        w.own[5] = 7 * round;
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&to));
    OK(MPI_Group_free(&from));
    close_window(&w);
}

// ---- Locks.

// A counter that all add to, by what only a lock makes atomic.
static void exclusive(int flavor) {
    enum { TIMES = 50 };
    window w = open_window(flavor, SLOTS);
    for (int i = 0; i < TIMES; i++) {
        long value = -1;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
        OK(MPI_Get(&value, 1, MPI_LONG, 0, at(&w, 0, 1), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(0, w.win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG, 0, at(&w, 0, 1), 1, MPI_LONG, w.win));
        OK(MPI_Win_unlock(0, w.win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    CHECK(me != 0 || w.own[1] == (long)n * TIMES);
    OK(MPI_Win_unlock(me, w.win));
    close_window(&w);
}

// Locks of windows that not all ranks have finished making, and that some free as soon as others have.
static void soon(void) {
    long memory[2] = {0};
    for (int round = 0; round < 200; round++) {
        MPI_Win win;
        OK(MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        for (int i = 0; i < n; i++) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, i, 0, win));
            OK(MPI_Win_unlock(i, win));
        }
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Win_free(&win));
    }
}

// Tickets: each number once; a swap that only one rank wins.
static void atomics(int flavor) {
    enum { TIMES = 100 };
    window w = open_window(flavor, SLOTS + n * TIMES);
    long one = 1, ticket, mark = me + 1, none = 0, was;
    OK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < TIMES; i++) {
        OK(MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, at(&w, 0, 0), MPI_SUM, w.win));
        OK(MPI_Win_flush(0, w.win));
        CHECK(ticket >= 0 && ticket < (long)n * TIMES);
        OK(MPI_Compare_and_swap(&mark, &none, &was, MPI_LONG, 0, at(&w, 0, SLOTS + (int)ticket),
                                w.win));
        OK(MPI_Win_flush(0, w.win));
        CHECK(was == 0);
        OK(MPI_Compare_and_swap(&one, &none, &was, MPI_LONG, 0, at(&w, 0, SLOTS + (int)ticket),
                                w.win));
        OK(MPI_Win_flush(0, w.win));
        CHECK(was == mark);
    }
    OK(MPI_Fetch_and_op(NULL, &was, MPI_LONG, next(), at(&w, next(), 2), MPI_NO_OP, w.win));
    OK(MPI_Win_flush_all(w.win));
    CHECK(was == 0);
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    CHECK(me != 0 || w.own[0] == (long)n * TIMES);
    long seen = 0;
    for (int i = 0; me == 0 && i < n * TIMES; i++)
        seen += w.own[SLOTS + i];
    CHECK(me != 0 || seen == (long)TIMES * n * (n + 1) / 2);
    OK(MPI_Win_unlock(me, w.win));
    close_window(&w);
}

static void requests(int flavor, int count) {
    window w = open_window(flavor, 2 * count);
    long *a = malloc(2 * (size_t)count * sizeof(long)),
         *b = calloc(2 * (size_t)count, sizeof(long));
    MPI_Request r[2];
    MPI_Aint first = at(&w, next(), 0), second = at(&w, next(), count);
    for (int i = 0; i < 2 * count; i++)
        a[i] = i + me;
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    OK(MPI_Rput(a, count, MPI_LONG, next(), first, count, MPI_LONG, w.win, &r[0]));
    OK(MPI_Raccumulate(a + count, count, MPI_LONG, next(), second, count, MPI_LONG, MPI_SUM, w.win,
                       &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    OK(MPI_Win_flush_all(w.win));
    OK(MPI_Rget(b, count, MPI_LONG, next(), first, count, MPI_LONG, w.win, &r[0]));
    OK(MPI_Rget_accumulate(a, count, MPI_LONG, b + count, count, MPI_LONG, next(), second, count,
                           MPI_LONG, MPI_SUM, w.win, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK(memcmp(a, b, 2 * (size_t)count * sizeof(long)) == 0);
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        CHECK(w.own[i] == i + before() && w.own[count + i] == 2 * (i + before()) + count);
    free(a);
    free(b);
    close_window(&w);
}

// ---- What is wrong: an error at the origin, and nothing is written.

static void wrong(int flavor) {
    window w = open_window(flavor, SLOTS);
    long value = 99, old;
    MPI_Aint end = at(&w, next(), SLOTS), start = at(&w, next(), 0);
    MPI_Aint below = flavor == DYNAMIC ? start - 8 : -1;
    FAILS(MPI_Put(&value, 1, MPI_LONG, next(), start, 1, MPI_LONG, w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(next(), w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_wait(w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(next(), w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(4711, next(), 0, w.win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, n, 0, w.win), MPI_ERR_RANK);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, w.win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, w.win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Put(&value, 1, MPI_LONG, n, start, 1, MPI_LONG, w.win), MPI_ERR_RANK);
    FAILS(MPI_Put(&value, 1, MPI_LONG, next(), start, 2, MPI_LONG, w.win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Accumulate(&value, 1, MPI_LONG, next(), start, 1, MPI_LONG, MPI_MINLOC, w.win),
          MPI_ERR_OP);
    if (flavor == DYNAMIC && n > 1) {  // only the target knows
        OK(MPI_Put(&value, 1, MPI_LONG, next(), end, 1, MPI_LONG, w.win));
        FAILS(MPI_Win_flush(next(), w.win), MPI_ERR_RMA_RANGE);
        OK(MPI_Accumulate(&value, 1, MPI_LONG, next(), below, 1, MPI_LONG, MPI_SUM, w.win));
        FAILS(MPI_Win_flush(next(), w.win), MPI_ERR_RMA_RANGE);
        OK(MPI_Fetch_and_op(&value, &old, MPI_LONG, next(), end, MPI_SUM, w.win));
        FAILS(MPI_Win_flush(next(), w.win), MPI_ERR_RMA_RANGE);
        OK(MPI_Win_flush(next(), w.win));
    } else {
        FAILS(MPI_Put(&value, 1, MPI_LONG, next(), end, 1, MPI_LONG, w.win), MPI_ERR_RMA_RANGE);
        FAILS(MPI_Get(&value, 1, MPI_LONG, next(), below, 1, MPI_LONG, w.win), MPI_ERR_RMA_RANGE);
        FAILS(MPI_Fetch_and_op(&value, &old, MPI_LONG, next(), end, MPI_SUM, w.win),
              MPI_ERR_RMA_RANGE);
    }
    OK(MPI_Put(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, w.win));
    OK(MPI_Win_unlock(next(), w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < SLOTS; i++)
        CHECK(w.own[i] == 0);
    close_window(&w);
}

// ---- What windows tell.

static void queries(void) {
    window w = open_window(SHARED, SLOTS);
    void *value;
    int flag, length, unit;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Aint size;
    long *theirs;
    MPI_Group group, all;
    OK(MPI_Win_get_attr(w.win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag && value == w.own);
    OK(MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &value, &flag));
    CHECK(flag && *(MPI_Aint *)value == SLOTS * (MPI_Aint)sizeof(long));
    OK(MPI_Win_get_attr(w.win, MPI_WIN_DISP_UNIT, &value, &flag));
    CHECK(flag && *(int *)value == (int)sizeof(long));
    OK(MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *(int *)value == MPI_WIN_FLAVOR_SHARED);
    OK(MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
    OK(MPI_Win_set_name(w.win, "board"));
    OK(MPI_Win_get_name(w.win, name, &length));
    CHECK(strcmp(name, "board") == 0 && length == 5);
    OK(MPI_Win_get_group(w.win, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_compare(group, all, &flag));
    CHECK(flag == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&all));
    // Plain loads and stores; the parts of all ranks follow each other.
    OK(MPI_Win_shared_query(w.win, next(), &size, &unit, &theirs));
    CHECK(size == SLOTS * (MPI_Aint)sizeof(long) && unit == (int)sizeof(long));
    OK(MPI_Win_lock_all(0, w.win));
    theirs[4] = me + 1;
    OK(MPI_Win_sync(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(w.win));
    CHECK(w.own[4] == before() + 1);
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Win_shared_query(w.win, MPI_PROC_NULL, &size, &unit, &theirs));
    OK(MPI_Win_shared_query(w.win, n - 1, &size, &unit, &value));
    CHECK((long *)value == theirs + (n - 1) * SLOTS);
    close_window(&w);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    me = rank_in(MPI_COMM_WORLD);
    n = size_of(MPI_COMM_WORLD);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        put_and_get(flavor, 1);
        put_and_get(flavor, SLOTS);
        put_and_get(flavor, MANY);
        strided(flavor);
        irregular(flavor);
        bottom(flavor);
        sums(flavor, SLOTS);
        sums(flavor, MANY);
        order(flavor);
        pscw(flavor);
        exclusive(flavor);
        atomics(flavor);
        requests(flavor, SLOTS);
        requests(flavor, MANY);
        wrong(flavor);
    }
    soon();
    queries();
    OK(MPI_Finalize());
    if (me == 0)
        printf("all right on %d ranks\n", n);
    return 0;
}
