// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: ends of channels on PEs in one thread.  Elements are numbers here; element n is on PE n % pes.
#ifndef WHI_RT_CHANNEL_CHANNEL_KIT_H
#define WHI_RT_CHANNEL_CHANNEL_KIT_H

#include "rt/channel/channels.h"
#include "rt/pe/pe_kit.h"

enum { OPENING = 9, ELEMENTS = 256, BIG = 200 << 10 };

static whi_channels *channels[PES_MAX];
static bool ended[ELEMENTS];

static whi_channel_name name_of(int element) {
    whi_channel_name name = {{0}};
    memcpy(name.bytes, &element, sizeof(element));
    return name;
}

static int element_of(const whi_channel_name *name) {
    int element;
    memcpy(&element, name->bytes, sizeof(element));
    return element;
}

static int home(void *arg, const whi_channel_name *name) {
    (void)arg;
    return element_of(name) % job.pes;
}

static wh_status carry(void *arg, const whi_channel_name *to, const void *opening, size_t size) {
    return wh_pe_send(arg, home(NULL, to), OPENING, to, sizeof(*to), opening, size, 0);
}

static void on_opening(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    whi_channel_name name;
    memcpy(&name, msg->head, sizeof(name));
    CHECK_EQ_INT(whi_channels_arrive(arg, &name, !ended[element_of(&name)], msg->data, msg->size),
                 WH_OK);
}

static void begin(int pes, int ppn) {
    kit_begin(pes, ppn);
    memset(ended, 0, sizeof(ended));
    for (int i = 0; i < pes; i++) {
        whi_channel_carrier carrier = {.open = carry, .home = home, .arg = job.pe[i]};
        CHECK_EQ_INT(whi_channels_create(job.pe[i], &carrier, &channels[i]), WH_OK);
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], OPENING, on_opening, channels[i]), WH_OK);
    }
}

static size_t left(void) {
    size_t n = 0;
    for (int i = 0; i < job.pes; i++)
        n += whi_hash_count(&channels[i]->ends) + whi_hash_count(&channels[i]->elements) +
             whi_pool_out(&channels[i]->ops);
    return n;
}

// end checks that nothing is left of channels that were closed.
static void end(bool clean) {
    if (clean)
        UNTIL(!left());
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
    for (int i = 0; i < job.pes; i++)
        whi_channels_destroy(channels[i]);
}

static wh_channel *open_window(int self, int peer, uint32_t window) {
    whi_channel_name own = name_of(self), other = name_of(peer);
    wh_channel *ch;
    const whi_channel_kind kind = {.window = window};
    CHECK_EQ_INT(whi_channels_open(channels[self % job.pes], &own, &other, &kind, &ch), WH_OK);
    return ch;
}

static wh_channel *open_end(int self, int peer) {
    return open_window(self, peer, 64);
}

static inline void end_element(int element) {
    whi_channel_name name = name_of(element);
    ended[element] = true;
    whi_channels_element_ends(channels[element % job.pes], &name, false);
    whi_channels_element_ends(channels[element % job.pes], &name, true);
}

// open_pair opens both ends, of elements 0 and 1, and has them meet.
static inline void open_pair(wh_channel **a, wh_channel **b) {
    *a = open_end(0, 1);
    *b = open_end(1, 0);
    kit_turns(5);
}

static inline void close_pair(wh_channel *a, wh_channel *b) {
    wh_channel_close(a);
    wh_channel_close(b);
}

// ---- Operations, each of which must end once.

typedef struct op {
    wh_status status;
    size_t size;
    int ends;
    wh_request *req;
    int data[4];
} op;

static void on_op(wh_request *req, const wh_result *result, void *arg) {
    op *o = arg;
    (void)req;
    CHECK(result->source == NULL && result->tag == 0);
    o->ends++;
    o->status = result->status;
    o->size = result->size;
}

static void began(op *o, wh_status st) {
    o->status = st;
    if (st == WH_OK || st < 0)
        o->ends++;
}

static void send(wh_channel *ch, op *o, int value, bool handle) {
    *o = (op){.data = {value, value, value, value}};
    began(o, wh_channel_send(ch, o->data, sizeof(o->data), WH_OP_OPTS(.done = on_op, .arg = o),
                             handle ? &o->req : NULL));
}

static void receive(wh_channel *ch, op *o, bool handle) {
    wh_result result = {.status = WH_OK};
    *o = (op){.status = WH_PENDING};
    began(o, wh_channel_recv(ch, o->data, sizeof(o->data),
                             WH_OP_OPTS(.done = on_op, .arg = o, .result = &result),
                             handle ? &o->req : NULL));
    if (o->status == WH_OK)
        o->size = result.size;
}

// works_on checks that a message goes from one end to the other: what was before it troubles nobody.
static inline void works_on(wh_channel *from, wh_channel *to) {
    op sent, got;
    send(from, &sent, 5, false);
    receive(to, &got, false);
    UNTIL(got.ends && sent.ends);
    CHECK_EQ_INT(got.data[0], 5);
}

static inline bool all_ended(const op *ops, int count) {
    for (int i = 0; i < count; i++)
        if (!ops[i].ends)
            return false;
    return true;
}

static inline void free_all(op *ops, int count) {
    for (int i = 0; i < count; i++) {
        CHECK_EQ_INT(ops[i].ends, 1);
        wh_request_free(ops[i].req);
        ops[i].req = NULL;
    }
}

enum { COUNT = 300 };
static op sends[COUNT], receives[COUNT];

#endif
