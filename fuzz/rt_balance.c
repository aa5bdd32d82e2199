// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what PEs say to each other in a step of load balancing: loads, moves, gossip.
//
// Whatever loads are read, the moves that are made of them are whole, and name only elements that there are.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/chare/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 7 };

// elements_of returns how many elements a PE has in the loads.
static uint32_t elements_of(const uint8_t *loads, size_t size, uint32_t pe) {
    whi_reader from;
    uint32_t all = 0;
    whi_reader_init(&from, loads, size);
    while (whi_reader_left(&from)) {
        uint32_t number = whi_reader_u32(&from), count = whi_reader_u32(&from);
        (void)whi_reader_bytes(&from, (size_t)count * 9);
        all += number == pe ? count : 0;
    }
    MUST(whi_reader_ok(&from));
    return all;
}

static void check_moves(const uint8_t *loads, size_t size, const whi_blob *moves) {
    whi_reader from, pairs;
    whi_moves part;
    whi_reader_init(&from, moves->data, moves->size);
    while (whi_decide_next(&from, PES, &part)) {
        uint32_t there = elements_of(loads, size, part.pe);
        whi_reader_init(&pairs, part.pairs, (size_t)part.count * 8);
        for (uint32_t i = 0; i < part.count; i++)
            MUST(whi_reader_u32(&pairs) < there && whi_reader_u32(&pairs) < PES);
    }
    MUST(whi_reader_done(&from));
}

static void check_loads(const char *strategy, uint8_t *data, size_t size) {
    wh_pe pe = {.pes = PES};
    whi_chares c = {.pe = &pe};
    whi_hash_init(&c.named);
    whi_collection in = {.def = {.id = 9, .balance = whi_named_id(WHI_NAMED_BALANCER, strategy)}};
    whi_balance b = {.in = &in, .up = {.data = data, .size = size}};
    whi_blob moves = {.data = NULL};
    if (whi_decide(&c, &b, &moves) == WH_OK)
        check_moves(data, size, &moves);
    else
        MUST(!moves.size);
    whi_blob_fini(&moves);
}

static void check_gossip(const uint8_t *data, size_t size) {
    whi_balance b = {.step = 1};
    wh_status st = whi_balance_hear(&b, data, size, PES);
    MUST(st == WH_OK || st == WH_EPROTOCOL);
    for (size_t i = 0; i < b.gossip.count; i++) {
        const whi_gossip_entry *at = &b.gossip.known[i];
        MUST(at->pe >= 0 && at->pe < PES && whi_is_load(at->load));
        MUST(!i || at[-1].pe < at->pe);
    }
    whi_gossip_fini(&b.gossip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1);
    whi_reader from;
    whi_moves moves;
    MUST(copy);
    memcpy(copy, data, size);
    check_loads("greedy", copy, size);
    check_loads("refine", copy, size);
    check_gossip(copy, size);
    whi_reader_init(&from, copy, size);
    while (whi_decide_next(&from, PES, &moves))
        MUST(moves.pe < PES && moves.count <= size / 8);
    free(copy);
    return 0;
}
