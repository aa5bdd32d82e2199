// SPDX-License-Identifier: BSD-3-Clause
//
// The messages go beside those of collectives, by tags that nothing else has.  Of an intercommunicator rank 0 of the group whose first member
// has the lower rank in MPI_COMM_WORLD hears from both groups.
#include "mpi/comm/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/base/hash.h"
#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"

enum { NONE = -1, NAME = 48, TAGS = 1 << 29 };

bool whm_compares;

// As messages have it: no pointers.
typedef struct line {
    char name[40];
    int32_t said, error;
    int64_t value;
} line;

typedef struct account {
    char call[NAME];
    line line[WHM_FACTS];
} account;

typedef struct verdict {
    int32_t odd, other;  // ranks that differ; NONE: none do
    account of_odd, of_other;
} verdict;

typedef struct message {
    whm_transfer transfer;
    whm_comparison *comparison;
} message;

struct whm_comparison {
    whm_comparison *next, **at;  // in the rank's list, of those that nobody waits for
    whm_comm *comm;              // held
    int tag, waits, stage;
    int error;                   // of the messages: an MPI error class
    const whm_transfer *failed;  // the first that has
    bool judges, complete;
    void (*done)(void *arg);
    void *arg;
    account mine;
    verdict verdict;
    account *theirs;  // of who judges: by number, as `message`, of which others have two
    int others;
    message message[];
};

void whm_compare_read_setting(void) {
    const char *text = getenv("WHERRY_MPI_CHECK");
    whm_compares = text && strcmp(text, "1") == 0;
}

int64_t whm_hash(const void *data, size_t size) {
    return (int64_t)whm_hash_more(WHM_HASH_BEGIN, data, size);
}

// ---- What a rank has called.

static void describe(account *a, const whm_fact *facts) {
    // Both forms of a function are the same call.
    size_t length = strlen(whm_self->call);
    if (length > 2 && strcmp(whm_self->call + length - 2, "_c") == 0)
        length -= 2;
    snprintf(a->call, sizeof(a->call), "%.*s", (int)length, whm_self->call);
    for (int i = 0; facts && i < WHM_FACTS && facts[i].name; i++) {
        line *l = &a->line[i];
        snprintf(l->name, sizeof(l->name), "%s", facts[i].name);
        l->said = facts[i].said;
        l->error = facts[i].error;
        l->value = facts[i].value;
    }
}

static bool are_alike(const account *a, const account *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

// differs returns the first of the facts that differ: WHM_FACTS: the calls do.
static int differs(const verdict *v) {
    const account *a = &v->of_odd, *b = &v->of_other;
    for (int i = 0; strcmp(a->call, b->call) == 0 && i < WHM_FACTS; i++)
        if (memcmp(&a->line[i], &b->line[i], sizeof(line)) != 0)
            return i;
    return WHM_FACTS;
}

static int class_of(const verdict *v) {
    int i = differs(v);
    return i < WHM_FACTS ? v->of_odd.line[i].error : MPI_ERR_NOT_SAME;
}

// In an intercommunicator ranks are those of MPI_COMM_WORLD.
static int say(const verdict *v, bool of_world) {
    const account *a = &v->of_odd, *b = &v->of_other;
    const char *of = of_world ? " of MPI_COMM_WORLD" : "";
    int i = differs(v);
    if (i == WHM_FACTS)
        return whm_fail(MPI_ERR_NOT_SAME, "rank %d%s has called %s, rank %d %s", v->odd, of,
                        a->call, v->other, b->call);
    const line *x = &a->line[i], *y = &b->line[i];
    if (x->said == WHM_NAME_FIRST)
        return whm_fail(x->error, "rank %d%s has called %s with %s %lld, rank %d with %s %lld",
                        v->odd, of, a->call, x->name, (long long)x->value, v->other, y->name,
                        (long long)y->value);
    if (x->said == WHM_VALUE_FIRST)
        return whm_fail(x->error, "rank %d%s has called %s with %lld %s, rank %d with %lld", v->odd,
                        of, a->call, (long long)x->value, x->name, v->other, (long long)y->value);
    return whm_fail(x->error, "rank %d%s has called %s with %s than rank %d", v->odd, of, a->call,
                    x->name, v->other);
}

// ---- The messages.

static void advance(whm_comparison *c);

static void note_error(whm_comparison *c, int error, const whm_transfer *transfer) {
    if (error == MPI_SUCCESS || c->error != MPI_SUCCESS)
        return;
    c->error = error;
    c->failed = transfer;
}

static void landed(whm_transfer *transfer) {
    whm_comparison *c = ((message *)transfer)->comparison;
    note_error(c, transfer->error, transfer);
    if (--c->waits == 0)
        advance(c);
}

// peer_of says who the i-th of those that the judge hears is: a rank of *comm.
static int peer_of(const whm_comparison *c, int i, whm_comm **comm) {
    bool near = i < c->comm->size - 1;
    *comm = near && c->comm->remote ? c->comm->local : c->comm;
    return near ? i + 1 : i - (c->comm->size - 1);
}

static int name_of(const whm_comparison *c, int i) {
    whm_comm *comm;
    int rank = peer_of(c, i, &comm);
    return c->comm->remote ? whm_group_world(whm_comm_peers(comm), rank) : rank;
}

static void send_to(whm_comparison *c, message *m, whm_comm *comm, int rank, const void *data,
                    size_t size) {
    m->transfer = (whm_transfer){.done = landed};
    m->comparison = c;
    int error = whm_send(&m->transfer, comm, WHM_COLL, data, (MPI_Count)size, whm_type_of(MPI_BYTE),
                         rank, c->tag, WHM_STANDARD);
    if (error == MPI_SUCCESS && !m->transfer.complete)
        c->waits++;
    else
        note_error(c, error != MPI_SUCCESS ? error : m->transfer.error, &m->transfer);
}

static void hear_from(whm_comparison *c, message *m, whm_comm *comm, int rank, void *data,
                      size_t size) {
    m->transfer = (whm_transfer){.done = landed};
    m->comparison = c;
    int error = whm_recv(&m->transfer, comm, WHM_COLL, data, (MPI_Count)size, whm_type_of(MPI_BYTE),
                         rank, c->tag);
    if (error == MPI_SUCCESS && !m->transfer.complete)
        c->waits++;
    else
        note_error(c, error != MPI_SUCCESS ? error : m->transfer.error, &m->transfer);
}

// judge finds one that differs from most.
static void judge(whm_comparison *c) {
    int unlike = 0, first = 0;
    for (int i = 0; i < c->others; i++)
        if (!are_alike(&c->theirs[i], &c->mine) && !unlike++)
            first = i;
    if (c->error != MPI_SUCCESS || !unlike)
        return;
    int me = c->comm->remote ? whm_group_world(c->comm->group, 0) : 0, it = name_of(c, first);
    bool i_am = unlike > (c->others + 1) / 2;
    c->verdict = i_am ? (verdict){me, it, c->mine, c->theirs[first]}
                      : (verdict){it, me, c->theirs[first], c->mine};
}

static void step(whm_comparison *c) {
    whm_comm *comm = c->comm;
    if (!c->judges) {
        bool near =
            !comm->remote || whm_group_world(comm->group, 0) < whm_group_world(comm->remote, 0);
        comm = near && comm->remote ? comm->local : comm;
        hear_from(c, &c->message[0], comm, 0, &c->verdict, sizeof(c->verdict));
        send_to(c, &c->message[1], comm, 0, &c->mine, sizeof(c->mine));
        return;
    }
    if (c->stage == 2)
        judge(c);
    for (int i = 0; i < c->others; i++) {
        int rank = peer_of(c, i, &comm);
        if (c->stage == 1)
            hear_from(c, &c->message[i], comm, rank, &c->theirs[i], sizeof(c->theirs[i]));
        else
            send_to(c, &c->message[i], comm, rank, &c->verdict, sizeof(c->verdict));
    }
}

static void advance(whm_comparison *c) {
    while (c->waits == 0 && c->stage < (c->judges ? 2 : 1)) {
        c->stage++;
        c->waits = 1;  // not to be called again from within
        step(c);
        c->waits--;
    }
    if (c->waits)
        return;
    c->complete = true;
    if (c->done)
        c->done(c->arg);  // may free it
    else
        whm_wake(whm_self);
}

// ---- From call to call.

static whm_comparison *make(whm_comm *comm, int tag, const whm_fact *facts) {
    int others = comm->size - 1 + (comm->remote ? comm->remote->size : 0);
    bool judges = comm->rank == 0 && (!comm->remote || whm_group_world(comm->group, 0) <
                                                           whm_group_world(comm->remote, 0));
    size_t messages = judges ? (size_t)others : 2;
    whm_comparison *c = whm_calloc(1, sizeof(*c) + messages * sizeof(message));
    if (!c)
        return NULL;
    c->theirs = judges ? whm_calloc((size_t)others + 1, sizeof(*c->theirs)) : NULL;
    if (judges && !c->theirs) {
        free(c);
        return NULL;
    }
    c->comm = whm_retain(comm);
    c->others = others;
    c->judges = judges;
    c->tag = tag;
    c->verdict = (verdict){.odd = NONE, .other = NONE};
    describe(&c->mine, facts);
    return c;
}

whm_comparison *whm_compare_new(whm_comm *comm, const whm_fact *facts) {
    return make(comm, INT32_MIN + (int)(comm->compared++ % TAGS), facts);
}

void whm_compare_start(whm_comparison *c, void (*done)(void *arg), void *arg) {
    c->done = done;
    c->arg = arg;
    advance(c);
}

int whm_compare_error(const whm_comparison *c) {
    return c->error != MPI_SUCCESS  ? c->error
           : c->verdict.odd == NONE ? MPI_SUCCESS
                                    : class_of(&c->verdict);
}

int whm_compare_fail(const whm_comparison *c) {
    if (c->error != MPI_SUCCESS)
        return c->failed ? whm_transfer_fail(c->failed) : c->error;
    return c->verdict.odd == NONE ? MPI_SUCCESS : say(&c->verdict, c->comm->remote != NULL);
}

void whm_compare_free(whm_comparison *c) {
    if (!c)
        return;
    whm_comm_release(c->comm);
    free(c->theirs);
    free(c);
}

static int wait_for(whm_comparison *c) {
    if (!c)
        return whm_no_memory();
    whm_compare_start(c, NULL, NULL);
    whm_block_until(&c->complete);
    int rc = whm_compare_fail(c);
    whm_compare_free(c);
    return rc;
}

int whm_compare(whm_comm *comm, const whm_fact *facts) {
    return wait_for(whm_compare_new(comm, facts));
}

int whm_compare_apart(whm_comm *comm, uint32_t number) {
    if (!whm_compare_is_due(comm))
        return MPI_SUCCESS;
    // One call after the other: their messages come in this order.
    return wait_for(make(comm, INT32_MIN + TAGS + (int)(number % TAGS), NULL));
}

static void forget(void *arg) {
    whm_comparison *c = arg;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    whm_compare_free(c);
}

void whm_compare_behind(whm_comm *comm) {
    whm_comparison *c = whm_compare_is_due(comm) ? whm_compare_new(comm, NULL) : NULL;
    if (!c)
        return;
    // What does not end before the program stays in the list: it is not lost.
    c->next = whm_self->behind;
    c->at = &whm_self->behind;
    if (c->next)
        c->next->at = &c->next;
    whm_self->behind = c;
    whm_compare_start(c, forget, c);
}
