// SPDX-License-Identifier: BSD-3-Clause
//
// Messages that are received by their order alone, with any tag or from anybody; and messages in partitions.
//
// From one source they come in the order in which it has sent them.  From anybody they come in any order, so only what does not depend on it
// goes into the sum.  Nothing else is sent on this communicator until all have what is theirs.
#include "random.h"

enum { BURST = 8, TAGS = 4, SIZES = 6, MOST = 30000 };
enum { FROM_ONE, FROM_ANYBODY, PROBED, WAYS };

typedef struct burst {
    int count, shift[BURST], length[BURST], tag[BURST];
    int *out[BURST], *in[BURST];
    MPI_Request sends[BURST], receives[BURST];
    MPI_Status status[BURST];
} burst;

static int *words(int count) {
    int *made = malloc((size_t)count * sizeof(int) + 1);
    CHECK(made);
    return made;
}

static void begin_burst(burst *b) {
    static const int lengths[SIZES] = {0, 1, 40, 900, 5000, MOST};
    b->count = 1 + (int)draw(BURST);
    for (int i = 0; i < b->count; i++) {
        b->shift[i] = (int)draw(1000) % ranks;
        b->length[i] = lengths[draw(SIZES)];
        b->tag[i] = (int)draw(TAGS);
        b->out[i] = words(b->length[i]);
        b->in[i] = words(MOST);
        for (int k = 0; k < b->length[i]; k++)
            b->out[i][k] = (int)hashed(~0u, (unsigned)me, (unsigned)i, (unsigned)k);
    }
}

static void send_burst(burst *b) {
    for (int i = 0; i < b->count; i++) {
        int to = (me + b->shift[i]) % ranks;
        if (draw(3) == 0)
            OK(MPI_Issend(b->out[i], b->length[i], MPI_INT, to, b->tag[i], comm_quiet,
                          &b->sends[i]));
        else
            OK(MPI_Isend(b->out[i], b->length[i], MPI_INT, to, b->tag[i], comm_quiet,
                         &b->sends[i]));
    }
}

static int source_of(const burst *b, unsigned way, int i) {
    return way == FROM_ONE ? (me + ranks - b->shift[i]) % ranks : MPI_ANY_SOURCE;
}

static void receive_burst(burst *b, unsigned way, int begin, int end) {
    for (int i = begin; i < end; i++)
        OK(MPI_Irecv(b->in[i], MOST, MPI_INT, source_of(b, way, i), MPI_ANY_TAG, comm_quiet,
                     &b->receives[i]));
}

static void receive_probed(burst *b) {
    for (int i = 0; i < b->count; i++) {
        MPI_Status *s = &b->status[i];
        MPI_Message message;
        int words;
        OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_quiet, &message, s));
        OK(MPI_Get_count(s, MPI_INT, &words));
        OK(MPI_Mrecv(b->in[i], words, MPI_INT, &message, s));
    }
}

static int64_t sum_of(const burst *b, int i) {
    const MPI_Status *s = &b->status[i];
    int count;
    OK(MPI_Get_count(s, MPI_INT, &count));
    uint64_t sum = (uint64_t)(s->MPI_SOURCE * TAGS + s->MPI_TAG + 1) * 1099511628211u;
    for (int k = 0; k < count; k++)
        sum = (sum ^ (unsigned)b->in[i][k]) * 1099511628211u;
    return (int64_t)sum;
}

void wild_step(void) {
    burst b = {0};
    unsigned way = draw(WAYS), early = draw(BURST + 1);
    begin_burst(&b);
    int posted = way == PROBED ? 0 : (int)early < b.count ? (int)early : b.count;
    receive_burst(&b, way, 0, posted);
    send_burst(&b);
    if (way == PROBED) {
        receive_probed(&b);
    } else {
        receive_burst(&b, way, posted, b.count);
        OK(MPI_Waitall(b.count, b.receives, b.status));
    }
    OK(MPI_Waitall(b.count, b.sends, MPI_STATUSES_IGNORE));
    uint64_t all = 0;
    for (int i = 0; i < b.count; i++) {
        int64_t sum = sum_of(&b, i);
        all += (uint64_t)sum;
        if (way == FROM_ONE)
            note("by order", sum);
        free(b.out[i]);
        free(b.in[i]);
    }
    note("wild", (int64_t)all);
    OK(MPI_Barrier(comm_quiet));
}

// ---- In partitions: other ones at either end.

static void send_in_parts(MPI_Request request, int count) {
    unsigned how = draw(3), turn = draw(1000);
    if (how == 0) {
        OK(MPI_Pready_range(0, count - 1, request));
        return;
    }
    for (int i = 0; i < count; i++) {
        int part = (i + (int)turn) % count;
        if (how == 1)
            OK(MPI_Pready(part, request));
        else
            OK(MPI_Pready_list(1, &part, request));
    }
}

void parted_step(void) {
    MPI_Comm comm = comm_draw();
    int size = size_of(comm), shift = (int)draw(1000) % size, to = (rank_in(comm) + shift) % size;
    int from = (rank_in(comm) + size - shift) % size;
    int outs = 1 + (int)draw(8), ins = 1 + (int)draw(8), each = 1 + (int)draw(200), arrived;
    layout l = layout_of(MPI_INT);
    block s = block_make(&l, outs * ins * each, 0), r = block_make(&l, outs * ins * each, 1);
    MPI_Request requests[2];
    OK(MPI_Psend_init(s.at, outs, ins * each, l.type, to, step, comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(r.at, ins, outs * each, l.type, from, step, comm, MPI_INFO_NULL,
                      &requests[1]));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(2, requests));
        send_in_parts(requests[0], outs);
        int part = (int)draw(1000) % ins;
        for (arrived = 0; !arrived;)
            OK(MPI_Parrived(requests[1], part, &arrived));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    block_end(&s, "sent in parts");
    block_end(&r, "got in parts");
    layout_free(&l);
}
