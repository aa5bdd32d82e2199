// SPDX-License-Identifier: BSD-3-Clause
//
// A schedule under way stands at a wait step, or is done.  Completions count down; the last one lets it go on.  A schedule that somebody
// waits for goes on in whm_schedule_run; another one goes on in progress, where those that can go on stand in a line: a completion within
// another one's steps joins the line instead of nesting, so that the stack does not grow with the number of ranks in a process.
#include "mpi/coll/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"

struct whm_chunk {
    struct whm_chunk *next;
    void *buf;
    whm_type *type;
};

void whm_schedule_init(whm_schedule *s, whm_comm *comm, whm_op *op) {
    memset(s, 0, offsetof(whm_schedule, inline_step));
    s->comm = comm;
    s->op = op;
    s->owner = whm_self;
    s->rank = comm->rank;
    s->size = comm->size;
    s->step = s->inline_step;
    s->room = WHM_INLINE_STEPS;
}

static void let_go(whm_schedule *s) {
    for (int i = 0; i < s->steps; i++) {
        if (s->step[i].type)
            whm_type_release(s->step[i].type);
        if (s->step[i].from_type)
            whm_type_release(s->step[i].from_type);
    }
    if (s->op)
        whm_op_release(s->op);
}

void whm_schedule_fini(whm_schedule *s) {
    for (struct whm_chunk *space = s->space, *next; space; space = next) {
        next = space->next;
        whm_space_free(space->buf, space->type);
        free(space);
    }
    if (s->holds)
        let_go(s);
    if (s->step != s->inline_step)
        free(s->step);
    if (s->flight != s->inline_flight)
        free(s->flight);
}

void whm_schedule_within(whm_schedule *s, bool local) {
    s->local = local && s->comm->remote;
}

static bool grow(whm_schedule *s) {
    int room = 4 * s->room;
    whm_step *step = whm_malloc((size_t)room * sizeof(*step));
    if (!step)
        return false;
    memcpy(step, s->step, (size_t)s->steps * sizeof(*step));
    if (s->step != s->inline_step)
        free(s->step);
    s->step = step;
    s->room = room;
    return true;
}

static whm_step *add(whm_schedule *s, whm_step_kind kind) {
    if (s->steps == s->room && (s->error || !grow(s))) {
        s->error = whm_no_memory();
        return NULL;
    }
    whm_step *step = &s->step[s->steps++];
    step->kind = (uint8_t)kind;
    step->type = step->from_type = NULL;
    return step;
}

static void add_message(whm_schedule *s, whm_step_kind kind, void *buf, MPI_Count count,
                        whm_type *type, int peer) {
    whm_step *step = add(s, kind);
    if (!step)
        return;
    step->local = s->local;
    step->peer = peer;
    step->buf = buf;
    step->count = count;
    step->type = type;
    if (++s->started > s->most)
        s->most = s->started;
}

void whm_step_send(whm_schedule *s, const void *buf, MPI_Count count, whm_type *type, int dest) {
    add_message(s, WHM_STEP_SEND, (void *)(uintptr_t)buf, count, type, dest);
}

void whm_step_recv(whm_schedule *s, void *buf, MPI_Count count, whm_type *type, int source) {
    add_message(s, WHM_STEP_RECV, buf, count, type, source);
}

void whm_step_copy(whm_schedule *s, void *to, MPI_Count to_count, whm_type *to_type,
                   const void *from, MPI_Count from_count, whm_type *from_type) {
    if (to_count == 0 || from_count == 0)
        return;
    whm_step *step = add(s, WHM_STEP_COPY);
    if (step)
        *step = (whm_step){.kind = WHM_STEP_COPY,
                           .buf = to,
                           .count = to_count,
                           .type = to_type,
                           .from = from,
                           .from_count = from_count,
                           .from_type = from_type};
}

void whm_step_reduce(whm_schedule *s, const void *in, void *inout, MPI_Count count,
                     whm_type *type) {
    if (count == 0)
        return;
    whm_step *step = add(s, WHM_STEP_REDUCE);
    if (!step)
        return;
    step->buf = inout;
    step->from = in;
    step->count = count;
    step->type = type;
}

void whm_step_wait(whm_schedule *s) {
    if (s->started > 0)
        (void)add(s, WHM_STEP_WAIT);
    s->started = 0;
}

static bool fits(const whm_schedule *s, MPI_Count size) {
    return size <= (MPI_Count)(WHM_INLINE_BYTES - s->used);
}

void *whm_schedule_space(whm_schedule *s, MPI_Count count, whm_type *type) {
    if (type->dense && fits(s, count * type->size))
        return whm_schedule_bytes(s, count * type->size);
    struct whm_chunk *space = whm_malloc(sizeof(*space));
    void *buf = space ? whm_space_new(count, type) : NULL;
    if (!buf) {
        free(space);
        s->error = whm_no_memory();
        return NULL;
    }
    *space = (struct whm_chunk){.next = s->space, .buf = buf, .type = type};
    s->space = space;
    return buf;
}

char *whm_schedule_bytes(whm_schedule *s, MPI_Count size) {
    if (!fits(s, size))
        return whm_schedule_space(s, size, whm_type_of(MPI_BYTE));
    char *bytes = s->inline_bytes + s->used;
    s->used += ((size_t)size + 15) & ~(size_t)15;
    return bytes;
}

static void hold(whm_schedule *s) {
    for (int i = 0; i < s->steps; i++) {
        if (s->step[i].type)
            whm_retain(s->step[i].type);
        if (s->step[i].from_type)
            whm_retain(s->step[i].from_type);
    }
    if (s->op)
        whm_retain(s->op);
    s->holds = true;
}

static void landed(whm_transfer *transfer);

int whm_schedule_close(whm_schedule *s, bool keep) {
    whm_step_wait(s);
    if (s->error)
        return s->error;
    s->flight = s->inline_flight;
    if (s->most > WHM_INLINE_FLIGHTS &&
        !(s->flight = whm_malloc((size_t)s->most * sizeof(*s->flight))))
        return whm_no_memory();
    for (int i = 0; i < s->most; i++) {
        whm_transfer_own(&s->flight[i].transfer, landed, false);
        s->flight[i].schedule = s;
    }
    if (keep)
        hold(s);
    return MPI_SUCCESS;
}

void whm_schedule_tag(whm_schedule *s) {
    s->tag = whm_comm_tag(s->comm);
    if (s->comm->remote)
        s->local_tag = whm_comm_tag(s->comm->local);
}

// A job that does not go on after a loss ends by the error of a rank: one that has met it does not wait for what may never come.
static void withdraw_receives(whm_schedule *s) {
    for (int i = 0; i < s->started; i++)
        whm_transfer_cancel(&s->flight[i].transfer);
}

static void failed(whm_schedule *s, int error) {
    if (error == MPI_SUCCESS || s->error != MPI_SUCCESS)
        return;
    s->error = error;
    if (error == MPI_ERR_PROC_ABORTED && !whm_process_here.stays)
        withdraw_receives(s);
}

static void message_ended(whm_schedule *s, const whm_transfer *transfer) {
    if (transfer->error == MPI_ERR_TRUNCATE && s->error == MPI_SUCCESS) {
        s->from = transfer->source;
        s->bytes = transfer->bytes;
        s->expected = transfer->count * transfer->type->size;
    }
    failed(s, transfer->error);
}

int whm_schedule_fail(const whm_schedule *s) {
    if (s->error != MPI_ERR_TRUNCATE)
        return s->error;
    return whm_fail(MPI_ERR_TRUNCATE,
                    "rank %d has sent %lld bytes where this rank expects %lld: all ranks must call "
                    "the same, with counts and types of the same size" WHM_CHECK_HINT,
                    whm_comm_known_rank(s->comm, s->from), (long long)s->bytes,
                    (long long)s->expected);
}

static void begin_message(whm_schedule *s, const whm_step *step) {
    whm_transfer *transfer = &s->flight[s->started].transfer;
    whm_comm *comm = step->local ? s->comm->local : s->comm;
    int tag = step->local ? s->local_tag : s->tag;
    int error = step->kind == WHM_STEP_SEND
                    ? whm_send(transfer, comm, WHM_COLL, step->buf, step->count, step->type,
                               step->peer, tag, WHM_STANDARD)
                    : whm_recv(transfer, comm, WHM_COLL, step->buf, step->count, step->type,
                               step->peer, tag);
    if (error != MPI_SUCCESS) {
        failed(s, error);
        return;
    }
    s->started++;
    if (transfer->complete)
        message_ended(s, transfer);
    else
        s->pending++;
}

static void carry_out(whm_schedule *s, const whm_step *step) {
    if (s->error == MPI_ERR_PROC_ABORTED)
        return;
    switch (step->kind) {
    case WHM_STEP_COPY:
        failed(s, whm_copy(step->buf, step->count, step->type, step->from, step->from_count,
                           step->from_type));
        break;
    case WHM_STEP_REDUCE:
        failed(s, whm_reduce(step->from, step->buf, step->count, step->type, s->op));
        break;
    default: begin_message(s, step); break;
    }
}

// Goes on until it stands at a wait, false, or at its end.
static bool advance(whm_schedule *s) {
    s->running = true;
    for (; s->at < s->steps; s->at++) {
        const whm_step *step = &s->step[s->at];
        if (step->kind != WHM_STEP_WAIT)
            carry_out(s, step);
        else if (s->pending > 0)
            break;
        else
            s->started = 0;
    }
    s->running = false;
    return s->at == s->steps;
}

static void rewind_to_start(whm_schedule *s) {
    s->at = s->started = s->pending = 0;
    s->error = MPI_SUCCESS;
}

int whm_schedule_run(whm_schedule *s) {
    rewind_to_start(s);
    while (!advance(s))
        while (s->pending > 0)
            whm_block();
    return whm_schedule_fail(s);
}

static void go_on(whm_schedule *s) {
    whm_rank *was = whm_self;
    whm_self = s->owner;
    if (advance(s))
        s->done(s);
    whm_self = was;
}

// Those that can go on, in the process: their ranks take turns on one thread, and only one is in here.
static struct {
    whm_schedule *first, **end;
    bool busy;
} line;

static void stand_in_line(whm_schedule *s) {
    if (!line.first)
        line.end = &line.first;
    s->next = NULL;
    *line.end = s;
    line.end = &s->next;
    if (line.busy)
        return;
    line.busy = true;
    while (line.first) {
        whm_schedule *first = line.first;
        line.first = first->next;
        go_on(first);
    }
    line.busy = false;
}

static void landed(whm_transfer *transfer) {
    whm_schedule *s = ((whm_flight *)transfer)->schedule;
    message_ended(s, transfer);
    if (--s->pending == 0 && s->done && !s->running)
        stand_in_line(s);
}

void whm_schedule_start(whm_schedule *s) {
    rewind_to_start(s);
    stand_in_line(s);
}
