// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: the PEs of a job in one thread, which steps them.
#ifndef WHI_RT_PE_PE_KIT_H
#define WHI_RT_PE_PE_KIT_H

#include "base/clock.h"
#include "base/test.h"
#include "rt/pe/pe.h"
#include "rt/wire/state.h"

enum { PES_MAX = 64 };

// How many PEs a process has: those of one hand messages over by pointer, the others use endpoints.
static struct {
    wh_context *ctx;
    wh_pe *pe[PES_MAX];
    whi_wire *wires[PES_MAX];
    whi_contact contact[PES_MAX];  // also of those that are lost
    int contacts[PES_MAX];         // how often it was asked for
    int pes;
    int failures;  // calls of `failed`
    char failure[512];
    int lost;  // calls of `lost`
    wh_lost_pe_fn on_lost;
    uint64_t exit_timeout_ms;
    size_t inbox_max;
} job = {.exit_timeout_ms = 60000, .inbox_max = 1 << 20};

// Until something counts as hung.  The exit's deadline is beyond it, so that no job fails because its
// machine is slow.
enum { KIT_PATIENCE_S = 40 };

static const uint8_t kit_ticket[WHI_TICKET_SIZE] = "kit";

static wh_status kit_contact(wh_pe *pe, int other, whi_contact *contact) {
    (void)pe;
    *contact = job.contact[other];
    job.contacts[other]++;
    return WH_OK;
}

static void kit_failed(wh_pe *pe, const char *sentence) {
    (void)pe;
    job.failures++;
    snprintf(job.failure, sizeof(job.failure), "%s", sentence);
}

static void kit_lost(wh_pe *pe, int lost, const char *sentence, void *arg) {
    CHECK(*sentence);
    job.lost++;
    if (job.on_lost)
        job.on_lost(pe, lost, sentence, arg);
}

// kit_begin makes a job of `pes` PEs, `ppn` in each process.
static inline void kit_begin(int pes, int ppn) {
    CHECK_EQ_INT(wh_context_create(NULL, &job.ctx), WH_OK);
    job.pes = pes;
    job.failures = job.lost = 0;
    memset(job.contacts, 0, sizeof(job.contacts));
    for (int i = 0; i < pes; i++) {
        whi_pe_opts opts = {.wire = {.ctx = job.ctx,
                                     .pe = i,
                                     .pes = pes,
                                     .ticket = kit_ticket,
                                     .inbox_max = job.inbox_max},
                            .exit_timeout_ms = job.exit_timeout_ms,
                            .stack = 64 << 10,
                            .lost = kit_lost,
                            .failed = kit_failed,
                            .contact = kit_contact};
        CHECK_EQ_INT(whi_pe_create(&opts, &job.pe[i]), WH_OK);
        job.wires[i] = job.pe[i]->wire;
        whi_contact *contact = &job.contact[i];
        contact->blob_size = sizeof(contact->blob);
        memcpy(contact->ticket, kit_ticket, sizeof(kit_ticket));
        CHECK_EQ_INT(wh_worker_address(job.pe[i]->worker, contact->blob, &contact->blob_size),
                     WH_OK);
    }
    for (int i = 0; i < pes && ppn > 1; i++)
        whi_wire_join(job.wires[i], &job.wires[i / ppn * ppn], i / ppn * ppn, ppn);
}

// kit_turn gives each PE that is still there a turn, and returns how much they did.
static inline unsigned kit_turn(void) {
    unsigned done = 0;
    for (int i = 0; i < job.pes; i++)
        if (job.pe[i])
            done += wh_pe_turn(job.pe[i]);
    return done;
}

// UNTIL turns all PEs until something holds, for as long as the patience lasts.
#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        uint64_t until_end = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;                       \
        while (!(cond)) {                                                                          \
            kit_turn();                                                                            \
            if (whi_clock_ns() > until_end)                                                        \
                whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "UNTIL(%s)", #cond);             \
        }                                                                                          \
    } while (0)

static inline void kit_turns(int count) {
    for (int i = 0; i < count; i++)
        kit_turn();
}

static inline bool kit_all_gone(void) {
    for (int i = 0; i < job.pes; i++)
        if (job.pe[i] && !whi_pe_gone(job.pe[i]))
            return false;
    return true;
}

// kit_close has all PEs close their wires, as they do when the job has ended.
static inline void kit_close(void) {
    bool open = true;
    for (int i = 0; i < job.pes; i++)
        if (job.pe[i])
            whi_wire_close(job.wires[i], (int)job.exit_timeout_ms);
    for (uint64_t end = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S; open;) {
        open = false;
        for (int i = 0; i < job.pes; i++)
            if (job.pe[i] && !whi_wire_closed(job.wires[i])) {
                open = true;
                kit_turn();
            }
        CHECK(whi_clock_ns() < end);
    }
}

// kit_kill ends a PE at once, as a crash does.
static inline void kit_kill(int pe) {
    whi_pe_destroy(job.pe[pe]);
    job.pe[pe] = NULL;
}

static inline void kit_is_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    *(bool *)arg = true;
}

// kit_settle waits until nothing is under way; what is not counted would have it too early or never.
static inline void kit_settle(void) {
    bool quiet = false;
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], kit_is_quiet, &quiet), WH_OK);
    UNTIL(quiet);
}

static inline void kit_end(void) {
    job.on_lost = NULL;
    for (int i = 0; i < job.pes; i++) {
        if (job.pe[i])
            whi_pe_destroy(job.pe[i]);
        job.pe[i] = NULL;
    }
    wh_context_destroy(job.ctx);
}

// kit_finish ends a job that has not failed.
static inline void kit_finish(void) {
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

// kit_fill makes bytes that kit_is_filled knows again.
static inline void kit_fill(char *data, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7 + i / 256 + seed);
}

static inline bool kit_is_filled(const char *data, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        if (data[i] != (char)(i * 7 + i / 256 + seed))
            return false;
    return true;
}

#endif
