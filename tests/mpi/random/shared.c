// SPDX-License-Identifier: BSD-3-Clause
//
// Windows of memory that the ranks of a host share.  Which ranks those are is another thing in each way, so each rank writes what depends on whose memory it is.
#include "random.h"

enum { FEW = 40, CHANGED = 1000 };  // words of a rank

typedef struct shared {
    MPI_Comm host;
    MPI_Win win;
    int size, rank, *who;  // by rank: the number in MPI_COMM_WORLD
    int64_t *base;
} shared;

static int words_of(int who) {
    return (int)hashed(FEW, (unsigned)who, 0, 11);
}

static int64_t value_of(int who, int i) {
    return (int64_t)hashed(UINT32_MAX, (unsigned)who, (unsigned)i, 12);
}

static void begin_shared(shared *s) {
    MPI_Info info;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &s->host));
    s->size = size_of(s->host);
    s->rank = rank_in(s->host);
    s->who = malloc((size_t)s->size * sizeof(int));
    CHECK(s->who);
    OK(MPI_Allgather(&me, 1, MPI_INT, s->who, 1, MPI_INT, s->host));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "alloc_shared_noncontig", draw(2) ? "true" : "false"));
    OK(MPI_Win_allocate_shared(words_of(me) * (MPI_Aint)sizeof(int64_t), sizeof(int64_t), info,
                               s->host, &s->base, &s->win));
    OK(MPI_Info_free(&info));
}

// find returns the memory of a rank of the host.
static int64_t *find(const shared *s, int rank) {
    MPI_Aint bytes;
    int unit;
    int64_t *at;
    OK(MPI_Win_shared_query(s->win, rank, &bytes, &unit, &at));
    CHECK(bytes == words_of(s->who[rank]) * (MPI_Aint)sizeof(int64_t));
    CHECK(!bytes || unit == sizeof(int64_t));
    CHECK(rank != s->rank || !bytes || at == s->base);
    return at;
}

// The first word of the next rank gets another value.
static void change(const shared *s, bool store) {
    int next = (s->rank + 1) % s->size;
    int64_t value = value_of(s->who[next], CHANGED);
    if (!words_of(s->who[next]))
        return;
    if (store)
        *find(s, next) = value;
    else
        OK(MPI_Put(&value, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, s->win));
    OK(MPI_Win_flush(next, s->win));
}

static void meet(const shared *s) {
    OK(MPI_Win_sync(s->win));
    OK(MPI_Barrier(s->host));
    OK(MPI_Win_sync(s->win));
}

void shared_step(void) {
    shared s;
    begin_shared(&s);
    int mine = words_of(me);
    OK(MPI_Win_lock_all(0, s.win));
    for (int i = 0; i < mine; i++)
        s.base[i] = value_of(me, i);
    meet(&s);
    for (int rank = 0; rank < s.size; rank++) {
        const int64_t *at = find(&s, rank);
        for (int i = 0; i < words_of(s.who[rank]); i++)
            CHECK(at[i] == value_of(s.who[rank], i));
    }
    meet(&s);
    change(&s, draw(2));
    meet(&s);
    note_bytes("shared window", s.base, (size_t)mine * sizeof(int64_t));
    OK(MPI_Win_unlock_all(s.win));
    OK(MPI_Win_free(&s.win));
    OK(MPI_Comm_free(&s.host));
    free(s.who);
}
