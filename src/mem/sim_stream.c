// SPDX-License-Identifier: BSD-3-Clause
//
// The streams of the simulated device: copies that happen later, in order, when somebody looks.
//
// The idea: a stream takes a place in a small table while it has work; each piece of work has a
// ticket from one counter, and an event is the ticket of the last piece before it.  So an event has
// passed when its stream has no work or has come to a later ticket, and costs no memory.  The
// invariant: a piece waits only for pieces with smaller tickets, so that there is always one that
// can run.  No thread of its own: the caller of an event query performs what is due, under the one
// lock.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/queue.h"
#include "mem/sim.h"

typedef struct piece {
    whi_queue_node node;
    uint64_t ticket;
    uint64_t due_ns;
    void *dst;  // NULL: no copy, but a wait for `after`
    const void *src;
    size_t size;
    whi_mem_event after;
} piece;

typedef struct stream {
    void *id;          // what the user calls it
    whi_queue pieces;  // empty: the place is free
    uint64_t last_ticket;
} stream;

enum { STREAMS_MAX = 64 };  // with work at one time: more than any test of ours has

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stream streams[STREAMS_MAX];
static uint64_t tickets;
static _Atomic uint64_t delay;

void whi_sim_set_delay(uint64_t delay_ns) {
    atomic_store(&delay, delay_ns);
}

// All that follows, up to the public part, runs under the lock.

// Returns the stream that has work under this name, or NULL.
static stream *find_stream(const void *id) {
    for (stream *s = streams; s < streams + STREAMS_MAX; s++)
        if (!whi_queue_empty(&s->pieces) && s->id == id)
            return s;
    return NULL;
}

static stream *free_place(void) {
    for (stream *s = streams; s < streams + STREAMS_MAX; s++)
        if (whi_queue_empty(&s->pieces))
            return s;
    return NULL;
}

static piece *first_piece(const stream *s) {
    whi_queue_node *node = whi_queue_first(&s->pieces);
    return node ? whi_container_of(node, piece, node) : NULL;
}

static bool passed(const whi_mem_event *event) {
    const stream *s = find_stream(event->handle);
    const piece *first = s ? first_piece(s) : NULL;
    return !first || first->ticket > event->ticket;
}

// Performs what is due in one stream and says whether anything was.
static bool advance(stream *s, uint64_t now_ns) {
    bool moved = false;
    for (piece *p; (p = first_piece(s)); moved = true) {
        if (p->dst ? now_ns < p->due_ns : !passed(&p->after))
            break;
        if (p->dst)
            memmove(p->dst, p->src, p->size);
        whi_queue_pop(&s->pieces);
        whi_free(p);
    }
    return moved;
}

static void perform(uint64_t now_ns) {
    bool moved = true;
    while (moved) {  // again, because a stream may have waited for one behind it in the table
        moved = false;
        for (stream *s = streams; s < streams + STREAMS_MAX; s++)
            moved |= advance(s, now_ns);
    }
}

static wh_status append(void *id, const piece *work) {
    stream *s = find_stream(id);
    if (!s) {
        s = free_place();
        if (!s)
            return WH_ELIMIT;
        s->id = id;
        whi_queue_init(&s->pieces);
    }
    piece *p = whi_memdup(work, sizeof(*work));
    if (!p)
        return WH_ENOMEM;
    p->ticket = s->last_ticket = ++tickets;
    whi_queue_push(&s->pieces, &p->node);
    return WH_OK;
}

// The public part.

void whi_sim_drain(void) {
    pthread_mutex_lock(&lock);
    perform(UINT64_MAX);
    pthread_mutex_unlock(&lock);
}

wh_status whi_sim_submit(void *dst, const void *src, size_t size, void *stream_id) {
    pthread_mutex_lock(&lock);
    uint64_t later = atomic_load(&delay);
    wh_status status = WH_OK;
    if (!later && !find_stream(stream_id))
        memmove(dst, src, size);
    else
        status = append(
            stream_id,
            &(piece){.due_ns = whi_clock_ns() + later, .dst = dst, .src = src, .size = size});
    pthread_mutex_unlock(&lock);
    return status;
}

void whi_sim_record(void *stream_id, whi_mem_event *event) {
    pthread_mutex_lock(&lock);
    const stream *s = find_stream(stream_id);
    *event =
        (whi_mem_event){.ops = &whi_mem_sim, .handle = stream_id, .ticket = s ? s->last_ticket : 0};
    pthread_mutex_unlock(&lock);
}

wh_status whi_sim_wait(void *stream_id, const whi_mem_event *event) {
    pthread_mutex_lock(&lock);
    wh_status status = WH_OK;
    if (!passed(event))
        status = append(stream_id, &(piece){.dst = NULL, .after = *event});
    pthread_mutex_unlock(&lock);
    return status;
}

wh_status whi_sim_query_event(const whi_mem_event *event) {
    pthread_mutex_lock(&lock);
    perform(whi_clock_ns());
    wh_status status = passed(event) ? WH_OK : WH_PENDING;
    pthread_mutex_unlock(&lock);
    return status;
}
