// SPDX-License-Identifier: BSD-3-Clause
//
// Random messages among all ranks, of which each rank knows all from the seed: walk ROUNDS SEED.
//
// Each message says who has sent it and which of its kind it is, so that a receive knows what must come: nothing is lost, doubled,
// overtaken or mixed up, whatever kinds of sends, receives, probes and layouts meet.
#include "comm/check.h"

enum { MESSAGES = 120, NARROW = 4, TAGS = 7, MOST = 40000, RANKS = 64 };
// Tags below NARROW are received by source and tag, the next two from any source, the last on a communicator of its own from anybody.
enum { ANYBODY = TAGS - 1 };

typedef struct message {
    int from, to, tag, number, words;  // words of the message: from, tag, number, then number + i
} message;

static message plan[MESSAGES];
static int rank, size, sent_of[RANKS][RANKS][TAGS], got_of[RANKS][TAGS], left_of[RANKS][TAGS];
static int left_any[TAGS];
static MPI_Comm wide;
static unsigned long long shared, own;

static unsigned draw(unsigned long long *state, unsigned below) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(*state >> 33) % below;
}

static int words_of(void) {
    unsigned kind = draw(&shared, 10);
    return 3 + (int)(kind < 6   ? draw(&shared, 40)
                     : kind < 9 ? draw(&shared, 3000)
                                : draw(&shared, MOST - 3));
}

static void make_plan(void) {
    memset(left_of, 0, sizeof(left_of));
    memset(left_any, 0, sizeof(left_any));
    for (int i = 0; i < MESSAGES; i++) {
        message *m = &plan[i];
        m->from = (int)draw(&shared, (unsigned)size);
        m->to = (int)draw(&shared, (unsigned)size);
        m->tag = (int)draw(&shared, TAGS);
        m->words = words_of();
        m->number = sent_of[m->from][m->to][m->tag]++;
        if (m->to == rank) {
            left_of[m->from][m->tag]++;
            left_any[m->tag]++;
        }
    }
}

// ---- Sending.

typedef struct sending {
    MPI_Request req;
    MPI_Datatype type;
    int *data;
} sending;

static int stride_of(const message *m) {
    return 1 + m->number % 3;
}

static void begin(const message *m, sending *s) {
    MPI_Comm comm = m->tag == ANYBODY ? wide : MPI_COMM_WORLD;
    int stride = stride_of(m);
    s->data = malloc(sizeof(int) * (size_t)m->words * (size_t)stride);
    CHECK(s->data);
    for (int i = 0; i < m->words; i++)
        s->data[i * stride] = i == 0   ? m->from
                              : i == 1 ? m->tag
                              : i == 2 ? m->number
                                       : m->number + i;
    OK(MPI_Type_vector(m->words, 1, stride, MPI_INT, &s->type));
    OK(MPI_Type_commit(&s->type));
    unsigned how = draw(&own, 5);
    if (how == 0) {
        OK(MPI_Issend(s->data, 1, s->type, m->to, m->tag, comm, &s->req));
    } else if (how == 1) {
        OK(MPI_Ibsend(s->data, 1, s->type, m->to, m->tag, comm, &s->req));
    } else if (how == 2) {
        OK(MPI_Send_init(s->data, 1, s->type, m->to, m->tag, comm, &s->req));
        OK(MPI_Start(&s->req));
    } else {
        OK(MPI_Isend(s->data, 1, s->type, m->to, m->tag, comm, &s->req));
    }
    OK(MPI_Type_free(&s->type));  // the send holds it
}

static void end(sending *s) {
    OK(MPI_Wait(&s->req, MPI_STATUS_IGNORE));
    if (s->req != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&s->req));
    free(s->data);
}

// ---- Receiving.

static int room[MOST];

static void verify(const int *data, const MPI_Status *status) {
    int words;
    OK(MPI_Get_count(status, MPI_INT, &words));
    int from = status->MPI_SOURCE, tag = status->MPI_TAG;
    CHECK(words >= 3 && from >= 0 && from < size && tag >= 0 && tag < TAGS);
    CHECK(data[0] == from && data[1] == tag);
    CHECK(data[2] == got_of[from][tag]);  // not overtaken
    got_of[from][tag]++;
    for (int i = 3; i < words; i++)
        CHECK(data[i] == data[2] + i);
    left_of[from][tag]--;
    left_any[tag]--;
}

static void receive(int source, int tag, MPI_Comm comm) {
    MPI_Status status;
    MPI_Message taken;
    MPI_Request req;
    int there = 0, words;
    switch (draw(&own, 6)) {
    case 0:
        OK(MPI_Probe(source, tag, comm, &status));
        OK(MPI_Get_count(&status, MPI_INT, &words));
        OK(MPI_Recv(room, words, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, comm, &status));
        break;
    case 1:
        OK(MPI_Mprobe(source, tag, comm, &taken, &status));
        OK(MPI_Get_count(&status, MPI_INT, &words));
        OK(MPI_Imrecv(room, words, MPI_INT, &taken, &req));
        OK(MPI_Wait(&req, &status));
        break;
    case 2:
        while (!there)
            OK(MPI_Improbe(source, tag, comm, &there, &taken, &status));
        OK(MPI_Mrecv(room, MOST, MPI_INT, &taken, &status));
        break;
    case 3:
        OK(MPI_Irecv(room, MOST, MPI_INT, source, tag, comm, &req));
        while (!there)
            OK(MPI_Test(&req, &there, &status));
        break;
    default: OK(MPI_Recv(room, MOST, MPI_INT, source, tag, comm, &status));
    }
    verify(room, &status);
}

// posted_ahead posts all receives from one rank with one tag, and takes one of them back, which is posted again.
static void posted_ahead(int source, int tag) {
    int count = left_of[source][tag];
    int *rooms = calloc(MOST * (size_t)count, sizeof(int));
    MPI_Request *reqs = malloc(sizeof(MPI_Request) * (size_t)count);
    MPI_Status status;
    CHECK(rooms && reqs);
    for (int i = 0; i < count; i++)
        OK(MPI_Irecv(rooms + i * MOST, MOST, MPI_INT, source, tag, MPI_COMM_WORLD, &reqs[i]));
    int cancelled;
    OK(MPI_Cancel(&reqs[count - 1]));
    OK(MPI_Wait(&reqs[count - 1], &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    for (int i = 0; i < count - 1; i++) {
        MPI_Status each;
        OK(MPI_Wait(&reqs[i], &each));
        verify(rooms + i * MOST, &each);
    }
    if (cancelled)
        OK(MPI_Recv(rooms, MOST, MPI_INT, source, tag, MPI_COMM_WORLD, &status));
    verify(cancelled ? rooms : rooms + (count - 1) * MOST, &status);
    free(rooms);
    free(reqs);
}

static void receive_all(void) {
    int source = (int)draw(&own, (unsigned)size), tag = (int)draw(&own, TAGS), some = 1;
    for (; some; source = (source + 1) % size, tag = (tag + 1 + (int)draw(&own, 2)) % TAGS) {
        if (tag == ANYBODY && left_any[tag])
            receive(MPI_ANY_SOURCE, MPI_ANY_TAG, wide);
        else if (tag >= NARROW && left_any[tag])
            receive(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD);
        else if (tag < NARROW && left_of[source][tag] && draw(&own, 4) == 0)
            posted_ahead(source, tag);
        else if (tag < NARROW && left_of[source][tag])
            receive(source, tag, MPI_COMM_WORLD);
        some = 0;
        for (int i = 0; i < TAGS; i++)
            some += left_any[i];
    }
}

int main(int argc, char **argv) {
    static sending all[MESSAGES];
    OK(MPI_Init(&argc, &argv));
    rank = rank_in(MPI_COMM_WORLD);
    size = size_of(MPI_COMM_WORLD);
    CHECK(argc == 3 && size <= RANKS);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &wide));
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    shared = strtoull(argv[2], NULL, 10);
    own = shared * 7 + (unsigned long long)rank;
    for (int round = atoi(argv[1]); round > 0; round--) {
        int sends = 0;
        make_plan();
        for (int i = 0; i < MESSAGES; i++)
            if (plan[i].from == rank)
                begin(&plan[i], &all[sends++]);
        receive_all();
        for (int i = 0; i < sends; i++)
            end(&all[i]);
        // Else a receive from anybody could take a message of the next round in the place of one whose sender waits for it.
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    void *address;
    int bytes;
    OK(MPI_Buffer_detach(&address, &bytes));
    OK(MPI_Comm_free(&wide));
    OK(MPI_Finalize());
    return 0;
}
