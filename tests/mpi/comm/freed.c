// SPDX-License-Identifier: BSD-3-Clause
//
// Types and communicators that the program frees while operations use them, and others that it makes then, which may get their memory: the
// operations know theirs until they are waited for.  Threads may free them, too, while others are in a
// blocking call.  Two ranks; rank 1 sends what rank 0 waits for.
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { BIG = 1 << 20, WORDS = 6, TAG = 5, LONG_US = 3000 };

static int rank, big[BIG], words[2 * WORDS];
static MPI_Datatype other[8];

// pairs makes a type of one int in two.
static MPI_Datatype pairs(int count) {
    MPI_Datatype type;
    OK(MPI_Type_vector(count, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static void make_others(void) {
    for (int i = 0; i < 8; i++)
        other[i] = pairs(1);
}

static void free_others(void) {
    for (int i = 0; i < 8; i++)
        OK(MPI_Type_free(&other[i]));
}

static void check_words(const MPI_Status *status, int elements) {
    int count = -1;
    OK(MPI_Get_count(status, MPI_INT, &count));
    CHECK(count == elements);
    for (int i = 0; i < elements; i++)
        CHECK(words[2 * i] == 10 + i && words[2 * i + 1] == -1);
}

static void send_words(MPI_Comm comm, int count) {
    int out[2 * WORDS];
    for (int i = 0; i < 2 * WORDS; i++)
        out[i] = 10 + i;
    OK(MPI_Send(out, count, MPI_INT, 0, TAG, comm));
}

typedef enum way { RECEIVE, PROBED, BOTH } way;

// begin starts a receive of words by a type of its own.  BOTH: with a send that the other rank takes later.
static void begin(way w, MPI_Datatype type, MPI_Comm comm, MPI_Request *request) {
    MPI_Message message;
    for (int i = 0; i < 2 * WORDS; i++)
        words[i] = -1;
    switch (w) {
    case RECEIVE: OK(MPI_Irecv(words, 1, type, 1, TAG, comm, request)); break;
    case PROBED:
        OK(MPI_Mprobe(1, TAG, comm, &message, MPI_STATUS_IGNORE));
        OK(MPI_Imrecv(words, 1, type, &message, request));
        break;
    case BOTH:
        OK(MPI_Isendrecv(big, BIG, MPI_INT, 1, TAG, words, 1, type, 1, TAG, comm, request));
        break;
    }
}

// `sent` words come for a receive of WORDS.
static void round_of(way w, int sent) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    int flag, ready = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    if (rank) {
        if (w != PROBED)
            OK(MPI_Recv(&ready, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        send_words(comm, sent);
        OK(MPI_Recv(&ready, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (w == BOTH)
            OK(MPI_Recv(big, BIG, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&comm));
        return;
    }
    MPI_Datatype type = pairs(WORDS);
    begin(w, type, comm, &request);
    OK(MPI_Type_free(&type));
    OK(MPI_Comm_free(&comm));
    if (w != PROBED)
        OK(MPI_Send(&ready, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD));
    while (words[0] != 10)  // it is there, and its receive has completed, if it is one by itself
        OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    make_others();
    OK(MPI_Send(&ready, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD));
    int code = MPI_Wait(&request, &status);
    CHECK(class_of(code) == (sent > WORDS ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    if (sent <= WORDS)
        check_words(&status, sent);
    free_others();
}

// What a thread is given that receives in a blocking call.
typedef struct blocked {
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Status status;
} blocked;

static void *receive(void *arg) {
    blocked *b = arg;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, 0, TAG, words, 1, b->type, 1, TAG, b->comm, &b->status));
    return NULL;
}

// A thread waits in MPI_Sendrecv while another frees its type.
static void blocking_round(void) {
    int word = 0;
    if (rank) {
        OK(MPI_Recv(&word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        send_words(MPI_COMM_WORLD, WORDS);
        return;
    }
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = pairs(WORDS);
    blocked b = {.type = type, .comm = comm};
    pthread_t thread;
    for (int i = 0; i < 2 * WORDS; i++)
        words[i] = -1;
    CHECK(pthread_create(&thread, NULL, receive, &b) == 0);
    OK(MPI_Recv(&word, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE));
    usleep(LONG_US);  // it has sent that; now it waits
    OK(MPI_Type_free(&type));
    make_others();
    OK(MPI_Send(&word, 1, MPI_INT, 1, TAG, comm));
    CHECK(pthread_join(thread, NULL) == 0);
    check_words(&b.status, WORDS);
    free_others();
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    rank = rank_in(MPI_COMM_WORLD);
    CHECK(size_of(MPI_COMM_WORLD) == 2);
    for (int i = 0; i < 3; i++) {
        if (provided == MPI_THREAD_MULTIPLE)
            blocking_round();
        for (way w = RECEIVE; w <= BOTH; w++) {
            round_of(w, WORDS);
            round_of(w, WORDS - 2);
            round_of(w, WORDS + 2);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
