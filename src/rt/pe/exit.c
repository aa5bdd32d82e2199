// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a job.
//
// Who wants it asks PE 0, which has everyone stop, down the tree; all say that they have, up the tree; then all are told to go.  So
// nobody leaves before everyone knows of the end, and a PE that finds another one gone has lost it.  Those below a PE that is lost
// are told by the one above it, which does not wait for them.
//
// It takes no longer than the deadline: a PE that waits for one that hangs has the launcher end the job.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/pe/pe.h"

enum { ASK, STOP, STOPPED, GO };
enum { RECORD = 8, LAUNCHER_NS = 500000000 };

static wh_status tell(wh_pe *pe, int dest, int what, int status) {
    uint8_t record[RECORD];
    whi_writer w;
    whi_writer_init(&w, record, sizeof(record));
    whi_writer_u8(&w, WHI_CONTROL_EXIT);
    whi_writer_u8(&w, (uint8_t)what);
    whi_writer_u16(&w, 0);
    whi_writer_u32(&w, (uint32_t)status);
    wh_status st = whi_pe_control(pe, dest, record, sizeof(record));
    if (st != WH_OK)
        whi_log(WHI_DEBUG, "D-RT-01", "PE %d cannot tell PE %d of the end: %s", pe->number, dest,
                wh_status_text(st));
    return st;
}

// tell_below tells those below a PE, and in place of one that cannot be told those below that.  Returns which of the
// first could be, a bit each.
static unsigned tell_below(wh_pe *pe, int above, int what) {
    int first = whi_tree_first_child(above), count = whi_tree_children(above, pe->pes);
    unsigned told = 0;
    for (int i = 0; i < count; i++)
        if (tell(pe, first + i, what, pe->exit.status) == WH_OK)
            told |= 1u << i;
        else
            (void)tell_below(pe, first + i, what);
    return told;
}

static void go(wh_pe *pe) {
    if (pe->exit.state == WHI_END_GONE)
        return;
    (void)tell_below(pe, pe->number, GO);
    if (pe->exit.failed)
        return;
    whi_timers_remove(&pe->timers, &pe->exit.deadline);
    pe->exit.state = WHI_END_GONE;
}

static void all_stopped(wh_pe *pe) {
    if (pe->number == 0)
        go(pe);
    else
        // One that is lost is replaced by somebody above it, who says when to go.
        (void)!(tell(pe, whi_tree_parent(pe->number), STOPPED, 0) == WH_OK);
}

static void on_deadline(whi_timer *timer, void *arg) {
    (void)timer;
    wh_pe *pe = arg;
    const whi_exit *e = &pe->exit;
    unsigned long long ms = pe->exit_timeout_ms;
    if (e->lost)
        whi_pe_fail(pe, "%s", e->lost);
    else if (e->state == WHI_END_ASKED)
        whi_pe_fail(
            pe,
            "PE 0 has not ended the job in %llu ms (exit_timeout): a handler there does not return, "
            "or its process is stopped",
            ms);
    else if (e->missing)
        whi_pe_fail(
            pe,
            "PE %d, or one below it, has not stopped in %llu ms (exit_timeout): a handler there "
            "does not return, or its process is stopped",
            whi_tree_first_child(pe->number) + __builtin_ctz(e->missing), ms);
    else
        whi_pe_fail(pe, "the other PEs have not all stopped in %llu ms (exit_timeout)", ms);
}

static void set_deadline(wh_pe *pe, uint64_t delay_ns) {
    whi_timers_add(&pe->timers, &pe->exit.deadline, whi_clock_ns() + delay_ns);
}

// all_below_stopped: those above wait for others; they are the first to say so.
static void all_below_stopped(wh_pe *pe) {
    set_deadline(pe, pe->exit_timeout_ms * 1000000 + LAUNCHER_NS);
    all_stopped(pe);
}

static void stop(wh_pe *pe, int status) {
    whi_exit *e = &pe->exit;
    if (e->state >= WHI_END_STOPPED)
        return;
    e->state = WHI_END_STOPPED;
    e->status = status;
    set_deadline(pe, pe->exit_timeout_ms * 1000000);
    e->missing = tell_below(pe, pe->number, STOP);
    if (!e->missing && !e->failed)
        all_below_stopped(pe);
}

static void child_stopped(wh_pe *pe, int child) {
    unsigned bit = 1u << child;
    if (pe->exit.state != WHI_END_STOPPED || !(pe->exit.missing & bit))
        return;
    pe->exit.missing &= ~bit;
    if (!pe->exit.missing)
        all_below_stopped(pe);
}

static bool is_above(const wh_pe *pe, int other) {
    int at = pe->number;
    while (at > other)
        at = whi_tree_parent(at);
    return at == other && other != pe->number;
}

// may_say says whether a PE may send this, here and now.
static bool may_say(const wh_pe *pe, int source, int what) {
    switch (what) {
    case ASK: return pe->number == 0;
    case STOP: return is_above(pe, source);
    case STOPPED: return whi_tree_child_of(pe, source) >= 0 && pe->exit.state >= WHI_END_STOPPED;
    case GO: return is_above(pe, source) && pe->exit.state >= WHI_END_STOPPED;
    default: return false;
    }
}

static void on_control(wh_pe *pe, int source, const void *data, size_t size, void *arg) {
    (void)arg;
    whi_reader r;
    whi_reader_init(&r, data, size);
    (void)whi_reader_u8(&r);
    int what = whi_reader_u8(&r);
    (void)whi_reader_u16(&r);
    int status = (int)whi_reader_u32(&r);
    if (!whi_reader_done(&r) || !may_say(pe, source, what))
        whi_wire_reject(pe->wire, source, "what it says about the end of the job cannot be");
    else if (what == ASK || what == STOP)
        stop(pe, status);
    else if (what == STOPPED)
        child_stopped(pe, whi_tree_child_of(pe, source));
    else if (!pe->exit.lost)
        go(pe);
}

void wh_pe_exit(wh_pe *pe, int status) {
    if (pe->exit.state != WHI_END_NONE)
        return;
    pe->exit.state = WHI_END_ASKED;
    pe->exit.status = status;
    set_deadline(pe, pe->exit_timeout_ms * 1000000);
    wh_status st = tell(pe, 0, ASK, status);
    if (st != WH_OK && !pe->exit.failed)
        whi_pe_fail(pe, "PE 0, which ends the job, cannot be asked to: %s", wh_status_text(st));
}

void whi_exit_lost(wh_pe *pe, int lost) {
    if (pe->exit.lost || pe->exit.state == WHI_END_GONE)
        return;
    int child = whi_tree_child_of(pe, lost);
    if (pe->exit.state == WHI_END_ASKED && lost == 0) {
        whi_pe_fail(pe, "PE 0, which was asked to end the job, is lost");
    } else if (pe->exit.state == WHI_END_STOPPED && child >= 0) {
        (void)tell_below(pe, lost, STOP);  // it may not have
        child_stopped(pe, child);
    } else if (pe->exit.state == WHI_END_STOPPED && pe->number &&
               lost == whi_tree_parent(pe->number)) {
        go(pe);
    }
}

void whi_exit_bereft(wh_pe *pe, int lost, const char *sentence) {
    char text[512];
    snprintf(text, sizeof(text), "PE %d is lost: %s", lost, sentence);
    pe->exit.lost = whi_memdup(text, strlen(text) + 1);
    if (!pe->exit.lost) {
        whi_pe_fail(pe, "%s", text);
        return;
    }
    // A launcher knows which process has ended and why, and ends the others: it says so better than each of them.
    pe->exit.state = WHI_END_STOPPED;
    set_deadline(pe, LAUNCHER_NS);
}

wh_status whi_exit_init(wh_pe *pe) {
    whi_timer_init(&pe->exit.deadline, on_deadline, pe);
    whi_pe_set_control(pe, WHI_CONTROL_EXIT, on_control, NULL);
    return WH_OK;
}
