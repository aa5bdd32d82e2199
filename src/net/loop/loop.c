// SPDX-License-Identifier: BSD-3-Clause
//
// The loop lane: two ends in one process and thread, joined by a simulated, seeded network.
//
// A pair holds one queue of records per direction; a lane takes from one and puts into the other.
// Invariants: a record is in exactly one queue or being delivered; without reordering only the
// first of a queue may be delivered, and waits for its tick, so that those behind it wait too;
// nothing overtakes a record that is cut short, since nothing comes after it.  Every random choice
// is drawn when a record is put or taken, from the network's one generator, so a run is a function
// of the seed and of the order of calls.
#include "net/loop/loop.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/rng.h"

enum {
    WINDOW = 64,
    EAGER_LIMIT = 8192,
    CHUNK_MAX = 65536,
    // With `reorder`, how many records may overtake one, and how far back the next is looked for.
    OVERTAKES = 8,
};

struct whi_loop_net {
    whi_loop_opts opts;
    unsigned holders;  // the creator and each lane
    uint64_t now;      // ticks
    uint64_t in_flight;
    whi_rng rng;
    whi_pool records, chunks;  // two sizes, because most records are far smaller than a chunk
};

typedef struct record {
    whi_list node;
    uint64_t due;        // the tick from which it may be delivered
    unsigned overtaken;  // times
    bool truncated;      // it arrives cut short, and the connection is lost
    whi_hdr hdr;
    char payload[];
} record;

typedef struct loop_lane {
    whi_lane lane;
    whi_loop_net *net;
    struct pair *pair;
    whi_list in;         // records on their way here, in the order they were sent
    uint32_t in_size;    // of them
    bool open, refused;  // `refused`: the owner waits for space in the other's queue
    wh_status broken;
} loop_lane;

typedef struct pair {
    loop_lane ends[2];
    uint64_t taken;  // records, both ways
    bool lost;
} pair;

static loop_lane *loop_of(whi_lane *lane) {
    return whi_container_of(lane, loop_lane, lane);
}

static loop_lane *peer_of(const loop_lane *loop) {
    pair *both = loop->pair;
    return &both->ends[loop == &both->ends[0]];
}

// ---- the network

wh_status whi_loop_net_create(const whi_loop_opts *opts, whi_loop_net **net) {
    whi_loop_net *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    made->opts = *opts;
    made->opts.window = opts->window ? opts->window : WINDOW;
    made->opts.eager_limit = opts->eager_limit ? opts->eager_limit : EAGER_LIMIT;
    made->opts.chunk_max = opts->chunk_max ? opts->chunk_max : CHUNK_MAX;
    made->holders = 1;
    whi_rng_init(&made->rng, opts->seed);
    whi_pool_init(&made->records, sizeof(record) + made->opts.eager_limit, 0, "loop records");
    whi_pool_init(&made->chunks, sizeof(record) + made->opts.chunk_max, 0, "loop chunks");
    *net = made;
    return WH_OK;
}

void whi_loop_net_release(whi_loop_net *net) {
    if (--net->holders > 0)
        return;
    whi_pool_fini(&net->records);
    whi_pool_fini(&net->chunks);
    whi_free(net);
}

void whi_loop_tick(whi_loop_net *net) {
    net->now++;
}

bool whi_loop_idle(const whi_loop_net *net) {
    return net->in_flight == 0;
}

// ---- records

// lands says whether the payload of a record goes where the receiver's owner says.
static bool lands(const whi_hdr *hdr) {
    return hdr->cls == WHI_CLASS_CHUNK || hdr->cls == WHI_CLASS_LONG;
}

static whi_pool *pool_of(whi_loop_net *net, const whi_hdr *hdr) {
    return lands(hdr) ? &net->chunks : &net->records;
}

static void record_free(whi_loop_net *net, record *rec) {
    net->in_flight--;
    whi_pool_put(pool_of(net, &rec->hdr), rec);
}

// admit tells whether a record may be taken now.
static wh_status admit(loop_lane *from) {
    if (from->broken != WH_OK)
        return from->broken;
    const loop_lane *to = peer_of(from);
    if (from->pair->lost || !to->open)
        return WH_EPEER;
    if (to->in_size < from->net->opts.window)
        return WH_OK;
    from->refused = true;
    return WH_EAGAIN;
}

// record_new makes a record that is admitted.  When memory is out, there is no space now.
static record *record_new(loop_lane *from, const whi_hdr *hdr) {
    record *rec = whi_pool_get(pool_of(from->net, hdr));
    if (!rec) {
        from->refused = true;
        return NULL;
    }
    from->net->in_flight++;
    *rec = (record){.hdr = *hdr};
    return rec;
}

// dispatch puts a record on its way and draws how long that takes.
static void dispatch(loop_lane *from, record *rec) {
    whi_loop_net *net = from->net;
    const whi_loop_opts *opts = &net->opts;
    loop_lane *to = peer_of(from);
    rec->due = net->now;
    if (opts->delay_max > 0)
        rec->due += whi_rng_below(&net->rng, (uint64_t)opts->delay_max + 1);
    whi_list_push_back(&to->in, &rec->node);
    to->in_size++;
    if (++from->pair->taken != opts->drop_after)
        return;
    if (opts->truncate)
        rec->truncated = true;
    else
        from->pair->lost = true;
}

static wh_status loop_send(whi_lane *lane, const whi_hdr *hdr, const void *payload) {
    loop_lane *from = loop_of(lane);
    assert(!lands(hdr) && hdr->size <= from->net->opts.eager_limit);
    wh_status status = admit(from);
    if (status != WH_OK)
        return status;
    record *rec = record_new(from, hdr);
    if (!rec)
        return WH_EAGAIN;
    if (hdr->size > 0)
        memcpy(rec->payload, payload, hdr->size);
    dispatch(from, rec);
    return WH_OK;
}

// fill copies or moves the first bytes of a payload into a record.
static void fill(record *rec, const whi_span *src, size_t size) {
    if (src->ptr)
        memcpy(rec->payload, src->ptr, size);
    else
        src->move(src->ctx, src->base, rec->payload, size);
}

static wh_status loop_send_long(whi_lane *lane, const whi_hdr *front, const void *front_payload,
                                const whi_hdr *hdr, const whi_span *src) {
    loop_lane *from = loop_of(lane);
    assert((!front || front->size <= from->net->opts.eager_limit) && hdr->cls == WHI_CLASS_LONG &&
           hdr->size <= from->net->opts.long_limit);
    wh_status status = admit(from);
    if (status != WH_OK)
        return status;
    record *rec = record_new(from, hdr);
    record *first = rec && front ? record_new(from, front) : NULL;
    if (!rec || (front && !first)) {
        if (rec)
            record_free(from->net, rec);
        return WH_EAGAIN;
    }
    fill(rec, src, hdr->size);
    if (first) {
        if (front->size > 0)
            memcpy(first->payload, front_payload, front->size);
        dispatch(from, first);
    }
    dispatch(from, rec);
    return WH_OK;
}

static wh_status loop_push(whi_lane *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                           size_t *moved) {
    loop_lane *from = loop_of(lane);
    whi_loop_net *net = from->net;
    wh_status status = admit(from);
    if (status != WH_OK)
        return status;
    whi_hdr chunk = *hdr;
    chunk.cls = WHI_CLASS_CHUNK;
    record *rec = record_new(from, &chunk);
    if (!rec)
        return WH_EAGAIN;
    uint64_t part = size < net->opts.chunk_max ? size : net->opts.chunk_max;
    if (net->opts.split)
        part = whi_rng_between(&net->rng, 1, part);
    rec->hdr.size = (uint32_t)part;
    fill(rec, src, part);
    dispatch(from, rec);
    *moved = part;
    return WH_OK;
}

// ---- delivery

// due_now lists the records that may be delivered now, and returns how many.
static unsigned due_now(const loop_lane *to, record *due[OVERTAKES]) {
    const whi_loop_net *net = to->net;
    unsigned count = 0;
    whi_list_foreach(node, &to->in) {
        record *rec = whi_container_of(node, record, node);
        bool first = node == to->in.next;
        if (rec->due <= net->now && (first || !rec->truncated))
            due[count++] = rec;
        // Is it the last that may be delivered now, since those behind it may not overtake it?
        bool last = !net->opts.reorder || rec->truncated || rec->overtaken >= OVERTAKES;
        if (last || count == OVERTAKES)
            break;
    }
    return count;
}

// take removes a record from its queue; those before it were overtaken.
static void take(loop_lane *to, record *rec) {
    for (whi_list *node = to->in.next; node != &rec->node; node = node->next)
        whi_container_of(node, record, node)->overtaken++;
    whi_list_remove(&rec->node);
    to->in_size--;
}

static wh_status deliver_chunk(loop_lane *to, record *rec) {
    const whi_lane *lane = &to->lane;
    whi_span sink = {.ptr = NULL};
    wh_status status = lane->up->sink(lane->link, &rec->hdr, &sink);
    if (status != WH_OK)
        return status;
    size_t size = rec->truncated ? rec->hdr.size / 2 : rec->hdr.size;
    if (sink.ptr)
        memcpy(sink.ptr, rec->payload, size);
    else if (size > 0)
        sink.move(sink.ctx, sink.base, rec->payload, size);
    return rec->truncated ? WH_EPEER : lane->up->landed(lane->link, &rec->hdr);
}

static wh_status deliver(loop_lane *to, record *rec) {
    if (lands(&rec->hdr))
        return deliver_chunk(to, rec);
    return rec->truncated ? WH_EPEER : to->lane.up->deliver(to->lane.link, &rec->hdr, rec->payload);
}

// space_again tells, once, that a sender that was refused may go on.
static bool space_again(loop_lane *from) {
    if (!from->refused || peer_of(from)->in_size >= from->net->opts.window)
        return false;
    from->refused = false;
    return true;
}

// ended tells whether nothing more can come here: the connection is lost, or the peer has closed
// and all that it had sent is delivered.
static bool ended(const loop_lane *loop) {
    return loop->pair->lost || (!peer_of(loop)->open && whi_list_empty(&loop->in));
}

static int loop_poll(whi_lane *lane, int budget) {
    loop_lane *loop = loop_of(lane);
    int events = space_again(loop);
    for (int n = 0; n < budget && loop->broken == WH_OK && !ended(loop); n++) {
        record *due[OVERTAKES];
        unsigned count = due_now(loop, due);
        if (count == 0)
            break;
        record *rec = due[count > 1 ? whi_rng_below(&loop->net->rng, count) : 0];
        take(loop, rec);
        loop->broken = deliver(loop, rec);
        loop->pair->lost |= rec->truncated;
        record_free(loop->net, rec);
        events++;
    }
    if (loop->broken == WH_OK && ended(loop))
        loop->broken = WH_EPEER;
    return loop->broken != WH_OK ? (int)loop->broken : events;
}

static bool loop_ready(whi_lane *lane, bool want_space) {
    const loop_lane *loop = loop_of(lane);
    if (loop->broken != WH_OK || ended(loop))
        return true;
    if (want_space && loop->refused && peer_of(loop)->in_size < loop->net->opts.window)
        return true;
    record *due[OVERTAKES];
    return due_now(loop, due) > 0;
}

// ---- the rest of the vtable

static size_t loop_long_limit(const whi_lane *lane) {
    const loop_lane *loop = (const void *)((const char *)lane - offsetof(loop_lane, lane));
    return loop->net->opts.reorder ? 0 : loop->net->opts.long_limit;
}

static size_t loop_eager_limit(const whi_lane *lane) {
    const loop_lane *loop = (const void *)((const char *)lane - offsetof(loop_lane, lane));
    return loop->net->opts.eager_limit;
}

static bool loop_arm(whi_lane *lane, bool want_space) {
    (void)lane, (void)want_space;  // one thread: while it sleeps, nobody sends
    return false;
}

static void loop_describe(const whi_lane *lane, char *text, size_t size) {
    (void)lane;
    snprintf(text, size, "loop");
}

static void loop_close(whi_lane *lane) {
    loop_lane *loop = loop_of(lane);
    whi_loop_net *net = loop->net;
    for (whi_list *node; (node = whi_list_pop_front(&loop->in));)
        record_free(net, whi_container_of(node, record, node));
    loop->in_size = 0;
    loop->open = false;
    if (!peer_of(loop)->open)
        whi_free(loop->pair);
    whi_loop_net_release(net);
}

#define LOOP_OPS(may_reorder)                                                                      \
    {                                                                                              \
        .name = "loop", .reorders = may_reorder, .eager_limit = loop_eager_limit,                  \
        .long_limit = loop_long_limit, .send = loop_send, .send_long = loop_send_long,             \
        .push = loop_push, .poll = loop_poll, .arm = loop_arm, .ready = loop_ready,                \
        .describe = loop_describe, .close = loop_close                                             \
    }
static const whi_lane_ops ordered_ops = LOOP_OPS(false), reordering_ops = LOOP_OPS(true);

// ---- pairs

static void end_init(loop_lane *loop, pair *both, whi_loop_net *net, const whi_lane_up *up,
                     void *link) {
    whi_lane_init(&loop->lane, net->opts.reorder ? &reordering_ops : &ordered_ops, up, link);
    whi_list_init(&loop->in);
    loop->pair = both;
    loop->net = net;
    loop->open = true;
    net->holders++;
}

wh_status whi_loop_pair(whi_loop_net *net, const whi_lane_up *up_a, void *link_a, whi_lane **a,
                        const whi_lane_up *up_b, void *link_b, whi_lane **b) {
    pair *both = whi_calloc(1, sizeof(*both));
    if (!both)
        return WH_ENOMEM;
    end_init(&both->ends[0], both, net, up_a, link_a);
    end_init(&both->ends[1], both, net, up_b, link_b);
    *a = &both->ends[0].lane;
    *b = &both->ends[1].lane;
    return WH_OK;
}

void whi_loop_disconnect(whi_lane *lane) {
    loop_of(lane)->pair->lost = true;
}
