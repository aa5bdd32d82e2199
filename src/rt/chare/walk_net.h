// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: a network between the PEs of one thread, of which a seed decides what comes when.
//
// The PEs are one process's, whose messages go by pointer; they go to a worker of the network, which lets each of them come
// later.  Each ordered pair of PEs has a lane for messages and one for control, each in order.  Data may come behind its head, as
// that of large messages from other processes does.  Nothing depends on time: the pause between waves of quiescence ends when the
// seed says so.
#ifndef WHI_RT_CHARE_WALK_NET_H
#define WHI_RT_CHARE_WALK_NET_H

#include "base/rng.h"
#include "rt/pe/pe_kit.h"

enum { NET_PES = 16, NET_LANES = 2 * NET_PES * NET_PES, NET_CONTROL_MAX = 1024 };

typedef struct packet {
    whi_queue_node link;
    wh_post post;
    wh_pe *to;
    int source;
    whi_msg *msg;   // NULL: control
    uint8_t *data;  // of a message whose data is arriving
    size_t size;
    uint8_t control[];
} packet;

static struct {
    whi_rng rng;
    const whi_wire_up *real;
    whi_wire_up up;
    wh_worker *worker;
    whi_wire ways[NET_PES], *to[NET_PES];  // where PEs send, in place of each other's wires
    whi_queue lanes[NET_LANES];
    int busy[NET_LANES], busy_count;  // those that have something
    int slow[NET_LANES];              // percent of its turns that a lane lets pass
    packet *arriving[1 << 16];
    int arriving_count;
    int percent_late;   // messages with data of which the head comes first
    bool pausing;       // PE 0 waits before it asks whether all is quiet
    int idle[NET_PES];  // turns in which a PE has had nothing to do, since something came
    bool never_asleep;
    bool used;         // a PE may have sent something
    uint64_t history;  // a hash of all that came, in its order
} net;

static inline uint64_t draw(uint64_t bound) {
    return whi_rng_below(&net.rng, bound);
}

static inline bool chance(unsigned percent) {
    return whi_rng_chance(&net.rng, percent);
}

static inline int pick(const int *of, int count) {
    return of[draw((uint64_t)count)];
}
#define PICK(...)                                                                                  \
    pick((const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

// net_pe returns a PE that something is done with.
static inline wh_pe *net_pe(int pe) {
    net.idle[pe] = 0;
    net.used = true;
    return job.pe[pe];
}

static inline void net_note(uint64_t what) {
    net.history = (net.history ^ what) * 0x100000001b3;
}

static inline void net_push(packet *p, bool control) {
    int at = 2 * (p->source * NET_PES + wh_pe_number(p->to)) + control;
    if (whi_queue_empty(&net.lanes[at]))
        net.busy[net.busy_count++] = at;
    whi_queue_push(&net.lanes[at], &p->link);
}

static inline packet *net_packet(wh_pe *to, int source, size_t size) {
    packet *p = malloc(sizeof(*p) + size);
    CHECK(p);
    *p = (packet){.to = to, .source = source, .size = size};
    return p;
}

static inline void net_message(void *owner, whi_msg *msg) {
    packet *p = net_packet(owner, msg->pub.source, 0);
    msg->wire = p->to->wire;
    p->msg = msg;
    net_push(p, false);
}

static inline void net_control(void *owner, int source, const void *data, size_t size) {
    packet *p = net_packet(owner, source, size);
    memcpy(p->control, data, size);
    net_push(p, true);
}

static inline void net_begins(packet *p) {
    whi_msg *msg = p->msg;
    p->size = msg->pub.size;
    p->data = malloc(p->size);
    CHECK(p->data && net.arriving_count < (int)(sizeof(net.arriving) / sizeof(net.arriving[0])));
    memcpy(p->data, msg->pub.data, p->size);
    memset(msg->pub.data, 0xEE, p->size);  // nobody may look at it
    msg->arriving = true;
    net.arriving[net.arriving_count++] = p;
    net.real->message(p->to, msg);
}

// What comes, comes in the receiver's progress.
static inline void net_comes(wh_post *post) {
    packet *p = whi_container_of(post, packet, post);
    net_note((uint64_t)p->source << 32 | (uint64_t)p->to->number << 24 | p->size);
    if (p->msg && p->msg->pub.size && chance((unsigned)net.percent_late)) {
        net_begins(p);
        return;
    }
    if (p->msg)
        net.real->message(p->to, p->msg);
    else
        net.real->control(p->to, p->source, p->control, p->size);
    free(p);
}

static inline void net_arrived(wh_post *post) {
    packet *p = whi_container_of(post, packet, post);
    memcpy(p->msg->pub.data, p->data, p->size);
    p->msg->arriving = false;
    net.real->arrived(p->to, p->msg, WH_OK);
    free(p->data);
    free(p);
}

static inline void net_post(packet *p, void (*fn)(wh_post *post)) {
    p->post.fn = fn;
    net.idle[wh_pe_number(p->to)] = 0;
    wh_worker_post(p->to->worker, &p->post);
}

// net_step lets some lane yield something, or not.
static inline void net_step(void) {
    if (net.used)
        (void)wh_worker_progress(net.worker);
    net.used = false;
    if (net.arriving_count && chance(30)) {
        int at = (int)draw((uint64_t)net.arriving_count);
        packet *p = net.arriving[at];
        net.arriving[at] = net.arriving[--net.arriving_count];
        net_post(p, net_arrived);
    }
    if (!net.busy_count)
        return;
    int i = (int)draw((uint64_t)net.busy_count), at = net.busy[i];
    if (chance((unsigned)net.slow[at]))
        return;
    net_post(whi_container_of(whi_queue_pop(&net.lanes[at]), packet, link), net_comes);
    if (whi_queue_empty(&net.lanes[at]))
        net.busy[i] = net.busy[--net.busy_count];
}

// net_turn gives a PE a turn, if there is something to do, and has the clock stand still.
static inline unsigned net_turn(int pe) {
    whi_quiet *q = &job.pe[0]->quiet;
    if (net.pausing && pe == 0 && chance(20)) {
        net.pausing = false;
        net.idle[0] = 0;
        q->again.fn(&q->again, q->again.arg);
    }
    if (net.idle[pe] > 1 && !net.never_asleep)  // one turn may have told itself something
        return 0;
    unsigned done = wh_pe_turn(job.pe[pe]);
    net.used = true;
    net.idle[pe] = done ? 0 : net.idle[pe] + 1;
    if (q->again.state == WHI_TIMER_ARMED) {
        whi_timers_remove(&job.pe[0]->timers, &q->again);
        net.pausing = true;
    }
    return done;
}

static inline bool net_idle(void) {
    return !net.busy_count && !net.arriving_count && !net.pausing;
}

// net_begin makes a job of PEs that are joined by a network.
static inline void net_begin(uint64_t seed, int pes) {
    memset(&net, 0, sizeof(net));
    whi_rng_init(&net.rng, seed);
    kit_begin(pes, pes);
    net.real = job.wires[0]->up;
    net.up = *net.real;
    net.up.message = net_message;
    net.up.control = net_control;
    for (int i = 0; i < NET_LANES; i++) {
        whi_queue_init(&net.lanes[i]);
        net.slow[i] = PICK(0, 0, 0, 50, 90, 98);
    }
    net.percent_late = PICK(0, 10, 60);
    CHECK_EQ_INT(wh_worker_create(job.ctx, NULL, &net.worker), WH_OK);
    for (int i = 0; i < pes; i++) {
        net.ways[i] = (whi_wire){.worker = net.worker,
                                 .pe = i,
                                 .pes = pes,
                                 .up = &net.up,
                                 .owner = job.pe[i],
                                 .free_count = WHI_MSG_FREE_MAX};  // it keeps none
        net.to[i] = &net.ways[i];
        whi_wire_join(job.wires[i], net.to, 0, pes);
    }
}

static inline void net_end(void) {
    wh_worker_destroy(net.worker);
    kit_end();
}

#endif
