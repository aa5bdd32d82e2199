// SPDX-License-Identifier: BSD-3-Clause
//
// One side of a measured conversation: an endpoint, its buffers, and how many messages have come and
// gone.
//
// What is sent (tagged messages, objects, active messages, accesses to the other side's memory)
// stands behind bench_kind, so that each scenario is written once.  All messages of a side use one buffer per direction: what is measured is
// the transport, and ucx_perftest does the same.  The thread that owns the worker uses a side.
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/wherry.h>

#include "bench/buffers.h"
#include "bench/cell.h"

typedef struct bench_side bench_side;

typedef struct bench_kind {
    const char *name;
    wh_status (*post)(bench_side *side);  // posts one receive; NULL when messages come unasked
    wh_status (*send)(bench_side *side);  // sends side->out, or gets into side->in
    bool remote;                          // reaches side->rkey; the other side only progresses
    bool flush;   // done is too early to stop the clock: the effect may still be on its way
    bool reads;   // a send fills side->in
    bool framed;  // a layout is that of its frame, not of the operation
} bench_kind;

struct bench_side {
    wh_worker *worker;  // borrowed
    wh_endpoint *ep;    // borrowed
    bool spin;          // never sleep
    const bench_kind *kind;
    wh_rkey *rkey;  // borrowed; the other side's memory, for remote kinds
    bool blind;     // of atomics: fetch nothing
    bench_buffers memory;
    bool packed, check;   // as in bench_cell
    bool plain;           // its messages are bytes in host memory
    bool flushing;        // all sends are done, and the flush behind them is under way
    char *out, *in;       // what the operations are given: the memory's, or its packed ones
    size_t size;          // of a message as operations are given it: elements of a type, or bytes
    uint64_t posted;      // receives
    uint64_t post_up_to;  // receives are posted again until this many
    uint64_t received;    // messages that have come
    uint64_t started;     // sends
    uint64_t sent;        // sends that are done
    wh_status failed;     // WH_OK, or the first error
    uint64_t deadline_ns;
    uint64_t idle;  // passes of progress in a row that did nothing
    wh_op_opts recv_opts, send_opts;
    wh_result inline_result;  // of a receive that was done at once
};

// bench_kind_find returns the kind of that name ("tag", "put"), or NULL.
const bench_kind *bench_kind_find(const char *name);

// bench_side_init makes a side of an endpoint and sets the worker's handler of active messages.
// Undone by bench_side_fini.
wh_status bench_side_init(bench_side *side, wh_endpoint *ep, bool spin);
void bench_side_fini(bench_side *side);

// bench_side_begin starts a run: zero counters, buffers for the messages of `cell` with all pages
// present, marked if that asks for a check, and `timeout_s` until it counts as hung.
wh_status bench_side_begin(bench_side *side, const bench_kind *kind, const bench_cell *cell,
                           unsigned timeout_s);

// bench_side_expect keeps up to a window of receives posted until `count` have been.
void bench_side_expect(bench_side *side, uint64_t count);

// bench_side_post posts one receive.
void bench_side_post(bench_side *side);

// bench_side_send starts one send.
void bench_side_send(bench_side *side);

// bench_side_flush starts a flush, which counts as a send.
void bench_side_flush(bench_side *side);

// bench_side_overdue notes a run that hangs.
bool bench_side_overdue(bench_side *side);

// bench_side_step progresses once, sleeping when the mode says so.  False when the run has failed.
static inline bool bench_side_step(bench_side *side) {
    enum { IDLE_BETWEEN_CHECKS = 1 << 16 };
    if (!side->spin) {
        if (wh_worker_wait(side->worker, 1000) != WH_OK && bench_side_overdue(side))
            return false;
    } else if (wh_worker_progress(side->worker)) {
        side->idle = 0;
    } else if (++side->idle % IDLE_BETWEEN_CHECKS == 0 && bench_side_overdue(side)) {
        return false;
    }
    return side->failed == WH_OK;
}

#endif
