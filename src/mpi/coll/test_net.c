// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/test_net.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/p2p/p2p.h"

typedef struct message {
    struct message *next;
    uint32_t context;
    int source, tag;
    MPI_Count bytes;
    whm_transfer *send;  // it waits for its receiver
    char data[];
} message;

// What the linker puts in the place of the two.
__typeof__(whm_send) __wrap_whm_send;
__typeof__(whm_recv) __wrap_whm_recv;

static message *way[NET_RANKS][NET_RANKS];  // from, to
static message *kept[NET_RANKS];
static whm_transfer *posted[NET_RANKS];
static uint64_t state;
static int lost = -1;

void net_lose(int rank) {
    lost = rank;
}

void net_seed(uint64_t seed) {
    state = seed * 2862933555777941757u + 3037000493u;
}

uint64_t net_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int net_below(int n) {
    return (int)((net_random() >> 20) % (uint64_t)n);
}

static void begin(whm_transfer *t, whm_comm *comm, void *buf, MPI_Count count, whm_type *type,
                  int peer, int tag) {
    whm_transfer_begin(t, comm, buf, count, type, 0);
    t->peer = peer;
    t->wanted = tag;
    t->next = NULL;
}

static int here(const whm_comm *comm) {
    return whm_group_world(comm->group, comm->rank);
}

static void append(message **list, message *m) {
    while (*list)
        list = &(*list)->next;
    m->next = NULL;
    *list = m;
}

static bool match(const whm_transfer *t, const message *m) {
    return t->comm->context == m->context && t->peer == m->source && t->wanted == m->tag;
}

static void finish(whm_transfer *t) {
    t->complete = true;
    t->done(t);
}

// Gives the message to the receive; its sender hears of it.
static void deliver(whm_transfer *t, message *m) {
    whm_transfer *send = m->send;
    t->bytes = m->bytes;
    t->source = m->source;
    t->tag = m->tag;
    t->error = m->bytes > t->count * t->type->size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    if (t->comm->rank == lost)
        t->error = MPI_ERR_PROC_ABORTED;
    else if (m->bytes > 0 && t->count > 0)
        t->error |= whm_copy(t->buf, t->count, t->type, m->data, m->bytes, whm_type_of(MPI_BYTE));
    free(m);
    if (send)
        finish(send);
}

int __wrap_whm_send(whm_transfer *t, whm_comm *comm, whm_space space, const void *buf,
                    MPI_Count count, whm_type *type, int dest, int tag, whm_mode mode) {
    (void)mode;
    begin(t, comm, (void *)(uintptr_t)buf, count, type, dest, tag);
    MPI_Count bytes = count * type->size;
    message *m = calloc(1, sizeof(*m) + (size_t)bytes);
    if (!m || space != WHM_COLL)
        abort();
    m->context = comm->context;
    m->source = comm->rank;
    m->tag = tag;
    m->bytes = bytes;
    if (bytes > 0 && whm_copy(m->data, bytes, whm_type_of(MPI_BYTE), buf, count, type) != 0)
        abort();
    append(&way[here(comm)][whm_group_world(whm_comm_peers(comm), dest)], m);
    if (net_below(3) > 0)
        t->complete = true;
    else
        m->send = t;
    return MPI_SUCCESS;
}

int __wrap_whm_recv(whm_transfer *t, whm_comm *comm, whm_space space, void *buf, MPI_Count count,
                    whm_type *type, int source, int tag) {
    begin(t, comm, buf, count, type, source, tag);
    if (space != WHM_COLL)
        abort();
    for (message **at = &kept[here(comm)]; *at; at = &(*at)->next)
        if (match(t, *at)) {
            message *m = *at;
            *at = m->next;
            deliver(t, m);
            t->complete = true;
            return MPI_SUCCESS;
        }
    whm_transfer **end = &posted[here(comm)];
    while (*end)
        end = &(*end)->next;
    *end = t;
    return MPI_SUCCESS;
}

static void arrive(int at, message *m) {
    for (whm_transfer **t = &posted[at]; *t; t = &(*t)->next)
        if (match(*t, m)) {
            whm_transfer *taken = *t;
            *t = taken->next;
            deliver(taken, m);
            finish(taken);
            return;
        }
    append(&kept[at], m);
}

bool net_step(void) {
    int pairs = NET_RANKS * NET_RANKS, first = net_below(pairs);
    for (int i = 0; i < pairs; i++) {
        int from = (first + i) % pairs / NET_RANKS, to = (first + i) % NET_RANKS;
        message *m = way[from][to];
        if (!m)
            continue;
        way[from][to] = m->next;
        arrive(to, m);
        return true;
    }
    return false;
}

int net_left(void) {
    int left = 0;
    for (int i = 0; i < NET_RANKS; i++) {
        for (message *m = kept[i], *next; m; m = next, left++) {
            next = m->next;
            free(m);
        }
        for (whm_transfer *t = posted[i]; t; t = t->next)
            left++;
        kept[i] = NULL;
        posted[i] = NULL;
    }
    return left;
}
