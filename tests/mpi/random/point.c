// SPDX-License-Identifier: BSD-3-Clause
//
// Messages: each rank sends one to another and gets one, of the same shape; all kinds of sends, receives and probes.
//
// The tag is the operation's number, so a receive from any source has one message that it can be.
#include "random.h"

enum { MOST = 600000, ROOM = 20 };

typedef struct point {
    MPI_Comm comm;
    int to, from, source, tag;  // source: `from`, or any
    bool large;
    pending *p;
    layout sent, got;
    argument out, in;
    block in_block;
} point;

static void note_status(const point *x, const MPI_Status *status) {
    int count, elements;
    OK(MPI_Get_count(status, x->got.type, &count));
    OK(MPI_Get_elements(status, x->got.type, &elements));
    note("count", count == MPI_UNDEFINED ? -1 : count);
    note("elements", elements);
    note("source", status->MPI_SOURCE == MPI_PROC_NULL ? -1 : status->MPI_SOURCE);
}

// Open: the first and last ranks have no neighbor at that end.
static void draw_ends(point *x) {
    int shift = (int)draw(1000), size = size_of(x->comm), rank = rank_in(x->comm);
    bool open = draw(5) == 0, any = draw(3) == 0;
    shift %= size;
    x->to = open && rank + shift >= size ? MPI_PROC_NULL : (rank + shift) % size;
    x->from = open && rank < shift ? MPI_PROC_NULL : (rank + size - shift) % size;
    x->source = any && x->from != MPI_PROC_NULL ? MPI_ANY_SOURCE : x->from;
    x->tag = step;
}

static point draw_point(const char *what) {
    point x = {.comm = comm_draw(),
               .large = draw(3) == 0,
               .p = pending_begin(what),
               .sent = layout_draw()};
    int each, count = layout_fit(&x.sent, count_draw(), MOST);
    draw_ends(&x);
    x.got = layout_peer(&x.sent, &each);
    int room = count * each + (int)(draw(3) ? 0 : draw(ROOM));
    block out = block_make(&x.sent, count, 0);
    x.in_block = block_make(&x.got, room, 1);
    x.out = argument_make(&out, &x.sent, count, draw(6) == 0);
    x.in = argument_make(&x.in_block, &x.got, room, draw(6) == 0);
    pending_block(x.p, out);
    pending_block(x.p, x.in_block);
    return x;
}

static void end_point(point *x) {
    argument_free(&x->out);
    argument_free(&x->in);
    layout_free(&x->sent);
    layout_free(&x->got);
    if (x->p->count == 0 || draw(3) == 0)
        pending_complete(x->p);
}

// ---- Sends and receives, each in its way.

#define OUT x->out.at, x->out.count, x->out.type, x->to, x->tag, x->comm
#define IN x->in.at, x->in.count, x->in.type, x->source, x->tag, x->comm

static void begin_send(const point *x) {
    MPI_Request *request = pending_request(x->p);
    switch (draw(4)) {
    case 0: EITHER(x->large, Issend, OUT, request); return;
    case 1: EITHER(x->large, Ibsend, OUT, request); return;
    default: EITHER(x->large, Isend, OUT, request);
    }
}

static void begin_receive(const point *x) {
    MPI_Request *request = pending_request(x->p);
    EITHER(x->large, Irecv, IN, request);
}

static void receive_probed(const point *x) {
    MPI_Status status;
    int there = 0;
    if (draw(2))
        OK(MPI_Probe(x->source, x->tag, x->comm, &status));
    else
        while (!there)
            OK(MPI_Iprobe(x->source, x->tag, x->comm, &there, &status));
    note_status(x, &status);
    EITHER(x->large, Recv, x->in.at, x->in.count, x->in.type, status.MPI_SOURCE, x->tag, x->comm,
           &status);
    note_status(x, &status);
}

static void receive_matched(const point *x) {
    MPI_Message message;
    MPI_Status status;
    int there = 0;
    if (draw(2))
        OK(MPI_Mprobe(x->source, x->tag, x->comm, &message, &status));
    else
        while (!there)
            OK(MPI_Improbe(x->source, x->tag, x->comm, &there, &message, &status));
    note_status(x, &status);
    if (draw(2)) {
        EITHER(x->large, Mrecv, x->in.at, x->in.count, x->in.type, &message, &status);
        note_status(x, &status);
    } else {
        MPI_Request *request = pending_request(x->p);
        EITHER(x->large, Imrecv, x->in.at, x->in.count, x->in.type, &message, request);
    }
}

static void receive_at_once(const point *x) {
    MPI_Status status;
    EITHER(x->large, Recv, IN, &status);
    note_status(x, &status);
}

static void one_after_the_other(void) {
    point x = draw_point("message");
    enum { RECEIVED = 4 };  // the ways to receive after the send
    bool receive_first = draw(3) == 0;
    if (receive_first)
        begin_receive(&x);
    begin_send(&x);
    switch (receive_first ? RECEIVED : draw(RECEIVED)) {
    case 0: receive_probed(&x); break;
    case 1: receive_matched(&x); break;
    case 2: receive_at_once(&x); break;
    case 3: begin_receive(&x); break;
    default: break;
    }
    end_point(&x);
}

// A ready send finds its receive: a barrier lies between.
static void ready(void) {
    point x = draw_point("ready"), *at = &x;
    begin_receive(at);
    OK(MPI_Barrier(x.comm));
    MPI_Request *request = pending_request(x.p);
    EITHER(at->large, Irsend, x.out.at, x.out.count, x.out.type, x.to, x.tag, x.comm, request);
    end_point(&x);
}

static void both(void) {
    point x = draw_point("sendrecv");
    MPI_Status status;
    if (draw(2)) {
        EITHER(x.large, Sendrecv, x.out.at, x.out.count, x.out.type, x.to, x.tag, x.in.at,
               x.in.count, x.in.type, x.source, x.tag, x.comm, &status);
        note_status(&x, &status);
    } else {
        MPI_Request *request = pending_request(x.p);
        EITHER(x.large, Isendrecv, x.out.at, x.out.count, x.out.type, x.to, x.tag, x.in.at,
               x.in.count, x.in.type, x.source, x.tag, x.comm, request);
    }
    end_point(&x);
}

static void replaced(void) {
    point x = draw_point("sendrecv_replace");
    MPI_Status status;
    if (draw(2)) {
        EITHER(x.large, Sendrecv_replace, x.out.at, x.out.count, x.out.type, x.to, x.tag, x.source,
               x.tag, x.comm, &status);
        note("source", status.MPI_SOURCE == MPI_PROC_NULL ? -1 : status.MPI_SOURCE);
    } else {
        MPI_Request *request = pending_request(x.p);
        if (pending_spare)
            OK(MPI_Sendrecv_replace(x.out.at, x.out.count, x.out.type, x.to, x.tag, x.source, x.tag,
                                    x.comm, MPI_STATUS_IGNORE));
        else
            EITHER(x.large, Isendrecv_replace, x.out.at, x.out.count, x.out.type, x.to, x.tag,
                   x.source, x.tag, x.comm, request);
    }
    end_point(&x);
}

static void persistent(void) {
    point drawn = draw_point("persistent"), *x = &drawn;
    MPI_Request *in = pending_request(x->p), *out = pending_request(x->p);
    EITHER(x->large, Recv_init, IN, in);
    switch (draw(3)) {
    case 0: EITHER(x->large, Send_init, OUT, out); break;
    case 1: EITHER(x->large, Ssend_init, OUT, out); break;
    default: EITHER(x->large, Bsend_init, OUT, out);
    }
    x->p->persistent = true;
    if (draw(2)) {
        OK(MPI_Startall(2, x->p->requests));
    } else {
        OK(MPI_Start(out));
        OK(MPI_Start(in));
    }
    end_point(x);
}

void point_step(void) {
    switch (draw(9)) {
    case 0: ready(); break;
    case 1: both(); break;
    case 2: replaced(); break;
    case 3:
    case 4: persistent(); break;
    default: one_after_the_other();
    }
}
