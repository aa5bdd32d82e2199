// SPDX-License-Identifier: BSD-3-Clause
//
// The model of loop_seeds: what it knows of messages and operations, and what it requires of them, see loop_model.h.
#include "loop_model.h"

#include <stdlib.h>
#include <string.h>

model_state model;

// ---- choices and content: the message's number is in its first bytes when there is room, and in every byte

uint64_t model_draw(uint64_t n) {
    return proc_below(&model.rng, n);
}

bool model_chance(unsigned percent) {
    return model_draw(100) < percent;
}

static void fill(char *buf, size_t size, int id) {
    memset(buf, id & 0xff, size);
    if (size >= sizeof(id))
        memcpy(buf, &id, sizeof(id));
}

bool model_holds(const char *buf, size_t got, size_t size, int id) {
    size_t at = 0;
    if (size >= sizeof(id)) {
        at = got < sizeof(id) ? got : sizeof(id);
        if (memcmp(buf, &id, at) != 0)
            return false;
    }
    for (; at < got; at++)
        if ((uint8_t)buf[at] != (uint8_t)id)
            return false;
    return true;
}

// ---- what arrives

static int ep_of(int side, const wh_endpoint *handle) {
    for (int i = 0; i < model.ep_count; i++)
        if (model.eps[i].handle[side] == handle)
            return i;
    return -1;
}

model_message *model_arrive(int id, int side, model_kind kind) {
    SAY("  side %d gets message %d\n", side, id);
    CHECK(id >= 0 && id < model.message_count);
    model_message *m = &model.messages[id];
    CHECK(m->kind == kind && m->side != side);
    CHECK_INT(m->received, 0);
    m->received = 1;
    m->whole = kind != AM;
    return m;
}

// find_message tells by its size which message a receive has got, and an empty one by its tag and endpoint.
static int find_message(const model_op *o) {
    int ep = o->ep >= 0 || !o->result.source ? o->ep : ep_of(o->side, o->result.source);
    for (int i = 0; i < model.message_count; i++) {
        const model_message *m = &model.messages[i];
        bool fits = m->kind == TAG && m->side != o->side && m->size == o->result.size;
        bool alike = m->tag == o->result.tag && (ep < 0 || m->ep == ep);
        if (fits && (m->size > 0 || (alike && !m->received)))
            return i;
    }
    return -1;
}

static void tag_arrived(model_op *o) {
    o->message = find_message(o);
    model_message *m = model_arrive(o->message, o->side, TAG);
    m->whole = o->room > 0;  // nothing of a payload has to come when there is no room for any of it
    CHECK_INT(o->result.size, m->size);
    CHECK_INT(o->result.tag, m->tag);
    CHECK(((m->tag ^ o->tag) & o->mask) == 0);
    CHECK(o->any || o->ep == m->ep);
    CHECK_STATUS(o->result.status, m->size > o->room ? WH_ETRUNCATED : WH_OK);
    CHECK(model_holds(o->buf, m->size < o->room ? m->size : o->room, m->size, o->message));
}

static void object_arrived(model_op *o) {
    int id = -1;
    size_t size;
    memcpy(&id, wh_object_header(o->result.object, &size), sizeof(id));
    CHECK_INT(size, sizeof(id));
    model_message *m = model_arrive(id, o->side, OBJECT);
    o->message = id;
    CHECK_INT(wh_object_count(o->result.object), (size_t)id % 4);
    for (size_t i = 0; i < (size_t)id % 4; i++) {
        const wh_frame *frame = wh_object_frame(o->result.object, i);
        CHECK_INT(frame->size, i == 1 ? 0 : m->size);
        CHECK(model_holds(frame->data, frame->size, frame->size, id));
    }
    CHECK(((m->tag ^ o->tag) & o->mask) == 0);
    CHECK(o->any || o->ep == m->ep);
    wh_object_free(o->result.object);
}

// pair_of returns the endpoints that an operation is for: of a receive from any source, those of the object that it has met.
static const model_pair *pair_of(const model_op *o) {
    int ep = o->ep < 0 && o->asked >= 0 ? model.messages[o->asked].ep : o->ep;
    return ep < 0 ? NULL : &model.eps[ep];
}

// is_over says whether a close explains ECLOSED: of a send the peer's, of a receive either.
static bool is_over(const model_op *o) {
    const model_pair *p = pair_of(o);
    return p && (p->closed[!o->side] || (!o->send && p->closed[o->side]));
}

static bool is_refused(const model_op *o) {
    return o->refused || (o->send && o->message >= 0 && model.messages[o->message].refused);
}

// check_status requires that the operation's history explains how it has ended.
static void check_status(const model_op *o) {
    wh_status st = o->result.status;
    const model_pair *p = pair_of(o);
    bool troubled = p && p->troubled;
    model.disconnected = model.disconnected || (model.may_lose && st == WH_EPEER && !troubled);
    troubled = troubled || model.disconnected;
    if (st == WH_OK || (st == WH_ETRUNCATED && !o->send))
        return;
    bool withdrawn = o->asked >= 0 && model.messages[o->asked].send->cancelled;
    if (st == WH_ECANCELLED && (o->cancelled || troubled || withdrawn))
        return;
    if (st == WH_ECLOSED && (is_over(o) || model.destroyed))
        return;
    if ((st == WH_EREJECTED || st == WH_ENOMEM) && is_refused(o))
        return;
    if (o->any && !o->cancelled && o->asked < 0)
        proc_fail(__FILE__, __LINE__, "a receive from any source ended with %s",
                  wh_status_name(st));
    if (!troubled || (st != WH_EPEER && st != WH_ECLOSED && st != WH_EREJECTED))
        proc_fail(__FILE__, __LINE__, "operation %d (%s %d) of side %d ended with %s (%s)",
                  (int)(o - model.ops), o->send ? "send" : "receive", o->kind, o->side,
                  wh_status_name(st), o->req ? wh_request_error(o->req) : "");
}

static void ended(model_op *o) {
    CHECK_INT(++o->ended, 1);
    SAY("  operation %d ends: %s\n", (int)(o - model.ops), wh_status_name(o->result.status));
    check_status(o);
    wh_status st = o->result.status;
    if (st < 0)
        model_refuse(o);
    if (!o->send && o->kind == TAG && (st == WH_OK || st == WH_ETRUNCATED))
        tag_arrived(o);
    if (!o->send && o->kind == OBJECT && st == WH_OK)
        object_arrived(o);
    if (!o->send && o->kind == AM && st == WH_OK)
        model.messages[o->message].whole = true;
    bool whole = o->message >= 0 && model.messages[o->message].whole;
    if (o->send && st == WH_ECANCELLED && whole && !o->carried)
        proc_fail(__FILE__, __LINE__, "message %d was cancelled and has arrived", o->message);
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    model_op *o = arg;
    (void)req;
    o->result = *result;
    ended(o);
}

void model_began(model_op *o, wh_status st) {
    if (st == WH_PENDING)
        return;
    if (st != WH_OK)
        o->result.status = st;
    ended(o);
}

// ---- what is started

model_op *model_new_op(model_kind kind, bool send, int side, int ep) {
    if (model.op_count == MODEL_OPS)
        return NULL;
    model_op *o = &model.ops[model.op_count];
    *o = (model_op){.kind = kind, .send = send, .side = side, .ep = ep, .message = -1, .asked = -1};
    o->result.status = WH_PENDING;
    model.op_count++;
    return o;
}

// draw_size gives each message a size of its own, by which even a receive without room for anything tells them apart.  Empty
// ones have none, so there may be only one from each side on each endpoint of each tag.
static size_t draw_size(const model_op *o, uint64_t tag) {
    static const size_t bases[] = {1, 1 + MODEL_MESSAGES, 4000, 7900, 20000, 70000};
    bool empty = model_chance(20);
    for (int i = 0; i < model.message_count && o->kind == TAG; i++) {
        const model_message *m = &model.messages[i];
        if (m->kind == TAG && m->side == o->side && m->ep == o->ep && m->tag == tag && !m->size)
            empty = false;
    }
    size_t base = bases[model_draw(sizeof(bases) / sizeof(bases[0]))];
    return empty ? 0 : base + (size_t)model.message_count;
}

model_message *model_new_message(model_op *o, uint64_t tag) {
    size_t size = draw_size(o, tag);
    o->message = model.message_count++;
    model_message *m = &model.messages[o->message];
    *m = (model_message){
        .kind = o->kind, .side = o->side, .ep = o->ep, .tag = tag, .size = size, .send = o};
    o->buf = malloc(size + 1);
    CHECK(o->buf);
    fill(o->buf, size, o->message);
    return m;
}

const wh_op_opts *model_opts(model_op *o, uint32_t flags, wh_op_opts *opts) {
    *opts = (wh_op_opts){
        .size = sizeof(*opts), .flags = flags, .done = on_done, .arg = o, .result = &o->result};
    return opts;
}

// ---- at the end

static bool is_missing(const model_message *m) {
    bool never = m->send->ended && m->send->result.status != WH_OK;
    const model_pair *p = &model.eps[m->ep];
    return !m->received && !never && !m->refused && !model.disconnected && !p->troubled &&
           !p->closed[!m->side];
}

// is_done_with says whether a message has come, and what its receiver has asked for of it, too.
static bool is_done_with(int id) {
    for (int i = 0; i < model.op_count; i++) {
        const model_op *o = &model.ops[i];
        if (!o->send && o->kind == AM && o->message == id && !o->ended)
            return false;
    }
    return model.messages[id].received || model.messages[id].refused;
}

void model_told(int side, int ep, wh_status why) {
    const model_pair *p = &model.eps[ep];
    SAY("  side %d is told of the end of %d: %s\n", side, ep, wh_status_name(why));
    CHECK_INT(++model.eps[ep].lost[side], 1);
    if (why != WH_ECLOSED || p->troubled || model.disconnected || model.destroyed)
        return;
    for (int i = 0; i < model.message_count; i++) {
        const model_message *m = &model.messages[i];
        bool sent = m->send->ended && m->send->result.status == WH_OK;
        if (m->ep != ep || m->side == side || !sent)
            continue;
        // What is small may still wait for a receive, and an object without frames is small.
        bool large = m->size > 8192 && (m->kind != OBJECT || i % 4);
        large = large && !(m->kind == TAG && model.has_long);
        if ((large || m->kind == AM) && !is_done_with(i))
            proc_fail(__FILE__, __LINE__, "side %d is told of the end before message %d", side, i);
    }
}

const model_message *model_missing(void) {
    for (int i = 0; i < model.message_count; i++)
        if (is_missing(&model.messages[i]))
            return &model.messages[i];
    return NULL;
}

// left_one says whether the receiver's own close of an endpoint has ended a message that a receive may have met.
static bool left_one(const model_op *o, int ep) {
    for (int i = 0; model.eps[ep].closed[o->side] && i < model.message_count; i++) {
        const model_message *m = &model.messages[i];
        if (m->ep == ep && m->side != o->side && m->kind == o->kind && !m->received)
            return true;
    }
    return false;
}

// may_wander says whether a receive may have met a message that never came to it, and have regained its place after others
// were served.
static bool may_wander(const model_op *o) {
    bool wanders = model.disconnected;
    for (int i = 0; i < model.ep_count; i++)
        if (o->any || o->ep == i)
            wanders = wanders || model.eps[i].cancels || model.eps[i].troubled || left_one(o, i);
    return wanders;
}

void model_check_order(void) {
    for (int i = 0; i < model.op_count; i++) {
        const model_op *a = &model.ops[i];
        if (a->send || a->message < 0 || a->kind == AM || may_wander(a))
            continue;
        for (int j = i + 1; j < model.op_count; j++) {
            const model_op *b = &model.ops[j];
            if (b->send || b->message < 0 || a->kind != b->kind || a->side != b->side)
                continue;
            const model_message *x = &model.messages[a->message], *y = &model.messages[b->message];
            // A receive that was cancelled by its allocator has had y before, and given it back.
            if (x->ep != y->ep || model.eps[x->ep].cancels || y->refused ||
                (!a->any && !b->any && a->ep != b->ep))
                continue;
            bool both = ((x->tag ^ b->tag) & b->mask) == 0 && ((y->tag ^ a->tag) & a->mask) == 0;
            if (both && a->message > b->message)
                proc_fail(__FILE__, __LINE__,
                          "operation %d got message %d, and the later operation %d message %d", i,
                          a->message, j, b->message);
        }
    }
}

void model_end(void) {
    for (int i = 0; i < model.op_count; i++) {
        model_op *o = &model.ops[i];
        if (!o->ended)
            proc_fail(__FILE__, __LINE__, "operation %d (%s %d) of side %d has not ended", i,
                      o->send ? "send" : "receive", o->kind, o->side);
        wh_request_free(o->req);
        free(o->buf);
    }
}
