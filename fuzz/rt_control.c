// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: control that a PE gets from others of its job, right, wrong or out of place.
//
// The first byte says which PE of 22 it is.  Then records follow: the sender, the number of bytes, and they.  Between them the PE has
// turns, as does what it is to say: nobody is reached, but PEs of its own process, which hear it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/pe/pe.h"
#include "rt/wire/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 22, MINE = 2 };

static const uint8_t ticket[WHI_TICKET_SIZE];

static wh_status contact(wh_pe *pe, int other, whi_contact *found) {
    (void)pe;
    (void)other;
    (void)found;
    return WH_EPEER;
}

static void failed(wh_pe *pe, const char *sentence) {
    MUST(pe->exit.failed && *sentence);
}

static void lost(wh_pe *pe, int other, const char *sentence, void *arg) {
    (void)arg;
    MUST(other >= 0 && other < PES && *sentence);
    if (other == 3)
        wh_pe_exit(pe, 1);
}

static void on_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    --*(int *)arg;
}

static void check(const wh_pe *pe, int quiet) {
    int children = whi_tree_children(pe->number, PES);
    MUST(pe->exit.missing < 1u << children && pe->quiet.missing < 1u << children);
    MUST(pe->exit.state != WHI_END_STOPPED || whi_timers_count(&pe->timers));
    MUST(quiet >= 0);
}

static void run(wh_pe *pe, wh_pe *sibling, const uint8_t *data, size_t size) {
    int quiet = 1;
    MUST(wh_pe_on_quiescence(pe, on_quiet, &quiet) == WH_OK);
    while (size >= 2) {
        int source = data[0] % PES;
        size_t length = data[1] < size - 2 ? data[1] : size - 2;
        whi_peer *peer;
        MUST(whi_wire_peer(pe->wire, source, &peer) == WH_OK);
        if (peer->lost == WH_OK)
            pe->wire->up->control(pe, source, data + 2, length);
        wh_pe_turn(pe);
        wh_pe_turn(sibling);
        check(pe, quiet);
        data += 2 + length;
        size -= 2 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static wh_context *ctx;
    wh_pe *pe[MINE];
    whi_wire *wires[MINE];
    if (!ctx)
        MUST(wh_log_set_level("off") == WH_OK && wh_context_create(NULL, &ctx) == WH_OK);
    if (!size)
        return 0;
    int first = data[0] % (PES / MINE) * MINE;
    for (int i = 0; i < MINE; i++) {
        whi_pe_opts opts = {.wire = {.ctx = ctx,
                                     .pe = first + i,
                                     .pes = PES,
                                     .ticket = ticket,
                                     .inbox_max = 1 << 20},
                            .exit_timeout_ms = 1000,
                            .lost = lost,
                            .failed = failed,
                            .contact = contact};
        MUST(whi_pe_create(&opts, &pe[i]) == WH_OK);
        wires[i] = pe[i]->wire;
    }
    for (int i = 0; i < MINE; i++)
        whi_wire_join(wires[i], wires, first, MINE);
    run(pe[0], pe[1], data + 1, size - 1);
    for (int i = 0; i < MINE; i++)
        whi_pe_destroy(pe[i]);
    return 0;
}
