// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that use all of MPI at once (MPI_THREAD_MULTIPLE): messages and probes by tags of their own over one communicator, one-sided
// accesses to one window and to windows of their own, collectives, persistent requests, types, attributes, files.  Under the thread sanitizer
// it is the proof that nothing of a process is touched without the lock.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/check.h"

enum { THREADS = 4, ROUNDS = 12, SOME = 500, LARGE = 40000 };
static MPI_Comm own[THREADS];
static MPI_Win common, private[THREADS];
static long counter[THREADS + 1];
static int slots[THREADS][SOME];
static int rank, ranks, next, before;

static void fill(int *a, int count, int of) {
    for (int i = 0; i < count; i++)
        a[i] = of + 3 * i;
}

static void expect(const int *a, int count, int of) {
    for (int i = 0; i < count; i++)
        CHECK(a[i] == of + 3 * i);
}

static int stamp(int of, int me, int round) {
    return 10000 * of + 100 * me + round;
}

// Messages that meet their receives, some before and some after these; any source, with the tag of this thread.
static void messages(int me, int round) {
    int out[2][SOME], in[2][SOME], index, flag;
    MPI_Request all[4];
    MPI_Status status;
    for (int k = 0; k < 2; k++)
        fill(out[k], SOME, stamp(rank, me, round + k));
    MPI_Irecv(in[0], SOME, MPI_INT, MPI_ANY_SOURCE, 10 * me, MPI_COMM_WORLD, &all[0]);
    MPI_Isend(out[0], SOME, MPI_INT, next, 10 * me, MPI_COMM_WORLD, &all[1]);
    MPI_Issend(out[1], SOME, MPI_INT, next, 10 * me + 1, MPI_COMM_WORLD, &all[2]);
    MPI_Irecv(in[1], SOME, MPI_INT, before, 10 * me + 1, MPI_COMM_WORLD, &all[3]);
    for (int left = 4; left; left--) {
        OK(MPI_Waitany(4, all, &index, &status));
        CHECK(index >= 0 && index < 4 && all[index] == MPI_REQUEST_NULL);
        CHECK(index != 0 || status.MPI_SOURCE == before);
    }
    for (int k = 0; k < 2; k++)
        expect(in[k], SOME, stamp(before, me, round + k));
    OK(MPI_Isend(out[1], SOME, MPI_INT, next, 10 * me + 2, MPI_COMM_WORLD, &all[0]));
    MPI_Message message;
    if (round % 2) {
        OK(MPI_Mprobe(MPI_ANY_SOURCE, 10 * me + 2, MPI_COMM_WORLD, &message, &status));
    } else {
        for (flag = 0; !flag;)
            OK(MPI_Improbe(before, 10 * me + 2, MPI_COMM_WORLD, &flag, &message, &status));
    }
    OK(MPI_Get_count(&status, MPI_INT, &flag));
    CHECK(flag == SOME && status.MPI_SOURCE == before);
    memset(in[1], 0, sizeof(in[1]));
    OK(MPI_Mrecv(in[1], SOME, MPI_INT, &message, MPI_STATUS_IGNORE));
    expect(in[1], SOME, stamp(before, me, round + 1));
    for (flag = 0; !flag;)
        OK(MPI_Testall(1, all, &flag, MPI_STATUSES_IGNORE));
}

// What the receiver takes out of the sender's buffer, in a layout, by requests that are started again.
static void large(int me, int round) {
    int *out = calloc(2 * LARGE, sizeof(int)), *in = calloc(2 * LARGE, sizeof(int));
    MPI_Datatype apart;
    MPI_Request both[2];
    CHECK(out && in);
    OK(MPI_Type_vector(LARGE, 1, 2, MPI_INT, &apart));
    OK(MPI_Type_commit(&apart));
    OK(MPI_Send_init(out, 1, apart, next, 10 * me + 3, MPI_COMM_WORLD, &both[0]));
    OK(MPI_Recv_init(in, LARGE, MPI_INT, before, 10 * me + 3, MPI_COMM_WORLD, &both[1]));
    OK(MPI_Type_free(&apart));
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < LARGE; i++)
            out[2 * i] = stamp(rank, me, round + again) + 3 * i;
        OK(MPI_Startall(2, both));
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        expect(in, LARGE, stamp(before, me, round + again));
    }
    for (int k = 0; k < 2; k++)
        OK(MPI_Request_free(&both[k]));
    free(out);
    free(in);
}

static void accesses(int me, int round) {
    int out[SOME], in[SOME];
    long one = 1, seen, mine = rank;
    MPI_Win win = private[me];
    fill(out, SOME, stamp(rank, me, round));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
    OK(MPI_Put(out, SOME, MPI_INT, next, 0, SOME, MPI_INT, win));
    OK(MPI_Win_flush(next, win));
    OK(MPI_Get(in, SOME, MPI_INT, next, 0, SOME, MPI_INT, win));
    OK(MPI_Win_unlock(next, win));
    expect(in, SOME, stamp(rank, me, round));
    // One window for all threads, locked by the main one.
    OK(MPI_Fetch_and_op(&one, &seen, MPI_LONG, 0, THREADS, MPI_SUM, common));
    OK(MPI_Accumulate(&mine, 1, MPI_LONG, next, me, 1, MPI_LONG, MPI_SUM, common));
    OK(MPI_Win_flush_all(common));
    CHECK(seen >= round && seen < (long)THREADS * ROUNDS * ranks);
}

// A function of the program's calls MPI again, within a call that has the lock; the others want it meanwhile, and do not get it.
static MPI_Op slow_sum;
static void add_slowly(void *in, void *inout, int *count, MPI_Datatype *type) {
    static int within;
    int bytes;
    OK(MPI_Type_size(*type, &bytes));
    CHECK(bytes == (int)sizeof(int) && within++ == 0);
    usleep(100);
    within--;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void collectives(int me, int round) {
    int mine = stamp(rank, me, round), sum, want = 0, word = rank ? -1 : mine;
    MPI_Request request;
    for (int r = 0; r < ranks; r++)
        want += stamp(r, me, round);
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[me]));
    CHECK(sum == want);
    sum = 0;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, slow_sum, own[me]));
    CHECK(sum == want);
    OK(MPI_Reduce_local(&mine, &sum, 1, MPI_INT, slow_sum));
    CHECK(sum == want + mine);
    OK(MPI_Bcast(&word, 1, MPI_INT, 0, own[me]));
    CHECK(word == stamp(0, me, round));
    sum = 0;
    OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[me], &request));
    OK(MPI_Barrier(own[me]));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sum == want);
}

// Attributes, errors and infos are the process's, too.
static void environment(int me, int round) {
    int key, found, code;
    char text[MPI_MAX_ERROR_STRING];
    void *value;
    MPI_Info info;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(own[me], key, &own[me]));
    OK(MPI_Comm_get_attr(own[me], key, &value, &found));
    CHECK(found && value == &own[me]);
    OK(MPI_Comm_delete_attr(own[me], key));
    OK(MPI_Comm_free_keyval(&key));
    snprintf(text, sizeof(text), "of thread %d in round %d", me, round);
    OK(MPI_Add_error_code(MPI_ERR_OTHER, &code));
    OK(MPI_Add_error_string(code, text));
    char again[MPI_MAX_ERROR_STRING];
    OK(MPI_Error_string(code, again, &found));
    CHECK(strcmp(text, again) == 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", text));
    OK(MPI_Info_get_nkeys(info, &found));
    CHECK(found == 1);
    OK(MPI_Info_free(&info));
    // What goes wrong here is this call's, and others go on.
    CHECK(MPI_Send(text, -1, MPI_CHAR, next, 0, own[me]) == MPI_ERR_COUNT);
}

static void files(int me) {
    char path[64];
    int mine[SOME], theirs[SOME];
    MPI_File file;
    snprintf(path, sizeof(path), "/tmp/mpi-multiple-%ld-%d", (long)getppid(), me);
    fill(mine, SOME, stamp(rank, me, 0));
    OK(MPI_File_open(own[me], path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all(file, (MPI_Offset)sizeof(mine) * rank, mine, SOME, MPI_INT,
                             MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(own[me]));
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at(file, (MPI_Offset)sizeof(mine) * next, theirs, SOME, MPI_INT,
                        MPI_STATUS_IGNORE));
    expect(theirs, SOME, stamp(next, me, 0));
    OK(MPI_File_close(&file));
}

static void *work(void *arg) {
    int me = (int)(MPI_Aint)arg;
    for (int i = 0; i < ROUNDS; i++) {
        messages(me, i);
        accesses(me, i);
        collectives(me, i);
        environment(me, i);
        if (i % 4 == me)
            large(me, i);
    }
    files(me);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t thread[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    OK(MPI_Win_create(counter, sizeof(counter), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                      &common));
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
        OK(MPI_Comm_set_errhandler(own[i], MPI_ERRORS_RETURN));
        OK(MPI_Win_create(slots[i], sizeof(slots[i]), sizeof(int), MPI_INFO_NULL, own[i],
                          &private[i]));
    }
    OK(MPI_Op_create(add_slowly, 1, &slow_sum));
    OK(MPI_Win_lock_all(0, common));
    // The threads begin in another order on each rank.
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(MPI_Aint)((i + rank) % THREADS)) ==
              0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(MPI_Win_unlock_all(common));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(rank != 0 || counter[THREADS] == (long)THREADS * ROUNDS * ranks);
    for (int i = 0; i < THREADS; i++) {
        CHECK(counter[i] == (long)ROUNDS * before);
        OK(MPI_Win_free(&private[i]));
        OK(MPI_Comm_free(&own[i]));
    }
    OK(MPI_Win_free(&common));
    OK(MPI_Op_free(&slow_sum));
    OK(MPI_Finalize());
    return 0;
}
