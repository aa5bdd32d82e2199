// SPDX-License-Identifier: BSD-3-Clause
//
// A PE's part in a step of load balancing: what it does when it is asked.
#include "base/alloc.h"
#include "rt/chare/step.h"

enum { GOSSIP_SIZE = 12 };

static wh_status do_loads(whi_chares *c, whi_balance *b) {
    whi_gossip_fini(&b->gossip);
    wh_status st = whi_sync_collect(c, b);
    whi_balancer_kind kind = whi_balancer_kind_of(b->in->def.balance);
    if (st == WH_OK && kind != WHI_BALANCER_NONE && kind != WHI_BALANCER_DISTRIBUTED)
        st = whi_decide_write(b, c->pe->number);
    return st;
}

static wh_status do_moves(whi_chares *c, whi_balance *b, const void *data, size_t size) {
    whi_moves moves;
    whi_reader from, pairs;
    whi_reader_init(&from, data, size);
    while (whi_decide_next(&from, c->pe->pes, &moves)) {
        if (moves.pe != (uint32_t)c->pe->number)
            continue;
        whi_reader_init(&pairs, moves.pairs, (size_t)moves.count * 8);
        for (uint32_t i = 0; i < moves.count; i++) {
            uint32_t which = whi_reader_u32(&pairs), to = whi_reader_u32(&pairs);
            if (which >= b->count || to >= (unsigned)c->pe->pes)
                return WH_EPROTOCOL;
            whi_sync_send(c, b, which, to);
        }
    }
    return whi_reader_ok(&from) ? WH_OK : WH_EPROTOCOL;
}

static double own_load(const whi_balance *b) {
    double own = 0;
    for (size_t i = 0; i < b->count; i++)
        own += b->own[i].load;
    return own;
}

// send_known tells a few others what this PE knows.
static wh_status send_known(whi_chares *c, whi_balance *b) {
    size_t size = b->gossip.count * GOSSIP_SIZE;
    void *bytes = size ? whi_malloc(size) : NULL;
    if (!bytes)
        return size ? WH_ENOMEM : WH_OK;
    whi_writer to;
    whi_writer_init(&to, bytes, size);
    for (size_t i = 0; i < b->gossip.count; i++) {
        whi_writer_u32(&to, (uint32_t)b->gossip.known[i].pe);
        whi_writer_f64(&to, b->gossip.known[i].load);
    }
    for (int i = 0; i < WHI_GOSSIP_FANOUT; i++) {
        int other = (int)whi_rng_below(&b->rng, (unsigned)c->pe->pes - 1);
        b->unheard++;
        whi_balance_tell(c, b, other + (other >= c->pe->number), WHI_BALANCE_KNOWN, bytes, size);
    }
    whi_free(bytes);
    return WH_OK;
}

static wh_status do_gossip(whi_chares *c, whi_balance *b, double mean) {
    const whi_gossip_entry self = {.pe = c->pe->number, .load = own_load(b)};
    wh_status st = self.load < mean ? whi_gossip_add(&b->gossip, &self) : WH_OK;
    return st == WH_OK && c->pe->pes > 1 ? send_known(c, b) : st;
}

wh_status whi_balance_hear(whi_balance *b, const void *data, size_t size, int pes) {
    whi_reader from;
    whi_reader_init(&from, data, size);
    wh_status st = WH_OK;
    while (st == WH_OK && whi_reader_left(&from)) {
        whi_gossip_entry entry = {.pe = (int32_t)whi_reader_u32(&from)};
        entry.load = whi_reader_f64(&from);
        if (!whi_reader_ok(&from) || entry.pe < 0 || entry.pe >= pes || !whi_is_load(entry.load))
            return WH_EPROTOCOL;
        st = whi_gossip_add(&b->gossip, &entry);
    }
    return st;
}

static wh_status do_transfer(whi_chares *c, whi_balance *b, double mean) {
    int32_t *to = whi_calloc(b->count + 1, sizeof(*to));
    size_t moved = 0;
    if (!to)
        return WH_ENOMEM;
    for (size_t i = 0; i < b->count; i++)
        to[i] = c->pe->number;
    wh_status st = whi_gossip_transfer(&b->gossip, b->own, b->count, mean, &b->rng, to, &moved);
    for (size_t i = 0; st == WH_OK && moved && i < b->count; i++)
        if (to[i] != c->pe->number)
            whi_sync_send(c, b, i, (uint32_t)to[i]);
    whi_free(to);
    return st;
}

static wh_status read_mean(const void *data, size_t size, double *mean) {
    whi_reader from;
    whi_reader_init(&from, data, size);
    *mean = whi_reader_f64(&from);
    return whi_reader_done(&from) && whi_is_load(*mean) ? WH_OK : WH_EPROTOCOL;
}

static wh_status do_resume(whi_chares *c, whi_balance *b, const void *data, size_t size) {
    whi_reader from;
    whi_reader_init(&from, data, size);
    wh_balance_step *last = &b->last;
    *last = (wh_balance_step){.number = b->step};
    uint64_t *const counts[] = {&last->elements, &last->fixed, &last->moved};
    double *const figures[] = {&last->max_before, &last->mean_before, &last->max_after,
                               &last->mean_after, &last->seconds};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *counts[i] = whi_reader_u64(&from);
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
        *figures[i] = whi_reader_f64(&from);
    b->resumed = b->step;
    whi_list_foreach(node, &b->in->elements)
        whi_sync_resume(c, b, whi_container_of(node, whi_element, link));
    return whi_reader_done(&from) ? WH_OK : WH_EPROTOCOL;
}

wh_status whi_balance_do(whi_chares *c, whi_balance *b, const void *data, size_t size) {
    double mean;
    wh_status st;
    switch ((whi_balance_what)b->asked) {
    case WHI_BALANCE_LOADS: return do_loads(c, b);
    case WHI_BALANCE_MOVES: return do_moves(c, b, data, size);
    case WHI_BALANCE_GOSSIP:
        st = read_mean(data, size, &mean);
        return st == WH_OK ? do_gossip(c, b, mean) : st;
    case WHI_BALANCE_TRANSFER:
        st = read_mean(data, size, &mean);
        return st == WH_OK ? do_transfer(c, b, mean) : st;
    case WHI_BALANCE_AFTER: b->sum.total = b->sum.max = whi_sync_measure(b); return WH_OK;
    case WHI_BALANCE_RESUME: return do_resume(c, b, data, size);
    default: return WH_EPROTOCOL;
    }
}
