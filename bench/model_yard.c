// SPDX-License-Identifier: BSD-3-Clause
//
// See model_yard.h.
//
// The PE has to go on with its progress until the lead has been told that the follower is ready, and while it runs nothing but the
// yardstick moves.  So a run begins with a message of its own, for which the follower waits while its PE moves.
#include "bench/model_yard.h"

#include "bench/scenario.h"

#include <string.h>

enum { GO_TAG = 3, TIMEOUT_S = 60 };

static void on_accept(wh_endpoint *ep, void *arg) {
    bench_yard *yard = arg;
    if (yard->ep)
        wh_endpoint_abort(ep);
    else
        yard->ep = ep;
}

wh_status bench_yard_init(bench_yard *yard, wh_pe *pe, const bench_memory *memory) {
    memset(yard, 0, sizeof *yard);
    yard->pe = pe;
    yard->memory = *memory;
    return wh_worker_create(wh_rt_context(wh_pe_rt(pe)),
                            WH_WORKER_OPTS(.accept = on_accept, .accept_arg = yard), &yard->worker);
}

void bench_yard_fini(bench_yard *yard) {
    if (yard->open)
        bench_side_fini(&yard->side);
    if (yard->ep)
        wh_endpoint_abort(yard->ep);
    if (yard->worker)
        wh_worker_destroy(yard->worker);
    memset(yard, 0, sizeof *yard);
}

wh_status bench_yard_address(bench_yard *yard, void *blob, size_t *size) {
    return wh_worker_address(yard->worker, blob, size);
}

// poll is an idle function of the PE.
static bool poll(wh_pe *pe, void *arg) {
    bench_yard *yard = arg;
    (void)wh_worker_progress(yard->worker);
    if (!yard->until(yard))
        return true;
    wh_pe_resume(pe, &yard->wait);
    return false;
}

static wh_status await(bench_yard *yard, bool (*until)(const bench_yard *yard)) {
    yard->until = until;
    yard->wait = (wh_wait){.done = false};
    wh_status st = wh_pe_on_idle(yard->pe, poll, yard, NULL);
    return st == WH_OK ? wh_pe_wait(yard->pe, &yard->wait) : st;
}

static bool has_endpoint(const bench_yard *yard) {
    return yard->ep;
}

static bool is_connected(const bench_yard *yard) {
    return wh_endpoint_status(yard->ep) != WH_PENDING;
}

static bool has_go(const bench_yard *yard) {
    wh_result found;
    return wh_endpoint_status(yard->ep) != WH_OK ||
           wh_tag_probe(yard->ep, GO_TAG, WH_TAG_MASK_ALL, &found) == WH_OK;
}

static wh_status begin(bench_yard *yard, bool spin) {
    wh_status st = bench_side_init(&yard->side, yard->ep, spin);
    yard->open = st == WH_OK;
    yard->side.memory.kind = yard->memory.kind;
    yard->side.memory.managed = yard->memory.managed;
    return st;
}

wh_status bench_yard_connect(bench_yard *yard, const void *blob, size_t size, bool spin) {
    wh_status st = wh_endpoint_connect_blob(yard->worker, blob, size, NULL, &yard->ep);
    if (st == WH_OK)
        st = await(yard, is_connected);
    if (st == WH_OK)
        st = wh_endpoint_status(yard->ep);
    return st == WH_OK ? begin(yard, spin) : st;
}

wh_status bench_yard_accept(bench_yard *yard, bool spin) {
    wh_status st = await(yard, has_endpoint);
    return st == WH_OK ? begin(yard, spin) : st;
}

wh_status bench_yard_lead(bench_yard *yard, const bench_kind *kind, const bench_cell *cell,
                          bench_hist *hist) {
    wh_status st = bench_side_begin(&yard->side, kind, cell, TIMEOUT_S);
    if (st == WH_OK)
        st = wh_tag_send_wait(yard->ep, NULL, 0, GO_TAG, TIMEOUT_S * 1000);
    return st == WH_OK ? bench_pingpong_lead(&yard->side, cell->count, hist) : st;
}

wh_status bench_yard_follow(bench_yard *yard, const bench_kind *kind, const bench_cell *cell) {
    wh_status st = bench_side_begin(&yard->side, kind, cell, TIMEOUT_S);
    if (st != WH_OK)
        return st;
    bench_side_expect(&yard->side, 1);
    st = await(yard, has_go);
    if (st != WH_OK)
        return st;
    st = wh_tag_recv_wait(yard->ep, NULL, 0, GO_TAG, WH_TAG_MASK_ALL, TIMEOUT_S * 1000, NULL);
    return st == WH_OK ? bench_pingpong_follow(&yard->side, cell->count) : st;
}
